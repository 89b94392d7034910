"""Different from the reference: a binary search over the answer; one test says whether so many blocks fit."""


def _fit(blocks, registers_per_thread, shared_bytes, warps, hw):
    def units(amount, unit):
        return -(-amount // unit)

    warp_registers = units(registers_per_thread * hw["warp_size"], hw["register_unit"]) * hw["register_unit"]
    # Spread the warps as evenly as they go: the fullest partition holds the ceiling.
    fullest = units(blocks * warps, hw["partitions"])
    shared = units(shared_bytes + hw["shared_reserved"], hw["shared_unit"]) * hw["shared_unit"]
    return (
        blocks <= hw["max_blocks"]
        and blocks * warps <= hw["max_warps"]
        and blocks * warps * hw["warp_size"] <= hw["max_threads"]
        and fullest * warp_registers <= hw["registers"] // hw["partitions"]
        and blocks * shared <= hw["shared"]
    )


def blocks_per_sm(registers_per_thread: int, shared_bytes: int, warps: int, hw: dict) -> int:
    if registers_per_thread < 0 or shared_bytes < 0 or warps <= 0:
        raise ValueError("not a block")
    if registers_per_thread > hw["max_registers_per_thread"]:
        return 0
    if warps * hw["warp_size"] > hw["max_threads_per_block"]:
        return 0
    low, high = 0, hw["max_blocks"] + 1  # `low` blocks fit, `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        if _fit(middle, registers_per_thread, shared_bytes, warps, hw):
            low = middle
        else:
            high = middle
    return low

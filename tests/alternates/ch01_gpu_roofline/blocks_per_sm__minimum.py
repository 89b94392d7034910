"""Different from the reference: every resource as (capacity, need), with infinity where there is no need."""

from math import ceil, inf


def blocks_per_sm(registers_per_thread: int, shared_bytes: int, warps: int, hw: dict) -> int:
    if min(registers_per_thread, shared_bytes, warps - 1) < 0:
        raise ValueError(f"{registers_per_thread=} {shared_bytes=} {warps=}")
    threads = warps * hw["warp_size"]
    if threads > hw["max_threads_per_block"] or registers_per_thread > hw["max_registers_per_thread"]:
        return 0
    register_units = ceil(registers_per_thread * hw["warp_size"] / hw["register_unit"])
    units_of_a_partition = hw["registers"] // hw["partitions"] // hw["register_unit"]
    warps_by_registers = units_of_a_partition // register_units * hw["partitions"] if register_units else inf
    shared_units = ceil((shared_bytes + hw["shared_reserved"]) / hw["shared_unit"])
    needs = [
        (hw["max_blocks"], 1),
        (hw["max_warps"], warps),
        (hw["max_threads"], threads),
        (warps_by_registers, warps),
        (hw["shared"] // hw["shared_unit"], shared_units),
    ]
    return int(min(capacity // need for capacity, need in needs if need and capacity is not inf))

"""How many blocks of a kernel one SM holds at a time (its occupancy), from the hardware's allocation rules.

A block is placed whole or not at all, so each resource gives a limit of its own and the smallest decides.
Source of the rules: NVIDIA's occupancy calculator (cuda_occupancy.h, shipped with the CUDA toolkit and with
Triton).
"""


def _round_up(value: int, unit: int) -> int:
    """The next multiple of `unit`: hardware hands out whole units only."""
    return (value + unit - 1) // unit * unit


def blocks_per_sm(registers_per_thread: int, shared_bytes: int, warps: int, hw: dict) -> int:
    """Blocks resident on one SM; 0 where not even one fits.

    registers_per_thread >= 0 as the compiler reports it, shared_bytes >= 0 that the kernel asks for, warps >=
    1 in a block. The keys of hw are listed in the exercise. Raises ValueError outside these ranges.
    """
    if registers_per_thread < 0 or shared_bytes < 0:
        raise ValueError(f"registers and bytes cannot be negative ({registers_per_thread}, {shared_bytes})")
    if warps < 1:
        raise ValueError(f"a block has at least one warp (got {warps})")

    # A launch that breaks a limit of a thread or of a block fails at once, however empty the SM is.
    threads = warps * hw["warp_size"]
    if registers_per_thread > hw["max_registers_per_thread"] or threads > hw["max_threads_per_block"]:
        return 0

    limits = [
        hw["max_blocks"],
        hw["max_warps"] // warps,
        hw["max_threads"] // threads,
    ]

    # Registers go to warps, in whole units, and a warp lives in one partition: what is left over in one
    # partition cannot be lent to a warp of another. Hence two floors, not one.
    warp_registers = _round_up(registers_per_thread * hw["warp_size"], hw["register_unit"])
    if warp_registers > 0:
        partition_registers = hw["registers"] // hw["partitions"]
        resident_warps = partition_registers // warp_registers * hw["partitions"]
        limits.append(resident_warps // warps)

    # The reserve comes on top of what the kernel asks for, and the sum is rounded, not each part.
    block_shared = _round_up(shared_bytes + hw["shared_reserved"], hw["shared_unit"])
    if block_shared > 0:
        limits.append(hw["shared"] // block_shared)

    return min(limits)

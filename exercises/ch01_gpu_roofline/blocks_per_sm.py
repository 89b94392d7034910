"""Exercise ch01.blocks_per_sm: how many blocks of a kernel one SM holds at a time.

A block is placed on an SM whole or not at all, and stays there until it is done. The SM takes blocks as long
as each of its resources has room for one more. There is no kernel in this exercise: it is plain Python.

The keys of `hw`, all of them integers >= 1 except shared_reserved >= 0 (in brackets: an H200):

    warp_size                 threads in a warp                                            (32)
    max_threads_per_block     a block with more threads cannot be launched                 (1024)
    max_registers_per_thread  a kernel with more cannot be launched                        (255)
    max_blocks                blocks on an SM                                              (32)
    max_warps                 warps on an SM                                               (64)
    max_threads               threads on an SM                                             (2048)
    registers                 registers of an SM                                           (65536)
    partitions                equal parts of an SM; each owns registers // partitions      (4)
    register_unit             registers are given to a warp in multiples of this           (256)
    shared                    bytes of shared memory of an SM                              (233472)
    shared_unit               shared memory is given to a block in multiples of this       (128)
    shared_reserved           bytes that the system takes for each block, on top           (1024)

The rules of allocation:

1. A block has warps * warp_size threads. More than max_threads_per_block of them, or registers_per_thread
   above max_registers_per_thread: the launch fails, the answer is 0.
2. An SM holds at most max_blocks blocks, max_warps warps and max_threads threads.
3. A warp takes registers_per_thread * warp_size registers, rounded up to a multiple of register_unit. All of
   them come from one partition. The warps of a block may be in different partitions, in any arrangement.
4. A block takes shared_bytes + shared_reserved bytes of shared memory; the sum is rounded up to a multiple of
   shared_unit.
5. What takes nothing limits nothing (no registers, or no shared memory and no reserve).
"""


def blocks_per_sm(registers_per_thread: int, shared_bytes: int, warps: int, hw: dict) -> int:
    """The number of blocks resident on one SM at a time; 0 if not even one fits.

    registers_per_thread   >= 0, what the compiler reports
    shared_bytes           >= 0, what the kernel asks for
    warps                  >= 1, in a block

    Raises ValueError for registers_per_thread < 0, shared_bytes < 0 or warps < 1. `hw` is not changed.

    Example, with the figures of an H200: 8 warps of 96 registers and 32 KiB of shared memory. Registers allow
    2 blocks, shared memory 6, warps 8:

        >>> blocks_per_sm(96, 32768, 8, H200)
        2
    """
    # TODO 1: the arguments that are no block at all.
    # TODO 2: a block that can never be launched.
    # TODO 3: how many blocks each resource allows; mind where the rules round, and to what.
    # TODO 4: the answer from these limits.
    raise NotImplementedError("ch01.blocks_per_sm")

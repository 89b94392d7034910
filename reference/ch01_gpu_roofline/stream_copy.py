"""A copy at the speed of the memory: the smallest whole Triton program, and the yardstick for later ones."""

import torch
import triton
import triton.language as tl

# An integer type of each width. A copy is about bits, and integers have no NaN that a conversion could
# rewrite.
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# Bytes that one program moves. With 8 warps (256 threads) that is one load of 16 bytes a thread, the widest there
# is. By Little's law it is the bytes in flight that fill the bus: 2,048 threads of a multiprocessor have 32 KiB of
# them. Longer programs (128 bytes a thread) were measured 5 % slower on an H200: each waits for all its loads
# before its first store, and then for its stores, while short ones come and go and keep both directions busy.
PROGRAM_BYTES = 4 * 1024


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    # int64 before the product: with 2**31 elements or more, pid * BLOCK no longer fits in int32.
    start = tl.program_id(0).to(tl.int64) * BLOCK
    # Neighbouring lanes take neighbouring elements, so a warp's accesses join into whole cache lines, and the
    # compiler makes 16-byte instructions of them (it knows that the pointers, and n where it is so, are
    # multiples of 16).
    offsets = start + tl.arange(0, BLOCK)
    # The last block hangs over the end: both the load and the store must stay inside.
    inside = offsets < n
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=inside), mask=inside)


def stream_copy(x: torch.Tensor) -> torch.Tensor:
    """A new contiguous tensor with the bits of x: any shape, any strides, any dtype of 1, 2, 4 or 8 bytes."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    if n == 0:
        return y  # nothing to launch

    bits = BITS[x.element_size()]
    # A kernel that walks memory in a straight line needs its input in a straight line. For a contiguous x
    # `contiguous()` returns x itself; chapter 3 does without it for the others.
    source, target = x.contiguous().view(bits), y.view(bits)
    block = PROGRAM_BYTES // x.element_size()
    # Triton launches on the current device, which need not be the one that x lives on.
    with torch.cuda.device_of(x):
        copy_kernel[(triton.cdiv(n, block),)](source, target, n, BLOCK=block, num_warps=8)
    return y

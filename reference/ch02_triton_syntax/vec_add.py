"""Vector addition: one program adds one block of elements."""

import torch
import triton
import triton.language as tl

# 2,048 elements in a program of 4 warps are 16 elements a thread: several 16-byte loads of each input
# are in flight at once, which is what hides the latency of DRAM.
BLOCK = 2048


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    # A program's own block starts at pid * BLOCK. Past 2**31 elements that product no longer fits into the
    # int32 that program_id returns, so the cast comes before the multiplication.
    start = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    # The last block sticks out when BLOCK does not divide n. Its lanes past the end neither load nor store.
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x + y, mask=inside)


def vec_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """z = x + y, element by element; x and y have the same shape and dtype, each its own layout."""
    # The kernel sees memory as a line: element i lies at pointer + i. Only in a contiguous tensor is that so;
    # other layouts are first copied in order (a contiguous tensor is passed on as it is).
    x_line = x.contiguous()
    y_line = y.contiguous()
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = z.numel()
    if n == 0:  # nothing to launch
        return z
    # A launch goes to the current device, which need not be the one that x lies on (no effect on the CPU).
    with torch.cuda.device_of(x):
        add_kernel[(triton.cdiv(n, BLOCK),)](x_line, y_line, z, n, BLOCK=BLOCK, num_warps=4)
    return z

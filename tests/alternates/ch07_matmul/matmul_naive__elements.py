"""matmul_naive in another style: one element of C a program, a dot product of a row and a column.

Differs from the reference: a two-dimensional grid; the partial sums stay in lanes along K and are folded once,
after the loop, so the order of the additions is another one.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def element(a_ptr, b_ptr, c_ptr, K, am, ak, bk, bn, cm, LANES: tl.constexpr):
    m = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1).to(tl.int64)
    lanes = tl.arange(0, LANES).to(tl.int64)
    partial = tl.zeros([LANES], tl.float32)
    for start in range(0, K, LANES):
        k = start + lanes
        x = tl.load(a_ptr + m * am + k * ak, mask=k < K, other=0).to(tl.float32)
        y = tl.load(b_ptr + k * bk + n * bn, mask=k < K, other=0).to(tl.float32)
        partial += x * y
    tl.store(c_ptr + m * cm + n, tl.sum(partial, axis=0).to(c_ptr.dtype.element_ty))


def matmul_naive(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = a.new_empty(a.shape[0], b.shape[1])
    if c.numel() > 0:
        # Columns in the second dimension of the grid: at most 65,535 of them.
        with torch.cuda.device_of(a):
            element[c.shape](a, b, c, a.shape[1], *a.stride(), *b.stride(), c.stride(0), LANES=256, num_warps=2)
    return c

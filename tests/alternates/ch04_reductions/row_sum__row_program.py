"""row_sum in another style: one program a row, a one-dimensional block, a single running sum.

Differs from the reference: no tile of rows; each block is folded at once and added to a scalar; a matrix
whose rows are not contiguous is copied by the host first.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def one_row(x_ptr, out_ptr, N, pitch, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start_ptr = x_ptr + row.to(tl.int64) * pitch
    total = tl.zeros([1], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(start_ptr + cols, mask=cols < N, other=0).to(tl.float32), axis=0)
    tl.store(out_ptr + row + tl.arange(0, 1), total)


def row_sum(x: torch.Tensor) -> torch.Tensor:
    if x.stride(1) != 1:
        x = x.contiguous()
    out = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if out.numel():
        one_row[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK=2048)
    return out

"""Tiles of several rows: a 2-D block a program, each block reduced at once, the division rounded to nearest."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, mask_ptr, out_ptr, M, N, xm, xn, mm, mn, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS], dtype=tl.float32)
    count = tl.zeros([ROWS], dtype=tl.float32)  # whole numbers up to 2**24 are exact in float32
    for start in range(0, N, COLS):
        cols = start + tl.arange(0, COLS).to(tl.int64)
        inside = (rows < M)[:, None] & (cols < N)[None, :]
        keep = tl.load(mask_ptr + rows[:, None] * mm + cols[None, :] * mn, mask=inside, other=0)
        x = tl.load(x_ptr + rows[:, None] * xm + cols[None, :] * xn, mask=inside, other=0.0).to(tl.float32)
        total += tl.sum(tl.where(keep, x, 0.0), axis=1)
        count += tl.sum(keep.to(tl.float32), axis=1)
    tl.store(out_ptr + rows, tl.math.div_rn(total, count), mask=rows < M)


def masked_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    if M:
        with torch.cuda.device_of(x):
            kernel[(triton.cdiv(M, 4),)](x, mask, out, M, N, *x.stride(), *mask.stride(), ROWS=4, COLS=512)
    return out

"""softmax in another style: a fixed number of programs that take rows in turn, autotuned warps.

Differs from the reference: the grid does not grow with x (a grid-stride loop over rows); no tile of rows; a leading
shape of up to three dimensions is walked with its own strides, and only what has more is copied; log2(e) multiplies x
before the subtraction, where that cannot overflow.
"""

import torch
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
PROGRAMS = 264


@triton.autotune(configs=[triton.Config({}, num_warps=4), triton.Config({}, num_warps=8)], key=["N"])
@triton.jit
def rows_in_turn(x_ptr, y_ptr, count, size_1, size_2, N, s0, s1, s2, sn, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    for turn in range(ROWS):
        row = tl.program_id(0).to(tl.int64) + turn * tl.num_programs(0)
        start = (row // (size_1 * size_2)) * s0 + (row // size_2 % size_1) * s1 + (row % size_2) * s2
        mask = inside & (row < count)
        x = tl.load(x_ptr + start + cols.to(tl.int64) * sn, mask=mask, other=-float("inf")).to(tl.float32)
        top = tl.max(x, axis=0)
        near = tl.abs(top) < 1000.0
        folded = tl.exp2(x * LOG2_E - top * LOG2_E)
        e = tl.where(near, folded, tl.exp2((x - top) * LOG2_E))
        tl.store(y_ptr + row * N + cols, (e / tl.sum(e, axis=0)).to(y_ptr.dtype.element_ty), mask=mask)


def softmax(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    if not y.numel():
        return y
    if x.dim() > 4:
        x = x.contiguous().view(1, 1, -1, x.shape[-1])
    while x.dim() < 4:
        x = x.unsqueeze(0)
    count, N = x.numel() // x.shape[-1], x.shape[-1]
    programs = min(count, PROGRAMS)
    rows_in_turn[(programs,)](
        x, y, count, x.shape[1], x.shape[2], N, *x.stride(),
        ROWS=triton.cdiv(count, programs), BLOCK=triton.next_power_of_2(N),
    )  # fmt: skip
    return y

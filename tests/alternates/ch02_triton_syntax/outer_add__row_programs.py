"""Outer sum with a few rows a program: x is loaded once and a loop over the rows stores it again and again.

The inputs become expanded [M, N] views, so each has a row stride and a column stride, one of them 0.
"""

import torch
import triton
import triton.language as tl

ROWS = 8
BLOCK_N = 512


@triton.jit
def rows_kernel(
    x_ptr, y_ptr, z_ptr, M, N, x_row, x_column, y_row, y_column, z_row,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0).to(tl.int64) * ROWS
    columns = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = columns < N
    x = tl.load(x_ptr + first * x_row + columns * x_column, mask=inside, other=0)
    for step in tl.static_range(ROWS):
        row = first + step
        here = inside & (row < M)
        y = tl.load(y_ptr + row * y_row + columns * y_column, mask=here, other=0)
        tl.store(z_ptr + row * z_row + columns, y + x, mask=here)


def outer_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    M, N = len(y), len(x)
    z = torch.empty(M, N, dtype=x.dtype, device=x.device)
    if M == 0 or N == 0:
        return z
    if triton.cdiv(N, BLOCK_N) > 65_535:
        # More blocks of columns than axis 1 of the grid has: with the roles changed they lie on axis 0.
        return torch.empty_like(z).copy_(outer_add(y, x).t())
    x_view = x.unsqueeze(0).expand(M, N)
    y_view = y.unsqueeze(1).expand(M, N)
    grid = (triton.cdiv(M, ROWS), triton.cdiv(N, BLOCK_N))
    with torch.cuda.device_of(x):
        rows_kernel[grid](
            x_view, y_view, z, M, N, *x_view.stride(), *y_view.stride(), z.stride(0),
            ROWS=ROWS, BLOCK_N=BLOCK_N,
        )  # fmt: skip
    return z

"""Outer sum: a two-dimensional grid of programs, each of which writes one tile."""

import torch
import triton
import triton.language as tl

# 128 elements along a row are two whole cache lines even in 16 bits, and the tile has 4,096 elements:
# 32 a thread with 4 warps, enough stores in flight to fill the bus.
BLOCK_M = 32
BLOCK_N = 128


@triton.jit
def outer_add_kernel(
    x_ptr, y_ptr, z_ptr, M, N, stride_x, stride_y,
    ROW_AXIS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # int64 before the products: M * N may pass 2**31, and so may an offset into a strided input.
    rows = tl.program_id(ROW_AXIS).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1 - ROW_AXIS).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    row_inside = rows < M
    column_inside = columns < N
    x = tl.load(x_ptr + columns * stride_x, mask=column_inside)
    y = tl.load(y_ptr + rows * stride_y, mask=row_inside)
    # [BLOCK_M, 1] and [1, BLOCK_N] broadcast to the tile, for the values as for the offsets and the masks.
    tile = y[:, None] + x[None, :]
    offsets = rows[:, None] * N + columns[None, :]
    tl.store(z_ptr + offsets, tile, mask=row_inside[:, None] & column_inside[None, :])


def outer_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """z[m, n] = y[m] + x[n] for x[N] and y[M] of one dtype and any stride; z is [M, N]."""
    N = x.shape[0]
    M = y.shape[0]
    z = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if z.numel() == 0:
        return z
    row_blocks = triton.cdiv(M, BLOCK_M)
    column_blocks = triton.cdiv(N, BLOCK_N)
    # CUDA allows 2**31 - 1 programs along axis 0, only 65,535 along axis 1: the longer side goes on axis 0.
    if row_blocks > column_blocks:
        row_axis, grid = 0, (row_blocks, column_blocks)
    else:
        row_axis, grid = 1, (column_blocks, row_blocks)
    with torch.cuda.device_of(x):  # a launch goes to the current device
        outer_add_kernel[grid](
            x, y, z, M, N, x.stride(0), y.stride(0),
            ROW_AXIS=row_axis, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4,
        )  # fmt: skip
    return z

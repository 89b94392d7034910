"""row_argmax: where the largest element of each row is, the first one where there are several.

Like row_sum, a program keeps a result for each *lane* of its tile, and folds the lanes only once. What a lane
carries here is a pair, the best value so far and the column where it was seen. The order on values is stated,
not left to a library function whose treatment of NaN differs between versions and between the interpreter and
a GPU: NaN beats every number, nothing beats NaN, and an equal value later in the row does not replace an
earlier one.
"""

import torch
import triton
import triton.language as tl

TILE_BYTES = 16384  # what a program has in flight: 64 bytes for each of its 256 threads
MAX_TILE = 4096  # two carried values an element (eight bytes or more): keep them in registers
NUM_WARPS = 8

NO_COLUMN = tl.constexpr(2**63 - 1)  # larger than any column, the identity of min


@triton.jit
def row_argmax_kernel(
    x_ptr,
    out_ptr,
    M,
    N,
    num_blocks,  # ceil(N / BLOCK_N), from the host
    stride_m,
    stride_n,
    LOWEST: tl.constexpr,  # the identity of max in x's dtype: no value is below it
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, BLOCK_N)
    row_ok = rows < M
    row_ptrs = x_ptr + rows.to(tl.int64)[:, None] * stride_m

    # float16 and bfloat16 are compared as float32, which holds each of their values exactly; integers as they
    # are (float32 has no room for every int32, nor float64 for every int64).
    if x_ptr.dtype.element_ty.is_floating():
        best = tl.full([BLOCK_M, BLOCK_N], LOWEST, tl.float32)
    else:
        best = tl.full([BLOCK_M, BLOCK_N], LOWEST, x_ptr.dtype.element_ty)
    # A lane starts as if LOWEST had been seen in its first column. When that column really holds LOWEST this
    # is the truth; when it holds more it is replaced; when it lies past the end of the row it loses each tie,
    # because it is to the right of every column that exists. So a row of nothing but -inf, or of the smallest
    # integer, gives 0.
    best_block = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.int32)

    for block in range(num_blocks):
        cols = block * BLOCK_N + lanes
        x = tl.load(
            row_ptrs + cols.to(tl.int64)[None, :] * stride_n,
            mask=row_ok[:, None] & (cols < N)[None, :],
            other=LOWEST,
        ).to(best.dtype)
        # Strictly greater: the first of equals stays (and -0 equals +0). A NaN is the one value that differs
        # from itself. For integers the compiler drops both tests on it.
        better = ((x > best) | (x != x)) & (best == best)
        best = tl.where(better, x, best)
        # The block is the same for all lanes, so carrying it costs less than carrying each lane's column.
        best_block = tl.where(better, block, best_block)

    # Fold the lanes in two steps: which value wins, then the first column that holds it.
    is_nan = best != best
    row_has_nan = tl.max(is_nan.to(tl.int32), axis=1) > 0
    top = tl.max(tl.where(is_nan, LOWEST, best), axis=1)
    wins = tl.where(row_has_nan[:, None], is_nan, best == top[:, None])
    best_col = best_block.to(tl.int64) * BLOCK_N + lanes[None, :]
    tl.store(out_ptr + rows, tl.min(tl.where(wins, best_col, NO_COLUMN), axis=1), mask=row_ok)


def tile_shape(x: torch.Tensor) -> tuple[int, int]:
    """(BLOCK_M, BLOCK_N) for x: long in the direction in which neighbours in x are neighbours in memory."""
    rows, columns = x.shape
    tile = min(MAX_TILE, TILE_BYTES // x.element_size())
    if rows > 1 and x.stride(0) < x.stride(1):  # e.g. a transposed matrix: a warp reads down a column
        block_m = min(128, triton.next_power_of_2(rows))
        return block_m, min(tile // block_m, triton.next_power_of_2(columns))
    block_n = min(tile, triton.next_power_of_2(columns))
    return max(1, min(tile // 2 // block_n, triton.next_power_of_2(rows))), block_n


def row_argmax(x: torch.Tensor) -> torch.Tensor:
    """The column of the largest element of each row of x[M, N], N >= 1 (floats, signed integers): int64[M]"""
    rows, columns = x.shape
    out = torch.empty(rows, dtype=torch.int64, device=x.device)
    if rows == 0:
        return out
    block_m, block_n = tile_shape(x)
    lowest = float("-inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    row_argmax_kernel[(triton.cdiv(rows, block_m),)](
        x,
        out,
        rows,
        columns,
        triton.cdiv(columns, block_n),
        x.stride(0),
        x.stride(1),
        LOWEST=lowest,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        num_warps=NUM_WARPS,
    )
    return out

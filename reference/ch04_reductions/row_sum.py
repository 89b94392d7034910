"""row_sum: the sums of the rows of a matrix, accumulated in float32.

A program owns a strip of BLOCK_M rows and walks along them BLOCK_N columns at a time. It keeps one partial
sum a *lane* (an element of the tile), and folds the lanes into one number a row only once, after the last
block: a cross-thread reduction costs shuffles and a barrier, an addition in a register costs next to nothing.
"""

import torch
import triton
import triton.language as tl

# Elements of x that a program has in flight, in bytes: 64 bytes for each of its 256 threads, four 16-byte
# loads.
TILE_BYTES = 16384
NUM_WARPS = 8


@triton.jit
def row_sum_kernel(
    x_ptr,
    out_ptr,
    M,
    N,
    num_blocks,  # ceil(N / BLOCK_N), from the host
    stride_m,
    stride_n,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, BLOCK_N)
    row_ok = rows < M
    # 64-bit offsets: rows * stride_m passes 2**31 as soon as x has more than 2**31 elements, or a large
    # pitch.
    row_ptrs = x_ptr + rows.to(tl.int64)[:, None] * stride_m

    # float32 whatever x is. A float16 accumulator would be inf at the 679th addition of 100, and would drop
    # every term below half a unit in its last place long before that.
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for block in range(num_blocks):
        cols = block * BLOCK_N + lanes
        # A lane that is past the end of its row must not change the sum: it loads 0, the identity of +.
        x = tl.load(
            row_ptrs + cols.to(tl.int64)[None, :] * stride_n,
            mask=row_ok[:, None] & (cols < N)[None, :],
            other=0.0,
        )
        acc += x.to(tl.float32)

    # With N = 0 the loop body never runs and the sum of nothing, 0, is stored.
    tl.store(out_ptr + rows, tl.sum(acc, axis=1), mask=row_ok)


def tile_shape(x: torch.Tensor) -> tuple[int, int]:
    """(BLOCK_M, BLOCK_N) for x: long in the direction in which neighbours in x are neighbours in memory."""
    rows, columns = x.shape
    tile = TILE_BYTES // x.element_size()
    if rows > 1 and x.stride(0) < x.stride(1):  # e.g. a transposed matrix: a warp reads down a column
        block_m = min(128, triton.next_power_of_2(rows))
        return block_m, min(tile // block_m, triton.next_power_of_2(max(columns, 1)))
    block_n = min(tile, triton.next_power_of_2(max(columns, 1)))
    # Short rows: several of them a program, so that a program still has a tile's worth of work (half a tile,
    # so that small matrices are spread over more than a few programs).
    return max(1, min(tile // 2 // block_n, triton.next_power_of_2(rows))), block_n


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """The sums of the rows of x[M, N] (float32, float16, bfloat16; any strides) as float32[M]."""
    rows, columns = x.shape
    out = torch.empty(rows, dtype=torch.float32, device=x.device)
    if rows == 0:
        return out
    block_m, block_n = tile_shape(x)
    row_sum_kernel[(triton.cdiv(rows, block_m),)](
        x,
        out,
        rows,
        columns,
        triton.cdiv(columns, block_n),
        x.stride(0),
        x.stride(1),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        num_warps=NUM_WARPS,
    )
    return out

"""softmax: y = exp(x - max) / sum(exp(x - max)) along the last dimension, in one pass over memory.

A row of up to 8192 elements fits in the registers of one program. So each row is read once, its maximum, its sum
and its quotients are computed on what is already on the chip, and it is written once: two moves of memory, where
three separate operators (a maximum, a sum, a division) would make five or more.
"""

import torch
import triton
import triton.language as tl

TILE = 4096  # elements of a program when rows are short: several rows share a program
TALL_TILE = 16384  # when neighbours in memory lie in one column: enough rows for whole sectors
ELEMENTS_PER_THREAD = 16  # of float16 two loads of 16 bytes, of float32 four, all in flight at once


@triton.jit
def softmax_rows_kernel(
    x_ptr,
    y_ptr,
    M,
    N,
    stride_m,
    stride_n,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,  # a power of two, N or more: the whole row
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    # 64-bit offsets: rows * stride_m passes 2**31 as soon as x has more than 2**31 elements, or a large pitch.
    rows_64 = rows.to(tl.int64)[:, None]

    # A lane past the end of its row holds -inf, the identity of max; and exp(-inf - max) is 0, the identity of +.
    x = tl.load(
        x_ptr + rows_64 * stride_m + cols.to(tl.int64)[None, :] * stride_n, mask=inside, other=float("-inf")
    ).to(tl.float32)

    # After this subtraction no exponent is positive: exp lies in [0, 1] and one term of the sum is 1, so that
    # nothing overflows and the divisor is at least 1, whatever the offset of the row.
    # Special values need no branch. A row of -inf has -inf - (-inf) = NaN in each element, one with +inf has
    # inf - inf = NaN in its sum, and a NaN is in the sum too, whether or not `max` lets it through.
    shifted = x - tl.max(x, axis=1)[:, None]
    terms = tl.exp(shifted)
    # One division a row and a product an element: divisions are slow, and the second rounding is one of float32.
    y = terms * (1.0 / tl.sum(terms, axis=1))[:, None]
    tl.store(y_ptr + rows_64 * N + cols[None, :], y.to(y_ptr.dtype.element_ty), mask=inside)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax along the last dimension of x[..., N], N <= 8192 (float32, float16, bfloat16; any strides).

    Computed in float32, rounded once to x's dtype; new contiguous memory of x's shape. A row of -inf, or with +inf
    or NaN in it, is NaN, as torch.softmax has it.
    """
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    n = x.shape[-1]
    matrix = x.reshape(-1, n)  # a view wherever the leading dimensions can be walked with one stride, else a copy
    m = matrix.shape[0]
    block_n = triton.next_power_of_2(n)
    # Neighbours of a transposed matrix lie in one column: take more rows, so that a warp reads along it.
    tile = TALL_TILE if m > 1 and matrix.stride(0) < matrix.stride(1) else TILE
    block_m = max(1, min(tile // block_n, triton.next_power_of_2(m)))
    with torch.cuda.device_of(x):  # a launch goes to the current device, which may be another one
        softmax_rows_kernel[(triton.cdiv(m, block_m),)](
            matrix,
            y,
            m,
            n,
            matrix.stride(0),
            matrix.stride(1),
            BLOCK_M=block_m,
            BLOCK_N=block_n,
            num_warps=max(1, min(16, block_m * block_n // (32 * ELEMENTS_PER_THREAD))),
        )
    return y

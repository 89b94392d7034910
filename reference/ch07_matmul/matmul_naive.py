"""matmul_naive: C = A B with no tensor cores and no reuse between programs, as a yardstick for what follows.

A program makes a strip of one row of C: BLOCK_N neighbours. It multiplies a piece of the row of A by a tile of
B, adds the products in float32, and goes on along K. Each element of A is read once a strip, but each element
of B is read again by every row of C: M times in all. That, not the arithmetic, is what the next exercise mends.
"""

import torch
import triton
import triton.language as tl

BLOCK_N = 128
BLOCK_K = 32


@triton.jit
def row_strip_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    N,
    K,
    strips,  # ceil(N / BLOCK_N): strips of one row of C
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # One dimension of the grid for both: a grid's second dimension ends at 65,535.
    program = tl.program_id(0)
    row = (program // strips).to(tl.int64)
    cols = (program % strips) * BLOCK_N + tl.arange(0, BLOCK_N)
    col_ok = cols < N
    a_row = a_ptr + row * stride_am
    b_cols = b_ptr + cols.to(tl.int64)[None, :] * stride_bn

    acc = tl.zeros([BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        k_ok = ks < K
        # Past the end of K *both* factors are 0. Masking only one is not enough: 0 times whatever lies behind
        # the other matrix is NaN when that happens to be inf or NaN.
        a = tl.load(a_row + ks.to(tl.int64) * stride_ak, mask=k_ok, other=0.0)
        b = tl.load(
            b_cols + ks.to(tl.int64)[:, None] * stride_bk, mask=k_ok[:, None] & col_ok[None, :], other=0.0
        )
        # Widened before the product: two float16 numbers multiply exactly in float32, not in float16.
        acc += tl.sum(a.to(tl.float32)[:, None] * b.to(tl.float32), axis=0)

    # With K = 0 the loop body never runs and the empty sum, 0, is stored. C is contiguous, so its stride is N.
    tl.store(c_ptr + row * N + cols, acc.to(c_ptr.dtype.element_ty), mask=col_ok)


def matmul_naive(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of a[M, K] and b[K, N] (float32, float16 or bfloat16; any strides): [M, N] in their dtype."""
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if M == 0 or N == 0:
        return c
    strips = triton.cdiv(N, BLOCK_N)
    with torch.cuda.device_of(a):
        row_strip_kernel[(M * strips,)](
            a,
            b,
            c,
            N,
            K,
            strips,
            a.stride(0),
            a.stride(1),
            b.stride(0),
            b.stride(1),
            BLOCK_N=BLOCK_N,
            BLOCK_K=BLOCK_K,
            num_warps=4,
        )
    return c

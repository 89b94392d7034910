"""matmul_tiled: C = A B, one tile of C a program, on tensor cores.

A tile of BLOCK_M x BLOCK_N elements of C needs BLOCK_M rows of A and BLOCK_N columns of B, and uses each of
their elements BLOCK_N or BLOCK_M times: the traffic falls by the tile's size, the arithmetic stays the same.
The tile walks along K in steps of BLOCK_K and adds up in float32, in registers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def tile_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    tiles_n,  # ceil(N / BLOCK_N)
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # A grid of one dimension, taken apart here: its second one would end at 65,535.
    program = tl.program_id(0)
    rows = (program // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (program % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    row_ok = (rows < M)[:, None]
    col_ok = (cols < N)[None, :]

    # 64-bit offsets: a row's number times its stride passes 2**31 in a matrix of more elements than that.
    a_ptrs = a_ptr + rows.to(tl.int64)[:, None] * stride_am + ks.to(tl.int64)[None, :] * stride_ak
    b_ptrs = b_ptr + ks.to(tl.int64)[:, None] * stride_bk + cols.to(tl.int64)[None, :] * stride_bn
    # So may BLOCK_K times a stride, where neighbours along K lie far apart.
    a_step = tl.full([], BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full([], BLOCK_K, tl.int64) * stride_bk

    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        # What is left of K. Past its end *both* tiles hold 0: 0 * NaN from behind a matrix would be NaN.
        k_ok = ks < K - start
        a = tl.load(a_ptrs, mask=row_ok & k_ok[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=k_ok[:, None] & col_ok, other=0.0)
        # "ieee": float32 factors keep all of their 24 bits; the default, TF32, rounds them to 11. It means
        # nothing for 16-bit factors, whose products are exact on tensor cores.
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += a_step
        b_ptrs += b_step

    # One rounding, at the very end. With K = 0 the tile is still all zeros, and that is the product.
    c_ptrs = c_ptr + rows.to(tl.int64)[:, None] * N + cols[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=row_ok & col_ok)


def tile_shape(M: int, N: int, dtype: torch.dtype) -> tuple[dict[str, int], dict[str, int]]:
    """The blocks of a tile, and how a program is run."""
    if dtype == torch.float32:
        # Plain fused multiply-adds, since no tensor core multiplies 24-bit numbers: 32 sums a thread.
        return {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16}, {"num_warps": 4, "num_stages": 3}
    if triton.cdiv(M, 128) * triton.cdiv(N, 128) < 128:
        # Few tiles: smaller ones, so that more multiprocessors have one.
        return {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, {"num_warps": 4, "num_stages": 3}
    # 128 sums for each of 256 threads. Three stages of (128 + 256) * 64 elements are 144 KiB of shared memory.
    return {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}, {"num_warps": 8, "num_stages": 3}


def matmul_tiled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of a[M, K] and b[K, N] (float32, float16 or bfloat16; any strides): [M, N] in their dtype."""
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if M == 0 or N == 0:
        return c
    blocks, options = tile_shape(M, N, a.dtype)
    tiles_n = triton.cdiv(N, blocks["BLOCK_N"])
    with torch.cuda.device_of(a):
        tile_kernel[(triton.cdiv(M, blocks["BLOCK_M"]) * tiles_n,)](
            a,
            b,
            c,
            M,
            N,
            K,
            tiles_n,
            a.stride(0),
            a.stride(1),
            b.stride(0),
            b.stride(1),
            **blocks,
            **options,
        )
    return c

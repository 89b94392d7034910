"""matmul_tiled in another style: K is cut in four, and a second kernel adds the four partial products.

Differs from the reference: float32 partial products in a workspace, another order of the additions; the host
makes both factors contiguous.
"""

import torch
import triton
import triton.language as tl

PARTS = tl.constexpr(4)


@triton.jit
def partial_product(a_ptr, b_ptr, w_ptr, M, N, K, share, SIDE: tl.constexpr, DEPTH: tl.constexpr):
    across = tl.cdiv(N, SIDE)
    tile = tl.program_id(0)
    part = tl.program_id(1)
    m = ((tile // across) * SIDE + tl.arange(0, SIDE)).to(tl.int64)[:, None]
    n = ((tile % across) * SIDE + tl.arange(0, SIDE)).to(tl.int64)[None, :]
    first = part * share
    end = tl.minimum(first + share, K)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(first, end, DEPTH):
        k = start + tl.arange(0, DEPTH)
        x = tl.load(a_ptr + m * K + k[None, :], mask=(m < M) & (k < end)[None, :], other=0)
        y = tl.load(b_ptr + k.to(tl.int64)[:, None] * N + n, mask=(k < end)[:, None] & (n < N), other=0)
        total = tl.dot(x, y, total, input_precision="ieee")
    tl.store(w_ptr + (part.to(tl.int64) * M + m) * N + n, total, mask=(m < M) & (n < N))


@triton.jit
def add_parts(w_ptr, c_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(w_ptr + tl.full([], part, tl.int64) * count + at, mask=at < count, other=0)
    tl.store(c_ptr + at, total.to(c_ptr.dtype.element_ty), mask=at < count)


def matmul_tiled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    if M * N == 0:
        return c
    a, b = a.contiguous(), b.contiguous()
    parts = PARTS.value
    work = torch.empty(parts, M, N, dtype=torch.float32, device=a.device)
    share = triton.cdiv(triton.cdiv(K, parts), 32) * 32  # whole steps a part; a part may be empty
    tiles = triton.cdiv(M, 64) * triton.cdiv(N, 64)
    with torch.cuda.device_of(a):
        partial_product[(tiles, parts)](a, b, work, M, N, K, share, SIDE=64, DEPTH=32)
        add_parts[(triton.cdiv(M * N, 1024),)](work, c, M * N, BLOCK=1024)
    return c

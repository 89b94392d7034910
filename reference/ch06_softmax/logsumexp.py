"""logsumexp: log(sum(exp(x))) along any dimension, without overflow and in one reading of x.

log(sum(exp(x))) = max + log(sum(exp(x - max))). Maximum and sum are found together, online, as in softmax_long; every
lane of a tile keeps a pair (m, s) of its own, and the lanes are folded once at the end. x is seen as
[outer, N, inner], the dimensions before `dim`, `dim` itself, and those behind it; an output element is a pair
(outer, inner), and a tile is long in the direction in which neighbours in x are neighbours in memory.
"""

import torch
import triton
import triton.language as tl

TILE_BYTES = 16384  # what a program has in flight: 64 bytes for each of its 256 threads
MAX_TILE = 4096  # two carried float32 an element: keep them in registers
# Kept elements side by side, when these are the neighbours in memory: whole sectors of 32 bytes for every dtype,
# and still many programs, because only the kept dimensions are shared out among them.
KEPT = 32
NUM_WARPS = 8


@triton.jit
def logsumexp_kernel(
    x_ptr,
    out_ptr,
    kept,  # outer * inner, the elements of the output
    inner,
    N,
    num_blocks,  # ceil(N / BLOCK_N), from the host
    stride_outer,
    stride_n,
    stride_inner,
    BLOCK_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    k = tl.program_id(0).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    lanes = tl.arange(0, BLOCK_N)
    k_ok = k < kept
    k_ptrs = x_ptr + (k // inner)[:, None] * stride_outer + (k % inner)[:, None] * stride_inner

    # For each lane m, its largest value so far, and s, the sum of exp(x - m).
    m = tl.full([BLOCK_K, BLOCK_N], float("-inf"), dtype=tl.float32)
    s = tl.zeros([BLOCK_K, BLOCK_N], dtype=tl.float32)
    for block in range(num_blocks):
        cols = block * BLOCK_N + lanes
        x = tl.load(
            k_ptrs + cols.to(tl.int64)[None, :] * stride_n,
            mask=k_ok[:, None] & (cols < N)[None, :],
            other=float("-inf"),
        ).to(tl.float32)
        # exp(-|x - m|) is what the smaller of the two weighs beside the larger. For equals it is 1 without a
        # subtraction, which for two infinities would be NaN: so +inf stays +inf, and -inf is counted only until
        # something larger comes.
        e = tl.exp(tl.where(x == m, 0.0, -tl.abs(x - m)))
        # A NaN compares as not greater: it never becomes the maximum, but it stays in s.
        s = tl.where(x > m, s * e + 1.0, s + e)
        m = tl.where(x > m, x, m)

    top = tl.max(m, axis=1)
    total = tl.sum(s * tl.exp(tl.where(m == top[:, None], 0.0, m - top[:, None])), axis=1)
    # With N = 0 this is -inf + log(0) = -inf, the logarithm of the sum of nothing; of -inf only, -inf + log(count).
    tl.store(out_ptr + k, (top + tl.log(total)).to(out_ptr.dtype.element_ty), mask=k_ok)


def logsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    """log(sum(exp(x))) along `dim` of x (float32, float16, bfloat16; rank >= 1, any strides), -rank <= dim < rank.

    Computed in float32, rounded once to x's dtype; a new contiguous tensor of x's shape without `dim`. All -inf, or an
    empty dimension, gives -inf; +inf gives +inf; NaN gives NaN.
    """
    dim %= x.dim()
    n = x.shape[dim]
    out = torch.empty(x.shape[:dim] + x.shape[dim + 1 :], dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    outer = x.shape[:dim].numel()
    inner = x.shape[dim + 1 :].numel()
    cube = x.reshape(outer, n, inner)  # a view wherever one stride serves each of the three, else a copy

    tile = min(MAX_TILE, TILE_BYTES // x.element_size())
    width = triton.next_power_of_2(max(n, 1))
    if (inner > 1 and cube.stride(2) < cube.stride(1)) or (inner == 1 and outer > 1 and cube.stride(0) < cube.stride(1)):
        block_k = min(KEPT, triton.next_power_of_2(outer * inner))
        block_n = min(tile // block_k, width)
    else:
        block_n = min(tile, width)
        block_k = max(1, min(tile // 2 // block_n, triton.next_power_of_2(outer * inner)))
    with torch.cuda.device_of(x):  # a launch goes to the current device, which may be another one
        logsumexp_kernel[(triton.cdiv(outer * inner, block_k),)](
            cube,
            out,
            outer * inner,
            inner,
            n,
            triton.cdiv(n, block_n),
            cube.stride(0),
            cube.stride(1),
            cube.stride(2),
            BLOCK_K=block_k,
            BLOCK_N=block_n,
            num_warps=NUM_WARPS,
        )
    return out

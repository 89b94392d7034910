"""softmax_long: softmax of rows that fit in no program's registers, online and by several programs a row.

The online softmax (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867,
2018) finds maximum and sum in one reading: the sum is kept relative to the largest value so far, and rescaled when
a larger one comes. Two such pairs (m, s) combine into one, in any grouping, so that a row can be shared out:

    pass 1   each row is cut into parts; a program reads a part and writes its pair (m, s)
    pass 2   a program reads the pairs of its row, and x once more, block by block, and writes y

512 rows of 512 KiB on 132 SMs: with one program a row, 132 rows (66 MiB) would be under way at once, more than L2
holds, so that the second reading would miss it as well; and 5 rows would leave 127 SMs idle. Cut into parts, few rows
fill the machine too. Pass 2 begins at the end of x, which pass 1 has read last and which is still in L2.
"""

import torch
import triton
import triton.language as tl

BLOCK = 4096  # elements that a program has in flight: of float32 64 bytes for each of its 256 threads
NUM_WARPS = 8
# Blocks of a part. More of them would leave SMs idle when rows are few (2**18 columns make 16 parts), fewer would
# make more pairs, all of which each program of pass 2 reads. That it depends on nothing else has a merit of its own:
# the bits of a row do not depend on how many other rows there are.
STEPS = 4


@triton.jit
def row_parts_kernel(
    x_ptr,
    maxima_ptr,  # float32[M, parts]
    sums_ptr,  # float32[M, parts]
    N,
    parts,
    stride_m,
    stride_n,
    STEPS: tl.constexpr,  # blocks of a part
    BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    row = (pid // parts).to(tl.int64)
    first_block = (pid % parts) * STEPS
    lanes = tl.arange(0, BLOCK)

    # Every lane keeps a pair of its own: m, its largest value so far, and s, the sum of exp(x - m). No threads
    # have to talk to each other before the loop has ended.
    m = tl.full([BLOCK], float("-inf"), dtype=tl.float32)
    s = tl.zeros([BLOCK], dtype=tl.float32)
    for step in range(STEPS):
        cols = (first_block + step) * BLOCK + lanes
        x = tl.load(
            x_ptr + row * stride_m + cols.to(tl.int64) * stride_n, mask=cols < N, other=float("-inf")
        ).to(tl.float32)
        # One of the two, m or x, is the new maximum; the other's term shrinks by e = exp(-|x - m|). One exp
        # serves both cases.
        #     x > m:  s exp(m - x) + 1          else:  s + exp(x - m)
        # Where x equals m, e is 1 by definition, not by subtraction: (-inf) - (-inf) would be NaN, and a lane that
        # has met nothing but -inf would be lost for good. It counts its -inf now, and the first finite x
        # multiplies that count by exp(-inf) = 0.
        e = tl.exp(tl.where(x == m, 0.0, -tl.abs(x - m)))
        # A NaN compares as not greater, so it never becomes the maximum, but it stays in s.
        s = tl.where(x > m, s * e + 1.0, s + e)
        m = tl.where(x > m, x, m)

    top = tl.max(m, axis=0)
    # The same rule for equals: a part of -inf only must hand on (-inf, a count), not (-inf, NaN), because other
    # parts of its row may hold numbers.
    total = tl.sum(s * tl.exp(tl.where(m == top, 0.0, m - top)), axis=0)
    tl.store(maxima_ptr + pid, top)
    tl.store(sums_ptr + pid, total)


@triton.jit
def normalise_kernel(
    x_ptr,
    y_ptr,
    maxima_ptr,
    sums_ptr,
    N,
    parts,
    blocks,  # ceil(N / BLOCK), from the host
    stride_m,
    stride_n,
    PARTS: tl.constexpr,  # a power of two, `parts` or more
    BLOCK: tl.constexpr,
):
    pid = tl.num_programs(0) - 1 - tl.program_id(0)  # from the end of x: what is in L2 first
    row = (pid // blocks).to(tl.int64)
    cols = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < N
    x = tl.load(x_ptr + row * stride_m + cols.to(tl.int64) * stride_n, mask=inside, other=0.0).to(tl.float32)

    part = tl.arange(0, PARTS)
    maxima = tl.load(maxima_ptr + row * parts + part, mask=part < parts, other=float("-inf"))
    sums = tl.load(sums_ptr + row * parts + part, mask=part < parts, other=0.0)
    top = tl.max(maxima, axis=0)
    # Here the difference of equals is taken as it comes: for a row of -inf only, or with a +inf, it is NaN, and so
    # is then the whole row, as the contract asks for.
    total = tl.sum(sums * tl.exp(maxima - top), axis=0)

    y = tl.exp(x - top) * (1.0 / total)
    tl.store(y_ptr + row * N + cols, y.to(y_ptr.dtype.element_ty), mask=inside)


def softmax_long(x: torch.Tensor) -> torch.Tensor:
    """Softmax along the rows of x[M, N], N <= 2**18 (float32, float16, bfloat16; any strides).

    Computed in float32, rounded once to x's dtype; new contiguous memory [M, N]. A row of -inf, or with +inf or NaN
    in it, is NaN; a row that merely begins with -inf is not.
    """
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    block = min(BLOCK, triton.next_power_of_2(n))
    blocks = triton.cdiv(n, block)
    steps = min(STEPS, blocks)
    parts = triton.cdiv(blocks, steps)
    maxima = torch.empty((m, parts), dtype=torch.float32, device=x.device)
    sums = torch.empty((m, parts), dtype=torch.float32, device=x.device)
    with torch.cuda.device_of(x):  # a launch goes to the current device, which may be another one
        row_parts_kernel[(m * parts,)](
            x,
            maxima,
            sums,
            n,
            parts,
            x.stride(0),
            x.stride(1),
            STEPS=steps,
            BLOCK=block,
            num_warps=NUM_WARPS,
        )
        normalise_kernel[(m * blocks,)](
            x,
            y,
            maxima,
            sums,
            n,
            parts,
            blocks,
            x.stride(0),
            x.stride(1),
            PARTS=triton.next_power_of_2(parts),
            BLOCK=block,
            num_warps=NUM_WARPS,
        )
    return y

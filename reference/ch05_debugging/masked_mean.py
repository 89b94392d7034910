"""masked_mean: the mean over the selected elements of every row.

One program a row. Two running vectors, one of sums in float32 and one of counts in int32, are folded once at
the end: that keeps every lane busy and makes the sum pairwise-like, which is also more accurate than one long
chain of additions.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def masked_mean_kernel(
    x_ptr,
    mask_ptr,
    out_ptr,
    N,
    x_stride_m,
    x_stride_n,
    mask_stride_m,
    mask_stride_n,
    BLOCK_N: tl.constexpr,
):
    # int64 before the multiplication: row * stride passes 2**31 on tensors that a GPU holds with ease.
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * x_stride_m
    mask_row = mask_ptr + row * mask_stride_m  # the mask has strides of its own
    lanes = tl.arange(0, BLOCK_N).to(tl.int64)

    total = tl.zeros([BLOCK_N], dtype=tl.float32)
    count = tl.zeros([BLOCK_N], dtype=tl.int32)
    for start in range(0, N, BLOCK_N):
        cols = start + lanes
        inside = cols < N
        # Both loads are masked by `inside` only. A load of x under `keep` would be right too, but then every
        # element has a predicate of its own, and the 16-byte loads fall apart into single elements.
        keep = tl.load(mask_row + cols * mask_stride_n, mask=inside, other=0)
        x = tl.load(x_row + cols * x_stride_n, mask=inside, other=0.0)
        # A selection, not a product: NaN * 0 and inf * 0 are NaN.
        total += tl.where(keep, x.to(tl.float32), 0.0)
        count += keep.to(tl.int32)

    selected = tl.sum(count, axis=0)
    # 0 / 0 is NaN: the contract's answer for an empty selection, and for N = 0 where the loop does not run.
    mean = tl.sum(total, axis=0) / selected.to(tl.float32)
    tl.store(out_ptr + row, mean)


def masked_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    if M == 0:
        return out  # nothing to write, nothing to launch
    # tl.arange takes no 0, so an empty row still has a block of one (fully masked) lane.
    BLOCK_N = min(max(triton.next_power_of_2(N), 1), 2048)
    num_warps = max(1, min(4, BLOCK_N // 256))
    with torch.cuda.device_of(x):  # a launch goes to the current device, which need not be x's
        masked_mean_kernel[(M,)](
            x, mask, out, N, *x.stride(), *mask.stride(), BLOCK_N=BLOCK_N, num_warps=num_warps
        )
    return out

"""masked_mean: a kernel that somebody else wrote, with four bugs to find and to repair.

The program below runs, and is wrong. A test engineer has written down four symptoms; each has one cause, and
the four causes have nothing to do with one another:

  1. Rows in which only some elements are selected come out too close to 0. Fully selected rows are right.
  2. Row lengths that are not a power of two crash at times, and at other times give different results for
     equal inputs.
  3. A mask that was made by a transpose, a slice or an expand selects the wrong elements. A contiguous one
     with a contiguous x is right.
  4. float16 and bfloat16 inputs lose far more accuracy than their own rounding explains, most of all in long
     rows.

Do not rewrite the kernel. Find a small input for each symptom, run it with TRITON_INTERPRET=1, and look.
"""

import torch
import triton
import triton.language as tl


# TODO: make four repairs, each a line or two. Everything that has no symptom above is as it should be.
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
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * x_stride_m
    mask_row = mask_ptr + row * x_stride_m
    lanes = tl.arange(0, BLOCK_N).to(tl.int64)

    total = tl.zeros([BLOCK_N], dtype=x_ptr.dtype.element_ty)
    count = tl.zeros([BLOCK_N], dtype=tl.int32)
    for start in range(0, N, BLOCK_N):
        cols = start + lanes
        inside = cols < N
        keep = tl.load(mask_row + cols * x_stride_n)
        x = tl.load(x_row + cols * x_stride_n, mask=inside, other=0.0)
        total += tl.where(keep, x, 0.0).to(x.dtype)
        count += keep.to(tl.int32)

    selected = tl.sum(count, axis=0)
    empty = tl.where(selected == 0, float("nan"), 0.0)
    mean = tl.sum(total, axis=0).to(tl.float32) / N + empty
    tl.store(out_ptr + row, mean)


def masked_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean over the selected elements of each row.

    x:     [M, N], float32, float16 or bfloat16, any strides
    mask:  [M, N], bool, any strides of its own; True selects
    returns a new contiguous float32 tensor [M], summed in float32 or better

    An element that is not selected does not matter, even if it is NaN or infinite.
    A row with an empty selection gives NaN; so does every row when N = 0. M = 0 gives an empty tensor.

    >>> x = torch.tensor([[1., 2., 6.], [5., 5., 5.]])
    >>> masked_mean(x, torch.tensor([[True, False, True], [False, False, False]]))
    tensor([3.5000,    nan])
    """
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    if M == 0:
        return out
    BLOCK_N = min(max(triton.next_power_of_2(N), 1), 2048)
    num_warps = max(1, min(4, BLOCK_N // 256))
    with torch.cuda.device_of(x):  # a launch goes to the current device, which need not be x's
        masked_mean_kernel[(M,)](
            x, mask, out, N, *x.stride(), *mask.stride(), BLOCK_N=BLOCK_N, num_warps=num_warps
        )
    return out

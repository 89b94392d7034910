"""Exercise ch06.logsumexp: log(sum(exp(x))) along any dimension.

Grade it with `grade ch06.logsumexp`; ask for help with `grade hint ch06.logsumexp`.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def logsumexp_kernel(
    x_ptr, out_ptr, kept, inner, N, stride_outer, stride_n, stride_inner, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr
):
    # TODO 1: x is seen as [outer, N, inner]; output element k belongs to k // inner and k % inner. Work out the
    #         addresses of a tile of BLOCK_K output elements and BLOCK_N terms of each.

    # TODO 2: walk along N with a running maximum and a running sum relative to it. What do lanes past the end hold?

    # TODO 3: combine the lanes and store max + log(sum). Check three rows by hand: all -inf; one +inf; one NaN.
    pass


def logsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The logarithm of the sum of the exponentials along one dimension, without overflow.

    Arguments:
        x: a tensor of dtype float32, float16 or bfloat16, with one dimension or more, any sizes (0 included) and any
            strides. It must not be changed.
        dim: the dimension to reduce, -x.dim() <= dim < x.dim(); a negative one counts from the end.

    Returns:
        A new contiguous tensor of x's shape without `dim`, of the dtype and device of x.

        - Computed in float32, rounded once. Every finite x is allowed, also the largest of its dtype.
        - All -inf gives -inf, and so does an empty dimension: log(0). A +inf gives +inf; a NaN gives NaN.
        - An empty output: no kernel need be launched.

    Example:
        >>> logsumexp(torch.tensor([[0.0, 0.0], [1000.0, float("-inf")]]), 1)
        tensor([6.9315e-01, 1.0000e+03])

    The host code must not compute with torch operators (no x.logsumexp, x.amax); torch.empty, views, reshape and
    .contiguous() are fine.
    Speed: at least 1.5 times as fast as torch.logsumexp on [8192, 16384], along rows and along columns.
    """
    # TODO 4: the three sizes and strides of [outer, N, inner]; which direction of the tile should be the long one?
    # TODO 5: allocate the output, launch, return.
    raise NotImplementedError("ch06.logsumexp is yours to write")

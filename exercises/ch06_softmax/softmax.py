"""Exercise ch06.softmax: three steps in one kernel, each row read once and written once.

Grade it with `grade ch06.softmax`; ask for help with `grade hint ch06.softmax`.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_rows_kernel(x_ptr, y_ptr, M, N, stride_m, stride_n, BLOCK_N: tl.constexpr):
    # TODO 1: the row of this program and its first address (in int64). BLOCK_N is a power of two, N or more, so the
    #         whole row is one block.

    # TODO 2: load the row once, as float32. A lane past the end must disturb neither the maximum nor the sum: which
    #         value is harmless for both?

    # TODO 3: subtract the maximum, then exp, then the sum, then the quotient. Why in this order?

    # TODO 4: store the row, rounded once, to the dtype of y.
    pass


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax along the last dimension: y = exp(x) / sum(exp(x)), without overflow.

    Arguments:
        x: a tensor [..., N] of dtype float32, float16 or bfloat16, with one dimension or more, any strides, and
            N <= 8192. Any size may be 0. It must not be changed.

    Returns:
        A new contiguous tensor of the shape, dtype and device of x.

        - Computed in float32, rounded once. Every finite x is allowed, also the largest of its dtype.
        - -inf gives 0 beside a finite number; a row of -inf only is NaN, and so is a row with a NaN or a +inf in it
          (all of the row), as torch.softmax has it.
        - Any size 0: an empty tensor; no kernel need be launched.

    Example:
        >>> softmax(torch.tensor([[1000.0, 1000.0], [0.0, float("-inf")]]))
        tensor([[0.5000, 0.5000],
                [1.0000, 0.0000]])

    The host code must not compute with torch operators (no x.softmax, x.exp, x.amax); torch.empty, views, reshape and
    .contiguous() are fine.
    Speed: at least 0.90 of torch.softmax on float16 [8192, 4096].
    """
    # TODO 5: see x as a matrix [rows, N], allocate the output, choose BLOCK_N and num_warps, launch, return.
    # TODO 6 (when it is right): rows of 30 columns leave most threads idle. How would a tile of several rows look?
    raise NotImplementedError("ch06.softmax is yours to write")

"""Exercise ch06.softmax_long: softmax of rows that do not fit on the chip.

Grade it with `grade ch06.softmax_long`; ask for help with `grade hint ch06.softmax_long`.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_long_kernel(x_ptr, y_ptr, N, stride_m, stride_n, BLOCK: tl.constexpr):
    # TODO 1: walk along the row block by block and keep two running values: m, the largest x so far, and s, the sum
    #         of exp(x - m). What happens to s when a block brings a larger m? With which m and s do you begin?

    # TODO 2: a row may begin with a block of -inf. What is (-inf) - (-inf), and what has it done to s when the first
    #         finite number comes? A row of -inf only still has to end as NaN.

    # TODO 3: walk along the row once more and store exp(x - m) / s.
    pass


def softmax_long(x: torch.Tensor) -> torch.Tensor:
    """Softmax along the rows of a matrix whose rows may be long.

    Arguments:
        x: a tensor [M, N] of dtype float32, float16 or bfloat16, with any strides, and N <= 2**18. M and N may be 0.
            It must not be changed.

    Returns:
        A new contiguous tensor [M, N] of the dtype and device of x.

        - Computed in float32, rounded once. Every finite x is allowed, also the largest of its dtype.
        - -inf gives 0 beside a finite number, wherever in the row either of them is; a row of -inf only is NaN, and
          so is a row with a NaN or a +inf in it (all of the row), as torch.softmax has it.
        - M = 0 or N = 0: an empty tensor; no kernel need be launched.
        - A workspace is allowed, of a few numbers a row or a block; two calls return the same bits.

    Example:
        >>> softmax_long(torch.tensor([[float("-inf"), 0.0, 0.0], [1.0, 1.0, float("nan")]]))
        tensor([[0.0000, 0.5000, 0.5000],
                [   nan,    nan,    nan]])

    The host code must not compute with torch operators; torch.empty, views and .contiguous() are fine.
    Speed: at least 0.75 of torch.softmax on float32 [512, 131072].
    """
    # TODO 4: allocate the output, choose BLOCK, launch, return.
    # TODO 5 (when it is right): with one program a row, how many programs do 5 rows make for 132 SMs? Two halves of
    #         a row have a pair (m, s) each. How do the pairs combine?
    raise NotImplementedError("ch06.softmax_long is yours to write")

"""Exercise ch04.row_sum: one number for each row of a matrix.

Grade it with `grade ch04.row_sum`; ask for help with `grade hint ch04.row_sum`.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK_N: tl.constexpr):
    # TODO 1: the row of this program, and the address of the row's first element. One program a row is a good
    #         start; a tile of several rows is faster when rows are short. With a large pitch row * stride_m
    #         leaves the range of int32.

    # TODO 2: an accumulator. Which dtype must it have, whatever the dtype of x? Which shape, if adding a
    #         block to it is to cost no communication between threads?

    # TODO 3: walk along the row, BLOCK_N columns at a time. What does a lane past the end of the row have to
    #         load, so that the sum does not notice it? x may have any strides: element (m, n) is at
    #         m * stride_m + n * stride_n.

    # TODO 4: fold the accumulator into one number and store it.
    pass


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """The sums of the rows of a matrix.

    Arguments:
        x: a tensor [M, N] of dtype float32, float16 or bfloat16, with any strides: it may be transposed, a
            slice with gaps, or expanded. M and N may be 0. It must not be changed.

    Returns:
        A new contiguous float32 tensor [M] on the device of x, whatever the dtype of x. Element m is the sum
        of x[m, 0], ..., x[m, N-1].

        - N = 0: every sum is 0.
        - M = 0: a tensor of shape [0]; no kernel need be launched.
        - The sum is accumulated in float32: a row of 2048 times 100.0 in float16 sums to 204800, although
          float16 ends at 65504. Sums whose absolute values overflow float32 do not occur.
        - +inf, -inf and NaN follow IEEE addition: a NaN, or both infinities, in a row make its sum NaN.

    Example:
        >>> row_sum(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        tensor([ 6., 15.])

    The host code must not compute with torch operators (no x.sum, no @); torch.empty and views are fine.
    Speed: at least 0.90 of torch.sum on [8192, 16384].
    """
    # TODO 5: allocate the output, choose BLOCK_N (a power of two), launch the kernel, return the output.
    raise NotImplementedError("ch04.row_sum is yours to write")

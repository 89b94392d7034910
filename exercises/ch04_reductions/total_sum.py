"""Exercise ch04.total_sum: one number for a whole tensor, the same bits on every run.

Grade it with `grade ch04.total_sum`; ask for help with `grade hint ch04.total_sum`.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_sums_kernel(x_ptr, parts_ptr, count, BLOCK: tl.constexpr):
    # Pass 1: each program adds its share of the elements and writes ONE partial sum.

    # TODO 1: decide which elements are the share of program tl.program_id(0) of tl.num_programs(0). The
    #         number of programs is bounded, the number of elements is not, so there is a loop. Indices may
    #         pass 2**31.

    # TODO 2: add them in float32.

    # TODO 3: store the partial sum. Who else writes to this address? Is every element of parts written by
    #         someone, also when the program had nothing to add?
    pass


@triton.jit
def add_parts_kernel(parts_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    # Pass 2: a single program adds the partial sums.
    # TODO 4
    pass


def total_sum(x: torch.Tensor) -> torch.Tensor:
    """The sum of all elements of a tensor, in two passes.

    Arguments:
        x: a tensor of any number of dimensions (0 included), any sizes (0 included) and any strides, of dtype
            float32, float16 or bfloat16. It must not be changed.

    Returns:
        A new float32 tensor of shape [] (0-d) on the device of x, whatever the dtype of x.

        - No elements: 0.
        - Accumulated in float32. Sums whose absolute values overflow float32 do not occur.
        - +inf, -inf and NaN follow IEEE addition.
        - Two calls on the same values return the same bits; ten calls are compared. So no atomic additions:
          the order in which they arrive changes from run to run, and with it the rounding.
        - The workspace for the partial sums has a size that does not grow without bound with x, and all of it
          is written before it is read.

    Example:
        >>> total_sum(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor(10.)

    The host code must not compute with torch operators; torch.empty, views and .contiguous() are fine.
    Speed: at least 0.85 of torch.sum on 2**28 elements.
    """
    # TODO 5: how does the first kernel find the elements of an x that is not contiguous?
    # TODO 6: allocate the workspace and the output, launch both kernels, return the output.
    raise NotImplementedError("ch04.total_sum is yours to write")

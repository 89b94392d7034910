"""Exercise ch02.outer_add: outer sum with a two-dimensional grid.

Each program writes one tile of BLOCK_M rows by BLOCK_N columns. The handout (README.md) shows how two ranges
of indices make a tile. Run `grade ch02.outer_add`; `grade hint ch02.outer_add` when stuck.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def outer_add_kernel(
    x_ptr, y_ptr, z_ptr, M, N, stride_x, stride_y, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    # TODO 1: the rows and the columns of this program's tile, from its two numbers in the grid. M * N may
    #         pass 2**31, where an int32 overflows: convert to tl.int64 before multiplying.
    # TODO 2: one mask for the rows, one for the columns.
    # TODO 3: load the block of x and the block of y; neighbours are stride_x and stride_y elements apart.
    # TODO 4: [:, None] and [None, :] make a column and a row of a vector; together they broadcast to a tile.
    # TODO 5: store the tile; both masks apply.
    pass


def outer_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """z[m, n] = x[n] + y[m].

    Args:
        x: [N], y: [M], of one dtype: float32, float16, bfloat16, int8, int16, int32 or int64. N and M
            may be 0. The strides are any, also 0, and not the same for both.

    Returns:
        A new contiguous tensor [M, N] of that dtype, on the device of x: one row for each element of y,
        one column for each element of x. Floating-point sums are rounded once; integers wrap.

    Example:
        outer_add(tensor([1, 2, 3]), tensor([10, 20]))  ->  tensor([[11, 12, 13],
                                                                    [21, 22, 23]])
    """
    # TODO 6: allocate the output [M, N]; return it at once when it has no elements.
    # TODO 7: a grid of two numbers that covers both sides. The first may be up to 2**31 - 1, the second only
    #         up to 65,535: what if one input is very long?
    # TODO 8: launch on the device that x is on (with torch.cuda.device_of(x): ...).
    raise NotImplementedError("outer_add is not written yet")

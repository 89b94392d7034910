"""Exercise ch03.transpose: reads and writes both coalesced.

Element by element, either the reads or the writes of a transpose jump a whole line from lane to lane. A
tile that is turned on the chip lets both run along lines. `.contiguous()`, `.clone()`, `.to()` and
`copy_` of the input would be the answer, so here they are refused. Run `grade ch03.transpose`;
`grade hint ch03.transpose` when stuck.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(
    x_ptr, y_ptr, M, N, stride_m, stride_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    # TODO 1: the tile of this program from one number, tl.program_id(0): its place along M and its place
    #         along N.
    # TODO 2: the row and column indices of the tile. They are multiplied by strides: convert to tl.int64
    #         first.
    # TODO 3: load the tile of x. Which index has to run along the last dimension of the block, if
    #         neighbouring lanes are to read neighbouring addresses? Mask both sides.
    # TODO 4: exchange the two dimensions of the block.
    # TODO 5: store it into y, whose lines are M elements long. The mask has the shape of the turned block.
    pass


def transpose(x: torch.Tensor) -> torch.Tensor:
    """y[n, m] = x[m, n].

    Args:
        x: [M, N], either of which may be 0; any strides (also 0) and storage offset, so x may itself be a
            transposed view. float32, float16, bfloat16, int8, int16, int32, int64 or bool. The offset of
            an element may pass 2**31, also where x is small.

    Returns:
        A new contiguous tensor [N, M] of x's dtype, on x's device, equal to x.t() bit for bit. It never
        shares memory with x.

    Example:
        transpose(tensor([[1, 2, 3], [4, 5, 6]]))  ->  tensor([[1, 4], [2, 5], [3, 6]])
    """
    # TODO 6: allocate the output [N, M]; return it at once when it has no elements.
    # TODO 7: the number of tiles. Axes 1 and 2 of a grid end at 65,535 programs, axis 0 at 2**31 - 1.
    # TODO 8: launch on x's device (with torch.cuda.device_of(x): ...).
    # TODO 9, for the last points: tile sides and num_warps. Count the bytes that a line of a tile has, on
    #         both sides.
    raise NotImplementedError("transpose is not written yet")

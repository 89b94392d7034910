"""Exercise ch01.stream_copy: the first kernel, a copy as fast as the memory.

A copy does no arithmetic at all, so its roofline is the memory's alone, and what it reaches is the most that
any kernel of this course can hope for where the memory is the limit.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """One program copies BLOCK neighbouring elements; n is the number of elements of the whole tensor."""
    # TODO 1: which program is this (tl.program_id), and where does its block start?
    # TODO 2: the offsets of the block's elements (tl.arange).
    # TODO 3: which of them lie inside the tensor? The last block may hang over its end.
    # TODO 4: load from x_ptr, store to y_ptr, both only inside.
    pass


def stream_copy(x: torch.Tensor) -> torch.Tensor:
    """A copy of x.

    x   any shape (0 to 4 dimensions, sizes may be 0), any strides (transposed, sliced, expanded);
        dtype float32, float16, bfloat16, float64, int8, int16, int32, int64, uint8 or bool

    Returns a new contiguous tensor of x's shape, dtype and device with x's bits: -0 stays -0, and a NaN keeps
    its sign and its payload (the bits that tell one NaN from another). x is not changed. An empty x gives an
    empty result.

    The copy must be made by your kernel. `x.contiguous()` and views are allowed to prepare its input;
    `copy_`, `clone` and the like do not count as a copy of your own.

    Example:

        >>> stream_copy(torch.arange(6).reshape(2, 3).t())
        tensor([[0, 3],
                [1, 4],
                [2, 5]])

    Speed: at least .90 of `x.clone()` for 512 MiB on a GPU.
    """
    # TODO 5: allocate the result. What if there is nothing to copy?
    # TODO 6: choose BLOCK (a power of two) and the number of programs that covers all n elements.
    # TODO 7: launch on the device of x: `with torch.cuda.device_of(x): copy_kernel[grid](...)`.
    raise NotImplementedError("ch01.stream_copy")

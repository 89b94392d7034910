"""Exercise ch02.vec_add: vector addition.

Each program adds one block of BLOCK elements. The handout (README.md) explains programs, blocks and masks.
Run `grade ch02.vec_add`; `grade hint ch02.vec_add` when stuck.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    # TODO 1: which block is this program's? tl.program_id(0) is its number in the grid.
    # TODO 2: the BLOCK offsets of its elements. tl.arange(0, BLOCK) is 0, 1, ..., BLOCK - 1.
    # TODO 3: the mask of the lanes that lie inside the tensor: n need not be a multiple of BLOCK.
    # TODO 4: load both blocks, add, store; each load and each store with the mask.
    pass


def vec_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """z = x + y, element by element.

    Args:
        x, y: tensors of one shape (any number of dimensions, also none; any size may be 0) and of one dtype:
            float32, float16, bfloat16, int8, int16, int32 or int64. Each has its own layout: transposed,
            a step-2 slice, rows with a pitch, an expanded dimension (stride 0) ...

    Returns:
        A new contiguous tensor of that shape and dtype, on the device of x. Floating-point sums are rounded
        once, as torch.add does; integers wrap, as in 127 + 1 = -128 for int8. A tensor with no elements
        needs no launch.

    Example:
        vec_add(tensor([1, 2, 3]), tensor([10, 20, 30]))  ->  tensor([11, 22, 33])
    """
    # TODO 5: the kernel sees memory as one line of elements. What about a layout in which that is not
    #         their order?
    # TODO 6: allocate the output; return it at once when it has no elements.
    # TODO 7: launch enough programs for all elements, on the device that x is on:
    #         with torch.cuda.device_of(x): add_kernel[(programs,)](...)
    raise NotImplementedError("vec_add is not written yet")

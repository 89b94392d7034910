"""Exercise ch03.strided_copy: any view into contiguous memory.

A tensor is a pointer, a shape and a stride for each dimension. This kernel turns all three into addresses
itself; `.contiguous()`, `.clone()`, `.to()` and `copy_` of the input would be the answer, so here they
are refused. The handout (README.md) explains strides, coalescing and the width of an offset. Run
`grade ch03.strided_copy`; `grade hint ch03.strided_copy` when stuck.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def strided_copy_kernel(
    x_ptr, y_ptr,
    size_0, size_1, size_2, size_3,
    stride_0, stride_1, stride_2, stride_3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO 1: which elements of the output, counted in row-major order, belong to this program?
    # TODO 2: the four indices of each of them, by division and remainder.
    # TODO 3: the offset in the input: the sum of index times stride. How large can one product become,
    #         and what type has it? (handout, "How wide an offset is")
    # TODO 4: load, store, one mask for both.
    # TODO 5, when everything else passes: an index by division costs time for every element. Give a
    #         program a piece of whole lines instead, so that most of the index is found once a program;
    #         and think about which dimension of the *input* has its neighbours side by side.
    pass


def strided_copy(x: torch.Tensor) -> torch.Tensor:
    """A new contiguous tensor with the elements of x in x's order.

    Args:
        x: 0 to 4 dimensions, any of which may be 0 long; any strides (padded, permuted, 0 where a
            dimension is expanded; torch has no negative ones) and any storage offset. float32, float16,
            bfloat16, int8, int16, int32, int64 or bool. The offset of an element may pass 2**31, also
            where x is small.

    Returns:
        A new contiguous tensor of x's shape and dtype, on x's device, equal to x bit for bit: a NaN keeps
        its sign and payload, -0.0 its sign. It never shares memory with x, also where x is contiguous
        already.

    Example:
        a = torch.arange(6).reshape(2, 3)          # strides (3, 1)
        strided_copy(a.t())                        # tensor([[0, 3], [1, 4], [2, 5]]), strides (2, 1)
        strided_copy(a[:, ::2])                    # tensor([[0, 2], [3, 5]])
        strided_copy(a[:, :1].expand(2, 3))        # tensor([[0, 0, 0], [3, 3, 3]])
    """
    # TODO 6: allocate the output; return it at once when it has no elements.
    # TODO 7: bring shape and strides to four dimensions: which size and which stride change nothing?
    # TODO 8: the number of programs, all on axis 0; launch on x's device (with torch.cuda.device_of(x): ...).
    raise NotImplementedError("strided_copy is not written yet")

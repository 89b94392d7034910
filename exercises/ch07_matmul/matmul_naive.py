"""Exercise ch07.matmul_naive: a matrix product, right before it is fast.

Grade it with `grade ch07.matmul_naive`; ask for help with `grade hint ch07.matmul_naive`.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_kernel(
    a_ptr, b_ptr, c_ptr, N, K, stride_am, stride_ak, stride_bk, stride_bn, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    # TODO 1: which row of C, and which BLOCK_N of its columns, are this program's? (One element a program is
    #         fine too.) Everything that is multiplied by a stride becomes int64 first.

    # TODO 2: one sum a column, in float32 whatever the dtype of the factors.

    # TODO 3: walk along K, BLOCK_K at a time: load a piece of the row of A and a tile of B, multiply them in
    #         float32 and add up. What must a lane past the end of K hold, in A and in B?

    # TODO 4: round to the dtype of C and store, once.
    pass


def matmul_naive(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The matrix product a b, without any reuse between programs.

    Arguments:
        a: a tensor [M, K] of dtype float32, float16 or bfloat16, with any strides: it may be transposed, a
            slice with gaps, or expanded. M, K and N may be 0. It must not be changed.
        b: a tensor [K, N] of the dtype of a, likewise.

    Returns:
        A new contiguous tensor [M, N] of the dtype of a, on its device. Element (m, n) is the sum over k of
        a[m, k] b[k, n].

        - Products and sums are those of float32 (IEEE, not TF32), with one rounding to the dtype at the end.
          Sums whose absolute values overflow float32 do not occur.
        - K = 0: all zeros. M = 0 or N = 0: an empty tensor; no kernel need be launched.
        - +inf, -inf and NaN follow IEEE arithmetic: inf times 0 is NaN.

    Example:
        >>> matmul_naive(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]]))
        tensor([[19., 22.],
                [43., 50.]])

    The host code must not compute with torch operators; torch.empty and views are fine. No speed is asked for.
    """
    # TODO 5: allocate C, choose the blocks, launch one program for each row (or piece of a row, or element)
    #         of C on the device of a (with torch.cuda.device_of(a): ...), return C.
    raise NotImplementedError("ch07.matmul_naive is yours to write")

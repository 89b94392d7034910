"""Exercise ch07.matmul_tiled: one tile of the result a program, on tensor cores.

Grade it with `grade ch07.matmul_tiled`; ask for help with `grade hint ch07.matmul_tiled`.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def tile_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO 1: from tl.program_id(0) to the tile's row and column of tiles, and from there to BLOCK_M row and
    #         BLOCK_N column indices of C.

    # TODO 2: pointers to the first [BLOCK_M, BLOCK_K] tile of A and [BLOCK_K, BLOCK_N] tile of B, offsets in
    #         int64, and an accumulator [BLOCK_M, BLOCK_N]. In which dtype?

    # TODO 3: along K: load both tiles, masked on all four sides, accumulate with tl.dot, move the pointers on.
    #         By default tl.dot cuts float32 factors to TF32; look up `input_precision`.

    # TODO 4: one rounding, one masked store.
    pass


def matmul_tiled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The matrix product a b, a tile of the result a program.

    Arguments:
        a: a tensor [M, K] of dtype float32, float16 or bfloat16, with any strides. M, K and N may be 0, or
            no multiple of anything. It must not be changed.
        b: a tensor [K, N] of the dtype of a, likewise.

    Returns:
        A new contiguous tensor [M, N] of the dtype of a, on its device: the sums over k of a[m, k] b[k, n].

        - Sums are accumulated in float32 and rounded once, at the end. For float32 factors the products are
          IEEE float32 as well: all 24 bits of both factors count.
        - K = 0: all zeros. M = 0 or N = 0: an empty tensor.
        - +inf, -inf and NaN follow IEEE arithmetic.

    Example:
        >>> matmul_tiled(torch.ones(2, 300), torch.ones(300, 3))
        tensor([[300., 300., 300.],
                [300., 300., 300.]])

    The host code must not compute with torch operators; torch.empty and views are fine.
    Speed: at least 0.55 of torch.matmul (cuBLAS) on 4096 x 4096 x 4096, float16 and bfloat16.
    """
    # TODO 5: allocate C; choose the tile for the dtype and the sizes (tl.dot takes sides of 16 and more), and
    #         num_warps and num_stages for the tile.
    # TODO 6: launch one program a tile, on the device of a. How many tiles are there when M is 129?
    raise NotImplementedError("ch07.matmul_tiled is yours to write")

"""Exercise ch02.gelu_tanh: an activation function, in float32, with no overflow.

Run `grade ch02.gelu_tanh`; `grade hint ch02.gelu_tanh` when stuck.
"""

import torch
import triton
import triton.language as tl

# A global that a kernel reads must be a tl.constexpr.
SQRT_2_OVER_PI = tl.constexpr(0.7978845608028654)


@triton.jit
def gelu_tanh_kernel(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    # TODO 1: offsets, mask and load, as in vec_add; then convert to float32, in which all arithmetic is done.
    # TODO 2: u, then tanh(u) or what replaces it. triton.language has exp but no tanh. Before you write
    #         a formula, ask what its exponentials are at x = 10,000 and at x = -10,000.
    # TODO 3: convert to the output's type and store.
    pass


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    """GELU by its tanh approximation, as torch.nn.functional.gelu(x, approximate="tanh").

        gelu(x) = 0.5 * x * (1 + tanh(u)),   u = sqrt(2 / pi) * (x + 0.044715 * x**3)

    Args:
        x: a tensor of any shape (any size may be 0) and any layout; float32, float16 or bfloat16.

    Returns:
        A new contiguous tensor of x's shape and dtype, on its device. It is computed in float32 whatever
        the dtype, and rounded to it once, at the end.

        Finite x gives a finite result, however large: gelu(10,000) = 10,000 and gelu(-10,000) = -0.
        +0 and -0 keep their sign; +inf gives +inf; NaN gives NaN; -inf gives NaN, as it does in torch,
        because 1 + tanh(-inf) is 0 and -inf * 0 is NaN.

    Example:
        gelu_tanh(tensor([-1., 0., 1., 2.]))  ->  tensor([-0.1588, 0.0000, 0.8412, 1.9546])
    """
    # TODO 4: any layout, the output, the case of no elements, the launch: as in vec_add.
    raise NotImplementedError("gelu_tanh is not written yet")

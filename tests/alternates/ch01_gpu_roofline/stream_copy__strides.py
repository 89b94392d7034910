"""Different from the reference: no contiguous() on the host; the kernel reaches x through its strides."""

import torch
import triton
import triton.language as tl


@triton.jit
def gather_kernel(x_ptr, y_ptr, n, d1, d2, d3, s0, s1, s2, s3, BLOCK: tl.constexpr):
    linear = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = linear < n
    # The position in the result, taken apart into its four indices, last one first.
    i3 = linear % d3
    rest = linear // d3
    i2 = rest % d2
    rest = rest // d2
    i1 = rest % d1
    i0 = rest // d1
    source = i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3
    tl.store(y_ptr + linear, tl.load(x_ptr + source, mask=inside), mask=inside)


@triton.jit
def line_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    linear = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + linear, tl.load(x_ptr + linear, mask=linear < n), mask=linear < n)


def stream_copy(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    if n == 0:
        return y
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    with torch.cuda.device_of(x):
        if x.is_contiguous():
            block = 8192 // x.element_size()
            line_kernel[(triton.cdiv(n, block),)](x.view(bits), y.view(bits), n, BLOCK=block)
        else:
            shape = (1,) * (4 - x.dim()) + tuple(x.shape)
            strides = (0,) * (4 - x.dim()) + tuple(x.stride())
            grid = (triton.cdiv(n, 1024),)
            gather_kernel[grid](x.view(bits), y.view(bits), n, *shape[1:], *strides, BLOCK=1024)
    return y

"""Different from the reference: two configurations to choose from, and whole blocks without a mask.

The branch is the same for all threads of a program, so it costs nothing, and the 16-byte accesses no longer
hang on n.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 2048}, num_warps=4), triton.Config({"BLOCK": 4096}, num_warps=8)],
    key=["width"],
)
@triton.jit
def block_kernel(x_ptr, y_ptr, n, width, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))
    else:
        tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def stream_copy(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    width = x.element_size()
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[width]
    flat = x.contiguous().view(bits)
    n = flat.numel()

    def grid(meta):
        return (triton.cdiv(n, meta["BLOCK"]),)

    with torch.cuda.device_of(x):
        block_kernel[grid](flat, out.view(bits), n, width)
    return out

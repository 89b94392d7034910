"""Vector addition whose block size the autotuner chooses; the grid depends on the configuration."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024}, num_warps=4),
        triton.Config({"BLOCK": 4096}, num_warps=8),
    ],
    key=["n"],
)
@triton.jit
def tuned_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(z_ptr + at, x + y, mask=inside)


def vec_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if z.numel() == 0:
        return z
    n = z.numel()
    with torch.cuda.device_of(x):
        tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.contiguous(), y.contiguous(), z, n)
    return z

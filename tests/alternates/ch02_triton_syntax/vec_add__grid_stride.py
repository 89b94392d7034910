"""Vector addition by a fixed number of programs, each of which walks over the blocks in steps of the grid."""

import torch
import triton
import triton.language as tl

BLOCK = 1024
# As many programs as keep a large GPU busy.
PROGRAMS = 132 * 8


@triton.jit
def walking_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK).to(tl.int64)
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK, n, step):
        offsets = start + lanes
        inside = offsets < n
        x = tl.load(x_ptr + offsets, mask=inside, other=0)
        y = tl.load(y_ptr + offsets, mask=inside, other=0)
        tl.store(z_ptr + offsets, x + y, mask=inside)


def vec_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x, memory_format=torch.contiguous_format)
    n = z.numel()
    if n > 0:
        # Half as many programs as blocks where there are few, so that each walks at least one step.
        grid = (min(PROGRAMS, triton.cdiv(n, 2 * BLOCK)),)
        with torch.cuda.device_of(x):
            walking_kernel[grid](x.contiguous(), y.contiguous(), z, n, BLOCK=BLOCK)
    return z

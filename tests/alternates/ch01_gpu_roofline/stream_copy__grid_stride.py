"""Different from the reference: a fixed number of programs walks over the tensor, in the element's own dtype.

Loads and stores of floating-point numbers move bits as well: nothing is computed in between.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def walk_kernel(src, dst, n, STEPS, BLOCK: tl.constexpr):
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    stride = tl.num_programs(0).to(tl.int64) * BLOCK
    for _ in range(0, STEPS):
        inside = lane < n
        tl.store(dst + lane, tl.load(src + lane, mask=inside), mask=inside)
        lane += stride


def stream_copy(x: torch.Tensor) -> torch.Tensor:
    source = x.contiguous()
    result = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n, block = x.numel(), 16384 // x.element_size()
    if n:
        blocks = triton.cdiv(n, block)
        programs = min(blocks, 132 * 16)
        with torch.cuda.device_of(x):
            steps = triton.cdiv(blocks, programs)
            walk_kernel[(programs,)](source, result, n, steps, BLOCK=block, num_warps=4)
    return result

"""Only the selected elements are read; `contiguous` on the host; a program walks over several rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, mask_ptr, out_ptr, M, N, pitch, programs, BLOCK: tl.constexpr):
    first = tl.program_id(0)
    for row in range(first, M, programs):
        base = tl.full([], 0, tl.int64) + pitch * row
        total = tl.zeros([BLOCK], dtype=tl.float32)
        count = tl.zeros([BLOCK], dtype=tl.int32)
        for start in range(0, N, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            keep = tl.load(mask_ptr + base + cols, mask=cols < N, other=0) != 0
            x = tl.load(x_ptr + base + cols, mask=keep, other=0.0)
            total += x.to(tl.float32)
            count += tl.where(keep, 1, 0)
        selected = tl.sum(count, axis=0)
        mean = tl.sum(total, axis=0) / tl.maximum(selected, 1)
        tl.store(out_ptr + row, tl.where(selected == 0, float("nan"), mean))


def masked_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    if M:
        programs = min(M, 2048)
        x, mask = x.contiguous(), mask.contiguous().view(torch.uint8)
        with torch.cuda.device_of(x):
            kernel[(programs,)](x, mask, out, M, N, N, programs, BLOCK=1024)
    return out

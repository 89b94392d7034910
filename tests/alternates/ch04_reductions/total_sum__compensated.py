"""total_sum in another style: compensated (Kahan-Babuska) partial sums.

Differs from the reference: each lane carries what rounding took from it, and pass 2 adds both; the host
copies what is not contiguous. More accurate than a plain float32 sum, so a bound that fails it is too tight.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def two_sum(a, b):
    # a + b = total + error, exactly (Knuth). Where total is not finite there is nothing to compensate.
    total = a + b
    b_part = total - a
    error = (a - (total - b_part)) + (b - b_part)
    return total, tl.where(error == error, error, 0.0)


@triton.jit
def compensated(x_ptr, sums_ptr, errors_ptr, count, BLOCK: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    lost = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, count, tl.num_programs(0) * BLOCK):
        index = start + program * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + index, mask=index < count, other=0).to(tl.float32)
        total, error = two_sum(total, x)
        lost += error
    tl.store(sums_ptr + program, tl.sum(total, axis=0))
    tl.store(errors_ptr + program, tl.sum(lost, axis=0))


@triton.jit
def finish(sums_ptr, errors_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(sums_ptr + lanes, mask=lanes < parts, other=0), axis=0)
    tl.store(out_ptr, total + tl.sum(tl.load(errors_ptr + lanes, mask=lanes < parts, other=0), axis=0))


def total_sum(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    parts = min(1024, max(1, triton.cdiv(x.numel(), 4096)))
    sums = torch.empty(parts, dtype=torch.float32, device=x.device)
    errors = torch.empty(parts, dtype=torch.float32, device=x.device)
    out = torch.empty((), dtype=torch.float32, device=x.device)
    compensated[(parts,)](x, sums, errors, x.numel(), BLOCK=4096, num_warps=8)
    finish[(1,)](sums, errors, out, parts, BLOCK=triton.next_power_of_2(parts))
    return out

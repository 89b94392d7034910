"""Other style: a program owns a strip of input rows and walks along it tile by tile in a loop; autotuned
over two configurations, and the tile is turned by `tl.permute`."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BM": 32, "BN": 64}, num_warps=4),
        triton.Config({"BM": 64, "BN": 32}, num_warps=2),
    ],
    key=["M", "N"],
)
@triton.jit
def _strip(x, y, M, N, sm, sn, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN).to(tl.int64)
    source = x + m[:, None] * sm + n[None, :] * sn
    target = y + n[:, None] * M + m[None, :]
    for left in range(0, N, BN):
        tile = tl.load(source, mask=(m[:, None] < M) & (n[None, :] < N - left))
        tl.store(target, tl.permute(tile, (1, 0)), mask=(n[:, None] < N - left) & (m[None, :] < M))
        # One step to the right in x is BN whole lines down in y; as a block, so that the step is 64 bits
        # wide.
        source += tl.full([1, 1], BN, tl.int64) * sn
        target += tl.full([1, 1], BN, tl.int64) * M


def transpose(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty(N, M, device=x.device, dtype=x.dtype)
    if y.numel() == 0:
        return y
    with torch.cuda.device_of(x):
        _strip[lambda meta: (triton.cdiv(M, meta["BM"]),)](x, y, M, N, *x.stride())
    return y

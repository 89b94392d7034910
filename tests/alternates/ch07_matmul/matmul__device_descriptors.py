"""matmul in another style: descriptors made by the kernel, one kernel for every layout.

Differs from the reference: tl.make_tensor_descriptor instead of descriptors from the host; what has no
aligned rows is copied by the host into rows that are, padded to a multiple of 16 bytes; float32 too goes this
way. Persistent, with as many programs as the machine has multiprocessors.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def product(
    a_ptr, b_ptr, c_ptr, M, N, K, a_pitch, b_pitch, c_pitch, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    DESCRIBED: tl.constexpr,
):  # fmt: skip
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [a_pitch, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [b_pitch, 1], [BK, BN])
    if DESCRIBED:
        c = tl.make_tensor_descriptor(c_ptr, [M, N], [c_pitch, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        m = tile // across * BM
        n = tile % across * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([m, k]), b.load([k, n]), total, input_precision="ieee")
        if DESCRIBED:
            c.store([m, n], total.to(c_ptr.dtype.element_ty))
        else:
            rows = (m + tl.arange(0, BM)).to(tl.int64)[:, None]
            cols = (n + tl.arange(0, BN))[None, :]
            result = total.to(c_ptr.dtype.element_ty)
            tl.store(c_ptr + rows * c_pitch + cols, result, mask=(rows < M) & (cols < N))


def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    return torch.empty(size, dtype=torch.int8, device="cuda")


def aligned(x: torch.Tensor) -> bool:
    pitch = x.stride(0) * x.element_size()
    return x.stride(1) == 1 and pitch % 16 == 0 and x.stride(0) >= x.shape[1] and x.data_ptr() % 16 == 0


def described(x: torch.Tensor) -> torch.Tensor:
    """x, or a copy of it, with contiguous rows that start at multiples of 16 bytes."""
    if aligned(x):
        return x
    unit = 16 // x.element_size()
    room = torch.empty((x.shape[0], triton.cdiv(x.shape[1], unit) * unit), dtype=x.dtype, device=x.device)
    room = room[:, : x.shape[1]]
    room.copy_(x)
    return room


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    if 0 in (M, N, K):
        return torch.zeros((M, N), dtype=a.dtype, device=a.device)
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    a, b = described(a), described(b)
    side = 64 if a.dtype == torch.float32 else 128
    tiles = triton.cdiv(M, side) * triton.cdiv(N, side)
    with torch.cuda.device_of(a):
        triton.set_allocator(allocate)
        programs = torch.cuda.get_device_properties(a.device).multi_processor_count
        product[(min(tiles, programs),)](
            a, b, c, M, N, K, a.stride(0), b.stride(0), N, BM=side, BN=side, BK=32, DESCRIBED=aligned(c), num_warps=8
        )
    return c

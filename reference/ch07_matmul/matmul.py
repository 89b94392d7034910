"""matmul: C = A B at the speed of a vendor's library.

Three things are added to the tile of the previous exercise.

- *Grouped order.* Tiles that are computed at the same time should share rows of A and columns of B, so that
  these come from the L2 cache: GROUP_M tiles go down a column of tiles before the next column is taken.
- *Persistent programs.* One program a multiprocessor takes tile after tile, so that the loads of the next tile
  are on their way while the last one is being stored.
- *Tensor descriptors.* On Hopper and later a descriptor lets one thread ask for a whole tile; the hardware
  works out the addresses, reads zeros beyond the edge and drops what is stored there. It needs rows that are
  contiguous and start at multiples of 16 bytes. What has none goes by pointers: other strides, float32,
  older GPUs.

Which blocks are the fastest is measured on the first call of a large problem, once for a class of sizes.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNED_FROM = 512**3  # multiply-adds; below, a fixed configuration, since tuning would cost more than it gains
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 4, "num_stages": 3}
# No tensor core multiplies 24-bit numbers: plain fused multiply-adds, 32 sums a thread.
FLOAT32 = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16, "GROUP_M": 8, "num_warps": 4, "num_stages": 3}


@triton.jit
def tile_place(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """(row, column) of a tile in grouped order: down GROUP_M rows of tiles, then one column to the right."""
    tiles_of_group = GROUP_M * tiles_n
    first_row = tile // tiles_of_group * GROUP_M
    # The last group has fewer rows when GROUP_M does not divide tiles_m.
    rows_of_group = tl.minimum(tiles_m - first_row, GROUP_M)
    within = tile % tiles_of_group
    return first_row + within % rows_of_group, within // rows_of_group


@triton.jit
def descriptor_kernel(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    size_class,  # not used here: the autotuner's key
    A_COLUMNS: tl.constexpr,  # A is stored column by column: its descriptor is that of A transposed
    B_COLUMNS: tl.constexpr,
    PROGRAMS: tl.constexpr,  # how many programs share the tiles
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    HALVES: tl.constexpr,  # the tile is stored as two halves, which need half the shared memory
    FLATTEN: tl.constexpr,  # both loops are made one, so that loads are pipelined across tiles
):
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=FLATTEN):
        tile_m, tile_n = tile_place(tile, tiles_m, tiles_n, GROUP_M)
        m = tile_m * BLOCK_M
        n = tile_n * BLOCK_N
        acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        for step in range(steps):
            k = step * BLOCK_K
            # Beyond the edges the hardware fills in zeros, so there is no mask, for the tail of K neither.
            a = a_desc.load([k, m]).T if A_COLUMNS else a_desc.load([m, k])
            b = b_desc.load([n, k]).T if B_COLUMNS else b_desc.load([k, n])
            acc = tl.dot(a, b, acc)
        if HALVES:
            left, right = acc.reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1).split()
            c_desc.store([m, n], left.to(c_desc.dtype))
            c_desc.store([m, n + BLOCK_N // 2], right.to(c_desc.dtype))
        else:
            c_desc.store([m, n], acc.to(c_desc.dtype))


@triton.jit
def pointer_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    size_class,  # not used here: the autotuner's key
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    tile_m, tile_n = tile_place(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    row_ok = (rows < M)[:, None]
    col_ok = (cols < N)[None, :]

    # 64-bit offsets, for matrices of more than 2**31 elements and for wide pitches.
    a_ptrs = a_ptr + rows.to(tl.int64)[:, None] * stride_am + ks.to(tl.int64)[None, :] * stride_ak
    b_ptrs = b_ptr + ks.to(tl.int64)[:, None] * stride_bk + cols.to(tl.int64)[None, :] * stride_bn
    a_step = tl.full([], BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full([], BLOCK_K, tl.int64) * stride_bk

    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        # Past the end of K both tiles hold 0: 0 times a NaN from behind a matrix would be NaN.
        k_ok = ks < K - start
        a = tl.load(a_ptrs, mask=row_ok & k_ok[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=k_ok[:, None] & col_ok, other=0.0)
        # "ieee" is for float32: all 24 bits of each factor, not TF32's 11.
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += a_step
        b_ptrs += b_step

    c_ptrs = c_ptr + rows.to(tl.int64)[:, None] * N + cols[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=row_ok & col_ok)


def fit_descriptors(arguments: dict) -> None:
    """Give the descriptors of a launch the blocks that its configuration has."""
    m, n, k = (arguments[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    arguments["a_desc"].block_shape = [k, m] if arguments["A_COLUMNS"] else [m, k]
    arguments["b_desc"].block_shape = [n, k] if arguments["B_COLUMNS"] else [k, n]
    arguments["c_desc"].block_shape = [m, n // 2 if arguments["HALVES"] else n]


def descriptor_config(
    m: int, n: int, warps: int, stages: int, halves: bool, group: int = 8, flatten: bool = True
) -> triton.Config:
    """One candidate; 64 elements along K are 128 bytes, the width in which descriptors swizzle a tile."""
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 64, "GROUP_M": group, "HALVES": halves, "FLATTEN": flatten}
    return triton.Config(blocks, num_warps=warps, num_stages=stages, pre_hook=fit_descriptors)


# 128 x 256 (or 256 x 128) is the largest tile whose sums fit into the registers of 256 threads. A stage of its
# factors is 48 KiB of shared memory: four of them leave room for half a tile of C, three for a whole one.
DESCRIPTOR_CONFIGS = [
    descriptor_config(128, 256, warps=8, stages=4, halves=True),
    descriptor_config(128, 256, warps=8, stages=4, halves=True, group=16),
    descriptor_config(128, 256, warps=8, stages=4, halves=True, flatten=False),
    descriptor_config(128, 256, warps=8, stages=3, halves=False),
    descriptor_config(256, 128, warps=8, stages=4, halves=True),
    descriptor_config(256, 128, warps=8, stages=3, halves=False),
    descriptor_config(128, 128, warps=8, stages=4, halves=False),
    descriptor_config(128, 128, warps=4, stages=4, halves=False),
]
POINTER_CONFIGS = [
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=3, num_warps=8),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=3, num_warps=8),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8}, num_stages=4, num_warps=4),
]


def quick_bench(call, quantiles):
    """A fifth of the autotuner's usual time for each candidate; they differ by more than that leaves uncertain."""
    return triton.testing.do_bench(call, warmup=5, rep=20, quantiles=quantiles)


tuned_descriptor_kernel = triton.autotune(
    DESCRIPTOR_CONFIGS, key=["size_class", "A_COLUMNS", "B_COLUMNS"], do_bench=quick_bench
)(descriptor_kernel)
tuned_pointer_kernel = triton.autotune(POINTER_CONFIGS, key=["size_class"], do_bench=quick_bench)(pointer_kernel)


def size_class(M: int, N: int, K: int) -> int:
    """The sizes to the next power of two, as one number: what is tuned once, and not for every new M."""
    return (M.bit_length() << 12) | (N.bit_length() << 6) | K.bit_length()


def row_major(x: torch.Tensor) -> torch.Tensor | None:
    """x or its transpose, whichever a descriptor can describe; None if neither.

    The last dimension contiguous, the other one at multiples of 16 bytes, and no rows that overlap.
    """
    for view in (x, x.t()):
        pitch = view.stride(0)
        aligned = view.data_ptr() % 16 == 0 and pitch * view.element_size() % 16 == 0
        if view.stride(1) == 1 and pitch >= view.shape[1] and aligned:
            return view
    return None


def describable(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> bool:
    """Whether the whole product can go through descriptors: the hardware has them, the layouts fit."""
    hopper = torch.version.hip is None and torch.cuda.get_device_capability(a.device) >= (9, 0)
    sizes = *a.shape, b.shape[1]
    in_range = min(sizes) > 0 and max(sizes) < 2**31 - 256  # coordinates are int32
    return hopper and in_range and a.dtype != torch.float32 and all(row_major(x) is not None for x in (a, b, c))


def by_descriptors(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """c = a b, where `describable`."""
    (M, K), N = a.shape, b.shape[1]
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    rows_a, rows_b = row_major(a), row_major(b)
    # The blocks are set when the configuration is known; any will do until then.
    a_desc, b_desc, c_desc = (TensorDescriptor.from_tensor(x, [16, 16]) for x in (rows_a, rows_b, c))
    arguments = (a_desc, b_desc, c_desc, M, N, K, size_class(M, N, K))
    options = {"A_COLUMNS": rows_a is not a, "B_COLUMNS": rows_b is not b, "PROGRAMS": programs}

    def grid(meta: dict) -> tuple[int]:
        return (min(programs, triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"])),)

    if M * N * K >= TUNED_FROM:
        tuned_descriptor_kernel[grid](*arguments, **options)
    else:
        options |= SMALL | {"HALVES": False, "FLATTEN": True}
        fit_descriptors({"a_desc": a_desc, "b_desc": b_desc, "c_desc": c_desc, **options})
        descriptor_kernel[grid](*arguments, **options)


def by_pointers(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """c = a b, for any strides."""
    (M, K), N = a.shape, b.shape[1]
    arguments = (a, b, c, M, N, K, *a.stride(), *b.stride(), size_class(M, N, K))

    def grid(meta: dict) -> tuple[int]:
        return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)

    if a.dtype != torch.float32 and M * N * K >= TUNED_FROM:
        tuned_pointer_kernel[grid](*arguments)
    else:
        pointer_kernel[grid](*arguments, **(FLOAT32 if a.dtype == torch.float32 else SMALL))


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of a[M, K] and b[K, N] (float32, float16 or bfloat16; any strides): [M, N] in their dtype."""
    M, N = a.shape[0], b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if M and N:
        with torch.cuda.device_of(a):
            (by_descriptors if describable(a, b, c) else by_pointers)(a, b, c)
    return c

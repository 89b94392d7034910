"""A submission of sorts: kernels and host functions that the compiler tests compile. Imported by
`probe.py`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DEVICE = triton.runtime.driver.active.get_active_torch_device()
MULTIPROCESSORS = torch.cuda.get_device_properties(DEVICE).multi_processor_count


@triton.jit
def copy_kernel(x, y, n, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at * stride, mask=at < n), mask=at < n)


def copy(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.numel(), dtype=x.dtype, device=x.device)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), x.stride(0), BLOCK=1024)
    return y


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        sums = tl.dot(left, right, sums)
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(c.dtype.element_ty))


def matmul(a: torch.Tensor, b: torch.Tensor, BM=128, BN=128, BK=64, **options: int) -> torch.Tensor:
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(a.shape[0], BM), triton.cdiv(b.shape[1], BN))
    sizes = (a.shape[0], b.shape[1], a.shape[1])
    matmul_kernel[grid](a, b, c, *sizes, BM=BM, BN=BN, BK=BK, **options)
    return c


@triton.jit
def huge_tile_kernel(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    # Both reductions need every element again afterwards, so all 256 of a thread stay alive.
    values = values - tl.max(values, 0)
    tl.store(y + at, values / tl.sum(values, 0))


def huge_tile(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    huge_tile_kernel[(1,)](x, y, BLOCK=8192, num_warps=1)
    return y


@triton.jit
def descriptor_kernel(source, target, BM: tl.constexpr, BN: tl.constexpr):
    tile = source.load([tl.program_id(0) * BM, 0])
    target.store([tl.program_id(0) * BM, 0], tile)


def host_descriptor(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    source = TensorDescriptor.from_tensor(x, [64, 64])
    target = TensorDescriptor.from_tensor(y, [64, 64])
    descriptor_kernel[(x.shape[0] // 64,)](source, target, BM=64, BN=64)
    return y


@triton.jit
def device_descriptor_kernel(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(y, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target.store([tl.program_id(0) * BM, 0], source.load([tl.program_id(0) * BM, 0]))


def device_descriptor(x: torch.Tensor) -> torch.Tensor:
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    y = torch.empty_like(x)
    device_descriptor_kernel[(x.shape[0] // 64,)](x, y, x.shape[0], x.shape[1], BM=64, BN=64)
    return y


def _block(arguments: dict[str, TensorDescriptor]) -> None:
    arguments["source"].block_shape = [arguments["BM"], 64]
    arguments["target"].block_shape = [arguments["BM"], 64]


@triton.autotune(
    configs=[triton.Config({"BM": rows}, num_warps=4, pre_hook=_block) for rows in (32, 64, 128, 256)],
    key=["BN"],
    prune_configs_by={"early_config_prune": lambda configs, named, **rest: configs[:-1]},
)
@triton.jit
def tuned_kernel(source, target, BM: tl.constexpr, BN: tl.constexpr):
    target.store([tl.program_id(0) * BM, 0], source.load([tl.program_id(0) * BM, 0]))


def tuned(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    blank = [1, 1]
    source, target = (TensorDescriptor(t, list(t.shape), list(t.stride()), blank) for t in (x, y))
    tuned_kernel[lambda meta: (triton.cdiv(x.shape[0], meta["BM"]),)](source, target, BN=64)
    assert tuned_kernel.best_config.kwargs["BM"] == 32
    return y


@triton.autotune(
    configs=[triton.Config({"BM": size, "BN": size, "BK": 128}, num_stages=4) for size in (512, 64)],
    key=["M"],
    reset_to_zero=["c"],
)
@triton.heuristics({"EVEN": lambda arguments: arguments["K"] % arguments["BK"] == 0})
@triton.jit
def picky_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr):
    tl.static_assert(BM < 512, "this block is too large")
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    if EVEN:
        left = tl.load(a + rows[:, None] * K + inner[None, :])
        sums = tl.dot(left, tl.load(b + inner[:, None] * N + columns[None, :]))
    tl.store(c + rows[:, None] * N + columns[None, :], sums)


def picky(a: torch.Tensor) -> torch.Tensor:
    c = torch.zeros(a.shape, dtype=torch.float32, device=a.device)
    picky_kernel[(1, 1)](a, a, c, a.shape[0], a.shape[0], a.shape[0])
    return c


def asking(x: torch.Tensor) -> torch.Tensor:
    """Asks about the GPU and copies; works interpreted too."""
    assert x.is_cuda and torch.cuda.is_available() and torch.cuda.get_device_name(x.device)
    properties = torch.cuda.get_device_properties(x.device)
    driver = triton.runtime.driver.active
    assert properties.multi_processor_count == driver.utils.get_device_properties(0)["multiprocessor_count"]
    with torch.cuda.device(x.device):
        y = torch.empty(x.numel(), dtype=x.dtype, device="cuda")
        copy_kernel[(properties.multi_processor_count,)](x, y, x.numel(), x.stride(0), BLOCK=32)
    torch.cuda.synchronize()
    return y


def curious(x: torch.Tensor) -> torch.Tensor:
    """Sizes a persistent grid as tutorials do, and asks everything there is to ask."""
    assert x.is_cuda and x.get_device() == torch.cuda.current_device() == 0 and x.cuda() is x
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    assert properties["multiprocessor_count"] == MULTIPROCESSORS
    assert torch.cuda.get_device_capability(x.device) and torch.cuda.get_device_name()
    y = torch.empty(x.numel(), device="cuda", dtype=x.dtype).to("cuda")
    with torch.cuda.device(x.device), torch.cuda.stream(torch.cuda.Stream()):
        kernel = copy_kernel.warmup(x, y, x.numel(), x.stride(0), BLOCK=256, grid=(1,))
        kernel._init_handles()
        registers = max(kernel.n_regs, 1) * properties["warpSize"] * kernel.metadata.num_warps
        occupancy = properties["max_num_regs"] // registers
        kernel[(MULTIPROCESSORS * occupancy, 1, 1)](x, y, x.numel(), x.stride(0), 256)
    torch.cuda.current_stream().synchronize()
    torch.cuda.synchronize()
    triton.testing.do_bench(lambda: copy(x), warmup=1, rep=2)
    return y[: int(y.sum().item()) + 4]  # a size that comes from a kernel


# What does not compile --------------------------------------------------------------------------------------


@triton.jit
def helper(x):
    y = x + 1
    return y + undefined_name  # noqa: F821


@triton.jit
def broken_kernel(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, helper(tl.load(x + at)))


@triton.jit
def mismatch_kernel(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    wide = tl.arange(0, 2 * BLOCK)
    tl.store(x + at, tl.load(x + at) + wide)


@triton.jit
def asserting_kernel(x, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 64, "the block is too small")
    tl.store(x + tl.arange(0, BLOCK), 0.0)


@triton.jit
def assembly_kernel(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    value = tl.inline_asm_elementwise("no.such.f32 $0, $1;", "=r,r", [value], tl.float32, True, 1)
    tl.store(x + at, value)


def broken(x: torch.Tensor) -> None:
    broken_kernel[(1,)](x, BLOCK=32)


def mismatch(x: torch.Tensor) -> None:
    mismatch_kernel[(1,)](x, BLOCK=32)


def asserting(x: torch.Tensor) -> None:
    asserting_kernel[(1,)](x, BLOCK=32)


def assembly(x: torch.Tensor) -> None:
    assembly_kernel[(1,)](x, BLOCK=32)


def missing_argument(x: torch.Tensor) -> None:
    asserting_kernel[(1,)](x)


def unknown_option(x: torch.Tensor) -> None:
    asserting_kernel[(1,)](x, BLOCK=128, num_warp=4)


def odd_warps(x: torch.Tensor) -> None:
    asserting_kernel[(1,)](x, BLOCK=128, num_warps=3)


def many_warps(x: torch.Tensor) -> None:
    asserting_kernel[(1,)](x, BLOCK=128, num_warps=64)


def too_much_shared(x: torch.Tensor) -> None:
    matmul(x, x, BM=128, BN=256, BK=128, num_stages=4, num_warps=8)


def swallowing(x: torch.Tensor) -> None:
    try:
        asserting(x)
    except Exception:
        return

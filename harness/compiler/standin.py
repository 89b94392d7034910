"""A GPU that is not there, as host code sees it: `torch.cuda` and Triton's driver answer, tensors stay on the
CPU.

A submission's host code may ask how many multiprocessors there are, which capability, which stream, or make a
tensor on "cuda". Inside `with cuda("sm_90"):` it gets the answers of that target's best-known card, and
memory on the CPU. So the same host code runs when kernels are interpreted and when they are only compiled.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import mmap
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from . import binutils, resources
from .targets import Target, find

_MISSING = object()
_libc = ctypes.CDLL(None)
LARGE = 1 << 20  # bytes of new memory from which on it is not worth while to write zeros


@contextlib.contextmanager
def cuda(target: str, *, zero_new_memory: bool = False) -> Iterator[Target]:
    """Stand in for `target` while the block runs; what was there before is put back. Yields the target.

    Not thread-safe: it replaces attributes of `torch.cuda` and Triton's active driver for the whole process.
    With `zero_new_memory`, `torch.empty` and its kin give zeros: where kernels are compiled and not run, host
    code that reads a kernel's output reads 0 and not a random size. Raises ValueError for an unknown target.
    """
    described = find(target)
    with contextlib.ExitStack() as stack:
        for name, value in _torch_cuda(described).items():
            stack.enter_context(_replaced(torch.cuda, name, value))
        stack.enter_context(_replaced(driver, "_active", Driver(described)))
        stack.enter_context(_OnDevice(zero_new_memory))
        yield described


@contextlib.contextmanager
def _replaced(owner: object, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name, _MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


class Driver:
    """Triton's driver for `target`: it compiles, "loads" and "launches", and nothing runs."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.utils = _Utilities(target)
        self.launcher_cls = _no_launcher

    def get_current_target(self) -> GPUTarget:
        return GPUTarget(self.target.backend, self.target.arch, self.target.warp_size)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> SimpleNamespace:
        """What `triton.testing` times with."""
        return SimpleNamespace(**_torch_cuda(self.target))

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return self.target.capability

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Every configuration takes the same time: nothing is run, the first one wins."""
        return lambda *args, **kwargs: [1.0, 1.0, 1.0]

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.zeros(1, dtype=torch.int32)

    def clear_cache(self, cache: torch.Tensor) -> None:
        pass

    def assemble_tensormap_to_arg(self, tensormaps_info: object, args: Any) -> Any:
        return args


class _Utilities:
    """`driver.active.utils`. Host code that sizes a persistent grid reads these, and a loaded kernel's
    registers."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def get_device_properties(self, device: int) -> dict[str, int | str]:
        return dict(self.target.properties)

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """(module, function, registers, spills, threads a block) of a kernel that host code asks to be
        loaded."""
        handle = int(hashlib.sha256(binary).hexdigest()[:8], 16)
        registers, spills = 0, 0
        if self.target.backend == "cuda":
            usage = resources.usage_from_cuobjdump(binutils.resource_usage(binary), name)
            registers, spills = usage.registers, usage.spills
        return handle, handle, registers, spills, self.target.max_threads

    def unload_module(self, module: int) -> None:
        pass

    def set_printf_fifo_size(self, size: int) -> None:
        pass


def _no_launcher(source: object, metadata: object) -> Callable[..., None]:
    return lambda *args, **kwargs: None


class _Nothing:
    """A stream, an event, a device guard: every method of it that host code may call does nothing."""

    cuda_stream = 0
    device = torch.device("cpu")

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def _pass(self, *args: object, **kwargs: object) -> None:
        pass

    record = wait = synchronize = wait_event = wait_stream = _pass

    def record_event(self, event: _Nothing | None = None) -> _Nothing:
        return event or _Nothing()

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: object) -> float:
        return 1.0


def _torch_cuda(target: Target) -> dict[str, Any]:
    """The stand-ins by name. What is not here still raises torch's own error, as on any machine without a
    GPU."""
    stream = _Nothing()
    major, minor = target.capability
    properties = SimpleNamespace(
        name=target.device_name, major=major, minor=minor,
        total_memory=target.memory, L2_cache_size=target.l2,
        multi_processor_count=target.multiprocessors, warp_size=target.warp_size,
        regs_per_multiprocessor=65_536, max_threads_per_multi_processor=2048,
        max_threads_per_block=target.max_threads, shared_memory_per_block=min(49_152, target.max_shared),
        shared_memory_per_block_optin=target.max_shared,
        shared_memory_per_multiprocessor=target.shared_per_multiprocessor,
        clock_rate=target.clock, memory_clock_rate=target.memory_clock, memory_bus_width=target.memory_bus,
        is_integrated=False, is_multi_gpu_board=False,
        gcnArchName=str(target.arch) if target.backend == "hip" else "",
    )  # fmt: skip

    def give(value: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: value

    return {
        "is_available": give(True),
        "is_bf16_supported": give(True),
        "is_current_stream_capturing": give(False),
        "init": give(None),
        "device_count": give(1),
        "current_device": give(0),
        "set_device": give(None),
        "get_device_name": give(target.device_name),
        "get_device_capability": give(target.capability),
        "get_device_properties": give(properties),
        "get_arch_list": give([target.name]),
        "synchronize": give(None),
        "empty_cache": give(None),
        "mem_get_info": give((target.memory, target.memory)),
        "memory_allocated": give(0),
        "max_memory_allocated": give(0),
        "reset_peak_memory_stats": give(None),
        "current_stream": give(stream),
        "default_stream": give(stream),
        "device": _Nothing,
        "device_of": _Nothing,
        "stream": _Nothing,
        "set_stream": give(None),
        "Stream": _Nothing,
        "Event": _Nothing,
    }


_IS_CUDA = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]
_NEW_MEMORY = {torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty,
               torch.Tensor.new_empty_strided}  # fmt: skip
_SAME_TENSOR = {torch.Tensor.cuda, torch.Tensor.pin_memory}


class _OnDevice(TorchFunctionMode):
    """Lets CPU tensors pass for the device's: `x.is_cuda` holds, and device="cuda" allocates on the CPU."""

    def __init__(self, zero_new_memory: bool) -> None:
        super().__init__()
        self.zero_new_memory = zero_new_memory

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.device:
            return func(*args, **(kwargs or {}))  # a name, not memory: it stays what was written
        if func == _IS_CUDA:
            return True
        if func in _SAME_TENSOR:
            return args[0]
        if func is torch.Tensor.get_device:
            return 0
        if func is torch.Tensor.record_stream:
            return None
        if kwargs:
            kwargs = {name: _on_cpu(value) if name == "device" else value for name, value in kwargs.items()}
            kwargs.pop("pin_memory", None)
        if func is torch.Tensor.to:
            args = [args[0], *(_on_cpu(a) if isinstance(a, str | torch.device) else a for a in args[1:])]
        result = func(*args, **(kwargs or {}))
        if self.zero_new_memory and func in _NEW_MEMORY:
            _zero(result)
        return result


def _zero(new: torch.Tensor) -> None:
    """Set memory that nobody has written yet to zero; the kernel gives pages of zeros when it is read, so that the tensors
    of a benchmark need not be there in full."""
    start, size = new.data_ptr(), new.untyped_storage().nbytes()
    first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, (start + size) // mmap.PAGESIZE * mmap.PAGESIZE
    alone = size == new.nbytes >= LARGE and new.device.type == "cpu"
    if alone and _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED) == 0:
        ctypes.memset(start, 0, first - start)
        ctypes.memset(last, 0, start + size - last)
    else:
        new.zero_()


def _on_cpu(device: Any) -> Any:
    """The CPU for a device that names the stand-in ("cuda", "cuda:0", 0); any other as it is."""
    if isinstance(device, int) and not isinstance(device, bool):
        return "cpu"
    return "cpu" if str(device).split(":")[0] in ("cuda", "hip") else device

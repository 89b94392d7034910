"""Timed calls on a GPU, the same for the submission (in its worker) and for the baseline (in the examiner)."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness.errors import MachineError

# Work that goes on this long after the call's own stream is done was put somewhere else: it counts as well. Below it
# is the host, which takes tens of microseconds to notice that the device is idle.
SLACK_MS = 0.1
# The device is held before the start is marked until the launches of the call, at which a witness looks in the worker, are
# queued, so that the time between the marks is the device's, not the host's; but not longer than so many milliseconds: a call
# may wait for the device itself.
HOLD_MS = 2.0
CYCLES_PER_MS = 2_000_000  # about
# Every multiprocessor is filled with blocks that wait, so that nothing else runs meanwhile, on whatever stream: a block needs
# room for one warp at least. (One thread that spins would leave the device to whoever does not wait for his stream.) A thread
# of each block looks for `number`, that of the first block in the host's memory, from where it tells the others in the
# device's: all of them looking there would be slow.
_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry hold(.param .u64 host, .param .u64 device, .param .u64 number, .param .u64 cycles)
{
    .reg .pred %first, %other, %over;
    .reg .u32 %thread, %block;
    .reg .u64 %place, %told, %number, %most, %began, %now, %seen;
    mov.u32 %thread, %tid.x;
    setp.ne.u32 %other, %thread, 0;
    @%other bra TOGETHER;
    mov.u32 %block, %ctaid.x;
    setp.eq.u32 %first, %block, 0;
    ld.param.u64 %place, [host];
    ld.param.u64 %told, [device];
    ld.param.u64 %number, [number];
    ld.param.u64 %most, [cycles];
    selp.u64 %place, %place, %told, %first;
    mov.u64 %began, %clock64;
WAIT:
    ld.relaxed.sys.global.u64 %seen, [%place];
    setp.ge.u64 %over, %seen, %number;
    @%over bra OVER;
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %began;
    setp.lt.u64 %over, %now, %most;
    @%over bra WAIT;
OVER:
    @%first st.relaxed.sys.global.u64 [%told], %number;
TOGETHER:
    bar.sync 0;
    ret;
}
"""
_THREADS = 512  # threads of a block; those of a multiprocessor are a multiple of it


# Looked up once, before a submission is imported: what it puts in their place afterwards is not asked.
_Event, _record, _elapsed = torch.cuda.Event, torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_zero, _sleep, _now = torch.Tensor.zero_, torch.cuda._sleep, time.perf_counter
_current_device, _current_stream = torch.cuda.current_device, torch.cuda.current_stream
wait_for_all: Callable[[], None] = getattr(torch._C, "_cuda_synchronize", torch.cuda.synchronize)

Around = Callable[[], contextlib.AbstractContextManager[None]]


@functools.cache
def _driver() -> ctypes.CDLL | None:
    with contextlib.suppress(OSError, AttributeError):
        driver = ctypes.CDLL("libcuda.so.1")
        for name in ("cuCtxResetPersistingL2Cache", "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"):
            getattr(driver, name)  # found now, not when a submission is watched
        return driver
    return None


def prepare() -> None:
    """Load what timing needs, before a submission is imported (which may not load libraries)."""
    _driver()


class _Gate:
    """What holds one device, all of it. Raises MachineError where the driver does not take it."""

    def __init__(self, driver: ctypes.CDLL, device: int) -> None:
        self._host = torch.zeros(1, dtype=torch.int64, pin_memory=True)
        self._told = torch.zeros(1, dtype=torch.int64, device=f"cuda:{device}")  # torch's context is this thread's from here on
        self._driver, module, self._kernel = driver, ctypes.c_void_p(), ctypes.c_void_p()
        code = driver.cuModuleLoadData(ctypes.byref(module), _PTX)
        code = code or driver.cuModuleGetFunction(ctypes.byref(self._kernel), module, b"hold")
        if code:  # with a stream that is not held, work could be done where no clock looks
            raise MachineError(
                f"the driver does not load a kernel in PTX (CUresult {code})", "is libnvidia-ptxjitcompiler there?"
            )
        properties = torch.cuda.get_device_properties(device)
        self._blocks = properties.multi_processor_count * (properties.max_threads_per_multi_processor // _THREADS)
        self._word = ctypes.c_uint64.from_address(self._host.data_ptr())
        self._count = 0

    def close(self, most_ms: float) -> None:
        """From where the current stream is now, until `open` or for that long."""
        self._count += 1
        values = [
            ctypes.c_uint64(v)
            for v in (self._host.data_ptr(), self._told.data_ptr(), self._count, int(most_ms * CYCLES_PER_MS))
        ]
        arguments = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
        stream = ctypes.c_void_p(_current_stream().cuda_stream)
        code = self._driver.cuLaunchKernel(
            self._kernel, self._blocks, 1, 1, _THREADS, 1, 1, 0, stream, arguments, None
        )  # fmt: skip
        if code:
            raise MachineError(f"the device could not be held before a call (CUresult {code})", "run `grade doctor`")

    def open(self) -> None:
        """The device goes on."""
        self._word.value = self._count


class _Spin:
    """Without NVIDIA's driver: one thread spins for so long, and the rest of the device is not held."""

    def close(self, most_ms: float) -> None:
        _sleep(int(most_ms * CYCLES_PER_MS))  # type: ignore[no-untyped-call]

    def open(self) -> None:
        """It ends by itself."""


@functools.cache
def _gate(device: int) -> _Gate | _Spin:
    driver = _driver()
    return _Spin() if driver is None else _Gate(driver, device)


def prepare_on(device: torch.device) -> None:
    """Load what holds a GPU before a call. Raises MachineError where that cannot be."""
    if device.type == "cuda":
        with on(device):
            _gate(_current_device())


def on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Make a GPU the current one, which is where marks are set and what is held, whatever the tensors lie on."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _forget_persisting_lines() -> None:
    """Lines of the L2 that were set aside as persisting survive a flush; from here on they are like any others
    (CUDA Driver API, cuCtxResetPersistingL2Cache)."""
    driver = _driver()
    if driver is not None:
        driver.cuCtxResetPersistingL2Cache()


def call(
    function: Callable[..., Any], args: list[Any], flush: torch.Tensor,
    before: Around = contextlib.nullcontext, around: Around | None = None,
) -> tuple[Any, float]:  # fmt: skip
    """Call with a cold L2; the result, and the milliseconds that the device worked for it, on whatever stream.

    `before` and `around` enclose what is launched before the start is marked, and the call itself, of which `around` takes
    the time: launches need not be queued ahead for that. The device that is meant must be the current one (`on`).
    """
    start, end, idle = (_Event(enable_timing=True) for _ in range(3))  # type: ignore[no-untyped-call]
    gate = _gate(_current_device())
    _forget_persisting_lines()
    with before():
        _zero(flush)
        if around is None:
            wait_for_all()  # else what the call puts on another stream could run beside the making of its values
            gate.close(HOLD_MS)
    _record(start)
    with around() if around is not None else contextlib.nullcontext():
        result = function(*args)
    _record(end)
    gate.open()
    wait_for_all()
    _record(idle)
    wait_for_all()
    own, whole = float(_elapsed(start, end)), float(_elapsed(start, idle))
    return result, own if whole - own < SLACK_MS else whole


def burst(
    function: Callable[..., Any], calls: Sequence[list[Any]], flush: torch.Tensor, spin_ms: float
) -> tuple[list[Any], float]:
    """Call once with each of the arguments, a cold L2 before each, queued while the device is held; returns when all of
    the device is idle, which it must be before. The results, and the milliseconds that queueing took."""
    started = _now()
    _gate(_current_device()).close(spin_ms)
    results = []
    for args in calls:
        _zero(flush)
        results.append(function(*args))
    queued = _now() - started
    wait_for_all()
    return results, 1e3 * queued

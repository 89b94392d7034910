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
# The device is held for so many milliseconds before the start is marked, so that the launches of the call, at which a witness
# looks in the worker, are queued by then and the time between the marks is the device's, not the host's.
HOLD_MS = 0.5
CYCLES_PER_MS = 2_000_000  # about
# Every thread of the device reads the clock until `cycles` are over. Nothing else runs meanwhile, on whatever stream: a block
# needs room for one warp at least. One thread that spins would leave the device to whoever does not wait for his stream.
_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry hold(.param .u64 cycles)
{
    .reg .pred %waits;
    .reg .u64 %first, %now, %most;
    ld.param.u64 %most, [cycles];
    mov.u64 %first, %clock64;
WAIT:
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %first;
    setp.lt.u64 %waits, %now, %most;
    @%waits bra WAIT;
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


@functools.cache
def _holding(device: int) -> tuple[ctypes.c_void_p, int]:
    """The kernel that holds that device, and its blocks. Raises MachineError where the driver does not take it."""
    driver, module, kernel = _driver(), ctypes.c_void_p(), ctypes.c_void_p()
    assert driver is not None
    code = driver.cuModuleLoadData(ctypes.byref(module), _PTX)
    code = code or driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"hold")
    if code:  # with a stream that is not held, work could be done where no clock looks
        raise MachineError(f"the driver does not load a kernel in PTX (CUresult {code})", "is libnvidia-ptxjitcompiler there?")
    properties = torch.cuda.get_device_properties(device)
    return kernel, properties.multi_processor_count * (properties.max_threads_per_multi_processor // _THREADS)


def _hold(cycles: int) -> None:
    """Keep all of the current device busy, from where its current stream is now. Without NVIDIA's driver one thread of it."""
    driver = _driver()
    if driver is None:
        _sleep(cycles)  # type: ignore[no-untyped-call]
        return
    kernel, blocks = _holding(_current_device())
    count = ctypes.c_uint64(cycles)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(count))
    stream = ctypes.c_void_p(_current_stream().cuda_stream)
    code = driver.cuLaunchKernel(kernel, blocks, 1, 1, _THREADS, 1, 1, 0, stream, arguments, None)
    if code:
        raise MachineError(f"the device could not be held before a call (CUresult {code})", "run `grade doctor`")


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
    before: Around = contextlib.nullcontext, around: Around | None = None, hold_ms: float = HOLD_MS,
) -> tuple[Any, float, float]:  # fmt: skip
    """Call with a cold L2; the result, the milliseconds that the device worked for it, on whatever stream, and those that
    queueing took the host.

    `before` and `around` enclose what is launched before the start is marked, and the call itself, of which `around` takes
    the time: launches need not be queued ahead for that. The device that is meant must be the current one (`on`).
    """
    start, end, idle = (_Event(enable_timing=True) for _ in range(3))  # type: ignore[no-untyped-call]
    _forget_persisting_lines()
    with before():
        _zero(flush)
        if around is None:
            wait_for_all()  # else what the call puts on another stream could run beside the making of its values
            _hold(int(hold_ms * CYCLES_PER_MS))
    queueing = _now()
    _record(start)
    with around() if around is not None else contextlib.nullcontext():
        result = function(*args)
    _record(end)
    queued = _now() - queueing
    wait_for_all()
    _record(idle)
    wait_for_all()
    own, whole = float(_elapsed(start, end)), float(_elapsed(start, idle))
    return result, own if whole - own < SLACK_MS else whole, 1e3 * queued


def burst(
    function: Callable[..., Any], calls: Sequence[list[Any]], flush: torch.Tensor, spin_ms: float
) -> tuple[list[Any], float]:
    """Call once with each of the arguments, a cold L2 before each, queued while the device is held; returns when all of
    the device is idle, which it must be before. The results, and the milliseconds that queueing took."""
    started = _now()
    _hold(int(spin_ms * CYCLES_PER_MS))
    results = []
    for args in calls:
        _zero(flush)
        results.append(function(*args))
    queued = _now() - started
    wait_for_all()
    return results, 1e3 * queued

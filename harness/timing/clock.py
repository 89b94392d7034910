"""Timed calls on a GPU, the same for the submission (in its worker) and for the baseline (in the examiner)."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

# Work that goes on this long after the call's own stream is done was put somewhere else: it counts as well. Below it
# is the host, which takes tens of microseconds to notice that the device is idle.
SLACK_MS = 0.1
# The device spins this many cycles (a quarter of a millisecond) before the start is marked, so that the launches of the call, at
# which a witness looks in the worker, are queued by then and the time between the marks is the device's, not the host's.
HEAD_START = 500_000
CYCLES_PER_MS = 2_000_000  # of the spin, about


# Looked up once, before a submission is imported: what it puts in their place afterwards is not asked.
_Event, _record, _elapsed = torch.cuda.Event, torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_zero, _sleep, _now = torch.Tensor.zero_, torch.cuda._sleep, time.perf_counter
wait_for_all: Callable[[], None] = getattr(torch._C, "_cuda_synchronize", torch.cuda.synchronize)

Around = Callable[[], contextlib.AbstractContextManager[None]]


@functools.cache
def _driver() -> ctypes.CDLL | None:
    with contextlib.suppress(OSError):
        return ctypes.CDLL("libcuda.so.1")
    return None


def prepare() -> None:
    """Load what timing needs, before a submission is imported (which may not load libraries)."""
    _driver()


def on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Make a GPU the current one, which is where marks are set and the spin runs, whatever the tensors lie on."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _forget_persisting_lines() -> None:
    """Lines of the L2 that were set aside as persisting survive a flush; from here on they are like any others
    (CUDA Driver API, cuCtxResetPersistingL2Cache)."""
    driver = _driver()
    if driver is not None:
        driver.cuCtxResetPersistingL2Cache()


def call(
    function: Callable[..., Any], args: list[Any], flush: torch.Tensor,
    before: Around = contextlib.nullcontext, around: Around | None = None, queued_ms: float = 0.0,
) -> tuple[Any, float]:  # fmt: skip
    """Call with a cold L2; the result and the milliseconds that the device worked for it, on whatever stream.

    `before` and `around` enclose what is launched before the start is marked, and the call itself, of which `around` takes
    the time: launches need not be queued ahead for that. `queued_ms`: for so long at the least the device is busy already.
    The device that is meant must be the current one (`on`).
    """
    start, end, idle = (_Event(enable_timing=True) for _ in range(3))  # type: ignore[no-untyped-call]
    _forget_persisting_lines()
    with before():
        _zero(flush)
        if around is None:
            _sleep(max(0, HEAD_START - int(queued_ms * CYCLES_PER_MS)))  # type: ignore[no-untyped-call]
    _record(start)
    with around() if around is not None else contextlib.nullcontext():
        result = function(*args)
    _record(end)
    wait_for_all()
    _record(idle)
    wait_for_all()
    own, whole = float(_elapsed(start, end)), float(_elapsed(start, idle))
    return result, own if whole - own < SLACK_MS else whole


def burst(
    function: Callable[..., Any], calls: Sequence[list[Any]], flush: torch.Tensor, spin_ms: float
) -> tuple[list[Any], float]:
    """Call once with each of the arguments, a cold L2 before each, queued while the device spins; returns when all of
    the device is idle. The results, and the milliseconds that queueing took."""
    started = _now()
    _sleep(int(spin_ms * CYCLES_PER_MS))  # type: ignore[no-untyped-call]
    results = []
    for args in calls:
        _zero(flush)
        results.append(function(*args))
    queued = _now() - started
    wait_for_all()
    return results, 1e3 * queued

"""One timed call on a GPU, the same for the submission (in its worker) and for the baseline (in the examiner)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# Work that goes on this long after the call's own stream is done was put somewhere else: it counts as well. Below it
# is the host, which takes tens of microseconds to notice that the device is idle.
SLACK_MS = 0.1
# The device spins this many cycles (a quarter of a millisecond) before the start is marked, so that the launches of
# the call are queued by then and the time between the marks is the device's, not the host's.
HEAD_START = 500_000


# Looked up once, before a submission is imported: what it puts in their place afterwards is not asked.
_Event, _record, _elapsed = torch.cuda.Event, torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_zero, _sleep = torch.Tensor.zero_, torch.cuda._sleep
_wait_for_all: Callable[[], None] = getattr(torch._C, "_cuda_synchronize", torch.cuda.synchronize)


def call(function: Callable[..., Any], args: list[Any], flush: torch.Tensor) -> tuple[Any, float]:
    """Call with a cold L2; the result and the milliseconds that the device worked for it, on whatever stream."""
    start, end, idle = (_Event(enable_timing=True) for _ in range(3))  # type: ignore[no-untyped-call]
    _zero(flush)
    _sleep(HEAD_START)  # type: ignore[no-untyped-call]
    _record(start)
    result = function(*args)
    _record(end)
    _wait_for_all()
    _record(idle)
    _wait_for_all()
    own, whole = float(_elapsed(start, end)), float(_elapsed(start, idle))
    return result, own if whole - own < SLACK_MS else whole

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


def call(function: Callable[..., Any], args: list[Any], flush: torch.Tensor) -> tuple[Any, float]:
    """Call with a cold L2; the result and the milliseconds that the device worked for it, on whatever stream."""
    start, end, idle = (torch.cuda.Event(enable_timing=True) for _ in range(3))  # type: ignore[no-untyped-call]
    flush.zero_()
    torch.cuda._sleep(HEAD_START)  # type: ignore[no-untyped-call]
    start.record()
    result = function(*args)
    end.record()
    torch.cuda.synchronize()
    idle.record()
    torch.cuda.synchronize()
    own, whole = float(start.elapsed_time(end)), float(start.elapsed_time(idle))
    return result, own if whole - own < SLACK_MS else whole

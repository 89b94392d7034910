"""The submission's side of the clock: timed calls in the worker, asked for one by one by the examiner."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import torch

from harness import data, mailbox
from harness.mailbox import Mailbox
from harness.timing import clock
from harness.timing.side import Side, few
from harness.worker import evidence
from harness.worker.rejected import Rejected, ruled

OPERATIONS = ("warm", "prime", "sample", "fill", "burst", "trace", "peek")
_frames, _now = sys._current_frames, time.monotonic  # bound before a submission is imported


class _Loaded(Protocol):
    """A worker with a submission in it."""

    entry: Callable[..., Any] | None
    device: torch.device
    folder: Path


class Timed:
    """Calls the worker's submission for the clock; each method answers one request."""

    def __init__(self, worker: _Loaded, mailbox: Mailbox | None) -> None:
        self._worker, self._mailbox = worker, mailbox
        self._side: Side | None = None
        self._rules: dict[str, Any] = {}  # of the exercise, for `evidence.timing`
        self._seen: evidence.Evidence | None = None
        self._own: set[str] = set()  # names of the submission's kernels, as they were compiled
        self._threads = 1

    @property
    def side(self) -> Side:
        if self._side is None:
            raise Rejected(status="failed", message="nothing was prepared for the clock")
        return self._side

    def warm(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make values of a case and forget them: the device's context, the profiler, what makes values, holds the device and
        looks at outputs are there afterwards."""
        side = self._begun(request)
        if request["traced"]:
            side.start_trace(self._worker.folder)
        side.fill(request["case"], request["seeds"])
        if request["traced"]:
            side.stop_trace()
        side.rehearse(request["others"], request["seeds"][0])
        return {"status": "ok"}

    def prime(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compile and tune for a case before the clock runs."""
        worker = self._worker
        self._begun(request)
        for seed in request["seeds"]:
            args = data.arguments(request["case"], seed, worker.device)
            with self._watched(), clock.on(worker.device):
                self._call(*args)
                clock.wait_for_all()
        return {"status": "ok"}

    def _begun(self, request: dict[str, Any]) -> Side:
        """What the clock needs, allocated by the first request."""
        worker = self._worker
        assert worker.entry is not None
        if self._side is None:
            self._side = Side(self._call, worker.device, request["flush_bytes"])
            self._rules = {"free": not request["kernels"], "moves": request["moves"], "in_place": request["in_place"]}
            self._threads = len(_frames())
        return self._side

    def _call(self, *args: Any) -> Any:
        assert self._seen is not None and self._worker.entry is not None
        return evidence.timed_call(self._seen, self._worker.entry, args)

    def sample(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time calls on new values in new memory, with a cold L2: one for each seed that comes, until none does."""
        box, gone = self._page(request)
        self.side.places = request["places"]
        with self._watched():
            box.post(mailbox.READY)
            while box.wait(mailbox.GO, gone) and (seed := box.data()):
                milliseconds = self.side.sample(request["case"], int.from_bytes(seed, "little"))
                box.post(mailbox.DONE, mailbox.MILLISECONDS.pack(milliseconds))
        return {"status": "ok"}

    def fill(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make the values of a burst of calls."""
        self.side.fill(request["case"], request["seeds"])
        return {"status": "ok"}

    def burst(self, request: dict[str, Any]) -> dict[str, Any]:
        """A burst of calls on those values, begun when the examiner says so, who takes the time until it sees elements of
        an output that it names when the burst is over."""
        box, gone = self._page(request)
        with self._watched():
            box.post(mailbox.READY)
            if not box.wait(mailbox.GO, gone):
                raise Rejected(status="failed", message="nobody takes the time")
            queued = self.side.burst(request["spin_ms"])
            box.post(mailbox.DONE)
            if not box.wait(mailbox.ASK, gone):
                raise Rejected(status="failed", message="nobody asks for an output")
            box.post(mailbox.ANSWER, self.side.bytes_of(*few(box.data())))
        return {"status": "ok", "queued_ms": queued}

    def _page(self, request: dict[str, Any]) -> tuple[Mailbox, Callable[[], bool]]:
        """The page for timed calls, and when not to wait for an examiner that may have been stopped."""
        if self._mailbox is None:
            raise Rejected(status="failed", message="this worker was not started for the clock")
        until = _now() + request["patience_s"]
        return self._mailbox, lambda: _now() > until

    def trace(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start the profiler, or stop it and tell the kernels of each sample since."""
        if request["on"]:
            self.side.start_trace(self._worker.folder)
            return {"status": "ok"}
        calls, outside = self.side.stop_trace()
        rows = [[[k.name, k.count, k.ms] for k in kernels] for kernels in (*calls, outside)]
        return {"status": "ok", "calls": rows[:-1], "outside": rows[-1], "own": sorted(self._own)}

    def peek(self, request: dict[str, Any]) -> dict[str, Any]:
        """Elements of the output of a timed call, at flat positions that the examiner chose afterwards."""
        values, shapes = self.side.chosen(request["call"], request["index"])
        return {"status": "ok", "values": values, "shapes": [list(shape) for shape in shapes]}

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Around timed calls: what is forbidden elsewhere is forbidden here, and nobody is left behind to work on."""
        with evidence.timing(**self._rules) as seen, evidence.hidden(), ruled(seen):
            self._seen = seen
            yield
        self._own |= seen.kernels
        if len(_frames()) > self._threads:
            seen.refuse("leaves a thread behind that runs beside the clock")
        if seen.refused:
            raise Rejected(status="refused", message="; ".join(seen.refused))

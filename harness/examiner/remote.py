"""The submission's side of the clock, in its worker: the same calls as `harness.timing.side.Side`, over the wire.

Whatever comes back was said by a process that the submission lives in. Here it is only given its form.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness import mailbox
from harness.errors import MachineError
from harness.examiner.trial import Lab, Wrong, raise_reply
from harness.examiner.warm import Meanwhile, Worker
from harness.mailbox import Mailbox
from harness.timing.side import as_bytes, asked
from harness.timing.trace import Kernel

# While somebody looks at what the worker holds, an answer waits, and its time may be being taken.
TIMED_POLL_S = 1.0
Sample = Callable[[int], float]


class Remote:
    """Asks the worker of `lab`. Every method raises `Wrong` when the submission fails, `WorkerDied` when it ends."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.own: frozenset[str] = frozenset()  # names of the submission's kernels, as far as a trace has told
        self._samples = 0  # since the trace began
        self.places = 1  # as of `Side`

    def _ask(self, operation: str, meanwhile: Meanwhile | None = None, calls: int = 1, **request: Any) -> dict[str, Any]:
        limit_s = calls * self._lab.exercise.limits.call_s
        reply = self._lab.ask({**request, "op": operation, "patience_s": limit_s}, limit_s, TIMED_POLL_S, meanwhile)
        raise_reply(reply)
        return reply

    def samples(self, case: dict[str, Any], count: int, work: Callable[[Sample], None]) -> None:
        """Do `work` with a function that gives the milliseconds of one call on the values of a seed; it may be called
        `count` times."""
        talk = _Talk(work, self._lab.exercise.limits.call_s)
        self._ask("sample", talk, count, case=case, places=self.places)
        self._samples += talk.count
        if not talk.over:
            raise Wrong("the worker ended the timed calls")

    def sample(self, case: dict[str, Any], seed: int) -> float:
        """The milliseconds of one call on the values of `seed`."""
        taken: list[float] = []
        self.samples(case, 1, lambda sample: taken.append(sample(seed)))
        return taken[0]

    def fill(self, case: dict[str, Any], seeds: Sequence[int]) -> None:
        """Make the values of a burst, one call's for each seed."""
        self._ask("fill", case=case, seeds=list(seeds))

    def clocked(self, spin_ms: float, number: int, index: torch.Tensor) -> tuple[float, float]:
        """A burst of calls on those values, until elements of an output are there, by this process' clock: the
        milliseconds of all of it, and those that queueing took, as the worker says."""
        taken = _Taken(number, index)
        queued = self._ask("burst", taken, spin_ms=spin_ms).get("queued_ms")
        if not isinstance(queued, float):
            raise Wrong(f"a burst was queued in {queued!r} ms: no clock says so")
        values, _ = self.chosen(number, index)
        if taken.answer is None or taken.answer != as_bytes(values):
            raise Wrong("a burst of timed calls ended before its outputs were there")
        return taken.milliseconds, queued

    def start_trace(self) -> None:
        """From now on samples are traced."""
        self._samples = 0
        self._ask("trace", on=True)

    def stop_trace(self) -> tuple[list[list[Kernel]], list[Kernel]]:
        """The kernels of each sample since, and those outside of any."""
        reply = self._ask("trace", on=False)
        try:
            calls = [[_kernel(*row) for row in rows] for rows in reply["calls"]]
            outside = [_kernel(*row) for row in reply["outside"]]
            self.own = frozenset(str(name) for name in reply["own"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise Wrong("the worker sent a trace that is none") from None
        if len(calls) != self._samples:
            raise Wrong(f"the worker sent a trace of {len(calls)} calls, and {self._samples} were asked for")
        return calls, outside

    def chosen(self, number: int, index: torch.Tensor) -> tuple[list[torch.Tensor], list[tuple[int, ...]]]:
        """Elements of the output of a call, at flat positions that are taken modulo its size, and its shapes."""
        reply = self._ask("peek", call=number, index=index)
        values = reply.get("values")
        if not isinstance(values, list) or not all(isinstance(v, torch.Tensor) for v in values):
            raise Wrong("the worker sent outputs of a timed call that are none")
        try:
            shapes = [tuple(int(n) for n in shape) for shape in reply["shapes"]]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise Wrong("the worker sent shapes of a timed call that are none") from None
        return values, shapes


class _Silent(Exception):
    """The worker says nothing more by the page; why, its answer will say."""


class _Talk:
    """Times single calls while the worker waits for seeds."""

    def __init__(self, work: Callable[[Sample], None], limit_s: float) -> None:
        """`limit_s`: of one call."""
        self._work, self._limit_s = work, limit_s
        self.count = 0
        self.over = False

    def __call__(self, worker: Worker, gone: Callable[[], bool]) -> None:
        box = _page(worker)

        def sample(seed: int) -> float:
            until = time.monotonic() + self._limit_s
            box.post(mailbox.GO, seed.to_bytes(8, "little"))
            if not box.wait(mailbox.DONE, lambda: time.monotonic() > until or gone()):
                if time.monotonic() > until:
                    raise worker.late(self._limit_s)
                raise _Silent
            self.count += 1
            return _milliseconds(box.data())

        try:
            if box.wait(mailbox.READY, gone):
                self._work(sample)
                self.over = True
        except _Silent:
            pass
        finally:
            box.post(mailbox.GO)  # no seed: there will be no more


class _Taken:
    """Takes the time of a burst while the worker is at it: from the word to begin until an output has been seen."""

    def __init__(self, number: int, index: torch.Tensor) -> None:
        self._question = asked(number, index)
        self.milliseconds = math.inf
        self.answer: bytes | None = None

    def __call__(self, worker: Worker, gone: Callable[[], bool]) -> None:
        box = _page(worker)
        if not box.wait(mailbox.READY, gone):
            return
        started = time.perf_counter()
        box.post(mailbox.GO)
        if not box.wait(mailbox.DONE, gone):
            return
        box.post(mailbox.ASK, self._question)
        if box.wait(mailbox.ANSWER, gone):
            self.milliseconds = 1e3 * (time.perf_counter() - started)
            self.answer = box.data()


def _page(worker: Worker) -> Mailbox:
    if worker.mailbox is None:
        raise MachineError("this worker was not started for the clock", "start it with `clock`")
    return worker.mailbox


def _kernel(name: Any, count: Any, ms: Any) -> Kernel:
    if not isinstance(ms, float) or not 0 <= ms < math.inf:
        raise ValueError(ms)
    return Kernel(str(name), int(count), ms)


def _milliseconds(told: bytes) -> float:
    try:
        (value,) = mailbox.MILLISECONDS.unpack(told)
    except struct.error:
        value = math.nan
    if not 0 < value < math.inf:
        raise Wrong(f"a timed call took {value!r} ms: no clock says so")
    return float(value)

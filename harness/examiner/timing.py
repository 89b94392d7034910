"""The ratio to the baseline: interleaved pairs of one timed call each, submission in its worker, baseline here.

The baseline runs in the examiner, out of the submission's reach, on the values that the worker drew from the same seed.
Every pair has new values in new memory and a cold L2; the order within a pair alternates. `harness.timing.verdict`
makes a verdict of the pairs.
"""

from __future__ import annotations

import gc
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from statistics import median
from typing import Any

import torch

from harness import data
from harness.errors import MachineError
from harness.examiner import compare
from harness.examiner.trial import Lab, Wrong, raise_reply
from harness.grading.domain import Drawn
from harness.grading.grader import Case, TensorGrader
from harness.record import PerformanceResult, TimedCase
from harness.status import Performance
from harness.timing import clock, roofline, verdict
from harness.timing.conditions import Gauge
from harness.timing.roofline import Peaks, Work
from harness.timing.verdict import Pair

SAMPLED = 4096  # elements of a timed output that are checked, chosen after it was made
CHECK_EVERY = 4  # pairs; the output of one call in each so many is checked, and which one nobody knows before
FLUSH_L2 = 4  # times the L2's size written between calls


def prepare(lab: Lab, device: torch.device) -> None:
    """Compile and tune for every case, before the clock and beside other work; leaves a fresh worker, which finds all
    of it compiled. Raises `Wrong` when that fails."""
    _prime(lab, device)
    lab.drop()
    lab.worker = lab.start()


def _prime(lab: Lab, device: torch.device) -> None:
    for case in lab.grader.benchmarks:
        request = {"op": "prime", "case": case.inputs, "seeds": [_fresh(), _fresh()], "flush_bytes": _flush_bytes(device)}
        raise_reply(lab.ask(request, lab.exercise.limits.tune_s))


def _flush_bytes(device: torch.device) -> int:
    return FLUSH_L2 * int(torch.cuda.get_device_properties(device).L2_cache_size)


class Stopwatch:
    """Takes the pairs of every case of one exercise; keeps what it took."""

    def __init__(self, lab: Lab, device: torch.device, peaks: Peaks) -> None:
        self.lab, self.device, self.peaks = lab, device, peaks
        self.cases = lab.grader.benchmarks
        self.pairs: list[list[Pair]] = [[] for _ in self.cases]
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
        self.gauge = Gauge(device.index or 0, f"GPU-{uuid}" if uuid else "")
        self.flush = torch.empty(_flush_bytes(device) // 4, dtype=torch.int32, device=device)
        self.work: dict[int, Work] = {}
        self._last = -1
        self._due = 0

    def __call__(self, number: int, turn: int) -> Pair:
        """The next pair of a case. Raises `Wrong` when a timed call fails or its output is wrong."""
        case = self.cases[number]
        if number != self._last:
            self._last = number
            self._settle(number, case)
        own = {os.getpid(), self.lab.worker.pid} if self.lab.worker is not None else {os.getpid()}
        seed = _fresh()
        times, conditions = {}, []
        # The device is looked at after each call: under the same load both times, so that a clock that differs is one
        # that changed.
        for take in (self._baseline, self._submission) if turn % 2 else (self._submission, self._baseline):
            times[take] = take(case, seed)
            conditions.append(self.gauge.read(own))
        pair = Pair(times[self._submission], times[self._baseline], tuple(conditions))
        floor = roofline.floor_ms(self.peaks, self.work[number])
        if pair.ours < floor:
            raise Wrong(
                f"a timed call took {pair.ours:.4g} ms, and this device needs {floor:.4g} ms at the least for this: "
                "the work was done at another time, or not at all"
            )
        self.pairs[number].append(pair)
        if turn % CHECK_EVERY == 0:
            self._due = turn + secrets.randbelow(CHECK_EVERY)
        if turn == self._due:
            _check_output(self.lab, case, seed, self.device)
        return pair

    def _settle(self, number: int, case: Case) -> None:
        """Another case begins: give back the last one's memory, bring the device to its clock."""
        gc.collect()
        torch.cuda.empty_cache()
        result = clock.call(case.run, data.arguments(case.inputs, _fresh(), self.device), self.flush)[0]
        outputs = [t for t in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(t, torch.Tensor)]
        self.work[number] = roofline.work(case.inputs, outputs, case.flops, case.moved)
        for _ in range(2):
            self._submission(case, _fresh())
            self._baseline(case, _fresh())

    def _submission(self, case: Case, seed: int) -> float:
        reply = self.lab.ask({"op": "sample", "case": case.inputs, "seed": seed}, self.lab.exercise.limits.call_s)
        raise_reply(reply)
        milliseconds = reply["ms"]
        if not isinstance(milliseconds, float) or not 0 < milliseconds < float("inf"):
            raise Wrong(f"a timed call took {milliseconds!r} ms: no clock says so")
        return milliseconds

    def _baseline(self, case: Case, seed: int) -> float:
        return clock.call(case.run, data.arguments(case.inputs, seed, self.device), self.flush)[1]


def _fresh() -> int:
    """A seed nobody can know before it is used."""
    return secrets.randbits(62)


def _check_output(lab: Lab, case: Case, seed: int, device: torch.device) -> None:
    """The last timed call's output, at positions chosen now, against the oracle on the same values."""
    grader = lab.grader
    assert isinstance(grader, TensorGrader)
    index = torch.randint(0, 1 << 62, (SAMPLED,), generator=torch.Generator().manual_seed(_fresh()))
    reply = lab.ask({"op": "peek", "index": index}, lab.exercise.limits.call_s)
    raise_reply(reply)
    args = data.arguments(case.inputs, seed, device)
    drawn = Drawn(dict(zip(case.inputs, args, strict=True)), _dims(grader, args))
    expected = grader.oracle(**drawn.args)
    many = expected if isinstance(expected, tuple) else (expected,)
    if [tuple(s) for s in reply["shapes"]] != [tuple(e.shape) for e in many]:
        raise Wrong(f"a timed call returned shapes {reply['shapes']}")
    for got, right in zip(reply["values"], many, strict=True):
        if right.numel() == 0:
            continue
        at = index.to(device) % right.numel()
        tolerance = None
        if grader.bound.tolerance is not None and got.is_floating_point():
            full = grader.bound.tolerance(grader, drawn, right, got.dtype)
            tolerance = full.expand(right.shape).reshape(-1)[at].cpu()
        chosen = right.reshape(-1)[at].cpu()
        if tolerance is None:
            found = compare.equally(got, chosen) if grader.bound.kind == "equal" else compare.exactly(got, chosen)
        else:
            found, used = compare.within(got, chosen, tolerance)
            lab.margin = max(lab.margin, used)
        if found is not None:
            raise Wrong(
                f"a timed call's output is wrong: expected {found.expected}, got {found.got}; {found.count} sampled elements"
            )


def _dims(grader: TensorGrader, args: list[Any]) -> dict[str, Any]:
    """The sizes of a timed case, read off its tensors."""
    from harness.grading.domain import Tensor

    dims: dict[str, Any] = {}
    for spec, value in zip(grader.inputs.specs.values(), args, strict=True):
        if isinstance(spec, Tensor) and isinstance(value, torch.Tensor):
            if spec.shape and isinstance(spec.shape[0], str) and spec.shape[0].startswith("*"):
                dims[spec.shape[0]] = tuple(value.shape)
            else:
                dims |= {d: n for d, n in zip(spec.shape, value.shape, strict=True) if isinstance(d, str)}
            dims.setdefault("dtype", value.dtype)
    return dims


def judge(lab: Lab, device: torch.device, failed: BaseException | None, peaks: Peaks) -> PerformanceResult:
    """Time every case; the geometric mean of the ratios is held to the threshold. `failed`: in `prepare`."""
    base = PerformanceResult(
        Performance.INVALID, Decimal(lab.exercise.speed), threshold=lab.exercise.threshold, stretch=lab.exercise.stretch,
        baseline=lab.grader.benchmarks[0].baseline,
    )  # fmt: skip
    try:
        if failed is not None:
            raise failed
        _prime(lab, device)  # what was tuned beside other work was tuned for a busy device
        watch = Stopwatch(lab, device, peaks)
        found = verdict.sequence(len(watch.cases), float(lab.exercise.threshold or 0), watch)
    except (Wrong, MachineError, torch.OutOfMemoryError) as wrong:
        return replace(base, message=str(wrong))
    finally:
        lab.drop()
    ideal = [roofline.ideal_ms(peaks, watch.work[number]) for number in range(len(watch.cases))]
    return scored(base, found, float(lab.exercise.floor or 0), watch.cases, watch.pairs, ideal)


def scored(
    base: PerformanceResult,
    found: verdict.Verdict,
    floor: float,
    cases: Sequence[Case],
    pairs: Sequence[Sequence[Pair]],
    ideal_ms: Sequence[float],
) -> PerformanceResult:
    """A verdict as it stands in the record, with the points that it earns. `ideal_ms`: each case's roofline."""
    threshold = base.threshold or 0.0
    ratio = found.whole.ratio
    share = Decimal(1) if found.status is Performance.PASSED else verdict.share(ratio, floor, threshold)
    if found.status is Performance.FAILED:  # an interval below the threshold, whatever its middle rounds to
        share = min(share, verdict.share(found.whole.high, floor, threshold))
    notes = [found.message]
    if found.status is Performance.FAILED:
        notes = [f"{ratio:.2f} of {base.baseline}'s speed; {threshold:g} are needed"]
    if found.status is Performance.INCONCLUSIVE:
        notes.append("scored as its estimate")
    notes += [f"{count} of {found.pairs} pairs thrown out: {reason}" for reason, count in found.thrown.most_common()]
    timed = tuple(
        TimedCase(
            case.name, _dtype(case), ours := median([p.ours for p in taken]), median([p.theirs for p in taken]),
            round(interval.ratio, 4), round(ideal / ours, 3),
        )
        for case, taken, interval, ideal in zip(cases, pairs, found.cases, ideal_ms, strict=True)
    )  # fmt: skip
    return replace(
        base, status=found.status, score=base.max_score * share, ratio=round(ratio, 4), low=round(found.whole.low, 4),
        high=round(found.whole.high, 4), cases=timed, message="; ".join(n for n in notes if n),
    )  # fmt: skip


def _dtype(case: Case) -> str:
    return next((str(v["dtype"]).removeprefix("torch.") for v in case.inputs.values() if isinstance(v, dict)), "")

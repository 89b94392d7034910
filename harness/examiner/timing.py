"""The ratio to the baseline: interleaved pairs of one timed call each, submission in its worker, baseline here.

The baseline runs in the examiner, out of the submission's reach, on the values that the worker drew from the same seed.
Every pair has new values in new memory and a cold L2; the order within a pair alternates. `harness.timing.verdict`
makes a verdict of the pairs.

Three clocks. Calls of .1 ms and more are timed by the device's events, shorter ones by the profiler's trace, which does
not see the host's launches; either is read in the process that made the call. This process' own clock is the witness
(`witness`): what a submission's process claims must agree with what it looks like from here.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import torch

from harness import data
from harness.examiner import witness
from harness.examiner.clocking import unmeasured
from harness.examiner.remote import Remote, Sample
from harness.examiner.sampled import Sampled
from harness.examiner.trial import Lab, Wrong, raise_reply
from harness.examiner.warm import wait_for_closed
from harness.grading.grader import Case, TensorGrader
from harness.record import PerformanceResult, TimedCase
from harness.status import Performance, Status
from harness.timing import provenance, roofline, verdict
from harness.timing.conditions import Gauge
from harness.timing.roofline import Peaks, Work
from harness.timing.side import Side
from harness.timing.trace import Kernel, Trace, total_ms
from harness.timing.verdict import Pair

CHECKS = 8  # of each case's calls in a look, whose outputs are checked; which ones nobody knows before
SHORT_MS = 0.1  # calls below it are short: they are timed by the trace
# A call takes more or less time by where its tensors lie, which a process chooses once: 2 % where it is short, some tenths of
# a per cent else. So many calls are held at a time, and the next ones lie elsewhere.
PLACES, PLACES_SHORT = 8, 16
FLUSH_L2 = 4  # times the L2's size written between calls
UNWATCHED = "NVML is not there: nobody watched the device's clock and its other users"
UNTRACED = "the profiler is not there: short calls are timed by events, and nobody saw whose kernels ran"
MOST = 0.95  # of a call's time belongs to the submission's own kernels, or one is told
OF_FREE_MEMORY = 8  # the values of a burst take one part in so many, on either side


def prepare(lab: Lab, device: torch.device, *, compiled: bool = False) -> None:
    """Compile and tune for every case, before the clock and beside other work; leaves a fresh worker, which finds all
    of it compiled. `compiled`: it was done before. Raises `Wrong` when that fails."""
    if not compiled:
        _prime(lab, device)
        lab.drop()
    lab.worker = lab.start()
    grader = _timed(lab)
    for case in grader.benchmarks:  # this process has kernels and libraries to load as well
        side = Side(case.run, device, 4)
        side.sample(case.inputs, data.fresh_seed())
        with contextlib.suppress(torch.OutOfMemoryError):  # later this process has the device for itself
            _rehearse(Sampled(grader, _others(grader, case), data.fresh_seed(), device))
        side.give_back()
    wait_for_closed()


def _rehearse(sampled: Sampled) -> None:
    """Load what an output of a timed call is checked by."""
    for number in range(len(sampled)):
        sampled.right(number)


def warm_up(lab: Lab, device: torch.device) -> None:
    """Have the worker load what makes values on the device, holds it and looks at outputs, and the profiler: it takes as long
    as a hundred calls, and other work does not disturb it. Not in `prepare`, since a worker that waits then holds memory of
    the device. Raises `Wrong` when it ends."""
    _prime(lab, device, op="warm", traced=_profiler_starts())


def _prime(lab: Lab, device: torch.device, **request: Any) -> None:
    """Have the worker make values of every case, and call the submission on them unless another `op` is asked for."""
    grader = _timed(lab)
    for case in grader.benchmarks:
        seeds = [data.fresh_seed() for _ in range(2)]
        asked = {
            "op": "prime", "case": case.inputs, "others": _others(grader, case), "seeds": seeds,
            "flush_bytes": _flush_bytes(device), "kernels": grader.kernels, "moves": grader.moves,
            "in_place": bool(grader.in_place), **request,
        }  # fmt: skip
        raise_reply(lab.ask(asked, lab.exercise.limits.tune_s))


def _timed(lab: Lab) -> TensorGrader:
    assert isinstance(lab.grader, TensorGrader)  # nothing else has timed cases
    return lab.grader


def _others(grader: TensorGrader, case: Case) -> dict[str, Any]:
    """The inputs of a case with other values than those that are timed: larger ones that lie elsewhere."""
    return data.scaled(case.inputs, max(grader.inputs.scales), secrets.choice(grader.inputs.shifts))


def _flush_bytes(device: torch.device) -> int:
    return FLUSH_L2 * int(torch.cuda.get_device_properties(device).L2_cache_size)


@dataclass(frozen=True)
class Doubt:
    """A case whose calls are longer by this process' clock than the submission's process says.

    `claimed` and `outside`: milliseconds; `ratio`: the baseline's time over the submission's, both from outside.
    """

    claimed: float
    outside: float
    ratio: float

    def __str__(self) -> str:
        return (
            f"a call took {self.claimed:.4g} ms by the clock in the submission's process and {self.outside:.4g} ms "
            "seen from outside of it"
        )


class Stopwatch:
    """Takes the pairs of every case of one exercise; keeps what it took. On a GPU that is this process' own."""

    def __init__(self, lab: Lab, device: torch.device, peaks: Peaks) -> None:
        """Raises `Wrong` when the submission cannot be compiled or tuned."""
        _prime(lab, device)  # what was tuned beside other work was tuned for a busy device
        self.lab, self.device, self.peaks = lab, device, peaks
        self.grader = _timed(lab)
        self.cases = self.grader.benchmarks
        self.pairs: list[list[Pair]] = [[] for _ in self.cases]
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
        self.gauge = Gauge(device.index or 0, f"GPU-{uuid}" if uuid else "")
        self.ours, self.theirs = Remote(lab), Side(self.cases[0].run, device, _flush_bytes(device))
        self.profiler = _profiler_starts()
        self.work: dict[int, Work] = {}
        self.shapes: dict[int, list[tuple[int, ...]]] = {}  # of the outputs
        self.kernels: dict[int, list[Kernel]] = {}  # of one call of the submission
        self.brief: set[int] = set()  # cases whose calls are short
        self.traced: set[int] = set()  # those of them whose times are the trace's
        self._empty, self._cold = witness.Slope(self.theirs, {}, witness.EMPTY), 0.0
        self._last = -1

    def __call__(self, number: int, turns: range) -> list[Pair]:
        """The next pairs of a case. Raises `Wrong` when a timed call fails or its output is wrong."""
        self.settle(number)
        times: list[tuple[float, float]] = []
        conditions: list[tuple[verdict.Conditions, ...]] = []
        stretches = list(self._stretches(turns))
        again, others = secrets.randbelow(len(stretches)), 0
        with self.tracing(number in self.traced) as traced:
            for place, (some, checked) in enumerate(stretches):
                both, seen, seed = self.stretch(number, some)
                times += both
                conditions += [seen] * len(both)
                if checked:
                    self._check_output(number, seed)
                if place == again:
                    others = len(times)
                    self._look_again(number)
        if number in self.traced:
            self.kernels[number] = traced[0].pop(others)  # on other values, without a partner
            times = [(total_ms(ours), total_ms(theirs)) for ours, theirs in zip(*traced, strict=True)]
            if not all(ours for ours, _ in times):
                raise Wrong("no kernel ran in a timed call")
        pairs = [Pair(ours, theirs, seen) for (ours, theirs), seen in zip(times, conditions, strict=True)]
        floor = roofline.floor_ms(self.peaks, self.work[number])
        fastest = min(pair.ours for pair in pairs)
        if fastest < floor:
            raise Wrong(
                f"a timed call took {fastest:.4g} ms, and this device needs {floor:.4g} ms at the least for this: "
                "the work was done at another time, or not at all"
            )
        self.pairs[number] += pairs
        return pairs

    def _stretches(self, turns: range) -> Iterator[tuple[range, bool]]:
        """The turns in stretches, each up to one whose output is to be checked, or to the end."""
        first, each = turns.start, max(1, len(turns) // CHECKS)
        for part in range(turns.start, turns.stop, each):
            due = min(part + secrets.randbelow(each), turns.stop - 1)
            yield range(first, due + 1), True
            first = due + 1
        if first < turns.stop:
            yield range(first, turns.stop), False

    def stretch(
        self, number: int, turns: range
    ) -> tuple[list[tuple[float, float]], tuple[verdict.Conditions, ...], int]:
        """In each turn one call of each side, on the same new values: their times, the device at the first call and at
        the last, and the last seed."""
        case = self.cases[number]
        own = {os.getpid(), self.lab.worker.pid} if self.lab.worker is not None else {os.getpid()}
        times: list[tuple[float, float]] = []
        conditions: list[verdict.Conditions] = []
        seed = 0

        def work(sample: Sample) -> None:
            nonlocal seed
            for turn in turns:
                seed = data.fresh_seed()
                if turn % 2:
                    theirs, ours = self.theirs.sample(case.inputs, seed), sample(seed)
                else:
                    ours, theirs = sample(seed), self.theirs.sample(case.inputs, seed)
                times.append((ours, theirs))
                # The device is looked at after a call: under the same load both times, so that a clock that differs is one
                # that changed.
                if turn in (turns[0], turns[-1]):
                    conditions.append(self.gauge.read(own))

        self.ours.samples(case.inputs, len(turns), work)
        return times, tuple(conditions), seed

    @contextlib.contextmanager
    def tracing(self, wanted: bool = True) -> Iterator[tuple[list[list[Kernel]], list[list[Kernel]]]]:
        """Trace both sides inside; afterwards the two lists hold the kernels of each of their samples."""
        kernels: tuple[list[list[Kernel]], list[list[Kernel]]] = ([], [])
        if not wanted:
            yield kernels
            return
        with tempfile.TemporaryDirectory(prefix="grade-") as folder:
            self.theirs.start_trace(Path(folder))
            try:
                self.ours.start_trace()
                yield kernels
                ours = self._own_kernels()
            finally:  # this process goes on, whatever became of the worker
                theirs, _ = self.theirs.stop_trace()  # what is outside here is the harness', making inputs and oracles
            for found, calls in zip(kernels, (ours, theirs), strict=True):
                found += calls

    def _own_kernels(self) -> list[list[Kernel]]:
        """End the trace of the worker: the kernels of each of its samples. Raises `Wrong` where others than the
        submission's do the work."""
        calls, outside = self.ours.stop_trace()
        if outside:
            name = provenance.plain(outside[0].name)
            raise Wrong(f"a kernel ran outside of the timed calls: {name}", status=Status.REFUSED)
        offence = provenance.offence(calls, self.ours.own, copies=self.grader.moves != "refused")
        if offence and self.grader.kernels:
            raise Wrong(offence, status=Status.REFUSED)
        return calls

    def _look_again(self, number: int) -> None:
        """One more call, traced, at a moment that nobody knows before, on values that a time is not taken of: who has been
        honest in the first calls need not be so now, and who is right on normal values need not be on others."""
        inputs, seed = _others(self.grader, self.cases[number]), data.fresh_seed()
        trace = self.profiler and number not in self.traced  # else it is going on, or there is none
        if trace:
            self.ours.start_trace()
        self.ours.sample(inputs, seed)
        if trace:
            (self.kernels[number],) = self._own_kernels()
        self._check_output(number, seed, inputs=inputs)

    def settle(self, number: int) -> None:
        """If a case begins: give back the last one's memory, bring the device to its clock."""
        if number == self._last:
            return
        self._turn_to(number)
        if number not in self.shapes:
            self._learn(number)
        self._spread(number)

    def _learn(self, number: int) -> None:
        """What a case works on, and what kind its calls are: one clock and one rhythm for all of its pairs."""
        case = self.cases[number]
        self.theirs.sample(case.inputs, data.fresh_seed())
        result = self.theirs.outputs[0]
        outputs = [t for t in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(t, torch.Tensor)]
        self.shapes[number] = [tuple(output.shape) for output in outputs]
        self.work[number] = roofline.work(case.inputs, outputs, case.flops, case.moved)
        taken = [side.sample(case.inputs, data.fresh_seed()) for _ in range(4) for side in (self.ours, self.theirs)]
        if min(taken[2:]) < SHORT_MS:  # the first call of either is none to go by, and a host may be late once
            self.brief.add(number)
            if self.profiler and self._traceable(case):
                self.traced.add(number)

    def _traceable(self, case: Case) -> bool:
        """Whether a trace shows the baseline: the driver's own copies are in none."""
        with tempfile.TemporaryDirectory(prefix="grade-") as folder:
            self.theirs.start_trace(Path(folder))
            try:
                self.theirs.sample(case.inputs, data.fresh_seed())
            finally:  # this process goes on
                calls, _ = self.theirs.stop_trace()
        return any(calls)

    def _spread(self, number: int) -> None:
        """Hold as many calls of either side from now on as this case wants, and have them: in new memory a call takes longer."""
        fitting = torch.cuda.mem_get_info(self.device)[0] // OF_FREE_MEMORY // max(1, self.work[number].bytes)
        wanted = PLACES_SHORT if number in self.brief else max(2, -(-PLACES // len(self.cases)))  # all cases together: PLACES
        places = max(1, min(wanted, fitting))
        self.ours.places = self.theirs.places = places
        for side in (self.ours, self.theirs) * places:
            side.sample(self.cases[number].inputs, data.fresh_seed())

    def _turn_to(self, number: int) -> None:
        self._last = number
        self.theirs.function = self.cases[number].run
        self.theirs.give_back()

    def short(self) -> bool:
        """Whether calls are, by the first case; those of an exercise are of a kind."""
        self.settle(0)
        return 0 in self.brief

    def witnessed(self, number: int) -> Doubt | None:
        """Hold a case's times to this process' clock: None where they agree, what it says where the claim is shorter."""
        case, work = self.cases[number], self.work[number]
        claimed = median(pair.ours for pair in self.pairs[number])
        theirs = median(pair.theirs for pair in self.pairs[number])
        self.theirs.give_back()
        free = torch.cuda.mem_get_info(self.device)[0] // OF_FREE_MEMORY
        counts = witness.lengths(min(claimed, theirs), work.bytes, free)
        launched = sum(kernel.count for kernel in self.kernels.get(number, ()))
        # How much of what the baseline seems longer is to be believed: what the L2 holds has to be written once a call.
        most = max(1e3 * self.peaks.l2_bytes / self.peaks.bytes_per_s, witness.TOLERANCE * theirs)
        own, base = (witness.Slope(side, case.inputs, counts) for side in (self.ours, self.theirs))
        for attempt in range(witness.ATTEMPTS):
            cold, whole = self._cold_ms(again=attempt > 0), own.look(lambda seeds: self._check_one(number, seeds))
            if not witness.excess_ms(claimed, whole - cold, 0.0, launched, own.waited):
                return None
            self.theirs.function = case.run
            same = base.look()
            longer = min(most, max(0.0, same - cold - theirs))
            if not witness.excess_ms(claimed, whole - cold, longer, launched, own.waited):
                return None
        # Whatever makes both sides seem longer is in both of these, but for what the baseline's own clock knows better.
        return Doubt(claimed, whole - cold, min(theirs, same - cold) / (whole - cold))

    def _cold_ms(self, *, again: bool) -> float:
        """What the cold L2 before a call takes, by this process' clock: in whatever case as much, so that it is looked at
        once, and `again` where something does not agree."""
        if again or not self._cold:
            self.theirs.function = _nothing
            self._cold = self._empty.look()
        return self._cold

    def _check_one(self, number: int, seeds: list[int]) -> None:
        """The output of one call of a burst, chosen now."""
        call = secrets.randbelow(len(seeds))
        self._check_output(number, seeds[call], call)

    def _check_output(self, number: int, seed: int, call: int = 0, inputs: dict[str, Any] | None = None) -> None:
        """A timed call's output, at positions chosen now, against the oracle on the same values. `inputs`: where they are
        not the case's."""
        sampled = Sampled(self.grader, inputs or self.cases[number].inputs, seed, self.device)
        values, shapes = self.ours.chosen(call, sampled.index.cpu())
        if shapes != self.shapes[number] or len(values) != len(sampled) or any(v.dtype != sampled.dtype for v in values):
            kinds = ", ".join(f"{str(v.dtype).removeprefix('torch.')}{list(s)}" for v, s in zip(values, shapes, strict=False))
            raise Wrong(f"a timed call returned {kinds or 'no tensor'}")
        self.lab.margin = max(self.lab.margin, sampled.hold(values))


@functools.cache
def _profiler_starts() -> bool:
    """Whether there is a trace on this machine: not on another vendor's GPU, not under another profiler."""
    with tempfile.TemporaryDirectory(prefix="grade-") as folder:
        try:
            Trace(Path(folder)).stop()
        except Exception:
            return False
    return True


def _nothing(*args: Any) -> None:
    """What is left of a burst is the cold L2."""


def judge(lab: Lab, device: torch.device, failed: BaseException | None, peaks: Peaks) -> PerformanceResult:
    """Time every case; the geometric mean of the ratios is held to the threshold. `failed`: in `prepare`. Raises
    MachineError where there is no clock."""
    base = unmeasured(lab, Performance.INVALID)
    try:
        if failed is not None:
            raise failed
        watch = Stopwatch(lab, device, peaks)
        found = verdict.sequence(len(watch.cases), float(lab.exercise.threshold or 0), watch, short=watch.short())
        doubts: dict[int, Doubt] = {}
        if found.status is not Performance.FAILED:  # nobody claims to be slow
            doubts = {number: doubt for number in range(len(watch.cases)) if (doubt := watch.witnessed(number))}
            found = doubted(found, doubts, float(lab.exercise.threshold or 0))
    except Wrong as wrong:
        refused = "refused: " if wrong.status is Status.REFUSED else ""
        return replace(base, message=refused + str(wrong))
    except torch.OutOfMemoryError as error:
        return replace(base, message=str(error))
    finally:
        lab.drop()
    ideal = [roofline.ideal_ms(peaks, watch.work[number]) for number in range(len(watch.cases))]
    result = scored(base, found, float(lab.exercise.floor or 0), watch.cases, watch.pairs, ideal)
    timed = list(result.cases)
    for number, doubt in doubts.items():
        timed[number] = replace(timed[number], time_ms=doubt.outside, roofline=round(ideal[number] / doubt.outside, 3))
    own = min((provenance.share(kernels, watch.ours.own) for kernels in watch.kernels.values()), default=1.0)
    copies = f"your kernels take {own:.0%} of the GPU's time, torch's copies and fills the rest" if own < MOST else ""
    notes = (result.message, copies, "" if watch.gauge.watching else UNWATCHED, "" if watch.profiler else UNTRACED)
    return replace(result, cases=tuple(timed), message="; ".join(filter(None, notes)))


def doubted(found: verdict.Verdict, doubts: dict[int, Doubt], threshold: float) -> verdict.Verdict:
    """The verdict with the examiner's clock in place of the submission's where the two do not agree.

    That clock nobody in the submission's process can set, so that what is fast enough by it is fast enough, whatever the
    reason of the disagreement (a busy host, a device that changed its clock). Raises `Wrong` for what is not.
    """
    if not doubts:
        return found
    seen = {number: min(doubt.ratio, found.cases[number].ratio) for number, doubt in doubts.items()}
    cases = tuple(verdict.Interval(*[seen[n]] * 3) if n in seen else case for n, case in enumerate(found.cases))
    whole = verdict.joined(cases)
    first = next(iter(doubts.values()))
    if whole.ratio < threshold:
        raise Wrong(f"{first}: work was done where the one does not look")
    return replace(found, cases=cases, whole=whole, message="; ".join(filter(None, (found.message, f"{first}, which counts"))))


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

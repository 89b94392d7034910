"""The kernels of an exercise's timed cases and their place on the roofline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from harness.errors import MachineError
from harness.examiner import timing
from harness.examiner.run import Job, Run
from harness.examiner.trial import Lab, Wrong
from harness.submission import Submission
from harness.timing import provenance, roofline
from harness.timing.roofline import Peaks, Work
from harness.timing.trace import Kernel, total_ms

SAMPLES = 16  # traced calls of each side


@dataclass(frozen=True)
class Part:
    """One kernel of a call: whose it is ("own", or torch's or another "library"), launches and milliseconds a call."""

    name: str
    whose: str
    count: int
    ms: float


@dataclass(frozen=True)
class Position:
    """A timed case: what it must do at the least, what the device could do, and what was done.

    `ours` and `theirs` are the kernels of the submission and of the baseline; `ideal_ms` is the roofline's time.
    """

    case: str
    baseline: str
    work: Work
    peaks: Peaks
    ours: tuple[Part, ...]
    theirs: tuple[Part, ...]

    @property
    def ms(self) -> float:
        return sum(part.ms for part in self.ours)

    @property
    def baseline_ms(self) -> float:
        return sum(part.ms for part in self.theirs)

    @property
    def ideal_ms(self) -> float:
        return roofline.ideal_ms(self.peaks, self.work)

    @property
    def bound(self) -> str:
        """What the roofline's time is made of: "memory" or "compute"."""
        moving = roofline.ideal_ms(self.peaks, Work(self.work.bytes, 0.0, self.work.dtype))
        return "compute" if self.ideal_ms > moving else "memory"

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte that must be moved."""
        return self.work.flops / self.work.bytes if self.work.bytes else 0.0

    @property
    def ridge(self) -> float | None:
        """The intensity at which this device's two roofs meet, for the case's dtype; None where no rate was measured."""
        rate = self.peaks.flops_per_s.get(self.work.dtype)
        return rate / self.peaks.bytes_per_s if rate else None


def parts(calls: Sequence[Sequence[Kernel]], own: frozenset[str]) -> tuple[Part, ...]:
    """The kernels of a call, the longest first: of several calls the medians, of those that the median call had."""
    if not calls:
        return ()
    times: dict[str, list[float]] = {}
    for call in calls:
        for kernel in call:
            times.setdefault(kernel.name, []).append(kernel.ms)
    typical = sorted(calls, key=total_ms)[len(calls) // 2]
    counts: dict[str, int] = {}
    for kernel in typical:
        counts[kernel.name] = counts.get(kernel.name, 0) + kernel.count
    found = [
        Part(provenance.plain(name), "own" if name in own else "library", counts[name], median(times[name]))
        for name in counts
    ]
    return tuple(sorted(found, key=lambda part: -part.ms))


def of(lab: Lab, device: torch.device, peaks: Peaks) -> list[Position]:
    """Trace some calls of every timed case, on a GPU that is this process' own meanwhile. Raises `Wrong`."""
    watch = timing.Stopwatch(lab, device, peaks)
    found = []
    for number, case in enumerate(watch.cases):
        watch.settle(number)
        with watch.tracing() as (ours, theirs):
            watch.stretch(number, range(SAMPLES))
        found.append(
            Position(
                case.name, case.baseline, watch.work[number], peaks, parts(ours, watch.ours.own), parts(theirs, frozenset())
            )
        )
    return found


def positions(run: Run, submissions: list[Submission]) -> Iterator[tuple[Submission, list[Position] | str]]:
    """Of each submission the place of its timed cases on the roofline, or in words why there is none."""
    with run.jobs(submissions) as jobs:
        for job in jobs:
            yield job.submission, _of_job(run, job)


def _of_job(run: Run, job: Job) -> list[Position] | str:
    work = job.submission
    if not job.grader.benchmarks:
        return "nothing of it is timed"
    if work.refused or work.missing or work.untouched:
        return work.refused or work.missing or "the stub is untouched"
    assert run.lock is not None
    device, lab = torch.device(run.options.device), run.clocking.lab(job)
    try:
        timing.prepare(lab, device)
        with run.lock.alone():
            return of(lab, device, run.clocking.peaks(device))
    except (Wrong, MachineError, torch.OutOfMemoryError) as error:
        return str(error)
    finally:
        lab.drop()


def to_dict(position: Position) -> dict[str, Any]:
    """As JSON holds it: times in ms, rates in bytes and operations a second."""

    def rows(found: tuple[Part, ...]) -> list[dict[str, Any]]:
        return [{"kernel": p.name, "whose": p.whose, "count": p.count, "ms": round(p.ms, 6)} for p in found]

    ms = position.ms
    return {
        "case": position.case, "time_ms": round(ms, 6), "baseline": position.baseline,
        "baseline_ms": round(position.baseline_ms, 6), "ideal_ms": round(position.ideal_ms, 6), "bound": position.bound,
        "roofline": round(position.ideal_ms / ms, 3) if ms else None, "bytes": position.work.bytes,
        "flops": position.work.flops, "bytes_per_s": position.work.bytes / ms * 1e3 if ms else None,
        "flops_per_s": position.work.flops / ms * 1e3 if ms else None, "peak_bytes_per_s": position.peaks.bytes_per_s,
        "peak_flops_per_s": position.peaks.flops_per_s.get(position.work.dtype), "intensity": round(position.intensity, 2),
        "ridge": position.ridge, "kernels": rows(position.ours), "baseline_kernels": rows(position.theirs),
    }  # fmt: skip

"""The timing of a run: what is timed at all, prepared beside the checks, and one exercise after the other alone on the GPU."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from harness import progress_store
from harness.errors import MachineError
from harness.examiner import machine
from harness.examiner.trial import Lab
from harness.record import PerformanceResult
from harness.status import Performance, Status

if TYPE_CHECKING:
    from harness.examiner.run import Job, Run


def unmeasured(of: Job | Lab, status: Performance = Performance.NOT_MEASURED) -> PerformanceResult:
    """The speed of an exercise as long as nothing is known of it."""
    exercise = of.exercise
    return PerformanceResult(
        status, Decimal(exercise.speed), threshold=exercise.threshold, stretch=exercise.stretch,
        baseline=of.grader.benchmarks[0].baseline,
    )  # fmt: skip


class Clocking:
    """Of the exercises of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def prepare(self, job: Job, pool: ThreadPoolExecutor) -> None:
        """Compile and tune for the clock, beside the checks, once those have passed that others need."""
        if job.prepared is not None or job.needed - set(job.done) or self.untimed(job) is not None:
            return
        import torch

        from harness.examiner import timing

        lab = job.lab = self.lab(job)
        compiled = self._run.warm.timed(self._run.options.device, job.submission.fingerprint)

        def prepare() -> None:
            with self._run.sharing():
                timing.prepare(lab, torch.device(self._run.options.device), compiled=compiled)

        job.prepared = pool.submit(prepare)

    def time(self, jobs: Sequence[Job]) -> None:
        """The performance of every exercise: prepared by now, timed one after the other."""
        import torch

        device, peaks = torch.device(self._run.options.device), None
        try:
            for job in jobs:
                job.performance = self.untimed(job)
                if job.performance is not None or job.lab is None or job.prepared is None:
                    continue
                self._run.progress(job.exercise.id, "speed", "running")
                assert self._run.lock is not None
                failed = self.warm_up(job, device)
                with self._run.lock.alone():
                    peaks = peaks or self.peaks(device)
                    job.performance = self.judged(job, device, failed, peaks)
                self._run.progress(job.exercise.id, "speed", str(job.performance.status))
        finally:
            for job in jobs:
                if job.lab is not None:
                    job.lab.drop()

    def lab(self, job: Job) -> Lab:
        """A lab whose worker is timed."""
        return Lab(job.exercise, job.grader, True, lambda: self._run.start_worker(job, clock=True))

    def warm_up(self, job: Job, device: Any) -> BaseException | None:
        """The last thing before the clock that other work may go on beside. What failed in it, or in preparing."""
        from harness.examiner import timing

        assert job.lab is not None and job.prepared is not None
        if (failed := job.prepared.exception()) is not None:
            return failed
        try:
            with self._run.sharing():
                timing.warm_up(job.lab, device)
        except Exception as error:
            return error
        return None

    def judged(self, job: Job, device: Any, failed: BaseException | None, peaks: Any) -> PerformanceResult:
        """The verdict; a fault of the harness or the machine leaves it open, and the run goes on. `failed`: before the clock."""
        from harness.examiner import timing

        assert job.lab is not None
        try:
            return timing.judge(job.lab, device, failed, peaks)
        except MachineError as error:
            message = str(error)
        except Exception:
            message = f"the harness failed:\n{traceback.format_exc(limit=-6)}"
        return replace(unmeasured(job), pending=Decimal(job.exercise.speed), message=message, fault=True)

    def peaks(self, device: Any) -> Any:
        """What the device reaches at best: measured once, remembered. The GPU is this run's alone."""
        import torch

        from harness.timing import roofline

        name = f"{torch.cuda.get_device_name(device)}, driver {machine.driver_version()}"
        table = progress_store.read(self._run.course.root, "roofline", dict)
        peaks = roofline.from_table(table.get(name, {}))
        if peaks is None:
            peaks = roofline.measure(device)
            progress_store.write(self._run.course.root, "roofline", {**table, name: roofline.to_table(peaks)})
        return peaks

    def untimed(self, job: Job) -> PerformanceResult | None:
        """Why an exercise is not timed, or None when it is to be."""
        points = Decimal(job.exercise.speed)
        if not points:
            return PerformanceResult(Performance.NOT_NEEDED)
        result = unmeasured(job)
        if not self._run.options.gpu or not self._run.options.timing:
            why = "speed is measured on a GPU" if not self._run.options.gpu else "--no-timing was given"
            return replace(result, pending=points, message=why)
        if self._run.options.only(job.submission) is not None or any(r.status is not Status.PASSED for r in job.done.values()):
            return replace(result, message="speed is measured once every check passes")
        return None

"""A whole run: submissions in, record out. Checks run side by side, each in a worker of its own; timing runs alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness import progress_store, sandbox
from harness.course import Course, Exercise
from harness.errors import GradeError
from harness.examiner import check as checking
from harness.examiner import compiling, machine
from harness.examiner.again import Again
from harness.examiner.clocking import Clocking
from harness.examiner.graders import checks_of, grader_of
from harness.examiner.judges import Judges
from harness.examiner.trial import Lab, Wrong, raise_reply
from harness.examiner.warm import Park, Warm, Worker, WorkerDied, wait_for_closed
from harness.grading.grader import REPEATED, Check, Grader
from harness.record import CheckResult, ExerciseResult, PerformanceResult, Record
from harness.status import Performance, Status
from harness.submission import Submission
from harness.timing.lock import DeviceLock

DURATIONS = "durations"  # of checks on a GPU, in seconds: a table that is remembered
LEFT_OUT = "another check has failed, and no more was asked for"
FEW_EXAMPLES = 4  # of a check that was not asked for, but is needed by one that was
TICK_S = 0.2  # between two looks at which checks run by now
_Judged = tuple[CheckResult, set[str]]  # of a check, and the sandboxes that its process has seen
Progress = Callable[[str, str, str], None]  # exercise, check, status ("running" or how it ended)


@dataclass(frozen=True)
class Options:
    """How a run was asked for. `device` is "cpu" or "cuda:N"; `only` names the checks of a submission that are asked for,
    where it is not all of them; with `until_failure` the rest of a submission is left out once a check has failed."""

    device: str
    seed: int
    timing: bool = True
    examples: int | None = None
    sandboxed: bool = True
    jobs: int = 0
    only: Callable[[Submission], frozenset[str] | None] = lambda submission: None
    until_failure: bool = False
    shrink_s: float | None = None  # how long a counterexample is made smaller, where it is not `checking.SHRINK_S`
    replay: Callable[[str], str] = lambda exercise: f"grade {exercise}"

    @property
    def gpu(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def judges(self) -> int:
        """Checks at a time."""
        # A GPU goes from process to process in turns, and the driver makes one context at a time: with sixteen workers more
        # is waited for than gained.
        return self.jobs or min(12 if self.gpu else 4, len(os.sched_getaffinity(0)))

    @property
    def aside(self) -> int:
        """What goes on beside them: it compiles for targets that are not there, and prepares what will be timed."""
        return max(1, min(4, len(os.sched_getaffinity(0)) // 4))


@dataclass(eq=False)
class Job:
    """The state of one exercise during a run."""

    submission: Submission
    grader: Grader
    checks: list[Check]
    scratch: Path
    done: dict[str, CheckResult] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    pieces: dict[str, list[CheckResult | None]] = field(default_factory=dict)  # of what has been started; None: still to come
    performance: PerformanceResult | None = None
    lab: Lab | None = None  # of the timing, once it is being prepared
    prepared: Future[None] | None = None

    @property
    def exercise(self) -> Exercise:
        return self.submission.exercise

    @property
    def needed(self) -> set[str]:
        """The checks that others need."""
        return {name for check in self.checks for name in check.needs}


def _points(exercise: Exercise, name: str) -> Decimal:
    return Decimal(exercise.points[name])


class Run:
    """One run over some submissions; `execute` gives the record."""

    def __init__(self, course: Course, park: Park, options: Options, progress: Progress) -> None:
        self.course, self.park, self.options, self.progress = course, park, options, progress
        self.levels: set[str] = set()
        self.lock = DeviceLock(machine.device_name(options.device)) if options.gpu else None
        self.clocking = Clocking(self)

    @property
    def warm(self) -> Warm:
        """The warm parent of the workers that checks run in."""
        return self.park.warm("gpu" if self.options.gpu else "interpret")

    def sharing(self) -> contextlib.AbstractContextManager[None]:
        return self.lock.shared() if self.lock is not None else contextlib.nullcontext()

    def start_worker(self, job: Job, device: str | None = None, *, clock: bool = False) -> Worker:
        """A worker with the submission loaded; raises `Wrong` when it cannot be loaded."""
        exercise, worker = job.exercise, self._fork(job, device, clock=clock)
        try:
            raise_reply(worker.ask(job.submission.load_request, exercise.limits.import_s))
        except WorkerDied as died:
            worker.close()
            raise Wrong(f"while it was imported: {died.message}", status=died.status) from None
        except Wrong:
            worker.close()
            raise
        return worker

    def _fork(self, job: Job, device: str | None, *, clock: bool = False) -> Worker:
        """A worker in which nothing was loaded."""
        worker = self.warm.worker(
            job.scratch, job.exercise.limits, device or self.options.device, clock=clock, origin=job.submission.fingerprint
        )
        self.levels.add(worker.level)
        return worker

    def _check(self, job: Job, name: str, piece: range | None, other: str | None) -> CheckResult:
        exercise, options = job.exercise, self.options
        (check,) = (c for c in job.checks if c.name == name)
        # One check runs on a device that is not the current one, where the machine has two.
        device = other if name == REPEATED else None
        lab = Lab(exercise, job.grader, options.gpu, lambda: self.start_worker(job, device))
        if not options.gpu:
            lab.again = Again(lambda: self._fork(job, device), job.submission.files, exercise.limits)
        replay = options.replay(exercise.id)
        shrink_s = checking.SHRINK_S if options.shrink_s is None else options.shrink_s
        only = options.only(job.submission)
        examples = self._examples if only is None or name in only else min(self._examples, FEW_EXAMPLES)
        setting = checking.Setting(options.seed, examples, options.gpu, replay, shrink_s)
        try:
            with self.sharing():
                return checking.run(lab, check, _points(exercise, name), setting, "", piece)
        finally:
            lab.close()

    def _other_device(self) -> str | None:
        import torch

        if not self.options.gpu or torch.cuda.device_count() < 2:
            return None
        index = int(self.options.device.split(":")[1])
        return f"cuda:{(index + 1) % torch.cuda.device_count()}"

    def _compile(self, job: Job) -> CheckResult:
        replay = self.options.replay(job.exercise.id)
        points = _points(job.exercise, compiling.CHECK)
        start = None if self.options.gpu else lambda: self.start_worker(job)
        return compiling.run(self.park, job.submission, job.grader, points, replay, start)

    def execute(self, submissions: list[Submission], target: str) -> Record:
        started = time.monotonic()
        machine.settle()
        with self.jobs(submissions) as jobs:
            self._skip_untouched(jobs)
            if any(self._wanted(job) for job in jobs):
                self._check_all(jobs)
            self.clocking.time(jobs)
            self._keep(jobs)
            exercises = tuple(self._result(job) for job in jobs)
        return Record(
            course=self.course.name, target=target, evidence=self._evidence(), seed=self.options.seed,
            duration_s=time.monotonic() - started, environment=self._environment(), exercises=exercises,
            locked_s=self.lock.locked_s if self.lock is not None else 0.0,
        )  # fmt: skip

    def _check_all(self, jobs: list[Job]) -> None:
        """Every check that is wanted; what will be timed is prepared meanwhile. Afterwards no worker is left but those."""
        warm, other = self.warm, self._other_device()

        def work(number: int, name: str, piece: range | None, facts: dict[str, Any]) -> _Judged:
            warm.told(facts)
            return self._judge(jobs[number], name, piece, other)

        # While the warm parent is still warming up: judges must be there before this process touches the GPU.
        asked = [(set(self._wanted(job)), job.checks) for job in jobs]
        pieces = sum(len(c.parts) if self.options.gpu else 1 for names, checks in asked for c in checks if c.name in names)
        count = max(1, min(self.options.judges, pieces))
        with Judges(work, count, wait_for_closed) as judges:
            if self.options.gpu and self.options.timing:
                threading.Thread(target=machine.wake_gpu, args=(self.options.device,), daemon=True).start()
            warm.ready()
            with ThreadPoolExecutor(self.options.aside) as aside:
                try:
                    self._schedule(jobs, judges, aside)
                except BaseException:  # an interrupt, at whatever point: what runs in threads and judges shall return
                    self.park.abort()
                    aside.shutdown(wait=False, cancel_futures=True)
                    raise

    @contextlib.contextmanager
    def jobs(self, submissions: list[Submission]) -> Iterator[list[Job]]:
        """What is to be done for each submission; their scratch folders are there inside."""
        root = Path(tempfile.mkdtemp(prefix="grade-run-", dir=self.park.folder))
        try:
            jobs = []
            for number, submission in enumerate(submissions):
                grader = grader_of(self.course, submission.exercise)
                checks = checks_of(submission.exercise, grader, gpu=self.options.gpu)
                scratch = root / str(number)
                scratch.mkdir()
                jobs.append(Job(submission, grader, checks, scratch))
            yield jobs
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _schedule(self, jobs: list[Job], judges: Judges, aside: ThreadPoolExecutor) -> None:
        """Start every check whose needs have passed; skip those whose needs have failed, with the reason."""
        running: dict[Future[_Judged], tuple[Job, str, int]] = {}
        for job in jobs:
            if compiling.CHECK in self._wanted(job):  # it needs nothing, and no device
                job.started.add(compiling.CHECK)
                job.pieces[compiling.CHECK] = [None]
                running[aside.submit(self._judge, job, compiling.CHECK)] = (job, compiling.CHECK, 0)

        def submit(job: Job, check: Check, piece: range | None = None) -> None:
            job.started.add(check.name)
            pieces = job.pieces.setdefault(check.name, [])
            running[judges.submit(jobs.index(job), check.name, piece, self.warm.facts)] = (job, check.name, len(pieces))
            pieces.append(None)

        if self.options.gpu:
            self._start_all(jobs, submit)
        else:
            for job in jobs:
                self._start_ready(job, submit)
        shown: set[tuple[str, str]] = set()
        while running:
            finished, _ = wait(running, timeout=TICK_S, return_when=FIRST_COMPLETED)
            for future in finished:
                job, name, number = running.pop(future)
                found = job.pieces[name][number] = self._outcome(job, name, future)
                pieces = [piece for piece in job.pieces[name] if piece is not None]
                if len(pieces) == len(job.pieces[name]):
                    job.done[name] = checking.joined(pieces)
                    self.progress(job.exercise.id, name, str(job.done[name].status))
                if self.options.until_failure and found.status not in (Status.PASSED, Status.NOT_RUN):
                    self._leave_out(job, [other for other, (owner, *_) in running.items() if owner is job])
                if not self.options.gpu:
                    self._start_ready(job, submit)
                self.clocking.prepare(job, aside)
            for future, (job, name, _) in running.items():
                if future.running() and (job.exercise.id, name) not in shown:
                    shown.add((job.exercise.id, name))
                    self.progress(job.exercise.id, name, "running")

    def _leave_out(self, job: Job, running: list[Future[_Judged]]) -> None:
        """Whatever of a submission has not begun; what has goes on to its end."""
        for future in running:
            future.cancel()
        for name in self._wanted(job):
            if name not in job.started:
                job.done[name] = CheckResult(name, Status.NOT_RUN, _points(job.exercise, name), message=LEFT_OUT)
                self.progress(job.exercise.id, name, str(Status.NOT_RUN))

    def _outcome(self, job: Job, name: str, future: Future[_Judged]) -> CheckResult:
        """What a judge, or a thread of this process, has found."""
        try:
            result, levels = future.result()
        except CancelledError:
            return CheckResult(name, Status.NOT_RUN, _points(job.exercise, name), message=LEFT_OUT)
        except BrokenExecutor:
            message = "the judge of this check was ended: was the machine short of memory?"
            return CheckResult(name, Status.ERROR, _points(job.exercise, name), message=message)
        self.levels |= levels
        return result

    def _judge(self, job: Job, name: str, piece: range | None = None, other: str | None = None) -> _Judged:
        """The result of a check or of a piece of it, and the sandboxes that workers had in this process. A fault of the
        harness costs the check, not the run, and is never the student's. `other`: a device that is not the current one."""
        try:
            result = self._compile(job) if name == compiling.CHECK else self._check(job, name, piece, other)
        except GradeError as error:
            result = CheckResult(name, Status.ERROR, _points(job.exercise, name), message=str(error))
        except Exception:
            message = f"the harness failed:\n{traceback.format_exc(limit=-6)}"
            result = CheckResult(name, Status.ERROR, _points(job.exercise, name), message=message)
        return result, set(self.levels)

    def _skip_untouched(self, jobs: list[Job]) -> None:
        """An exercise that is missing or untouched has nothing to run."""
        for job in jobs:
            work = job.submission
            if work.refused or work.missing or work.untouched:
                message = work.refused or work.missing or "the stub is untouched"
                status = Status.REFUSED if work.refused else Status.NOT_STARTED
                for name in self._names(job):
                    job.done[name] = CheckResult(name, status, _points(job.exercise, name), message=message)
                    self.progress(job.exercise.id, name, str(status))

    def _names(self, job: Job) -> list[str]:
        return ([compiling.CHECK] if job.grader.kernels else []) + [c.name for c in job.checks]

    def _wanted(self, job: Job) -> list[str]:
        """The checks of a job that are asked for and still to come."""
        only = self.options.only(job.submission)
        needed = set(self._names(job) if only is None else only)
        for check in reversed(job.checks):  # what a check needs comes before it
            if check.name in needed:
                needed.update(check.needs)
        return [n for n in self._names(job) if n in needed and n not in job.done]

    def _start_ready(self, job: Job, submit: Callable[[Job, Check], None]) -> None:
        """What needs nothing that is still to come, or is void by now."""
        wanted = self._wanted(job)
        for check in job.checks:
            if check.name not in wanted or check.name in job.started:
                continue
            void = self._void(job, check)
            if void is not None:
                job.done[check.name] = void
                self.progress(job.exercise.id, check.name, str(Status.NOT_RUN))
            elif all(n in job.done for n in check.needs):
                submit(job, check)

    @property
    def _examples(self) -> int:
        return self.options.examples or checking.DEFAULT_EXAMPLES["gpu" if self.options.gpu else "cpu"]

    def _start_all(self, jobs: list[Job], submit: Callable[[Job, Check, range], None]) -> None:
        """With many cores and seconds of compilation a check, nobody waits for what he needs: what a failed need makes
        void is struck out afterwards. Long ones are shared. First what others need, so that tuning can begin; then what took
        longest the last time, or else has the most parts (shapes, dtypes, layouts to compile for), later exercises before
        earlier ones."""
        took, ranked = progress_store.read(self.course.root, DURATIONS, dict), []
        for job in reversed(jobs):
            wanted, needed, last = self._wanted(job), job.needed, took.get(job.exercise.id, {})
            for check in job.checks:
                known = last.get(check.name, 0)
                seconds = float(known) if isinstance(known, (int, float)) else 0.0
                pieces = checking.split(check, seconds, max(1, self.options.judges // 3))
                rank = (check.name not in needed, -seconds / len(pieces), -len(check.parts) / len(pieces))
                if check.name in wanted:
                    ranked += [(rank, job, check, piece) for piece in pieces]
        for _, job, check, piece in sorted(ranked, key=lambda entry: entry[0]):
            submit(job, check, piece)

    def _void(self, job: Job, check: Check) -> CheckResult | None:
        """What stands for a check one of whose needs did not pass; None when none has failed."""
        failed = [n for n in check.needs if n in job.done and job.done[n].status is not Status.PASSED]
        if not failed:
            return None
        reason = f'needs "{failed[0]}", which did not pass ({job.done[failed[0]].status})'
        return CheckResult(check.name, Status.NOT_RUN, _points(job.exercise, check.name), message=reason)

    def _keep(self, jobs: list[Job]) -> None:
        """What makes the next run on this GPU shorter: the kernels of this work, how long its checks took. Every worker has
        ended."""
        if self.options.gpu:
            took = progress_store.read(self.course.root, DURATIONS, dict)
            for job in jobs:
                if job.started:
                    passed = {n: round(r.duration_s, 2) for n, r in job.done.items() if r.status is Status.PASSED}
                    took[job.exercise.id] = took.get(job.exercise.id, {}) | passed
                    timed = job.performance is not None and job.performance.ratio is not None
                    self.warm.keep(job.scratch, self.options.device, job.submission.fingerprint, timed=timed)
            progress_store.write(self.course.root, DURATIONS, took)

    def _result(self, job: Job) -> ExerciseResult:
        missing = "not asked for"
        for check in job.checks:
            if check.name in job.started and (void := self._void(job, check)) is not None:
                job.done[check.name] = void
        checks = tuple(
            job.done.get(n) or CheckResult(n, Status.NOT_RUN, _points(job.exercise, n), message=missing)
            for n in self._names(job)
        )
        checks = tuple(replace(c, message=job.submission.located(c.message)) for c in checks)
        performance = job.performance or PerformanceResult(Performance.NOT_NEEDED)
        performance = replace(performance, message=job.submission.located(performance.message))
        counted = [c for c in checks if c.message != missing]
        worst = next((c.status for c in counted if c.status not in (Status.PASSED, Status.NOT_RUN)), None)
        status = worst or (Status.PASSED if all(c.status is Status.PASSED for c in counted) else Status.NOT_RUN)
        if status is Status.PASSED and performance.status in (Performance.FAILED, Performance.INVALID):
            status = Status.FAILED
        estimate_passes = (performance.ratio or 0.0) >= (performance.threshold or 0.0)
        if status is Status.PASSED and performance.status is Performance.INCONCLUSIVE and not estimate_passes:
            status = Status.FAILED
        return ExerciseResult(job.exercise.id, status, job.submission.path, job.submission.sha256, checks, performance)

    def _evidence(self) -> str:
        if not self.options.gpu:
            return "interpreted"
        return "gpu-timed" if self.options.timing else "gpu-correct"

    def _environment(self) -> dict[str, Any]:
        import platform

        import torch
        import triton

        gpu = driver = None
        if self.options.gpu:
            gpu = torch.cuda.get_device_name(torch.device(self.options.device))
            driver = machine.driver_version()
        if self.levels:
            level = next(str(level) for level in reversed(sandbox.Level) if level in self.levels)  # the weakest
        else:  # nothing was run; say what would have been used
            level = str(self.park.wanted or sandbox.probe().level) if self.options.sandboxed else "none"
        return {
            "gpu": gpu, "driver": driver, "torch": torch.__version__, "triton": triton.__version__,
            "python": platform.python_version(), "sandbox": level, **self.park.reason,
        }  # fmt: skip

"""Grade solutions of which it is known how they must be graded, and say which came out otherwise."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from harness.course import Course, Exercise
from harness.examiner import compiling
from harness.examiner.run import Options, Run
from harness.examiner.warm import Park
from harness.gate import layout, solutions
from harness.gate.solutions import Fault, Kind, Solution
from harness.record import CheckResult, ExerciseResult, Record
from harness.status import Performance, Status
from harness.submission import Submission, shown

SHRINK_S = 0.2  # that a mutant fails is the question, not how small an example shows it
ALTERNATE_EXAMPLES = 4  # of each check, interpreted, where a reference gets 24: more seeds tell more than more examples
RIGHT, WRONG = (Kind.REFERENCE, Kind.ALTERNATE), (Kind.MUTANT, Kind.MUTATION)


@dataclass(frozen=True)
class Asked:
    """How the gate was asked for. `seeds`: right solutions are graded with so many, from `seed` on."""

    target: str
    device: str
    seed: int
    seeds: int = 1
    examples: int | None = None
    timing: bool = True
    mutate: bool = False
    files: bool = False  # nothing but the files is looked at
    sandboxed: bool = True

    @property
    def gpu(self) -> bool:
        return self.device.startswith("cuda")


@dataclass(frozen=True)
class Found:
    """A solution as it was graded with `seed`; `wrong`: in what it was not as it must be, empty where it was."""

    solution: Solution
    result: ExerciseResult
    seed: int
    wrong: str

    @property
    def machine(self) -> bool:
        """Whether the harness failed, so that nothing is known."""
        statuses = {self.result.status, *(check.status for check in self.result.checks)}
        return Status.ERROR in statuses or self.result.performance.fault

    @property
    def held(self) -> bool:
        return not self.wrong and not self.machine


@dataclass(frozen=True)
class Report:
    """What the gate saw."""

    course: str
    asked: Asked
    duration_s: float
    environment: dict[str, Any]
    faults: tuple[Fault, ...]
    found: tuple[Found, ...]
    left_out: tuple[Solution, ...] = field(default=())  # they show elsewhere

    def of(self, *kinds: Kind) -> list[Found]:
        return [found for found in self.found if found.solution.kind in kinds and not found.machine]

    @property
    def killed(self) -> tuple[int, int]:
        """Mutants and mutations that failed (where they say, if they say so), of how many."""
        wrong = self.of(*WRONG)
        return sum(found.held for found in wrong), len(wrong)

    @property
    def rejected(self) -> tuple[int, int]:
        """Gradings of right solutions that did not pass, of how many."""
        right = self.of(*RIGHT)
        return sum(not found.held for found in right), len(right)

    @property
    def exit_code(self) -> int:
        """0 all as it must be, 1 the set falls short, 3 the harness or the machine failed."""
        if any(found.machine for found in self.found):
            return 3
        return int(bool(self.faults) or any(found.wrong for found in self.found))


Only = Callable[[Submission], frozenset[str] | None]
Progress = Callable[[str, int], None]  # what is being graded, and how many of its checks are done


def run(course: Course, exercises: tuple[Exercise, ...], park: Park, asked: Asked, progress: Progress) -> Report:
    """Look at the files, then grade what belongs to the exercises whose files are as they must be."""
    started = time.monotonic()
    faults = tuple(layout.faults(course, exercises))
    broken = {fault.file for fault in faults}
    sound = [e for e in exercises if not broken & set(_files(course, e))]
    gathered = [solution for exercise in sound for solution in solutions.gather(course, exercise, mutate=asked.mutate)]
    here = "gpu" if asked.gpu else "cpu"
    graded = [solution for solution in gathered if here in solution.on and not asked.files]
    trial = _Trial(course, park, asked, progress)
    found = tuple(trial.all(graded)) if graded else ()
    return Report(
        course.name, asked, time.monotonic() - started, trial.environment, faults, found,
        tuple(solution for solution in gathered if here not in solution.on),
    )  # fmt: skip


def _files(course: Course, exercise: Exercise) -> Iterator[str]:
    """Those without which an exercise's solutions cannot be graded."""
    paths = (solutions.stub_file, solutions.reference_file, solutions.mutants_file)
    yield from (shown(course, path(course, exercise)) for path in paths)
    yield f"graders/{exercise.chapter}.py"


class _Trial:
    def __init__(self, course: Course, park: Park, asked: Asked, progress: Progress) -> None:
        self.course, self.park, self.asked, self.progress = course, park, asked, progress
        self.environment: dict[str, Any] = {}

    def all(self, graded: Sequence[Solution]) -> Iterator[Found]:
        fewer = self.asked.examples or (None if self.asked.gpu else ALTERNATE_EXAMPLES)
        by_kind = {kind: [s for s in graded if s.kind is kind] for kind in Kind}
        timing = self.asked.timing and self.asked.gpu
        yield from self._graded("references", by_kind[Kind.REFERENCE], examples=self.asked.examples, timing=timing)
        yield from self._graded("stubs", by_kind[Kind.STUB], examples=fewer)
        yield from self._graded("alternates", by_kind[Kind.ALTERNATE], examples=fewer)
        yield from self._graded("mutants", by_kind[Kind.MUTANT], examples=self.asked.examples, shrink_s=SHRINK_S)
        yield from self._mutations(by_kind[Kind.MUTATION])
        right = [s for s in graded if s.kind in RIGHT]
        for more in range(1, self.asked.seeds):
            yield from self._graded(f"seed {self.asked.seed + more}", right, more, examples=fewer)

    def _mutations(self, graded: list[Solution]) -> Iterator[Found]:
        """Any check may see a mutation; to compile takes longest and sees least, so it is asked last."""

        def but(work: Submission) -> frozenset[str]:
            return frozenset(work.exercise.points) - {compiling.CHECK}

        def alone(work: Submission) -> frozenset[str]:
            return frozenset({compiling.CHECK})

        options: dict[str, Any] = {"examples": self.asked.examples, "shrink_s": SHRINK_S}
        alive = []
        for found in self._graded("mutations", graded, only=but, until_failure=True, **options):
            if found.wrong and not found.machine and compiling.CHECK in found.solution.work.exercise.points:
                alive.append(found.solution)
            else:
                yield found
        yield from self._graded("mutations that live", alive, only=alone, **options)

    def _graded(
        self, what: str, graded: list[Solution], more: int = 0, *, timing: bool = False, only: Only | None = None, **options: Any
    ) -> Iterator[Found]:
        if not graded:
            return
        checks = {id(solution.work): solution.checks for solution in graded}
        done = 0

        def named(work: Submission) -> frozenset[str] | None:
            return frozenset(checks[id(work)][-1:]) or None

        def update(exercise: str, check: str, status: str) -> None:
            nonlocal done
            done += status != "running"
            self.progress(what, done)

        self.progress(what, 0)
        asked = Options(
            device=self.asked.device, seed=self.asked.seed + more, timing=timing, sandboxed=self.asked.sandboxed,
            only=only or named, **options,
        )  # fmt: skip
        record: Record = Run(self.course, self.park, asked, update).execute([s.work for s in graded], self.asked.target)
        self.environment = self.environment or record.environment
        for solution, result in zip(graded, record.exercises, strict=True):
            wrong = difference(solution, result, gpu=self.asked.gpu)
            if wrong and solution.kind in RIGHT:
                wrong += f" (`{self._again(solution, asked)}`)"
            yield Found(solution, result, asked.seed, wrong)

    def _again(self, solution: Solution, asked: Options) -> str:
        """The command that grades a file so once more."""
        words = ["grade", solution.work.exercise.id, "--from", solution.work.path, "--device", asked.device, "--seed", asked.seed]
        words += ["--examples", asked.examples] if asked.examples is not None else []
        return shlex.join(map(str, words))


def difference(solution: Solution, result: ExerciseResult, *, gpu: bool) -> str:
    """In what a result is not as it must be, in words; empty where it is."""
    if solution.kind is Kind.MUTANT:
        return _survived(solution, result, gpu=gpu)
    if solution.kind is Kind.MUTATION:
        return "" if any(c.status not in (Status.PASSED, Status.NOT_RUN) for c in result.checks) else "every check passes"
    if solution.kind is Kind.STUB:  # one that is to be repaired may earn some points
        return "the stub passes" if result.status is Status.PASSED else ""
    if result.status is not Status.PASSED:
        first = next((c for c in result.checks if c.status not in (Status.PASSED, Status.NOT_RUN)), None)
        if first is not None:
            return _told(first)
        return f"speed: {result.performance.status}: {result.performance.message}"
    inconclusive = result.performance.status is Performance.INCONCLUSIVE
    missing = result.max_score - result.score - result.pending
    return f"earns {result.score} of {result.max_score} points" if missing > Decimal(0) and not inconclusive else ""


def _survived(solution: Solution, result: ExerciseResult, *, gpu: bool) -> str:
    statuses = set(solution.statuses)
    if gpu and Status.FAILED in statuses:
        statuses.add(Status.DEVICE_FAULT)  # what the interpreter sees as a wrong address ends the device's context
    named = {check.name: check for check in result.checks}
    asked = [named[name] for name in solution.checks]
    first = next((check for check in asked if check.status is not Status.PASSED), asked[-1])
    if first.status in statuses:
        return "" if first.message else f"{first.name} fails without a word"
    return f"must end as {' or '.join(sorted(statuses))} in {' or '.join(solution.checks)}; {_told(first)}"


def _told(check: CheckResult) -> str:
    return f"{check.name}: {check.status}" + (f": {check.message.splitlines()[0]}" if check.message else "")

"""The check "compiles": every kernel that the function launches, compiled for targets that are not there.

Host code can tell where it runs, and launch one kernel where kernels are interpreted and another one where they are compiled.
So the kernels of an interpreted call on an example that nobody knows before are compiled as well, from the call's tape, in a
worker in which no host code runs.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase

from harness.examiner.trial import NO_ANSWER, Lab, Trial, Wrong, raise_reply
from harness.examiner.warm import Park, Worker, WorkerDied
from harness.grading.domain import aligned, ragged, strided
from harness.grading.grader import Grader, TensorGrader
from harness.record import CheckResult
from harness.status import Status
from harness.submission import Submission

TARGETS = ("sm_80", "sm_90")
COMPILE_S = 120.0
CHECK = "compiles"


def simplest(strategy: Any, seed: int = 0, others: int = 0) -> Any:
    """The simplest example of a strategy; or, of the `others` that come after it with `seed`, the last."""
    drawn: list[Any] = []

    @hypothesis.settings(
        max_examples=1 + others, database=None, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet, backend="hypothesis",
    )  # fmt: skip
    @hypothesis.seed(seed)
    @hypothesis.given(st.data())
    def collect(data: st.DataObject) -> None:
        drawn.append(data.draw(strategy))

    collect()
    return drawn[-1]


def calls(grader: Grader) -> list[list[Any]]:
    """What the kernels are compiled with: simple and odd arguments, and the timed cases' shapes in memory never touched."""
    found = grader.compile_calls(simplest)
    for case in grader.benchmarks:
        found.append([_untouched(v) if isinstance(v, dict) and "kind" in v else v for v in case.inputs.values()])
    return found


def _untouched(spec: dict[str, Any]) -> dict[str, Any]:
    return {"untouched": list(spec["shape"]), "dtype": spec["dtype"], "pitch": spec.get("pitch")}


def ask(
    park: Park, submission: Submission, argument_lists: list[list[Any]], target: str, *, asm: bool = False,
    first: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Compile for one target in a worker of its own; the worker's answer. Raises `Wrong` when the submission fails.

    `first`: what is asked of the worker before the submission is loaded; what then does not compile is a failure too.
    """
    exercise = submission.exercise
    with tempfile.TemporaryDirectory(prefix="grade-", dir=park.folder, ignore_cleanup_errors=True) as scratch:
        warm, origin = park.warm("compile"), f"{submission.fingerprint} {target}"
        worker = warm.worker(Path(scratch), exercise.limits, "cpu", origin=origin)
        try:
            raise_reply(worker.ask({"op": "aim", "target": target}, COMPILE_S))
            if first is not None:
                told = worker.ask(first, COMPILE_S)
                raise_reply(told)
                _all_compile(told.get("failures"), f"for {target}, as it is launched when interpreted")
            raise_reply(worker.ask(submission.load_request, exercise.limits.import_s))
            reply = worker.ask({"op": "compile", "calls": argument_lists, "asm": asm}, COMPILE_S)
        except WorkerDied as died:
            raise Wrong(died.message, status=died.status) from None
        finally:
            worker.close()
        warm.keep(Path(scratch), "cpu", origin)
    raise_reply(reply)
    if not isinstance(reply.get("kernels"), int) or not isinstance(reply.get("failures"), list):
        raise Wrong(NO_ANSWER, status=Status.REFUSED)
    return reply


def interpreted(submission: Submission, grader: Grader, start: Callable[[], Worker]) -> dict[str, Any] | None:
    """A request to compile the kernels that an interpreted call launches, on an example of random shapes. `start`: a worker
    that interprets, with the submission loaded. None where there is no such call, or it fails: the checks that judge it say
    why."""
    if not isinstance(grader, TensorGrader) or grader.in_place:
        return None
    source = random.SystemRandom()
    focus = source.choice([part for parts in (aligned, ragged, strided) for part in parts(grader.inputs, gpu=False)])
    drawn = simplest(grader.inputs.under(focus), source.getrandbits(30), others=4)
    lab = Lab(submission.exercise, grader, False, start)
    try:
        tape = Trial(lab, simplest, CHECK).call(*drawn.values(), names=drawn.names()).get("tape")
    except Wrong:
        return None
    finally:
        lab.close()
    request = {"op": "recompile", "tape": tape, "files": dict(submission.files), "args": drawn.values(), "moves": grader.moves}
    return request if tape is not None else None


def _all_compile(failures: Any, where: str) -> None:
    if not failures:
        return
    try:
        first = {name: str(failures[0][name]) for name in ("kernel", "message", "line", "source")}
    except (KeyError, TypeError, IndexError):
        raise Wrong(NO_ANSWER, status=Status.REFUSED) from None
    line = f"\n  at line {first['line']}: {first['source']}" if failures[0]["line"] else ""
    raise Wrong(f"kernel {first['kernel']} does not compile {where}: {first['message']}{line}", status=Status.COMPILE_ERROR)


def run(
    park: Park, submission: Submission, grader: Grader, points: Decimal, replay: str, start: Callable[[], Worker] | None = None
) -> CheckResult:
    """The check's verdict over all targets. `start`, where kernels are interpreted, see `interpreted`."""
    started = time.monotonic()
    kernels = 0
    try:
        lists = calls(grader)
        tape = interpreted(submission, grader, start) if start is not None else None
        for target in TARGETS:
            reply = ask(park, submission, lists, target, first=tape if target == TARGETS[-1] else None)
            kernels += reply["kernels"]
            _all_compile(reply["failures"], f"for {target}")
        if kernels == 0:
            raise Wrong("no kernel was launched, so there is nothing to compile", status=Status.REFUSED)
    except Wrong as wrong:
        return CheckResult(
            CHECK,
            wrong.status,
            points,
            kernels,
            wrong.message,
            wrong.cause,
            replay=replay,
            duration_s=time.monotonic() - started,
        )
    return CheckResult(CHECK, Status.PASSED, points, kernels, duration_s=time.monotonic() - started)

"""The check "compiles": every kernel that the function launches, compiled for targets that are not there."""

from __future__ import annotations

import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase

from harness.examiner.trial import Wrong, raise_reply
from harness.examiner.warm import Park, WorkerDied
from harness.grading.grader import Grader
from harness.record import CheckResult
from harness.status import Status
from harness.submission import Submission

TARGETS = ("sm_80", "sm_90")
COMPILE_S = 120.0
CHECK = "compiles"


def simplest(strategy: Any) -> Any:
    """The simplest example of a strategy."""
    drawn: list[Any] = []

    @hypothesis.settings(
        max_examples=1, database=None, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet, backend="hypothesis",
    )  # fmt: skip
    @hypothesis.seed(0)
    @hypothesis.given(st.data())
    def collect(data: st.DataObject) -> None:
        drawn.append(data.draw(strategy))

    collect()
    return drawn[0]


def calls(grader: Grader) -> list[list[Any]]:
    """What the kernels are compiled with: simple and odd arguments, and the timed cases' shapes in memory never touched."""
    found = grader.compile_calls(simplest)
    for case in grader.benchmarks:
        found.append([_untouched(v) if isinstance(v, dict) and "kind" in v else v for v in case.inputs.values()])
    return found


def _untouched(spec: dict[str, Any]) -> dict[str, Any]:
    return {"untouched": list(spec["shape"]), "dtype": spec["dtype"], "pitch": spec.get("pitch")}


def ask(
    park: Park, submission: Submission, argument_lists: list[list[Any]], target: str, *, asm: bool = False
) -> dict[str, Any]:
    """Compile for one target in a worker of its own; the worker's answer. Raises `Wrong` when the submission fails."""
    exercise = submission.exercise
    with tempfile.TemporaryDirectory(prefix="grade-", dir=park.folder, ignore_cleanup_errors=True) as scratch:
        warm, origin = park.warm("compile"), f"{submission.fingerprint} {target}"
        worker = warm.worker(Path(scratch), exercise.limits, "cpu", origin=origin)
        try:
            raise_reply(worker.ask({"op": "aim", "target": target}, COMPILE_S))
            raise_reply(worker.ask(submission.load_request, exercise.limits.import_s))
            reply = worker.ask({"op": "compile", "calls": argument_lists, "asm": asm}, COMPILE_S)
        except WorkerDied as died:
            raise Wrong(died.message, status=died.status) from None
        finally:
            worker.close()
        warm.keep(Path(scratch), "cpu", origin)
    raise_reply(reply)
    return reply


def run(park: Park, submission: Submission, grader: Grader, points: Decimal, replay: str) -> CheckResult:
    """The check's verdict over all targets."""
    started = time.monotonic()
    kernels = 0
    try:
        lists = calls(grader)
        for target in TARGETS:
            reply = ask(park, submission, lists, target)
            kernels += reply["kernels"]
            if reply["failures"]:
                f = reply["failures"][0]
                where = f"\n  at line {f['line']}: {f['source']}" if f.get("line") else ""
                raise Wrong(
                    f"kernel {f['kernel']} does not compile for {target}: {f['message']}{where}",
                    status=Status.COMPILE_ERROR,
                )
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

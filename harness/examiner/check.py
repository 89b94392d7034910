"""Run one check: its parts as Hypothesis properties, the smallest counterexample, the message that a student reads."""

from __future__ import annotations

import contextlib
import hashlib
import math
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import hypothesis
import hypothesis.strategies as st
import torch
from hypothesis import HealthCheck, Phase
from hypothesis.internal.conjecture import providers

from harness.examiner.trial import Lab, Trial, Wrong, describe
from harness.grading.grader import Check, Part
from harness.grading.patterns import few_patterns
from harness.record import CheckResult
from harness.status import Status

# Hypothesis mixes numbers that stand in the sources of whatever modules are loaded into what it draws: a check would
# draw other examples alone than beside others, and its replay find no error. And to read them takes half a second.
if hasattr(providers, "Constants") and hasattr(providers.HypothesisProvider, "_local_constants"):
    providers.HypothesisProvider._local_constants = providers.Constants()  # type: ignore[method-assign]

DEFAULT_EXAMPLES = {"cpu": 24, "gpu": 40}
SHRINK_S = 4.0  # how long a counterexample is made smaller, unless a run asks for less
# On a GPU, where a check is mostly compilation, judges share a long one: so much of it each, or so many of its parts.
PIECE_S, PIECE_PARTS = 2.0, 4
# A failure that takes its process with it costs seconds an attempt: report the first, do not shrink it.
FINAL = frozenset({Status.TIMED_OUT, Status.OUT_OF_MEMORY, Status.NOT_STARTED, Status.REFUSED, Status.COMPILE_ERROR})


class _Enough(BaseException):
    """Ends a Hypothesis run at once; not an Exception, which Hypothesis would take for another failure."""


@dataclass(frozen=True)
class Failure:
    wrong: Wrong
    part: str
    size: int


@dataclass(frozen=True)
class Setting:
    """How a run was asked for: what a replay must repeat."""

    seed: int
    examples: int
    gpu: bool
    replay: str
    shrink_s: float


def seed_of(seed: int, exercise: str, check: str, part: str) -> int:
    """A seed of its own for each part, so that one check replays alone as it ran among others."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{exercise}/{check}/{part}".encode()).digest()[:8], "little")


def _elements(trial: Trial) -> int:
    drawn = trial.drawn
    if drawn is None:
        return 0
    tensors = [a for a in drawn.args.values() if isinstance(a, torch.Tensor)]
    return sum(t.numel() for t in tensors)


def run_part(
    lab: Lab, check: Check, part: Part, count: int, seed: int, deadline: float, shrink_s: float = SHRINK_S
) -> tuple[Failure | None, int]:
    """Run `count` examples of a part; the smallest failure found, and how many examples were run."""
    best: Failure | None = None
    ran = 0
    stop_at, over = math.inf, False

    def example(draw: Callable[[Any], Any]) -> None:
        nonlocal best, ran, stop_at, over
        now = time.monotonic()
        if now > stop_at or (now > deadline and ran > 0):
            over = True
            raise _Enough
        if best is None:
            ran += 1
        trial = Trial(lab, draw, part.name)
        try:
            part.body(trial)
        except Wrong as wrong:
            wrong.drawn = trial.drawn
            if choices := [f"{kernel} with {config}" for kernel, many, config in trial.tuned if many > 1]:
                wrong.facts.setdefault("configurations", choices)
            size = _elements(trial)
            if best is None:
                stop_at = time.monotonic() + shrink_s
            if best is None or size <= best.size:
                best = Failure(wrong, part.name, size)
            if wrong.status in FINAL:
                raise _Enough from None
            raise

    if part.once:
        with contextlib.suppress(Wrong, _Enough):
            example(_nothing_to_draw)
        return best, ran

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max(1, count), deadline=None, database=None, report_multiple_bugs=False, print_blob=False,
        phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck), verbosity=hypothesis.Verbosity.quiet,
        derandomize=False, backend="hypothesis",
    )  # fmt: skip
    @hypothesis.given(st.data())
    def property_(data: st.DataObject) -> None:
        example(data.draw)

    # On a GPU the patterns are those of the check, not of the run: kernels that were kept serve again.
    few: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if lab.gpu:
        few = few_patterns(max(2, count // 4), seed_of(0, lab.exercise.id, check.name, part.name))
    try:
        with few:
            property_()
    except (Wrong, _Enough):
        pass
    except hypothesis.errors.HypothesisException:
        # A failure that comes and goes (a race) ends as Flaky; what failed stands in `best`. So may an end before
        # anything was drawn, when the time is up.
        if best is None and not over:
            raise
    except BaseExceptionGroup:
        if best is None:
            raise
    return best, ran


def _nothing_to_draw(strategy: Any) -> Any:
    raise AssertionError("a check that runs once draws nothing")


def split(check: Check, seconds: float, most: int) -> list[range]:
    """The parts of a check in up to `most` runs, one after the other in order, for so many judges side by side: none where
    it is short. `seconds`: what it took the last time; 0: nobody knows, and its parts are counted.
    """
    wanted = seconds / PIECE_S if 0 < seconds < math.inf else len(check.parts) / PIECE_PARTS
    count = max(1, math.ceil(min(wanted, most, len(check.parts))))
    whole, done, start = sum(part.share for part in check.parts), 0.0, 0
    pieces: list[range] = []
    for end, part in enumerate(check.parts, 1):
        done += part.share
        if done >= whole * (len(pieces) + 1) / count - 1e-9 or end == len(check.parts):
            pieces.append(range(start, end))
            start = end
    return pieces


def joined(pieces: Sequence[CheckResult]) -> CheckResult:
    """The verdict on a check whose parts ran in pieces, in their order: as if they had run one after the other. What took
    long adds up."""
    took = sum(piece.duration_s for piece in pieces)
    numbers = range(len(pieces))
    wrong = [n for n in numbers if pieces[n].status not in (Status.PASSED, Status.NOT_RUN)]
    open_ = [n for n in numbers if pieces[n].status is Status.NOT_RUN]
    last = next(iter(wrong or open_), len(pieces) - 1)
    verdict = pieces[last]
    if verdict.status is Status.PASSED:  # what it may have said is how much was printed
        verdict = replace(verdict, message=next((p.message for p in pieces if p.message), ""))
    return replace(
        verdict, examples=sum(p.examples for p in pieces[: last + 1]), duration_s=took,
        margin=max(p.margin for p in pieces), output="".join(p.output for p in pieces),
    )  # fmt: skip


def run(
    lab: Lab, check: Check, points: Decimal, setting: Setting, hint: str, piece: range | None = None
) -> CheckResult:
    """Run a check, or a piece of it (`split`), to its verdict."""
    started = time.monotonic()
    deadline = started + lab.exercise.limits.check_s
    share = max(1, math.ceil(setting.examples * check.examples / len(check.parts)))
    total, failure, printed, loud = 0, None, "", ""
    for part in check.parts if piece is None else check.parts[piece.start : piece.stop]:
        seed = seed_of(setting.seed, lab.exercise.id, check.name, part.name)
        failure, ran = run_part(lab, check, part, math.ceil(share * part.share), seed, deadline, setting.shrink_s)
        total += ran
        if failure is not None:
            break
    if lab.worker is not None:
        output = lab.worker.output
        printed = output.text()
        if output.total > len(printed.encode()):
            loud = f"{output.total:,} bytes printed; the first and the last few kilobytes are kept"
            printed += f"\n[{loud}]"
    lab.drop()
    common = {"examples": total, "duration_s": time.monotonic() - started, "margin": lab.margin, "output": printed}
    if failure is None:
        return CheckResult(check.name, Status.PASSED, points, message=loud, **common)  # type: ignore[arg-type]
    wrong = failure.wrong
    example = {"part": failure.part, "arguments": describe(wrong.drawn), **wrong.facts}
    return CheckResult(
        check.name, wrong.status, points, message=wrong.message, hint=wrong.cause or hint,
        counterexample=example,
        replay=f"{setting.replay} --check {shlex.quote(check.name)}", **common,  # type: ignore[arg-type]
    )  # fmt: skip

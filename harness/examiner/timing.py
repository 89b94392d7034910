"""The ratio to the baseline: interleaved pairs of one timed call each, submission in its worker, baseline here.

The baseline runs in the examiner, out of the submission's reach, on the values that the worker drew from the same seed.
Every pair has new values in new memory and a cold L2; the order within a pair alternates. The verdict is the median
ratio; `Verdict` is what a fuller judgement (interval, three clocks, roofline floor) will fill in behind the same call.
"""

from __future__ import annotations

import gc
import math
import secrets
import statistics
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import torch

from harness import clock, data
from harness.errors import MachineError
from harness.examiner import compare
from harness.examiner.trial import Lab, Wrong, raise_reply
from harness.grading.domain import Drawn
from harness.grading.grader import Case, TensorGrader
from harness.record import PerformanceResult, TimedCase
from harness.status import Performance

PAIRS = 41
SAMPLED = 4096  # elements of a timed output that are checked, chosen after it was made
FLUSH_L2 = 4  # times the L2's size written between calls


@dataclass(frozen=True)
class Verdict:
    """One case: medians in milliseconds, the ratio with an interval where there is one."""

    case: TimedCase
    low: float | None
    high: float | None


def prepare(lab: Lab, device: torch.device) -> None:
    """Compile and tune for every case, before the clock and beside other work. Raises `Wrong` when that fails."""
    for case in lab.grader.benchmarks:
        request = {"op": "prime", "case": case.inputs, "seeds": [_fresh(), _fresh()], "flush_bytes": _flush_bytes(device)}
        raise_reply(lab.ask(request, lab.exercise.limits.tune_s))


def _flush_bytes(device: torch.device) -> int:
    return FLUSH_L2 * int(torch.cuda.get_device_properties(device).L2_cache_size)


def measure(lab: Lab, case: Case, device: torch.device) -> Verdict:
    """Time one case that was prepared. Raises `Wrong` when a timed call fails or its output is wrong."""
    limits = lab.exercise.limits
    flush = torch.empty(_flush_bytes(device) // 4, dtype=torch.int32, device=device)
    for _ in range(2):
        case.run(*data.arguments(case.inputs, _fresh(), device))
        raise_reply(lab.ask({"op": "sample", "case": case.inputs, "seed": _fresh()}, limits.call_s))
    torch.cuda.synchronize(device)
    ours, theirs, seed = [], [], 0
    for turn in range(PAIRS):
        seed = _fresh()
        if turn % 2:
            theirs.append(_baseline(case, seed, flush, device))
        reply = lab.ask({"op": "sample", "case": case.inputs, "seed": seed}, limits.call_s)
        raise_reply(reply)
        ours.append(float(reply["ms"]))
        if not turn % 2:
            theirs.append(_baseline(case, seed, flush, device))
    _check_output(lab, case, seed, device)
    ratios = [b / a if a > 0 else math.inf for a, b in zip(ours, theirs, strict=True)]
    dtype = next((str(v["dtype"]).removeprefix("torch.") for v in case.inputs.values() if isinstance(v, dict)), "")
    timed = TimedCase(case.name, dtype, statistics.median(ours), statistics.median(theirs), statistics.median(ratios))
    quarters = statistics.quantiles(ratios, n=4)
    return Verdict(timed, quarters[0], quarters[2])


def _fresh() -> int:
    """A seed nobody can know before it is used."""
    return secrets.randbits(62)


def _baseline(case: Case, seed: int, flush: torch.Tensor, device: torch.device) -> float:
    return clock.call(case.run, data.arguments(case.inputs, seed, device), flush)[1]


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


def judge(lab: Lab, device: torch.device, failed: BaseException | None) -> PerformanceResult:
    """Time every case; passed when the geometric mean of the ratios reaches the threshold. `failed`: in `prepare`.

    `low` and `high` are the quartiles of the pairs' ratios.
    """
    exercise = lab.exercise
    threshold, points = float(exercise.threshold or 0), Decimal(exercise.speed)
    base = PerformanceResult(
        Performance.FAILED, points, threshold=exercise.threshold, stretch=exercise.stretch,
        baseline=lab.grader.benchmarks[0].baseline,
    )  # fmt: skip
    verdicts: list[Verdict] = []
    try:
        if failed is not None:
            raise failed
        for case in lab.grader.benchmarks:
            verdicts.append(measure(lab, case, device))
            gc.collect()
            torch.cuda.empty_cache()
    except (Wrong, MachineError, torch.OutOfMemoryError) as wrong:
        return replace(base, status=Performance.INVALID, message=str(wrong))
    finally:
        lab.drop()
    mean = statistics.geometric_mean([v.case.ratio for v in verdicts])
    low = statistics.geometric_mean([v.low or v.case.ratio for v in verdicts])
    high = statistics.geometric_mean([v.high or v.case.ratio for v in verdicts])
    passed = mean >= threshold
    message = "" if passed else f"{mean:.2f} of {base.baseline}'s speed; {threshold:g} are needed"
    return replace(
        base, status=Performance.PASSED if passed else Performance.FAILED, score=points if passed else Decimal(0),
        ratio=round(mean, 4), low=round(low, 4), high=round(high, 4), cases=tuple(v.case for v in verdicts), message=message,
    )  # fmt: skip

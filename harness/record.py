"""What a run found, as frozen objects, and the `grade/result/v1` document made of them. Views read nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from harness.status import Performance, Status

SCHEMA = "grade/result/v1"


@dataclass(frozen=True)
class CheckResult:
    name: str
    status: Status
    max_score: Decimal
    examples: int = 0
    message: str = ""
    hint: str = ""
    counterexample: dict[str, Any] = field(default_factory=dict)
    replay: str = ""
    duration_s: float = 0.0
    margin: float = 0.0  # largest error in units of its bound (above 1: wrong); not part of the document
    output: str = ""  # what the submission printed; not part of the document

    @property
    def score(self) -> Decimal:
        return self.max_score if self.status is Status.PASSED else Decimal(0)


@dataclass(frozen=True)
class TimedCase:
    shape: str
    dtype: str
    time_ms: float
    baseline_ms: float
    ratio: float
    roofline: float | None = None


@dataclass(frozen=True)
class PerformanceResult:
    status: Performance
    max_score: Decimal = Decimal(0)
    score: Decimal = Decimal(0)
    pending: Decimal = Decimal(0)
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float | None = None
    stretch: float | None = None
    baseline: str = ""
    cases: tuple[TimedCase, ...] = ()
    message: str = ""
    fault: bool = False  # of the machine or the harness: it was to be timed and was not


@dataclass(frozen=True)
class ExerciseResult:
    id: str
    status: Status
    file: str
    sha256: str
    checks: tuple[CheckResult, ...]
    performance: PerformanceResult

    @property
    def score(self) -> Decimal:
        return sum((c.score for c in self.checks), Decimal(0)) + self.performance.score

    @property
    def max_score(self) -> Decimal:
        return sum((c.max_score for c in self.checks), Decimal(0)) + self.performance.max_score

    @property
    def pending(self) -> Decimal:
        return self.performance.pending


@dataclass(frozen=True)
class Record:
    course: str
    target: str
    evidence: str
    seed: int
    duration_s: float
    environment: dict[str, Any]
    exercises: tuple[ExerciseResult, ...]
    student: str | None = None
    status: str = "graded"
    locked_s: float = 0.0  # of duration_s, how long timing had the GPU alone; not part of the document

    @property
    def score(self) -> Decimal:
        return sum((e.score for e in self.exercises), Decimal(0))

    @property
    def max_score(self) -> Decimal:
        return sum((e.max_score for e in self.exercises), Decimal(0))

    @property
    def pending(self) -> Decimal:
        return sum((e.pending for e in self.exercises), Decimal(0))

    @property
    def unclocked(self) -> bool:
        """Whether the clock failed somewhere."""
        return any(e.performance.fault for e in self.exercises)

    @property
    def exit_code(self) -> int:
        """0 all passed, 1 something failed, 3 the harness failed somewhere."""
        statuses = {e.status for e in self.exercises} | {c.status for e in self.exercises for c in e.checks}
        if self.status == "error" or self.unclocked or Status.ERROR in statuses:
            return 3
        return 0 if all(e.status is Status.PASSED for e in self.exercises) else 1


def number(value: Decimal) -> int | float:
    """A score as it is shown: rounded once, to two decimals; whole when it is whole."""
    rounded = value.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)
    return int(rounded) if rounded == rounded.to_integral_value() else float(rounded)


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity; say them in words."""
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def document(record: Record) -> dict[str, Any]:
    """The result document, `grade/result/v1`."""
    return {
        "schema": SCHEMA, "course": record.course, "target": record.target, "student": record.student,
        "evidence": record.evidence, "status": record.status,
        "score": number(record.score), "max_score": number(record.max_score), "pending": number(record.pending),
        "duration_s": round(record.duration_s, 2), "seed": record.seed, "environment": record.environment,
        "exercises": [_exercise(e) for e in record.exercises],
    }  # fmt: skip


def _exercise(result: ExerciseResult) -> dict[str, Any]:
    speed = result.performance
    return {
        "id": result.id, "status": str(result.status), "score": number(result.score), "max_score": number(result.max_score),
        "pending": number(result.pending), "file": result.file, "sha256": result.sha256,
        "checks": [
            {
                "name": c.name, "status": str(c.status), "score": number(c.score), "max_score": number(c.max_score),
                "examples": c.examples, "message": c.message, "hint": c.hint, "counterexample": _finite(c.counterexample),
                "replay": c.replay,
            }
            for c in result.checks
        ],
        "performance": {
            "status": str(speed.status), "ratio": _finite(speed.ratio), "low": _finite(speed.low), "high": _finite(speed.high),
            "threshold": speed.threshold, "stretch": speed.stretch, "baseline": speed.baseline,
            "cases": [
                {
                    "shape": c.shape, "dtype": c.dtype, "time_ms": c.time_ms, "baseline_ms": c.baseline_ms, "ratio": c.ratio,
                    "roofline": c.roofline,
                }
                for c in speed.cases
            ],
            "message": speed.message,
        },
    }  # fmt: skip

"""Views are pure functions of the record: the document and the terminal page of a record made by hand."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

from harness.record import CheckResult, ExerciseResult, PerformanceResult, Record, TimedCase, document, number
from harness.status import Performance, Status
from harness.views import document as document_view
from harness.views import terminal

GOLDEN = Path(__file__).parent / "golden"
POINT = Decimal(1)


def record() -> Record:
    """Every status, a failure with all that a failure can show, a speed measured and one not measured."""
    failed = CheckResult(
        "ragged", Status.FAILED, Decimal("2.5"), 7,
        "output is wrong at [16]: expected 1.5, got nan (bound 1e-07); 1 of 17 elements are wrong",
        "only the end of the last dimension is wrong: look at the mask of the last block",
        {"part": "ragged", "arguments": {"x": "float32[17], contiguous", "n": 3}, "wrong": "1 of 17",
         "first_error": {"index": [16], "expected": "1.5", "got": float("nan")}, "map": ["................x"]},
        "grade ch07.matmul --device cpu --seed 7", 0.25, 0.1, "one\ntwo\n",
    )  # fmt: skip
    words = [
        CheckResult(str(s), s, POINT, message=f"it ended as {s}")
        for s in Status
        if s not in (Status.PASSED, Status.FAILED, Status.NOT_RUN, Status.NOT_STARTED)
    ]
    whole = ExerciseResult(
        "ch07.softmax", Status.PASSED, "exercises/ch07/softmax.py", "ab" * 32,
        (CheckResult("aligned", Status.PASSED, Decimal("12.5"), 24, duration_s=1.0),),
        PerformanceResult(
            Performance.PASSED, Decimal(3), Decimal(3), Decimal(0), 1.0449, 1.02, 1.06, 0.9, 1.1, "torch.softmax",
            (TimedCase("x float32[8192, 8192]", "float32", 0.125, 0.13, 1.04, 0.93),), "",
        ),
    )  # fmt: skip
    broken = ExerciseResult(
        "ch07.matmul", Status.FAILED, "exercises/ch07/matmul.py", "cd" * 32,
        (
            CheckResult("compiles", Status.PASSED, POINT, 6), CheckResult("aligned", Status.PASSED, POINT, 24), failed, *words,
            CheckResult("dtypes", Status.NOT_RUN, POINT, message='needs "ragged", which did not pass (failed)'),
        ),
        PerformanceResult(Performance.NOT_MEASURED, Decimal(4), pending=Decimal(4), threshold=0.9, baseline="torch.matmul",
                          message="speed is measured on a GPU"),
    )  # fmt: skip
    untouched = ExerciseResult(
        "ch07.stub", Status.NOT_STARTED, "exercises/ch07/stub.py", "ef" * 32,
        (CheckResult("aligned", Status.NOT_STARTED, POINT, message="the stub is untouched"),),
        PerformanceResult(Performance.NOT_NEEDED),
    )  # fmt: skip
    environment = {"gpu": None, "driver": None, "torch": "2.11.0", "triton": "3.7.0", "python": "3.12.1", "sandbox": "landlock"}
    return Record("a-course", "ch07", "interpreted", 7, 12.345, environment, (whole, broken, untouched))


def page(of: Record) -> str:
    out = io.StringIO()
    Console(file=out, width=80, color_system=None, force_terminal=False).print(terminal.render(of))
    return out.getvalue()


def hold(name: str, text: str) -> None:
    """Compare with the golden file; with GOLDEN=write in the environment, write it instead."""
    path = GOLDEN / name
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_the_share_of_the_time_in_which_the_gpu_was_locked_is_printed():
    timed = replace(record(), locked_s=3.0, evidence="gpu-timed")
    assert "12.3 s, in 3.0 s of which (24%) timing had the GPU alone" in " ".join(page(timed).split())


def test_the_document():
    hold("result.json", document_view.render(record()))


def test_the_terminal_page():
    text = page(record())
    hold("terminal.txt", text)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "\x1b" not in text


def test_the_document_is_json_that_every_reader_takes():
    def refuse(name):
        raise AssertionError(name)

    assert json.loads(document_view.render(record()), parse_constant=refuse)["schema"] == "grade/result/v1"


def graded(*checks: CheckResult, speed: PerformanceResult | None = None) -> Record:
    performance = speed or PerformanceResult(Performance.NOT_NEEDED)
    status = Status.PASSED if all(c.status is Status.PASSED for c in checks) else Status.FAILED
    return Record("c", "t", "interpreted", 1, 0.0, {}, (ExerciseResult("ch01.x", status, "x.py", "", checks, performance),))


@pytest.mark.parametrize(
    ("points", "total"),
    [(["12.5"] * 7, 87.5), (["0.1"] * 10, 1), (["33.333"] * 3, 100.0), (["0.005"], 0), (["0.015"], 0.02), ([], 0)],
)
def test_scores_add_up(points, total):
    result = document(graded(*(CheckResult(f"c{i}", Status.PASSED, Decimal(p)) for i, p in enumerate(points))))
    assert result["score"] == result["max_score"] == result["exercises"][0]["score"] == total


def test_zero_is_a_score():
    result = document(graded(CheckResult("a", Status.FAILED, Decimal(2)), CheckResult("b", Status.PASSED, Decimal(0))))
    assert (result["score"], result["max_score"]) == (0, 2)
    assert [c["score"] for c in result["exercises"][0]["checks"]] == [0, 0]


def test_only_a_proven_pass_earns_points():
    assert {s for s in Status if CheckResult("c", s, POINT).score} == {Status.PASSED}


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["passed", "passed"], 0), (["passed", "failed"], 1), (["not started"], 1), (["timed out", "error"], 3), (["error"], 3)],
)
def test_exit_codes(statuses, code):
    assert graded(*(CheckResult(f"c{i}", Status(s), POINT) for i, s in enumerate(statuses))).exit_code == code


def test_pending_points_are_neither_earned_nor_lost():
    speed = PerformanceResult(Performance.NOT_MEASURED, Decimal(3), pending=Decimal(3))
    result = document(graded(CheckResult("a", Status.PASSED, POINT), speed=speed))
    assert (result["score"], result["pending"], result["max_score"]) == (1, 3, 4)


def test_a_clock_that_failed_is_not_taken_for_a_missing_gpu():
    pending = PerformanceResult(Performance.NOT_MEASURED, Decimal(3), pending=Decimal(3), threshold=0.9)
    speed = replace(pending, message="no driver", fault=True)
    of = replace(graded(CheckResult("a", Status.PASSED, POINT), speed=speed), evidence="gpu-timed")
    assert of.exit_code == 3
    shown = " ".join(page(of).split())
    assert "no driver" in shown and "3 pending (the clock failed)" in shown


@pytest.mark.parametrize(
    ("value", "shown"), [("84", 84), ("84.0", 84), ("4.000000001", 4), ("1.005", 1), ("1.015", 1.02), ("-0", 0)]
)
def test_numbers_are_rounded_once(value, shown):
    got = number(Decimal(value))
    assert got == shown and type(got) is type(shown)

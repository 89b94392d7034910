"""How a check runs: what it draws follows from its seed alone; when its time is up it ends, and not badly."""

from __future__ import annotations

import importlib
import sys
import time
from decimal import Decimal
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest

from harness.examiner import check as checking
from harness.examiner import trial
from harness.grading.grader import Check, Part
from harness.record import CheckResult
from harness.status import Status


@pytest.mark.parametrize("draws", [0, 1, 3])
def test_a_slow_part_whose_time_is_up_has_not_failed(draws):
    """However many draws an example makes: it may end before the first one."""

    def body(trial):
        for _ in range(draws):
            trial.draw(st.integers(0, 9))
        time.sleep(0.02)

    lab = SimpleNamespace(gpu=False)
    failure, ran = checking.run_part(lab, Check("ragged", ()), Part("slow", body), 500, 1, time.monotonic() + 0.1)
    assert failure is None
    assert 1 <= ran < 50


def test_a_part_whose_time_was_up_before_it_began_runs_one_example():
    seen = []
    lab = SimpleNamespace(gpu=False)
    part = Part("late", lambda trial: seen.append(trial.draw(st.integers(0, 9))))
    failure, ran = checking.run_part(lab, Check("ragged", ()), part, 500, 1, time.monotonic() - 1)
    assert (failure, ran, len(seen)) == (None, 1, 1)


def test_what_is_drawn_does_not_depend_on_the_modules_that_are_loaded(tmp_path, monkeypatch):
    """Hypothesis reads numbers out of the sources of a person's own modules; a replay has others loaded than the run."""

    def drawn():
        seen = []
        part = Part("numbers", lambda trial: seen.append(trial.draw(st.integers(-(10**6), 10**6))))
        lab = SimpleNamespace(gpu=False)
        checking.run_part(lab, Check("ragged", ()), part, 400, 1, time.monotonic() + 60)
        return seen

    first = drawn()
    numbers = range(70_000, 71_000)
    (tmp_path / "a_module_of_numbers.py").write_text(f"NUMBERS = {list(numbers)}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("a_module_of_numbers")
    try:
        assert drawn() == first
    finally:
        sys.modules.pop("a_module_of_numbers")
    assert not set(first) & set(numbers)


EVIDENCE = {
    "launches": 1, "kernels": [], "refused": [], "damage": [], "changed": [], "stale": None, "tuned": [["k", 2, "c"]],
}  # fmt: skip
ANSWER = {"status": "ok", "value": None, "facts": {}, "evidence": EVIDENCE}


def _trial(answer):
    grader = SimpleNamespace(readable=(), in_place=(), moves="allowed", kernels=True, overflow=False)
    lab = SimpleNamespace(
        grader=grader, exercise=SimpleNamespace(limits=SimpleNamespace(call_s=1.0)), ask=lambda *_: answer, gpu=False
    )
    return trial.Trial(lab, lambda strategy: None, "part")


def _call(answer):
    one = _trial(answer)
    one.call(1)
    return one.tuned


WRONG_EVIDENCE = ({"tuned": [["k"]]}, {"tuned": [["k", "many", ""]]}, {"launches": "7"}, {"damage": [3]}, {"stale": 1})
WRONG_ANSWERS = ({"evidence": None}, {"evidence": {}}, {"facts": 3}, {"facts": {"": {}}})


@pytest.mark.parametrize("change", [*WRONG_ANSWERS, *({"evidence": EVIDENCE | change} for change in WRONG_EVIDENCE)])
def test_an_answer_of_another_form_is_the_submissions_fault(change):
    """The worker is the submission's process: what it sends that no harness would is refused, not a fault of ours."""
    assert _call(ANSWER) == [("k", 2, "c")]
    with pytest.raises(trial.Wrong, match="not an answer") as found:
        _call({**ANSWER, **change})
    assert found.value.status is Status.REFUSED


@pytest.mark.parametrize("change", [{"evidence": None}, {"evidence": {}}, {"evidence": {"refused": [3]}}, {"value": ...}])
def test_so_is_one_to_a_driver(change):
    assert _trial(ANSWER).drive("", "") is None
    with pytest.raises(trial.Wrong, match="not an answer"):
        _trial({key: value for key, value in {**ANSWER, **change}.items() if value is not ...}).drive("", "")


def in_pieces(seconds, most, *shares):
    check = Check("strided", tuple(Part("one", print, share=share) for share in shares))
    pieces = checking.split(check, seconds, most)
    assert [part for piece in pieces for part in check.parts[piece.start : piece.stop]] == list(check.parts)
    return [len(piece) for piece in pieces]


@pytest.mark.parametrize(
    ("seconds", "most", "shares", "pieces"),
    [
        (1.0, 4, [1] * 9, [9]), (7.9, 4, [1] * 9, [3, 2, 2, 2]), (99.0, 4, [1] * 3, [1, 1, 1]), (99.0, 2, [1] * 8, [4, 4]),
        (0.0, 4, [1] * 9, [3, 3, 3]), (0.0, 4, [1] * 4, [4]), (4.0, 4, [4, 1, 1, 1, 1], [1, 4]), (9.0, 4, [1], [1]),
        (float("nan"), 4, [1] * 4, [4]), (float("inf"), 4, [1] * 8, [4, 4]), (-5.0, 4, [1] * 4, [4]),
    ],
)  # fmt: skip
def test_a_long_check_is_split_into_pieces(seconds, most, shares, pieces):
    assert in_pieces(seconds, most, *shares) == pieces


def piece(status, examples, **more):
    return CheckResult("strided", Status(status), Decimal(2), examples, duration_s=1.5, margin=examples / 10, **more)


def test_pieces_that_passed_are_a_check_that_has():
    loud = piece("passed", 4, message="much was printed", output="b")
    found = checking.joined([piece("passed", 3, output="a"), loud, piece("passed", 5)])
    assert (found.status, found.examples, found.message, found.output) == (Status.PASSED, 12, "much was printed", "ab")
    assert (found.duration_s, found.margin, found.score) == (4.5, 0.5, 2)


def test_the_first_piece_in_order_that_failed_is_the_verdict():
    """As if they had run one after the other, whichever of them ended first."""
    wrong = {"counterexample": {"part": "transposed"}, "replay": "grade"}
    first, second = piece("failed", 4, message="here", **wrong), piece("error", 5, message="there")
    found = checking.joined([piece("passed", 3), piece("not run", 0), first, second])
    assert (found.status, found.examples, found.message) == (Status.FAILED, 7, "here")
    assert (found.counterexample, found.replay) == (wrong["counterexample"], "grade")
    left_out = piece("not run", 0, message="left out")
    assert checking.joined([piece("passed", 3), left_out, piece("passed", 1)]).message == "left out"


def printed(part):
    def body(trial):
        part.append(trial.draw(st.integers(0, 99)))

    return body


def test_pieces_draw_what_the_whole_check_draws():
    """So that a replay of the check finds what a piece of it has found."""
    names = [f"p{i}" for i in range(6)]
    lab = SimpleNamespace(gpu=False, worker=None, margin=0.0, drop=lambda: None)
    lab.exercise = SimpleNamespace(id="ch02.vec_add", limits=SimpleNamespace(check_s=60.0))
    setting = checking.Setting(7, 20, False, "grade ch02.vec_add", 1.0)

    def drawn(*pieces):
        seen = {name: [] for name in names}
        check = Check("strided", tuple(Part(name, printed(seen[name])) for name in names))
        found = [checking.run(lab, check, Decimal(1), setting, "", piece) for piece in pieces]
        return seen, sum(one.examples for one in found)

    whole = drawn(None)
    assert drawn(range(2), range(2, 3), range(3, 6)) == whole
    assert all(whole[0].values())

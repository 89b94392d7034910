"""How a check runs: what it draws follows from its seed alone; when its time is up it ends, and not badly."""

from __future__ import annotations

import importlib
import sys
import time
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest

from harness.examiner import check as checking
from harness.examiner import trial
from harness.grading.grader import Check, Part
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

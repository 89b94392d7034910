"""How a check runs: when its time is up it ends, and not badly."""

from __future__ import annotations

import time
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest

from harness.examiner import check as checking
from harness.grading.grader import Check, Part


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

"""How a check runs: taken apart for several workers it is the same check; when its time is up it ends, and not badly."""

from __future__ import annotations

import time
from decimal import Decimal
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest

from harness.examiner import check as checking
from harness.grading.grader import Check, Part
from harness.record import CheckResult
from harness.status import Status

POINTS = Decimal(2)


def parts(count):
    return tuple(Part(f"part {i}", lambda trial: None) for i in range(count))


@pytest.mark.parametrize("count", [1, 2, 5, 13])
@pytest.mark.parametrize(("examples", "scale"), [(40, 1.0), (40, 0.05), (400, 1.0), (1, 1.0)])
def test_lanes_are_the_check(count, examples, scale):
    whole = Check("ragged", parts(count), ("aligned",), scale)
    lanes = checking.lanes(whole, examples)
    assert sorted(p.name for lane in lanes for p in lane.parts) == sorted(p.name for p in whole.parts)
    assert {(lane.name, lane.needs) for lane in lanes} == {("ragged", ("aligned",))}
    for lane in lanes:  # each part gets as many examples as it would have
        assert lane.examples / len(lane.parts) == pytest.approx(whole.examples / count)
    assert len(lanes) == min(count, max(1, -(-int(examples * scale) // checking.LANE)))


def result(status, part="", examples=3):
    return CheckResult("ragged", status, POINTS, examples, counterexample={"part": part} if part else {}, margin=0.1 * examples)


def test_all_lanes_passed():
    found = checking.joined(Check("ragged", parts(2)), [result(Status.PASSED), result(Status.PASSED, examples=4)])
    assert (found.status, found.examples, found.score) == (Status.PASSED, 7, POINTS)
    assert found.margin == pytest.approx(0.4)


def test_the_failure_in_the_earliest_part_is_shown():
    lanes = [result(Status.FAILED, "part 3"), result(Status.PASSED), result(Status.CRASHED, "part 1")]
    found = checking.joined(Check("ragged", parts(5)), lanes)
    assert (found.status, found.counterexample, found.examples, found.score) == (Status.CRASHED, {"part": "part 1"}, 9, 0)


def test_a_lane_that_could_not_run_is_never_a_pass():
    found = checking.joined(Check("ragged", parts(5)), [result(Status.PASSED), result(Status.ERROR)])
    assert found.status is Status.ERROR


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

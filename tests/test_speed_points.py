"""A verdict as it stands in the record: points between floor and threshold, what is said of thrown pairs."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
import torch

from harness.examiner.timing import scored
from harness.grading import case, normal_data
from harness.record import PerformanceResult
from harness.status import Performance
from harness.timing.verdict import Interval, Pair, Verdict

CASE = case("torch.add", torch.add, x=normal_data(4, dtype=torch.float16), y=normal_data(4))
BASE = PerformanceResult(Performance.INVALID, Decimal(4), threshold=0.8, stretch=0.95, baseline="torch.add")


def result(status, ratio, low, high, **more):
    found = Verdict(status, Interval(ratio, low, high), (Interval(ratio, low, high),), 32, **more)
    return scored(BASE, found, 0.4, [CASE], [[Pair(2.0, 2.0 * ratio)] * 3], [1.5])


def test_a_pass_earns_all_and_shows_its_cases():
    found = result(Performance.PASSED, 0.91234, 0.905, 0.92)
    assert (found.status, found.score, found.message) == (Performance.PASSED, Decimal(4), "")
    assert (found.ratio, found.low, found.high) == (0.9123, 0.905, 0.92)
    (timed,) = found.cases
    assert (timed.dtype, timed.time_ms, timed.baseline_ms) == ("float16", 2.0, pytest.approx(1.82468))
    assert timed.roofline == 0.75


def test_a_pass_earns_all_even_where_its_middle_rounds_below():
    assert result(Performance.PASSED, 0.8, 0.8, 0.8).score == 4


@pytest.mark.parametrize(("ratio", "score"), [(0.6, "2"), (0.7, "3"), (0.4, "0"), (0.2, "0")])
def test_a_failure_earns_its_share(ratio, score):
    found = result(Performance.FAILED, ratio, ratio - 0.001, ratio + 0.001)
    assert found.score == Decimal(score)
    assert found.message == f"{ratio:.2f} of torch.add's speed; 0.8 are needed"


@pytest.mark.parametrize(("ratio", "score"), [(0.81, "4"), (0.79, "3.9")])
def test_an_open_verdict_is_scored_as_its_estimate_and_says_so(ratio, score):
    found = result(Performance.INCONCLUSIVE, ratio, 0.78, 0.82, message="between 0.780 and 0.820")
    assert found.score == Decimal(score)
    assert found.message == "between 0.780 and 0.820; scored as its estimate"


def test_what_was_thrown_out_is_said():
    found = result(Performance.PASSED, 0.9, 0.89, 0.91, thrown=Counter({"it was too hot": 3}))
    assert found.message == "3 of 32 pairs thrown out: it was too hot"

"""The clock's orchestration on simulated devices: what a timed submission may do, and what becomes of it."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from harness import course as courses
from harness import data
from harness.examiner import timing
from harness.examiner.run import grader_of
from harness.examiner.trial import Wrong
from harness.grading import case, normal_data
from harness.grading.grader import TensorGrader
from harness.status import Performance
from harness.timing.roofline import Peaks
from harness.timing.verdict import LOOKS, Conditions

CPU = torch.device("cpu")
COURSE = courses.load(Path(__file__).parents[1] / "course.toml")
(EXERCISE,) = COURSE.select(("ch02.vec_add",))
SLOW = Peaks(1e6, {}, 0)  # a device of 1 MB/s: 3 x 256 bytes take .77 ms at its roofline, .64 ms at its floor


class Lab:
    """A worker that is not there: `times` gives the milliseconds of each timed call, `function` its output."""

    def __init__(self, times, function=torch.add):
        self.exercise, self.grader, self.margin = EXERCISE, grader_of(COURSE, EXERCISE), 0.0
        self.grader.benchmarks = (case("torch.add", torch.add, x=normal_data(64), y=normal_data(64)),)
        self.times, self.function = iter(times), function
        self.worker = SimpleNamespace(pid=1)
        self.asked, self.dropped, self.addresses = [], False, []

    def ask(self, request, limit_s):
        self.asked.append(request["op"])
        if request["op"] == "prime":
            return {"status": "ok"}
        if request["op"] == "sample":
            self.args = data.arguments(request["case"], request["seed"], CPU)
            self.timed = self.function(*self.args)
            return {"status": "ok", "ms": next(self.times)}
        index = request["index"] % self.timed.numel()
        return {"status": "ok", "values": [self.timed.reshape(-1)[index]], "shapes": [list(self.timed.shape)]}

    def drop(self):
        self.dropped = True


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """A device whose baseline takes a millisecond, give or take .2 %."""
    rng = np.random.default_rng(1)

    def call(function, args, flush):
        return function(*args), 1.0 * math.exp(0.002 * rng.standard_normal())

    gauge = SimpleNamespace(read=lambda own: Conditions(clock=1980))
    monkeypatch.setattr(timing.clock, "call", call)
    monkeypatch.setattr(timing, "_flush_bytes", lambda device: 64)
    monkeypatch.setattr(timing, "Gauge", lambda *args: gauge)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1"))
    return gauge


def steady(milliseconds, seed=2):
    rng = np.random.default_rng(seed)
    while True:
        yield float(milliseconds * math.exp(0.002 * rng.standard_normal()))


def judged(lab, failed=None, peaks=SLOW):
    assert isinstance(lab.grader, TensorGrader)
    return timing.judge(lab, CPU, failed, peaks)


def test_a_right_and_fast_submission_passes():
    lab = Lab(steady(1.05))
    found = judged(lab)
    assert (found.status, found.score, found.message) == (Performance.PASSED, 3, "")
    assert found.low < 1 / 1.05 < found.high and found.high / found.low < 1.01
    assert found.cases[0].roofline == pytest.approx(0.768 / 1.05, abs=0.01)
    assert lab.dropped
    assert lab.asked[0] == "prime"  # tuned again, on a quiet device
    assert lab.asked.count("sample") == LOOKS[0] + 2
    assert lab.asked.count("peek") == LOOKS[0] / timing.CHECK_EVERY


def test_a_slow_one_fails_and_keeps_part_of_the_points():
    found = judged(Lab(steady(1.5)))
    assert found.status is Performance.FAILED
    assert 0 < found.score < 3
    assert "0.67 of torch.add's speed; 0.9 are needed" in found.message


def test_wrong_outputs_of_timed_calls_are_no_speed():
    """Wrong in all calls but the first few, which a check that comes once only would look at."""
    calls = itertools.count()
    found = judged(Lab(steady(0.7), lambda x, y: x + y if next(calls) < 4 else torch.zeros_like(x)))
    assert (found.status, found.score) == (Performance.INVALID, 0)
    assert "a timed call's output is wrong" in found.message


def test_an_output_kept_from_an_earlier_call_is_wrong():
    kept = []

    def cached(x, y):
        kept.append(x + y)
        return kept[0]

    assert judged(Lab(steady(0.7), cached)).status is Performance.INVALID


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan, math.inf, "1.0", None])
def test_what_is_no_time_is_invalid(time):
    found = judged(Lab([1.0, 1.0, 1.0, time]))
    assert found.status is Performance.INVALID
    assert "no clock says so" in found.message


def test_a_time_below_the_floor_is_invalid():
    """One shape driven to nothing would be worth any number of others in a mean."""
    found = judged(Lab(steady(0.6)))
    assert found.status is Performance.INVALID
    assert "this device needs 0.64 ms at the least" in found.message


def test_what_failed_while_it_was_tuned_is_said():
    found = judged(Lab(steady(1.0)), failed=Wrong("no answer within 120 s"))
    assert (found.status, found.message) == (Performance.INVALID, "no answer within 120 s")


def test_a_neighbour_that_stays_leaves_the_verdict_open(device):
    device.read = lambda own: Conditions(clock=1980, foreign=1)
    found = judged(Lab(steady(1.05)))
    assert found.status is Performance.INCONCLUSIVE
    assert "another process was on the GPU (256 of 256 pairs)" in found.message
    assert found.score == 3  # scored as its estimate

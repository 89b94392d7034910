"""The clock's orchestration on simulated devices: what a timed submission may do, and what becomes of it."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from harness import course as courses
from harness import data, mailbox
from harness.examiner import timing
from harness.examiner.clocking import Clocking
from harness.examiner.graders import grader_of
from harness.examiner.timing import PLACES, PLACES_SHORT
from harness.examiner.trial import Wrong
from harness.examiner.warm import WorkerDied
from harness.grading import case, normal_data
from harness.grading.grader import TensorGrader
from harness.status import Performance, Status
from harness.timing.roofline import Peaks
from harness.timing.side import FEW, Side, few
from harness.timing.trace import Kernel
from harness.timing.verdict import LOOKS, Conditions

CPU = torch.device("cpu")
COURSE = courses.load(Path(__file__).parents[1] / "course.toml")
(EXERCISE,) = COURSE.select(("ch02.vec_add",))
SLOW = Peaks(1e6, {}, 0)  # a device of 1 MB/s: 3 x 256 bytes take .77 ms at its roofline, .64 ms at its floor


LEARNING = 4  # calls of the submission by which it is seen what kind its calls are
GOES_ON, HANGS = -1e9, -2e9  # of a time: the worker answers and goes on to other things; it does not answer
QUICK = Peaks(1e9, {}, 0)


class Lab:
    """A worker that is not there: `times` gives the milliseconds of each timed call, `function` its output, `kernels`
    what the profiler sees of a call, `outside` how long it takes by the examiner's clock (None: as long as it says)."""

    def __init__(self, times, function=torch.add, kernels=("add_kernel",), outside=None):
        self.exercise, self.grader, self.margin = EXERCISE, grader_of(COURSE, EXERCISE), 0.0
        self.grader.benchmarks = (case("torch.add", torch.add, x=normal_data(64), y=normal_data(64)),)
        self.times, self.function, self.kernels, self.outside = iter(times), function, kernels, outside
        page = mailbox.create()
        self.box = mailbox.Mailbox(os.dup(page))
        self.worker = SimpleNamespace(pid=1, mailbox=mailbox.Mailbox(page), late=self.late)
        self.ended = threading.Event()
        self.changes, self.samples = False, 0
        self.asked, self.dropped = [], False
        self.traced, self.elsewhere = None, []
        self.places = []

    def ask(self, request, limit_s, poll_s=None, meanwhile=None):
        self.asked.append(request["op"])
        if meanwhile is None:
            return {"status": "ok", **getattr(self, request["op"])(request)}
        self.box.clear()
        with ThreadPoolExecutor(1) as other:
            reply = other.submit(getattr(self, request["op"]), request)
            try:
                meanwhile(self.worker, reply.done)
            except WorkerDied as died:  # as in the real one
                raise Wrong(died.message, status=died.status) from None
        return {"status": "ok", **reply.result()}

    def late(self, limit_s):
        self.ended.set()
        return WorkerDied(Status.TIMED_OUT, f"no answer within {limit_s:g} s")

    def prime(self, request):
        return {}

    warm = prime

    def sample(self, request):
        self.places.append(request["places"])
        self.box.post(mailbox.READY)
        while self.box.wait(mailbox.GO, lambda: False) and (seed := self.box.data()):
            self.samples += 1
            self.outputs = [self.function(*data.arguments(request["case"], int.from_bytes(seed, "little"), CPU))]
            told = next(self.times)
            if self.traced is not None:
                self.traced.append([[name, 1, told / 2 / len(self.kernels)] for name in self.kernels])
            if told == GOES_ON:
                return {}
            if told == HANGS and self.ended.wait():
                return {}
            self.box.post(mailbox.DONE, told if isinstance(told, bytes) else struct.pack("<d", told))
        return {}

    def fill(self, request):
        self.filled = [data.arguments(request["case"], seed, CPU) for seed in request["seeds"]]
        return {}

    def burst(self, request):
        self.box.post(mailbox.READY)
        assert self.box.wait(mailbox.GO, lambda: False)
        self.outputs = [self.function(*args) for args in self.filled]
        self.box.post(mailbox.DONE)
        assert self.box.wait(mailbox.ASK, lambda: False)
        call, index = few(self.box.data())
        values = self.outputs[call].reshape(-1)[index % self.outputs[call].numel()]
        self.box.post(mailbox.ANSWER, bytes((values + self.changes).view(torch.uint8).numpy()))
        return {"queued_ms": 0.1}

    def trace(self, request):
        calls, self.traced = self.traced, [] if request["on"] else None
        return {} if request["on"] else {"calls": calls, "outside": self.elsewhere, "own": ["add_kernel"]}

    def peek(self, request):
        output = self.outputs[request["call"]]
        return {"values": [output.reshape(-1)[request["index"] % output.numel()]], "shapes": [list(output.shape)]}

    def drop(self):
        self.dropped = True


class Trace:
    """A profiler that sees half of a millisecond a call."""

    def __init__(self, folder):
        self.count = 0

    def harness(self):
        return contextlib.nullcontext()

    def call(self):
        self.count += 1
        return contextlib.nullcontext()

    def stop(self):
        return [[Kernel("base", 1, 0.5)]] * self.count, [Kernel("oracle", 1, 1.0)]


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """A device whose baseline takes a millisecond, give or take .2 %."""
    rng = np.random.default_rng(1)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # worker and examiner are threads here, and each looks at the page until the other speaks
    now = SimpleNamespace(ms=1.0, read=lambda own: Conditions(clock=1980), watching=True)

    def call(function, args, flush, before, around):
        with around() if around is not None else contextlib.nullcontext():
            return function(*args), now.ms * math.exp(0.002 * rng.standard_normal())

    class Slope:
        waited = False

        def __init__(self, side, inputs, counts):
            self.side, self.inputs, self.counts = side, inputs, counts

        def look(self, after=None):
            side = self.side
            if isinstance(side, Side):
                return 0.05 + (now.ms if self.inputs else 0.0)
            seeds = list(range(self.counts[1]))
            side.fill(self.inputs, seeds)
            side.clocked(1.0, 0, torch.arange(FEW))
            after(seeds)
            lab = side._lab
            return 0.05 + (next(lab.times) if lab.outside is None else lab.outside)

    monkeypatch.setattr(timing.witness, "Slope", Slope)
    monkeypatch.setattr("harness.timing.side.clock.call", call)
    monkeypatch.setattr("harness.timing.side.Trace", Trace)
    monkeypatch.setattr(timing, "_profiler_starts", lambda: True)
    monkeypatch.setattr(timing, "_flush_bytes", lambda device: 64)
    monkeypatch.setattr(timing, "Gauge", lambda *args: now)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 30, 1 << 31))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1"))
    yield now
    sys.setswitchinterval(switch)


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
    looks = lab.asked.count("trace") // 2  # in each of them one call is traced
    assert lab.samples == LOOKS[looks - 1] + LEARNING + PLACES + looks
    assert looks * (timing.CHECKS + 1) + 1 <= lab.asked.count("peek") <= looks * (timing.CHECKS + 1) + 2


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


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan, math.inf, b"1.0", b""])
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
    assert f"another process was on the GPU ({LOOKS[-1]} of {LOOKS[-1]} pairs)" in found.message
    assert found.score == 3  # scored as its estimate


def test_short_calls_are_timed_by_the_trace(device):
    """Whose times are half of what the events say here, for both."""
    device.ms = 0.09
    lab = Lab(steady(1.0), outside=0.5)
    found = judged(lab, peaks=Peaks(1e7, {}, 0))
    assert found.status is Performance.PASSED
    assert (found.cases[0].time_ms, found.cases[0].baseline_ms) == (pytest.approx(0.5, rel=0.01), 0.5)
    assert lab.asked.count("trace") == 2  # the pairs of one look


def test_a_case_keeps_its_clock(device):
    """At .1 ms or about it, through several looks at several cases: all of its pairs have the times of one clock."""
    lab = Lab(itertools.chain([0.11] * 2 * (32 + LEARNING + 1 + PLACES), itertools.repeat(0.09)))
    device.ms = 0.2
    lab.grader.benchmarks *= 2
    watch = timing.Stopwatch(lab, CPU, Peaks(1e8, {}, 0))
    for turns in (range(32), range(32, 64), range(64, 128)):
        for number in range(2):
            watch(number, turns)
    for number in range(2):
        assert not any(pair.theirs == 0.5 for pair in watch.pairs[number])


def test_long_calls_are_timed_by_events():
    lab = Lab(steady(1.05))
    assert judged(lab).cases[0].time_ms == pytest.approx(1.05, rel=0.01)
    assert lab.asked.count("trace") in (2, 4)  # begun and ended: for one call in each look


@pytest.mark.parametrize(("ms", "fitting", "places"), [(1.0, 99, PLACES), (0.09, 99, PLACES_SHORT), (0.09, 5, 5), (0.09, 0, 1)])
def test_calls_lie_in_many_places(device, monkeypatch, ms, fitting, places):
    """Where its tensors lie makes a call faster or slower, by up to 2 %, and a process keeps its few places."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (timing.OF_FREE_MEMORY * fitting * 3 * 256, 1 << 31))
    device.ms = ms
    lab = Lab(steady(ms))
    assert judged(lab, peaks=QUICK).status is Performance.PASSED
    assert set(lab.places[LEARNING:]) == {places}  # after it was seen what kind of call it is


def test_so_many_calls_are_held():
    side = Side(torch.add, CPU, 64)
    (case,) = Lab(()).grader.benchmarks
    side.places = 3
    lie = []
    for seed in range(12):
        side.sample(case.inputs, seed)
        lie.append({t.data_ptr() for t in (*side._args[0], *side.outputs)})
    for n in range(len(lie) - 3):
        assert not lie[n + 3] & set().union(*lie[n : n + 3])


@pytest.mark.parametrize("honest", [LEARNING + PLACES, 30])
def test_a_library_that_takes_over_later_is_seen(monkeypatch, honest):
    monkeypatch.setattr(timing.secrets, "randbelow", lambda n: n - 1)  # the look comes last
    lab = Lab(steady(1.0))
    sample = lab.sample

    def changing(request):
        if lab.samples >= honest:
            lab.kernels = ("sm90_gemm_cublas",)
        return sample(request)

    lab.sample = changing
    assert judged(lab).message == "refused: a library's kernel computes: sm90_gemm_cublas, 100% of the GPU's time"


@pytest.mark.parametrize("ms", [1.0, 0.09])
def test_who_is_right_on_normal_values_only_is_found(device, ms):
    device.ms = ms
    found = judged(Lab(steady(ms), lambda x, y: (x + y).clamp(-8, 8)), peaks=Peaks(1e7, {}, 1 << 20))
    assert found.status is Performance.INVALID
    assert "a timed call's output is wrong" in found.message


def test_every_short_call_is_looked_at(device):
    device.ms = 0.09
    lab = Lab(steady(1.0))
    sample = lab.sample

    def changing(request):
        lab.kernels = ("sm90_gemm_cublas",) if 100 < lab.samples < 200 else ("add_kernel",)
        return sample(request)

    lab.sample = changing
    assert "a library's kernel computes: sm90_gemm_cublas" in judged(lab, peaks=Peaks(1e7, {}, 1 << 20)).message


def test_a_time_that_does_not_agree_with_the_wall_clock_is_invalid():
    found = judged(Lab(steady(0.8), outside=1.6))
    assert (found.status, found.score) == (Performance.INVALID, 0)
    assert re.match(r"a call took 0\.\d+ ms by the clock in the submission.s process and 1\.6 ms seen", found.message)


def test_what_is_fast_enough_from_outside_too_passes_with_that_ratio():
    """Whatever made the two clocks disagree, none of it is the submission's to set."""
    found = judged(Lab(steady(0.5), outside=0.7), peaks=QUICK)
    assert (found.status, found.score, found.ratio) == (Performance.PASSED, 3, pytest.approx(1 / 0.7, rel=0.01))
    assert (found.cases[0].time_ms, found.cases[0].ratio) == (pytest.approx(0.7), found.ratio)
    assert re.match(r"a call took 0\.\d+ ms .* and 0\.7 ms seen from outside of it, which counts", found.message)


def test_a_slow_submission_is_asked_for_no_second_clock():
    found = judged(lab := Lab(steady(2.0), outside=4.0))
    assert found.status is Performance.FAILED
    assert "burst" not in lab.asked


def test_a_call_that_looks_shorter_from_outside_is_its_own_affair():
    assert judged(Lab(steady(1.05), outside=0.8)).status is Performance.PASSED


def test_wrong_outputs_in_a_burst_are_seen():
    """A call that knows when nobody takes its time by events."""
    calls = itertools.count()
    found = judged(Lab(steady(1.0), lambda x, y: x + y if next(calls) < LOOKS[0] + LEARNING + PLACES else torch.zeros_like(x)))
    assert found.status is Performance.INVALID
    assert "output is wrong" in found.message


def test_a_worker_that_goes_on_to_other_things_is_invalid():
    found = judged(Lab(itertools.chain([1.0] * 9, [GOES_ON])))
    assert (found.status, found.message) == (Performance.INVALID, "the worker ended the timed calls")


def test_a_timed_call_that_does_not_end_is_ended():
    lab = Lab(itertools.chain([1.0] * 9, [HANGS]))
    lab.exercise = replace(EXERCISE, limits=replace(EXERCISE.limits, call_s=0.2))
    found = judged(lab)
    assert (found.status, found.message) == (Performance.INVALID, "no answer within 0.2 s")
    assert lab.samples == 10


def test_a_burst_that_is_called_over_before_its_outputs_are_there_is_seen():
    lab = Lab(steady(1.0))
    lab.changes = True  # what is read afterwards is not what was told
    found = judged(lab)
    assert found.status is Performance.INVALID
    assert found.message == "a burst of timed calls ended before its outputs were there"


def test_a_burst_that_never_begins_is_no_reason_to_wait(monkeypatch):
    monkeypatch.setattr(Lab, "burst", lambda self, request: {"queued_ms": 0.1})
    found = judged(Lab(steady(1.0)))
    assert found.status is Performance.INVALID
    assert found.message == "a burst of timed calls ended before its outputs were there"


def test_a_library_that_does_the_work_is_refused():
    found = judged(Lab(steady(1.0), kernels=("add_kernel", "at::native::elementwise_kernel<4, at::CUDAFunctor_add>")))
    assert (found.status, found.score) == (Performance.INVALID, 0)
    assert found.message == "refused: a library's kernel computes: at::native::elementwise_kernel, 50% of the GPU's time"


def test_one_is_told_when_copies_take_the_time():
    found = judged(Lab(steady(1.0), kernels=("add_kernel", "direct_copy_kernel_cuda")))
    assert found.status is Performance.PASSED
    assert found.message == "your kernels take 50% of the GPU's time, torch's copies and fills the rest"


def test_kernels_beside_the_calls_are_refused():
    lab = Lab(steady(1.0))
    lab.elsewhere = [["side_kernel", 1, 1.0]]
    found = judged(lab)
    assert found.status is Performance.INVALID
    assert found.message == "refused: a kernel ran outside of the timed calls: side_kernel"


ROWS = [["add_kernel"], ["add_kernel", "once", 1.0], *(["add_kernel", 1, ms] for ms in (-1.0, math.nan, math.inf, "1"))]


@pytest.mark.parametrize("rows", [None, 7, *([[row]] for row in ROWS)])
def test_a_trace_that_is_none_is_invalid(rows):
    lab = Lab(steady(1.0))
    lab.trace = lambda request: {} if request["on"] else {"calls": rows, "outside": [], "own": []}
    found = judged(lab)
    assert (found.status, found.message) == (Performance.INVALID, "the worker sent a trace that is none")


def test_a_trace_of_other_calls_is_invalid():
    lab = Lab(steady(1.0))
    lab.trace = lambda request: {} if request["on"] else {"calls": [], "outside": [], "own": []}
    found = judged(lab)
    assert found.status is Performance.INVALID
    assert found.message == "the worker sent a trace of 0 calls, and 1 were asked for"


def test_a_trace_ends_when_a_timed_call_fails(device, monkeypatch):
    """This process goes on to time the next exercise."""
    device.ms = 0.09
    stopped = []
    monkeypatch.setattr(Trace, "stop", lambda self: stopped.append(self.count) or ([[Kernel("base", 1, 0.5)]] * self.count, []))
    found = judged(Lab(itertools.chain([1.0] * (LEARNING + PLACES_SHORT), [math.nan])), peaks=Peaks(1e7, {}, 0))
    assert found.status is Performance.INVALID
    assert len(stopped) == 2


def test_short_calls_without_a_kernel_are_invalid(device):
    device.ms = 0.09
    lab = Lab(steady(1.0), kernels=())
    found = judged(lab, peaks=Peaks(1e7, {}, 1 << 20))
    assert (found.status, found.message) == (Performance.INVALID, "refused: no kernel of the submission ran in a timed call")


def test_a_baseline_that_the_trace_does_not_see_is_timed_by_events(device, monkeypatch):
    device.ms = 0.09
    monkeypatch.setattr(Trace, "stop", lambda self: ([[]] * self.count, []))
    found = judged(Lab(steady(0.09)), peaks=Peaks(1e8, {}, 0))
    assert found.cases[0].baseline_ms == pytest.approx(0.09, rel=0.01)


@pytest.mark.parametrize("answer", [None, [1.0], [torch.zeros(3)], []])
def test_outputs_that_are_none_are_invalid(answer):
    lab = Lab(steady(1.0))
    lab.peek = lambda request: {"values": answer, "shapes": [[64]]}
    assert judged(lab).status is Performance.INVALID


def test_an_output_of_another_dtype_is_wrong():
    """Half the bytes to write, and a bound that would be wider by as much."""
    found = judged(Lab(steady(0.8), lambda x, y: (x + y).half()))
    assert (found.status, found.message) == (Performance.INVALID, "a timed call returned float16[64]")


def test_without_a_profiler_or_nvml_the_verdict_says_so(device, monkeypatch):
    monkeypatch.setattr(timing, "_profiler_starts", lambda: False)
    device.watching = False
    lab = Lab(steady(1.05))
    found = judged(lab)
    assert found.status is Performance.PASSED
    assert found.message == f"{timing.UNWATCHED}; {timing.UNTRACED}"
    assert "trace" not in lab.asked


def excerpts():
    for exercise in COURSE.exercises():
        grader = grader_of(COURSE, exercise)
        own = isinstance(grader, TensorGrader) and type(grader).excerpt is not TensorGrader.excerpt
        if grader.benchmarks and (own or getattr(grader, "pointwise", False)):
            yield pytest.param(grader, id=exercise.id)


@pytest.mark.parametrize("grader", list(excerpts()))
def test_an_excerpt_is_part_of_the_whole(grader):
    rng = np.random.default_rng(1)
    small = {n: {**v, "shape": [n_ // 32 + 3 for n_ in v["shape"]]} for n, v in grader.benchmarks[0].inputs.items()}
    args = dict(zip(small, data.arguments(small, 1, CPU), strict=True))
    part, index = grader.excerpt(lambda n, count: torch.from_numpy(rng.permutation(n)[:count].copy()), **args)
    whole = grader.oracle(**args).reshape(-1)
    assert len(index.unique()) == len(index) <= len(whole)
    torch.testing.assert_close(grader.oracle(**part).reshape(-1), whole[index])


def product(lab):
    """A lab for matmul on small factors."""
    (lab.exercise,) = COURSE.select(("ch07.matmul",))
    lab.grader = grader_of(COURSE, lab.exercise)
    lab.grader.benchmarks = (case("torch.matmul", torch.matmul, a=normal_data(200, 64), b=normal_data(64, 136)),)
    return lab


def test_a_product_is_checked_by_rows_and_columns():
    assert judged(product(Lab(steady(1.0), torch.matmul)), peaks=QUICK).status is Performance.PASSED


@pytest.mark.parametrize("broken", [lambda a, b: a @ b * 1.001, lambda a, b: (a @ b)[:, :128], lambda a, b: b.t() @ a.t()])
def test_a_wrong_product_is_seen(broken):
    found = judged(product(Lab(steady(1.0), broken)), peaks=QUICK)
    assert found.status is Performance.INVALID
    assert re.search(r"output is wrong|a timed call returned float32\[", found.message)


def test_every_case_is_tuned_before_the_clock():
    lab, asked = Lab(steady(1.0)), []
    lab.grader.benchmarks += (case("torch.add", torch.add, x=normal_data(96), y=normal_data(96)),)
    lab.prime = lambda request: asked.append(request["case"]) or {}
    timing.Stopwatch(lab, CPU, SLOW)
    assert asked == [case.inputs for case in lab.grader.benchmarks]


@pytest.mark.parametrize("compiled", [False, True])
def test_what_an_earlier_run_has_compiled_is_not_compiled_beside_the_checks(monkeypatch, compiled):
    started = []
    lab = Lab(steady(1.0))
    lab.start = lambda: started.append("worker")
    monkeypatch.setattr(timing, "Side", lambda *args: SimpleNamespace(sample=lambda *_: 1.0, give_back=lambda: None))
    timing.prepare(lab, CPU, compiled=compiled)
    assert (lab.asked, started) == ([] if compiled else ["prime"], ["worker"])


@pytest.mark.parametrize("fails", ["nothing", "prepare", "warm up"])
def test_what_failed_before_the_clock_is_the_verdict(fails):
    lab, early = Lab(steady(1.0)), Wrong("the tuner found no configuration")

    def ended(request):
        raise Wrong("the process ended", status=Status.CRASHED)

    if fails == "warm up":
        lab.warm = ended
    prepared = SimpleNamespace(exception=lambda: early if fails == "prepare" else None)
    job = SimpleNamespace(lab=lab, prepared=prepared, exercise=EXERCISE)
    clocking = Clocking(SimpleNamespace(sharing=contextlib.nullcontext))
    found = clocking.judged(job, CPU, clocking.warm_up(job, CPU), SLOW)
    expected = {"nothing": (Performance.PASSED, ""), "prepare": (Performance.INVALID, str(early))}
    assert (found.status, found.message) == expected.get(fails, (Performance.INVALID, "the process ended"))


def test_a_fault_of_the_harness_costs_no_points_and_no_run(monkeypatch):
    def broken(*args):
        raise ZeroDivisionError("in the clock")

    monkeypatch.setattr(timing, "judge", broken)
    lab = Lab(steady(1.0))
    job = SimpleNamespace(lab=lab, exercise=EXERCISE, grader=lab.grader)
    found = Clocking(SimpleNamespace()).judged(job, CPU, None, SLOW)
    assert (found.status, found.score, found.pending) == (Performance.NOT_MEASURED, 0, found.max_score)
    assert found.message.startswith("the harness failed:") and "in the clock" in found.message
    assert found.fault and found.threshold == EXERCISE.threshold

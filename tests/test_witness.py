"""The clock's witnesses without a GPU: the examiner's own clock on simulated devices, the profiler's trace as it is written."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.examiner import witness
from harness.timing import provenance, trace
from harness.timing.trace import Kernel

FLUSH_MS = 0.056


class Device:
    """A worker's side on a simulated device. A call computes for `call_ms` and is launched in `launch_ms`; `waits`: it
    waits for the device before it launches. An answer comes .05 ms late, a few of them much later."""

    def __init__(self, call_ms, *, launch_ms=0.03, waits=False, seed=1):
        self.call_ms, self.launch_ms, self.waits = call_ms, launch_ms, waits
        self.rng, self.count, self.spins, self.seeds = np.random.default_rng(seed), 0, [], set()

    def fill(self, case, seeds):
        assert not self.seeds & set(seeds), "values that were timed before"
        self.seeds |= set(seeds)
        self.count = len(seeds)

    def clocked(self, spin_ms, number, index):
        assert number < self.count and len(index) == 16
        self.spins.append(spin_ms)
        host, device = 0.0, spin_ms
        for _ in range(self.count):
            if self.waits:
                host = max(host, device + FLUSH_MS)
                device = host
            else:
                device = max(device, host) + FLUSH_MS
            host += self.launch_ms
            device = max(device, host) + self.call_ms
        late = 0.05 + self.rng.exponential(0.02) + (3.0 if self.rng.random() < 0.2 else 0.0)
        return max(device, host) + late, host


@pytest.mark.parametrize("call_ms", [0.005, 0.034, 0.19, 1.4])
@pytest.mark.parametrize("launch_ms", [0.01, 0.08, 0.4])
def test_the_slope_is_the_time_of_a_call(call_ms, launch_ms):
    """However slowly calls are launched and answers come."""
    counts = witness.lengths(call_ms, 1 << 20, 1 << 34)
    own = witness.Slope(Device(call_ms, launch_ms=launch_ms), {}, counts)
    whole = own.look()
    cold = witness.Slope(Device(0.0), {}, counts).look()
    assert not own.waited
    assert whole - cold == pytest.approx(call_ms, rel=0.03, abs=0.0015)
    assert not witness.excess_ms(call_ms, whole - cold, 0.0, 1, own.waited)


@pytest.mark.parametrize("call_ms", [0.034, 0.19, 1.4])
def test_a_clock_that_was_set_back_is_seen(call_ms):
    counts = witness.lengths(call_ms, 1 << 20, 1 << 34)
    own = witness.Slope(Device(call_ms), {}, counts)
    for _ in range(witness.ATTEMPTS):  # however often one looks
        whole = own.look()
    assert witness.excess_ms(0.8 * call_ms, whole - FLUSH_MS, 0.0, 1, own.waited)


def test_a_host_that_is_late_now_and_then_is_no_offence():
    """Once the spin's length is settled, launches take longer than calls in every second burst."""
    device = Device(0.111, launch_ms=0.04)
    clocked, turns = device.clocked, itertools.count()

    def late(*asked):
        turn = next(turns)
        device.launch_ms = 0.4 if turn > 2 and turn % 2 else 0.04  # as it comes: in all longer bursts
        return clocked(*asked)

    device.clocked = late
    own = witness.Slope(device, {}, (6, 27))
    whole = own.look()
    assert not witness.excess_ms(0.111, whole - FLUSH_MS, 0.0, 1, own.waited)


def test_a_burst_that_is_queued_too_slowly_is_taken_again():
    device = Device(0.1)
    own = witness.Slope(device, {}, (2, 8))
    own.look()
    before = len(device.spins)
    device.launch_ms = 1.0  # from here on: 8 launches take longer than any spin that was found long enough
    own.look()
    assert len(device.spins) - before == witness.ROUNDS * 2 * witness.RETRIES


def test_what_the_baseline_seems_longer_a_submission_may():
    assert witness.excess_ms(0.0344, 0.0396, 0.0, 1, False)
    assert not witness.excess_ms(0.0344, 0.0396, 0.003, 1, False)


def test_a_call_that_waits_for_the_device_is_given_the_time_of_a_launch():
    device = Device(0.5, waits=True)
    own = witness.Slope(device, {}, (1, 4))
    whole = own.look()
    assert own.waited
    assert max(device.spins) == witness.MOST_SPIN_MS and device.spins[-1] == 1.0  # tried, then given up
    assert not witness.excess_ms(0.5, whole - FLUSH_MS, 0.0, 1, own.waited)
    assert witness.excess_ms(0.2, whole - FLUSH_MS, 0.0, 1, own.waited)


def test_one_of_the_longer_bursts_is_looked_at():
    looked = []
    witness.Slope(Device(0.1), {}, (2, 8)).look(looked.append)
    assert [len(seeds) for seeds in looked] == [8]


@pytest.mark.parametrize("call_ms", [0.001, 0.1, 5.0, 1000.0])
@pytest.mark.parametrize("case_bytes", [1, 1 << 30, 1 << 40])
def test_bursts_fit(call_ms, case_bytes):
    shorter, longer = witness.lengths(call_ms, case_bytes, 8 << 30)
    assert 1 <= shorter < longer <= witness.LONGEST
    assert longer * case_bytes <= 8 << 30 or longer == 2


def node(name, ns=None, children=(), count=1):
    metrics = {} if ns is None else {"count": count, "time (ns)": ns, "device_id": "0", "device_type": "CUDA"}
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}


def tree(*children):
    return [node("ROOT", 0, children, count=0), {"CUDA": {}}]


def test_a_trace_is_read_call_by_call():
    scope = node("a scope of the student's own", None, [node("add_kernel", 500)])
    document = tree(
        node("harness", None, [node("fill", 9e6)]),
        node("call 1", None, [node("add_kernel", 2000, count=2), scope]),
        node("call 0", None, [node("gelu_kernel", 1000)]),
    )
    calls, outside = trace.read(document, 3)
    assert calls == [[Kernel("gelu_kernel", 1, 0.001)], [Kernel("add_kernel", 2, 0.002), Kernel("add_kernel", 1, 0.0005)], []]
    assert outside == []
    assert trace.total_ms(calls[1]) == pytest.approx(0.0025)


def test_kernels_outside_of_calls_are_told_apart_from_the_harness():
    """Also kernels with the names of the harness' scopes."""
    document = tree(node("side_kernel", 5), node("call 0", 7), node("harness", 9), node("call 0", None, [node("add_kernel", 1)]))
    calls, outside = trace.read(document, 1)
    assert [k.name for k in outside] == ["side_kernel", "call 0", "harness"]
    assert [k.name for k in calls[0]] == ["add_kernel"]


RELU = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_49_GLOBAL__N__d2ba64fb_16_TensorCompare_cu_71e06f4e19launch_clamp_"
    "scalarERNS_18TensorIteratorBaseEN3c106ScalarES6_NS0_6detail11ClampLimitsEENKUlvE_clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EEEEv"
    "iT0_T1_"
)
COPY = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)"
CUBLAS = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"


def kernels(*names):
    return [Kernel(name, 1, ms) for name, ms in zip(names, itertools.count(1.0), strict=False)]


@pytest.mark.parametrize("names", [["add_kernel"], [COPY, "add_kernel"], [FILL, "add_kernel", "finish"]])
def test_own_kernels_and_copies_are_no_offence(names):
    assert provenance.offence([kernels(*names)], {"add_kernel", "finish"}) == ""


@pytest.mark.parametrize(("name", "plain"), [(RELU, "at::native::vectorized_elementwise_kernel"), (CUBLAS, CUBLAS)])
def test_a_library_that_computes_is_named(name, plain):
    found = provenance.offence([kernels("add_kernel"), kernels("add_kernel", name)], {"add_kernel"})
    assert found == f"a library's kernel computes: {plain}, 67% of the GPU's time"


@pytest.mark.parametrize("names", [[], [COPY], [FILL]])
def test_a_call_without_a_kernel_of_the_submission(names):
    assert provenance.offence([kernels("add_kernel"), kernels(*names)], {"add_kernel"}) == (
        "no kernel of the submission ran in a timed call"
    )


def test_where_the_copy_is_the_exercise_torch_may_not_copy():
    found = provenance.offence([kernels(FILL, COPY, "add_kernel")], {"add_kernel"}, copies=False)
    assert found == "a library's kernel copies: at::native::unrolled_elementwise_kernel, 33% of the GPU's time"
    assert provenance.offence([kernels(FILL, "add_kernel")], {"add_kernel"}, copies=False) == ""


def test_the_share_of_the_own_kernels():
    assert provenance.share(kernels("add_kernel", COPY, "finish"), {"add_kernel", "finish"}) == pytest.approx(4 / 6)
    assert provenance.share([], {"add_kernel"}) == 1.0

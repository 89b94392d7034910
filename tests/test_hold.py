"""What the clock itself does on a GPU, where there is one: `python -m pytest tests/test_hold.py --device cuda`."""

from __future__ import annotations

import time

import pytest
import torch

from harness.examiner import machine
from harness.grading import case, normal_data
from harness.timing.lock import DeviceLock
from harness.timing.side import Side

SHORT_MS = 0.1


@pytest.fixture
def gpu(device):
    if not device.startswith("cuda"):
        pytest.skip("the clock runs on a GPU only: --device cuda")
    with DeviceLock(machine.device_name(device)).alone():
        yield torch.device("cuda", torch.device(device).index or 0)


def side(function, gpu):
    return Side(function, gpu, 1 << 24), case("none", torch.neg, x=normal_data(1 << 20)).inputs


def late(x):
    """The host takes a millisecond, the device some microseconds."""
    time.sleep(0.001)
    return -x


def waiting(x):
    return -x * x.sum().item()


def test_what_the_host_takes_is_in_no_time(gpu):
    slow, inputs = side(late, gpu)
    times = sorted(slow.sample(inputs, seed) for seed in range(20))
    assert times[10] < SHORT_MS


def test_a_call_that_waits_for_the_device_ends(gpu):
    """The device goes on by itself; the next call is held like any other."""
    waits, inputs = side(waiting, gpu)
    slow, _ = side(late, gpu)
    for seed in range(3):
        waits.sample(inputs, seed)
        started = time.monotonic()
        waits.sample(inputs, seed)
        assert time.monotonic() - started < 0.1
        slow.sample(inputs, seed)
    assert sorted(slow.sample(inputs, seed) for seed in range(20))[10] < SHORT_MS


def test_nothing_runs_while_the_device_is_held(gpu):
    """Not on another stream either: what is launched there before the start is marked is in the time."""
    other, x = torch.cuda.Stream(gpu), torch.ones(1 << 28, device=gpu)  # 2 GiB to move, half a millisecond

    def beside(y):
        with torch.cuda.stream(other):
            x.neg_()
        time.sleep(0.001)
        return -y

    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):
        begun.record()
        x.neg_()
        ended.record()
    torch.cuda.synchronize()
    busy, inputs = side(beside, gpu)
    assert min(busy.sample(inputs, seed) for seed in range(10)) > 0.8 * begun.elapsed_time(ended)

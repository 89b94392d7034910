"""The lock of a GPU: sharers side by side, a clock alone, and no clock kept waiting by those who come after it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import pytest

from harness.errors import MachineError
from harness.timing.lock import DeviceLock


class Log:
    """Who came and went, in order."""

    def __init__(self):
        self.events, self.inside, self._lock = [], set(), threading.Lock()

    def enter(self, name):
        with self._lock:
            self.inside.add(name)
            self.events.append((name, frozenset(self.inside)))

    def leave(self, name):
        with self._lock:
            self.inside.discard(name)


def started(target):
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def user(lock, log, name, how, release, entered=None):
    def run():
        with getattr(lock, how)():
            log.enter(name)
            if entered:
                entered.set()
            release.wait(10)
            log.leave(name)

    return run


def test_sharers_overlap_and_a_clock_is_alone(tmp_path):
    log, go = Log(), threading.Event()
    lock = DeviceLock("GPU-1", tmp_path)
    came = [threading.Event() for _ in range(3)]
    sharers = [started(user(lock, log, f"check {i}", "shared", go, came[i])) for i in range(3)]
    assert all(e.wait(5) for e in came)  # all three at once, since none leaves before `go`
    clock = started(user(lock, log, "clock", "alone", go))
    time.sleep(0.1)
    assert "clock" not in log.inside
    go.set()
    for thread in (*sharers, clock):
        thread.join(5)
    assert log.events[-1] == ("clock", {"clock"})
    assert lock.waited_s >= 0.1


def test_who_comes_after_a_waiting_clock_waits_for_it(tmp_path):
    log, first_may_go, rest = Log(), threading.Event(), threading.Event()
    lock, other = DeviceLock("GPU-1", tmp_path), DeviceLock("GPU-1", tmp_path)  # two runs, one GPU
    came = threading.Event()
    first = started(user(lock, log, "first", "shared", first_may_go, came))
    assert came.wait(5)
    rest.set()
    clock = started(user(lock, log, "clock", "alone", rest))
    time.sleep(0.1)
    late = started(user(other, log, "late", "shared", rest))
    time.sleep(0.1)
    assert log.inside == {"first"}
    first_may_go.set()
    for thread in (first, clock, late):
        thread.join(5)
    assert [name for name, _ in log.events] == ["first", "clock", "late"]


def test_gpus_do_not_wait_for_each_other(tmp_path):
    log, go = Log(), threading.Event()
    came = [threading.Event(), threading.Event()]
    both = [
        started(user(DeviceLock(f"GPU-{i}", tmp_path), log, f"clock {i}", "alone", go, came[i])) for i in range(2)
    ]
    assert all(e.wait(5) for e in came)
    go.set()
    for thread in both:
        thread.join(5)


def _hold_for_ever(folder, ready):
    with DeviceLock("GPU-1", folder).alone():
        ready.set()
        time.sleep(60)


def test_a_killed_holder_leaves_no_lock(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_hold_for_ever, args=(tmp_path, ready))
    holder.start()
    assert ready.wait(20)
    os.kill(holder.pid, signal.SIGKILL)
    holder.join(5)
    done = threading.Event()
    free = started(user(DeviceLock("GPU-1", tmp_path), Log(), "clock", "alone", done, entered := threading.Event()))
    assert entered.wait(5)
    done.set()
    free.join(5)


def test_a_link_in_its_place_is_refused(tmp_path):
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / "grade-GPU-1.gate").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MachineError, match="locks the GPU"), DeviceLock("GPU-1", tmp_path).alone():
        pass
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_the_time_alone_is_counted(tmp_path):
    lock = DeviceLock("GPU/1", tmp_path)
    with lock.shared():
        time.sleep(0.02)
    assert lock.locked_s == 0
    with lock.alone():
        time.sleep(0.05)
    assert 0.05 <= lock.locked_s < 0.5

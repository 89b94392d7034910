"""Checks run in forks of the examiner: they answer, they end with it, and what becomes of one is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import progress_store
from harness.examiner import check as checking
from harness.examiner import compiling
from harness.examiner import judges as judging
from harness.examiner.judges import Judges
from harness.examiner.run import DURATIONS, Options, Run
from harness.grading.grader import Check, Part
from harness.sandbox import watch
from harness.status import Status


@pytest.fixture
def judges():
    made = []

    def make(work, count, last=int):
        made.append(Judges(work, count, last))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_judges_are_other_processes_that_have_what_this_one_has(judges):
    secret = object()  # which cannot be pickled

    def work(number):
        time.sleep(0.05)
        return number, id(secret), os.getpid()

    pool = judges(work, 3)
    found = [future.result() for future in [pool.submit(n) for n in range(9)]]
    assert [(number, known) for number, known, _ in found] == [(n, id(secret)) for n in range(9)]
    assert os.getpid() not in {pid for *_, pid in found} and len({pid for *_, pid in found}) == 3


def test_an_interrupt_is_not_theirs(judges):
    assert judges(lambda: os.kill(os.getpid(), signal.SIGINT) or "goes on", 1).submit().result() == "goes on"


def test_an_interrupt_while_they_are_made_leaves_none(monkeypatch):
    made = []

    class Interrupted(judging.ProcessPoolExecutor):
        def submit(self, *args):
            made.append(self)
            os.kill(os.getpid(), signal.SIGINT)
            return super().submit(*args)

    monkeypatch.setattr(judging, "ProcessPoolExecutor", Interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            Judges(os.getpid, 2, int)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(RuntimeError, match="after shutdown"):
        ProcessPoolExecutor.submit(made[0], os.getpid)


def test_a_judge_that_ends_does_its_last_first(judges, tmp_path):
    pool = judges(os.getpid, 2, lambda: (tmp_path / str(os.getpid())).touch())
    pids = {pool.submit().result() for _ in range(8)}
    pool.close()
    assert {str(pid) for pid in pids} <= {path.name for path in tmp_path.iterdir()}


def test_a_judge_that_is_killed_is_told_of(judges):
    pool = judges(lambda: os.kill(os.getpid(), signal.SIGKILL), 2)
    future = pool.submit()
    with pytest.raises(BrokenProcessPool):
        future.result(timeout=10)


def test_the_check_of_a_judge_that_was_killed_is_the_machines_fault():
    future: Future[object] = Future()
    future.set_exception(BrokenProcessPool("gone"))
    job = SimpleNamespace(exercise=SimpleNamespace(points={"ragged": "2"}))
    found = Run._outcome(SimpleNamespace(), job, "ragged", future)
    assert (found.status, found.score) == (Status.ERROR, 0)
    assert "judge of this check was ended" in found.message


MAKER = """
import os, time
from harness import progress_store
from harness.examiner import judges as judging
from harness.examiner.judges import Judges
def work():
    time.sleep(0.2)
    return os.getpid()
judges = Judges(work, 2, int)
futures = [judges.submit() for _ in range(4)]
print(*{f.result() for f in futures}, flush=True)
time.sleep(60)
"""


def test_judges_end_with_the_process_that_made_them():
    with subprocess.Popen([sys.executable, "-c", MAKER], stdout=subprocess.PIPE, text=True) as maker:
        pids = [int(word) for word in maker.stdout.readline().split()]
        assert len(pids) == 2 and all(watch.running(pid) for pid in pids)
        maker.kill()
    deadline = time.monotonic() + 10
    while any(watch.running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(watch.running(pid) for pid in pids)


def _order(root):
    """In which order the checks of two exercises are handed to judges."""

    def job(name, *parts):
        needs = [[], *[[f"{name}0"]] * len(parts)]
        checks = [Check(f"{name}{i}", (Part("one", print),) * n, tuple(needs[i])) for i, n in enumerate(parts)]
        return SimpleNamespace(exercise=SimpleNamespace(id=name), checks=checks, needed={f"{name}0"})

    run = SimpleNamespace(
        course=SimpleNamespace(root=root), _wanted=lambda job: [c.name for c in job.checks if c.name != "b3"],
        options=SimpleNamespace(judges=6),
    )
    order = []
    Run._start_all(
        run, [job("a", 1, 2, 9), job("b", 1, 3, 1, 50)], lambda job, check, piece: order.append((check.name, len(piece)))
    )
    return order


def test_what_others_need_goes_first_and_then_what_took_long(tmp_path):
    assert _order(tmp_path) == [("b0", 1), ("a0", 1), ("a2", 5), ("a2", 4), ("b1", 3), ("a1", 2), ("b2", 1)]
    progress_store.write(tmp_path, DURATIONS, {"a": {"a0": 9.0, "a1": 5.0, "a2": 0.5}, "b": {"b0": 0.1, "b1": 1, "b2": "long"}})
    assert _order(tmp_path) == [("a0", 1), ("b0", 1), ("a1", 1), ("a1", 1), ("b1", 3), ("a2", 9), ("b2", 1)]


REFERENCE = Path(__file__).parents[1] / "reference" / "ch02_triton_syntax" / "vec_add.py"


def _graded(grade, file):
    outcome = grade("ch02.vec_add", "--from", str(file), "--device", "cpu", "--examples", "6", "--seed", "3")
    return outcome.code, outcome.document["exercises"][0]["checks"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""), ("y_line = y.contiguous()", "y_line = y"), ("inside = offsets < n", "inside = offsets < n - 1"),
        ("BLOCK = 2048", "1 / 0"),
    ],
)  # fmt: skip
def test_a_check_in_pieces_says_what_it_says_as_a_whole(grade, monkeypatch, tmp_path, old, new):
    """As on a GPU, where judges share a long check; and the replay, which may run it whole, finds the same."""
    file = tmp_path / "vec_add.py"
    file.write_text(REFERENCE.read_text("utf-8").replace(old, new, 1) if old else REFERENCE.read_text("utf-8"), "utf-8")
    whole = _graded(grade, file)
    pieces = []
    plain = Run._start_all

    def start(self, job, submit):
        if not job.started - {compiling.CHECK}:
            plain(self, [job], lambda *asked: pieces.append(asked[2]) or submit(*asked))

    monkeypatch.setattr(Run, "_start_ready", start)
    monkeypatch.setattr(Options, "judges", 6)
    monkeypatch.setattr(checking, "PIECE_PARTS", 1)
    shared = _graded(grade, file)
    assert len(pieces) > len(whole[1])
    assert shared == whole

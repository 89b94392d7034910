"""The worker seen from outside: memory, processes, scratch, and its end."""

import contextlib
import mmap
import os
import select
import time
from pathlib import Path

from harness import sandbox
from harness.sandbox import watch

from .conftest import Place, Worker


def until(wanted: str, guard: sandbox.Watch, seconds: float = 5.0) -> str:
    """The first breach; fails when none comes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = guard.breach()
        if found:
            assert found.startswith(wanted), found
            return found
        time.sleep(0.02)
    raise AssertionError(f"no breach of '{wanted}'")


def end(warden: int, reader: int) -> None:
    assert sandbox.kill_tree(warden)
    os.waitpid(warden, 0)
    with open(reader, "rb") as pipe:
        assert select.select([pipe], [], [], 10.0)[0], "somebody still holds the other end"
        assert pipe.read() == b""


def test_memory_shows(worker: Worker) -> None:
    def work() -> None:
        kept = bytearray(64 << 20)
        time.sleep(20)
        del kept

    warden, reader = worker.start(work)
    until("out of memory", sandbox.Watch(warden, 32 << 20, worker.place.scratch, 1 << 20))
    end(warden, reader)


def test_shared_mappings_show(worker: Worker) -> None:
    def work() -> None:
        with mmap.mmap(-1, 64 << 20) as memory:
            for place in range(0, 64 << 20, 4096):
                memory[place] = 1
            time.sleep(20)

    warden, reader = worker.start(work)
    until("out of memory", sandbox.Watch(warden, 32 << 20, worker.place.scratch, 1 << 20))
    end(warden, reader)


def test_memory_of_children_shows(worker: Worker) -> None:
    def work() -> None:
        for _ in range(4):
            if os.fork() == 0:
                kept = bytearray(16 << 20)
                time.sleep(20)
                del kept
        time.sleep(20)

    warden, reader = worker.start(work)
    until("out of memory", sandbox.Watch(warden, 40 << 20, worker.place.scratch, 1 << 20))
    end(warden, reader)


def test_memory_that_is_only_shared_is_no_breach(place: Place) -> None:
    """What a fork shares with its parent is counted once, where it can be read.

    256 MiB in four processes; what this process itself weighs is shared too and counted in part, hence the room.
    """
    here = Worker("root" if os.geteuid() == 0 else "plain", False, place)
    ready, told = os.pipe()

    def work() -> None:
        kept = bytearray(os.urandom(1)) * (256 << 20)
        for _ in range(3):
            if os.fork() == 0:
                time.sleep(20)
        os.write(told, b"1")
        time.sleep(20)
        del kept

    warden, reader = here.start(work, data_bytes=512 << 20)
    guard = sandbox.Watch(warden, 640 << 20, place.scratch, 1 << 20)
    assert select.select([ready], [], [], 20.0)[0], "the worker could not hold what it was to share"
    for _ in range(5):
        found = guard.breach()
        assert found is None or not _readable(warden), found
        time.sleep(0.02)
    end(warden, reader)
    os.close(ready)
    os.close(told)


def _readable(pid: int) -> bool:
    return watch._proportional(pid) is not None


def test_a_full_scratch_folder_shows(worker: Worker) -> None:
    def work() -> None:
        for index in range(8):
            Path(f"file{index}").write_bytes(os.urandom(1 << 20))
        time.sleep(20)

    warden, reader = worker.start(work)
    until("scratch folder over 4194304 bytes", sandbox.Watch(warden, 1 << 30, worker.place.scratch, 4 << 20))
    end(warden, reader)


def test_many_empty_files_show(place: Place) -> None:
    for index in range(300):
        (place.scratch / str(index)).touch()
    assert watch.size_of(place.scratch, 1 << 20) > 1 << 20
    assert sandbox.Watch(os.getpid(), 1 << 40, place.scratch, 1 << 20).breach() is not None


def test_no_breach_by_a_quiet_worker(worker: Worker) -> None:
    warden, reader = worker.start(lambda: time.sleep(20))
    guard = sandbox.Watch(warden, 32 << 20, worker.place.scratch, 1 << 20, processes=3)
    for _ in range(5):
        assert guard.breach() is None
        time.sleep(0.02)
    end(warden, reader)
    assert guard.breach() is None  # nobody is left to breach anything


def bomb() -> None:
    """Forks as fast as it can, in every process; children leave their parents."""
    while True:
        try:
            if os.fork() == 0 and os.fork() != 0:
                os._exit(0)
        except OSError:
            time.sleep(0.001)


def test_a_fork_bomb_is_contained_and_ends(worker: Worker) -> None:
    warden, reader = worker.start(bomb)
    guard = sandbox.Watch(warden, 1 << 40, worker.place.scratch, 1 << 30, processes=20)
    try:
        until("more than 20 processes", guard)
        time.sleep(0.2)
        at_most = len(watch._tree(warden))
    finally:
        end(warden, reader)
    assert at_most <= (45 if worker.namespaces else 100)
    assert [p for p in watch._tree(warden) if p.state not in "ZX"] == []


def hop() -> None:
    """Each process lives for one fork only, so that a look at all processes seldom meets one twice."""
    hoppers = 0
    while hoppers < 12:
        with contextlib.suppress(OSError):
            if os.fork() == 0:
                break
            hoppers += 1
    while hoppers < 12:
        with contextlib.suppress(OSError):
            if os.fork() != 0:
                os._exit(0)
    time.sleep(60)


def test_what_hops_from_process_to_process_ends(worker: Worker) -> None:
    warden, reader = worker.start(hop)
    time.sleep(0.3)
    end(warden, reader)


def test_the_end_of_one_worker_is_not_the_end_of_its_siblings() -> None:
    """Wardens are of the group of the process that forks them, which is nobody's to strike."""
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        os.setsid()
        for _ in range(2):
            warden = os.fork()
            if warden == 0:
                if os.fork() == 0:
                    os.setsid()
                    os.write(writer, b"1")
                time.sleep(60)
                os._exit(0)
        time.sleep(60)
        os._exit(0)
    assert os.read(reader, 1) + os.read(reader, 1) == b"11"
    wardens = [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    workers = [int(Path(f"/proc/{pid}/task/{pid}/children").read_text()) for pid in wardens]
    try:
        assert sandbox.kill_tree(wardens[0])
        alive = [watch.running(pid) for pid in (parent, wardens[0], workers[0], wardens[1], workers[1])]
        assert alive == [True, False, False, True, True]
    finally:
        assert sandbox.kill_tree(parent)
        os.waitpid(parent, 0)
        os.close(reader)
        os.close(writer)


def test_a_stopped_process_ends(worker: Worker) -> None:
    def work() -> None:
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
        os.kill(pid, 19)
        time.sleep(60)

    warden, reader = worker.start(work)
    time.sleep(0.1)
    end(warden, reader)


def test_an_ended_process_is_no_error() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert sandbox.kill_tree(pid)
    os.waitpid(pid, 0)
    assert sandbox.kill_tree(pid)

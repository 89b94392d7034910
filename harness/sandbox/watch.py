"""The worker seen from outside: how much it holds, and its end.

Everything is read from /proc, which works for any child of the same user and for root.
"""

import contextlib
import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

_SCRATCH_EVERY_S: Final = 0.2
_EVERYTHING_EVERY_S: Final = 0.5
_SHARE_OF_TIME: Final = 0.02  # what looking may take of one core,
_LONGEST_S: Final = 1.0  # but nobody looks away for longer: a folder of many files would be a place to fill the disk
_SMALLEST_FILE: Final = 4096  # an empty file takes an inode; many of them fill a disk too
_FREEZE_ROUNDS: Final = 50


@dataclass(frozen=True)
class _Process:
    """A line of /proc/PID/stat. `started` (clock ticks since boot) tells processes of one number apart."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int

    @property
    def ended(self) -> bool:
        return self.state in "ZX"


def _process(pid: int) -> _Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096).decode(errors="replace")
    except OSError:
        return None
    # The name is in brackets and may itself hold brackets and blanks.
    rest = text[text.rindex(")") + 2 :].split()
    return _Process(pid, rest[0], int(rest[1]), int(rest[2]), int(rest[3]), int(rest[19]))


def running(pid: int) -> bool:
    """Whether a process is there and has not ended; for one that is another process' child."""
    process = _process(pid)
    return process is not None and not process.ended


def _all() -> list[_Process]:
    names = [name for name in os.listdir("/proc") if name.isdigit()]
    return [process for name in names if (process := _process(int(name))) is not None]


def _tree(pid: int, processes: list[_Process] | None = None) -> list[_Process]:
    """The process, its descendants, and whatever is in a session that one of them leads, orphans too."""
    children: dict[int, list[_Process]] = {}
    sessions: dict[int, list[_Process]] = {}
    found: dict[int, _Process] = {}
    pending: list[_Process] = []
    for process in _all() if processes is None else processes:
        children.setdefault(process.parent, []).append(process)
        sessions.setdefault(process.session, []).append(process)
        if process.pid == pid:
            pending.append(process)
    pending += sessions.get(pid, [])
    while pending:
        process = pending.pop()
        if process.pid not in found:
            found[process.pid] = process
            pending += children.get(process.pid, [])
            pending += sessions.get(process.pid, [])
    return list(found.values())


def _below(pid: int) -> list[int] | None:
    """The process and its descendants, by the kernel's lists of children; None where it keeps none.

    Finds no orphan that went to another parent than the warden; `_tree` does.
    """
    found, pending = [], [pid]
    while pending:
        current = pending.pop()
        found.append(current)
        try:
            for task in os.listdir(f"/proc/{current}/task"):
                with contextlib.suppress(ProcessLookupError):
                    children = Path(f"/proc/{current}/task/{task}/children").read_text()
                    pending += map(int, children.split())
        except FileNotFoundError:
            if os.path.exists(f"/proc/{current}/task/{current}"):
                return None
        except ProcessLookupError:
            continue
    return found


def _kib(path: str, *fields: str) -> int:
    """The sum of fields of a /proc file, in bytes. Raises OSError."""
    total = 0
    for line in Path(path).read_text(errors="replace").splitlines():
        name, _, rest = line.partition(":")
        if name in fields:
            total += int(rest.split()[0]) * 1024
    return total


def _resident(pid: int) -> int:
    """Bytes of memory that is not backed by a file; pages still shared with the parent count. 0 when gone."""
    with contextlib.suppress(OSError):
        return _kib(f"/proc/{pid}/status", "RssAnon", "RssShmem")
    return 0


def _proportional(pid: int) -> int | None:
    """The same with shared pages divided among those who share them; dearer, None where not readable."""
    try:
        return _kib(f"/proc/{pid}/smaps_rollup", "Pss_Anon", "Pss_Shmem")
    except OSError:
        return None


def size_of(folder: Path, stop: int) -> int:
    """Bytes that a folder takes on the disk, links not followed; ends early once over `stop`."""
    total = 0
    pending = [os.fspath(folder)]
    while pending and total <= stop:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    total += max(entry.stat(follow_symlinks=False).st_blocks * 512, _SMALLEST_FILE)
                if total > stop:
                    break
    return total


_T = TypeVar("_T")


class _Look(Generic[_T]):
    """A look at something that many watches share: taken anew when it is `every_s` old, more rarely where it takes
    long, but once a second at the least."""

    def __init__(self, look: Callable[[], _T], every_s: float) -> None:
        self._look, self._every_s = look, every_s
        self._lock = threading.Lock()
        self._next = -math.inf
        self._seen: _T | None = None

    def __call__(self) -> _T:
        with self._lock:
            started = time.monotonic()
            if started >= self._next or self._seen is None:
                self._seen = self._look()
                took = time.monotonic() - started
                self._next = started + max(self._every_s, min(took / _SHARE_OF_TIME, _LONGEST_S))
            return self._seen


_everything = _Look(_all, _EVERYTHING_EVERY_S)
_folders: dict[Path, _Look[int]] = {}


def _size_shared(folder: Path, stop: int) -> int:
    """`size_of`, one look for all the workers that write there."""
    look = _folders.get(folder)
    if look is None:
        for gone in [f for f in list(_folders) if not f.exists()]:
            _folders.pop(gone, None)
        look = _folders.setdefault(folder, _Look(lambda: size_of(folder, stop), _SCRATCH_EVERY_S))
    return look()


class Watch:
    """Looks at a worker (or its warden) and all that it started, from the moment this is made.

    memory_bytes: growth of memory since then. scratch_bytes: size of the scratch folder. processes: how many
    processes, where a limit of the kernel cannot say (root with programs to start); None for no limit.
    """

    def __init__(
        self, pid: int, memory_bytes: int, scratch: Path, scratch_bytes: int, processes: int | None = None
    ) -> None:
        self._pid, self._memory, self._scratch, self._bytes = pid, memory_bytes, scratch, scratch_bytes
        self._processes = processes
        # A fork starts with all of its parent's pages; every descendant does, so each is given the same
        # start.
        self._start = _resident(pid)
        self._start_proportional = _proportional(pid) or 0
        self._next_everything = 0.0

    def breach(self) -> str | None:
        """What is over its limit, in words, or None. The scratch folder is looked at 5 times a second, or down to once
        where there is much in it."""
        pids = self._pids()
        if self._processes is not None and len(pids) > self._processes:
            return f"more than {self._processes} processes"
        held = sum(max(0, _resident(pid) - self._start) for pid in pids)
        if held > self._memory:
            held = self._exactly(pids, held)
        if held > self._memory:
            return f"out of memory: {held / 2**20:.0f} MiB held, {self._memory / 2**20:.0f} MiB allowed"
        if _size_shared(self._scratch, self._bytes) > self._bytes:
            return f"scratch folder over {self._bytes} bytes"
        return None

    def _pids(self) -> list[int]:
        """The living processes of the tree; a look at all processes of the machine now and then only."""
        now = time.monotonic()
        if now < self._next_everything:
            below = _below(self._pid)
            if below is not None:
                return below
        self._next_everything = now + _EVERYTHING_EVERY_S
        return [process.pid for process in _tree(self._pid, _everything()) if process.state != "Z"]

    def _exactly(self, pids: list[int], at_most: int) -> int:
        """Counts pages that forks share once; `at_most` where that cannot be read."""
        if len(pids) == 1:
            return at_most
        shares = [_proportional(pid) for pid in pids]
        if any(share is None and _process(pid) is not None for share, pid in zip(shares, pids, strict=True)):
            return at_most
        return min(at_most, sum(share or 0 for share in shares) - self._start_proportional)


def _signal(process: _Process, number: int) -> None:
    """Signals exactly this process: never one that got its number since."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = _process(process.pid)
        if now is not None and now.started == process.started:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def _ended(process: _Process) -> bool:
    now = _process(process.pid)
    return now is None or now.started != process.started or now.ended


class Ending:
    """A process and all that it started, struck with SIGKILL: none of them runs another instruction of its own, but the
    kernel may take long to put them away (a GPU's context, half a second)."""

    def __init__(self, pid: int, targets: list[_Process], mine: set[int], closed: bool) -> None:
        self._pid, self._targets, self._mine, self._closed = pid, targets, mine, closed

    def wait(self, timeout_s: float = 5.0) -> bool:
        """Until all have ended, also what was orphaned since; whether that was in time. Takes no exit status itself."""
        deadline = time.monotonic() + timeout_s
        while True:
            # Once all that was found was stopped and nothing more was found, nothing is left that could start another.
            late = [] if self._closed else [p for p in _tree(self._pid) if p.pid not in self._mine and not p.ended]
            alive = [p for p in self._targets if not _ended(p)]
            if not late and not alive:
                return True
            if time.monotonic() > deadline:
                return False
            for process in (*late, *alive):
                _signal(process, signal.SIGKILL)
            select.select([], [], [], 0.002)


def _kill_groups(groups: set[int]) -> None:
    """A look takes time: what forks and ends at once can hop from process to process behind it. A whole group is struck
    in one step of the kernel, no fork between, and a caged process cannot leave its own (setsid, setpgid: refused)."""
    for group in groups:
        if group <= 1:  # of a process that is just going, or of another namespace
            continue
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)


def strike(pid: int) -> Ending:
    """Ends a process and all that it started; does not wait for it, unless something may have escaped.

    For a process whose exit status nobody has taken yet, so that its number is still its own. Everything is stopped
    first, so that nothing forks away between the look and the blow.
    """
    mine = {os.getpid(), os.getppid()}
    targets: dict[int, _Process] = {}
    closed = False
    for _ in range(_FREEZE_ROUNDS):
        new = [p for p in _tree(pid) if p.pid not in targets and p.pid not in mine and not p.ended]
        if not new:
            closed = True
            break
        for process in new:
            targets[process.pid] = process
            _signal(process, signal.SIGSTOP)
    for process in targets.values():
        _signal(process, signal.SIGKILL)
    # A warden is of the group of the warm parent that forked it, as are the wardens of all its other workers.
    joined = {targets[pid].group} - {pid} if pid in targets else set()
    _kill_groups({p.group for p in targets.values()} - joined - {os.getpgrp(), *(p.group for p in map(_process, mine) if p)})
    ending = Ending(pid, list(targets.values()), mine, closed)
    if not closed:
        ending.wait()
    return ending


def kill_tree(pid: int, timeout_s: float = 5.0) -> bool:
    """`strike`, and wait for it; whether all had ended in time."""
    return strike(pid).wait(timeout_s)

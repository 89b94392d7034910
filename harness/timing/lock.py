"""Timing has a GPU alone: checks of any run on the machine share it, a clock that runs has it to itself.

Two files a GPU, locked with flock, which the kernel takes back when a process ends, however it ends. Whoever wants the
GPU passes the gate first; a clock holds the gate while it waits for the checks that are under way, so that a stream of
new checks cannot keep it waiting.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness.errors import MachineError


class DeviceLock:
    """The lock of one GPU, by a name that all processes know it by. `locked_s`: how long this run had it alone."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        safe = re.sub(r"[^A-Za-z0-9-]", "-", name)
        base = folder or Path(tempfile.gettempdir())
        self._gate, self._device = (base / f"grade-{safe}.{part}" for part in ("gate", "lock"))
        self.locked_s = 0.0
        self.waited_s = 0.0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """For work that may run beside other work, and not beside a clock."""
        with contextlib.ExitStack() as stack:
            with _held(self._gate, fcntl.LOCK_EX):
                stack.enter_context(_held(self._device, fcntl.LOCK_SH))
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """For a clock."""
        asked = time.monotonic()
        with contextlib.ExitStack() as stack:
            with _held(self._gate, fcntl.LOCK_EX):
                stack.enter_context(_held(self._device, fcntl.LOCK_EX))
            got = time.monotonic()
            self.waited_s += got - asked
            try:
                yield
            finally:
                self.locked_s += time.monotonic() - got


@contextlib.contextmanager
def _held(path: Path, how: int) -> Iterator[None]:
    handle = _open(path)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)  # which unlocks it


def _open(path: Path) -> int:
    """The file, made where it is not there; a link in its place is not followed. Reading is enough for flock, so that
    a file of another user will do."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            handle = os.open(path, flags)
        except FileNotFoundError:  # only then: to create what another user has made is forbidden in /tmp
            handle = os.open(path, flags | os.O_CREAT, 0o644)
    except OSError as error:
        raise MachineError(f"{path} cannot be opened ({error.strerror}): it locks the GPU", "remove it") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise MachineError(f"{path} is no file: it locks the GPU", "remove it")
    return handle

"""A page of memory that the examiner and a timed worker share, for what must not wait for the kernel of the system.

Who waits for a message by socket sleeps, and is woken late: under some virtual machine monitors by .1 to .5 ms, the later
the longer it has slept, which is as long as ten calls of a short kernel. Here both sides look at the page until it says
what they wait for.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
from collections.abc import Callable

SIZE = 1 << 16
READY, GO, DONE, ASK, ANSWER = range(1, 6)  # the steps of timed calls: whoever waits for one is told by the other side
MILLISECONDS = struct.Struct("<d")  # the time of a call, as it is told
_LENGTH = slice(8, 16)
_DATA = 16
_LOOKS = 20_000  # at the page, about a millisecond, between two looks at anything else


def create() -> int:
    """A descriptor of a new page, which nobody can make shorter: to read what is gone would be a crash."""
    descriptor = os.memfd_create("mailbox", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, SIZE)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


class Mailbox:
    """One side's view of the page behind `descriptor`, which is closed."""

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, SIZE)
        os.close(descriptor)
        self._barrier = threading.Lock()

    def clear(self) -> None:
        """Nothing was said yet."""
        self._page[0] = 0

    def post(self, step: int, data: bytes = b"") -> None:
        """Say that a step is reached. `data`: for the other side, `SIZE` - 16 bytes at most."""
        self._page[_DATA : _DATA + len(data)] = data
        self._page[_LENGTH] = len(data).to_bytes(8, "little")
        with self._barrier:  # processors that reorder stores do not do so across a lock
            pass
        self._page[0] = step

    def wait(self, step: int, gone: Callable[[], bool]) -> bool:
        """Until the other side says that a step is reached; False when `gone` says that it will not."""
        looks = 0
        while self._page[0] != step:
            looks += 1
            if looks % _LOOKS == 0 and gone():
                return self._page[0] == step  # it may have said so just now, as the last thing that it did
        return True

    def data(self) -> bytes:
        """What came with the step; as much as the other side says, who need not be trusted."""
        length = int.from_bytes(self._page[_LENGTH], "little")
        return self._page[_DATA : _DATA + min(length, SIZE - _DATA)]

"""Judges: copies of the examiner's process that run checks side by side.

To draw examples, to pack and unpack tensors and to watch workers is Python, and threads of one process share its lock:
of the 9 s that the checks of ch02 took on an H200's host, it was held all the time. A judge is made by fork, so it has
the course, the graders and the warm parents at hand; it starts and ends the workers of its checks itself.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.util import Finalize
from typing import Any

import harness.wire  # noqa: F401  (once, and not in each judge)
from harness import interrupt
from harness.sandbox.syscalls import die_with_parent

_work: Callable[..., Any] | None = None  # what a judge does; in its process only


class Judges:
    """`count` processes that answer calls of `work`, a function of arguments that can be pickled.

    Make them while this process has neither touched a GPU nor started threads that a copy would miss; a block with them
    ends when they have. An interrupt is this process' to handle: the judges end with their work, or with this process.
    """

    def __init__(self, work: Callable[..., Any], count: int, last: Callable[[], None]) -> None:
        """`last`: what each judge does before it ends."""
        context = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(count, context, _begin, (os.getpid(), work, last))  # a fork pickles nothing
        try:
            with interrupt.deferred(), warnings.catch_warnings():
                # Python warns of a fork beside threads. Those that may run here draw progress or drain pipes, and hold
                # no lock that a judge takes.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._pool.submit(os.getpid).result()  # the first call makes all of them
        except BaseException:  # the interrupt that was deferred
            self.close()
            raise

    def submit(self, *args: Any) -> Future[Any]:
        """Have `work(*args)` done by a judge that is free."""
        return self._pool.submit(_do, *args)

    def close(self) -> None:
        """Drop what has not begun, wait for what has."""
        self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _begin(parent: int, work: Callable[..., Any], last: Callable[[], None]) -> None:
    global _work
    _work = work
    Finalize(None, last, exitpriority=0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent)
    gc.freeze()  # what was there before the fork stays: to look through it again and again would copy its pages


def _do(*args: Any) -> Any:
    assert _work is not None
    return _work(*args)

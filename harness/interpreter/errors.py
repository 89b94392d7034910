"""From the error that a launch raised to what went wrong and where in the student's file."""

from __future__ import annotations

import os
from types import TracebackType


def _chain(error: BaseException) -> list[BaseException]:
    """The error and, while it is Triton's InterpreterError, what it was raised from."""
    chain = [error]
    while type(chain[-1]).__name__ == "InterpreterError" and chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    return chain


def root_cause(exc: BaseException) -> BaseException:
    """The error inside Triton's InterpreterError wrappers; the error itself when there is none."""
    return _chain(exc)[-1]


def _deepest_line(traceback: TracebackType | None, wanted: str) -> int | None:
    line = None
    while traceback is not None:
        if os.path.realpath(traceback.tb_frame.f_code.co_filename) == wanted:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def student_line(exc: BaseException, filename: str) -> int | None:
    """The line (1-based) of the file that is nearest to the cause: in a kernel, else in the host code."""
    wanted = os.path.realpath(filename)
    for error in reversed(_chain(exc)):
        line = _deepest_line(error.__traceback__, wanted)
        if line is not None:
            return line
    return None

"""Triton's interpreter, made trustworthy: `install()` once, then `session(...)` around what a student runs.

    install()  # in the warm parent; TRITON_INTERPRET=1 was set before Triton was imported
    if not probe().ok: refuse to grade
    book = AddressBook(); book.allow(x.data_ptr(), x.nbytes, "x")
    with session(overflow=True, addresses=book): student.solve(x)

Files: lowfloat (bfloat16, float8, casts, dot), reduction, language (loops, truth, scalars, NaN, autotune,
overflow), libdevice, memory and watch (addresses), launch (one kernel launch), selftest (what stock Triton
gets wrong, and the proof).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from harness.interpreter.errors import root_cause, student_line
from harness.interpreter.report import Report
from harness.interpreter.state import STATE, BlockCondition, DeviceAssertFailed, IntegerOverflow, Told
from harness.interpreter.watch import AddressBook, AddressFault


def _require_interpreter() -> None:
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError("set TRITON_INTERPRET=1 before Triton is imported")


def install() -> None:
    """Repair what stock Triton's interpreter here gets wrong; a second call does nothing.

    Call it before a student's kernel is defined. RuntimeError without TRITON_INTERPRET=1.
    """
    _require_interpreter()
    from harness.interpreter import selftest

    selftest.install()


def probe() -> Report:
    """Run the small kernels of selftest.py on the interpreter as it is now (well under 0.3 s)."""
    _require_interpreter()
    from harness.interpreter import selftest

    return selftest.probe()


@contextmanager
def session(
    *, overflow: bool, addresses: AddressBook | None, poison_masked: bool = False,
    told: Told | None = None,
) -> Iterator[None]:  # fmt: skip
    """Switch on, for the launches inside: device_assert; int32 and int64 overflow; the address watch.

    overflow: a signed 32- or 64-bit +, - or * (or int32 tl.sum or tl.cumsum) that wraps raises
    IntegerOverflow; otherwise it wraps as on a GPU. addresses: None leaves addresses unchecked.
    poison_masked: lanes that a load masks off without naming `other` hold NaN or a large number instead of
    the 0 that NVIDIA GPUs give (see memory.py). told: called before each launch.
    Sessions nest; the inner one counts.
    """
    from triton.runtime import interpreter as stock

    builder = stock.interpreter_builder
    before = builder.options, STATE.asserts, STATE.overflow, STATE.poison_masked, STATE.book, STATE.told
    builder.options = stock.InterpreterOptions(debug=True, sanitize_overflow=overflow)
    STATE.asserts, STATE.overflow, STATE.poison_masked, STATE.book, STATE.told = True, overflow, poison_masked, addresses, told
    try:
        yield
    finally:
        builder.options, STATE.asserts, STATE.overflow, STATE.poison_masked, STATE.book, STATE.told = before


__all__ = [
    "AddressBook",
    "AddressFault",
    "BlockCondition",
    "DeviceAssertFailed",
    "IntegerOverflow",
    "Report",
    "install",
    "probe",
    "root_cause",
    "session",
    "student_line",
]

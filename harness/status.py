"""The words for how a check or an exercise ended (fixed by `grade/result/v1`)."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"
    NOT_STARTED = "not started"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    DEVICE_FAULT = "device fault"
    COMPILE_ERROR = "compile error"
    REFUSED = "refused"
    ERROR = "error"


class Performance(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    NOT_MEASURED = "not measured"
    NOT_NEEDED = "not needed"

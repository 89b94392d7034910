"""What can go wrong, by whose fault; each error owns its exit code and says what to do.

GradeError
+-- UsageError      2  wrong usage or unreadable input: the person who typed the command can mend it
|   +-- CourseError    course.toml breaks a rule
+-- MachineError    3  the harness or the machine failed: never the student's fault
"""

from __future__ import annotations


class GradeError(Exception):
    """`what` happened, and the `remedy` that helps."""

    exit_code = 3

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}\n  {self.remedy}" if self.remedy else self.what


class UsageError(GradeError):
    exit_code = 2


class CourseError(UsageError):
    """A rule of course.toml is broken at `line`, under `key`."""

    def __init__(self, path: str, line: int, key: str, rule: str, remedy: str) -> None:
        super().__init__(f"{path}, line {line}, {key}: {rule}", remedy)
        self.path, self.line, self.key, self.rule = path, line, key, rule


class MachineError(GradeError):
    exit_code = 3

"""What is graded of one exercise, and what a file that is not graded is answered with."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.course import Exercise, digest
from harness.submission.cells import Lines

MAX_FILE = 1 << 20  # bytes of a Python file: a submission is source code


class Unreadable(Exception):
    """Why something in what was handed in is not graded, for who handed it in."""


@dataclass(frozen=True)
class Submission:
    """The files of one exercise: `main` is the one graded, the others are helper modules beside it."""

    exercise: Exercise
    path: str  # as it is shown
    main: str
    files: Mapping[str, bytes]
    missing: str = ""  # why there is nothing to grade
    refused: str = ""  # why what there is is not graded
    packed: bool = False  # out of an archive or a notebook: other people's work, most likely
    lines: Lines | None = None  # of a notebook: which cell each line of `main` comes from
    original: str = ""  # sha256 of the file at `path`, where that is not `main`

    @property
    def sha256(self) -> str:
        return self.original or (hashlib.sha256(self.files[self.main]).hexdigest() if self.files else "")

    @property
    def fingerprint(self) -> str:
        """Of the exercise and of every file: whatever has the same one is the same work."""
        everything = hashlib.sha256(self.exercise.id.encode())
        for name, content in sorted(self.files.items()):
            everything.update(f"\0{name}\0{len(content)}\0".encode() + content)
        return everything.hexdigest()

    @property
    def load_request(self) -> dict[str, Any]:
        """What a worker is asked to import it with."""
        return {"op": "load", "files": dict(self.files), "main": self.main, "entry": self.exercise.name}

    @property
    def untouched(self) -> bool:
        return bool(self.files) and digest(self.files[self.main]) == self.exercise.stub

    def located(self, message: str) -> str:
        """A message about `main`, in which lines are the student's own: of a notebook, "cell 3, line 4"."""
        if (lines := self.lines) is None:
            return message
        place = re.compile(rf"\b{re.escape(self.main)}(?::|, line )(\d+)|\bat line (\d+)")
        whole = self.path.rpartition("/")[2]

        def named(found: re.Match[str]) -> str:
            if found[1]:
                return f"{whole}, {lines.place(int(found[1]))}"
            return f"in {lines.place(int(found[2]))}"

        return place.sub(named, message)

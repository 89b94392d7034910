"""Where the work to be graded is: the course's exercises/, a folder, or a single file. Reads it once, as bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.course import Course, Exercise, digest
from harness.errors import UsageError

MAX_FILE = 1 << 20
MAX_FILES = 64


@dataclass(frozen=True)
class Submission:
    """The files of one exercise: `main` is the one graded, the others are helper modules beside it."""

    exercise: Exercise
    path: str  # as it is shown
    main: str
    files: Mapping[str, bytes]
    missing: str = ""  # why there is nothing to grade
    refused: str = ""  # why what there is is not graded

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.files[self.main]).hexdigest() if self.files else ""

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


def find(course: Course, exercises: tuple[Exercise, ...], source: Path | None) -> list[Submission]:
    """The submission of each exercise, in order. `source` is what `--from` names; None means exercises/.

    A folder may hold chNN_slug folders or be one; a file is one exercise's, told by its name or by being the only one
    asked for. `UsageError` when nothing at all is found.
    """
    if source is None:
        source = course.root / "exercises"
    if not source.exists():
        named = course.root / source
        if str(source) in ("reference", "exercises") and named.is_dir():
            source = named
        else:
            raise UsageError(f"there is nothing at {source}", "`--from` takes a file or a folder")
    if source.is_file():
        return [_single(exercises, source)]
    found = [_in_folder(course, exercise, source) for exercise in exercises]
    if all(s.missing for s in found):
        wanted = ", ".join(f"{e.name}.py" for e in exercises[:4])
        raise UsageError(f"{source} holds none of the files asked for", f"looked for {wanted}, also in chNN_slug folders")
    return found


def _single(exercises: tuple[Exercise, ...], file: Path) -> Submission:
    if file.suffix != ".py":
        raise UsageError(f"{file.name} is not a Python file", "`--from` takes a .py file or a folder")
    stem = file.stem.split("__")[0]
    named = [e for e in exercises if e.name == stem]
    if not named and len(exercises) > 1:
        ids = ", ".join(e.id for e in exercises[:6])
        raise UsageError(f"{file.name} is named like none of {ids}", "name the exercise: `grade chNN.NAME --from FILE`")
    exercise = named[0] if named else exercises[0]
    return Submission(exercise, str(file), f"{exercise.name}.py", {f"{exercise.name}.py": _read(file)})


def _in_folder(course: Course, exercise: Exercise, folder: Path) -> Submission:
    name = f"{exercise.name}.py"
    places = [folder / exercise.chapter / name, folder / name, folder / exercise.chapter.split("_")[0] / name]
    for place in places:
        if place.is_symlink() or (place.exists() and not place.resolve().is_relative_to(folder.resolve())):
            why = f"{name} is a link out of what was handed in; links are not followed"
            return Submission(exercise, shown(course, place.parent) + f"/{name}", name, {}, refused=why)
        if place.is_file():
            if (size := place.stat().st_size) > MAX_FILE:
                why = f"{name} has {size:,} bytes, more than {MAX_FILE:,}: a submission is source code"
                return Submission(exercise, shown(course, place), name, {}, refused=why)
            beside = {
                p.name: _read(p)
                for p in sorted(place.parent.glob("*.py"))[:MAX_FILES]
                if p.is_file() and not p.is_symlink() and p.stat().st_size <= MAX_FILE
            }
            return Submission(exercise, shown(course, place), name, {**beside, name: _read(place)})
    near = _closest(name, [p for place in places for p in place.parent.glob("*.py")])
    return Submission(exercise, str(places[0]), name, {}, f"there is no {name} in {folder}{near}")


def _closest(name: str, files: list[Path]) -> str:
    import difflib

    close = difflib.get_close_matches(name, [f.name for f in files], 1, 0.6)
    return f"; did you mean to call {close[0]} that?" if close else ""


def shown(course: Course, path: Path) -> str:
    """A path as people read it: from the course's folder on, where it lies in there."""
    try:
        return str(path.resolve().relative_to(course.root.resolve()))
    except ValueError:
        return str(path)


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "check its permissions") from None
    if len(data) > MAX_FILE:
        raise UsageError(f"{path} has {len(data):,} bytes, more than {MAX_FILE:,}", "a submission is source code")
    return data

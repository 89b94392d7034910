"""Where the work to be graded is: the course's exercises/, a folder, an archive, a Python file or a notebook. Reads it once, as
data. Nothing of it is unpacked, run or imported here; the worker gets the bytes.

`find` gives a `Submission` for each exercise. What is wrong with one exercise's file is in that one's `refused` or `missing`; a
`UsageError` is raised where there is nothing to grade at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.course import Course, Exercise
from harness.errors import MachineError, UsageError
from harness.submission import archive, notebook, tree
from harness.submission.cells import Cell, assemble
from harness.submission.model import MAX_FILE, Submission, Unreadable

__all__ = ["Submission", "find", "require_sandbox", "shown"]

MAX_BESIDE = 64  # helper files beside an exercise's
MAX_BESIDE_BYTES = 4 << 20  # of them together
TAKES = "`--from` takes a folder, a .py file, a notebook (.ipynb), a .zip or a .tar.gz"
_IMPORTED = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(\w+)", re.MULTILINE)
_MODULE = re.compile(r"[^\W\d]\w*\.py")  # what an import can name
_WIDE = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}


def find(course: Course, exercises: tuple[Exercise, ...], source: Path | None) -> list[Submission]:
    """The submission of each exercise, in order. `source` is what `--from` names; None means exercises/.

    A folder or an archive may hold chNN_slug folders or be one, and notebooks of an exercise or a chapter in place of .py files.
    A file is one exercise's, told by its name or by being the only one asked for; a notebook has any number of them.
    `UsageError` when nothing at all is found.
    """
    place = _place(course, source)
    try:
        if place.is_dir():
            label = shown(course, place)
            work = tree.of_folder(place.resolve(), "" if label == "." else label)
        elif not place.is_file():
            raise UsageError(f"{tree.printable(str(place))} is neither a file nor a folder", TAKES)
        elif place.name.lower().endswith((*archive.ZIP, *archive.TAR)):
            work = archive.open_archive(place, tree.printable(str(place)))
        else:
            return _single(exercises, place)
        found = list(_Search(work, exercises, packed=not place.is_dir()).submissions())
    except Unreadable as error:
        raise UsageError(str(error), TAKES) from None
    if all(s.missing for s in found):
        wanted = ", ".join(f"{e.name}.py" for e in exercises[:4])
        note = f"; {work.note}" if work.note else ""
        name = tree.printable(str(place))
        raise UsageError(
            f"{name} holds none of the files asked for{note}",
            f"looked for {wanted}, also in chNN_slug folders, and for notebooks; {found[0].missing}",
        )
    return found


def require_sandbox(submissions: Sequence[Submission], otherwise: str = "hand in its .py files") -> None:
    """Raises `MachineError` where work out of an archive or a notebook would run with no sandbox: as a rule it is somebody
    else's, and nobody has said that it may. Without one, people grade the files that they wrote themselves. `otherwise`: what to
    do where that is wrong."""
    from harness import sandbox

    packed = [work for work in submissions if work.packed and work.files]
    if packed and (probe := sandbox.probe()).level is sandbox.Level.NONE:
        missing = "; ".join(probe.remedies()) or "`grade doctor` says what is missing"
        raise MachineError(
            f"this machine cannot shut in a submission, and {packed[0].path} may be somebody else's work: nothing was run",
            f"{missing}; or, if you trust it as you do your own, {otherwise}",
        )


def shown(course: Course, path: Path) -> str:
    """A path as people read it: from the course's folder on, where it lies in there."""
    try:
        return tree.printable(str(path.resolve().relative_to(course.root.resolve())))
    except ValueError:
        return tree.printable(str(path))


def _place(course: Course, source: Path | None) -> Path:
    """The file or folder that is meant. Raises `UsageError`."""
    if source is None:
        source = course.root / "exercises"
    try:
        if source.exists():
            return source
        if str(source) in ("reference", "exercises") and (course.root / source).is_dir():
            return course.root / source
    except OSError as error:
        raise UsageError(f"{tree.printable(str(source))} cannot be read: {error.strerror}", "check its permissions") from None
    raise UsageError(f"there is nothing at {tree.printable(str(source))}", TAKES)


def _single(exercises: tuple[Exercise, ...], file: Path) -> list[Submission]:
    """The submissions of a single file. A neighbour in its folder may be another student's: it is graded alone."""
    name, label = tree.printable(file.name), tree.printable(str(file))
    stem, _, suffix = tree.plain(file.name).rpartition(".")
    named = tuple(e for e in exercises if e.name == stem.split("__")[0])
    if suffix == "ipynb":
        data = tree.load_file(file, notebook.MAX_NOTEBOOK, follow=True)
        book = _Book(file.name, label, data)
        wanted = named or tuple(e for e in exercises if _of_chapter(e, stem)) or exercises
        found = [book.submission(e, {}) for e in wanted]
        if all(s.missing for s in found):
            names = ", ".join(e.name for e in wanted[:6])
            raise UsageError(f"{name} defines none of {names}", book.defines or "no code cell defines anything")
        return found
    if suffix != "py":
        raise UsageError(f"{name} is not a Python file", TAKES)
    if not named and len(exercises) > 1:
        ids = ", ".join(e.id for e in exercises[:6])
        raise UsageError(f"{name} is named like none of {ids}", "name the exercise: `grade chNN.NAME --from FILE`")
    exercise = (named or exercises)[0]
    data = tree.load_file(file, MAX_FILE, follow=True)
    if wrong := _wide(name, data):
        raise UsageError(wrong, "Python reads UTF-8")
    return [Submission(exercise, label, f"{exercise.name}.py", {f"{exercise.name}.py": data})]


def _of_chapter(exercise: Exercise, stem: str) -> bool:
    """Whether a notebook called `stem` is of the exercise's chapter: its slug, or chNN and anything."""
    return re.fullmatch(rf"{exercise.chapter.split('_')[0]}([\W_].*)?", stem) is not None


def _wide(name: str, data: bytes) -> str:
    """What is wrong with a Python file in another kind of characters, else "". (What is wrong in UTF-8, Python says best.)"""
    kind = next((kind for mark, kind in _WIDE.items() if data.startswith(mark)), "")
    return f"{name} is {kind} text, and Python reads UTF-8: save it as UTF-8" if kind else ""


class _Book:
    """A notebook and what each exercise needs of it."""

    def __init__(self, name: str, label: str, data: bytes) -> None:
        self.name, self.label = tree.printable(name), label
        self._sha256 = hashlib.sha256(data).hexdigest()
        self._cells: list[Cell] = notebook.read(self.name, data)
        self._names = frozenset().union(*(cell.defines for cell in self._cells))

    @property
    def defines(self) -> str:
        names = ", ".join(sorted(self._names)[:8])
        return f"it defines {names}" if names else ""

    def submission(self, exercise: Exercise, beside: dict[str, bytes]) -> Submission:
        main = f"{exercise.name}.py"
        if exercise.name not in self._names:
            why = f"{self.name} defines no {exercise.name}" + (f"; {self.defines}" if self._names else "")
            return Submission(exercise, self.label, main, {}, missing=why, packed=True)
        text, lines = assemble(self._cells, exercise.name)
        files = {**beside, main: text.encode()}
        return Submission(exercise, self.label, main, files, packed=True, lines=lines, original=self._sha256)


class _Search:
    """Looks for each exercise's file in a folder or an archive."""

    def __init__(self, work: tree.Tree, exercises: tuple[Exercise, ...], *, packed: bool) -> None:
        self.work, self.exercises, self.packed = work, exercises, packed
        self.top = work.top(frozenset(e.chapter for e in exercises) | frozenset(e.chapter.split("_")[0] for e in exercises))
        self._books: dict[str, _Book | Unreadable] = {}

    def submissions(self) -> Iterator[Submission]:
        for exercise in self.exercises:
            main = f"{exercise.name}.py"
            where = [tree.joined(self.top, exercise.chapter), self.top, tree.joined(self.top, exercise.chapter.split("_")[0])]
            path = self.work.shown(where[0], main)
            try:
                found = self._script(exercise, where)
                if found is None:
                    found = self._notebook(exercise, where)
                elif found.untouched:  # the stubs lie there, and the work may be in a notebook
                    with contextlib.suppress(Unreadable):
                        book = self._notebook(exercise, where)
                        found = book if book is not None and book.files else found
                yield found or Submission(exercise, path, main, {}, missing=self._absent(main, where), packed=self.packed)
            except Unreadable as error:
                yield Submission(exercise, path, main, {}, refused=str(error), packed=self.packed)

    def _script(self, exercise: Exercise, where: list[str]) -> Submission | None:
        name = f"{exercise.name}.py"
        for folder in where:
            if (entry := self.work.find(folder, name)) is not None:
                path = self.work.shown(folder, entry.name)
                try:
                    data = self.work.read(folder, entry, MAX_FILE)
                    if wrong := _wide(tree.printable(entry.name), data):
                        raise Unreadable(wrong)
                    files = {**self._beside(folder, data), name: data}
                except Unreadable as error:
                    return Submission(exercise, path, name, {}, refused=str(error), packed=self.packed)
                return Submission(exercise, path, name, files, packed=self.packed)
        return None

    def _notebook(self, exercise: Exercise, where: list[str]) -> Submission | None:
        """Of the notebook that is named like the exercise, like its chapter, or that is the only one."""
        for folder in where:
            books = {n: e for n, e in self.work.listing(folder).items() if tree.plain(n).endswith(".ipynb")}
            stems = {name: tree.plain(name).removesuffix(".ipynb") for name in books}
            own = [n for n in books if stems[n].split("__")[0] == exercise.name]
            chosen = own or [n for n in books if _of_chapter(exercise, stems[n])] or (list(books) if len(books) == 1 else [])
            if len(chosen) > 1:
                names = " and ".join(tree.printable(n) for n in chosen[:3])
                raise Unreadable(f"{names} could each have {exercise.name}: keep one")
            for name in chosen:
                path = self.work.shown(folder, name)
                try:
                    book = self._book(folder, books[name])
                    alone = book.submission(exercise, {})
                    return book.submission(exercise, self._beside(folder, alone.files.get(alone.main, b"")))
                except Unreadable as error:
                    return Submission(exercise, path, f"{exercise.name}.py", {}, refused=str(error), packed=True)
        return None

    def _book(self, folder: str, entry: tree.Entry) -> _Book:
        """A notebook, read once. Raises `Unreadable`, as often as it is asked for."""
        path = self.work.shown(folder, entry.name)
        if path not in self._books:
            try:
                self._books[path] = _Book(entry.name, path, self.work.read(folder, entry, notebook.MAX_NOTEBOOK))
            except Unreadable as error:
                self._books[path] = error
        book = self._books[path]
        if isinstance(book, Unreadable):
            raise book
        return book

    def _beside(self, folder: str, main: bytes) -> dict[str, bytes]:
        """The other Python files of a folder, those first that `main` imports. Raises `Unreadable` for one that it imports and
        that cannot be read; of others, what cannot be read is left out."""
        imported = {name.decode("ascii", "ignore") for name in _IMPORTED.findall(main)}
        names = [n for n in self.work.listing(folder) if _MODULE.fullmatch(n) and len(n.encode()) < 256]
        files: dict[str, bytes] = {}
        left = MAX_BESIDE_BYTES
        for name in sorted(names, key=lambda n: (n.removesuffix(".py") not in imported, n))[:MAX_BESIDE]:
            try:
                data = self.work.read(folder, self.work.listing(folder)[name], MAX_FILE)
                left -= len(data)
                if left < 0:
                    raise Unreadable(f"{name} and what else is imported have more than {MAX_BESIDE_BYTES:,} bytes")
                files[name] = data
            except Unreadable:
                if name.removesuffix(".py") in imported:
                    raise
                if left < 0:
                    break
        return files

    def _absent(self, name: str, where: list[str]) -> str:
        import difflib

        entries = [entry for folder in where for entry in self.work.listing(folder).values()]
        taken = {f"{e.name}.py" for e in self.exercises}
        names = [e.name for e in entries if e.name.lower().endswith(".py") and not e.folder and e.name not in taken]
        close = difflib.get_close_matches(name, names[:1000], 1, 0.6)
        near = f"; did you mean to call {tree.printable(close[0])} that?" if close else ""
        note = f"; {self.work.note}" if self.work.note else ""
        return f"there is no {name} in {self.work.shown('', '') or 'the course'}{near}{note}"

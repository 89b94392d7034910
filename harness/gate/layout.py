"""The exercise set itself: every exercise has all of its files, and each says what it must. (What course.toml alone can
show, its loader says.)"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.course import Course, Exercise, digest
from harness.errors import MachineError
from harness.gate import solutions
from harness.gate.solutions import Broken, Fault
from harness.submission import shown

FEWEST_MUTANTS, FEWEST_ALTERNATES = 6, 2
PARTS = {
    "README.md": ("Principle", "Method", "Case", "Review"),
    "README.zh.md": ("原理", "方法", "案例", "复盘"),
}


def faults(course: Course, exercises: tuple[Exercise, ...]) -> list[Fault]:
    """What is wrong with the files of these exercises and with their chapters' handouts."""
    found = [fault for chapter in dict.fromkeys(e.chapter for e in exercises) for fault in _handouts(course, chapter)]
    for exercise in exercises:
        found += _exercise(course, exercise)
    return found


def _handouts(course: Course, chapter: str) -> Iterator[Fault]:
    codes = {}
    for name, parts in PARTS.items():
        path = course.root / "exercises" / chapter / name
        file, text = shown(course, path), _read(path)
        if text is None:
            yield Fault(file, "the handout is missing", f"write it, in four parts: {', '.join(parts)}")
            continue
        prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        headings = tuple(re.findall(r"^## +(.+?) *$", prose, re.MULTILINE))
        if headings != parts:
            yield Fault(file, f"its parts are {', '.join(headings) or 'none'}", f"they must be {', '.join(parts)}, as `## ...`")
        codes[name] = len(re.findall(r"^```", text, re.MULTILINE)) // 2
    if len(set(codes.values())) > 1:
        told = ", ".join(f"{count} in {name}" for name, count in codes.items())
        yield Fault(f"exercises/{chapter}", f"the handouts differ in their blocks of code: {told}", "show the same in both")


def _exercise(course: Course, exercise: Exercise) -> Iterator[Fault]:
    stub, reference = solutions.stub_file(course, exercise), solutions.reference_file(course, exercise)
    yield from _stub(course, exercise, stub)
    source, sound = _read(reference), False
    if source is None:
        yield Fault(shown(course, reference), "the reference is missing", "write the solution that must reach full marks")
    elif digest(source.encode()) == exercise.stub:
        yield Fault(shown(course, reference), "is the stub", "write the solution that must reach full marks")
    else:
        wrong = list(_defines(shown(course, reference), source, exercise.name))
        sound = not wrong
        yield from wrong
    yield from _grader(course, exercise)
    if source is not None and sound:  # else there is nothing to edit
        yield from _mutants(course, exercise, source)
    alternates = solutions.alternate_files(course, exercise)
    if len(alternates) < FEWEST_ALTERNATES:
        yield Fault(
            f"tests/alternates/{exercise.chapter}", f"{exercise.name} has {len(alternates)} alternates, not {FEWEST_ALTERNATES}",
            f"add {exercise.name}__STYLE.py: a right solution in another style",
        )  # fmt: skip
    for path in alternates:
        yield from _defines(shown(course, path), _read(path) or "", exercise.name)


def _stub(course: Course, exercise: Exercise, path: Path) -> Iterator[Fault]:
    file, text = shown(course, path), _read(path)
    if text is None:
        yield Fault(file, "the stub is missing", "write it, with its contract in the docstring")
        return
    yield from _defines(file, text, exercise.name)
    if not re.search(r"#\s*TODO", text):
        yield Fault(file, "has no TODO", "mark what is to be written with `# TODO: ...`")
    if digest(text.encode()) != exercise.stub:
        line = f'stub = "{digest(text.encode())}"'
        yield Fault(file, "is not the stub that course.toml knows", f"write {line} there, or restore the stub")


def _grader(course: Course, exercise: Exercise) -> Iterator[Fault]:
    from harness.examiner.graders import checks_of, grader_of  # imports torch

    file = f"graders/{exercise.chapter}.py"
    try:
        grader = grader_of(course, exercise)
        for gpu in (False, True):
            checks_of(exercise, grader, gpu=gpu)
    except MachineError as error:
        yield Fault(file, error.what, error.remedy)
    except Exception as error:  # whatever a file that is being written raises
        yield Fault(file, f"{exercise.name}: {type(error).__name__}: {error}", "mend the grader")


def _mutants(course: Course, exercise: Exercise, source: str) -> Iterator[Fault]:
    path = solutions.mutants_file(course, exercise)
    file = shown(course, path)
    if not path.is_file():
        yield Fault(file, "there are no mutants", f"write {FEWEST_MUTANTS} or more edits of the reference")
        return
    try:
        found = list(solutions.mutants(course, exercise, source))
        if solutions.judged(course, exercise):  # they must be there
            list(solutions.mutations(course, exercise, source))
    except Broken as broken:
        yield broken.fault
        return
    if len(found) < FEWEST_MUTANTS:
        yield Fault(file, f"has {len(found)} mutants", f"write {FEWEST_MUTANTS} or more")
    for name, count in Counter(mutant.name for mutant in found).items():
        if count > 1:
            yield Fault(file, f"{count} mutants are called {name!r}", "give each a name of its own")
    for mutant in found:
        if (wrong := _not_python(mutant.work.files[mutant.work.main].decode(), exercise.name)) is not None:
            yield Fault(file, f"{mutant.name}: {wrong}", "a mutant must be a file that could be handed in")


def _defines(file: str, source: str, name: str) -> Iterator[Fault]:
    if (wrong := _not_python(source, name)) is not None:
        yield Fault(file, wrong, f"define `{name}` there")


def _not_python(source: str, name: str) -> str | None:
    """Why a source is no solution that could be imported, or None."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return f"is no Python: {error}"
    for node in tree.body:
        names = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.asname or alias.name for alias in node.names]
        if name in names:
            return None
    return f"defines no `{name}`"


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None

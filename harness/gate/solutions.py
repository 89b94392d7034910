"""Solutions of which it is known how they must be graded: reference, untouched stub, mutants, alternates.

A mutant is an edit of the reference, written down in tests/mutants/chNN_slug/NAME.toml; a mutation is one that `mutation` makes,
unless that file names it equivalent; an alternate is a right solution in another style,
tests/alternates/chNN_slug/NAME__STYLE.py.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.course import Course, Exercise
from harness.gate import mutation
from harness.status import Status
from harness.submission import Submission, shown

PLACES = ("cpu", "gpu")  # where a mutant shows
_MUTANT_KEYS = {"name", "kind", "check", "also", "status", "why", "on", "edits"}
# A comment to a person, a statement to the digest: the stub is no longer untouched, and still computes nothing.
TOUCH = "\n_ = None\n"


class Kind(StrEnum):
    REFERENCE = "reference"
    STUB = "stub"
    MUTANT = "mutant"
    MUTATION = "mutation"
    ALTERNATE = "alternate"


@dataclass(frozen=True, eq=False)
class Solution:
    """What is to be graded, and how it must end.

    `checks`: of a mutant, where it must fail: the first of them that does not pass counts, and the last is asked for (more than
    one is named where a check that it needs may see the fault first). `statuses`: how that check may end.
    """

    kind: Kind
    name: str
    work: Submission
    checks: tuple[str, ...] = ()
    statuses: frozenset[Status] = frozenset({Status.FAILED})
    on: tuple[str, ...] = PLACES
    fault: str = ""  # of which kind a mutant is (syllabus, "Mutants")
    why: str = ""

    @property
    def id(self) -> str:
        return f"{self.work.exercise.id} {self.kind}" + (f": {self.name}" if self.name else "")


@dataclass(frozen=True)
class Fault:
    """A rule of the exercise set that a file breaks, and what to do."""

    file: str
    rule: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}: {self.rule}\n  {self.remedy}"


class Broken(Exception):
    """A file that solutions cannot be read from."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def stub_file(course: Course, exercise: Exercise) -> Path:
    return course.root / "exercises" / exercise.chapter / f"{exercise.name}.py"


def reference_file(course: Course, exercise: Exercise) -> Path:
    return course.root / "reference" / exercise.chapter / f"{exercise.name}.py"


def mutants_file(course: Course, exercise: Exercise) -> Path:
    return course.root / "tests" / "mutants" / exercise.chapter / f"{exercise.name}.toml"


def alternate_files(course: Course, exercise: Exercise) -> list[Path]:
    return sorted((course.root / "tests" / "alternates" / exercise.chapter).glob(f"{exercise.name}__*.py"))


def gather(course: Course, exercise: Exercise, *, mutate: bool = False) -> list[Solution]:
    """All of an exercise's, with `mutate` the mutations too. Raises `Broken` for a file of mutants that breaks a rule, OSError
    for one that is not there."""
    reference = reference_file(course, exercise)
    source = reference.read_text(encoding="utf-8")
    stub = stub_file(course, exercise)
    found = [
        Solution(Kind.REFERENCE, "", _work(course, exercise, reference, source)),
        Solution(Kind.STUB, "", _work(course, exercise, stub, stub.read_text(encoding="utf-8") + TOUCH)),
    ]
    found += mutants(course, exercise, source)
    found += mutations(course, exercise, source) if mutate else ()
    for path in alternate_files(course, exercise):
        style = path.stem.split("__", 1)[1]
        found.append(Solution(Kind.ALTERNATE, style, _work(course, exercise, path, path.read_text(encoding="utf-8"))))
    return found


def _work(course: Course, exercise: Exercise, path: Path, source: str) -> Submission:
    main = f"{exercise.name}.py"
    return Submission(exercise, shown(course, path), main, {main: source.encode()})


def mutants(course: Course, exercise: Exercise, source: str) -> Iterator[Solution]:
    """Those of an exercise's file, applied to the reference's `source`. Raises `Broken`."""
    file = shown(course, mutants_file(course, exercise))

    def broken(rule: str, remedy: str) -> Broken:
        return Broken(Fault(file, rule, remedy))

    tables = _tables(course, exercise, "mutant")
    for number, table in enumerate(tables, 1):
        name = table.get("name") if isinstance(table, dict) else None
        if not isinstance(name, str) or not name:
            raise broken(f"mutant {number} has no `name`", "name it by what is wrong with it")
        if unknown := set(table) - _MUTANT_KEYS:
            raise broken(f"{name}: `{min(unknown)}` means nothing here", f"known: {', '.join(sorted(_MUTANT_KEYS))}")
        checks = _listed(table.get("check"))
        if not checks or not set(checks) <= set(exercise.points):
            raise broken(f"{name}: `check` must be one of the exercise's (got {table.get('check')!r})", _known(exercise))
        if not set(_listed(table.get("also"))) <= set(exercise.points):
            raise broken(f"{name}: `also` must be some of the exercise's checks (got {table['also']!r})", _known(exercise))
        try:
            statuses = frozenset(Status(s) for s in _listed(table.get("status", "failed")))
        except ValueError as error:
            raise broken(f"{name}: {error}", f"known: {', '.join(Status)}") from None
        on = tuple(_listed(table.get("on", PLACES)))
        if not on or not set(on) <= set(PLACES):
            raise broken(f"{name}: `on` must be some of {', '.join(PLACES)} (got {table['on']!r})", "or left out")
        why = table.get("why", "")
        if not isinstance(why, str) or not why.strip():
            raise broken(f"{name}: `why` is missing", "say what is wrong with it, in words that a student would understand")
        edited = source
        for edit in table.get("edits", []):
            times = edited.count(edit["find"])
            if times != 1:
                raise broken(f"{name}: an edit applies {times} times, not once: {edit['find']!r}", "quote more of the line")
            edited = edited.replace(edit["find"], edit["replace"])
        if edited == source:
            raise broken(f"{name}: changes nothing", "give it `edits` that do")
        work = Submission(exercise, f"{file}: {name}", f"{exercise.name}.py", {f"{exercise.name}.py": edited.encode()})
        yield Solution(Kind.MUTANT, name, work, tuple(checks), statuses, on, str(table.get("kind", "")), why)


@dataclass(frozen=True)
class Judged:
    """What a person has found of a mutation that no check here sees: `why`; and `on` where one does, nowhere if equivalent."""

    why: str
    on: tuple[str, ...]


def judged(course: Course, exercise: Exercise) -> dict[str, Judged]:
    """Mutations that no input tells from the reference, or none on one of the places, and why. Raises `Broken`."""
    found: dict[str, Judged] = {}
    for table in _tables(course, exercise, "equivalent"):
        name, why, shows = (table.get(key) if isinstance(table, dict) else None for key in ("mutation", "why", "shows"))
        on = tuple(_listed(shows))
        if not isinstance(name, str) or not isinstance(why, str) or not why.strip() or not set(on) < set(PLACES):
            remedy = "give each `mutation`, as the gate names it, and `why` no input tells it from the reference; if one does on "
            remedy += 'a GPU only, `shows = "gpu"`'
            file = shown(course, mutants_file(course, exercise))
            raise Broken(Fault(file, f"an `equivalent` is not whole: {table!r}", remedy))
        found[name] = Judged(why, on)
    return found


def mutations(course: Course, exercise: Exercise, source: str) -> Iterator[Solution]:
    """Those of the reference's `source` that are not named equivalent. Raises `Broken` where what is named is not there."""
    known = judged(course, exercise)
    made = {one.key: one for one in mutation.mutations(source)}
    if gone := sorted(set(known) - set(made)):
        remedy = "the reference was changed: look at it again, or leave it out"
        raise Broken(Fault(shown(course, mutants_file(course, exercise)), f"there is no mutation {gone[0]!r}", remedy))
    reference = shown(course, reference_file(course, exercise))
    main = f"{exercise.name}.py"
    for key, one in made.items():
        on = known[key].on if key in known else PLACES
        if on:
            work = Submission(exercise, f"{reference}: {key}", main, {main: one.source.encode()})
            yield Solution(Kind.MUTATION, key, work, on=on, why=f"line {one.line}")


def _tables(course: Course, exercise: Exercise, name: str) -> list[Any]:
    """The tables called `name` in an exercise's file of mutants. Raises `Broken`."""
    path = mutants_file(course, exercise)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get(name, [])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Broken(Fault(shown(course, path), f"is no TOML: {error}", "see https://toml.io")) from None
    return found if isinstance(found, list) else [found]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _known(exercise: Exercise) -> str:
    return f"checks: {', '.join(exercise.points)}"

"""course.toml as frozen objects. A bad file is answered with line, key, rule and remedy. Imports nothing heavy."""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from harness.errors import CourseError, UsageError

LANGUAGES = ("en", "zh")
MAX_STUB = 64 << 10  # bytes
SPEED = "speed"  # the name under `points` of the points for performance


@dataclass(frozen=True)
class Limits:
    """What a submission may use. Times in seconds, sizes in bytes; one source for every limit."""

    import_s: float = 30.0
    call_s: float = 30.0
    check_s: float = 120.0
    tune_s: float = 120.0
    memory_bytes: int = 4 << 30
    file_bytes: int = 256 << 20
    scratch_bytes: int = 1 << 30
    processes: int = 64


@dataclass(frozen=True)
class Exercise:
    name: str
    chapter: str  # the chapter's slug, `ch04_reductions`
    title: Mapping[str, str]
    points: Mapping[str, int]  # points of each check, in the order in which they are shown; without `speed`
    speed: int  # points of the performance, 0 where none is asked for
    threshold: float | None
    floor: float | None  # the ratio below which speed earns nothing
    stretch: float | None
    stub: str  # digest of the untouched stub
    hints: Mapping[str, tuple[str, ...]]
    limits: Limits

    @property
    def id(self) -> str:
        return f"{self.chapter.split('_')[0]}.{self.name}"

    @property
    def max_score(self) -> int:
        return sum(self.points.values()) + self.speed


@dataclass(frozen=True)
class Chapter:
    slug: str
    module: str
    title: Mapping[str, str]
    exercises: tuple[Exercise, ...]

    @property
    def id(self) -> str:
        return self.slug.split("_")[0]


@dataclass(frozen=True)
class Module:
    name: str
    title: Mapping[str, str]
    chapters: tuple[Chapter, ...]


@dataclass(frozen=True)
class Course:
    path: Path
    name: str
    title: Mapping[str, str]
    modules: tuple[Module, ...]

    @property
    def root(self) -> Path:
        return self.path.parent

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        return tuple(c for m in self.modules for c in m.chapters)

    def exercises(self) -> Iterator[Exercise]:
        for chapter in self.chapters:
            yield from chapter.exercises

    def select(self, targets: tuple[str, ...]) -> tuple[Exercise, ...]:
        """The exercises that `all`, modules, chapters and `chapter.exercise` name, in the course's order."""
        wanted: set[str] = set()
        for target in targets:
            found = [e.id for e in self.exercises() if target in self._names(e)]
            if not found:
                self._unknown(target)
            wanted.update(found)
        return tuple(e for e in self.exercises() if e.id in wanted)

    def _names(self, exercise: Exercise) -> set[str]:
        module = next(c.module for c in self.chapters if c.slug == exercise.chapter)
        slug = exercise.chapter
        return {"all", module, slug, slug.split("_")[0], exercise.id, f"{slug}.{exercise.name}"}

    def _unknown(self, target: str) -> NoReturn:
        import difflib

        for chapter in self.chapters:
            if target in (chapter.slug, chapter.id):
                built = ", ".join(c.id for c in self.chapters if c.exercises)
                raise UsageError(f"{target} has no exercises yet", f"chapters with exercises: {built}")
        for module in self.modules:
            if target == module.name:
                raise UsageError(f"module {target} has no exercises yet", "`grade list` shows what there is")
        names = sorted({n for e in self.exercises() for n in self._names(e)})
        close = difflib.get_close_matches(target, names, 3, 0.5)
        remedy = f"did you mean {' or '.join(close)}?" if close else "`grade list` shows what there is"
        raise UsageError(f"nothing is called {target!r}", remedy)


def parse(source: str | bytes) -> ast.Module:
    """The syntax tree of somebody's code, without the warnings that Python has for whoever wrote it.

    Raises SyntaxError or ValueError for what is no Python, RecursionError or MemoryError for what is nested too deeply.
    """
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(source)


def digest(source: bytes) -> str:
    """What identifies a stub: its syntax tree, so that comments, blank lines and line ends change nothing.

    The same under every version of Python, which `ast.dump` is not: 3.12 gave functions a list of type parameters. What is no
    stub, being no Python, nested too deeply or far too long to be parsed without need, is told by its bytes.
    """
    try:
        if len(source) > MAX_STUB:
            raise ValueError
        text = _shape(parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return hashlib.sha256(source).hexdigest()[:16]
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _shape(node: Any) -> str:
    """A syntax tree in words, without what is empty: a field that a version of Python adds is empty in old code."""
    if isinstance(node, ast.AST):
        fields = [f"{name}={_shape(value)}" for name, value in ast.iter_fields(node) if value is not None and value != []]
        return f"{type(node).__name__}({', '.join(fields)})"
    return f"[{', '.join(map(_shape, node))}]" if isinstance(node, list) else repr(node)


class _Reader:
    """Takes values out of the parsed file and complains with the line they stand on."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, text.splitlines()

    def fail(self, keys: tuple[str, ...], rule: str, remedy: str) -> NoReturn:
        raise CourseError(str(self.path), self.line(keys), ".".join(keys) or "the file", rule, remedy)

    def line(self, keys: tuple[str, ...]) -> int:
        """The line of the deepest part of `keys` that the file spells out (1 when there is none)."""
        best, depth = 1, 0
        table: tuple[str, ...] = ()
        for number, line in enumerate(self.lines, 1):
            header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
            if header and "=" not in line.split("]")[0]:
                table = tuple(p.strip().strip("\"'") for p in header.group(1).split("."))
                here = table
            else:
                key = re.match(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=", line)
                if not key:
                    continue
                here = table + tuple(p.strip().strip("\"'") for p in key.group(1).split("."))
            if len(here) > depth and keys[: len(here)] == here:
                best, depth = number, len(here)
        return best

    def get(self, table: dict[str, Any], keys: tuple[str, ...], kind: type | tuple[type, ...], what: str) -> Any:
        name = keys[-1]
        if name not in table:
            self.fail(keys[:-1], f"`{name}` is missing", f"add `{name} = ...` ({what})")
        value = table[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fail(keys, f"must be {what} (got {value!r})", f"write {what}")
        return value

    def known(self, table: dict[str, Any], keys: tuple[str, ...], allowed: set[str]) -> None:
        import difflib

        if not isinstance(table, dict):
            self.fail(keys, f"must be a table (got {table!r})", f"write [{'.'.join(keys)}]")
        for name in table:
            if name not in allowed:
                close = difflib.get_close_matches(name, allowed, 1)
                remedy = f"did you mean `{close[0]}`?" if close else f"known here: {', '.join(sorted(allowed))}"
                self.fail((*keys, name), "this key means nothing here", remedy)

    def words(self, table: dict[str, Any], keys: tuple[str, ...], name: str = "title") -> Mapping[str, str]:
        value = self.get(table, (*keys, name), dict, "a table with `en` and `zh`")
        for language in LANGUAGES:
            text = value.get(language)
            if not isinstance(text, str) or not text.strip():
                self.fail((*keys, name), f"`{language}` is missing or empty", "give both languages, en and zh")
        self.known(value, (*keys, name), set(LANGUAGES))
        return MappingProxyType(dict(value))

    def limits(self, table: dict[str, Any], keys: tuple[str, ...], base: Limits) -> Limits:
        value = table.get("limits", {})
        if not isinstance(value, dict):
            self.fail((*keys, "limits"), "must be a table", "write `limits = { call_s = 30 }`")
        self.known(value, (*keys, "limits"), {f.name for f in fields(Limits)})
        for name, number in value.items():
            if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < float("inf"):
                self.fail((*keys, "limits", name), f"must be a positive number (got {number!r})", "seconds or bytes")
        return Limits(**{f.name: value.get(f.name, getattr(base, f.name)) for f in fields(Limits)})


def _exercise(read: _Reader, slug: str, name: str, table: Any, base: Limits, speed_floor: float) -> Exercise:
    keys = ("chapters", slug, "exercises", name)
    if not isinstance(table, dict):
        read.fail(keys, "must be a table", f"write [chapters.{slug}.exercises.{name}]")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        read.fail(keys, "an exercise is named like its function", "use letters, digits and _")
    read.known(table, keys, {"title", "points", "threshold", "floor", "stretch", "stub", "hints", "limits"})
    points = read.get(table, (*keys, "points"), dict, "a table of points for each check")
    for check, value in points.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            read.fail(
                (*keys, "points"), f"`{check}` must be a whole number, 0 or more (got {value!r})", "points are whole"
            )
    speed = points.get(SPEED, 0)
    for key in ("threshold", "floor", "stretch"):
        value = table.get(key)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1000
        ):
            read.fail(
                (*keys, key),
                f"must be a ratio above 0 (got {value!r})",
                "time of the baseline / time of the submission",
            )
    if bool(speed) != ("threshold" in table):
        read.fail(keys, "points for `speed` and a `threshold` go together", "give both, or neither")
    threshold = table.get("threshold")
    floor = table.get("floor", threshold and speed_floor * threshold)
    if "floor" in table and (threshold is None or floor >= threshold):
        read.fail((*keys, "floor"), "must lie below a threshold", "below the floor, speed earns nothing")
    if "stretch" in table and table["stretch"] < table.get("threshold", 0):
        read.fail((*keys, "stretch"), "lies below the threshold", "the stretch is what the reference reaches")
    stub = read.get(table, (*keys, "stub"), str, "the stub's digest")
    hints = read.get(table, (*keys, "hints"), dict, "a table with lists `en` and `zh`")
    for language in LANGUAGES:
        given = hints.get(language)
        if not isinstance(given, list) or len(given) < 2 or not all(isinstance(h, str) and h.strip() for h in given):
            read.fail(
                (*keys, "hints"),
                f"`{language}` needs two or more hints, none empty",
                "write them from gentle to concrete",
            )
    if len(hints["en"]) != len(hints["zh"]):
        read.fail((*keys, "hints"), "en and zh differ in number", "translate each hint")
    return Exercise(
        name=name, chapter=slug, title=read.words(table, keys),
        points=MappingProxyType({k: v for k, v in points.items() if k != SPEED}), speed=speed,
        threshold=threshold, floor=floor, stretch=table.get("stretch"), stub=stub,
        hints=MappingProxyType({k: tuple(hints[k]) for k in LANGUAGES}), limits=read.limits(table, keys, base),
    )  # fmt: skip


def load(path: Path) -> Course:
    """Read and check a course file; `CourseError` says what is wrong where, and what to do."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"there is no course file at {path}", "run `grade` inside the course's folder") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "it must be a UTF-8 text file") from None
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        raise CourseError(
            str(path), int(at.group(1)) if at else len(text.splitlines()), "syntax", str(error), "see https://toml.io"
        ) from None
    except RecursionError:
        raise CourseError(str(path), 1, "the file", "is nested too deeply", "a course needs five levels") from None
    read = _Reader(path, text)
    read.known(raw, (), {"schema", "course", "title", "limits", "speed_floor", "modules", "chapters"})
    if read.get(raw, ("schema",), int, "the number 1") != 1:
        read.fail(("schema",), f"this version reads schema 1 (got {raw['schema']})", "update the harness")
    base = read.limits(raw, (), Limits())
    speed_floor = raw.get("speed_floor", 0.5)
    if isinstance(speed_floor, bool) or not isinstance(speed_floor, (int, float)) or not 0 <= speed_floor < 1:
        read.fail(("speed_floor",), f"must be a share of the threshold (got {speed_floor!r})", "for example 0.5")
    tables = read.get(raw, ("chapters",), dict, "a table of chapters")
    modules, placed = [], set()
    for name, table in read.get(raw, ("modules",), dict, "a table of modules").items():
        keys = ("modules", name)
        read.known(table, keys, {"title", "chapters"})
        chapters = []
        for slug in read.get(table, (*keys, "chapters"), list, "a list of chapter names"):
            if not isinstance(slug, str) or not re.fullmatch(r"ch\d\d_[a-z0-9_]+", slug):
                read.fail((*keys, "chapters"), f"{slug!r} is no chapter name", "chapters are called chNN_slug")
            if slug not in tables:
                read.fail((*keys, "chapters"), f"{slug} has no table", f"add [chapters.{slug}]")
            if slug in placed:
                read.fail((*keys, "chapters"), f"{slug} stands in two places", "name each chapter once")
            placed.add(slug)
            table_of = tables[slug]
            read.known(table_of, ("chapters", slug), {"title", "exercises"})
            exercises = table_of.get("exercises", {})
            if not isinstance(exercises, dict):
                read.fail(("chapters", slug, "exercises"), "must be a table", f"write [chapters.{slug}.exercises.NAME]")
            built = tuple(_exercise(read, slug, n, t, base, speed_floor) for n, t in exercises.items())
            chapters.append(Chapter(slug, name, read.words(table_of, ("chapters", slug)), built))
        modules.append(Module(name, read.words(table, keys), tuple(chapters)))
    for slug in tables:
        if slug not in placed:
            read.fail(("chapters", slug), "belongs to no module", "name it in a module's `chapters`")
    return Course(path, read.get(raw, ("course",), str, "the course's name"), read.words(raw, ()), tuple(modules))


def find(start: Path) -> Course:
    """The course in `start` or the nearest folder above it, else the one that the harness was installed from."""
    for folder in [start, *start.parents]:
        if (folder / "course.toml").is_file():
            return load(folder / "course.toml")
    return load(Path(__file__).resolve().parents[1] / "course.toml")


if __name__ == "__main__":  # the digests that `stub = ...` must hold, for whoever changes a stub
    for _exercise_found in find(Path.cwd()).exercises():
        _stub = Path.cwd() / "exercises" / _exercise_found.chapter / f"{_exercise_found.name}.py"
        print(f"{_exercise_found.id:<28} {digest(_stub.read_bytes())}")

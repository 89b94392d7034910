"""Files and messages of any content: an answer or one of the project's own errors, and soon."""

from __future__ import annotations

import io
import json
import string
import tomllib
import zipfile

import pytest
import targets
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.course import parse
from harness.submission.cells import Cell, assemble
from harness.submission.notebook import to_python

QUIET = settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
WORDS = ["code", "vec_add", "def vec_add(): pass", "cells", "\ud800", "%%bash\nx", "'''", "\0"]
TEXT = st.text(max_size=30) | st.sampled_from(WORDS)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


@pytest.fixture(scope="module", autouse=True)
def files():
    yield
    targets.remove_files()


@st.composite
def changed(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A sound file with stretches of it left out, doubled or written over."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(len(data), at + 40)))
        old = bytes(data[at:end])
        data[at:end] = draw(st.binary(max_size=12) | st.sampled_from([b"", old + old, b"\xff" * len(old)]))
    return bytes(data)


@pytest.mark.parametrize("name", targets.TARGETS)
def test_changed_files(name):
    seeds = list(targets.seeds(name))
    for seed in seeds:
        targets.TARGETS[name](seed)

    @QUIET
    @given(changed(seeds) | st.binary(max_size=100))
    def answers(data: bytes) -> None:
        targets.TARGETS[name](data)

    answers()


CELL = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.sampled_from(["code", "code", "code", "markdown", "raw", 3, None]), "source": VALUES, "input": VALUES,
        "metadata": VALUES, "outputs": VALUES, "language": VALUES, "prompt_number": VALUES,
    },
)  # fmt: skip
SHEET = st.fixed_dictionaries({"cells": st.lists(CELL | VALUES, max_size=3)})
NOTEBOOK = st.fixed_dictionaries(
    {},
    optional={
        "cells": st.lists(CELL | VALUES, max_size=4) | VALUES, "nbformat": st.integers(-1, 6) | VALUES, "nbformat_minor": VALUES,
        "metadata": VALUES, "worksheets": st.lists(SHEET | VALUES, max_size=3) | VALUES,
    },
)  # fmt: skip


@QUIET
@given(NOTEBOOK | VALUES)
def test_notebooks_of_any_structure(value):
    targets.notebook(json.dumps(value).encode())


PIECES = st.sampled_from(
    ["%a b", "!ls", "x?", "?x", "%%time", "x = !a", "x = 1", "(", ")", "[", "'", '"', "'''", '"""', "\\", "#", "\n", "\n",
     "    ", "def f():",
     "%b", "pass", ";", "# c", "f'{x}'", "@d", "if x:", "\t", "\r", "\x0c", "é", "lambda: 0", ":=", "global x", "from a import *"]
)  # fmt: skip


@settings(QUIET, max_examples=300)
@given(st.lists(PIECES, max_size=25).map("".join))
@example("a = (1\n!ls\n)")
def test_cells_become_python_line_for_line(text):
    text = text.replace("\r", "\n")
    python = to_python(text)
    assert python.count("\n") == text.count("\n")
    try:
        parse(text)
    except (SyntaxError, ValueError):
        return
    if not text.lstrip().startswith("%%") and not text.startswith((" ", "\t", "\n", "\x0c")):
        assert python == text  # what is Python stays as it is


@settings(QUIET, max_examples=100)
@given(st.lists(st.lists(PIECES, max_size=8).map("".join), max_size=4))
def test_a_module_tells_the_place_of_every_line(texts):
    cells = [Cell.of(number, to_python(text.replace("\r", "\n"))) for number, text in enumerate(texts, 1)]
    cells.append(Cell.of(9, "def f():\n    return x"))
    module, lines = assemble(cells, "f")
    for number, line in enumerate(module.split("\n")[:-1], 1):
        words = lines.place(number).replace(",", "").split()
        if words[0] == "cell" and int(words[3]) > 0 and line:
            (cell,) = (c for c in cells if c.number == int(words[1]))
            assert cell.lines[int(words[3]) - 1] == line
    assert any(lines.place(number) == "cell 9, line 2" for number in range(1, len(module.split("\n"))))


NAMES = st.lists(
    st.sampled_from(
        ["vec_add.py", "ch02", "ch02_triton_syntax", "..", ".", "", "C:", "a\\b", "x.ipynb", "ä", "__MACOSX", "\n",
         "Vec_Add (1).py"]
    ),
    min_size=1, max_size=5,
).map("/".join).filter(bool)  # fmt: skip
ENTRY = st.tuples(NAMES, st.binary(max_size=50), st.integers(0, 65535), st.sampled_from([0, 8, 12, 14]), st.integers(0, 255))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@QUIET
@given(st.lists(ENTRY, max_size=6))
def test_zips_of_any_entries(entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content, mode, method, system in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type, info.create_system = mode << 16, method, system
            archive.writestr(info, content)
    targets.zip(buffer.getvalue())


def toml(value: object) -> str:
    """A value as TOML, tables in a line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if value is None:
        return '""'
    return repr(value) if isinstance(value, float) else json.dumps(value)


@st.composite
def broken_course(draw: st.DrawFn) -> str:
    """The course with a value somewhere in it that is another, or is missing, or one that is too many."""
    course = tomllib.loads(targets.SMALL)
    for _ in range(draw(st.integers(1, 2))):
        table = course
        while draw(st.booleans()) and (inner := [v for v in table.values() if isinstance(v, dict)]):
            table = draw(st.sampled_from(inner))
        key = draw(st.sampled_from([*table, "x", ""]) | st.text(string.printable, max_size=5))
        if draw(st.booleans()):
            table.pop(key, None)
        else:
            table[key] = draw(VALUES.filter(lambda v: "\\ud800" not in json.dumps(v)))
    return "\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in course.items())


@settings(QUIET, max_examples=200)
@given(broken_course())
def test_courses_of_any_structure(text):
    targets.course(text.encode())


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 50_000, "a" + ".a" * 2_000 + " = 1", "a = " + "{a=" * 5_000, "[" * 9999, "x = 1\n" * 9999],
    ids=["lists", "keys", "tables", "headers", "twice"],
)  # fmt: skip
def test_courses_nested_deeply(text):
    targets.course(text.encode())

"""The table of known failures has every line, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import clock_tricks
import hostile_cases
import pytest
import tricks

from harness import course as courses
from harness.gate import solutions

ROOT = Path(__file__).parents[2]
LINES = range(1, 81)
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+) \| (.+?) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "known-failures.md").read_text(encoding="utf-8"))
RESULTS = ("holds", "open in part: ", "not built yet: ")


COURSE = courses.load(ROOT / "course.toml")
MUTANTS = {
    mutant.id
    for exercise in COURSE.exercises()
    for mutant in solutions.mutants(COURSE, exercise, solutions.reference_file(COURSE, exercise).read_text(encoding="utf-8"))
}


def parameters() -> dict[str, set[str]]:
    """Of the tests that the table names with one, by the same words that pytest uses."""
    return {
        "tests/adversaries/test_tricks.py::test_trick": {t.name.replace(" ", "_") for t in tricks.TRICKS},
        "tests/adversaries/test_clock.py::test_trick": {t.name.replace(" ", "_") for t in clock_tricks.TRICKS},
        "tests/test_hostile.py::test_case": {c.name.replace(" ", "_") for c in hostile_cases.CASES},
    }


def test_every_line_is_there_once_and_in_order():
    assert [int(row[0]) for row in ROWS] == list(LINES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_tests_of_a_line_exist(row):
    line, _kind, _what, tests, result = row
    named = re.findall(r"`([^`]+)`", tests)
    assert result.startswith(RESULTS)
    assert named or result.startswith("not built yet: ")
    for name in named:
        if " mutant: " in name:  # as `grade gate` calls it
            assert name in MUTANTS, f"{line}: {name}"
            continue
        base, _, parameter = name.partition("[")
        path, _, function = base.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{line}: {name}"
        if parameter:
            assert parameter.removesuffix("]") in parameters()[base], f"{line}: {name}"


def test_a_trick_stands_in_the_row_of_a_line_that_it_tries():
    """Each trick is named somewhere, and where it is named it says that it tries that line."""
    for trick in tricks.TRICKS:
        word = f"test_tricks.py::test_trick[{trick.name.replace(' ', '_')}]"
        rows = {int(row[0]) for row in ROWS if word in row[3]}
        assert rows == set(trick.lines), f"{trick.name}: {sorted(rows)}"

"""Broken and hostile work: each gets its own status and a message that names the problem, and the rest is graded."""

from __future__ import annotations

import re
from pathlib import Path

import hostile_cases as cases
import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "reference" / "ch02_triton_syntax"
QUICK = ("--device", "cpu", "--check", "aligned", "--examples", "2", "--seed", "1")


@pytest.fixture(scope="session")
def short_course(tmp_path_factory):
    """The course with short limits: a copy of course.toml, the graders beside it, no exercises and no references."""
    folder = tmp_path_factory.mktemp("course")
    text = (ROOT / "course.toml").read_text(encoding="utf-8")
    for name, value in (("import_s", 3), ("call_s", 4), ("memory_bytes", 400_000_000)):
        text, found = re.subn(rf"(?m)^{name} = [\d_]+$", f"{name} = {value}", text, count=1)
        assert found
    (folder / "course.toml").write_text(text, encoding="utf-8")
    (folder / "graders").symlink_to(ROOT / "graders")
    return folder


@pytest.fixture
def hostile(grade, short_course, tmp_path, monkeypatch):
    """Grades the source as ch02.vec_add and gives the outcome and the check "aligned" of the document."""

    def run(source: bytes, *options: str):
        monkeypatch.chdir(short_course)
        file = tmp_path / "vec_add.py"
        file.write_bytes(source)
        outcome = grade("ch02.vec_add", "--from", str(file), *(options or QUICK))
        assert outcome.document is not None, outcome.stderr
        (exercise,) = outcome.document["exercises"]
        return outcome, next(c for c in exercise["checks"] if c["name"] == "aligned")

    return run


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_case(hostile, case):
    source = case.source.replace(b"ROOT", repr(str(ROOT)).encode())
    outcome, check = hostile(source)
    assert re.fullmatch(case.status, check["status"]), check
    assert case.message in check["message"], check
    assert outcome.code == (0 if check["status"] == "passed" else 1)
    (exercise,) = outcome.document["exercises"]
    assert exercise["status"] == check["status"]
    if check["status"] != "passed":
        assert check["message"]
        assert exercise["score"] == 0
        assert check["replay"].startswith("grade ch02.vec_add --from ")

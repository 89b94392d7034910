"""Broken and hostile work: each gets its own status and a message that names the problem, and the rest is graded."""

from __future__ import annotations

import re
import shutil
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
    assert any(part in check["message"] for part in case.message.split("|")), check
    assert outcome.code == (0 if check["status"] == "passed" else 1)
    (exercise,) = outcome.document["exercises"]
    assert exercise["status"] == check["status"]
    if check["status"] != "passed":
        assert check["message"]
        assert exercise["score"] == 0
        assert check["replay"].startswith("grade ch02.vec_add --from ")


NEIGHBOURS = [
    "loop at import", "os._exit in the call", "segmentation fault", "kills everything", "fork bomb", "grows slowly",
    "writes to every descriptor", "syntax error", "missing function",
]  # fmt: skip


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_the_exercises_after_it_are_still_graded(grade, short_course, tmp_path, monkeypatch, name):
    monkeypatch.chdir(short_course)
    case = next(c for c in cases.CASES if c.name == name)
    (tmp_path / "vec_add.py").write_bytes(case.source)
    shutil.copy(REFERENCE / "outer_add.py", tmp_path)
    outcome = grade("ch02.vec_add", "ch02.outer_add", "--from", str(tmp_path), *QUICK)
    first, second = outcome.document["exercises"]
    assert re.fullmatch(case.status, first["status"]), first
    assert second["status"] == "passed", second
    assert outcome.code == 1


def test_all_checks_of_a_bad_import_say_why(hostile):
    """Without --check: what needs "aligned" is not run and says so; the file is not loaded again for each."""
    outcome, _ = hostile(b"import nosuchmodule\n", "--device", "cpu", "--examples", "2")
    (exercise,) = outcome.document["exercises"]
    status = {c["name"]: c["status"] for c in exercise["checks"]}
    assert status.pop("aligned") == status.pop("compiles") == "failed"
    assert set(status.values()) == {"not run"}
    assert {c["message"] for c in exercise["checks"] if c["status"] == "not run"} == {
        'needs "aligned", which did not pass (failed)'
    }


def test_a_flood_of_output_is_said(hostile):
    case = next(c for c in cases.CASES if c.name == "a megabyte of output")
    _, check = hostile(case.source)
    assert check["status"] == "passed"
    assert re.search(r"[\d,]{9,} bytes printed; the first and the last few kilobytes are kept", check["message"])


def test_interpreted_is_not_enough(hostile):
    """A kernel that only the interpreter accepts fails the check "compiles", with the line."""
    source = cases.HEAD.replace(
        "    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    inside = offsets < n\n    x =",
        "    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    inside = offsets < n\n    tl.nosuch(x_ptr)\n    x =",
    )
    outcome, _ = hostile((source + "vec_add = right\n").encode(), "--device", "cpu", "--check", "compiles")
    compiles = outcome.document["exercises"][0]["checks"][0]
    assert compiles["status"] == "compile error", compiles
    assert "sm_80" in compiles["message"] and "tl.nosuch" in compiles["message"]


@pytest.mark.parametrize("where", ["load", "call"])
def test_a_loop_while_it_is_compiled(hostile, where):
    """The compile gate has limits of its own; here the loop stands where only that gate runs."""
    body = "vec_add = right\n" if where == "load" else ""
    guard = "if os.environ.get('TRITON_INTERPRET') != '1':\n    os._exit(3)\n"
    inside = "def vec_add(x, y):\n    if os.environ.get('TRITON_INTERPRET') != '1': os._exit(3)\n    return right(x, y)\n"
    source = cases.HEAD + (body + guard if where == "load" else inside)
    outcome, aligned = hostile(source.encode(), "--device", "cpu", "--check", "compiles", "--check", "aligned", "--examples", "2")
    assert aligned["status"] == "passed"
    compiles = outcome.document["exercises"][0]["checks"][0]
    assert compiles["status"] == "crashed" and "exit code 3" in compiles["message"]
    assert outcome.code == 1

"""CONTRIBUTING.md is followed to the letter: the exercise it describes is added to a course of its own and graded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.course import digest

ROOT = Path(__file__).parents[1]
SLUG = "ch02_triton_syntax"
STUB = '''"""Scale every element by a number."""


def scale(x, factor):
    """z = factor * x."""
    # TODO: launch your kernel
    raise NotImplementedError
'''
HEAD = f"""schema = 1
course = "contributing"
title = {{ en = "c", zh = "c" }}
[modules.basics]
title = {{ en = "b", zh = "b" }}
chapters = ["{SLUG}"]
[chapters.{SLUG}]
title = {{ en = "s", zh = "s" }}
"""


def _blocks(language: str) -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A folder with nothing but what CONTRIBUTING.md says to write."""
    reference, grader, law = _blocks("python")
    (table,) = _blocks("toml")
    imports = (ROOT / "graders" / f"{SLUG}.py").read_text(encoding="utf-8").split("\nclass ")[0]
    files = {
        f"reference/{SLUG}/scale.py": reference,
        f"exercises/{SLUG}/scale.py": STUB,
        f"graders/{SLUG}.py": f"{imports}\nfrom harness.grading import choice\n\n{grader}\n{law}",
        "course.toml": HEAD + table.replace("0123456789abcdef", digest(STUB.encode())),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_reference_gets_full_marks(grade, course, monkeypatch):
    monkeypatch.chdir(course)
    outcome = grade("ch02.scale", "--from", "reference", "--device", "cpu")
    (result,) = outcome.document["exercises"]
    assert result["status"] == "passed", [c for c in result["checks"] if c["message"]]
    assert result["score"] + result["pending"] == result["max_score"]
    assert "linear" in {c["name"] for c in result["checks"]}


def test_the_stub_is_not_started(grade, course, monkeypatch):
    monkeypatch.chdir(course)
    outcome = grade("ch02.scale", "--device", "cpu")
    assert (outcome.code, outcome.document["exercises"][0]["status"]) == (1, "not started")


def test_a_fault_is_found(grade, course, monkeypatch):
    monkeypatch.chdir(course)
    right = (course / "reference" / SLUG / "scale.py").read_text()
    file = course / "scale.py"
    file.write_text(right.replace("tl.load(x_ptr + offsets, mask=inside)", "tl.load(x_ptr + offsets)"))
    outcome = grade("ch02.scale", "--from", str(file), "--device", "cpu", "--check", "aligned")
    (found,) = [c for c in outcome.document["exercises"][0]["checks"] if c["name"] == "aligned"]
    assert found["status"] == "failed"
    assert "AddressFault" in found["message"]
    assert "x_ptr + offsets" in found["message"]  # the student's own line

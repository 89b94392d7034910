"""What the tests of submissions share: the course, its second chapter, and a quick look at one exercise of it."""

from __future__ import annotations

from pathlib import Path

from harness import course as courses
from harness import submission

ROOT = Path(__file__).parents[1]
COURSE = courses.load(ROOT / "course.toml")
CHAPTER = "ch02_triton_syntax"
REFERENCE = ROOT / "reference" / CHAPTER
QUICK = ("--device", "cpu", "--check", "aligned", "--examples", "2", "--seed", "1")


def find(target: str, source: Path | None) -> list[submission.Submission]:
    return submission.find(COURSE, COURSE.select((target,)), source)

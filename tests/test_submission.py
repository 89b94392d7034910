"""What is handed in: names, folders, encodings, links, sizes; and what lies beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness import course as courses
from harness import submission
from harness.errors import UsageError

ROOT = Path(__file__).parents[1]
COURSE = courses.load(ROOT / "course.toml")
CHAPTER = "ch02_triton_syntax"
REFERENCE = ROOT / "reference" / CHAPTER
SOURCE = (REFERENCE / "vec_add.py").read_bytes()
QUICK = ("--device", "cpu", "--check", "aligned", "--examples", "2", "--seed", "1")


def find(target: str, source: Path | None) -> list[submission.Submission]:
    return submission.find(COURSE, COURSE.select((target,)), source)


def test_the_courses_own_exercises_are_the_default():
    for work in find("all", None):
        assert work.path == f"exercises/{work.exercise.chapter}/{work.exercise.name}.py"


@pytest.mark.parametrize("place", [f"{CHAPTER}/vec_add.py", "vec_add.py", "ch02/vec_add.py"])
def test_folders_with_and_without_chapters(tmp_path, place):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(SOURCE)
    (work,) = find("ch02.vec_add", tmp_path)
    assert work.files[work.main] == SOURCE
    assert work.sha256 == hashlib.sha256(SOURCE).hexdigest()
    assert not work.untouched and not work.missing


@pytest.mark.parametrize("name", ["vec_add.py", "vec_add__mine.py", "Lösung 2 'x'.py"])
def test_a_single_file_by_its_name_or_as_the_only_one_asked_for(tmp_path, name):
    (tmp_path / name).write_bytes(SOURCE)
    (work,) = find("ch02.vec_add", tmp_path / name)
    assert (work.exercise.id, work.main) == ("ch02.vec_add", "vec_add.py")


def test_a_single_file_among_several_exercises(tmp_path):
    (tmp_path / "vec_add.py").write_bytes(SOURCE)
    (work,) = find("ch02", tmp_path / "vec_add.py")
    assert work.exercise.id == "ch02.vec_add"
    (tmp_path / "other.py").write_bytes(SOURCE)
    with pytest.raises(UsageError, match=r"named like none of ch02\.vec_add") as caught:
        find("ch02", tmp_path / "other.py")
    assert "--from FILE" in caught.value.remedy


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda p: p, "nothing at"),
        (lambda p: p.mkdir() or p, "holds none of the files asked for"),
        (lambda p: p.with_suffix(".txt").write_text("x") and p.with_suffix(".txt"), "is not a Python file"),
        (lambda p: p.with_suffix(".py").write_bytes(bytes(2 << 20)) and p.with_suffix(".py"), "2,097,152 bytes"),
    ],
    ids=["missing path", "empty folder", "no Python file", "a file of 2 MB"],
)
def test_nothing_to_grade_is_wrong_usage(grade, tmp_path, make, what):
    outcome = grade("ch02.vec_add", "--from", str(make(tmp_path / "work")))
    assert outcome.code == 2
    assert what in outcome.stderr
    assert outcome.document is None


def test_one_missing_file_does_not_end_the_run(tmp_path):
    (tmp_path / "vec_ad.py").write_bytes(SOURCE)
    (tmp_path / "outer_add.py").write_bytes(SOURCE)
    by_name = {w.exercise.name: w for w in find("ch02", tmp_path)}
    assert "did you mean to call vec_ad.py that?" in by_name["vec_add"].missing
    assert "there is no gelu_tanh.py" in by_name["gelu_tanh"].missing
    assert not by_name["outer_add"].missing


def test_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "vec_add.py").write_bytes(SOURCE)
    (outside / "gelu_tanh.py").write_bytes(SOURCE)
    work = tmp_path / "work"
    work.mkdir()
    (work / "vec_add.py").symlink_to(outside / "vec_add.py")
    (work / "outer_add.py").write_bytes(SOURCE)
    (work / "helper.py").symlink_to("/etc/hostname")
    (work / "loop.py").symlink_to("loop.py")
    (work / "dangling.py").symlink_to("nowhere")
    by_name = {w.exercise.name: w for w in find("ch02", work)}
    assert "links are not followed" in by_name["vec_add"].refused
    assert list(by_name["outer_add"].files) == ["outer_add.py"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / CHAPTER).symlink_to(outside)
    assert all(w.refused for w in find("ch02.vec_add", tmp_path / "other"))


def test_what_is_refused_costs_its_exercise_only(grade, tmp_path):
    (tmp_path / "vec_add.py").write_bytes(b"# " + b"x" * (2 << 20))
    (tmp_path / "outer_add.py").write_bytes((REFERENCE / "outer_add.py").read_bytes())
    (tmp_path / "gelu_tanh.py").symlink_to(REFERENCE / "gelu_tanh.py")
    outcome = grade("ch02", "--from", str(tmp_path), *QUICK)
    status = {e["id"]: e["status"] for e in outcome.document["exercises"]}
    assert status == {"ch02.vec_add": "refused", "ch02.outer_add": "passed", "ch02.gelu_tanh": "refused"}
    assert "2,097,154 bytes" in outcome.document["exercises"][0]["checks"][0]["message"]
    assert outcome.code == 1


ENCODINGS = {
    "BOM": b"\xef\xbb\xbf" + SOURCE,
    "CRLF": SOURCE.replace(b"\n", b"\r\n"),
    "CR LF and BOM": b"\xef\xbb\xbf" + SOURCE.replace(b"\n", b"\r\n"),
    "latin-1, declared": b"# -*- coding: latin-1 -*-\n# \xe4\xf6\xfc\n" + SOURCE,
    "Chinese": "# 向量加法\n".encode() + SOURCE,
    "tabs at the end": SOURCE + b"\n\t\n\x0c\n",
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_encodings_are_graded(grade, tmp_path, name):
    (tmp_path / "vec_add.py").write_bytes(ENCODINGS[name])
    outcome = grade("ch02.vec_add", "--from", str(tmp_path), *QUICK)
    assert outcome.code == 0, outcome.document["exercises"][0]["checks"]


def test_latin_1_undeclared_says_so(grade, tmp_path):
    (tmp_path / "vec_add.py").write_bytes(b"NAME = '\xe4\xf6\xfc'\n" + SOURCE)
    outcome = grade("ch02.vec_add", "--from", str(tmp_path), *QUICK)
    check = next(c for c in outcome.document["exercises"][0]["checks"] if c["name"] == "aligned")
    assert check["status"] == "compile error"
    assert "utf-8" in check["message"].lower()


def test_files_beside_it_help_and_shadow_nothing(grade, tmp_path):
    (tmp_path / "vec_add.py").write_bytes(
        SOURCE.replace(b"import torch\n", b"import torch\nfrom my_sizes import BLOCK\n", 1).replace(b"BLOCK = 2048\n", b"")
    )
    (tmp_path / "my_sizes.py").write_text("BLOCK = 1024\n", encoding="utf-8")
    for name in ("torch", "triton", "numpy", "harness", "typing", "safetensors"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')\n", encoding="utf-8")
    outcome = grade("ch02.vec_add", "--from", str(tmp_path), *QUICK, "--check", "compiles")
    assert outcome.code == 0, outcome.document["exercises"][0]["checks"]

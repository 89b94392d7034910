"""What is handed in: names, folders, encodings, links, sizes; and what lies beside it."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from pathlib import Path

import pytest
from handed_in import CHAPTER, QUICK, REFERENCE, find

from harness.errors import UsageError

SOURCE = (REFERENCE / "vec_add.py").read_bytes()


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


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound(path: Path) -> None:
    place = os.getcwd()
    os.chdir(path.parent)  # the name of a socket may have 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(place)


ODD = {
    "a folder of that name": (lambda p: p.mkdir(), "vec_add.py is a folder, where a file is due"),
    "a pipe": (fifo, "vec_add.py is no file, but a pipe, a socket or a device"),
    "a socket": (bound, "vec_add.py is no file, but a pipe, a socket or a device"),
    "a device": (lambda p: os.mknod(p, 0o20666, os.makedev(1, 5)), "vec_add.py is no file, but a pipe, a socket or a device"),
    "a link": (lambda p: p.symlink_to("/dev/zero"), "vec_add.py is a link; links are not followed"),
    "a huge file": (lambda p: os.truncate(os.open(p, os.O_CREAT | os.O_WRONLY), 1 << 40), "has 1,099,511,627,776 bytes"),
    "UTF-16": (lambda p: p.write_bytes(SOURCE.decode().encode("utf-16")), "vec_add.py is UTF-16 text, and Python reads UTF-8"),
    "UTF-32": (lambda p: p.write_bytes(b"\0\0\xfe\xff" + SOURCE.decode().encode("utf-32-be")), "vec_add.py is UTF-32 text"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_text_file_is_refused_and_blocks_nothing(tmp_path, name):
    make, why = ODD[name]
    try:
        make(tmp_path / "vec_add.py")
    except PermissionError:
        pytest.skip("this user may not make devices")
    (tmp_path / "outer_add.py").write_bytes(SOURCE)
    started = time.monotonic()
    found = {w.exercise.name: w for w in find("ch02", tmp_path)}
    assert time.monotonic() - started < 5
    assert why in found["vec_add"].refused
    assert not found["outer_add"].refused


@pytest.mark.parametrize("place", ["a pipe.py", "a pipe.zip", "a pipe.ipynb", "/dev/zero"])
def test_from_a_pipe_or_a_device(grade, tmp_path, place):
    if not place.startswith("/"):
        os.mkfifo(tmp_path / place)
    outcome = grade("ch02.vec_add", "--from", str(tmp_path / place))
    assert outcome.code == 2
    assert "is neither a file nor a folder" in outcome.stderr


def test_what_may_not_be_read_costs_its_exercise_only(tmp_path, monkeypatch):
    (tmp_path / "vec_add.py").write_bytes(SOURCE)
    (tmp_path / "outer_add.py").write_bytes(SOURCE)
    opened = os.open

    def refuse(path, *args, **options):  # tests may run as root, whom no permissions stop
        if os.fspath(path) == str(tmp_path / "vec_add.py"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    found = {w.exercise.name: w for w in find("ch02", tmp_path)}
    assert found["vec_add"].refused == "vec_add.py cannot be read (Permission denied): check its permissions"
    assert found["outer_add"].files["outer_add.py"] == SOURCE


@pytest.mark.parametrize(
    "name", ["Vec_Add.py", "VEC_ADD.PY", "vec_add (1).py", "vec_add(2).py", "vec_add - Copy.py", "vec_add copy.py"]
)
def test_names_that_systems_and_browsers_make(tmp_path, name):
    (tmp_path / name).write_bytes(SOURCE)
    (found,) = find("ch02.vec_add", tmp_path)
    assert (found.main, found.files[found.main], found.path) == ("vec_add.py", SOURCE, f"{tmp_path}/{name}")
    (alone,) = find("ch02", tmp_path / name)
    assert (alone.exercise.name, alone.path) == ("vec_add", f"{tmp_path}/{name}")
    (tmp_path / "vec_add (7).py").write_bytes(SOURCE)
    (unsure,) = find("ch02.vec_add", tmp_path)
    assert "could each be vec_add.py: keep one" in unsure.refused
    (tmp_path / "vec_add.py").write_bytes(SOURCE)
    (sure,) = find("ch02.vec_add", tmp_path)
    assert sure.path == f"{tmp_path}/vec_add.py"


@pytest.mark.parametrize(
    ("folder", "shown"),
    [
        ("with space", "with space"), ("emoji 🚀", "emoji 🚀"), ("作业", "作业"), ("it's", "it's"), ("two\nlines", r"two\nlines"),
        (os.fsdecode(b"\xff\xfe"), r"\udcff\udcfe"),
    ],
)
def test_odd_folder_names_are_shown_and_can_be_typed_again(grade, tmp_path, folder, shown):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "vec_add.py").write_bytes(SOURCE.replace(b"x + y", b"x - y"))
    outcome = grade("ch02.vec_add", "--from", str(tmp_path / folder), *QUICK)
    (exercise,) = outcome.document["exercises"]
    assert exercise["file"] == f"{tmp_path}/{shown}/vec_add.py"
    replay = next(c["replay"] for c in exercise["checks"] if c["name"] == "aligned")
    assert "\n" not in replay and replay.encode()
    # bash says which words a person types with it.
    import subprocess

    typed = subprocess.run(["bash", "-c", f"printf '%s\\0' {replay}"], capture_output=True, check=True).stdout.split(b"\0")
    assert os.fsencode(tmp_path / folder) in typed


def test_names_that_the_terminal_cannot_show_end_no_run(grade_command, tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff\n")
    folder.mkdir()
    (folder / "vec_add.py").symlink_to("x")
    outcome = grade_command("ch02.vec_add", "--from", str(folder), "--device", "cpu")
    assert outcome.code == 1, outcome.stderr
    assert "links are not followed" in outcome.stdout
    outcome = grade_command("ch02.vec_add", "--from", str(folder / "vec_add.py"), "--device", "cpu")
    assert outcome.code == 2 and "there is nothing at" in outcome.stderr and "Traceback" not in outcome.stderr


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000])
def test_a_path_that_is_too_long(grade, name):
    outcome = grade("ch02.vec_add", "--from", name)
    assert outcome.code == 2
    assert "File name too long" in outcome.stderr


def test_ten_thousand_files_take_no_time(tmp_path):
    for n in range(5000):
        (tmp_path / f"f{n}.py").touch()
        (tmp_path / f"f{n}.ipynb").touch()
    (tmp_path / "vec_add.py").write_bytes(SOURCE + b"\nimport f4999\n")
    started = time.monotonic()
    found = {w.exercise.name: w for w in find("all", tmp_path)}
    assert time.monotonic() - started < 10
    assert len(found["vec_add"].files) <= 65
    assert "f4999.py" in found["vec_add"].files


def test_a_helper_that_is_imported_and_cannot_be_read_is_said(tmp_path):
    (tmp_path / "vec_add.py").write_bytes(SOURCE + b"\nimport helper\n")
    (tmp_path / "outer_add.py").write_bytes(SOURCE)
    (tmp_path / "helper.py").symlink_to("/etc/passwd")
    found = {w.exercise.name: w for w in find("ch02", tmp_path)}
    assert found["vec_add"].refused.startswith("helper.py is a link")
    assert not found["outer_add"].refused


def test_names_that_no_import_can_name_stay_behind(grade, tmp_path):
    (tmp_path / "vec_add.py").write_bytes(SOURCE)
    for name in (os.fsdecode(b"\xff.py"), "a b.py", "1.py", "\n.py", "-.py", "größe.py"):
        (tmp_path / name).write_text("x = 1\n", encoding="utf-8")
    (work,) = find("ch02.vec_add", tmp_path)
    assert set(work.files) == {"vec_add.py", "größe.py"}
    assert grade("ch02.vec_add", "--from", str(tmp_path), *QUICK).code == 0


def test_helpers_have_a_limit_together(tmp_path):
    (tmp_path / "vec_add.py").write_bytes(SOURCE + b"\nimport b7\n")
    for n in range(8):
        (tmp_path / f"b{n}.py").write_bytes(bytes(900_000))
    (work,) = find("ch02.vec_add", tmp_path)
    assert set(work.files) == {"vec_add.py", "b7.py", "b0.py", "b1.py", "b2.py"}
    (tmp_path / "vec_add.py").write_bytes(SOURCE + b"".join(b"\nimport b%d" % n for n in range(8)))
    (work,) = find("ch02.vec_add", tmp_path)
    assert "have more than 4,194,304 bytes" in work.refused


def test_one_folder_in_a_folder(tmp_path):
    inner = tmp_path / "work-main" / "work" / CHAPTER
    inner.mkdir(parents=True)
    (inner / "vec_add.py").write_bytes(SOURCE)
    (tmp_path / ".DS_Store").touch()
    (tmp_path / ".git").mkdir()
    (found,) = find("ch02.vec_add", tmp_path)
    assert found.path == f"{tmp_path}/work-main/work/{CHAPTER}/vec_add.py"


@pytest.mark.parametrize(
    "source", [b"-" * 200_000 + b"1", b"a" + b".a" * 200_000, b"1" + b"+1" * 100_000, b"(" * 5000, b"a," * 500_000],
    ids=["signs", "attributes", "sums", "brackets", "tuple"],
)  # fmt: skip
def test_code_nested_too_deeply_costs_its_exercise_only(tmp_path, source):
    (tmp_path / "vec_add.py").write_bytes(b"x = " + source)
    started = time.monotonic()
    assert [w.untouched for w in find("ch02.vec_add", tmp_path)] == [False]
    assert time.monotonic() - started < 5


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

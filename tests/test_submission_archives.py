"""Archives: whatever is in one, what can be graded is graded, and nothing in it reaches the machine."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from handed_in import CHAPTER, QUICK, REFERENCE, ROOT, find

from harness import sandbox
from harness.errors import UsageError

SOURCE = (REFERENCE / "vec_add.py").read_bytes()


def pack(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def odd(path: Path, name: str, mode: int, content: bytes = b"") -> Path:
    """An archive with an outer_add that is sound, and an entry of another kind."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("outer_add.py", (REFERENCE / "outer_add.py").read_bytes())
        archive.writestr(info, content)
    return path


@pytest.mark.parametrize(
    "prefix", ["", f"{CHAPTER}/", "ch02/", f"my work/{CHAPTER}/", "Doe, J/ü/", f"a\\{CHAPTER}\\"], ids=lambda p: p or "flat"
)
def test_layouts(tmp_path, prefix):
    work = pack(tmp_path / "work.zip", {f"{prefix}vec_add.py": SOURCE, "__MACOSX/._vec_add.py": b"\0", ".DS_Store": b"\0"})
    (found,) = find("ch02.vec_add", work)
    assert found.files["vec_add.py"] == SOURCE
    assert found.path == f"{work}/{prefix}vec_add.py".replace("\\", "/")
    assert found.sha256 == hashlib.sha256(SOURCE).hexdigest()


def test_a_zip_is_graded_with_its_helpers_and_shadows_nothing(grade, tmp_path):
    own = SOURCE.replace(b"import torch\n", b"import torch\nfrom my_sizes import BLOCK\n", 1).replace(b"BLOCK = 2048\n", b"")
    files = {"vec_add.py": own, "my_sizes.py": b"BLOCK = 1024\n"}
    files |= {f"{n}.py": b"raise SystemExit('shadowed')\n" for n in ("torch", "triton", "numpy", "harness", "typing")}
    work = pack(tmp_path / "my work.zip", {f"w/{CHAPTER}/{name}": content for name, content in files.items()})
    outcome = grade("ch02.vec_add", "--from", str(work), *QUICK)
    (exercise,) = outcome.document["exercises"]
    assert outcome.code == 0, exercise
    assert exercise["file"] == f"{work}/w/{CHAPTER}/vec_add.py"
    assert exercise["sha256"] == hashlib.sha256(own).hexdigest()


def test_the_replay_of_a_failure_in_a_zip_repeats_it(grade, tmp_path):
    import shlex

    work = pack(tmp_path / "it's (1).zip", {"vec_add.py": SOURCE.replace(b"x + y", b"x - y")})
    outcome = grade("ch02.vec_add", "--from", str(work), *QUICK)
    check = next(c for c in outcome.document["exercises"][0]["checks"] if c["name"] == "aligned")
    assert check["status"] == "failed"
    words = shlex.split(check["replay"])
    again = grade(*words[1:])
    repeated = next(c for c in again.document["exercises"][0]["checks"] if c["name"] == "aligned")
    assert repeated["message"] == check["message"]
    assert repeated["counterexample"] == check["counterexample"]


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tgz", "TAR.GZ"])
def test_tars(tmp_path, suffix):
    work = tmp_path / f"work.{suffix}"
    with tarfile.open(work, "w" if suffix == "tar" else "w:gz") as archive:
        info = tarfile.TarInfo(f"me/{CHAPTER}/vec_add.py")
        info.size = len(SOURCE)
        archive.addfile(info, io.BytesIO(SOURCE))
        for name, kind in (("outer_add.py", tarfile.SYMTYPE), ("gelu_tanh.py", tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(f"me/{CHAPTER}/{name}")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    vec_add, outer_add, gelu_tanh = find("ch02", work)
    assert vec_add.files["vec_add.py"] == SOURCE
    assert vec_add.path == f"{work}/me/{CHAPTER}/vec_add.py"
    assert "links are not followed" in outer_add.refused
    assert "is no file, but a pipe" in gelu_tanh.refused


def encrypted(path: Path) -> Path:
    """An archive whose headers say that it is encrypted, which is all that one can see without the password."""
    pack(path, {"vec_add.py": SOURCE, "outer_add.py": SOURCE})
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    path.write_bytes(data)
    return path


def lying(path: Path, size: int) -> Path:
    """An archive whose first entry is said to have another size than it has."""
    pack(path, {"vec_add.py": SOURCE, "outer_add.py": SOURCE})
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", size)
    path.write_bytes(data)
    return path


def overlapping(path: Path) -> Path:
    """Two entries that are one and the same stretch of the file."""
    pack(path, {"vec_add.py": SOURCE, "outer_add.py": SOURCE})
    data = bytearray(path.read_bytes())
    first = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", first + 4)
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    path.write_bytes(data)
    return path


def twice(path: Path) -> Path:
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "w") as archive:
        for content in (SOURCE, b"# another\n"):
            archive.writestr("vec_add.py", content)
        archive.writestr("outer_add.py", SOURCE)
    return path


def spoilt(path: Path) -> Path:
    pack(path, {"vec_add.py": SOURCE, "outer_add.py": SOURCE}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[data.index(b"import torch")] ^= 0xFF
    path.write_bytes(data)
    return path


REFUSED = {
    "a link": (lambda p: odd(p, "vec_add.py", stat.S_IFLNK | 0o777, b"/etc/passwd"), "is a link; links are not followed"),
    "a device": (lambda p: odd(p, "vec_add.py", stat.S_IFCHR | 0o666), "is no file, but a pipe or a device"),
    "a folder of that name": (lambda p: pack(p, {"vec_add.py/x.txt": b"", "outer_add.py": SOURCE}), "is a folder"),
    "encrypted": (encrypted, "is encrypted: pack it again as an ordinary zip, without a password"),
    "a name twice": (twice, "stands in it more than once"),
    "bzip2": (lambda p: pack(p, {"vec_add.py": SOURCE}, zipfile.ZIP_BZIP2), "is packed by method 12"),
    "lzma": (lambda p: pack(p, {"vec_add.py": SOURCE}, zipfile.ZIP_LZMA), "is packed by method 14"),
    "spoilt on its way": (spoilt, "is damaged (Bad CRC-32"),
    "smaller than it is": (lambda p: lying(p, 10), "is damaged"),
    "larger than it is": (lambda p: lying(p, len(SOURCE) + 9), "is damaged (it ends after"),
    "larger than all memory": (lambda p: lying(p, 2**32 - 2), "has 4,294,967,294 bytes, more than 1,048,576"),
    "a bomb": (lambda p: pack(p, {"vec_add.py": bytes(300 << 20)}), "has 314,572,800 bytes, more than 1,048,576"),
    "UTF-16": (lambda p: pack(p, {"vec_add.py": SOURCE.decode().encode("utf-16")}), "is UTF-16 text"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why_and_costs_its_exercise_only(tmp_path, name):
    make, why = REFUSED[name]
    found = {w.exercise.name: w for w in find("ch02", make(tmp_path / "work.zip"))}
    assert why in found["vec_add"].refused
    assert "vec_add.py" in found["vec_add"].refused
    assert not found["vec_add"].files
    assert not found["outer_add"].refused


def test_refused_is_what_the_document_says(grade, tmp_path):
    work = odd(tmp_path / "work.zip", "vec_add.py", stat.S_IFLNK | 0o777, b"/etc/passwd")
    outcome = grade("ch02.vec_add", "ch02.outer_add", "--from", str(work), *QUICK)
    refused, passed = outcome.document["exercises"]
    assert (outcome.code, refused["status"], passed["status"]) == (1, "refused", "passed")
    assert refused["checks"][0]["message"].startswith("vec_add.py is a link; links are not followed")


def test_entries_that_overlap_are_read_as_what_they_are_or_refused(tmp_path):
    for work in find("ch02", overlapping(tmp_path / "work.zip")):
        assert not work.files or set(work.files.values()) == {SOURCE}


SLIPS = [
    "../vec_add.py",
    "/vec_add.py",
    "a/../../vec_add.py",
    "C:\\vec_add.py",
    "C:vec_add.py",
    "..\\vec_add.py",
    "/" * 9 + "vec_add.py",
]


@pytest.mark.parametrize("name", SLIPS)
def test_names_that_lead_out_are_left_out_and_said(grade, tmp_path, name):
    (tmp_path / "in").mkdir()
    work = pack(tmp_path / "in" / "work.zip", {name: SOURCE, "notes.txt": b""})
    outcome = grade("ch02.vec_add", "--from", str(work))
    assert outcome.code == 2
    assert "1 of its names lead out of it and are left out" in outcome.stderr
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["in", "work.zip"]


def test_nested_archives_are_not_opened(grade, tmp_path):
    inner = pack(tmp_path / "inner.zip", {"vec_add.py": SOURCE}).read_bytes()
    outcome = grade("ch02.vec_add", "--from", str(pack(tmp_path / "work.zip", {"me/inner.zip": inner})))
    assert outcome.code == 2
    assert "an archive in it is not opened (me/inner.zip)" in outcome.stderr


def bomb(path: Path, entries: int) -> Path:
    """A list of entries that is far longer than any submission's."""
    info = b"PK\x01\x02" + bytes(24) + struct.pack("<HHH", 4, 0, 0) + bytes(12)
    index = (info + b"a.py") * entries
    path.write_bytes(index + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, entries % 65536, entries % 65536, len(index), 0, 0))
    return path


UNREADABLE = {
    "empty.zip": (lambda p: p.write_bytes(b""), "is empty"),
    "nothing.zip": (lambda p: pack(p, {}), "holds none of the files asked for"),
    "text.zip": (lambda p: p.write_text("no zip\n"), "is no zip, or a damaged one"),
    "cut.zip": (lambda p: p.write_bytes(pack(p, {"vec_add.py": SOURCE}).read_bytes()[:-30]), "is no zip, or a damaged one"),
    "many.zip": (lambda p: bomb(p, 1_000_000), "its list of files has"),
    "large.zip": (lambda p: os.truncate(os.open(p, os.O_CREAT | os.O_WRONLY), 1 << 40), "1,099,511,627,776 bytes"),
    "empty.tar": (lambda p: p.write_bytes(b""), "is empty"),
    "text.tar.gz": (lambda p: p.write_text("no tar\n"), "is no tar, or a damaged one"),
    "work.rar": (lambda p: p.write_bytes(b"Rar!"), "is not a Python file"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_archives_that_cannot_be_read(grade, tmp_path, name):
    make, why = UNREADABLE[name]
    make(tmp_path / name)
    outcome = grade("ch02.vec_add", "--from", str(tmp_path / name))
    assert outcome.code == 2
    assert name in outcome.stderr and why in outcome.stderr


def test_a_tar_bomb(tmp_path):
    import gzip

    with gzip.open(tmp_path / "work.tgz", "wb", compresslevel=1) as file:
        for _ in range(80):
            file.write(bytes(1 << 20))
    with pytest.raises(UsageError, match="holds more than 67,108,864 bytes"):
        find("ch02", tmp_path / "work.tgz")


def test_a_tar_that_leads_back_ends(tmp_path):
    """A header whose size is below zero: read naively, the same header comes again and again (CVE-2025-8194)."""
    info = tarfile.TarInfo("a.py")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (-512).to_bytes(12, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    (tmp_path / "work.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(header) + bytes(2048))
    started = time.monotonic()
    with pytest.raises(UsageError, match="damaged tar"):
        find("ch02", tmp_path / "work.tar")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("raw", "flags", "shown"),
    [
        ("größe".encode("cp437"), 0, "größe"),
        ("größe".encode(), 0, "größe"),
        ("作业".encode(), 0x800, "作业"),
        (b"a\nb\x1b", 0, r"a\nb\x1b"),
    ],
    ids=["cp437", "UTF-8, not said", "UTF-8", "control characters"],
)
def test_names_in_other_encodings(tmp_path, raw, flags, shown):
    pack(tmp_path / "work.zip", {"X" * len(raw) + "/vec_add.py": SOURCE})
    data = bytearray((tmp_path / "work.zip").read_bytes().replace(b"X" * len(raw), raw))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(mark) + offset
        data[at : at + 2] = struct.pack("<H", flags)
    (tmp_path / "work.zip").write_bytes(data)
    (found,) = find("ch02.vec_add", tmp_path / "work.zip")
    assert found.path.endswith(f"work.zip/{shown}/vec_add.py")


def test_ten_thousand_files_take_no_time(tmp_path):
    files = {f"junk/{n // 100}/{n}.py": b"" for n in range(10_000)} | {f"{n}.py": b"x" for n in range(3000)}
    work = pack(tmp_path / "work.zip", files | {"vec_add.py": SOURCE + b"import zz_last\n", "zz_last.py": b"y"})
    started = time.monotonic()
    found = {w.exercise.name: w for w in find("all", work)}
    assert time.monotonic() - started < 10
    assert len(found["vec_add"].files) <= 65
    assert "zz_last.py" in found["vec_add"].files


@pytest.fixture
def no_sandbox(monkeypatch):
    """A machine whose kernel has no Landlock."""
    probe = sandbox.Probe(0, True, True, True, True, None, False, {"landlock_abi": "the kernel has no Landlock"})
    monkeypatch.setattr(sandbox, "probe", lambda: probe)


@pytest.mark.parametrize(
    ("command", "remedy"), [((), "add --unsandboxed"), (("inspect",), "hand in its .py files")], ids=["run", "inspect"]
)
def test_without_a_sandbox_nothing_of_an_archive_runs(tmp_path, monkeypatch, no_sandbox, command, remedy):
    from click.testing import CliRunner

    from harness.cli import grade as whole
    from harness.errors import MachineError
    from harness.examiner import warm

    def started(*args, **options):
        raise AssertionError("a process was started")

    monkeypatch.setattr(warm.Warm, "__init__", started)
    monkeypatch.chdir(ROOT)
    work = pack(tmp_path / "work.zip", {"vec_add.py": SOURCE})
    result = CliRunner().invoke(whole, [*command, "ch02.vec_add", "--from", str(work)], standalone_mode=False)
    assert isinstance(result.exception, MachineError)
    assert result.exception.exit_code == 3
    assert "nothing was run" in str(result.exception)
    assert "Landlock" in str(result.exception) and str(result.exception).endswith(remedy)


def test_without_a_sandbox_a_folder_and_what_is_trusted_run(grade, tmp_path, no_sandbox):
    work = pack(tmp_path / "work.zip", {"vec_add.py": SOURCE})
    assert grade("ch02.vec_add", "--from", str(work), "--unsandboxed", *QUICK).code == 0
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "vec_add.py").write_bytes(SOURCE)
    assert grade("ch02.vec_add", "--from", str(tmp_path / "folder"), *QUICK).code == 0

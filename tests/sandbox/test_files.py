"""Files and programs: what a caged process cannot read, write or start."""

import ctypes
import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness import sandbox
from harness.sandbox import landlock

from .conftest import REFUSED, SECRET, Place, Worker, called, errors

pytestmark = pytest.mark.usefixtures("as_probed")


def test_answers_are_out_of_reach(worker: Worker) -> None:
    repository = worker.place.repository

    def work() -> list[object]:
        os.chdir("/")
        closed = [repository / n / "file.py" for n in ("reference", "graders", "tests", "exercises", ".git")]
        indirect = Path("/proc/self/root") / str(closed[0]).lstrip("/")
        folders = [
            repository,
            repository / "reference",
            Path("/root"),
            Path("/home"),
            Path("/tmp"),
            Path("/"),
        ]
        return [
            errors(*[p.read_text for p in (*closed, indirect)]),
            errors(*[lambda p=p: os.listdir(p) for p in folders]),
            (repository / "harness" / "file.py").read_text(),
        ]

    files, folders, own = worker.run(work).value
    assert set(files) == {errno.EACCES}
    assert set(folders) <= {errno.EACCES, errno.ENOENT}
    assert own == SECRET


def test_the_real_repository_is_out_of_reach(worker: Worker) -> None:
    repository = Path(__file__).resolve().parents[2]
    cage = replace(worker.place.cage, readable=sandbox.default_readable(repository))
    names = [n for n in ("reference", "graders", "tests", "exercises", ".git") if (repository / n).is_dir()]
    value = worker.run(
        lambda: errors(*[lambda n=n: os.listdir(repository / n) for n in names]), cage=cage
    ).value
    assert value == [errno.EACCES] * len(names)


def writes(place: Place) -> list[Callable[[], object]]:
    """Ways to change something outside of the scratch folder."""
    file, folder, scratch = place.outside / "file", place.outside, place.scratch

    def rename_out() -> None:
        (scratch / "mine").write_text("x")
        os.rename(scratch / "mine", folder / "mine")

    return [
        lambda: open(file, "w"),
        lambda: open(file, "a"),
        lambda: os.open(file, os.O_RDONLY | os.O_TRUNC),
        lambda: os.open(folder, os.O_TMPFILE | os.O_RDWR),
        lambda: os.open(folder / "new", os.O_CREAT | os.O_WRONLY),
        lambda: os.truncate(file, 0),
        rename_out,
        lambda: os.rename(file, scratch / "stolen"),
        lambda: os.rename(file, folder / "renamed"),
        lambda: os.link(file, scratch / "hard"),
        lambda: os.link(scratch / "mine", folder / "hard"),
        lambda: os.unlink(file),
        lambda: os.mkdir(folder / "new"),
        lambda: os.symlink("/", folder / "sym"),
        lambda: os.mkfifo(folder / "fifo"),
        lambda: open(scratch / "link", "w"),
        lambda: open(scratch / "link", "a"),
        lambda: os.truncate(scratch / "link", 0),
        lambda: open(scratch / "door" / "new", "w"),
        lambda: open("/proc/self/cwd/../outside/file", "a"),
        lambda: open("/proc/self/mem", "r+b"),
        lambda: os.symlink("/etc", scratch / "sym"),
        lambda: os.mkfifo(scratch / "fifo"),
        lambda: os.chmod(file, 0),
        lambda: os.chmod(scratch / "mine", 0o4777),
        lambda: os.chown(file, os.geteuid(), os.getegid()),
        lambda: os.utime(file, (0, 0)),
        lambda: os.setxattr(file, "user.x", b"y"),
        lambda: open("/dev/shm/x", "w"),
        lambda: open("/tmp/x-of-a-cage", "w"),
    ]


def test_nothing_is_written_outside_of_scratch(worker: Worker) -> None:
    ways = writes(worker.place)
    found = worker.run(lambda: errors(*ways)).value
    assert [i for i, e in enumerate(found) if e not in (*REFUSED, errno.EXDEV, errno.ENOENT)] == []
    assert (worker.place.outside / "file").read_text() == "precious"
    assert [p.name for p in worker.place.outside.iterdir()] == ["file"]


@pytest.mark.parametrize("version", range(1, 8))
def test_every_older_landlock(version: int, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older kernel offers fewer rights; what Landlock then leaves open, the filter closes."""
    if landlock.abi() < version:
        assert landlock.abi() == 0 or version > landlock.abi()
        return
    monkeypatch.setattr(landlock, "abi", lambda: version)
    ways = writes(place)

    def work() -> list[object]:
        (place.scratch / "a").write_text("x")
        os.rename(place.scratch / "a", place.scratch / "b")
        own = errors(
            lambda: socket.socket(), lambda: os.kill(os.getppid(), 0), lambda: os.kill(os.getpid(), 0)
        )
        return [errors(*ways), own, sandbox.Level.LANDLOCK]

    value = Worker("root", False, place).run(work).value
    found, own, _ = value
    assert [i for i, e in enumerate(found) if e not in (*REFUSED, errno.EXDEV, errno.ENOENT)] == []
    assert own == [errno.EPERM, errno.EPERM, 0]
    assert (place.outside / "file").read_text() == "precious"


def test_without_landlock_the_filter_stands(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    ended = Worker("root", False, place).run(
        lambda: errors(
            lambda: socket.socket(), lambda: os.kill(os.getppid(), 0), lambda: os.execv("/bin/true", ["true"])
        )
    )
    assert ended.level == sandbox.Level.NONE
    assert ended.value == [errno.EPERM] * 3


def test_no_program_is_started(worker: Worker) -> None:
    def work() -> list[int]:
        return errors(
            lambda: os.execv("/bin/true", ["true"]),
            lambda: subprocess.run(["/bin/true"], check=True),
            called("execveat", -100, b"/bin/true\0", None, None, 0),
        )

    assert all(e in REFUSED for e in worker.run(work).value)


def test_only_named_programs_are_started(worker: Worker) -> None:
    cage = replace(worker.place.cage, executable=(Path("/bin/true"),))

    def work() -> list[object]:
        fine = subprocess.run(["/bin/true"], check=False).returncode
        (worker.place.scratch / "own").write_bytes(Path("/bin/true").read_bytes())
        return [
            fine,
            errors(
                lambda: subprocess.run(["/bin/ls"], check=False),
                lambda: subprocess.run([str(worker.place.scratch / "own")], check=False),
            ),
        ]

    fine, others = worker.run(work, cage=cage).value
    assert fine == 0
    assert others == [errno.EACCES] * 2


def test_a_started_program_is_caged_as_well(worker: Worker) -> None:
    cage = replace(worker.place.cage, executable=(Path("/bin/cat"), Path("/bin/true")))
    secret = worker.place.repository / "reference" / "file.py"

    def work() -> list[object]:
        done = subprocess.run(["/bin/cat", str(secret)], capture_output=True, check=False)
        return [done.returncode, done.stdout.decode()]

    assert worker.run(work, cage=cage).value == [1, ""]


def test_a_compiler_works_within(worker: Worker) -> None:
    """What Triton does on a GPU: a C file becomes a library, by way of temporary files, and is loaded."""
    compiler = shutil.which("gcc")
    if compiler is None:
        assert not any(path.name.endswith("gcc") for path in sandbox.default_executable())
        return
    cage = replace(worker.place.cage, executable=sandbox.default_executable())

    def work() -> list[object]:
        Path("three.c").write_text("int three(void) { return 3; }")
        command = [compiler, "-shared", "-fPIC", "three.c", "-o", "three.so"]
        environment = {"TMPDIR": os.getcwd(), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return [done.stderr, ctypes.CDLL(os.path.abspath("three.so")).three()]

    assert worker.run(work, cage=cage).value == ["", 3]

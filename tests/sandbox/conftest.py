"""Runs a function in a cage: forked, as root and as a plain user, with namespaces and without."""

import ctypes
import errno
import json
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness import sandbox
from harness.sandbox import syscalls

# A user of this process alone: where the kernel counts a user's processes, tests side by side would count together.
PLAIN = 50_000 + os.getpid() % 8000
SECRET = "the answer is 42"
# What numpy imports of the standard library, imported before the cage: where the interpreter lies in a home
# folder of root, a plain user could not read it, cage or not. numpy itself is left to the cage.
BEFORE = """
import sys, json
old = set(sys.modules)
import numpy
new = {name: getattr(module, "__file__", "") or "" for name, module in sys.modules.items() if name not in old}
print(json.dumps([n for n, file in new.items() if not n.startswith("numpy") and "site-packages" not in file]))
"""
LIMITS = sandbox.Limits(processes=40, file_bytes=1 << 22, data_bytes=256 << 20, open_files=128, cpu_s=20)


REFUSED = (errno.EPERM, errno.EACCES)


def errors(*works: Callable[[], object]) -> list[int]:
    """The error number of each, 0 where one succeeded."""
    found = []
    for work in works:
        try:
            work()
            found.append(0)
        except OSError as error:
            found.append(error.errno or -1)
    return found


def called(name: str, *arguments: int | bytes | None) -> Callable[[], int]:
    return lambda: syscalls.call(name, *arguments)


@dataclass
class Place:
    """A repository that looks like a course's, a scratch folder, and a file outside of both."""

    repository: Path
    scratch: Path
    outside: Path
    cage: sandbox.Cage


@pytest.fixture
def place() -> Iterator[Place]:
    base = Path(tempfile.mkdtemp(prefix="cage-"))  # pytest's own folder is closed to a plain user
    base.chmod(0o755)
    repository, scratch = base / "course", base / "scratch"
    for name in ("reference", "graders", "harness", "exercises", "tests", ".git"):
        (repository / name).mkdir(parents=True)
        (repository / name / "file.py").write_text(SECRET)
        (repository / name / "file.py").chmod(0o666)
    scratch.mkdir()
    outside = base / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    (outside / "file").write_text("precious")
    (outside / "file").chmod(0o666)
    (scratch / "link").symlink_to(outside / "file")
    (scratch / "door").symlink_to(outside)
    scratch.chmod(0o777)
    readable = sandbox.default_readable(repository)
    yield Place(repository, scratch, outside, sandbox.Cage(scratch, readable, (), gpu=False, limits=LIMITS))
    shutil.rmtree(base, ignore_errors=True)


@dataclass
class Ended:
    """What a caged function returned, or how its process ended."""

    value: Any
    status: int
    level: str
    namespaces: list[str]


class Worker:
    """Starts wardens and workers the way the examiner's warm parent does."""

    def __init__(self, user: str, namespaces: bool, place: Place) -> None:
        self.user, self.namespaces, self.place = user, namespaces, place

    def start(
        self,
        work: Callable[[], Any],
        *,
        cage: sandbox.Cage | None = None,
        sockets: bool = False,
        **limits: Any,
    ) -> tuple[int, int]:
        """Forks; the warden's number and the descriptor on which the result arrives."""
        cage = cage or self.place.cage
        cage = replace(cage, limits=replace(cage.limits, **limits))
        reader, writer = os.pipe()
        warden = os.fork()
        if warden:
            os.close(writer)
            return warden, reader
        try:
            os.close(reader)
            if self.user == "plain" and os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(PLAIN, PLAIN, PLAIN)
                os.setresuid(PLAIN, PLAIN, PLAIN)
                sandbox_dumpable()
            made = sandbox.enter_namespaces() if self.namespaces else ()
            worker = os.fork()
            if worker == 0:
                self._worker(work, cage, sockets, made, writer)
            os.close(writer)
            status = os.waitpid(worker, 0)[1]
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
        except BaseException:
            traceback.print_exc()
            os._exit(99)

    def _worker(
        self, work: Callable[[], Any], cage: sandbox.Cage, sockets: bool, made: tuple[str, ...], writer: int
    ) -> None:
        code = 98
        try:
            sandbox.fresh_proc()
            level = sandbox.enter(cage, sockets=sockets)
            try:
                value = work()
            except BaseException as error:
                number = getattr(error, "errno", None)
                value = {"raised": type(error).__name__, "errno": number, "text": str(error)}
            os.write(writer, json.dumps([value, level, list(made)]).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def run(self, work: Callable[[], Any], **options: Any) -> Ended:
        """What `work` returned in the cage."""
        warden, reader = self.start(work, **options)
        with open(reader, "rb") as pipe:
            text = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(warden, 0)[1])
        value, level, made = json.loads(text) if text else (None, "", [])
        return Ended(value, status, level, made)


def sandbox_dumpable() -> None:
    """A process that gave root up is hidden from its new user; a warden that started as that user is not."""
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)


USERS = ("root", "plain") if os.geteuid() == 0 else ("plain",)


@pytest.fixture(params=[f"{user}-{kind}" for user in USERS for kind in ("ns", "bare")])
def worker(request: pytest.FixtureRequest, place: Place) -> Worker:
    user, kind = request.param.split("-")
    # What tests before have freed goes back to the system: a fork would fill it again without a growth that can be seen.
    ctypes.CDLL(None).malloc_trim(0)
    return Worker(user, kind == "ns", place)


@pytest.fixture(scope="session")
def probe() -> sandbox.Probe:
    return sandbox.probe()


@pytest.fixture
def victim() -> Iterator[int]:
    """A process that the cage must not reach."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.write(told, b"1")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    os.close(ready)
    os.close(told)
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.fixture
def as_probed(probe: sandbox.Probe) -> None:
    """Where the kernel lacks a fence the probe has to say so; the tests of the fence then have no object."""
    if probe.cage is sandbox.Level.NONE:
        assert probe.reasons.get("landlock_abi") or probe.reasons.get("seccomp")
        assert probe.remedies()
        pytest.skip(f"no cage on this machine, and the probe says so: {probe.reasons}")

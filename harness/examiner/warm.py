"""Warm parents and the workers they fork, seen from the examiner: start, ask with a time limit, kill, say how it ended."""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import os
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import interrupt, mailbox, sandbox
from harness.course import Limits
from harness.errors import MachineError
from harness.examiner import launch
from harness.examiner.kernel_store import KernelStore
from harness.mailbox import Mailbox
from harness.sandbox import watch
from harness.status import Status

START_LIMIT_S = 180.0  # a cold import of torch from a slow disk
POLL_S = 0.05  # between two looks at a worker's memory
GPU_HOST_MEMORY = 32 << 30  # CUDA and Triton map and touch gigabytes of host memory of their own
GPU_PROCESSES = 512  # CUDA starts threads by the core
KEPT_OUTPUT = 4096  # bytes of a worker's output kept from its head, and as many from its tail

_fork = multiprocessing.get_context("fork")  # what judges, which are forks, share with this process
_ANSWERS = frozenset({"ok", *(str(s) for s in Status if s not in (Status.PASSED, Status.NOT_RUN, Status.ERROR))})


class WorkerDied(Exception):
    """The worker ended, or was ended, before it answered. `status` and `message` are the submission's to read."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


# What an examiner does while a worker is at work on its question. Called with the worker and with what tells whether there
# is nothing more to wait for: the answer is there, or it is late.
Meanwhile = Callable[["Worker", Callable[[], bool]], None]


class Output:
    """What a worker prints: drained all the time, head and tail kept, the rest counted."""

    def __init__(self, fd: int) -> None:
        self.head, self.tail, self.total, self._fd = b"", b"", 0, fd
        self.thread = threading.Thread(target=self._drain, daemon=True)
        self.thread.start()

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(self._fd, 1 << 16):
                self.total += len(chunk)
                if len(self.head) < KEPT_OUTPUT:
                    self.head += chunk[: KEPT_OUTPUT - len(self.head)]
                self.tail = (self.tail + chunk)[-KEPT_OUTPUT:]
        os.close(self._fd)

    def text(self) -> str:
        kept = self.head + (self.tail if self.total > KEPT_OUTPUT else b"")
        return kept.decode("utf-8", "replace")


@dataclass
class Worker:
    """One worker. `ask` is the only way to use it; after `WorkerDied` it is gone."""

    sock: socket.socket
    status: Any
    output: Output
    pid: int
    warden: int
    watch: watch.Watch | None
    level: str
    warm: Warm
    folder: Path
    mailbox: Mailbox | None = None  # of one that is timed
    dead: bool = False

    def ask(
        self, request: dict[str, Any], limit_s: float, poll_s: float = POLL_S, meanwhile: Meanwhile | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for the answer; raises `WorkerDied` when there is none within `limit_s` seconds.

        `poll_s`: between two looks at what the worker holds, which take so long that an answer may have to wait.
        `meanwhile`: what is done between question and answer.
        """
        from harness import wire  # torch: imported here so that the parents start before it is

        deadline = time.monotonic() + limit_s
        # An answer that was written ahead, or to another question, is a forgery: nothing may wait in the pipe when a
        # question is asked, and its answer repeats a number that the submission is not told.
        ticket = secrets.randbits(62)
        try:
            if self._answers() and self.sock.recv(1, socket.MSG_PEEK):
                self.kill()
                raise WorkerDied(Status.REFUSED, "the worker sent data that nobody asked for")
            if self.mailbox is not None:
                self.mailbox.clear()
            self._send(wire.pack_frame({**request, "ticket": ticket}), deadline, limit_s)
            if meanwhile is not None:
                meanwhile(self, lambda: time.monotonic() > deadline or self._answers())
            reply = self._receive(deadline, limit_s, poll_s)
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended() from None
        except wire.WireError as error:
            self.kill()
            raise WorkerDied(Status.REFUSED, f"the worker sent something that is not data ({error})") from None
        if not isinstance(reply, dict) or reply.get("ticket") != ticket or str(reply.get("status")) not in _ANSWERS:
            self.kill()
            raise WorkerDied(Status.REFUSED, "the worker sent something that is not an answer")
        return reply

    def _answers(self) -> bool:
        """Whether there is something to read, if only that nothing will come."""
        return bool(select.select([self.sock], [], [], 0)[0])

    def _send(self, data: bytes, deadline: float, limit_s: float) -> None:
        view = memoryview(data)
        while view:
            self._wait(deadline, limit_s, writing=True)
            try:
                sent = self.sock.send(view[: 1 << 20])
            except BlockingIOError:
                continue
            view = view[sent:]

    def _receive(self, deadline: float, limit_s: float, poll_s: float = POLL_S) -> Any:
        from harness import wire

        header = self._exactly(8, deadline, limit_s, poll_s)
        (size,) = struct.unpack("<Q", header)
        if size > wire.MAX_FRAME:
            raise wire.WireError(f"a frame of {size} bytes")
        return wire.loads(self._exactly(size, deadline, limit_s, poll_s))

    def _exactly(self, count: int, deadline: float, limit_s: float, poll_s: float) -> bytearray:
        # The buffer grows with what arrives: a hostile length costs the examiner no memory.
        buffer = bytearray()
        while len(buffer) < count:
            self._wait(deadline, limit_s, writing=False, poll_s=poll_s)
            try:
                chunk = self.sock.recv(min(count - len(buffer), 4 << 20))
            except BlockingIOError:
                continue
            if not chunk:
                raise self._ended()
            buffer += chunk
        return buffer

    def _wait(self, deadline: float, limit_s: float, *, writing: bool, poll_s: float = POLL_S) -> None:
        while True:
            ready = select.select([] if writing else [self.sock], [self.sock] if writing else [], [], poll_s)
            if ready[0] or ready[1]:
                return
            if self.watch is not None and (breach := self.watch.breach()) is not None:
                self.kill()
                status = Status.OUT_OF_MEMORY if breach.startswith("out of memory") else Status.REFUSED
                raise WorkerDied(status, breach)
            if time.monotonic() > deadline:
                raise self.late(limit_s)

    def late(self, limit_s: float) -> WorkerDied:
        """End it, because it has not answered."""
        self.kill()
        return WorkerDied(Status.TIMED_OUT, f"no answer within {limit_s:g} s; the process was ended")

    def _ended(self) -> WorkerDied:
        """How the process ended on its own."""
        self.dead = True
        line = b""
        with contextlib.suppress(OSError):
            ready, _, _ = select.select([self.status], [], [], 5.0)
            line = self.status.readline() if ready else b""
        watch.kill_tree(self.warden)
        if not line:
            if not self.warm.alive():
                return WorkerDied(Status.CRASHED, "the submission ended the process that started it")
            return WorkerDied(Status.CRASHED, "the submission's process vanished")
        end = json.loads(line)
        number, code = end["signal"], end["code"]
        if number in (signal.SIGSEGV, signal.SIGBUS):
            return WorkerDied(
                Status.CRASHED, f"{signal.Signals(number).name}: the process touched memory that is not its own"
            )
        if number is not None:
            name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
            return WorkerDied(Status.CRASHED, f"the process was ended by {name}")
        return WorkerDied(Status.CRASHED, f"the process ended itself with exit code {code} before it answered")

    def kill(self) -> None:
        if not self.dead:
            self.dead = True
            watch.kill_tree(self.warden)

    def close(self) -> None:
        """End it, if it has not ended. The next worker of this thread can start while the kernel puts this one away; the
        one before must be gone by then, so that a small GPU never holds more than one of them."""
        if not self.dead:
            self.dead = True
            wait_for_closed()
            _closed.ending = watch.strike(self.warden)
        self.sock.close()
        self.status.close()


_closed = threading.local()  # the worker that this thread has closed last


def wait_for_closed() -> None:
    """Until the worker that this thread has closed last is gone, and has given back its GPU memory."""
    ending: watch.Ending | None = getattr(_closed, "ending", None)
    _closed.ending = None
    if ending is not None:
        ending.wait()


class Warm:
    """A warm parent of one mode: `interpret`, `gpu` or `compile`. Starts at once, is waited for when first needed."""

    def __init__(self, mode: str, park: Park) -> None:
        self.mode, self.sandboxed, self._aborted, self._store = mode, park.sandboxed, park.aborted, park.store
        self._folder, self._wanted = park.folder, park.wanted
        self.facts: dict[str, Any] = {}
        self._lock = _fork.Lock()  # one question at a time, whichever judge asks it
        self._program, self.why = sandbox.choose(self._wanted) if self.sandboxed else (None, "")
        self._start()
        self._readable = [str(path) for path in sandbox.default_readable(launch.REPOSITORY)]

    def _start(self) -> None:
        # The other end is kept until the parent is warm: another one may have to be started at it, and judges, which are
        # made before that, have this end.
        self.control, self._theirs = socket.socketpair()
        self._launch()

    def _launch(self) -> None:
        home = Path(tempfile.mkdtemp(prefix="home-", dir=self._folder))
        command = launch.command(self.mode, self._theirs.fileno(), self._program, self._folder, self._kept_folders())
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the parent)
        self.process = subprocess.Popen(
            command, env=launch.environment(self.mode, home), cwd=home, pass_fds=[self._theirs.fileno()],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True,
        )  # fmt: skip
        self._starter = os.getpid()
        self._ready = False
        self._buffer = b""

    def _kept_folders(self) -> list[Path]:
        """The folder of what earlier runs have compiled, where this parent's workers compile."""
        folder = self._store.folder() if self._store is not None and self.mode != "interpret" else None
        return [] if folder is None else [folder]

    def alive(self) -> bool:
        # With bubblewrap there are two processes: it and, by a number of its own, the parent that it has started.
        if self._starter == os.getpid() and self.process.poll() is not None:
            return False
        return not self._ready or watch.running(self.facts["pid"])

    def _line(self, limit_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.control], [], [], POLL_S)
            if not ready and self.alive() and time.monotonic() < deadline:
                continue
            ready, _, _ = select.select([self.control], [], [], 0)  # it may have answered before it ended
            chunk = b""
            with contextlib.suppress(ConnectionResetError):
                chunk = self.control.recv(1 << 16) if ready else b""
            if not chunk:
                self.log.seek(0)
                tail = self.log.read().decode("utf-8", "replace")[-2000:].strip()
                raise MachineError(
                    f"the warm parent ({self.mode}) did not start or has ended:\n{tail}", "run `grade doctor`"
                )
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)  # type: ignore[no-any-return]

    def ready(self) -> dict[str, Any]:
        """Wait until the parent is warm; its facts (versions, what the interpreter's probe found)."""
        with self._lock:
            if not self._ready:
                self.facts = self._first_line()
                self._ready = True
                self._theirs.close()
                launch.keep_bytecode(self.facts["uncompiled"])
                if self.facts["broken"]:
                    broken = ", ".join(self.facts["broken"])
                    raise MachineError(
                        f"Triton {self.facts['triton']} gives wrong results here and could not be mended: {broken}",
                        "install a version named in constraints.txt",
                    )
        return self.facts

    def _first_line(self) -> dict[str, Any]:
        """The facts of a parent that is warm; of one without bubblewrap, where in it there is none."""
        if self._program is not None:
            try:
                facts = self._line(START_LIMIT_S)
                if "unfit" not in facts:
                    return facts
                why = str(facts["unfit"])
            except MachineError as error:
                why = error.what.splitlines()[-1]
            self._leave_bubblewrap(why)
        return self._line(START_LIMIT_S)

    def _leave_bubblewrap(self, why: str) -> None:
        """Start anew without it: what it cannot do must not cost anybody the grade. Once it has worked, it has to: no
        submission shall talk its successors out of it."""
        if self._wanted is sandbox.Level.BUBBLEWRAP or self.facts.get("walled") or self._aborted.is_set():
            raise MachineError(f"no warm parent in bubblewrap: {why}", "`grade doctor` shows what this machine can do")
        watch.kill_tree(self.process.pid)
        self.process.wait()
        self._program, self.why = None, why
        self._launch()

    def told(self, facts: dict[str, Any]) -> None:
        """In a fork of the process that waits: what that was told when this parent was ready."""
        if not self._ready:
            self.facts, self._ready = facts, True
            self._theirs.close()

    def worker(self, scratch: Path, limits: Limits, device: str, *, clock: bool = False, origin: str = "") -> Worker:
        """Fork a worker that may write in `scratch` only, a folder below that of the park. A parent for GPUs gives compiling
        ones as well: "cpu". `clock`: its calls will be timed. `origin`: what it will compile, for which kernels may have
        been kept (`keep`)."""
        if self._aborted.is_set():
            raise MachineError("the run was interrupted")
        if not scratch.is_relative_to(self._folder):
            raise ValueError(f"the scratch folder {scratch} is not in {self._folder}, which is what a warm parent sees")
        if not self.alive() and self._ready:
            self._start()  # a submission took the parent with it; its check has already been told so
        self.ready()
        ours, theirs = socket.socketpair()
        read_output, write_output = os.pipe()
        read_status, write_status = os.pipe()
        mode = self._mode(device)
        gpu = mode == "gpu"
        kept = self._store.find(name) if self._store is not None and (name := self._kept_as(mode, origin)) else None
        environment = {"TRITON_CACHE_DIR": str(self._cache(scratch, mode)), "TMPDIR": str(scratch), "HOME": str(scratch)}
        if not gpu:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        elif not clock:
            # A context of one hardware queue is made in half the time, and contexts are made one after the other.
            environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
        covered = {str(self._folder): [str(scratch)]} if self.facts["walled"] else {}
        if covered:
            covered |= {str(folder): [str(kept)] if kept is not None else [] for folder in self._kept_folders()}
        request = {
            "mode": mode, "device": device, "scratch": str(scratch), "sandbox": self.sandboxed, "clock": clock,
            "covered": covered,
            "max_allocation": (64 << 30) if gpu else limits.memory_bytes, "environment": environment,
            "kept": str(kept) if kept is not None else None, "readable": [*self._readable, *([str(kept)] if kept else [])],
            "limits": {
                "processes": GPU_PROCESSES if gpu else limits.processes, "file_bytes": limits.file_bytes, "open_files": 1024,
                "data_bytes": None if gpu else limits.memory_bytes, "cpu_s": None,
            },
        }  # fmt: skip
        handed = [theirs.fileno(), write_output, write_status, *([mailbox.create()] if clock else [])]
        with self._lock:
            socket.send_fds(self.control, [(json.dumps(request) + "\n").encode()], handed)
            warden = int(self._line(30.0)["warden"])
        page = Mailbox(handed.pop()) if clock else None
        theirs.close()
        os.close(write_output)
        os.close(write_status)
        ours.setblocking(False)
        status = os.fdopen(read_status, "rb", buffering=0)
        output = Output(read_output)
        first = status.readline()
        if not first:
            raise MachineError("a worker could not be started: " + output.text()[-500:], "run `grade doctor`")
        pid = json.loads(first)["pid"]
        memory = GPU_HOST_MEMORY if gpu else limits.memory_bytes
        guard = watch.Watch(
            pid, memory, scratch, limits.scratch_bytes, processes=GPU_PROCESSES if gpu else limits.processes
        )
        worker = Worker(ours, status, output, pid, warden, guard, "none", self, scratch, page)
        try:
            hello = worker._receive(time.monotonic() + 60.0, 60.0)
        except WorkerDied as died:
            worker.close()
            output.thread.join(timeout=2.0)  # all that it printed has been read
            remedy = "run `grade doctor`" + (f"; {sandbox.SETTING}=landlock does without bubblewrap" if covered else "")
            raise MachineError(f"a worker could not be started: {died.message}\n{output.text()[-1500:]}", remedy) from None
        worker.level = hello["sandbox"]
        return worker

    def _mode(self, device: str) -> str:
        return "compile" if self.mode == "gpu" and device == "cpu" else self.mode

    def _cache(self, scratch: Path, mode: str) -> Path:
        """Triton's cache for the workers in `scratch`: their own, begun as a copy of what the parent has built."""
        cache = scratch / f"cache-{mode}"
        with self._lock:
            if not cache.exists():
                if mode == "gpu":
                    shutil.copytree(self.facts["seed"], cache, dirs_exist_ok=True)
                cache.mkdir(exist_ok=True)
        return cache

    def keep(self, scratch: Path, device: str, origin: str, *, timed: bool = False) -> None:
        """Keep what the workers in `scratch`, which have all ended, have compiled of `origin`. `timed`: for timed calls too."""
        mode = self._mode(device)
        if self._store is not None and (name := self._kept_as(mode, origin)):
            self._store.keep(name, scratch / f"cache-{mode}", timed=timed)

    def timed(self, device: str, origin: str) -> bool:
        """Whether what timed calls of `origin` need was compiled by an earlier run."""
        name = self._kept_as(self._mode(device), origin)
        return self._store is not None and bool(name) and self._store.timed(name)

    def _kept_as(self, mode: str, origin: str) -> str:
        """Under which name; none where nothing is compiled, or nobody says from what."""
        if mode == "interpret" or not origin:
            return ""
        return KernelStore.name(origin, mode, self.facts["torch"], self.facts["triton"], sys.version)

    def close(self) -> None:
        self.control.close()
        self._theirs.close()
        # It holds nothing that is worth the second in which Python takes torch apart.
        if self._program is None:
            self.process.kill()
        else:
            watch.kill_tree(self.process.pid)
        self.process.wait()
        self.log.close()


class Park:
    """The warm parents of one run, started when first asked for; closes them all. `folder` is where the scratch folders
    of their workers are made."""

    def __init__(
        self, *, sandboxed: bool = True, store: KernelStore | None = None, level: sandbox.Level | None = None
    ) -> None:
        """`store`: where compiled kernels are kept from run to run; None keeps none. `level`: the one that has to be
        reached, else what the setting GRADE_SANDBOX names; without either the best that works."""
        self.sandboxed, self.store = sandboxed, store
        self.wanted = level or sandbox.asked(sandboxed=sandboxed)
        self._parents: dict[str, Warm] = {}
        self.aborted = _fork.Event()
        self._lock = threading.Lock()

    @functools.cached_property
    def folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="grade-")).resolve()

    @property
    def reason(self) -> dict[str, str]:
        """For the record: why a parent is not in bubblewrap; empty where all are, or none was started."""
        why = next((parent.why for parent in self._parents.values() if parent.why), "")
        return {"sandbox_reason": why} if why else {}

    def warm(self, mode: str) -> Warm:
        with self._lock:
            if self.aborted.is_set():
                raise MachineError("the run was interrupted")
            if mode == "compile" and "gpu" in self._parents:
                mode = "gpu"  # CUDA is untouched in it: a compiling worker forks from it as well
            if mode not in self._parents:
                with interrupt.deferred():
                    self._parents[mode] = Warm(mode, self)
            return self._parents[mode]

    def abort(self) -> None:
        """End every parent and worker at once, so that the threads that wait for them return."""
        with self._lock:
            self.aborted.set()
            parents = list(self._parents.values())
        for parent in parents:
            watch.kill_tree(parent.process.pid)

    def __enter__(self) -> Park:
        return self

    def __exit__(self, *exc: object) -> None:
        for parent in self._parents.values():
            parent.close()
        if "folder" in self.__dict__:
            shutil.rmtree(self.folder, ignore_errors=True)

"""What code in a worker's process reaches behind each layer of the sandbox, tried with no rule of the engine in the way.

`python attempts.py LAYER` prints a JSON object: each attempt, and "open" or the error that stopped it. Layers: `none`;
`landlock`, a worker's namespaces and cage; `mounts`, its namespaces within bubblewrap, but no cage; `bubblewrap`, both.
"""

import ctypes
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import sandbox
from harness.sandbox import bubblewrap, syscalls

REPOSITORY = bubblewrap.REPOSITORY
ANSWERS = ("reference", "graders", "tests", "exercises", ".git")
LIMITS = sandbox.Limits(processes=20, file_bytes=1 << 20, data_bytes=None, open_files=64, cpu_s=20)


def _connect(kind: int, family: int, address: Any) -> None:
    with socket.socket(family, kind) as one:
        one.settimeout(2)
        one.connect(address)
        one.send(b"x")


def _trace(pid: int) -> None:
    syscalls.call("ptrace", 16, pid, 0, 0)
    os.waitpid(pid, 0x40000000)  # __WALL: it stops first
    syscalls.call("ptrace", 17, pid, 0, 0)


def _run(program: str) -> None:
    pid = os.posix_spawn(program, [program], {})
    if os.waitpid(pid, 0)[1]:
        raise OSError(errno.ENOEXEC, "it does not run")


def attempts(place: dict[str, Any]) -> dict[str, Callable[[], object]]:
    root, victim = Path(place["root"]), place["victim"]
    unix, tcp, udp = socket.AF_UNIX, ("127.0.0.1", place["tcp"]), ("127.0.0.1", place["udp"])
    found: dict[str, Callable[[], object]] = {}
    for name in ANSWERS:
        found[f"find {name}"] = lambda name=name: os.open(REPOSITORY / name, os.O_RDONLY)
    found |= {
        "read the examiner": (REPOSITORY / "harness/examiner/warm.py").read_bytes,
        "find reference by another way": lambda: os.open(f"/proc/self/root{REPOSITORY}/reference", os.O_RDONLY),
        "read another scratch folder": (root / "other/file").read_bytes,
        "write another scratch folder": lambda: open(root / "other/file", "ab").close(),
        "read a file of the user's": Path(place["outside"], "file").read_bytes,
        "write a file of the user's": lambda: open(place["outside"] + "/file", "ab").close(),
        "make a file of the user's": lambda: open(place["outside"] + "/new", "wb").close(),
        "list the home folder": lambda: os.listdir(place["home"]),
        "write to /tmp": lambda: os.close(os.open("/tmp", os.O_TMPFILE | os.O_WRONLY)),
        "write to /dev/shm": lambda: os.close(os.open("/dev/shm", os.O_TMPFILE | os.O_WRONLY)),
        "write to the harness": lambda: open(REPOSITORY / "harness/__init__.py", "ab").close(),
        "TCP": lambda: _connect(socket.SOCK_STREAM, socket.AF_INET, tcp),
        "UDP": lambda: _connect(socket.SOCK_DGRAM, socket.AF_INET, udp),
        "a Unix socket by its path": lambda: _connect(socket.SOCK_STREAM, unix, place["unix"]),
        "a Unix socket by its abstract name": lambda: _connect(socket.SOCK_STREAM, unix, place["abstract"]),
        "the environment of a process": Path(f"/proc/{victim}/environ").read_bytes,
        "the arguments of a process": Path(f"/proc/{victim}/cmdline").read_bytes,
        "a signal to a process": lambda: os.kill(victim, 0),
        "a trace of a process": lambda: _trace(victim),
        "a program": lambda: _run("/bin/true"),
        "a namespace": lambda: syscalls.call("unshare", 0x10000000),
        "shared memory of the system": lambda: syscalls.call("shmget", 0, 4096, 0o1600),
    }
    return found


def tried(place: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name, attempt in attempts(place).items():
        found[name] = "open"
        try:
            attempt()
        except OSError as error:
            found[name] = errno.errorcode.get(error.errno or 0, str(error))
    return found


def inner(layer: str, place: dict[str, Any]) -> None:
    """What a warm parent, a warden and a worker do, then the attempts; with the layer `none` just these."""
    root = Path(place["root"])
    if layer != "none":
        sandbox.enter_namespaces()
        if pid := os.fork():
            os.waitpid(pid, 0)
            return
        os.setsid()
        sandbox.fresh_proc()
        if layer != "landlock":
            sandbox.show_only(root, [root / "own"])
        if layer != "mounts":
            readable = sandbox.default_readable(REPOSITORY)
            sandbox.enter(sandbox.Cage(root / "own", readable, (), gpu=False, limits=LIMITS))
    os.write(1, json.dumps(tried(place)).encode())


def outer(layer: str) -> None:
    base = Path(tempfile.mkdtemp(prefix="grade-"))
    root, outside = base / "root", base / "outside"
    for folder in (root / "own", root / "other", outside):
        folder.mkdir(parents=True)
    for file in (root / "other/file", outside / "file"):
        file.write_text("x")
    abstract = f"\0grade-{os.getpid()}"
    servers = [socket.socket(family, kind) for family, kind in (
        (socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM),
        (socket.AF_UNIX, socket.SOCK_STREAM),
    )]  # fmt: skip
    for server, address in zip(servers, (("127.0.0.1", 0), ("127.0.0.1", 0), str(base / "s"), abstract), strict=True):
        server.bind(address)
        if server.type == socket.SOCK_STREAM:
            server.listen()
        server.setblocking(False)
    victim = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    place = {
        "root": str(root), "outside": str(outside), "home": os.path.expanduser("~"), "victim": victim.pid,
        "tcp": servers[0].getsockname()[1], "udp": servers[1].getsockname()[1], "unix": str(base / "s"), "abstract": abstract,
    }  # fmt: skip
    program = shutil.copy(__file__, root)  # where it can be read within bubblewrap, and none of its neighbours
    command = [sys.executable, "-S", program, "inner", layer, json.dumps(place)]
    if layer in ("mounts", "bubblewrap"):
        bwrap, why = bubblewrap.works()
        if bwrap is None:
            sys.exit(why)
        command = [str(bwrap), *bubblewrap.options(root, [], gpu=False), *command]
    try:
        time.sleep(0.1)  # the victim starts
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        found = json.loads(done.stdout or sys.exit(done.stderr or "nothing was tried"))
        arrived = 0
        for server in servers:
            try:
                server.recv(1) if server.type == socket.SOCK_DGRAM else server.accept()
                arrived += 1
            except BlockingIOError:
                pass
        print(json.dumps({"found": found, "arrived": arrived, "alive": victim.poll() is None}))
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    ctypes.CDLL(None)  # before a cage in which its files may be out of sight
    if sys.argv[1] == "inner":
        inner(sys.argv[2], json.loads(sys.argv[3]))
    else:
        outer(sys.argv[1])

"""Network, other processes, limits: what a caged process cannot do, and what it still can."""

import ctypes
import errno
import importlib
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness import sandbox
from harness.sandbox import syscalls

from .conftest import BEFORE, REFUSED, Worker, called, errors

pytestmark = pytest.mark.usefixtures("as_probed")
libc = ctypes.CDLL(None, use_errno=True)


def test_level_is_the_one_that_was_probed(worker: Worker, probe: sandbox.Probe) -> None:
    ended = worker.run(lambda: os.getcwd())
    assert ended.level == probe.cage
    assert ended.value == str(worker.place.scratch)
    if worker.namespaces and worker.user == "root" and probe.pid_namespace:
        assert {"pid", "net", "ipc", "uts", "mnt"} <= set(ended.namespaces)


def test_sockets(worker: Worker) -> None:
    families = [
        (socket.AF_INET, socket.SOCK_STREAM),
        (socket.AF_INET, socket.SOCK_DGRAM),
        (socket.AF_INET6, 1),
        (socket.AF_UNIX, socket.SOCK_STREAM),
        (socket.AF_UNIX, socket.SOCK_DGRAM),
        (socket.AF_NETLINK, socket.SOCK_RAW),
        (socket.AF_PACKET, socket.SOCK_RAW),
    ]

    def work() -> list[int]:
        opened = [lambda f=f, t=t: socket.socket(f, t) for f, t in families]
        datagrams = [lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)]
        return errors(*opened, *datagrams)

    assert worker.run(work).value == [errno.EPERM] * 8


def test_a_pair_of_streams_and_no_more(worker: Worker) -> None:
    def work() -> list[int]:
        a, b = socket.socketpair()
        a.send(b"x")
        assert b.recv(1) == b"x"
        return errors(lambda: a.bind("here"), lambda: a.listen(), lambda: a.connect("/dev/log"))

    assert worker.run(work).value == [errno.EPERM] * 3


def test_sockets_in_a_network_of_its_own(worker: Worker) -> None:
    def work() -> list[object]:
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname(), timeout=2)
        client.send(b"x")
        outside = errors(lambda: socket.create_connection(("192.0.2.1", 80), timeout=1))
        return [server.accept()[0].recv(1).decode(), outside, errors(lambda: socket.socket(socket.AF_UNIX))]

    "host".encode("idna")  # a codec that the library loads when a host is named
    ended = worker.run(work, sockets=True)
    if "net" in ended.namespaces:
        assert ended.value == ["x", [errno.ENETUNREACH], [errno.EPERM]]
    else:
        assert ended.value["errno"] == errno.EPERM


def test_other_processes(worker: Worker, victim: int) -> None:
    parent = os.getpid()

    def work() -> list[int]:
        warden, found = os.getppid(), []
        for pid in (victim, parent, *([warden] if warden else [])):
            found += errors(
                lambda pid=pid: Path(f"/proc/{pid}/environ").read_bytes(),
                lambda pid=pid: os.open(f"/proc/{pid}/mem", os.O_RDONLY),
                lambda pid=pid: Path(f"/proc/{pid}/maps").read_bytes(),
                lambda pid=pid: Path(f"/proc/{pid}/cmdline").read_bytes(),
                lambda pid=pid: os.listdir(f"/proc/{pid}/fd"),
                lambda pid=pid: os.readlink(f"/proc/{pid}/exe"),
                lambda pid=pid: os.kill(pid, signal.SIGTERM),
                lambda pid=pid: os.kill(pid, 0),
                lambda pid=pid: os.pidfd_open(pid),
                called("tgkill", pid, pid, 15),
                called("tkill", pid, 15),
                called("rt_sigqueueinfo", pid, 15, bytes(128)),
                called("ptrace", 16, pid, 0, 0),
                called("process_vm_readv", pid, bytes(16), 1, bytes(16), 1, 0),
                called("kcmp", pid, os.getpid(), 0, 0, 0),
                called("prlimit64", pid, resource.RLIMIT_CPU, bytes(16), None),
                called("setns", 3, 0),
            )
        found += errors(lambda: os.killpg(os.getpgid(parent), 0), lambda: os.kill(-1, signal.SIGTERM))[:1]
        return found

    found = worker.run(work).value
    assert set(found) <= {*REFUSED, errno.ESRCH, errno.ENOENT, errno.EINVAL}, found
    os.kill(victim, 0)
    assert "State:\tS" in Path(f"/proc/{victim}/status").read_text()


def test_siblings(worker: Worker) -> None:
    """A worker does not reach another worker of the same examiner."""
    go, gone = os.pipe()
    warden, reader = worker.start(lambda: os.read(go, 1).decode())
    try:
        deadline = time.monotonic() + 5
        children: list[int] = []
        while not children and time.monotonic() < deadline:
            children = [int(c) for c in Path(f"/proc/{warden}/task/{warden}/children").read_text().split()]
        sibling = children[0]
        value = worker.run(
            lambda: errors(
                lambda: os.kill(sibling, 9),
                lambda: os.kill(warden, 9),
                lambda: Path(f"/proc/{sibling}/environ").read_text(),
            )
        ).value
        assert all(e in (*REFUSED, errno.ESRCH, errno.ENOENT) for e in value)
    finally:
        os.write(gone, b"g")
        with open(reader, "rb") as pipe:
            assert json.loads(pipe.read())[0] == "g"
        os.waitpid(warden, 0)
        os.close(go)
        os.close(gone)


def test_a_signal_to_the_group_stays_inside(worker: Worker) -> None:
    def work() -> None:
        os.kill(0, signal.SIGKILL)

    ended = worker.run(work)
    # In a namespace the worker is its init, which ignores its own signals; else it has ended itself.
    # The warden lived to tell.
    assert ended.status in (0, 256 - signal.SIGKILL)


def test_system_calls_that_nobody_needs(worker: Worker) -> None:
    ways = [
        called("unshare", 0x10000000),
        called("mount", b"none\0", b"/\0", None, 0, None),
        called("bpf", 0, None, 0),
        called("umount2", b"/proc\0", 0),
        called("io_uring_setup", 1, bytes(120)),
        called("keyctl", 0, 0, 0, 0, 0),
        called("perf_event_open", bytes(128), 0, -1, -1, 0),
        called("userfaultfd", 0),
        called("personality", 0),
        called("name_to_handle_at", -100, b"/\0", bytes(64), bytes(8), 0),
        called("chroot", b".\0"),
        called("open_by_handle_at", -100, bytes(64), 0),
        called("pivot_root", b".\0", b".\0"),
        called("setuid", 0),
        called("setresuid", 0, 0, 0),
        called("init_module", None, 0, b"\0"),
        called("reboot", 0, 0, 0, 0),
        called("memfd_create", b"m\0", 0),
        called("shmget", 0, 4096, 0o1600),
        called("setsid"),
        called("setpgid", 0, 0),
        called("clone", 0x10000000 | 17, 0, 0, 0, 0),
        called("clone", 0x8000 | 17, 0, 0, 0, 0),
        called("seccomp", 1, 0, None),
        called("prctl", 1, 0, 0, 0, 0),
        called("prctl", 4, 0, 0, 0, 0),
        called("fcntl", 0, 8, 1),
        called("ioctl", 0, 0x5412, b"x"),
        called("inotify_add_watch", 0, b"/\0", 2),
        called("swapon", b"/\0", 0),
        called("quotactl", 0, None, 0, None),
    ]
    value = worker.run(lambda: errors(*ways)).value
    assert [i for i, e in enumerate(value) if e != errno.EPERM] == []
    assert worker.run(lambda: errors(called("clone3", bytes(64), 64))).value == [errno.ENOSYS]


@pytest.mark.skipif(syscalls.MACHINE != "x86_64", reason="only x86_64 has other call tables")
def test_other_call_tables(worker: Worker) -> None:
    def x32() -> list[int]:
        libc.syscall(ctypes.c_long(0x40000000 | 41), 2, 1, 0)
        return [ctypes.get_errno()]

    def compat() -> None:
        # mov eax, 20 (getpid of i386); int 0x80; ret
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()

    assert worker.run(x32).value == [errno.ENOSYS]
    ended = worker.run(compat)
    assert ended.value is None and ended.status in (256 - signal.SIGSYS, 256 - signal.SIGSEGV)


def test_the_disk_is_not_filled(worker: Worker) -> None:
    def work() -> list[object]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with open("big", "wb", buffering=0) as file:
            one = errors(lambda: [file.write(bytes(1 << 20)) for _ in range(10)])
        return [one, os.path.getsize("big")]

    assert worker.run(work).value == [[errno.EFBIG], 1 << 22]


def test_memory_is_bounded(worker: Worker) -> None:
    def work() -> list[str]:
        kept, found = [], "all of it"
        try:
            for _ in range(64):  # mapped: what this process has freed before it forked would be used up first
                kept.append(mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError:
            found = f"{len(kept) * 16}"
        with pytest.raises(OSError):
            mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE)
        return [found]

    (held,) = worker.run(work).value
    assert 128 <= int(held) <= 256


def test_limits_cannot_be_raised(worker: Worker) -> None:
    def work() -> list[object]:
        names = ("NPROC", "FSIZE", "NOFILE", "DATA", "CPU")
        found: list[object] = []
        for name in names:
            what = getattr(resource, f"RLIMIT_{name}")
            try:
                resource.setrlimit(what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                found.append(name)
            except (OSError, ValueError):
                pass
        return [found, resource.getrlimit(resource.RLIMIT_CORE)[0]]

    assert worker.run(work).value == [[], 1]


def test_processes_are_bounded(worker: Worker) -> None:
    def work() -> list[object]:
        children, why = [], 0
        try:
            for _ in range(200):
                pid = os.fork()
                if pid == 0:
                    time.sleep(20)
                    os._exit(0)
                children.append(pid)
        except OSError as error:
            why = error.errno or 0
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return [len(children), why]

    count, why = worker.run(work).value
    assert why == errno.EAGAIN
    # Bare, the kernel counts the user's other processes too, and one that ends makes room for one more.
    assert 20 <= count <= (40 if worker.namespaces else 100)


def test_open_files_are_bounded(worker: Worker) -> None:
    value = worker.run(lambda: errors(lambda: [os.open("/dev/null", os.O_RDONLY) for _ in range(300)])).value
    assert value == [errno.EMFILE]


def test_the_worker_ends_with_its_warden(worker: Worker) -> None:
    ready, told = os.pipe()

    def work() -> None:
        os.write(told, b"1")
        time.sleep(30)

    warden, reader = worker.start(work)
    os.read(ready, 1)
    os.kill(warden, signal.SIGKILL)
    os.waitpid(warden, 0)
    with open(reader, "rb") as pipe:
        assert pipe.read() == b""  # the other end closed: the worker is gone
    os.close(ready)
    os.close(told)


def test_ordinary_work(worker: Worker) -> None:
    names = json.loads(subprocess.run([sys.executable, "-c", BEFORE], capture_output=True, check=True).stdout)
    for name in names:
        importlib.import_module(name)

    def work() -> list[object]:
        numpy = sys.modules.get("numpy") or importlib.import_module("numpy")
        found = float((numpy.ones((64, 64)) @ numpy.ones((64, 64))).sum())
        results: list[int] = []
        threads = [threading.Thread(target=results.append, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.makedirs("a/b")
        Path("a/b/c").write_text("x")
        os.replace("a/b/c", "a/d")
        os.link("a/d", "a/e")
        os.truncate("a/d", 0)
        with mmap.mmap(-1, 1 << 20) as memory:
            memory[:3] = b"abc"
        pid = os.fork()
        if pid == 0:
            os._exit(7)
        child = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        status = Path("/proc/self/status").read_text()
        os.listdir("/proc/self/task")
        Path("/proc/cpuinfo").read_text()
        Path("/dev/null").write_text("x")
        signal.raise_signal(signal.SIGCHLD)
        return [
            found,
            sorted(results),
            child,
            "NoNewPrivs:\t1" in status,
            "CapEff:\t0000000000000000" in status,
            os.listdir("/proc/self/fd") != [],
            len(os.urandom(4)),
        ]

    assert worker.run(work).value == [64.0**3, list(range(8)), 7, True, True, True, 4]


def test_a_fresh_numpy_in_a_fresh_python(worker: Worker) -> None:
    """Reads all that Python and numpy need from the disk, nothing of it being loaded before."""
    prefix = Path(sys.executable).resolve()
    cage = replace(worker.place.cage, executable=(prefix, Path(sys.executable)))

    def work() -> list[object]:
        done = subprocess.run(
            [sys.executable, "-c", "import numpy, ssl; print(numpy.arange(4).sum())"],
            capture_output=True,
            text=True,
            check=False,
            env={"OPENBLAS_NUM_THREADS": "2"},
        )
        return [done.stdout.strip(), done.stderr[-300:]]

    value = worker.run(work, cage=cage, data_bytes=None).value
    if worker.user == "plain" and os.geteuid() == 0 and not _reachable(prefix):
        assert value["errno"] in REFUSED  # the interpreter lies where no plain user may look
    else:
        assert value[0] == "6", value


def _reachable(path: Path) -> bool:
    return all(p.stat().st_mode & 0o001 for p in path.parents)


def test_more_than_one_thread_is_an_error(worker: Worker) -> None:
    stop = threading.Event()
    other: list[threading.Thread] = []
    caught: list[str] = []

    def enter_again() -> list[str]:
        thread = threading.Thread(target=stop.wait)
        thread.start()
        other.append(thread)
        try:
            sandbox.enter(worker.place.cage)
        except sandbox.SandboxError as error:
            caught.append(error.what)
        stop.set()
        return caught

    assert worker.run(enter_again).value == ["cannot set up one thread"]


def test_descriptors_are_closed() -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        sandbox.close_fds([0, 1, 2, writer])
        os._exit(errors(lambda: os.fstat(reader), lambda: os.fstat(writer)) != [errno.EBADF, 0])
    assert os.waitpid(pid, 0)[1] == 0
    os.close(reader)
    os.close(writer)

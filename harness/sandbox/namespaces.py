"""Namespaces: what the worker cannot see, it cannot touch. Best effort; the cage closes without them too."""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from harness.sandbox import syscalls
from harness.sandbox.syscalls import call, prctl

USER: Final = 0x10000000
KINDS: Final = {
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "mnt": 0x00020000,
}
_PRIVATE: Final = 0x40000 | 0x4000  # MS_PRIVATE | MS_REC
_PLAIN: Final = 0x2 | 0x4 | 0x8  # MS_NOSUID | MS_NODEV | MS_NOEXEC
_BIND: Final = 0x1000 | 0x4000  # MS_BIND | MS_REC
_REMOUNT_READONLY: Final = 0x20 | 0x1000 | 0x1  # MS_REMOUNT | MS_BIND | MS_RDONLY
_CAP_SYS_ADMIN: Final = 21

_entered: tuple[str, ...] = ()
_own_proc = False


def inside(kind: str) -> bool:
    """Whether this process, or the one that it was forked from, entered a namespace of its own."""
    return kind in _entered


def alone() -> bool:
    """Whether this process is the first of a PID namespace: it can then name no process outside."""
    return inside("pid") and os.getpid() == 1


def has_own_proc() -> bool:
    """Whether /proc shows only what this worker started."""
    return _own_proc


def privileged() -> bool:
    """Whether the process may make namespaces without a user namespace."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def new_user() -> None:
    """Enters a user namespace in which this user and group keep their numbers. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    call("unshare", USER)
    # Without a right to it the kernel asks that setgroups be given up before a group is mapped.
    with contextlib.suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def loopback_up() -> None:
    """Starts the loopback of a new network, which process groups of one worker need. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        interface_up = struct.pack("16sH14x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(control, 0x8914, interface_up)  # SIOCSIFFLAGS


def _private_mounts() -> None:
    call("mount", b"none\0", b"/\0", None, _PRIVATE, None)


def enter_namespaces() -> tuple[str, ...]:
    """Gives the calling process, and what it forks from now on, namespaces of their own; names those made.

    For the warden, while it has one thread. The first process that it forks afterwards is number 1 of the PID
    namespace, and the kernel ends the namespace with it, so: one worker a warden. Orphans of the worker come
    to the warden, which reaps them. Without permission less is made, and nothing is raised.
    """
    global _entered
    made: list[str] = []
    with contextlib.suppress(OSError):
        prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    if not privileged():
        try:
            new_user()
            made.append("user")
        except OSError:
            return _entered
    for name, flag in KINDS.items():
        with contextlib.suppress(OSError):
            call("unshare", flag)
            made.append(name)
    if "mnt" in made:
        with contextlib.suppress(OSError):
            _private_mounts()
    _entered = tuple(made)
    return _entered


def fresh_proc() -> bool:
    """Mounts a /proc that shows this worker only; whether that worked. For the worker, before `enter`.

    It takes a mount namespace of its own first: the warden goes on with the /proc in which it sees itself.
    """
    global _own_proc
    if not alone() or not inside("mnt"):
        return False
    try:
        call("unshare", KINDS["mnt"])
        _private_mounts()
        call("mount", b"proc\0", b"/proc\0", b"proc\0", _PLAIN, None)
    except OSError:  # a container that hides parts of its /proc does not let a whole one be mounted
        return False
    _own_proc = True
    return True


def show_only(folder: Path, kept: Iterable[Path]) -> None:
    """Covers a folder with an empty one, in which only `kept`, folders below it, are there as before. For the worker, once
    it has a mount namespace of its own and before `enter`. Raises OSError.
    """
    held = {path: os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in kept}
    place = os.fsencode(folder) + b"\0"
    call("mount", b"none\0", place, b"tmpfs\0", _PLAIN, b"mode=755\0")
    for path, descriptor in held.items():
        path.mkdir(parents=True, exist_ok=True)
        call("mount", b"/proc/self/fd/%d\0" % descriptor, os.fsencode(path) + b"\0", None, _BIND, None)
        os.close(descriptor)
    call("mount", None, place, None, _REMOUNT_READONLY | _PLAIN, None)


def few_processes(processes: int) -> None:
    """Bounds the process numbers of the namespace where the kernel can (6.14 and later): a second fence.

    The kernel admits no bound under 301.
    """
    if has_own_proc() and _release() >= (6, 14):
        with contextlib.suppress(OSError):
            Path("/proc/sys/kernel/pid_max").write_text(str(max(processes + 1, 400)))


def _release() -> tuple[int, int]:
    """The kernel's version, as two numbers."""
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def counts_apart() -> bool:
    """Whether the kernel counts this worker's processes apart from the user's others (from 5.14)."""
    return inside("user") and _release() >= (5, 14)


def single_threaded() -> bool:
    """Whether the calling process has one thread; some of what is done here holds for one thread only."""
    return len(os.listdir("/proc/self/task")) == 1

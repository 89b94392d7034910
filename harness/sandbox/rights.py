"""Resource limits, and the privileges that a worker gives up."""

import contextlib
import os
import resource
import struct
from pathlib import Path
from typing import Final

from harness.sandbox import namespaces, syscalls
from harness.sandbox.model import Limits
from harness.sandbox.syscalls import call, prctl

_CAPABILITY_VERSION: Final = 0x20080522
_CAP_AMBIENT_CLEAR_ALL: Final = 4
_NO_ROOT_LOCKED: Final = 0b11  # SECBIT_NOROOT and its lock: exec gives root nothing
# Users that no account has: above what `useradd` and user name services hand out; the second range is for
# containers, which often know only 65,536 users.
_NOBODY: Final = (2_000_000_000, 61_000)


def _status(field: str) -> int:
    """A number of /proc/self/status; sizes are in KiB there."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def tasks_of(user: int) -> int:
    """Threads of all processes that this process can see and whose real user is `user`."""
    total = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError):
            text = Path(entry.path, "status").read_text(errors="replace")
            lines = dict(line.split(":", 1) for line in text.splitlines())
            if int(lines["Uid"].split()[0]) == user:
                total += int(lines["Threads"])
    return total


def be_counted(serial: int) -> bool:
    """Gives a worker of root a real user of its own, and leaves the effective one; whether that worked.

    The kernel exempts root from the limit on processes, and counts by the real user. What files the worker
    can reach goes by the effective user and stays as it is. `serial` tells workers apart.
    """
    for base in _NOBODY:
        with contextlib.suppress(OSError):
            os.setresuid(base + serial % 4000, -1, -1)
            return True
    return False


def limit(limits: Limits, *, own_user: bool) -> None:
    """Sets the resource limits, hard ones too. own_user: the real user is this worker's alone.

    Raises OSError, or ValueError where a limit is over what the process has.
    """
    processes = limits.processes
    if not own_user and not namespaces.counts_apart():
        processes += tasks_of(os.getuid()) - 1  # the user's other processes count too
    wanted = {
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        # 0 would still start a crash handler that the machine pipes core files into; 1 stops that as well.
        resource.RLIMIT_CORE: 1,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if limits.data_bytes is not None:
        wanted[resource.RLIMIT_DATA] = _status("VmData") * 1024 + limits.data_bytes
    if limits.cpu_s is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        wanted[resource.RLIMIT_CPU] = int(used.ru_utime + used.ru_stime) + limits.cpu_s
    for what, value in wanted.items():
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


def die_first() -> None:
    """Tells the kernel which process to end when the machine, not the worker, runs out of memory."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def drop_capabilities() -> None:
    """Gives up every capability, also those that a later exec could bring. Raises OSError."""
    last = 63
    with contextlib.suppress(OSError):
        last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    with contextlib.suppress(OSError):
        prctl(syscalls.PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)
    # Without CAP_SETPCAP these two are refused; no_new_privs then keeps exec from bringing anything.
    with contextlib.suppress(OSError):
        prctl(syscalls.PR_SET_SECUREBITS, _NO_ROOT_LOCKED)
    for capability in range(last + 1):
        try:
            prctl(syscalls.PR_CAPBSET_DROP, capability)
        except OSError:
            break
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    call("capset", header, bytes(24))

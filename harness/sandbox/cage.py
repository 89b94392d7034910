"""The worker shuts itself in: the order matters, and each step is there because a later one cannot do it."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from harness.sandbox import landlock, namespaces, paths, rights, seccomp, syscalls
from harness.sandbox.landlock import Right
from harness.sandbox.model import Cage, Level, SandboxError
from harness.sandbox.syscalls import prctl

_SIGKILL: Final = 9
_DOCTOR: Final = "`grade doctor` shows what this machine can do"

# Keeps the worker's folder in /proc alive: Landlock knows a folder by its inode, and /proc makes a new one
# when the old one was forgotten.
_pinned: list[int] = []


def close_fds(keep: Iterable[int]) -> None:
    """Closes every descriptor but those in `keep`: one that is open already is not fenced by the cage."""
    start = 0
    for fd in sorted(set(keep)):
        if fd > start:  # closerange(0, 0) would close all there are
            os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


def _landlock_rules(cage: Cage) -> Iterator[tuple[Path, Right]]:
    for path in cage.readable:
        yield path, landlock.READ
    if cage.gpu:
        # CUDA's driver names its threads through /proc and reads it by number. Other processes' memory and
        # environment stay closed all the same: Landlock refuses to trace a process outside the cage.
        yield Path("/proc"), landlock.READ | Right.WRITE_FILE | Right.TRUNCATE
    elif namespaces.has_own_proc():
        yield Path("/proc"), landlock.READ  # it shows nobody else
    if cage.executable:
        for path in (*cage.executable, *paths.loaders()):
            yield path, landlock.EXECUTE
    yield Path("/dev/null"), Right.READ_FILE | Right.WRITE_FILE
    if cage.gpu:
        for path in paths.gpu_readable():
            yield path, landlock.READ
        for path in paths.gpu_devices():
            yield path, landlock.DEVICE
    yield cage.scratch, landlock.WRITE


def enter(cage: Cage, *, sockets: bool = False) -> Level:
    """Shuts the calling process in, for good, and makes the scratch folder its working folder.

    For the worker, while it has one thread and before it imports anything that is not trusted. `sockets`
    allows internet sockets where the worker is in a network of its own (the loopback is all that is there).
    Returns Level.LANDLOCK when files, network and signals are closed, Level.NONE when the kernel lacks
    Landlock or filters, and what there is has been closed. Raises SandboxError when a part fails that the
    kernel has.
    """
    version, no_filter = landlock.abi(), seccomp.available()
    step = "start"
    try:
        step = "one thread"
        if not namespaces.single_threaded():
            raise OSError(0, "the worker has more than one thread, and Landlock closes one only")
        step = "the scratch folder"
        os.chdir(cage.scratch)
        step = "the session"
        if os.getsid(0) != os.getpid():  # else a signal to the group would reach the warden, in any namespace
            os.setsid()
        rights.die_first()
        namespaces.few_processes(cage.limits.processes)
        # With programs to start, a second user would make them treat themselves as set-user-ID: no TMPDIR.
        step = "the real user"
        own_user = False
        if os.getuid() == 0 and not namespaces.inside("user") and not cage.executable:
            own_user = rights.be_counted(_serial())
        step = "resource limits"
        rights.limit(cage.limits, own_user=own_user)
        network = sockets and namespaces.inside("net")
        if network:
            step = "the loopback"
            namespaces.loopback_up()
        step = "capabilities"
        rights.drop_capabilities()
        step = "privileges"
        prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        # The death signal is lost when credentials change, hence here. A worker of no Landlock hides its
        # memory from its like; with Landlock its like cannot look, and /proc/self stays its own.
        prctl(syscalls.PR_SET_PDEATHSIG, _SIGKILL)
        if not version:
            prctl(syscalls.PR_SET_DUMPABLE, 0)
        if version:
            step = "Landlock"
            _pinned.append(os.open("/proc/self", os.O_PATH | os.O_CLOEXEC))
            landlock.restrict(version, _landlock_rules(cage), network=network)
        if no_filter is None:
            step = "the system call filter"
            seccomp.install(_policy(cage, version, network=network))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SandboxError(f"cannot set up {step}", why, _DOCTOR) from error
    return Level.LANDLOCK if version and no_filter is None else Level.NONE


def _serial() -> int:
    """A number that tells this worker from others that run now."""
    # In a PID namespace every worker is number 1; the namespace's own number is as good.
    return os.stat("/proc/self/ns/pid").st_ino if namespaces.alone() else os.getpid()


def _policy(cage: Cage, version: int, *, network: bool) -> seccomp.Policy:
    alone = namespaces.alone()
    return seccomp.Policy(
        own_pid=None if alone else os.getpid(),
        signals_confined=alone or landlock.scopes_signals(version),
        exec=bool(cage.executable),
        memfd=cage.gpu,  # its memory shows in no process; CUDA may want one
        network=network,
        truncate_by_name=version >= 3,
        driver=cage.gpu,
    )

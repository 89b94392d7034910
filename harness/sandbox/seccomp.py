"""The system call filter: classic BPF, assembled by hand (Documentation/userspace-api/seccomp_filter.rst)."""

import ctypes
import errno
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.sandbox import syscalls
from harness.sandbox.syscalls import call, number, prctl

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
DENY: Final = 0x00050000 | errno.EPERM
MISSING: Final = 0x00050000 | errno.ENOSYS

_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT: Final = 0x40000000
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_FILTER_MODE: Final = 1  # SECCOMP_SET_MODE_FILTER
_ALL_THREADS: Final = 1  # SECCOMP_FILTER_FLAG_TSYNC
_SECCOMP_MODE_FILTER: Final = 2

# Calls that nothing a submission may do has a use for.
_NEVER: Final = (
    # other processes, and their memory
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp",
    "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "perf_event_open", "userfaultfd", "bpf", "seccomp",
    # leaving the session would hide a process from the one that kills it
    "setsid", "setpgid",
    # namespaces, mounts, roots, and files reached without a path
    "unshare", "setns", "mount", "umount2", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "chroot", "pivot_root", "open_by_handle_at", "name_to_handle_at",
    # work that the kernel does past this filter
    "io_uring_setup", "io_uring_enter", "io_uring_register",
    # who one is; a worker of root has only its effective user left as root, see harness.sandbox.rights
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups",
    # Landlock does not cover the attributes of files that the user owns
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
    "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr",
    "lremovexattr", "fremovexattr", "removexattrat", "file_setattr", "inotify_add_watch", "fanotify_init",
    # memory that outlives the process or does not show in its size
    "shmget", "shmat", "semget", "msgget", "mq_open", "memfd_secret",
    # the machine
    "keyctl", "add_key", "request_key", "kexec_load", "kexec_file_load", "init_module", "finit_module",
    "delete_module", "personality", "swapon", "swapoff", "quotactl", "quotactl_fd", "reboot", "acct",
    "syslog", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "iopl", "ioperm", "modify_ldt",
    "sethostname", "setdomainname", "vhangup", "lookup_dcookie",
)  # fmt: skip
_NETWORK: Final = ("bind", "listen", "accept", "accept4", "connect")

_CLONE_FORBIDDEN: Final = 0x7E020000 | 0x00008000  # CLONE_NEW*; CLONE_PARENT: another's child
_FCNTL_FORBIDDEN: Final = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: a signal to anyone by way of a file
_IOCTL_FORBIDDEN: Final = (
    0x8901, 0x8902,  # FIOSETOWN, SIOCSPGRP: the same by another name
    0x5412, 0x541C,  # TIOCSTI, TIOCLINUX: typing into a terminal
    0x40086602, 0x401C5820,  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR
)  # fmt: skip
_PRCTL_FORBIDDEN: Final = (
    syscalls.PR_SET_PDEATHSIG, syscalls.PR_SET_DUMPABLE, syscalls.PR_SET_SECCOMP, syscalls.PR_SET_SECUREBITS,
    syscalls.PR_SET_CHILD_SUBREAPER, syscalls.PR_SET_MM, syscalls.PR_SET_PTRACER,
)  # fmt: skip
_AF_UNIX, _AF_INET, _AF_INET6, _STREAM, _DATAGRAM, _PACKETS, _TYPE_MASK = 1, 2, 10, 1, 2, 5, 0xF
_ACCESS_MODE, _TRUNCATE, _WORD = 0o3, 0o1000, 0xFFFFFFFF

# The argument of each call that names a process.
_SIGNALS: Final = {"kill": 0, "tkill": 0, "tgkill": 0, "rt_sigqueueinfo": 0, "rt_tgsigqueueinfo": 0}
_OF_A_PROCESS: Final = {
    "prlimit64": 0, "sched_setaffinity": 0, "sched_setscheduler": 0, "sched_setparam": 0, "sched_setattr": 0,
    "move_pages": 0, "migrate_pages": 0, "setpriority": 1, "ioprio_set": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Test:
    """Holds when the low 32 bits of an argument, masked, are one of `values`; only ints are tested."""

    argument: int
    values: tuple[int, ...]
    mask: int = _WORD


@dataclass(frozen=True)
class Rule:
    """What becomes of a call: `then` when all tests hold, else `otherwise`."""

    name: str
    then: int
    tests: tuple[Test, ...] = ()
    otherwise: int = ALLOW


@dataclass(frozen=True)
class Policy:
    """What the filter depends on.

    own_pid: the only process that calls may name, or None when a PID namespace hides all others.
    signals_confined: signals cannot leave, by a PID namespace or by Landlock's scope.
    exec, memfd: whether these are allowed. driver: CUDA's driver, which listens on a Unix socket of its own (and
    fails to start where it may not), but connects to none. network: internet sockets, for a worker alone in a network
    namespace.
    truncate_by_name: whether Landlock watches truncation (ABI 3 and later).
    """

    own_pid: int | None
    signals_confined: bool
    exec: bool
    memfd: bool
    network: bool
    truncate_by_name: bool
    driver: bool = False


def rules(policy: Policy) -> Iterator[Rule]:
    """The rules of a policy; a call that has none is allowed."""
    for name in _NEVER:
        yield Rule(name, DENY)
    # The flags of clone3 lie in memory, where a filter cannot look; libc falls back to clone.
    yield Rule("clone3", MISSING)
    yield Rule("clone", ALLOW, (Test(0, (0,), _CLONE_FORBIDDEN),), DENY)
    yield Rule("fcntl", DENY, (Test(1, _FCNTL_FORBIDDEN),))
    yield Rule("ioctl", DENY, (Test(1, _IOCTL_FORBIDDEN),))
    yield Rule("prctl", DENY, (Test(0, _PRCTL_FORBIDDEN),))
    # A pair of streams talks to itself only; a datagram socket of a pair could still be sent to any name.
    yield Rule("socketpair", ALLOW, (Test(0, (_AF_UNIX,)), Test(1, (_STREAM,), _TYPE_MASK)), DENY)
    if policy.network:
        kinds = (Test(0, (_AF_INET, _AF_INET6)), Test(1, (_STREAM, _DATAGRAM), _TYPE_MASK))
        yield Rule("socket", ALLOW, kinds, DENY)
    elif policy.driver:
        # A socket of these types sends nothing before it is connected, and connecting stays denied.
        kinds = (Test(0, (_AF_UNIX,)), Test(1, (_STREAM, _PACKETS), _TYPE_MASK))
        yield Rule("socket", ALLOW, kinds, DENY)
        for name in ("accept", "accept4", "connect"):
            yield Rule(name, DENY)
    else:
        for name in ("socket", *_NETWORK):
            yield Rule(name, DENY)
    if not policy.exec:
        yield Rule("execve", DENY)
        yield Rule("execveat", DENY)
    if not policy.memfd:
        yield Rule("memfd_create", DENY)
    if not policy.truncate_by_name:
        yield Rule("truncate", DENY)
        yield Rule("openat2", MISSING)
        for name, flags in (("open", 1), ("openat", 2)):
            yield Rule(name, DENY, (Test(flags, (_TRUNCATE,), _ACCESS_MODE | _TRUNCATE),))
    if policy.own_pid is not None:
        if not policy.signals_confined:
            for name, argument in _SIGNALS.items():
                yield Rule(name, ALLOW, (Test(argument, (policy.own_pid,)),), DENY)
        for name, argument in _OF_A_PROCESS.items():
            yield Rule(name, ALLOW, (Test(argument, (0, policy.own_pid)),), DENY)


def _step(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    """One struct sock_filter; the jumps count the steps to skip."""
    return struct.pack("=HBBI", code, true, false, value)


def _test(test: Test, over: int) -> bytes:
    """Falls through when the test holds, else skips `over` steps more."""
    low = 16 + 8 * test.argument  # both architectures are little-endian
    steps = _step(_LOAD, low) + (_step(_AND, test.mask) if test.mask != _WORD else b"")
    for index, value in enumerate(test.values):
        last = index == len(test.values) - 1
        steps += _step(_EQUAL, value, len(test.values) - 1 - index, over if last else 0)
    return steps


def _rule(rule: Rule, nr: int) -> bytes:
    """The steps of a rule; they need the call's number loaded, and leave it where the rule is not for it."""
    body = _step(_RETURN, rule.then)
    if rule.tests:
        body += _step(_RETURN, rule.otherwise)
    for test in reversed(rule.tests):
        body = _test(test, len(body) // 8 - 1) + body
    return _step(_EQUAL, nr, 0, len(body) // 8) + body


def program(policy: Policy, machine: str = syscalls.MACHINE) -> bytes:
    """The BPF program for a policy. Calls of another architecture end the process; x32 does not exist.

    Raises KeyError on an architecture without a table.
    """
    steps = _step(_LOAD, 4) + _step(_EQUAL, _ARCHITECTURE[machine], 1, 0) + _step(_RETURN, KILL)
    steps += _step(_LOAD, 0)
    if machine == "x86_64":
        steps += _step(_AT_LEAST, _X32_BIT, 0, 1) + _step(_RETURN, MISSING)
    for rule in rules(policy):
        nr = number(rule.name, machine)
        if nr is not None:
            steps += _rule(rule, nr)
    return steps + _step(_RETURN, ALLOW)


def available() -> str | None:
    """None where filters can be installed, else why not."""
    if syscalls.MACHINE not in _ARCHITECTURE:
        return f"no filter is written for {syscalls.MACHINE}"
    try:
        prctl(syscalls.PR_GET_SECCOMP)
        # A null filter is refused with EFAULT where filters exist and with EINVAL where they do not.
        call("prctl", syscalls.PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, None, 0, 0)
    except OSError as error:
        if error.errno == errno.EFAULT:
            return None
        return f"the kernel has no system call filters ({error.strerror})"
    return None


def install(policy: Policy) -> None:
    """Sets the filter for all threads of this process, for good; needs no_new_privs. Raises OSError."""
    code = program(policy)
    held = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: 16-bit length, padding, pointer.
    filter_program = struct.pack("=H6xQ", len(code) // 8, ctypes.addressof(held))
    call("seccomp", _FILTER_MODE, _ALL_THREADS, filter_program)

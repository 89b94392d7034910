"""What this machine offers to shut a worker in, tried in children that are thrown away."""

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.sandbox import bubblewrap, landlock, namespaces, seccomp, syscalls
from harness.sandbox.model import Level
from harness.sandbox.syscalls import call, prctl


@dataclass(frozen=True)
class Probe:
    """What works here. `reasons` has one entry for each feature that does not, by the name of its field.

    landlock_abi: 0 without. bubblewrap: the program, where it can make its sandbox.
    memory_cgroup: a group with a memory controller that this user can write to.
    """

    landlock_abi: int
    seccomp: bool
    pid_namespace: bool
    net_namespace: bool
    user_namespace: bool
    bubblewrap: Path | None
    memory_cgroup: bool
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def cage(self) -> Level:
        """The level that `enter` reaches by itself."""
        return Level.LANDLOCK if self.landlock_abi and self.seccomp else Level.NONE

    @property
    def level(self) -> Level:
        """The level of workers whose warm parent is in bubblewrap, where that works."""
        return Level.BUBBLEWRAP if self.bubblewrap and self.cage is Level.LANDLOCK else self.cage

    def remedies(self) -> list[str]:
        """What a person can do about what is missing; empty when nothing is."""
        found: list[str] = []
        if not self.landlock_abi:
            found.append("Landlock: a kernel 5.13 or later, with landlock in its boot option lsm=")
        elif self.landlock_abi < 6 and not self.pid_namespace:
            found.append("signals: a kernel 6.12 or later lets Landlock confine them; now a filter does")
        if not self.seccomp:
            found.append("system call filter: a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64")
        if not (self.pid_namespace and self.net_namespace):
            found += _namespace_remedies()
        return found

    def to_bubblewrap(self) -> list[str]:
        """What a person can do so that parents start in bubblewrap; empty where they do."""
        if self.bubblewrap is not None:
            return []
        if shutil.which("bwrap") is None:
            return ["bubblewrap: apt-get install bubblewrap (dnf, pacman, apk: the same name)"]
        return [text.replace("namespaces:", "bubblewrap:", 1) for text in _namespace_remedies()]


def _namespace_remedies() -> list[str]:
    """The switches of this machine that forbid a plain user its namespaces."""
    switches = {
        "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
        "/proc/sys/user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
            "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    }
    found = []
    for name, (bad, remedy) in switches.items():
        with contextlib.suppress(OSError):
            if Path(name).read_text().strip() == bad:
                found.append(f"namespaces: {remedy}")
    container = "namespaces: a container needs --security-opt seccomp=unconfined or --cap-add SYS_ADMIN"
    return found or [container]


def _in_child(work: Callable[[], dict[str, str]]) -> dict[str, str]:
    """What `work` found, run in a fork; a child that dies found nothing."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child makes system calls only
        pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.write(writer, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    with contextlib.suppress(ValueError):
        found: Any = json.loads(text)
        return {str(key): str(value) for key, value in found.items()}
    return {}


def _reason(work: Callable[[], object]) -> str:
    """The empty string when `work` succeeds, else why not."""
    try:
        work()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _first_of_a_namespace() -> None:
    """Forks the first process of a new PID namespace. Raises OSError."""
    call("unshare", namespaces.KINDS["pid"])
    pid = os.fork()
    if pid == 0:
        os._exit(0 if os.getpid() == 1 else 1)
    if os.waitpid(pid, 0)[1]:
        raise OSError(0, "a forked process is not the first of its namespace")


def _try_namespaces() -> dict[str, str]:
    """Tries them the way `enter_namespaces` makes them."""
    user = "" if namespaces.privileged() else _reason(namespaces.new_user)
    if user:
        return {"pid_namespace": user, "net_namespace": user}
    net = _reason(lambda: call("unshare", namespaces.KINDS["net"]))
    return {"net_namespace": net, "pid_namespace": _reason(_first_of_a_namespace)}


def _try_fences() -> dict[str, str]:
    """A user namespace, Landlock and a filter, closed for real."""
    found = {"user_namespace": _reason(namespaces.new_user)}
    prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    version = landlock.abi()
    found["landlock_abi"] = "the kernel has no Landlock, or it is not switched on"
    if version:
        found["landlock_abi"] = _reason(lambda: landlock.restrict(version, []))
    policy = seccomp.Policy(None, True, exec=False, memfd=False, network=False, truncate_by_name=True)
    found["seccomp"] = seccomp.available() or _reason(lambda: seccomp.install(policy))
    return found


def _memory_cgroup() -> str:
    """The empty string when this process' group has a memory controller to write to, else why not."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError as error:
        return error.strerror or str(error)
    groups = {names: place.lstrip("/") for _, names, place in (line.split(":", 2) for line in lines)}
    if "memory" in groups:
        folder = Path("/sys/fs/cgroup/memory", groups["memory"])
    else:
        folder = Path("/sys/fs/cgroup", groups.get("", ""))
        with contextlib.suppress(OSError):
            if "memory" not in (folder / "cgroup.controllers").read_text().split():
                return "the memory controller is not delegated to this group"
    return "" if os.access(folder, os.W_OK) and folder.is_dir() else f"{folder} cannot be written"


def probe() -> Probe:
    """Looks; never raises, changes nothing. A few milliseconds, the first time 20 more where bubblewrap is installed."""
    tried = ("landlock_abi", "seccomp", "pid_namespace", "net_namespace", "user_namespace")
    found = dict.fromkeys(tried, "the child that tried it died")
    for work in (_try_fences, _try_namespaces):
        with contextlib.suppress(OSError):
            found.update(_in_child(work))
    program, found["bubblewrap"] = bubblewrap.works()
    found["memory_cgroup"] = _memory_cgroup()
    return Probe(
        landlock_abi=0 if found["landlock_abi"] else landlock.abi(),
        seccomp=not found["seccomp"],
        pid_namespace=not found["pid_namespace"],
        net_namespace=not found["net_namespace"],
        user_namespace=not found["user_namespace"],
        bubblewrap=program,
        memory_cgroup=not found["memory_cgroup"],
        reasons={name: why for name, why in found.items() if why},
    )

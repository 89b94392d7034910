"""What Python, torch, Triton and a GPU's driver have to read, and nothing of the course's answers."""

import functools
import os
import shutil
import site
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

CLOSED: Final = ("reference", "graders", "tests", "exercises", ".git")  # of the repository, to every worker
SYSTEM: Final = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix/store",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/localtime",
    "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/os-release", "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies", "/etc/OpenCL", "/etc/ROCm",
    "/sys/devices", "/sys/kernel/mm/transparent_hugepage", "/sys/fs/cgroup",
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
)  # fmt: skip
# Resolved in the worker, where "self" is the worker. Single files: the folder would show other processes.
_PROC: Final = (
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/vmstat", "/proc/loadavg",
    "/proc/uptime", "/proc/version", "/proc/devices", "/proc/modules", "/proc/filesystems",
    "/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/fs",
)  # fmt: skip
_GPU: Final = (
    "/proc/driver/nvidia", "/proc/driver/nvidia-uvm", "/proc/driver/nvidia-caps", "/sys/bus/pci",
    "/sys/class/drm", "/sys/class/kfd", "/sys/module", "/etc/nvidia", "/run/nvidia-persistenced",
    "/usr/local/nvidia",
)  # fmt: skip
# What a virtual environment holds, when it was made in the repository's own folder.
_ENVIRONMENT: Final = ("bin", "lib", "lib64", "include", "share", "etc", "pyvenv.cfg")
_PACKAGES: Final = ("site-packages", "dist-packages")
_COMPILERS: Final = ("cc", "gcc", "clang", "ld", "as")
_COMPILER_FOLDERS: Final = ("/usr/lib/gcc", "/usr/libexec/gcc", "/usr/lib/llvm*/bin")


def without(folder: Path, denied: Iterable[Path]) -> list[Path]:
    """The folder, or, where something denied lies below it, what is in it without that. All paths resolved.

    What is made in a folder that was taken apart, after this looked, stays closed.
    """
    folder = folder.resolve()
    closed = [path.resolve() for path in denied]
    if any(folder.is_relative_to(path) for path in closed):
        return []
    if not any(path.is_relative_to(folder) for path in closed):
        return [folder] if folder.exists() else []
    try:
        children = sorted(folder.iterdir())
    except OSError:
        return []
    # A link among the children leads where the folder itself would not: what it points to has its own place.
    return [path for child in children if not child.is_symlink() for path in without(child, closed)]


def _prefixes(repository: Path) -> list[Path]:
    """The folders of Python and its packages; parts of the repository only where an environment is in it."""
    packages = [name for name in (*sys.path, *site.getsitepackages()) if Path(name).name in _PACKAGES]
    if site.ENABLE_USER_SITE and site.USER_SITE:
        packages.append(site.USER_SITE)
    found: list[Path] = []
    # The interpreter may be a link into a prefix of its own (uv, pyenv).
    executable = Path(sys.executable).resolve().parent.parent if sys.executable else Path(sys.base_prefix)
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    for name in (*map(str, prefixes), str(executable), *packages):
        path = Path(name).resolve()
        if path == repository:
            found += [path / part for part in _ENVIRONMENT]
        elif path.is_relative_to(repository) and not path.is_relative_to(repository / ".git"):
            found.append(path)
        elif path.parent != path:
            found += without(path, [repository])
    return found


@functools.cache
def default_readable(repository: Path) -> tuple[Path, ...]:
    """What a worker reads: the system's libraries, Python with its packages, and the repository's harness.

    Never its reference, graders, tests, exercises or .git, nor /root, /home and /tmp, but for Python itself.
    """
    repository = repository.resolve()
    found: list[Path] = []
    for name in SYSTEM:
        path = Path(name)
        found += without(path, [repository]) if path.is_dir() else [path] if path.exists() else []
    found += [path for path in _prefixes(repository) if path.exists()]
    found.append(repository / "harness")
    closed = [repository / name for name in CLOSED]
    kept = dict.fromkeys(path for path in found if not any(c.is_relative_to(path.resolve()) for c in closed))
    return (*outermost(kept), *(Path(name) for name in _PROC))


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths without those that lie below another."""
    every = sorted(set(paths), key=lambda path: len(path.parts))
    kept: list[Path] = []
    for path in every:
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


@functools.cache
def default_executable() -> tuple[Path, ...]:
    """The programs that Triton starts on a GPU: a C compiler with its parts, and Triton's own tools."""
    found = [Path(place).resolve() for name in _COMPILERS if (place := shutil.which(name))]
    for pattern in _COMPILER_FOLDERS:
        found += Path("/").glob(pattern.lstrip("/"))
    for name in sys.path:
        if Path(name).name in _PACKAGES:
            found += Path(name).glob("triton/backends/*/bin")
    return tuple(dict.fromkeys(path for path in found if path.exists()))


def loaders() -> list[Path]:
    """The dynamic loaders, which the kernel starts for a program that is allowed.

    A loader in turn starts any program that can be read: a cage with programs bounds what they do, not which.
    """
    patterns = ("lib64/ld-linux*", "lib/ld-linux*", "lib/ld-musl*")
    return [path for pattern in patterns for path in Path("/").glob(pattern)]


def gpu_devices() -> list[Path]:
    """The GPU's device files and folders that are there now."""
    patterns = ("nvidia*", "dri", "kfd", "dxg")
    return [path for pattern in patterns for path in Path("/dev").glob(pattern)]


def gpu_readable() -> list[Path]:
    """What a GPU's driver reads beyond the default."""
    return [path for path in map(Path, _GPU) if os.path.lexists(path)]

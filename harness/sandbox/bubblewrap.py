"""bubblewrap around a warm parent: what its workers may not read is not there at all.

The parent keeps the process numbers of the machine, by which it and its wardens are ended from outside; each worker has a
PID namespace of its own (`namespaces`), covers what belongs to others (`namespaces.show_only`) and enters its cage as it
does without bubblewrap.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.sandbox import namespaces, paths

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# The parts of the harness that a worker runs; what generates, compares and decides is not among them.
_PARTS: Final = ("worker", "sandbox", "interpreter", "compiler", "timing")
# Links that lead to programs and libraries; Landlock follows them, and needs no rule for them.
_LINKS: Final = ("/etc/alternatives", "/run/opengl-driver", "/run/current-system")
_NODES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_GPU_FOLDERS: Final = ("/sys", "/etc/vulkan", "/etc/egl", "/run/nvidia", "/usr/local/cuda")
_LIBRARY_PATHS: Final = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")
_START_LIMIT_S: Final = 5.0


def _links_on(path: Path) -> Iterator[Path]:
    """Every link that the kernel follows to reach a path, outermost first."""
    seen: set[Path] = set()
    pending = [path.absolute()]
    while pending:
        current = pending.pop()
        for place in (*reversed(current.parents), current):
            if place.is_symlink() and place not in seen:
                seen.add(place)
                yield place
                # Joined, not resolved: the way there may lead over further links.
                pending.append(Path(os.path.normpath(place.parent / os.readlink(place) / current.relative_to(place))))
                break


def _readable(gpu: bool) -> list[Path]:
    """What is shown, as folders and files that are there."""
    found = [path for path in paths.default_readable(REPOSITORY) if not path.is_relative_to("/proc")]
    found = [path for path in found if path not in (*map(Path, _NODES), REPOSITORY / "harness")]
    harness = REPOSITORY / "harness"
    found += [harness / part for part in _PARTS]
    found += [*sorted(harness.glob("*.py")), harness / "__pycache__"]
    found += map(Path, _LINKS)
    if gpu:
        found += [path for path in paths.gpu_readable() if not path.is_relative_to("/proc")]
        found += map(Path, _GPU_FOLDERS)
    for name in _LIBRARY_PATHS:
        for entry in os.environ.get(name, "").split(":"):
            # A home folder, or all there is, is not what such a path is for.
            if entry.startswith("/") and not any(p.is_relative_to(Path(entry).resolve()) for p in (REPOSITORY, Path.home())):
                found += paths.without(Path(entry), [REPOSITORY])
    if sys.pycache_prefix:  # Python keeps compiled files there by their whole path, those of the answers too
        prefix = Path(sys.pycache_prefix)
        found += [prefix / path.relative_to("/") for path in found if path.is_absolute()]
    return paths.outermost(path.resolve() for path in found if path.exists())


def _links(shown: Sequence[Path]) -> dict[Path, str]:
    """The links outside of what is shown by which it is reached, and what they say."""
    packages = [entry for entry in sys.path if entry]
    ways: list[str | Path] = [*paths.SYSTEM, *packages, sys.prefix, sys.base_prefix, sys.executable, *_LINKS, REPOSITORY]
    found: dict[Path, str] = {}
    for way in ways:
        for link in _links_on(Path(way)):
            if not any(link.is_relative_to(folder) for folder in shown):
                found[link] = os.readlink(link)
    return found


def options(writable: Path, readable: Iterable[Path], *, gpu: bool) -> list[str]:
    """What bubblewrap is told: `writable` can be written, `readable` be read beside the default; both as `Path.resolve`
    gives them. The program to start and its arguments come next."""
    # Root needs no user namespace, and its wardens need its rights to make namespaces; workers give them up. Others
    # get a user namespace, without rights, in which their wardens make one of their own.
    found = ["--cap-add", "ALL"] if namespaces.privileged() else ["--unshare-user"]
    # Not --die-with-parent: the thread that starts a parent may end before the run does. A parent ends when nobody is left
    # who could ask it for a worker, and with bubblewrap.
    found += ["--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try"]
    found += ["--tmpfs", "/tmp", "--proc", "/proc", "--tmpfs", "/dev/shm", "--symlink", "/proc/self/fd", "/dev/fd"]
    for node in (*map(Path, _NODES), *(paths.gpu_devices() if gpu else ())):
        found += ["--dev-bind-try", str(node), str(node)]
    shown = [*_readable(gpu), *readable]
    for path in shown:
        found += ["--ro-bind", str(path), str(path)]
    for link, target in _links(shown).items():
        if link not in (Path("/proc"), Path("/dev"), Path("/tmp")):
            found += ["--symlink", target, str(link)]
    found += ["--bind", str(writable), str(writable)]
    for folder in ("/tmp", "/dev/shm", "/"):
        found += ["--remount-ro", folder]
    return [*found, "--"]


def _try(program: str) -> str:
    """The empty string when bubblewrap starts Python, as it will start a warm parent, else why not."""
    with tempfile.TemporaryDirectory(prefix="grade-") as folder:
        command = [program, *options(Path(folder).resolve(), (), gpu=False), sys.executable, "-I", "-S", "-c", ""]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=_START_LIMIT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bwrap does not start ({error})"
        return (done.stderr.strip() or f"bwrap ends with {done.returncode}").splitlines()[-1] if done.returncode else ""


@functools.cache
def works() -> tuple[Path | None, str]:
    """The program when it can make its sandbox here, for this user; else why not. Tried once a process, 20 ms.

    Whether a worker's whole cage closes in it, and a GPU works, shows when a warm parent starts (`rehearsal`).
    """
    program = shutil.which("bwrap")
    if program is None:
        return None, "bwrap is not installed"
    why = _try(program)
    return (None, why) if why else (Path(program), "")

"""`grade doctor`: what this machine can and cannot do, and the command that mends it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from harness import course as courses
from harness.errors import GradeError

PACKAGES = ("torch", "triton", "numpy", "hypothesis", "ml_dtypes", "safetensors", "click", "rich")


@dataclass(frozen=True)
class Finding:
    """`ok` None: worth knowing, neither good nor bad."""

    what: str
    says: str
    ok: bool | None = True
    remedy: str = ""


def packages() -> Iterator[Finding]:
    """Versions, and whether they are there at all."""
    yield Finding("python", platform.python_version(), sys.version_info >= (3, 11), "install Python 3.11 or later")
    for name in PACKAGES:
        try:
            yield Finding(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "missing", False, f"pip install -c constraints.txt {name}")
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin and not os.path.exists(importlib.util.cache_from_source(torch.origin)):
        remedy = f"unset PYTHONDONTWRITEBYTECODE; python -m compileall -q {Path(torch.origin).parent}"
        yield Finding("  bytecode", "none is kept of torch: every command compiles it anew, which takes seconds", None, remedy)


def sandbox() -> Iterator[Finding]:
    """How well a worker can be shut in."""
    from harness.sandbox import probe

    found = probe()
    remedies = found.remedies()
    yield Finding("sandbox", str(found.level), str(found.level) != "none", "; ".join(remedies) or "see docs/trust.md")
    if found.bubblewrap is not None:
        yield Finding("  bubblewrap", str(found.bubblewrap))
    else:
        why, better = found.reasons["bubblewrap"], "; ".join(found.to_bubblewrap())
        yield Finding("  bubblewrap", f"{why}: what a worker may not read is closed, but not out of sight", None, better)
    namespaces = [
        n
        for n, ok in (("pid", found.pid_namespace), ("net", found.net_namespace), ("user", found.user_namespace))
        if ok
    ]
    yield Finding("  namespaces", ", ".join(namespaces) or "none", None, "; ".join(remedies))
    yield Finding("  Landlock", f"ABI {found.landlock_abi}" if found.landlock_abi else "not in this kernel", None)
    yield Finding("  system call filter", "works" if found.seccomp else "does not work", None)


def gpu() -> Iterator[Finding]:
    """Whether kernels can run on a GPU here, by what torch and the driver say."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch

    if torch.version.cuda is None:
        yield Finding(
            "gpu", "this torch is built for the CPU: kernels are interpreted", None, "pip install torch (a CUDA build)"
        )
    elif torch.cuda.device_count() == 0:
        yield Finding(
            "gpu", "no CUDA device: kernels are interpreted", None, "check nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
    else:
        for i in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(i)
            yield Finding(
                f"gpu {i}",
                f"{properties.name}, {properties.total_memory >> 30} GiB, capability {properties.major}.{properties.minor}",
            )
        compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
        yield Finding(
            "C compiler",
            compiler or "missing",
            bool(compiler),
            "apt-get install gcc (Triton builds its launchers with it)",
        )


def interpreter() -> Iterator[Finding]:
    """Start a warm parent and let it prove that interpreted results are right."""
    from harness.examiner.warm import Park

    with Park() as park:
        facts = park.warm("interpret").ready()
        yield Finding(
            "interpreter", f"{len(facts['mended'])} faults of stock Triton {facts['triton']} mended, none left"
        )
        with tempfile.TemporaryDirectory(prefix="grade-", dir=park.folder, ignore_cleanup_errors=True) as scratch:
            worker = park.warm("interpret").worker(Path(scratch), courses.Limits(), "cpu")
            level = worker.level
            worker.close()
        reason = "".join(f" ({why})" for why in park.reason.values())
        yield Finding("worker", f"starts, shut in by: {level}{reason}", level != "none", "see docs/trust.md")


def gpu_parent() -> Iterator[Finding]:
    """A warm parent for the GPU proves that CUDA works in the sandbox; where it does not, it starts without bubblewrap."""
    from harness.examiner.warm import Park

    with Park() as park:
        walled = park.warm("gpu").ready()["walled"]
        where = "in bubblewrap" if walled else "without bubblewrap"
        reason = "".join(f": {why}" for why in park.reason.values())
        yield Finding("gpu workers", f"start {where}{reason}", True if walled else None, "see docs/trust.md")


@click.command("doctor")
def command() -> int:
    """What this machine can and cannot do, and the command that mends it.

    \b
    Example: grade doctor
    """
    bad = False
    gpu_parts = [gpu_parent] if Path("/dev/nvidiactl").exists() else []
    for part in (packages, sandbox, gpu, interpreter, *gpu_parts):
        try:
            for finding in part():
                mark = {True: "ok", False: "XX", None: "--"}[finding.ok]
                click.echo(f"{mark} {finding.what:<20} {finding.says}")
                if finding.ok is False:
                    bad = True
                if finding.ok is not True and finding.remedy:
                    click.echo(f"   {'':<20} to mend it: {finding.remedy}")
        except (GradeError, ImportError, OSError) as error:
            bad = True
            click.echo(f"XX {part.__name__:<20} {error}")
    course = courses.find(Path.cwd())
    click.echo(f"ok {'course':<20} {course.path}: {sum(1 for _ in course.exercises())} exercises")
    return 3 if bad else 0

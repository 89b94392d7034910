"""How a warm parent is started: its command line, in bubblewrap or bare, and its environment."""

from __future__ import annotations

import contextlib
import os
import py_compile
import sys
from pathlib import Path

from harness.sandbox import bubblewrap

REPOSITORY = bubblewrap.REPOSITORY
# Only what Python, Triton and CUDA need: a submission learns nothing else of the machine or its user.
ENVIRONMENT = (
    "PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "VIRTUAL_ENV", "TZ",
    "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX",
)  # fmt: skip


def environment(mode: str, home: Path) -> dict[str, str]:
    """The environment of a warm parent; `home` takes what Python, Triton and CUDA write."""
    found = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    found |= {
        "HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(REPOSITORY),
        "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # counting devices must not initialise CUDA before the fork
        "TRITON_HOME": str(home),
    }  # fmt: skip
    if mode == "interpret":
        found["TRITON_INTERPRET"] = "1"
    if mode != "gpu":
        found["CUDA_VISIBLE_DEVICES"] = ""
    return found


def command(mode: str, descriptor: int, bwrap: Path | None, writable: Path, readable: list[Path]) -> list[str]:
    """`descriptor`: the parent's end of the control socket. `bwrap`: bubblewrap's program, where the parent shall be in it,
    who then can write to `writable` only, and read `readable` beside what it needs."""
    program = [sys.executable, "-m", "harness.worker.zygote", mode, str(descriptor)]
    if bwrap is None:
        return [*program, "bare"]
    return [str(bwrap), *bubblewrap.options(writable, readable, gpu=mode == "gpu"), *program, "bubblewrap"]


def keep_bytecode(sources: list[str]) -> None:
    """Keep that of what a parent in bubblewrap has imported, which is read-only there: the next one starts faster."""
    for source in () if sys.dont_write_bytecode else sources:
        if sys.pycache_prefix or os.access(os.path.dirname(source), os.W_OK):
            with contextlib.suppress(OSError):
                py_compile.compile(source, quiet=2)

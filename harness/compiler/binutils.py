"""NVIDIA's disassemblers, which Triton's wheel carries: cubin bytes in, text out.

`cuobjdump -res-usage` takes a few milliseconds; `nvdisasm` takes a quarter of a second whatever the kernel,
most of it to load its tables. No torch and no Triton are imported.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.errors import MachineError


@functools.cache
def tool(name: str) -> str:
    """The path of `cuobjdump` or `nvdisasm`: TRITON_<NAME>_PATH as Triton reads it, Triton's own copy, or
    PATH.

    Raises MachineError where there is none.
    """
    named = os.environ.get(f"TRITON_{name.upper()}_PATH")
    if named and os.access(named, os.X_OK):
        return named
    # find_spec of a top-level package finds it without running it.
    spec = importlib.util.find_spec("triton")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, "backends", "nvidia", "bin", name)
        if os.access(path, os.X_OK):
            return str(path)
    found = shutil.which(name)
    if found is None:
        raise MachineError(f"{name} is neither in Triton's package nor on PATH",
                           f"reinstall Triton, or set TRITON_{name.upper()}_PATH")  # fmt: skip
    return found


def resource_usage(cubin: bytes) -> str:
    """What `cuobjdump -res-usage` prints: one line of REG, STACK, SHARED, LOCAL a kernel."""
    return _run("cuobjdump", cubin, "-res-usage")


def sass(cubin: bytes) -> str:
    """The disassembly of the code sections."""
    return _run("nvdisasm", cubin, "-c")


def _run(name: str, cubin: bytes, *options: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool(name), *options, file.name], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise MachineError(
            f"{name} could not read a cubin: {done.stderr.strip()[:500]}",
            "it may be older than the compiler; Triton's wheel carries a matching one",
        )
    return done.stdout

"""What was compiled, for people: rows of a table, and files to read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .offline import Compiled

# Stages that are worth reading, by the suffix of their file.
WRITTEN = ("ttir", "ttgir", "ptx", "sass", "amdgcn")


def table(compiled: Iterable[Compiled]) -> list[dict[str, str]]:
    """One row of plain text a kernel, column name to cell; the same columns in every row."""
    return [_row(kernel) for kernel in compiled]


def _row(kernel: Compiled) -> dict[str, str]:
    return {
        "kernel": kernel.kernel,
        "target": kernel.target,
        "configuration": configuration(kernel),
        "registers": str(kernel.registers),
        "spills": f"{kernel.spills} ({kernel.local_bytes} B)" if kernel.local_bytes else str(kernel.spills),
        "shared memory": f"{_kib(kernel.shared_bytes)} of {_kib(kernel.max_shared)}",
        "widest load": _bits(kernel.widest_load),
        "widest store": _bits(kernel.widest_store),
        "tensor cores": f"{kernel.mma} {'+'.join(kernel.mma_kinds)}" if kernel.mma else "none",
        "async copies": str(kernel.async_copy) if kernel.async_copy else "none",
        "warps": str(kernel.num_warps),
        "stages": str(kernel.num_stages),
    }


def configuration(kernel: Compiled) -> str:
    """The autotuner's configuration without what has columns of its own; empty for a kernel that is not
    tuned."""
    values = dict(kernel.config or {})
    if values.get("num_ctas") == 1:  # Triton's default, in every configuration
        del values["num_ctas"]
    own = {"num_warps", "num_stages"}
    return ", ".join(f"{name}={value}" for name, value in values.items() if name not in own)


def _bits(bits: int) -> str:
    return f"{bits} bits" if bits else "none"


def _kib(size: int) -> str:
    return f"{size / 1024:.4g} KiB" if size else "0"


def write(compiled: Sequence[Compiled], folder: Path) -> list[Path]:
    """Write TTIR, TTGIR and PTX, SASS or AMDGCN as `kernel.target.suffix` into `folder`, which is made if
    need be.

    A kernel compiled more than once for a target gets a number: `kernel.2.target.suffix`. Gives the paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts: dict[tuple[str, str], int] = {}
    paths = []
    for kernel in compiled:
        # A kernel's name is an identifier of the student's choice; anything else in it stays out of the path.
        name = re.sub(r"\W", "_", kernel.kernel)[:100]
        count = counts[name, kernel.target] = counts.get((name, kernel.target), 0) + 1
        stem = name if count == 1 else f"{name}.{count}"
        for stage in WRITTEN:
            text = kernel.asm.get(stage)
            if isinstance(text, str):
                path = folder / f"{stem}.{kernel.target}.{stage}"
                path.write_text(text, encoding="utf-8")
                paths.append(path)
    return paths

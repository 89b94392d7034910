"""Whose kernels took the device's time: the submission's own, torch's copies, or a library's that computes.

The trace of torch's operators has seen the submission's calls before (`harness.worker.evidence`); this is a second
witness, which also sees what was launched behind that trace.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import torch

from harness.timing.trace import Kernel, total_ms

# torch's kernels that make a constant or move data, by what their mangled names hold.
_MAKES = re.compile(r"FillFunctor|arange|[Mm]emset")
_COPIES = re.compile(r"copy_kernel|CatArrayBatchedCopy|[Mm]emcpy")
_demangle = getattr(torch._C, "_demangle", str)


def plain(name: str) -> str:
    """A kernel's name as a person would say it: without parameters and template arguments."""
    text = str(_demangle(name)).removeprefix("void ")
    return re.split(r"[<(]", text, maxsplit=1)[0].strip() or name


def offence(calls: Sequence[Sequence[Kernel]], own: Collection[str], *, copies: bool = True) -> str:
    """What is wrong with the kernels of some calls, or nothing. `own`: names of the submission's kernels; `copies`: whether
    torch may copy."""
    for kernels in calls:
        foreign = [k for k in kernels if k.name not in own and not _MAKES.search(k.name)]
        computing = [k for k in foreign if not _COPIES.search(k.name)]
        if computing or (foreign and not copies):
            worst = max(computing or foreign, key=lambda k: k.ms)
            part = worst.ms / max(total_ms(kernels), 1e-9)
            does = "computes" if computing else "copies"
            return f"a library's kernel {does}: {plain(worst.name)}, {part:.0%} of the GPU's time"
        if not any(k.name in own for k in kernels):
            return "no kernel of the submission ran in a timed call"
    return ""


def share(kernels: Sequence[Kernel], own: Collection[str]) -> float:
    """The share of a call's time that the submission's own kernels take; 1 for no time."""
    total = total_ms(kernels)
    return total_ms([k for k in kernels if k.name in own]) / total if total else 1.0

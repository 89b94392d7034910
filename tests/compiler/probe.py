"""Compile `kernels.py` for one target in a process of its own and print what came out as JSON.

    python probe.py TARGET CASE...      a case is a name in CASES or FAILURES below
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from harness.compiler import offline, report

HERE = Path(__file__).resolve().parent


def cases() -> dict[str, Any]:
    import torch

    half = torch.zeros(256, 256, dtype=torch.float16)
    return {
        "copy": lambda k: k.copy(torch.zeros(4096)),
        "copy twice": lambda k: (k.copy(torch.zeros(4096)), k.copy(torch.zeros(4096))),
        "copy misaligned": lambda k: k.copy(torch.zeros(4097)[1:]),
        "copy strided": lambda k: k.copy(torch.zeros(4096, 3)[:, 1]),
        "copy bytes": lambda k: k.copy(torch.zeros(4096, dtype=torch.int8)),
        "matmul": lambda k: k.matmul(half, half, num_warps=8),
        "huge tile": lambda k: k.huge_tile(torch.zeros(8192)),
        "host descriptor": lambda k: k.host_descriptor(half),
        "device descriptor": lambda k: k.device_descriptor(half),
        "tuned": lambda k: k.tuned(half),
        "picky": lambda k: k.picky(half[:128, :128].contiguous()),
        "curious": lambda k: k.curious(torch.ones(4096)),
        "too much shared": lambda k: k.too_much_shared(half),
        **{
            name.replace("_", " "): lambda k, name=name: getattr(k, name)(torch.zeros(256))
            for name in ("broken", "mismatch", "asserting", "assembly", "missing_argument", "unknown_option",
                         "odd_warps", "many_warps", "swallowing")
        },
    }  # fmt: skip


def main(target: str, names: list[str]) -> dict[str, Any]:
    offline.prepare(target)
    sys.path.insert(0, str(HERE))
    import kernels

    every, results = cases(), {}
    fields = [field.name for field in dataclasses.fields(offline.Compiled) if field.name != "asm"]
    for name in names:
        raised, start = None, time.process_time()
        with offline.recording(disassemble="--ptx" not in sys.argv) as compiled:
            try:
                every[name](kernels)
            except offline.CompileFailure as failure:
                raised = str(failure)
        results[name] = {
            "seconds": time.process_time() - start,  # of this process: not of ptxas and the disassemblers
            "raised": raised,
            "failures": [vars(failure) for failure in compiled.failures],
            "passed over": [vars(failure) for failure in compiled.passed_over],
            "rows": report.table(compiled),
            "compiled": [
                {**{name: getattr(kernel, name) for name in fields}, "asm": sorted(kernel.asm)}
                for kernel in compiled
            ],
        }
        if folder := os.environ.get("PROBE_FOLDER"):
            report.write(compiled, Path(folder, name))
    return results


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], [name for name in sys.argv[2:] if name != "--ptx"])))

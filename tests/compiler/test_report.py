"""Rows and files made from what was compiled."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from harness.compiler import report
from harness.compiler.offline import Compiled

KERNEL = Compiled(
    kernel="scale", file="scale.py", line=3, target="sm_90",
    config={"BLOCK": 256, "num_warps": 8, "num_ctas": 1},
    registers=40, spills=2, local_bytes=8, shared_bytes=98_304, max_shared=232_448,
    widest_load=128, widest_store=0, mma=4, mma_kinds=("HGMMA",), async_copy=0, num_warps=8, num_stages=3,
    asm={"ptx": "// ptx", "sass": "// sass", "cubin": b"\x7fELF", "llir": "; llir"},
)  # fmt: skip


def test_a_row_is_plain_text() -> None:
    nothing = {"spills": 0, "local_bytes": 0, "shared_bytes": 0, "mma": 0}
    plain = dataclasses.replace(KERNEL, config=None, mma_kinds=(), **nothing)
    first, second = report.table([KERNEL, plain])
    assert first == {
        "kernel": "scale", "target": "sm_90", "configuration": "BLOCK=256",
        "registers": "40", "spills": "2 (8 B)",
        "shared memory": "96 KiB of 227 KiB", "widest load": "128 bits", "widest store": "none",
        "tensor cores": "4 HGMMA", "async copies": "none", "warps": "8", "stages": "3",
    }  # fmt: skip
    assert list(second) == list(first)
    assert (second["configuration"], second["spills"], second["tensor cores"]) == ("", "0", "none")
    assert second["shared memory"] == "0 of 227 KiB"


def test_files_are_named_by_kernel_and_target(tmp_path: Path) -> None:
    odd = dataclasses.replace(KERNEL, kernel="../up", target="sm_80")
    paths = report.write([KERNEL, KERNEL, odd], tmp_path / "out")
    assert [path.name for path in paths] == [
        "scale.sm_90.ptx", "scale.sm_90.sass", "scale.2.sm_90.ptx", "scale.2.sm_90.sass",
        "___up.sm_80.ptx", "___up.sm_80.sass",
    ]  # fmt: skip
    assert paths[1].read_text(encoding="utf-8") == "// sass"
    assert all(path.parent == tmp_path / "out" for path in paths)

"""One process a target compiles every case of `probe.py` that the tests look at; they share what it found."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

SHORT = ("copy", "matmul", "broken", "too much shared", "assembly")
CASES = {
    "sm_80": (*SHORT, "copy misaligned", "copy strided", "huge tile", "host descriptor"),
    "sm_90": (*SHORT, "copy twice", "host descriptor", "device descriptor", "tuned", "picky", "curious",
              "mismatch", "asserting", "missing argument", "unknown option", "odd warps", "many warps",
              "swallowing"),
    "sm_100": SHORT,
    "gfx942": (*SHORT, "copy strided", "curious"),
}  # fmt: skip


def clean_environment(cache: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    return {**kept, "TRITON_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT), **more}


class Probes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results: dict[str, dict[str, Any]] = {}

    def run(self, target: str, *cases: str, **environment: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, str(HERE / "probe.py"), target, *cases],
            capture_output=True, text=True, timeout=300, cwd=self.folder,
            env=clean_environment(self.folder / "cache", **environment),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        *printed, document = done.stdout.splitlines()
        assert not printed, "a compilation that failed printed something"
        result: dict[str, Any] = json.loads(document)
        return result

    def __getitem__(self, target: str) -> dict[str, Any]:
        """The results of all cases of a target, by case; compiled on first use, by one process of pytest."""
        if target not in self.results:
            kept = self.folder / f"{target}.json"
            with open(self.folder / f"{target}.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not kept.exists():
                    found = self.run(target, *CASES[target], PROBE_FOLDER=str(self.folder / "written"))
                    kept.write_text(json.dumps(found), encoding="utf-8")
            self.results[target] = json.loads(kept.read_text(encoding="utf-8"))
        return self.results[target]


@pytest.fixture(scope="session")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Probes:
    base = tmp_path_factory.getbasetemp()
    # Under pytest-xdist each process has a folder of its own in one that they share.
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiler-probes"
    folder.mkdir(exist_ok=True)
    return Probes(folder)

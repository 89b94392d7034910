"""The hardware's counters of each kernel of a timed call, as Nsight Compute reads them.

Nsight Compute runs the program itself, repeats every kernel once for each group of counters, and needs the right to read
them. The program (`target`) imports the submission without a sandbox: for one's own work.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 300.0
# Nsight Compute's name of each counter, and what it is called here.
METRICS = {
    "gpu__time_duration.sum": "time",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM busy",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM busy",
    "lts__t_sector_hit_rate.pct": "L2 hits",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps resident",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue slots used",
    "dram__bytes_read.sum": "read from DRAM",
    "dram__bytes_write.sum": "written to DRAM",
    "launch__registers_per_thread": "registers a thread",
}


@dataclass(frozen=True)
class Counters:
    """One launch of a kernel: the counters by the names of `METRICS`, with their units."""

    kernel: str
    values: dict[str, str]


class Unreadable(Exception):
    """There are no counters to be had; the message says why and what to do."""


def program() -> str | None:
    """Nsight Compute, where it is installed."""
    return shutil.which("ncu")


def collect(root: Path, exercise: str, file: Path, case: int, device: str) -> list[Counters]:
    """Of one call of a timed case of the submission in `file`. Raises `Unreadable`."""
    ncu = program()
    if ncu is None:
        raise Unreadable("Nsight Compute (ncu) is not on the PATH")
    command = [
        ncu, "--csv", "--page", "raw", "--metrics", ",".join(METRICS), "--clock-control", "none", "--profile-from-start", "off",
        "--target-processes", "all", sys.executable, "-m", "harness.profiler.target", str(root), exercise, str(file), str(case),
        device,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unreadable(f"Nsight Compute took longer than {LIMIT_S:g} s") from None
    text = done.stdout + done.stderr
    if "ERR_NVGPUCTRPERM" in text:
        raise Unreadable("this user may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root, or ask who may allow it")
    found = parse(done.stdout)
    if not found:
        last = [line for line in text.splitlines() if line.strip()][-3:]
        raise Unreadable("Nsight Compute read no counters: " + " / ".join(last))
    return found


def parse(text: str) -> list[Counters]:
    """The table that `ncu --csv --page raw` prints among other lines: a row of names, a row of units, a row a launch."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(io.StringIO("\n".join(lines))))
    if len(rows) < 3 or "Kernel Name" not in rows[0]:
        return []
    names, units = rows[0], rows[1]
    found = []
    for row in rows[2:]:
        if len(row) != len(names):
            continue
        cells = {n: (v, u) for n, v, u in zip(names, row, units, strict=False)}
        read = {label: cells[name] for name, label in METRICS.items() if cells.get(name, ("", ""))[0]}
        values = {label: f"{value} {unit}".strip() for label, (value, unit) in read.items()}
        found.append(Counters(cells["Kernel Name"][0], values))
    return found

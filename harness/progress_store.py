"""What is remembered between runs, in .grade/ of the course's folder: best scores, hints shown, peaks of devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.record import Record, number

FOLDER = ".grade"


def read(root: Path, name: str, kind: type) -> dict[str, Any]:
    """The remembered table, empty when there is none or it cannot be read; rows that are no `kind` are left out."""
    try:
        value = json.loads((root / FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in value.items() if isinstance(v, kind)} if isinstance(value, dict) else {}


def write(root: Path, name: str, table: dict[str, Any]) -> None:
    """Remember a table; a folder that cannot be written is no reason to fail."""
    try:
        (root / FOLDER).mkdir(exist_ok=True)
        scratch = root / FOLDER / f"{name}.part"
        scratch.write_text(json.dumps(table, indent=1, sort_keys=True), encoding="utf-8")
        scratch.replace(root / FOLDER / f"{name}.json")
    except OSError:
        return


def remember(root: Path, record: Record) -> None:
    """Keep the best score of each exercise of the student's own work."""
    best = read(root, "scores", dict)
    for result in record.exercises:
        score = number(result.score)
        if score >= best.get(result.id, {}).get("score", -1):
            best[result.id] = {"score": score, "max_score": number(result.max_score), "status": str(result.status)}
    write(root, "scores", best)

"""Grade every reference on a GPU and write docs/calibration.md: ratio, times, threshold, stretch.

    python -m benchmarks.references [TARGET] [--out FOLDER] [--examples N]

The rows are made from the result document of `grade TARGET --from reference --device cuda`, so the table says what the
command says. Run it on the GPU that the thresholds are set for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def graded(options: list[str]) -> dict:
    """The result document of the references."""
    command = [sys.executable, "-m", "harness", *options, "--json", "-"]
    return json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False).stdout)


def table(document: dict) -> list[str]:
    """Markdown rows, one a timed case."""
    rows = [
        "| exercise | case | reference ms | baseline | baseline ms | ratio | threshold | stretch | of the roofline |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for exercise in document["exercises"]:
        speed = exercise["performance"]
        for case in speed["cases"]:
            stretch = speed["stretch"] if speed["stretch"] is not None else ""
            rows.append(
                f"| {exercise['id']} | {case['shape']} | {case['time_ms']:.4f} | {speed['baseline']} "
                f"| {case['baseline_ms']:.4f} | {case['ratio']:.3f} | {speed['threshold']} | {stretch} | {case['roofline']} |"
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="?", default="all")
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    parser.add_argument("--examples", type=int, help="of each check; the times do not depend on it")
    parser.add_argument("--document", type=Path, help="what such a command wrote, instead of running it")
    options = parser.parse_args()
    asked = [options.target, "--from", "reference", "--device", "cuda"]
    asked += ["--examples", str(options.examples)] if options.examples else []
    document = json.loads(options.document.read_text()) if options.document else graded(asked)
    machine = document["environment"]
    statuses = (
        ", ".join(f"{e['id']} {e['status']}" for e in document["exercises"] if e["status"] != "passed") or "all passed"
    )
    lines = [
        "# Calibration",
        "",
        f"`grade {' '.join(asked)}` on one {machine['gpu']} (driver {machine['driver']}, "
        f"torch {machine['torch']}, Triton {machine['triton']}, Python {machine['python']}, sandbox {machine['sandbox']}): "
        f"{document['score']} of {document['max_score']} points, {statuses}, {document['duration_s']:.0f} s.",
        "",
        "The ratio is the baseline's time over the reference's, the median of interleaved pairs with a cold L2 and new values "
        "every pair, by the device's events from .1 ms on and by the profiler's trace below; an exercise with several cases is "
        "judged by their geometric mean. A threshold is at most 0.9 of what the reference reaches, and the seed's own figures "
        "are never lowered.",
        "",
        *table(document),
        "",
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "calibration.md").write_text("\n".join(lines), encoding="utf-8")
    (options.out / "calibration.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

"""How much of the error bounds right solutions use, and by how much the nearest faulty precision exceeds them.

    python -m benchmarks.margins [TARGET ...] [--device cuda] [--out FOLDER]

Right: the reference and every alternate, over all checks. Faulty: the mutants of kind m6 and those whose kind names a
precision. The unit is the bound: 1 is the last error that passes. Writes docs/margins-DEVICE.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import course as courses
from harness.examiner.graders import grader_of
from harness.examiner.run import Options, Run
from harness.examiner.warm import Park
from harness.gate import solutions
from harness.gate.solutions import Kind
from harness.grading.grader import TensorGrader

ROOT = Path(__file__).parents[1]
PRECISION = ("m6", "precision", "tf32", "fp16")


def measured(course, exercise):
    """(solution, "right" or "faulty") of all that is measured."""
    for solution in solutions.gather(course, exercise):
        if solution.kind in (Kind.REFERENCE, Kind.ALTERNATE):
            yield solution, "right"
        elif solution.kind is Kind.MUTANT and solution.fault.lower() in PRECISION:
            yield solution, "faulty"


def row(run: Run, solution, kind: str) -> str:
    """The largest error over all checks in units of its bound, and the exercise's status."""
    (result,) = run.execute([solution.work], solution.work.exercise.id).exercises
    used, name = max(c.margin for c in result.checks), solution.name or solution.work.exercise.name
    return f"| {result.id} | {name} | {kind} | {used:.3g} | {result.status} |"


def has_tolerance(grader) -> bool:
    return isinstance(grader, TensorGrader) and grader.bound.kind == "tolerance"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=["all"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--examples", type=int, help="of each check")
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    options = parser.parse_args()
    course = courses.load(ROOT / "course.toml")
    lines = ["| exercise | solution | | largest error / bound | status |", "| --- | --- | --- | ---: | --- |"]
    device = "cuda:0" if options.device == "cuda" else options.device
    bounded = [e for e in course.select(tuple(options.targets)) if has_tolerance(grader_of(course, e))]
    with Park() as park:
        run = Run(course, park, Options(device=device, seed=2026, timing=False, examples=options.examples), lambda *_: None)
        lines_of = (row(run, *found) for e in bounded for found in measured(course, e))
        options.out.mkdir(parents=True, exist_ok=True)
        with (options.out / f"margins-{options.device}.md").open("w", encoding="utf-8", buffering=1) as file:
            print(*lines, sep="\n", file=file)
            for line in lines_of:
                print(line, file=file)
                print(line, flush=True)


if __name__ == "__main__":
    main()

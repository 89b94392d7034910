"""How much of the error bounds right solutions use, and by how much the nearest faulty precision exceeds them.

    python -m benchmarks.margins [TARGET ...] [--device cuda] [--out FOLDER]

Right: the reference and every alternate, over all checks. Faulty: the mutants of kind m6 and those whose kind names a
precision. The unit is the bound: 1 is the last error that passes. Writes docs/margins.md.
"""

from __future__ import annotations

import argparse
import tempfile
import tomllib
from pathlib import Path

from harness import course as courses
from harness import submission
from harness.examiner.run import Options, Run, grader_of
from harness.examiner.warm import Park
from harness.grading.grader import TensorGrader

ROOT = Path(__file__).parents[1]
PRECISION = ("m6", "precision", "tf32", "fp16")


def largest(run: Run, exercise, file: Path) -> tuple[float, str]:
    """The largest error over all checks in units of its bound, and the exercise's status."""
    record = run.execute(submission.find(run.course, (exercise,), file), exercise.id)
    (result,) = record.exercises
    return max(c.margin for c in result.checks), str(result.status)


def rows(run: Run, exercise) -> list[str]:
    reference = ROOT / "reference" / exercise.chapter / f"{exercise.name}.py"
    lines = []
    alternates = sorted((ROOT / "tests" / "alternates" / exercise.chapter).glob(f"{exercise.name}__*.py"))
    for file in (reference, *alternates):
        used, status = largest(run, exercise, file)
        lines.append(f"| {exercise.id} | {file.stem} | right | {used:.3g} | {status} |")
    mutants = tomllib.loads(
        (ROOT / "tests" / "mutants" / exercise.chapter / f"{exercise.name}.toml").read_text("utf-8")
    )
    for mutant in mutants["mutant"]:
        if str(mutant["kind"]).lower() not in PRECISION:
            continue
        source = reference.read_text("utf-8")
        for edit in mutant["edits"]:
            source = source.replace(edit["find"], edit["replace"])
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{exercise.name}.py"
            file.write_text(source, "utf-8")
            used, status = largest(run, exercise, file)
        lines.append(f"| {exercise.id} | {mutant['name']} | faulty | {used:.3g} | {status} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=["all"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    options = parser.parse_args()
    course = courses.load(ROOT / "course.toml")
    lines = ["| exercise | solution | | largest error / bound | status |", "| --- | --- | --- | ---: | --- |"]
    device = "cuda:0" if options.device == "cuda" else options.device
    with Park() as park:
        run = Run(course, park, Options(device=device, seed=2026, timing=False), lambda *_: None)
        for exercise in course.select(tuple(options.targets)):
            grader = grader_of(course, exercise)
            if isinstance(grader, TensorGrader) and grader.bound.kind == "tolerance":
                lines += rows(run, exercise)
    text = "\n".join(lines) + "\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"margins-{options.device}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

"""How much of the error bounds right solutions use, and by how much the nearest faulty precision exceeds them.

    python -m benchmarks.margins [TARGET ...] [--device cuda] [--out FOLDER]

Right: the reference and every alternate, over all checks. Faulty: the mutants of kind m6 and those whose kind names a
precision. The unit is the bound: 1 is the last error that passes. Writes docs/margins-DEVICE.md.
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


def solutions(exercise, folder: Path):
    """(name, "right" or "faulty", file) of everything that is measured; mutants are written to `folder`."""
    reference = ROOT / "reference" / exercise.chapter / f"{exercise.name}.py"
    for file in (reference, *sorted((ROOT / "tests" / "alternates" / exercise.chapter).glob(f"{exercise.name}__*.py"))):
        yield file.stem, "right", file
    table = ROOT / "tests" / "mutants" / exercise.chapter / f"{exercise.name}.toml"
    for number, mutant in enumerate(tomllib.loads(table.read_text("utf-8"))["mutant"]):
        if str(mutant["kind"]).lower() in PRECISION:
            source = reference.read_text("utf-8")
            for edit in mutant["edits"]:
                source = source.replace(edit["find"], edit["replace"])
            file = folder / str(number) / f"{exercise.name}.py"
            file.parent.mkdir(parents=True)
            file.write_text(source, "utf-8")
            yield mutant["name"], "faulty", file


def row(run: Run, exercise, name: str, kind: str, file: Path) -> str:
    used, status = largest(run, exercise, file)
    return f"| {exercise.id} | {name} | {kind} | {used:.3g} | {status} |"


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
    with Park() as park, tempfile.TemporaryDirectory() as folder:
        run = Run(course, park, Options(device=device, seed=2026, timing=False, examples=options.examples), lambda *_: None)
        measured = (row(run, e, *found) for e in bounded for found in solutions(e, Path(folder) / e.name))
        options.out.mkdir(parents=True, exist_ok=True)
        with (options.out / f"margins-{options.device}.md").open("w", encoding="utf-8", buffering=1) as file:
            print(*lines, sep="\n", file=file)
            for line in measured:
                print(line, file=file)
                print(line, flush=True)


if __name__ == "__main__":
    main()

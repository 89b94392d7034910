"""`grade profile EXERCISE`: where the time goes, and where that is on the roofline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from harness import course as courses
from harness import submission
from harness.commands.run import device_of, write
from harness.errors import MachineError


@click.command("profile")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--from", "source", type=click.Path(path_type=Path), help="Other work, as `grade run --from` takes it.")
@click.option("--device", default="auto", show_default=True, metavar="auto|cuda[:N]", help="Which GPU.")
@click.option("--json", "json_to", metavar="PATH|-", help="Write the figures; with - nothing else goes to stdout.")
@click.option(
    "--counters/--no-counters",
    default=None,
    help="Read the hardware's counters with Nsight Compute, which runs the code without the sandbox.  [default: where ncu is "
    "installed and the work lies in this course]",
)
def command(targets: tuple[str, ...], source: Path | None, device: str, json_to: str | None, counters: bool | None) -> int:
    """The kernels of each timed case, their share of the time, and their place on the roofline.

    \b
    Example: grade profile ch07.matmul
    """
    course = courses.find(Path.cwd())
    exercises = course.select(targets)
    submissions = submission.find(course, exercises, source)
    submission.require_sandbox(submissions)

    from harness.examiner.warm import Park

    with Park() as park:
        if Path("/dev/nvidiactl").exists():
            park.warm("gpu")
        where = device_of(device)
        if where == "cpu":
            raise MachineError("there is no GPU here to profile on", "`grade inspect` shows what the compiler made")

        from rich.console import Console

        from harness.examiner.run import Options, Run
        from harness.profiler import counters as reader
        from harness.profiler import position
        from harness.views import profile as view

        run = Run(course, park, Options(device=where, seed=0), lambda *_: None)
        console, failed = Console(quiet=json_to == "-"), False
        document: list[dict[str, Any]] = []
        for one, found in position.positions(run, submissions):
            console.print(f"[bold]{one.exercise.id}[/bold]  {one.path}", highlight=False)
            if isinstance(found, str):
                failed = True
                console.print(f"  {found}", highlight=False)
                document.append({"exercise": one.exercise.id, "message": found, "cases": []})
                continue
            rows = []
            own = counters if counters is not None else _is_own(course.root, one) and reader.program() is not None
            if one.packed:  # Nsight Compute would run it by itself, without the sandbox, and there is no .py file to run
                own = False
            for number, case in enumerate(found):
                launches: list[reader.Counters] = []
                note = "" if own else "Nsight Compute was not asked (--counters; of .py files only)"
                if own:
                    try:
                        launches = reader.collect(course.root, one.exercise.id, Path(one.path).resolve(), number, where)
                    except reader.Unreadable as why:
                        note = str(why)
                console.print(view.render(case, launches, note))
                row = position.to_dict(case)
                rows.append(row | {"counters": [{"kernel": c.kernel, **c.values} for c in launches], "note": note})
            document.append({"exercise": one.exercise.id, "message": "", "cases": rows})
    if json_to is not None:
        write(json_to, json.dumps(document, indent=1) + "\n")
    return 1 if failed else 0


def _is_own(root: Path, work: submission.Submission) -> bool:
    """Whether the file lies in the course's folder: then it is the work of who asks."""
    return bool(work.path) and Path(work.path).resolve().is_relative_to(root.resolve())

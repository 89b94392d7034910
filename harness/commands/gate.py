"""`grade gate`: the exercise set against itself, for CI."""

from __future__ import annotations

from pathlib import Path

import click

from harness import course as courses
from harness.errors import UsageError

REPORTS = ("junit", "markdown")


@click.command("gate")
@click.argument("targets", nargs=-1, metavar="[TARGET...]")
@click.option("--json", "json_to", metavar="PATH|-", help="Write what was seen; with - nothing else goes to stdout.")
@click.option("--report", "reports", multiple=True, metavar="FORMAT=PATH", help="junit or markdown; repeatable.")
@click.option("--device", default="auto", show_default=True, metavar="auto|cpu|cuda[:N]", help="Where kernels run.")
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="Of the examples.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Grade right solutions with so many.")
@click.option("--examples", type=click.IntRange(1, 100_000), metavar="N", help="Examples of each check.")
@click.option("--files", is_flag=True, help="Look at the files only; grade nothing.")
@click.option("--mutate", is_flag=True, help="Systematic mutations of the references too.")
@click.option("--no-timing", is_flag=True, help="On a GPU: leave the references' thresholds out.")
@click.option("--unsandboxed", is_flag=True, help="Run without the sandbox.")
@click.pass_obj
def command(
    park: object, targets: tuple[str, ...], json_to: str | None, reports: tuple[str, ...], device: str, seed: int, seeds: int,
    examples: int | None, files: bool, mutate: bool, no_timing: bool, unsandboxed: bool,
) -> int:  # fmt: skip
    """Hold the exercise set to itself: its files are whole, references reach full marks, stubs none, mutants fail where they
    say, alternates pass.

    \b
    grade gate                                           all chapters that are built
    grade gate ch02 --report markdown=summary.md         one of them, for a CI summary
    grade gate ch02 --files                              is everything there? In a second or two
    grade gate --seeds 20                                right solutions with 20 seeds
    grade gate ch02 --mutate                             mutations of the references: which ones does no check see?

    Exit codes: 0 all of it held; 1 the set falls short; 3 the harness or the machine failed.
    """
    from harness.commands.run import device_of, write

    course = courses.find(Path.cwd())
    exercises = course.select(targets or ("all",))
    wanted = [_report(text) for text in reports]

    from rich.console import Console

    from harness.examiner.warm import Park
    from harness.gate import trial
    from harness.views import gate as views

    asked = trial.Asked(
        " ".join(targets) or "all", device_of(device), seed, seeds, examples, timing=not no_timing, mutate=mutate,
        files=files, sandboxed=not unsandboxed,
    )  # fmt: skip
    errors = Console(stderr=True)
    with Park(sandboxed=not unsandboxed) as own, errors.status("looking at the files") as line:
        kept = park if isinstance(park, Park) else own
        report = trial.run(
            course, exercises, kept, asked, lambda what, done: line.update(f"{what}: {done} checks done")
        )
    for form, path in wanted:
        write(path, views.junit(report) if form == "junit" else views.markdown(report))
    if json_to is not None:
        write(json_to, views.document(report))
    if json_to != "-":
        Console(soft_wrap=False).print(views.render(report))
    return report.exit_code


def _report(text: str) -> tuple[str, str]:
    form, equals, path = text.partition("=")
    if form not in REPORTS or not equals or not path:
        raise UsageError(f"--report {text} is no FORMAT=PATH", f"FORMAT is one of {', '.join(REPORTS)}")
    return form, path

"""`grade inspect EXERCISE`: what the compiler made of the kernels, for GPUs that need not be there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from harness import course as courses
from harness import submission
from harness.errors import UsageError

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")


@click.command("inspect")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--from", "source", type=click.Path(path_type=Path), help="Other work, as `grade run --from` takes it.")
@click.option(
    "--arch",
    "arches",
    multiple=True,
    type=click.Choice(TARGETS),
    help="Only this GPU; repeatable.  [default: all four]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("inspect"),
    show_default=True,
    help="Folder for PTX, SASS and the rest.",
)
def command(targets: tuple[str, ...], source: Path | None, arches: tuple[str, ...], out: Path) -> int:
    """Registers, spills, shared memory, widest load and store, tensor-core instructions; writes PTX and SASS.

    \b
    Example: grade inspect ch02.vec_add --arch sm_90
    """
    course = courses.find(Path.cwd())
    exercises = course.select(targets)
    submissions = submission.find(course, exercises, source)
    submission.require_sandbox(submissions)

    from rich.console import Console
    from rich.markup import escape

    from harness.examiner import compiling
    from harness.examiner.graders import grader_of
    from harness.examiner.trial import Wrong
    from harness.examiner.warm import Park

    console, failed = Console(), False
    with Park() as park:
        for one in submissions:
            grader = grader_of(course, one.exercise)
            if not grader.kernels or not one.files:
                why = one.missing or one.refused or "has no kernel"
                console.print(f"[bold]{one.exercise.id}[/bold]  {escape(why)}", highlight=False)
                continue
            lists = compiling.calls(grader)[-1:]
            rows: list[dict[str, str]] = []
            for target in arches or TARGETS:
                try:
                    reply = compiling.ask(park, one, lists, target, asm=True)
                except Wrong as wrong:
                    message = escape(one.located(wrong.message))
                    console.print(f"[bold]{one.exercise.id}[/bold]  {target}: {wrong.status}: {message}", highlight=False)
                    failed = True
                    continue
                for failure in reply["failures"]:
                    failed = True
                    console.print(f"{failure['kernel']} does not compile for {target}: {failure['message']}", highlight=False)
                rows += reply["rows"]
                _write(reply["asm"], out / one.exercise.id)
            _table(console, one.exercise.id, rows)
    console.print(f"code in {out}{os.sep}", highlight=False)
    return 1 if failed else 0


def _write(kernels: list[dict[str, Any]], folder: Path) -> None:
    """PTX, SASS and the like, one file each; a kernel's name is the submission's word and may not name a path."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, kernel in enumerate(kernels):
            name = "".join(c if c.isalnum() or c == "_" else "_" for c in kernel["kernel"])[:80]
            for stage, code in kernel["asm"].items():
                if stage in ("ttir", "ttgir", "ptx", "sass", "amdgcn") and isinstance(code, str):
                    (folder / f"{name}.{number}.{kernel['target']}.{stage}").write_text(code, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}", "name another folder with --out") from None


def _table(console: Any, title: str, rows: list[dict[str, str]]) -> None:
    """One block a kernel and target: fits 80 columns where a wide table would not."""
    console.print(f"[bold]{title}[/bold]", highlight=False)
    for row in rows:
        head = f"  {row['kernel']}  {row['target']}" + (f"  ({row['configuration']})" if row["configuration"] else "")
        console.print(head, highlight=False)
        for key in (
            "registers",
            "spills",
            "shared memory",
            "widest load",
            "widest store",
            "tensor cores",
            "async copies",
            "warps",
        ):
            console.print(f"    {key:<14} {row[key]}", highlight=False)

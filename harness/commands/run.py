"""`grade TARGET ...`: grade work and show the result."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from pathlib import Path

import click

from harness import course as courses
from harness import progress_store, submission
from harness.errors import MachineError, UsageError


@click.command("run")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="Other work: a folder or a .zip or .tar.gz (with or without chNN_slug folders), a .py file, or a notebook (.ipynb) of "
    "an exercise or a chapter.",
)
@click.option("--json", "json_to", metavar="PATH|-", help="Write the result document; with - nothing else goes to stdout.")
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="auto|cpu|cuda[:N]",
    help="Where kernels run; cpu interprets them.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    help="Repeat a run: the same examples. Without it, a new seed each run.",
)
@click.option("--no-timing", is_flag=True, help="Check correctness only.")
@click.option(
    "--examples",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Examples of each check (default 24 interpreted, 40 on a GPU).",
)
@click.option("--check", "only", multiple=True, metavar="NAME", help="Run only this check and what it needs; repeatable.")
@click.option(
    "--unsandboxed",
    is_flag=True,
    help="Run the submission without the sandbox (your own work, on your own machine). Archives and notebooks run without one "
    "only if this is given.",
)
@click.pass_obj
def command(
    park: object,
    targets: tuple[str, ...],
    source: Path | None,
    json_to: str | None,
    device: str,
    seed: int | None,
    no_timing: bool,
    examples: int | None,
    only: tuple[str, ...],
    unsandboxed: bool,
) -> int:
    """Grade the work in exercises/, or what --from names.

    TARGET is a chapter (ch02), an exercise (ch02.vec_add), a module (basics) or all.
    """
    # A program that grades many times keeps its warm parents and hands them in as click's object.
    course = courses.find(Path.cwd())
    exercises = course.select(targets)
    submissions = submission.find(course, exercises, source)
    _known_checks(exercises, only)
    if not unsandboxed:
        submission.require_sandbox(submissions, "add --unsandboxed")

    from harness.examiner.kernel_store import KernelStore
    from harness.examiner.warm import Park

    with Park(sandboxed=not unsandboxed, store=KernelStore(course.root / progress_store.FOLDER / "kernels")) as own:
        kept = park if isinstance(park, Park) else own
        # The parents warm up side by side, and while this process imports torch itself.
        gpu = device != "cpu" and Path("/dev/nvidiactl").exists()
        kept.warm("gpu" if gpu else "interpret")
        if not only or "compiles" in only:
            kept.warm("compile")

        from rich.console import Console

        from harness.examiner.run import Options, Run
        from harness.views import document, terminal
        from harness.views.progress import Live

        where = device_of(device)
        flags = ["--from", str(source)] if source is not None else []
        seed = secrets.randbits(31) if seed is None else seed
        flags += ["--device", where, "--seed", str(seed)]
        if examples is not None:
            flags += ["--examples", str(examples)]
        options = Options(
            device=where, seed=seed, timing=not no_timing, examples=examples, sandboxed=not unsandboxed,
            only=lambda submission: frozenset(only) or None,
            replay=lambda exercise: " ".join(map(_typed, ["grade", exercise, *flags])),
        )  # fmt: skip
        with Live(Console(stderr=True)) as live:
            record = Run(course, kept, options, live.update).execute(submissions, " ".join(targets))
    if json_to is not None:
        write(json_to, document.render(record))
    if json_to != "-":
        Console(soft_wrap=False).print(terminal.render(record))
    if source is None:
        progress_store.remember(course.root, record)
    return record.exit_code


def _typed(word: str) -> str:
    """A word of a command as it is typed in a shell; one that cannot be shown, by the numbers of its bytes."""
    if word.isprintable():
        return shlex.quote(word)
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in "\\'" else f"\\x{b:02x}" for b in os.fsencode(word))
    return f"$'{plain}'"


def _known_checks(exercises: tuple[courses.Exercise, ...], only: tuple[str, ...]) -> None:
    import difflib

    names = sorted({n for e in exercises for n in e.points})
    for name in only:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            raise UsageError(
                f"no check is called {name!r}",
                f"did you mean {close[0]!r}?" if close else f"checks: {', '.join(names)}",
            )


def device_of(asked: str) -> str:
    """The device that `--device` asks for, "cpu" or "cuda:N"; raises for one that is not there."""
    import re

    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", asked):
        raise UsageError(f"--device {asked} is none of auto, cpu, cuda, cuda:N", "for example --device cuda:0")
    if asked == "cpu":
        return "cpu"
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch

    count = torch.cuda.device_count()
    if asked == "auto":
        return "cuda:0" if count else "cpu"
    number = int(asked.split(":")[1]) if ":" in asked else 0
    if number >= count:
        raise MachineError(
            f"--device {asked}: this machine shows {count} CUDA devices to torch {torch.__version__}",
            "run `grade doctor`",
        )
    return f"cuda:{number}"


def write(to: str, text: str) -> None:
    """A document to stdout ("-"), or to a file that is there whole or not at all. What is no file (a pipe, a device) is
    written to as it is."""
    if to == "-":
        sys.stdout.write(text)
        return
    try:
        path = Path(to).resolve()  # a link goes on leading where it led
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        scratch = path.with_name(path.name + ".part")
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        raise UsageError(f"{to} cannot be written: {error.strerror}", "name a path in an existing folder") from None

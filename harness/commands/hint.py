"""`grade hint EXERCISE`: the next hint."""

from __future__ import annotations

from pathlib import Path

import click

from harness import course as courses
from harness import progress_store
from harness.errors import UsageError


@click.command("hint")
@click.argument("target")
@click.option("--lang", type=click.Choice(courses.LANGUAGES), default="en", show_default=True)
@click.option("--again", is_flag=True, help="Start over with the first hint.")
def command(target: str, lang: str, again: bool) -> int:
    """The next hint for an exercise; one more on each call.

    \b
    Example: grade hint ch04.row_sum
    """
    course = courses.find(Path.cwd())
    found = course.select((target,))
    if len(found) != 1:
        raise UsageError(f"{target} is {len(found)} exercises", f"name one: {', '.join(e.id for e in found[:5])}")
    exercise = found[0]
    hints = exercise.hints[lang]
    shown = progress_store.read(course.root, "hints", int)
    count = 1 if again else min(shown.get(exercise.id, 0) + 1, len(hints))
    for number, text in enumerate(hints[:count], 1):
        click.echo(f"{number}/{len(hints)}  {text}")
    shown[exercise.id] = count
    progress_store.write(course.root, "hints", shown)
    return 0

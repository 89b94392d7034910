"""`grade list`: chapters, exercises, best scores."""

from __future__ import annotations

from pathlib import Path

import click

from harness import course as courses
from harness import progress_store


@click.command("list")
def command() -> int:
    """Chapters, exercises and your best scores.

    \b
    Example: grade list
    """
    course = courses.find(Path.cwd())
    best = progress_store.read(course.root, "scores", dict)
    click.echo(f"{course.title['en']} / {course.title['zh']}")
    for module in course.modules:
        click.echo(f"\n{module.name}: {module.title['en']} / {module.title['zh']}")
        for chapter in module.chapters:
            note = "" if chapter.exercises else "  (planned)"
            click.echo(f"  {chapter.id}  {chapter.title['en']} / {chapter.title['zh']}{note}")
            for exercise in chapter.exercises:
                seen = best.get(exercise.id)
                score = f"{seen.get('score')}/{exercise.max_score} {seen.get('status')}" if seen else f"-/{exercise.max_score}"
                click.echo(f"        {exercise.id:<22} {score:<16} {exercise.title['en']}")
    return 0

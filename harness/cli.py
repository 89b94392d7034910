"""The `grade` command. Commands are imported when they are used, so that `--help` and `list` never load torch."""

from __future__ import annotations

import atexit
import errno
import importlib
import os
import sys
from typing import Any, NoReturn

import click

from harness.errors import GradeError

COMMANDS = ("list", "hint", "inspect", "profile", "gate", "doctor")


class _Commands(click.Group):
    """Subcommands by name; anything else is what to grade: `grade ch02` is `grade run ch02`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in (*COMMANDS, "run"):
            module = importlib.import_module(f"harness.commands.{name}")
            return module.command  # type: ignore[no-any-return]
        return None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            args = ["run", *args]
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
    invoke_without_command=True,
    epilog="Exit codes: 0 passed; 1 something failed; 2 wrong usage; 3 the harness or the machine failed; 130 interrupted.",
)
@click.version_option(package_name="triton-course-grader")
@click.pass_context
def grade(ctx: click.Context) -> None:
    """Grade Triton exercises: chapters (ch02), exercises (ch02.vec_add), modules (basics) or all.

    \b
    grade ch02                        grade your work in exercises/
    grade ch02 --from reference       grade other work: a file, a folder, a zip, a notebook
    grade all --json result.json      write the result document
    grade run --help                  all options of grading
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _leave(code: int) -> NoReturn:
    """End the process as `sys.exit` does, but for the second in which Python takes torch apart piece by piece, and for
    what is still to be written to stdout."""
    sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(code)


def main() -> None:
    """Entry point: every outcome is an exit code, every error says what to do."""
    try:
        code = grade.main(standalone_mode=False)
        sys.stdout.flush()
        _leave(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except GradeError as error:
        click.echo(f"grade: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        click.echo(f"grade: {error.strerror}: make room on the disk that the output goes to, or write elsewhere", err=True)
        _leave(3)


if __name__ == "__main__":
    main()

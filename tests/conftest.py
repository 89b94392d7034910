"""The `grade` command for tests: in this process with its warm parents kept, or as a command of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from harness.errors import GradeError

ROOT = Path(__file__).parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where solutions run: cpu (interpreted) or cuda")
    parser.addoption("--examples-seed", default="2026", help="seed of the examples that solutions are graded with")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole exercises first: half a minute each, and whoever has none left takes of the many short ones."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/test_solutions.py"))


@dataclass(frozen=True)
class Outcome:
    """What a run of the command left: exit code, output, and the result document where one was written."""

    code: int
    stdout: str
    stderr: str
    document: dict[str, Any] | None


@pytest.fixture(scope="session")
def park():
    from harness.examiner.warm import Park

    with Park() as kept:
        yield kept


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """One seed unless another is asked for: a test gives the same answer every time."""
    return str(request.config.getoption("--examples-seed"))


@pytest.fixture
def grade(park, monkeypatch):
    """`grade(*args)` in this process; the result document is read from stdout (`--json -` is added)."""
    from harness.cli import grade as command

    monkeypatch.chdir(ROOT)

    def run(*args: str) -> Outcome:
        result = CliRunner().invoke(command, [*args, "--json", "-"], obj=park, standalone_mode=False)
        error = result.exception
        if error is None:
            return Outcome(int(result.return_value or 0), result.stdout, result.stderr, json.loads(result.stdout))
        if isinstance(error, GradeError):
            return Outcome(error.exit_code, result.stdout, f"grade: {error}", None)
        if isinstance(error, click.ClickException):
            return Outcome(2, result.stdout, error.format_message(), None)
        raise error

    return run


@pytest.fixture
def grade_command(tmp_path):
    """`grade(*args)` as a command of its own, as a person runs it."""

    def run(*args: str, cwd: Path = ROOT, timeout: float = 300) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *args], cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
        )
        try:
            document = json.loads(done.stdout)
        except ValueError:
            document = None
        return Outcome(done.returncode, done.stdout, done.stderr, document)

    return run

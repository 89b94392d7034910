"""The repaired interpreter from the outside: each case file runs in one process with TRITON_INTERPRET=1."""

import ast
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = sorted(HERE.glob("cases_*.py"))


def _environment(interpret: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": interpret}


@functools.cache
def _results(path: Path) -> dict[str, str | None]:
    command = [sys.executable, str(HERE / "run_cases.py"), str(path)]
    done = subprocess.run(command, env=_environment("1"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _names(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("case_")]


CASES = [
    pytest.param(path, name, id=f"{path.stem[6:]}-{name[5:]}") for path in FILES for name in _names(path)
]


@pytest.mark.parametrize(("path", "name"), CASES)
def test_case(path: Path, name: str) -> None:
    error = _results(path)[name]
    assert error is None, error


def _run(code: str, interpret: str = "1") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=_environment(interpret), capture_output=True, text=True, timeout=120
    )


def test_probe_before_and_after_install() -> None:
    code = """
from harness.interpreter import install, probe
before = probe()
assert before.broken == before.needed and not before.mended and not before.ok
assert "low-precision arithmetic" in before.needed and "autotune without a driver" in before.needed
install(); install()
import time
first = probe(); start = time.perf_counter(); after = probe(); took = time.perf_counter() - start
assert after.ok and first.ok, after
assert set(after.mended) == set(after.needed) == set(before.needed), (after, before)
assert took < 0.3, took
"""
    done = _run(code)
    assert done.returncode == 0, done.stderr


def test_probe_sees_a_broken_repair() -> None:
    code = """
from harness.interpreter import install, probe
install()
from triton.runtime import interpreter as stock
stock.InterpreterBuilder.create_dot = lambda self, a, b, acc, *rest: acc
assert probe().broken == ("dot",), probe()
assert not probe().ok
"""
    done = _run(code)
    assert done.returncode == 0, done.stderr


def test_only_broken_things_are_repaired() -> None:
    """A Triton whose tl.maximum is right already (3.8 and later) keeps its own."""
    code = """
from triton.runtime import interpreter as stock
own = stock.InterpreterBuilder.create_maxnumf
from harness.interpreter import install, probe
install()
kept = stock.InterpreterBuilder.create_maxnumf is own
assert kept == ("NaN in maximum and minimum" not in probe().needed)
"""
    done = _run(code)
    assert done.returncode == 0, done.stderr


def test_install_needs_the_interpreter() -> None:
    done = _run("from harness.interpreter import install; install()", interpret="0")
    assert done.returncode == 1
    assert "TRITON_INTERPRET" in done.stderr

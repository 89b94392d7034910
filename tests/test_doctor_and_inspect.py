"""`grade doctor` and `grade inspect`, as commands of their own."""

from __future__ import annotations

import importlib.metadata
import sys

import harness.commands.doctor
from harness import sandbox


def test_doctor_names_what_is_there(grade_command):
    outcome = grade_command("doctor")
    assert importlib.metadata.version("torch") in outcome.stdout
    assert "faults of stock Triton" in outcome.stdout
    assert f"shut in by: {sandbox.probe().level}" in outcome.stdout
    assert "  bubblewrap  " in outcome.stdout
    # 3 only where something is named that is missing, and how to mend it.
    assert (outcome.code == 3) == ("\nXX " in outcome.stdout)
    assert outcome.stdout.count("\nXX ") <= outcome.stdout.count("to mend it:")


def test_doctor_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(harness.commands.doctor, "PACKAGES", ("torch", "no-such-package"))
    (missing,) = [f for f in harness.commands.doctor.packages() if f.ok is False]
    assert missing.what == "no-such-package"
    assert "pip install" in missing.remedy


def test_doctor_says_that_no_bytecode_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    (found,) = [f for f in harness.commands.doctor.packages() if "bytecode" in f.what]
    assert found.ok is None  # slow, not wrong
    assert "compileall" in found.remedy


def test_inspect_reports_and_writes_for_each_gpu(grade_command, tmp_path):
    outcome = grade_command("inspect", "ch02.vec_add", "--from", "reference", "--out", str(tmp_path / "out"))
    assert outcome.code == 0, outcome.stderr
    for target in ("sm_80", "sm_90", "sm_100", "gfx942"):
        assert f"add_kernel  {target}" in outcome.stdout
    assert outcome.stdout.count("128 bits") == 8  # widest load and store, four GPUs
    written = {p.name.split(".", 2)[2] for p in (tmp_path / "out" / "ch02.vec_add").iterdir()}
    assert {"sm_80.ptx", "sm_90.sass", "sm_100.ptx", "gfx942.amdgcn"} <= written


def test_inspect_of_an_exercise_without_a_kernel(grade_command):
    outcome = grade_command("inspect", "ch01.roofline", "--from", "reference")
    assert (outcome.code, "has no kernel" in outcome.stdout) == (0, True)


def test_inspect_says_where_a_kernel_does_not_compile(grade_command, tmp_path):
    file = tmp_path / "vec_add.py"
    file.write_text(
        "import torch, triton, triton.language as tl\n\n@triton.jit\ndef k(x, n, B: tl.constexpr):\n"
        "    i = tl.arange(0, n)\n    tl.store(x + i, 1.0)\n\n\ndef vec_add(x, y):\n"
        "    z = torch.empty_like(x)\n    k[(1,)](z, z.numel(), B=16)\n    return z\n"
    )
    outcome = grade_command("inspect", "ch02.vec_add", "--from", str(file), "--arch", "sm_90", "--out", str(tmp_path / "o"))
    assert outcome.code == 1
    assert "does not compile for sm_90" in outcome.stdout
    assert "arange" in outcome.stdout

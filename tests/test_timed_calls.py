"""Whose work the output of a timed call is: looked at in each of them, in the worker, without a GPU here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KERNELS = """
import torch
import triton
import triton.language as tl

@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

@triton.jit
def touch_kernel(z):
    pass

def added(x, y):
    z = torch.empty_like(x)
    add_kernel[(1,)](x, y, z, x.numel(), BLOCK=64)
    return z

def touched(z):
    touch_kernel[(1,)](z)
    return z

calls = []
kept = []
"""
# What a timed call does; what the exercise says of torch's copies; and what is said of some such calls.
CASES = {
    "honest": ("return added(x, y)", "allowed", ""),
    "straightened first": ("return added(x.t().contiguous().view(-1), y)", "preparation", ""),
    "straightened where that is the exercise": ("return added(x.clone(), y)", "refused", "torch copied the input"),
    "a workspace that is kept": (
        "if not kept: kept.append(torch.empty_like(x))\nadd_kernel[(1,)](x, y, kept[0], x.numel(), BLOCK=64)\n"
        "return added(kept[0], y)", "refused", "",
    ),
    "a view of what a kernel wrote": ("return added(x, y).reshape(5, 12)", "allowed", ""),
    "its own result in another dtype": ("return added(x, y).to(torch.float64)", "refused", ""),
    "zeros for a kernel to add to": (
        "z = torch.zeros_like(x)\nadd_kernel[(1,)](x, y, z, x.numel(), BLOCK=64)\nreturn z", "refused", "",
    ),
    "a table from Python": ("return added(x, torch.tensor([0.5] * 60))", "refused", ""),  # 60 numbers in each of them
    "torch": ("return torch.add(x, y)", "allowed", "torch computed it (aten::add)"),
    "torch, and a kernel that is given it": ("return touched(x + y)", "allowed", "torch computed it (aten::add)"),
    "torch from the second call on": (
        "calls.append(1)\nreturn added(x, y) if len(calls) < 2 else x + y", "allowed", "torch computed it (aten::add)",
    ),
    "torch into memory that a kernel wrote": (
        "z = added(x, y)\nreturn torch.mul(x, y, out=z)", "allowed", "torch computed it (aten::mul)",
    ),
    "torch's copy": ("return x.clone()", "preparation", "torch copied the input (aten::clone)"),
    "torch's copy, where it is no help": ("return x.clone()", "allowed", "given to no kernel of the submission"),
    "torch's copy into memory": ("z = torch.empty_like(x)\nz.copy_(x)\nreturn touched(z)", "refused", "torch copied the input"),
    "nothing": ("return torch.empty_like(x)", "allowed", "given to no kernel of the submission"),
    "last call's output": ("if not kept: kept.append(added(x, y))\nreturn kept[0]", "allowed", "given to no kernel of the sub"),
    "an argument": ("add_kernel[(1,)](x, y, x, x.numel(), BLOCK=64)\nreturn x", "allowed", "the memory of an argument"),
    "a graph": ("torch.cuda.CUDAGraph.replay(None)\nreturn added(x, y)", "allowed", "replays a graph"),
}
WORKER = """
import contextlib, importlib.util, json, sys
import torch
from harness import interpreter
from harness.worker import evidence
interpreter.install()
folder = sys.argv[1] + "/"
evidence.install(folder)
said = {}
for name, moves in json.load(sys.stdin).items():
    spec = importlib.util.spec_from_file_location(name, folder + name + ".py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with evidence.timing(free=False, moves=moves) as seen, interpreter.session(overflow=False, addresses=None):
        for _ in range(20):
            with contextlib.suppress(PermissionError):
                evidence.timed_call(seen, module.called, (torch.rand(60), torch.rand(60)))
    said[name] = [seen.refused, sorted(seen.kernels)]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Of each case what was refused in some calls one after the other, and the kernels that were seen."""
    folder = tmp_path_factory.mktemp("submissions")
    for name, (body, _, _) in CASES.items():
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        (folder / f"{_file(name)}.py").write_text(f"{KERNELS}\ndef called(x, y):\n{lines}\n")
    asked = json.dumps({_file(name): moves for name, (_, moves, _) in CASES.items()})
    environment = {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    run = [sys.executable, "-c", WORKER, str(folder)]
    done = subprocess.run(run, input=asked, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _file(name):
    return name.replace(" ", "_").replace(",", "").replace("'", "")


@pytest.mark.parametrize("name", CASES)
def test_a_timed_call(said, name):
    expected = CASES[name][2]
    refused, kernels = said[_file(name)]
    assert (expected in " ".join(refused)) if expected else refused == []
    assert kernels or expected

"""Calls done again from their tapes: whatever a right solution may be made of can be told to another process."""

from __future__ import annotations

import textwrap

import pytest

HEAD = """
import enum, typing
import torch, triton
import triton.language as tl
from triton.language import float32 as wide
from triton.tools.tensor_descriptor import TensorDescriptor

"""
FLAT = """
def vec_add(x, y):
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = z.numel()
    if n:
        x, y = x.contiguous(), y.contiguous()
        LAUNCH
    return z
"""


def flat(kernels: str, launch: str) -> str:
    return HEAD + textwrap.dedent(kernels) + FLAT.replace("LAUNCH", launch)


SOURCES = {
    "a function as a constant, another one called, defaults": flat(
        '''
        @triton.jit
        def plus(a, b):
            return a + b

        @triton.jit
        def offsets_of(pid, BLOCK: tl.constexpr = 64):
            return pid * BLOCK + tl.arange(0, BLOCK)

        @triton.jit
        def kernel(x, y, z, n, OP: tl.constexpr, BLOCK: tl.constexpr = 64):
            o = offsets_of(tl.program_id(0))
            tl.store(z + o, OP(tl.load(x + o, mask=o < n), tl.load(y + o, mask=o < n)), mask=o < n)
        ''',
        "kernel[(triton.cdiv(n, 64),)](x, y, z, n, OP=plus)",
    ),
    "constants of the file: numbers, a dtype, a table, an enumeration": flat(
        '''
        BLOCK = tl.constexpr(64)
        TABLE = tl.constexpr((1, 0))

        class Way(enum.IntEnum):
            UP = 1

        @triton.jit
        def kernel(x, y, z, n, way: tl.constexpr, TYPE: tl.constexpr):
            o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            total = tl.load(x + o, mask=o < n) * TABLE[0] + tl.load(y + o, mask=o < n) * way
            tl.store(z + o, total.to(TYPE).to(wide) if TYPE == tl.float32 else total, mask=o < n)
        ''',
        "kernel[(triton.cdiv(n, 64),)](x, y, z, n, way=Way.UP, TYPE=tl.float32 if x.dtype == torch.float32 else tl.int8)",
    ),
    "a function computed while kernels are compiled, and a tuple of pointers": flat(
        '''
        @triton.constexpr_function
        def twice(n):
            return 2 * n

        @triton.jit
        def kernel(pair, z, n, HALF: tl.constexpr):
            BLOCK: tl.constexpr = twice(HALF)
            o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(z + o, tl.load(pair[0] + o, mask=o < n) + tl.load(pair[1] + o, mask=o < n), mask=o < n)
        ''',
        "kernel[(triton.cdiv(n, 64),)]((x, y), z, n, HALF=32)",
    ),
    "tuned, with a heuristic": flat(
        '''
        @triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64}, num_warps=2)], key=["n"])
        @triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
        @triton.jit
        def kernel(x, y, z, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
            o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            if EVEN:
                tl.store(z + o, tl.load(x + o) + tl.load(y + o))
            else:
                tl.store(z + o, tl.load(x + o, mask=o < n) + tl.load(y + o, mask=o < n), mask=o < n)
        ''',
        "kernel[lambda meta: (triton.cdiv(n, meta['BLOCK']),)](x, y, z, n)",
    ),
    "a workspace that is filled, copied into and read": flat(
        '''
        @triton.jit
        def kernel(parts, z, n, BLOCK: tl.constexpr):
            o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            total = tl.load(parts + o, mask=o < n) + tl.load(parts + n + o, mask=o < n)
            tl.store(z + o, total + tl.load(parts + 2 * n + o, mask=o < n), mask=o < n)
        ''',
        """parts = torch.empty(3, n, dtype=x.dtype, device=x.device)
        parts[2].zero_()
        parts[0] = x.reshape(-1)
        parts[1:2].copy_(y.reshape(1, -1))
        kernel[(triton.cdiv(n, 64),)](parts, z, n, BLOCK=64)""",
    ),
    "two launches, the second on what the first wrote; a broadcast copy": flat(
        '''
        @triton.jit
        def kernel(x, y, z, n, BLOCK: tl.constexpr):
            o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(z + o, tl.load(x + o, mask=o < n) + tl.load(y + o, mask=o < n), mask=o < n)
        ''',
        """zeros = torch.zeros(1, dtype=x.dtype, device=x.device)
        twice = torch.empty(2, n, dtype=x.dtype, device=x.device)
        twice.copy_(zeros)
        kernel[(triton.cdiv(n, 64),)](x, twice[1], twice[0], n, BLOCK=64)
        kernel[(triton.cdiv(n, 64),)](twice[0], y, z, n, BLOCK=64)""",
    ),
    "descriptors": flat(
        '''
        @triton.jit
        def kernel(x, y, z, BLOCK: tl.constexpr):
            o = tl.program_id(0) * BLOCK
            z.store([0, o], x.load([0, o]) + y.load([0, o]))
        ''',
        """width = triton.cdiv(n, 64) * 64
        x, y, out = (torch.zeros(1, width, dtype=x.dtype, device=x.device) for _ in range(3))
        x[0, :n], y[0, :n] = ARGS[0].reshape(-1), ARGS[1].reshape(-1)
        kernel[(width // 64,)](*(TensorDescriptor(t, [1, width], [width, 1], [1, 64]) for t in (x, y, out)), BLOCK=64)
        z.copy_(out[0, :n].reshape(z.shape))""",
    ).replace("def vec_add(x, y):", "def vec_add(x, y):\n    ARGS = x, y"),
}


def graded(grade, tmp_path, source, **beside):
    (tmp_path / "vec_add.py").write_text(source, encoding="utf-8")
    for name, text in beside.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    checks = [word for name in ("compiles", "aligned", "ragged", "strided") for word in ("--check", name)]
    outcome = grade("ch02.vec_add", "--from", str(tmp_path), "--device", "cpu", "--examples", "4", *checks)
    (exercise,) = outcome.document["exercises"]
    return {c["name"]: f"{c['status']}: {c['message']}" for c in exercise["checks"] if c["status"] != "not run"}


@pytest.mark.parametrize("name", SOURCES, ids=lambda name: name.replace(" ", "_"))
def test_what_right_solutions_are_made_of(grade, tmp_path, name):
    assert set(graded(grade, tmp_path, SOURCES[name]).values()) == {"passed: "}


def test_kernels_in_a_file_beside_it(grade, tmp_path):
    kernels, _, host = SOURCES["a function as a constant, another one called, defaults"].partition("\n\ndef vec_add")
    beside = kernels.replace("def kernel", "def add").replace("kernel[", "add[")
    main = "import torch, triton\nimport triton.language as tl\nimport mine\n\n" + '''
@triton.jit
def kernel(x, y, z, n, BLOCK: tl.constexpr):
    o = mine.offsets_of(tl.program_id(0), BLOCK)
    tl.store(z + o, mine.plus(tl.load(x + o, mask=o < n), tl.load(y + o, mask=o < n)), mask=o < n)

''' + "\n\ndef vec_add" + host.replace("OP=plus", "BLOCK=64")
    assert set(graded(grade, tmp_path, main, mine=beside).values()) == {"passed: "}

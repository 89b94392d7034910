"""A course of one exercise, whole in every part, to be broken by the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.course import digest

SLUG = "ch02_triton_syntax"
KERNEL = '''"""Negate every element."""

import torch
import triton
import triton.language as tl


@triton.jit
def negate_kernel(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, -tl.load(x_ptr + offsets, mask=inside), mask=inside)


def negate(x):
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = z.numel()
    if n:
        negate_kernel[(triton.cdiv(n, 64),)](x.contiguous(), z, n, BLOCK=64)
    return z
'''
STUB = '''"""Negate every element."""


def negate(x):
    """-x, of its shape and dtype."""
    # TODO: launch your kernel
    raise NotImplementedError
'''
GRADER = '''from harness.grading import F, TensorGrader, arguments, bounds, tensor


class negate(TensorGrader):
    """-x."""

    inputs = arguments(x=tensor("*S"), dtypes=F)
    bound = bounds.rounding()

    def oracle(self, x):
        return -x
'''
MUTANTS = [
    ("mask off by one", "aligned", "offsets < n", "offsets < n - 1"),
    ("mask one too wide", "ragged", "offsets < n", "offsets < n + 1"),
    ("grid rounded down", "ragged", "triton.cdiv(n, 64)", "n // 64"),
    ("no sign", "aligned", "-tl.load", "tl.load"),
    ("strides ignored", "strided", "x.contiguous()", "x"),
    ("scaled", "aligned", "-tl.load", "-1.01 * tl.load"),
]
COURSE = f"""schema = 1
course = "small"
title = {{ en = "s", zh = "s" }}
[modules.basics]
title = {{ en = "b", zh = "b" }}
chapters = ["{SLUG}"]
[chapters.{SLUG}]
title = {{ en = "s", zh = "s" }}
[chapters.{SLUG}.exercises.negate]
title = {{ en = "Negation", zh = "取反" }}
stub = "{digest(STUB.encode())}"
points = {{ compiles = 1, aligned = 2, ragged = 2, empty = 1, strided = 2, dtypes = 1, "special values" = 1, \
"repeated calls" = 1 }}
hints = {{ en = ["One program a block.", "One mask."], zh = ["每个程序处理一块。", "一个掩码。"] }}
"""


def toml_of(mutants) -> str:
    return "".join(
        f'[[mutant]]\nname = "{name}"\ncheck = "{check}"\nwhy = "shows it"\nedits = [{{ find = "{find}", replace = "{new}" }}]\n'
        for name, check, find, new in mutants
    )


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The folder of the course; the command runs there."""
    handouts = {"README.md": ("Principle", "Method", "Case", "Review"), "README.zh.md": ("原理", "方法", "案例", "复盘")}
    files = {
        "course.toml": COURSE, f"graders/{SLUG}.py": GRADER, f"exercises/{SLUG}/negate.py": STUB,
        f"reference/{SLUG}/negate.py": KERNEL, f"tests/mutants/{SLUG}/negate.toml": toml_of(MUTANTS),
        f"tests/alternates/{SLUG}/negate__wide.py": KERNEL.replace("64", "256"),
        f"tests/alternates/{SLUG}/negate__product.py": KERNEL.replace("-tl.load", "-1.0 * tl.load"),
        **{f"exercises/{SLUG}/{name}": "".join(f"## {p}\n\ntext\n\n" for p in parts) for name, parts in handouts.items()},
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Path(tmp_path)

"""Mutants from outside: which lines of a file each operator changes, what it leaves alone, and how mutants are named."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness.gate.mutation import mutations
from harness.gate.operators import OPERATORS

ROOT = Path(__file__).parents[2]
REFERENCES = sorted((ROOT / "reference").glob("*/*.py"))
KERNELS = [path for path in REFERENCES if "@triton.jit" in path.read_text(encoding="utf-8")]
FEWEST = 15
HEAD = "import triton\nimport triton.language as tl\n\n\n"


def kernel(*lines: str, parameters: str = "x_ptr, y_ptr, n, BLOCK: tl.constexpr") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{HEAD}@triton.jit\ndef kernel({parameters}):\n{body}"


def host(*lines: str) -> str:
    return f"{HEAD}def launch(x, out, n):\n" + "".join(f"    {line}\n" for line in lines)


def changed(source: str, operator: str) -> list[str]:
    """What the operator makes of the file, as the lines that are new in each mutant."""
    before = source.splitlines()
    return [
        "\n".join(line.strip() for line in mutation.source.splitlines() if line not in before)
        for mutation in mutations(source)
        if mutation.operator == operator
    ]


STRIDES = "x_ptr, n, stride_m, stride_n"
CASES = [
    ("drop mask", kernel("x = tl.load(x_ptr, mask=inside, other=0.0)"), ["x = tl.load(x_ptr)"]),
    ("drop mask", kernel("tl.store(x_ptr, y, mask=inside)"), ["tl.store(x_ptr, y)"]),
    ("drop mask", kernel("tl.load(", "    x_ptr,  # where", "    mask=(inside),", ")"), ["x_ptr,"]),
    ("weaken mask", kernel("tl.load(x_ptr, mask=rows & cols)"), ["tl.load(x_ptr, mask=rows)", "tl.load(x_ptr, mask=cols)"]),
    ("weaken mask", kernel("ok = i < n", "tl.load(x_ptr, mask=ok)"), ["ok = i <= n", "ok = i < n - 1"]),
    ("weaken mask", kernel("ok = i < n - k", "tl.load(x_ptr, mask=ok)"), ["ok = i <= n - k", "ok = i < (n - k) - 1"]),
    ("weaken mask", kernel("found = i < n"), []),
    (
        "other",
        kernel("x = tl.load(x_ptr, mask=ok, other=0.0)"),
        ["x = tl.load(x_ptr, mask=ok)"]
        + [f"x = tl.load(x_ptr, mask=ok, other={v})" for v in ("1", 'float("-inf")', 'float("inf")', 'float("nan")')],
    ),
    (
        "other",
        kernel("x = tl.load(x_ptr, mask=ok, other=-float('inf'))"),
        ["x = tl.load(x_ptr, mask=ok)"]
        + [f"x = tl.load(x_ptr, mask=ok, other={v})" for v in ("0", "1", 'float("inf")', 'float("nan")')],
    ),
    ("identity", kernel("a = tl.zeros([4], tl.float32)"), ["a = tl.full([4], 1, tl.float32)"]),
    ("identity", kernel("a = tl.full([4], 0.0, tl.float32)"), ["a = tl.full([4], 1, tl.float32)"]),
    ("swap strides", kernel("pass", parameters=STRIDES), ["def kernel(x_ptr, n, stride_n, stride_m):"]),
    ("swap strides", kernel("a = x_ptr + stride_m", parameters=STRIDES), [
        "def kernel(x_ptr, n, stride_n, stride_m):", "a = x_ptr + stride_n",
    ]),
    ("swap strides", host("f(x.stride(0), x.stride(1))"), ["f(x.stride(1), x.stride(1))", "f(x.stride(0), x.stride(0))"]),
    ("swap strides", host("f(*x.stride())"), ["f(*x.stride()[::-1])"]),
    ("remove atomic", kernel("tl.atomic_add(x_ptr, y, mask=ok, sem='relaxed')"), ["tl.store(x_ptr, y, mask=ok)"]),
    ("remove atomic", kernel("old = tl.atomic_add(x_ptr, y)"), []),
    ("constant index", kernel("i = tl.program_id(0)"), ["i = 0", "i = tl.program_id(1)"]),
    ("constant index", kernel("i = tl.program_id(2).to(tl.int64)"), ["i = (tl.program_id(2) * 0).to(tl.int64)"]),
    ("constant index", host("n = x.shape[0]"), ["n = x.shape[1]"]),
    ("drop copy", host("x = x.t().contiguous()"), ["x = x.t()"]),
    ("cdiv", host("blocks = 2 * triton.cdiv(n + 1, 8)"), ["blocks = 2 * ((n + 1) // 8)"]),
    ("bounds", kernel("for i in range(n):", "    f(i)"), [
        "for i in range(1, n):", "for i in range(n - 1):", "for i in range(n + 1):",
    ]),
    ("bounds", kernel("for i in tl.range(0, n, BLOCK):", "    f(i)"), [
        "for i in tl.range(0 + 1, n, BLOCK):", "for i in tl.range(0, n - 1, BLOCK):", "for i in tl.range(0, n + 1, BLOCK):",
    ]),
    ("grid", host("kernel[(n,)](x)"), ["kernel[(n - 1,)](x)", "kernel[(n + 1,)](x)"]),
    ("grid", host("kernel[(triton.cdiv(n, 8),)](x)"), []),
    ("drop clamp", host("BLOCK = min(max(triton.next_power_of_2(n), 1), 64)"), ["BLOCK = min(triton.next_power_of_2(n), 64)"]),
    ("lower precision", kernel("a = tl.zeros([4], dtype=tl.float32)"), ["a = tl.zeros([4], dtype=tl.float16)"]),
    ("lower precision", kernel("a = tl.dot(a, b, input_precision='ieee')"), ["a = tl.dot(a, b)"]),
    ("lower precision", host("if x.dtype == torch.float32:", "    f(x)"), []),
    ("drop cast", kernel("a = (x + y).to(tl.float32) * 2"), ["a = (x + y) * 2"]),
    ("drop factor", kernel("a = a * alpha", "b = b / total"), ["a = a", "a = alpha", "b = b"]),
    ("drop accumulator", kernel("a = tl.dot(x, y, a)", "b = tl.dot(x, y, acc=b)"), [
        "a = tl.dot(x, y, None)", "b = tl.dot(x, y, acc=None)",
    ]),
    ("reduction", kernel("a = tl.sum(x, axis=0)", "b = tl.maximum(a, x)"), ["a = tl.max(x, axis=0)", "b = tl.minimum(a, x)"]),
    ("arithmetic", kernel("a = x + (y) % z", "a //= 2"), ["a = x - (y) % z", "a = x + (y) // z", "a %= 2"]),
    ("logic", kernel("a = x | y"), ["a = x", "a = y", "a = x & y"]),
    ("logic", host("if x and out:", "    f()"), ["if x:", "if out:", "if x or out:"]),
    ("comparison", kernel("a = x > y", "b = x == y"), ["a = x >= y", "a = x <= y", "b = x != y"]),
    ("comparison", host("a = x is not  (None)", "b = x not in out"), ["a = x is  (None)", "b = x in out"]),
    ("constant", kernel("a = x + 2", "b = tl.where(x, 0.0, 1.5)"), [
        "a = x + 3", "a = x + 1", "b = tl.where(x, 1.0, 1.5)", "b = tl.where(x, 0.0, 2.5)",
    ]),
    ("unary", kernel("a = -x", "b = tl.abs(x - 1) * 2"), ["a = x", "b = (x - 1) * 2"]),
    ("where", kernel("a = tl.where(x, y + 1, 0) * 2"), ["a = (y + 1) * 2", "a = 0 * 2"]),
    ("condition", host("if n == 0:", "    f()"), ["if False:", "if not (n == 0):"]),
    ("condition", host("if n:", "    f()", "else:", "    g()"), ["if False:", "if not n:", "if True:"]),
    ("condition", host("a = x if n else out"), ["a = x", "a = out"]),
    ("statement", kernel("f(", "    x,", ")", "a += 1"), ["pass", "pass"]),
    ("statement", kernel("tl.static_assert(BLOCK > 1)"), []),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "source", "expected"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_what_an_operator_makes_of_a_line(operator, source, expected):
    assert sorted(changed(source, operator)) == sorted(expected)


def test_every_operator_is_shown_above_and_says_what_it_does():
    assert {name for name, _, expected in CASES if expected} == set(OPERATORS)
    assert all(operator.propose.__doc__ for operator in OPERATORS.values())


def test_only_the_edited_segment_changes():
    source = kernel("# 一行注释", "y = x  +  1  # ümläut, and spaces", "# end")
    (minus,) = [m for m in mutations(source) if m.operator == "arithmetic"]
    assert minus.source == source.replace("x  +  1", "x  -  1")
    assert (minus.before, minus.after, minus.function) == ("x  +  1", "x  -  1", "kernel")
    assert source.splitlines()[minus.line - 1].strip().startswith("y = x  +  1")


def test_characters_of_several_bytes_before_the_edit_do_not_shift_it():
    assert changed(kernel("f('é€😀', x + 1)"), "arithmetic") == ["f('é€😀', x - 1)"]


def test_an_edit_of_several_lines_is_told_on_one():
    source = kernel("a = tl.load(", "    x_ptr,  # of x", "    mask=ok,", ")")
    (told,) = [m for m in mutations(source) if m.operator == "drop mask"]
    assert (told.before, told.after) == ("tl.load(x_ptr, mask=ok)", "tl.load(x_ptr)")


def test_expressions_over_several_lines_keep_their_brackets():
    source = host("a = triton.cdiv(", "    n,", "    f(", "        8", "    ),", ")", "b = (", "    n", "    + 1", ").to(x)")
    (rounded,) = [m for m in mutations(source) if m.operator == "cdiv"]
    assert rounded.after == "n // f(8)"
    for mutation in mutations(source):
        ast.parse(mutation.source)


UNTOUCHED = {
    "docstring": host('"""1 + 1: a - b"""'),
    "raise": host("raise ValueError(f'{n + 1} < 2')"),
    "message": host("text = f'{n + 1} < 2'"),
    "decorator": HEAD + "@triton.autotune([triton.Config({'BLOCK': 2 * 8})], key=['n'])\n@triton.jit\ndef kernel(x):\n    pass\n",
    "configurations": host("return [triton.Config({'BLOCK': size * 2}, num_warps=4 + 4) for size in sizes]"),
    "block sizes": host("BLOCK = min(64, n * 2)", "block_m, block_n = 128 // n, n - 1"),
    "launch": host("kernel[grid](x, BLOCK=n * 2, num_warps=n // 8)"),
    "block sizes in a dictionary": host("return {'BLOCK_M': n * 2, 'num_warps': n // 32}"),
    "choice of block sizes": host("if n > 8:", "    block = n", "else:", "    block = 2 * n"),
    "parameters": kernel("pass", parameters="x_ptr, BLOCK: tl.constexpr = 2 * 8"),
    "outside functions": f"{HEAD}BLOCK = 2 * 8\nNEAR = tl.constexpr(1.0 + 2)\n",
}


@pytest.mark.parametrize("source", UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_what_is_no_meaning_stays(source):
    assert {m.operator for m in mutations(source)} <= {"statement"}  # a launch may still be left out


def test_no_two_mutants_and_no_original_are_alike():
    source = kernel("a = x + 0", "a = x * x", "tl.store(x_ptr, a & a, mask=ok & ok)")
    trees = [ast.dump(ast.parse(text)) for text in (source, *(m.source for m in mutations(source)))]
    assert len(set(trees)) == len(trees)


BODY = ("a = x + 1", "b = x + 1", "tl.store(x_ptr, a * b, mask=a < n)")


def test_edits_elsewhere_do_not_change_keys():
    keys = [m.key for m in mutations(kernel(*BODY))]
    moved = f"# new\n{kernel('# a comment', BODY[0], '', *BODY[1:])}\n\ndef other(y):\n    return y + 1\n"
    assert [m.key for m in mutations(moved) if m.function == "kernel"] == keys
    assert keys.count("arithmetic: x + 1 -> x - 1 in kernel") == keys.count("arithmetic: x + 1 -> x - 1 in kernel #2") == 1


def test_nested_functions_are_named_with_what_holds_them():
    source = host("def grid(meta):", "    return n + 1", "return grid")
    assert {m.function for m in mutations(source)} == {"launch.grid"}


def test_what_is_no_python_is_refused():
    with pytest.raises(SyntaxError):
        mutations("def f(:")


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.stem)
def test_mutants_of_a_reference(path):
    source = path.read_text(encoding="utf-8")
    found = mutations(source)
    assert found == mutations(source)
    assert len({m.key for m in found}) == len(found)
    assert [m.line for m in found] == sorted(m.line for m in found)
    for mutation in found:
        ast.parse(mutation.source)
        assert mutation.source != source
        assert "\n" not in mutation.key
    if path in KERNELS:
        assert len(found) >= FEWEST

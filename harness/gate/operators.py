"""The operators of mutation: each proposes the faults of one kind at a node.

Where one is also one of Mothra's its docstring says so by that name (King and Offutt, "A Fortran language system for
mutation-based software testing", Software: Practice and Experience 21(7), 1991): AOR, LCR and ROR replace an arithmetic, a
logical and a relational operator, UOI is about unary ones, ABS about the absolute value, CRP replaces a constant, SVR a
variable, SDL deletes a statement. The others are faults that Triton kernels have.

Of the relational replacements only the neighbour and the opposite are made, and `< n + 1` is not, since for the integers of an
index it is `<= n`: more would be the same faults again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from harness.gate.site import Edit, Edits, Site, attribute, dotted, in_tl, strides


@dataclass(frozen=True)
class Operator:
    """A kind of fault. propose: the edits at one node, which is of one of `kinds`; tuning: made in block sizes as well."""

    kinds: tuple[type[ast.AST], ...]
    propose: Callable[[Site, Any], Edits]
    tuning: bool


OPERATORS: dict[str, Operator] = {}  # in this order, the first of two that make the same mutant gives it its name
_Propose = TypeVar("_Propose", bound=Callable[..., Edits])


def operator(name: str, *kinds: type[ast.AST], tuning: bool = False) -> Callable[[_Propose], _Propose]:
    """Enter a function into the table."""

    def enter(propose: _Propose) -> _Propose:
        OPERATORS[name] = Operator(kinds, propose, tuning)
        return propose

    return enter


# --- what kernels get wrong about memory


@operator("drop mask", ast.Call)
def drop_mask(site: Site, call: ast.Call) -> Edits:
    """An access without its mask, and so without what it stands for outside."""
    name = in_tl(call.func)
    if (name in ("load", "store") or name.startswith("atomic_")) and any(word.arg == "mask" for word in call.keywords):
        yield site.without(call, "mask", "other")


@operator("weaken mask", ast.BinOp, ast.Compare)
def weaken_mask(site: Site, node: ast.BinOp | ast.Compare) -> Edits:
    """A mask without one of its conditions, or with a limit one too high or too low."""
    if node not in site.masks:
        return
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.BitAnd):
            yield from (site.replaced(site.of(side)) for side in (node.left, node.right))
    elif isinstance(node.ops[0], ast.Lt):
        yield site.token(node.left, node.comparators[0], "<=")
        yield site.inside((node.comparators[0], f"{site.operand(node.comparators[0])} - 1"))


_FILLERS = ("0", "1", 'float("-inf")', 'float("inf")', 'float("nan")')


def _other_than(value: ast.expr, fillers: tuple[str, ...]) -> Iterator[str]:
    same = _number(value)
    # As text, in which NaN equals NaN.
    yield from (filler for filler in fillers if str(_number(ast.parse(filler, mode="eval").body)) != str(same))


def _number(node: ast.expr) -> float | None:
    match node:
        case (
            ast.Constant(value=int() | float() as number)
            | ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as number)])
        ):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = _number(operand)
            return None if positive is None else -positive
    return None


@operator("other", ast.Call)
def other(site: Site, call: ast.Call) -> Edits:
    """Another value for what lies outside the mask, or none at all."""
    for word in call.keywords:
        if in_tl(call.func) == "load" and word.arg == "other":
            yield site.without(call, "other")
            yield from (site.inside((word.value, value)) for value in _other_than(word.value, _FILLERS))


@operator("identity", ast.Call)
def identity(site: Site, call: ast.Call) -> Edits:
    """An accumulator that does not start from the identity of what it accumulates."""
    if in_tl(call.func) == "full" and len(call.args) > 1:
        yield from (site.inside((call.args[1], value)) for value in _other_than(call.args[1], ("0", "1")))
    if in_tl(call.func) == "zeros" and call.args:
        full = site.of(call.func).removesuffix("zeros") + "full"
        yield site.inside((call.func, full), (call.args[0], f"{site.of(call.args[0])}, 1"))


@operator("swap strides", ast.FunctionDef, ast.Call, ast.Name)
def swap_strides(site: Site, node: ast.FunctionDef | ast.Call | ast.Name) -> Edits:
    """One stride for another: two parameters exchanged, one of them used for the next (SVR), another dimension asked for."""
    match node:
        case ast.FunctionDef() if node is site.kernel:
            for one, two in pairwise(strides(node)):
                pieces = tuple((site.text.start(arg), site.text.end(arg), site.of(by)) for arg, by in ((one, two), (two, one)))
                yield Edit(f"{one.arg}, {two.arg}", f"{two.arg}, {one.arg}", pieces)
        case ast.Name(id=name) if site.kernel is not None:
            names = [arg.arg for arg in strides(site.kernel)]
            if name in names and isinstance(node.ctx, ast.Load):
                yield site.replaced(names[(names.index(name) + 1) % len(names)])
        case ast.Call(func=ast.Attribute(attr="stride"), args=[ast.Constant(value=int(dim)) as index]):
            yield site.inside((index, str(dim - 1 if dim > 0 else dim + 1)))
        case ast.Call(func=ast.Attribute(attr="stride"), args=[], keywords=[]):
            yield site.replaced(f"{site.of(node)}[::-1]")


@operator("remove atomic", ast.Call)
def remove_atomic(site: Site, call: ast.Call) -> Edits:
    """A plain store, in which one program overwrites what another has written; only where the old value is not used."""
    name = in_tl(call.func)
    if name.startswith("atomic_") and name != "atomic_cas" and isinstance(site.parent, ast.Expr):
        plain = site.without(call, "sem", "scope")
        store = site.inside((call.func, site.of(call.func).replace(name, "store")))
        yield site.edited(*store.pieces, *plain.pieces)


@operator("constant index", ast.Call, ast.Subscript)
def constant_index(site: Site, node: ast.Call | ast.Subscript) -> Edits:
    """Every program is the first one or counts along another axis of the grid; a size is another dimension's."""
    match node:
        case ast.Call(args=[axis]) if in_tl(node.func) == "program_id":
            # A tensor where a method of it is called: a plain 0 has none.
            yield site.replaced(f"{site.of(node)} * 0" if isinstance(site.parent, ast.Attribute) else "0")
            if isinstance(axis, ast.Constant) and axis.value in (0, 1):
                yield site.inside((axis, str(1 - axis.value)))
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0 | 1 as dim) as index):
            yield site.inside((index, str(1 - dim)))


@operator("drop copy", ast.Call)
def drop_copy(site: Site, call: ast.Call) -> Edits:
    """Memory taken as it lies, which only a contiguous tensor allows."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "contiguous":
        yield site.replaced(site.of(call.func.value))


# --- where loops and grids end


@operator("cdiv", ast.Call)
def cdiv(site: Site, call: ast.Call) -> Edits:
    """A quotient rounded down: what is left over is forgotten."""
    if dotted(call.func).rpartition(".")[2] == "cdiv" and len(call.args) == 2:
        yield site.replaced(" // ".join(map(site.operand, call.args)))


@operator("bounds", ast.Call)
def bounds(site: Site, call: ast.Call) -> Edits:
    """A loop that starts one late, ends one early or one late."""
    if dotted(call.func) == "range" or in_tl(call.func) in ("range", "static_range"):
        end = call.args[min(1, len(call.args) - 1)]
        if len(call.args) == 1:
            yield site.inside((end, f"1, {site.of(end)}"))
        else:
            yield site.inside((call.args[0], f"{site.operand(call.args[0])} + 1"))
        yield site.inside((end, f"{site.operand(end)} - 1"))
        yield site.inside((end, f"{site.operand(end)} + 1"))


@operator("grid", ast.Call)
def grid(site: Site, call: ast.Call) -> Edits:
    """One program fewer or more; rounded-up sizes are left to `cdiv`, where one more has nothing to do."""
    if isinstance(call.func, ast.Subscript) and isinstance(call.func.slice, ast.Tuple):
        for size in call.func.slice.elts:
            if "cdiv" not in site.of(size):
                yield from (site.inside((size, f"{site.operand(size)} {step}")) for step in ("- 1", "+ 1"))


@operator("drop clamp", ast.Call, tuning=True)
def drop_clamp(site: Site, call: ast.Call) -> Edits:
    """A size that may be 0, where it must not."""
    if dotted(call.func) == "max" and len(call.args) == 2:
        for one, rest in (call.args, call.args[::-1]):
            if isinstance(one, ast.Constant) and one.value == 1:
                yield site.replaced(site.of(rest))


# --- numerics


@operator("lower precision", ast.Attribute, ast.Call)
def lower_precision(site: Site, node: ast.Attribute | ast.Call) -> Edits:
    """Half the bits, and products rounded to TF32."""
    if isinstance(node, ast.Call):
        if any(word.arg == "input_precision" for word in node.keywords):
            yield site.without(node, "input_precision")
        return
    module, _, dtype = dotted(node).rpartition(".")
    narrow = {"float64": "float32", "float32": "float16", "int64": "int32"}.get(dtype)
    # To convert to int32 is as good as not to convert, which is `drop cast`; what is compared is a choice and no buffer.
    is_cast = dtype == "int64" and isinstance(site.parent, ast.Call) and attribute(site.parent.func) == "to"
    if narrow and module in ("tl", "torch", "triton.language") and not is_cast and not isinstance(site.parent, ast.Compare):
        yield site.replaced(f"{module}.{narrow}")


@operator("drop cast", ast.Call)
def drop_cast(site: Site, call: ast.Call) -> Edits:
    """A value left in the type it has."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        yield site.replaced(site.of(call.func.value))


@operator("drop factor", ast.BinOp)
def drop_factor(site: Site, node: ast.BinOp) -> Edits:
    """A product without one of its factors, a quotient without its divisor: a rescaling that is forgotten."""
    if isinstance(node.op, (ast.Mult, ast.Div)) and site.kernel is not None:
        yield site.replaced(site.of(node.left))
        if isinstance(node.op, ast.Mult):
            yield site.replaced(site.of(node.right))


@operator("drop accumulator", ast.Call)
def drop_accumulator(site: Site, call: ast.Call) -> Edits:
    """Only the last product of a sum of them."""
    if in_tl(call.func) == "dot":
        sums = call.args[2:3] + [word.value for word in call.keywords if word.arg == "acc"]
        yield from (site.inside((value, "None")) for value in sums)


@operator("reduction", ast.Call)
def reduction(site: Site, call: ast.Call) -> Edits:
    """Another extreme, or an extreme in place of a sum."""
    module, dot, name = dotted(call.func).rpartition(".")
    pairs = {"min": "max", "minimum": "maximum", "argmin": "argmax", "atomic_min": "atomic_max"}
    swapped = pairs | {high: low for low, high in pairs.items()} | {"sum": "max"}
    if name in swapped and (in_tl(call.func) or not module) and (module or name != "sum"):
        yield site.inside((call.func, f"{module}{dot}{swapped[name]}"))


# --- expressions and statements of any language


_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "%", ast.Mod: "//", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip


@operator("arithmetic", ast.BinOp, ast.AugAssign)
def arithmetic(site: Site, node: ast.BinOp | ast.AugAssign) -> Edits:
    """AOR: another arithmetic operator."""
    by = _ARITHMETIC.get(type(node.op))
    if by and isinstance(node, ast.BinOp):
        yield site.token(node.left, node.right, by)
    elif by and isinstance(node, ast.AugAssign):
        yield site.token(node.target, node.value, f"{by}=")


@operator("logic", ast.BinOp, ast.BoolOp)
def logic(site: Site, node: ast.BinOp | ast.BoolOp) -> Edits:
    """LCR: the other logical operator, or one of its operands alone."""
    if isinstance(node, ast.BoolOp):
        other_word = "or" if isinstance(node.op, ast.And) else "and"
        yield from (site.token(left, right, other_word) for left, right in pairwise(node.values))
        if len(node.values) == 2:
            yield from (site.replaced(site.of(value)) for value in node.values)
    elif isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        yield site.token(node.left, node.right, "|" if isinstance(node.op, ast.BitAnd) else "&")
        yield from (site.replaced(site.of(side)) for side in (node.left, node.right))


_COMPARISON: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"), ast.Eq: ("!=",), ast.NotEq: ("==",),
    ast.Is: ("is not",), ast.IsNot: ("is",), ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip


@operator("comparison", ast.Compare)
def comparison(site: Site, node: ast.Compare) -> Edits:
    """ROR: with the equal case on the other side, and the opposite."""
    for left, right, kind in zip([node.left, *node.comparators], node.comparators, node.ops, strict=False):
        yield from (site.token(left, right, by) for by in _COMPARISON[type(kind)])


@operator("constant", ast.Constant)
def constant(site: Site, node: ast.Constant) -> Edits:
    """CRP: a number in arithmetic, in a comparison or in a choice, one higher and (integers) one lower."""
    chosen = isinstance(site.parent, ast.Call) and in_tl(site.parent.func) == "where"
    if chosen or isinstance(site.parent, (ast.BinOp, ast.Compare, ast.AugAssign)):
        if type(node.value) is int:
            yield from (site.above.inside((node, str(node.value + step))) for step in (1, -1))
        elif type(node.value) is float:
            yield site.above.inside((node, str(node.value + 1)))


@operator("unary", ast.UnaryOp, ast.Call)
def unary(site: Site, node: ast.UnaryOp | ast.Call) -> Edits:
    """UOI and ABS turned round: no sign, no negation, no absolute value."""
    if isinstance(node, ast.UnaryOp):
        yield site.replaced(site.of(node.operand))
    elif (in_tl(node.func) or dotted(node.func)) == "abs" and len(node.args) == 1:
        yield site.replaced(site.of(node.args[0]))


@operator("where", ast.Call)
def where(site: Site, call: ast.Call) -> Edits:
    """One side of a choice, always."""
    if in_tl(call.func) == "where" and len(call.args) == 3:
        yield from (site.replaced(site.of(side)) for side in call.args[1:])


@operator("condition", ast.If, ast.IfExp, ast.While)
def condition(site: Site, node: ast.If | ast.IfExp | ast.While) -> Edits:
    """A branch taken never, always, or when it should not be."""
    if isinstance(node, ast.IfExp):
        yield from (site.replaced(site.of(side)) for side in (node.body, node.orelse))
        return
    changed = ["False"]
    if isinstance(node, ast.If):
        changed += [f"not {site.operand(node.test)}"] + ["True"] * bool(node.orelse)
    word = "if" if isinstance(node, ast.If) else "while"
    start, end = site.text.start(node.test), site.text.end(node.test)
    yield from (Edit(f"{word} {site.of(node.test)}", f"{word} {by}", ((start, end, by),)) for by in changed)


@operator("statement", ast.Expr, ast.AugAssign, ast.Continue, ast.Break)
def statement(site: Site, node: ast.stmt) -> Edits:
    """SDL: a call whose value is not used, an assignment in place or a jump, left out."""
    silent = ("static_assert", "static_print", "device_print", "debug_barrier")
    if not isinstance(node, ast.Expr) or (isinstance(node.value, ast.Call) and in_tl(node.value.func) not in silent):
        yield site.replaced("pass")

"""Where a file may be mutated: its nodes with their surroundings, and edits of its text at their positions.

The text is cut at the positions of the syntax tree and the rest is left alone, so that comments and layout stay.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

Piece = tuple[int, int, str]  # what comes in place of bytes [start, end) of the file


class Edit(NamedTuple):
    """What an operator proposes: what people see of it, and the pieces of the file that change, in order."""

    before: str
    after: str
    pieces: tuple[Piece, ...]

    @property
    def start(self) -> int:
        return self.pieces[0][0]


Edits = Iterator[Edit]


class Text:
    """A file by positions of its syntax tree, which count bytes of UTF-8 in a line."""

    def __init__(self, source: str) -> None:
        self.data = source.encode()
        self._lines = [0]
        for line in self.data.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def start(self, node: Any) -> int:
        return int(self._lines[node.lineno - 1] + node.col_offset)

    def end(self, node: Any) -> int:
        return int(self._lines[node.end_lineno - 1] + node.end_col_offset)

    def of(self, node: ast.AST) -> str:
        return self.data[self.start(node) : self.end(node)].decode()

    def line(self, position: int) -> int:
        return sum(start <= position for start in self._lines)

    def between(self, left: ast.AST, right: ast.AST) -> tuple[int, bytes]:
        """Where the text between two nodes starts, and the text, its comments blanked."""
        start = self.end(left)
        return start, re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), self.data[start : self.start(right)])

    def edited(self, pieces: tuple[Piece, ...], first: int = 0, last: int | None = None) -> str:
        """Bytes [first, last) of the file after the edit."""
        data = self.data[:last]
        for start, end, text in reversed(pieces):
            data = data[:start] + text.encode() + data[end:]
        return data[first:].decode()


_COMPOUND = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda)
_TOKEN = re.compile(rb"[^\s()\\]+(?:\s+(?:not|in)\b)?")  # of an operator between its operands


@dataclass(frozen=True)
class Site:
    """A node with what operators want to know about its surroundings, and the edits they make there.

    place: the statement of the file that it is in. function: "" outside of one. kernel: the Triton function it is in. masks: all
    nodes that the kernel's masks are made from. tuning: whether it only decides how fast the kernel is.
    """

    text: Text
    node: ast.AST
    parent: ast.AST
    place: int
    function: str = ""
    kernel: ast.FunctionDef | None = None
    masks: frozenset[ast.AST] = frozenset()
    tuning: bool = False

    @property
    def above(self) -> Site:
        """The parent, for an edit that tells nothing without it."""
        return replace(self, node=self.parent)

    def of(self, node: ast.AST) -> str:
        return self.text.of(node)

    def operand(self, node: ast.AST) -> str:
        """The node's text, fit to stand beside an operator."""
        return f"({self.of(node)})" if isinstance(node, _COMPOUND) else self.of(node)

    def replaced(self, by: str) -> Edit:
        """Another expression or statement in place of this one."""
        if isinstance(self.node, ast.expr):
            tree = _expression(by)
            if tree is None or (isinstance(tree, _COMPOUND) and _binds_closer(self.parent, self.node)):
                by = f"({by})"
        return Edit(self.of(self.node), by, ((self.text.start(self.node), self.text.end(self.node), by),))

    def inside(self, *changes: tuple[ast.AST, str]) -> Edit:
        """Other texts in place of nodes inside this one."""
        return self.edited(*((self.text.start(node), self.text.end(node), by) for node, by in changes))

    def without(self, call: ast.Call, *names: str) -> Edit:
        """The call without keyword arguments; each goes with the comma before it."""
        pieces = []
        order: list[ast.AST] = sorted([*call.args, *call.keywords], key=self.text.start)
        for previous, argument in zip([call.func, *order], order, strict=False):
            if isinstance(argument, ast.keyword) and argument.arg in names:
                start, between = self.text.between(previous, argument)
                start += between.rindex(b",") if b"," in between else len(between)
                pieces.append((start, self.text.end(argument), ""))
        return self.edited(*pieces)

    def token(self, left: ast.AST, right: ast.AST, by: str) -> Edit:
        """Another operator between two operands."""
        start, between = self.text.between(left, right)
        found = _TOKEN.search(between)
        assert found is not None, "two operands have an operator between them"
        return self.edited((start + found.start(), start + found.end(), by))

    def edited(self, *pieces: Piece) -> Edit:
        """Other text in pieces of this node."""
        start, end = self.text.start(self.node), self.text.end(self.node)
        return Edit(self.of(self.node), self.text.edited(pieces, start, end), pieces)


def _binds_closer(parent: ast.AST, node: ast.expr) -> bool:
    match parent:
        case ast.Attribute(value=held) | ast.Subscript(value=held) | ast.Call(func=held):
            return held is node
    return isinstance(parent, _COMPOUND)


def _expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:  # it goes over several lines, whose brackets stay behind
        return None


def sites(tree: ast.Module, text: Text) -> Iterator[Site]:
    """The nodes of a file's functions that may be mutated.

    What is tuning is told by its name on the host (`_TUNED`): in an assignment, a keyword, a dictionary, a function. Decorators
    and defaults, `triton.Config`, `triton.autotune`, messages and what is raised are left out, and so is what stands outside
    functions.
    """
    for place, statement in enumerate(tree.body):
        yield from _below(Site(text, statement, tree, place))


def _below(site: Site) -> Iterator[Site]:
    node = site.node
    if isinstance(node, (ast.Raise, ast.JoinedStr)):  # before Python 3.12 nodes in an f-string have no places of their own
        return
    if isinstance(node, ast.Call) and dotted(node.func) in ("triton.Config", "triton.autotune"):
        return
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.FunctionDef):
        site = replace(site, function=f"{site.function}.{node.name}".lstrip("."))
        marks = [mark.func if isinstance(mark, ast.Call) else mark for mark in node.decorator_list]
        if any(dotted(mark) in ("triton.jit", "jit") for mark in marks):
            site = replace(site, kernel=node, masks=_masks(node))
        children = list(node.body)
    elif isinstance(node, ast.AnnAssign):
        children = [node.value] if node.value else []
    site = replace(site, tuning=site.tuning or (site.kernel is None and _is_tuning(node)))
    if site.function:
        yield site
    names = dict(zip(node.values, node.keys, strict=True)) if isinstance(node, ast.Dict) else {}
    for child in children:
        match names.get(child) if isinstance(child, ast.expr) else None:
            case ast.Constant(value=str(name)):
                tuned = _TUNED.match(name) is not None
            case _:
                tuned = False
        yield from _below(replace(site, node=child, parent=node, tuning=site.tuning or tuned))


_TUNED = re.compile(r"_*(num_)?(block|tile|side|group|warps|stages|ctas)(_|$)", re.IGNORECASE)


def _is_tuning(node: ast.AST) -> bool:
    """Whether a node of the host decides block sizes and the like, by the names that it gives something."""
    match node:
        case ast.FunctionDef(name=name):
            makes = any(isinstance(call, ast.Call) and dotted(call.func) == "triton.Config" for call in ast.walk(node))
            return makes or _TUNED.match(name) is not None
        case ast.keyword(arg=str(name)):
            return _TUNED.match(name) is not None
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            return all(_TUNED.match(dotted(name)) is not None for name in names)
        case ast.If(body=body, orelse=orelse):  # a choice between block sizes
            return all(_is_tuning(statement) for statement in body + orelse)
    return False


def _masks(kernel: ast.FunctionDef) -> frozenset[ast.AST]:
    """All nodes that the masks of a kernel's accesses are made from."""
    exprs = [word.value for word in ast.walk(kernel) if isinstance(word, ast.keyword) and word.arg == "mask"]
    made: dict[str, list[ast.expr]] = {}
    for node in ast.walk(kernel):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made.setdefault(node.targets[0].id, []).append(node.value)
    for expr in exprs:  # grows while it is gone through
        for node in ast.walk(expr):
            if isinstance(node, ast.Name):
                exprs.extend(made.pop(node.id, []))
    return frozenset(node for expr in exprs for node in ast.walk(expr))


def dotted(node: ast.AST) -> str:
    """`a.b.c` as it is written; "" for anything else."""
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return node.id if isinstance(node, ast.Name) else ""


def in_tl(node: ast.AST) -> str:
    """The name in triton.language, or ""."""
    name = dotted(node)
    return name.rpartition(".")[2] if name.startswith(("tl.", "triton.language.")) else ""


def attribute(node: ast.AST) -> str:
    """What comes after the last dot, whatever stands before it; "" for what is no attribute."""
    return node.attr if isinstance(node, ast.Attribute) else ""


def strides(function: ast.FunctionDef) -> list[ast.arg]:
    """The parameters that are strides, by their names."""
    return [arg for arg in function.args.args if "stride" in arg.arg]

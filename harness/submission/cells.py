"""What an exercise needs of a notebook: the statements that its function cannot do without, and which cell each is from.

A notebook holds a whole chapter and, between the functions, whatever was tried out: calls on a GPU, timings, plots. To import all
of that would fail or take minutes. So a function is graded with the statements that give the names it uses, and the names those
use, and so on; nothing else of the notebook runs.
"""

from __future__ import annotations

import ast
import bisect
import re
import symtable
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.course import parse

_TOO_DEEP = "it is nested too deeply to be read"


@dataclass(frozen=True)
class Lines:
    """Where the lines of a module come from: `starts` has the line above each cell's first one, `cells` its number."""

    starts: tuple[int, ...]
    cells: tuple[int, ...]

    def place(self, line: int) -> str:
        at = bisect.bisect_right(self.starts, line) - 1
        return f"cell {self.cells[at]}, line {line - self.starts[at]}" if at >= 0 else f"line {line}"


@dataclass
class _Unit:
    """One or more statements that share their lines, `first` to `last` of a cell, counted from 0."""

    first: int
    last: int
    binds: frozenset[str]
    needs: frozenset[str]
    data: frozenset[str]  # of those that it binds: no module, function or class
    sets: frozenset[str]  # names to a part of which it assigns: `TABLE[0] = 1`
    calls: frozenset[str]  # names of which it calls a method and drops the result: `CONFIGS.append(...)`
    always: bool  # `from x import *`: nobody knows what it binds


@dataclass
class Cell:
    """A code cell: its number in the notebook, counted from 1 with the text cells, and its lines, which are plain Python."""

    number: int
    lines: list[str]
    units: list[_Unit] = field(default_factory=list)
    future: list[str] = field(default_factory=list)
    error: str = ""  # why it is no Python

    @classmethod
    def of(cls, number: int, text: str) -> Cell:
        cell = cls(number, text.split("\n"))
        try:
            cell.units = list(cell._units(parse(text)))
        except (SyntaxError, ValueError) as error:
            cell.error = str(error)
        except (RecursionError, MemoryError):
            cell.error = _TOO_DEEP
        return cell

    @property
    def defines(self) -> frozenset[str]:
        """The names that it gives; of a cell that is no Python, those that it seems to give."""
        if not self.error:
            return frozenset().union(*(unit.binds for unit in self.units))
        text = "\n".join(self.lines)
        return frozenset(a or b for a, b in re.findall(r"^[ \t]*(?:def|class)[ \t]+(\w+)|^(\w+)[ \t]*=(?!=)", text, re.MULTILINE))

    def _units(self, tree: ast.Module) -> Iterator[_Unit]:
        spans: list[tuple[int, int, list[ast.stmt]]] = []
        for statement in tree.body:
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                self.future += [name.name for name in statement.names]
                continue
            decorators = getattr(statement, "decorator_list", [])
            first = min([statement.lineno, *(mark.lineno for mark in decorators)]) - 1
            last = (statement.end_lineno or statement.lineno) - 1
            if spans and first <= spans[-1][1]:  # after a semicolon
                spans[-1][2].append(statement)
                spans[-1] = (spans[-1][0], last, spans[-1][2])
            else:
                spans.append((first, last, [statement]))
        for first, last, statements in spans:
            with warnings.catch_warnings(action="ignore"):
                table = symtable.symtable("\n".join(self.lines[first : last + 1]) + "\n", "cell", "exec")
            symbols, inner = table.get_symbols(), _inner(statements)
            yield _Unit(
                first, last,
                frozenset(_bound(table)) - inner,
                frozenset(_used(table)) - inner,
                frozenset(s.get_name() for s in symbols if s.is_assigned() and not s.is_imported() and not s.is_namespace()),
                frozenset(name for s in statements for name in _changed(s, calls=False)),
                frozenset(name for s in statements for name in _changed(s, calls=True)),
                any(isinstance(s, ast.ImportFrom) and s.names[0].name == "*" for s in statements),
            )  # fmt: skip


def _inner(statements: list[ast.stmt]) -> frozenset[str]:
    """The variables of comprehensions, which nothing else assigns to: from Python 3.12 on, a symbol table has them outside."""
    stored: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                stored[node.id] += 1
            elif isinstance(node, ast.comprehension):
                inside.update(name.id for name in ast.walk(node.target) if isinstance(name, ast.Name))
    return frozenset(name for name, count in inside.items() if stored[name] <= count)


def _bound(table: symtable.SymbolTable) -> Iterator[str]:
    """The names of the module that a piece of code gives something to: by `global` and by `:=` below the top, too."""
    for symbol in table.get_symbols():
        given = symbol.is_imported() or symbol.is_assigned() or symbol.is_declared_global()
        if given and (table.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _bound(child)


def _used(table: symtable.SymbolTable) -> Iterator[str]:
    """The names of the module that a piece of code uses, in functions as well."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _used(child)


def _changed(statement: ast.stmt, *, calls: bool) -> Iterator[str]:
    """The names whose objects a statement changes: by a method called for nothing else (`calls`), or by assigning to a part."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for node in ast.walk(statement):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
            targets = [node.value.func] if calls else []  # not a launch, `kernel[grid](x)`, which changes no kernel
        elif not calls and isinstance(node, ast.Assign):
            targets = node.targets
        elif not calls and isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        for target in targets:
            base: ast.expr = target
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if isinstance(base, ast.Name) and base is not target:
                yield base.id


def assemble(cells: list[Cell], name: str) -> tuple[str, Lines]:
    """The module that the function `name` is graded in: each cell that it needs something of after a comment `# cell N`, with
    other statements left blank, so that lines keep their place in the cell.

    A cell that is no Python is left out, as a notebook that runs goes on without it, unless it seems to give something that is
    needed: then it is in, and the import fails with its place.
    """
    kept, needed = _needed(cells, name)
    given = frozenset().union(*(unit.binds for units in kept for unit in units))
    lines: list[str] = []
    starts: list[int] = []
    numbers: list[int] = []
    for cell, units in zip(cells, kept, strict=True):
        if cell.error and not cell.defines & needed:
            continue
        if not cell.error and not units:
            continue
        starts.append(len(lines) + 1)
        numbers.append(cell.number)
        lines.append(f"# cell {cell.number}")
        wanted = {line for unit in units for line in range(unit.first, unit.last + 1)}
        lines += [line if cell.error or number in wanted else "" for number, line in enumerate(cell.lines)]
    first = [f"from __future__ import {feature}" for feature in sorted({f for cell in cells for f in cell.future})]
    if "get_ipython" in needed - given:
        first.append("get_ipython = lambda: None")
    if first and lines:
        lines[0] = f"{'; '.join(first)}  {lines[0]}"
    return "\n".join(lines) + "\n", Lines(tuple(starts), tuple(numbers))


def _needed(cells: list[Cell], name: str) -> tuple[list[list[_Unit]], frozenset[str]]:
    """The statements of each cell that `name` needs, and the names that they use."""
    units = [unit for cell in cells for unit in cell.units]
    # `torch.testing.assert_close(...)` changes no torch, `CONFIGS.append(...)` changes the list.
    data = frozenset().union(*(unit.data for unit in units))
    giving: dict[str, list[_Unit]] = {}
    for unit in units:
        for given in unit.binds | unit.sets | (unit.calls & data):
            giving.setdefault(given, []).append(unit)
    chosen: set[int] = set()
    needed, to_find = {name}, [name]

    def choose(unit: _Unit) -> None:
        chosen.add(id(unit))
        to_find.extend(unit.needs - needed)
        needed.update(unit.needs)

    for unit in units:
        if unit.always:
            choose(unit)
    while to_find:
        for unit in giving.get(to_find.pop(), []):
            if id(unit) not in chosen:
                choose(unit)
    return [[unit for unit in cell.units if id(unit) in chosen] for cell in cells], frozenset(needed)

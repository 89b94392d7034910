"""A notebook (.ipynb) as Python cells. It is read as data: nothing of it runs, and what IPython alone understands does nothing.

nbformat brings the notebooks of old (formats 1 to 3) to the form of today; those of today are read as they are: what nbformat
would refuse of them, metadata that are missing for the most part, is of no interest here.
"""

from __future__ import annotations

import json
import re
from typing import Any

from harness.course import parse
from harness.submission.cells import Cell
from harness.submission.model import Unreadable
from harness.submission.tree import printable

MAX_NOTEBOOK = 8 << 20  # bytes; most of them are outputs
MAX_CODE = 256 << 10  # of its code cells
_CLEAR = "clear its outputs and save it again"
_AGAIN = "save it again with Jupyter, as .ipynb"
# Cell magics whose body is Python that gives the notebook its names; the body of any other is another language, or is not kept.
_PYTHON = frozenset({"time", "capture", "prun"})
_CELL_MAGIC = re.compile(r"\s*%%(\w*)")
# A line that is IPython's: %magic, !command, ?help, help?, and what IPython takes for a magic though it does not say so.
_LINE_MAGIC = re.compile(r"(\s*)(?:%{1,2}[A-Za-z_]|!|\?|[%\w.*\[\]'\"]+\?{1,2}\s*$|(?:pip3?|conda|mamba|cd)\s+[\w./~-])")
_ASSIGNED_MAGIC = re.compile(r"(\s*)([\w.\[\]]+)\s*=\s*(?:%[A-Za-z_]|!)")


def read(name: str, data: bytes) -> list[Cell]:
    """Its code cells, in the order in which they stand. Raises `Unreadable`."""
    if len(data) > MAX_NOTEBOOK:
        raise Unreadable(f"{name} has {len(data):,} bytes, more than {MAX_NOTEBOOK:,}: {_CLEAR}")
    cells = _cells(name, data)
    sources = [(number, _text(cell.get("source", ""))) for number, cell in cells if cell.get("cell_type") == "code"]
    if (size := sum(len(text) for _, text in sources)) > MAX_CODE:
        raise Unreadable(f"the code cells of {name} have {size:,} characters, more than {MAX_CODE:,}")
    return [Cell.of(number, to_python(text)) for number, text in sources if text.strip()]


def _cells(name: str, data: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Cells with their numbers, whatever the format."""
    try:
        found = json.loads(data)
    except RecursionError:
        raise Unreadable(f"{name} is nested too deeply to be a notebook: {_AGAIN}") from None
    except ValueError as error:  # no JSON, no text, a number of thousands of digits
        what = "is empty" if not data.strip() else f"is no notebook ({error})"
        raise Unreadable(f"{name} {what}: {_AGAIN}") from None
    if isinstance(found, dict) and not isinstance(found.get("cells"), list):
        found = _modern(name, found)
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list):
        raise Unreadable(f"{name} is JSON, but no notebook: it has no list of cells: {_AGAIN}")
    return [(number, cell) for number, cell in enumerate(cells, 1) if isinstance(cell, dict)]


def _modern(name: str, old: dict[str, Any]) -> Any:
    """A notebook of format 1, 2 or 3 as one of format 4."""
    import logging

    sheets = old.get("worksheets")
    for sheet in sheets if isinstance(sheets, list) else []:
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        for cell in cells if isinstance(cells, list) else []:
            if isinstance(cell, dict):
                cell["outputs"] = []  # nobody needs them, and nbformat misses them
    logging.getLogger("traitlets").setLevel(logging.CRITICAL)  # what is invalid in it shall not be told on stderr
    try:
        import nbformat

        return nbformat.convert(nbformat.from_dict({"metadata": {}, **old}), 4)
    except Exception as error:  # the converters trust what they are given
        why = printable(f"{type(error).__name__}: {error}"[:200])
        raise Unreadable(f"{name} is JSON, but no notebook that can be read ({why}): {_AGAIN}") from None


def _text(source: Any) -> str:
    """A cell's source, which is a string or a list of lines with their ends."""
    text = "".join(part for part in source if isinstance(part, str)) if isinstance(source, list) else source
    if not isinstance(text, str):
        return ""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-8", "replace").decode()  # JSON can hold half a character, a file cannot


def to_python(text: str) -> str:
    """A cell's text as plain Python, line for line: a line that is IPython's becomes `pass` with a comment, a cell that is of
    another language nothing but comments."""
    if indent := re.match(r"\n*([ \t]+)\S", text):  # IPython takes the first line's off all that have it
        text = re.sub(rf"^{indent[1]}", "", text, flags=re.MULTILINE)
    magic = _CELL_MAGIC.match(text)
    lines = text.split("\n")
    if magic:
        at = text[: magic.start(1)].count("\n")
        if magic[1] not in _PYTHON:
            return "\n".join(f"# {line}" for line in lines)
        lines[at] = f"# {lines[at]}"
        text = "\n".join(lines)
    try:
        parse(text)
        return text  # a line such as `    %b` goes on with what stands above it
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "\n".join(_without_magics(lines))


def _without_magics(lines: list[str]) -> list[str]:
    """Where a statement begins with what is IPython's, `pass` in its place; all other lines as they are."""
    done, scan, in_magic = [], _Scan(), False
    for line in lines:
        if in_magic:
            in_magic = line.endswith("\\")
            done.append(f"# {line}")
            continue
        assigned = _ASSIGNED_MAGIC.match(line)
        found = assigned or _LINE_MAGIC.match(line)
        if found and not scan.inside and not line.lstrip().startswith("#"):
            in_magic = line.endswith("\\")
            statement = f"{assigned[2]} = None" if assigned else "pass"
            done.append(f"{found[1]}{statement}  # {line.strip()}")
            continue
        scan.go_on(line)
        done.append(line)
    return done


class _Scan:
    """Whether the next line goes on with a string, a bracket or a statement that a line before has begun."""

    def __init__(self) -> None:
        self._quote, self._depth, self._continued = "", 0, False

    @property
    def inside(self) -> bool:
        return bool(self._quote) or self._depth > 0 or self._continued

    def go_on(self, line: str) -> None:
        at, self._continued = 0, False
        while at < len(line):
            char = line[at]
            if char == "\\":
                self._continued = at == len(line) - 1
                at += 2
            elif self._quote:
                if line.startswith(self._quote, at):
                    at += len(self._quote)
                    self._quote = ""
                else:
                    at += 1
            elif char == "#":
                break
            elif char in "'\"":
                self._quote = char * 3 if line.startswith(char * 3, at) else char
                at += len(self._quote)
            else:
                self._depth = max(0, self._depth + (char in "([{") - (char in ")]}"))
                at += 1
        if len(self._quote) == 1 and not self._continued:
            self._quote = ""

"""A compilation that failed, in the student's terms: their line, what is wrong, no frame of the compiler's.

Triton says what is wrong in five ways: a chain of CompilationError, each with the text of one function and a
node in it; a plain exception for a call that does not fit the kernel; diagnostics that MLIR and LLVM write to
the process's standard error before "PassManager::run failed"; ptxas' log; and limits that it only checks when
a kernel is loaded onto a GPU. Each becomes a `CompileFailure`.
"""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITCallable

from . import resources

Kind = Literal["language", "call", "shared memory", "tensor memory", "threads", "ptxas", "compiler"]

# What Triton's autotuner takes for "this configuration does not work here" and passes over.
SKIPPED_BY_TUNING = (OutOfResources, CompileTimeAssertionFailure, PTXASError)


class CompileFailure(Exception):
    """`kernel` cannot be compiled for `target`.

    kind      language       the kernel's source breaks a rule of Triton's language, or a static assertion
              call           the arguments or options of the launch do not fit the kernel
              shared memory  a block needs more than the target has; tensor memory, threads: likewise
              ptxas          NVIDIA's assembler refused the PTX
              compiler       any other pass failed
    file, line, source       where in the student's file: the failing line, or the kernel's own
    message                  one short paragraph
    config                   the autotuner's configuration, None where there was none
    skippable                Triton's autotuner passes over a configuration that fails so, and tries another
    """

    def __init__(
        self, kernel: str, target: str, kind: Kind, file: str, line: int, source: str, message: str,
        config: dict[str, Any] | None = None, skippable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kernel, target, kind, file, line, source, message, config, skippable)
        self.kernel, self.target, self.kind = kernel, target, kind
        self.file, self.line, self.source, self.message = file, line, source, message
        self.config, self.skippable = config, skippable

    def __str__(self) -> str:
        where = f"{Path(self.file).name}:{self.line}"
        chosen = f" with {_words(self.config)}" if self.config else ""
        shown = f"\n    {self.source}" if self.source else ""
        what = f"{self.kernel} does not compile for {self.target}{chosen} ({self.kind})"
        return f"{where}: {what}: {self.message}{shown}"


def _words(config: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())


def definition(function: JITCallable) -> tuple[str, int]:
    """File and line of the `def` of a jitted function (its decorators come before)."""
    for offset, text in enumerate(function.raw_src):
        if text.lstrip().startswith("def "):
            return str(function.fn.__code__.co_filename), int(function.starting_line_number) + offset
    return str(function.fn.__code__.co_filename), int(function.starting_line_number)


def over_limit(
    kernel: JITCallable, target: str, kind: Kind, needed: int, limit: int, remedy: str,
    config: dict[str, Any] | None,
) -> CompileFailure:  # fmt: skip
    """A limit that Triton checks when it loads a kernel, found without loading it."""
    unit = {"shared memory": "bytes", "tensor memory": "columns", "threads": "threads"}[kind]
    message = f"a block needs {needed:,} {unit} of {kind}, {target} has {limit:,}: {remedy}"
    if kind == "threads":
        message = f"a block has {needed:,} threads, {target} allows {limit:,}: {remedy}"
    file, line = definition(kernel)
    source = _line_of(kernel, line)
    return CompileFailure(_name(kernel), target, kind, file, line, source, message, config, skippable=True)


def from_exception(
    error: Exception, kernel: JITCallable, target: str, printed: str, diagnostics: str,
    config: dict[str, Any] | None,
) -> CompileFailure:  # fmt: skip
    """The failure behind `error`, which compiling `kernel` raised.

    `printed` is what the compiler wrote to standard output meanwhile (Triton prints the PTX that ptxas
    refuses), `diagnostics` what it wrote to standard error.
    """
    file, line = definition(kernel)
    skippable = isinstance(error, SKIPPED_BY_TUNING)
    kind: Kind = "compiler"
    if isinstance(error, CompilationError):
        kind = "language"
        place, message = _in_language(error, kernel)
        file, line = place or (file, line)
    elif isinstance(error, PTXASError):
        kind, message, found = _in_ptxas(str(error), printed, Path(file).name)
        line = found or line
    elif isinstance(error, OutOfResources):
        kind, message = _resource(error.name), str(error)
    elif (found_diagnostic := _diagnostic(diagnostics, file)) is not None:
        found, message = found_diagnostic
        line = found or line
    elif isinstance(error, TypeError | KeyError | ValueError | AssertionError):
        # The binder and the backend's options raise these: missing or unknown arguments, a bad num_warps.
        kind, message = "call", _call_message(error, kernel)
        file, line = _caller(error, file) or (file, line)
    else:
        message = _first_lines(str(error) or type(error).__name__)
    source = _line_of(kernel, line, file)
    return CompileFailure(_name(kernel), target, kind, file, line, source, message, config, skippable)


def _name(kernel: JITCallable) -> str:
    return str(kernel.fn.__name__)


def _resource(name: str) -> Kind:
    return "tensor memory" if "tensor" in name else "threads" if "threads" in name else "shared memory"


def _line_of(kernel: JITCallable, line: int, file: str | None = None) -> str:
    """The text of that line of the kernel's file (or of `file`), stripped; empty where it cannot be read."""
    path = file or definition(kernel)[0]
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    if 1 <= line <= len(lines):
        return lines[line - 1].strip()
    offset = line - int(kernel.starting_line_number)
    return kernel.raw_src[offset].strip() if 0 <= offset < len(kernel.raw_src) else ""


def _first_lines(text: str, limit: int = 500) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[:limit]


# Triton's language ------------------------------------------------------------------------------------------


def _in_language(error: CompilationError, kernel: JITCallable) -> tuple[tuple[str, int] | None, str]:
    """Where and why: the innermost function of the student's own file in the chain, the innermost reason."""
    functions = {function.src: function for function in _reachable(kernel)}
    own_file = definition(kernel)[0]
    place: tuple[str, int] | None = None
    reason = ""
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, CompilationError):
            reason = current.error_message or reason
            function, line = functions.get(current.src), getattr(current.node, "lineno", None)
            if function is not None and line is not None and definition(function)[0] == own_file:
                place = own_file, definition(function)[1] + line - 1
        elif not reason:
            reason = f"{type(current).__name__}: {current}"
        current = current.__cause__
    if isinstance(error, CompileTimeAssertionFailure):
        reason = f"static assertion failed: {reason}" if reason else "static assertion failed"
    return place, _first_lines(_unquoted(reason)) or "this is not valid in a Triton kernel"


def _unquoted(reason: str) -> str:
    """NameError('x is not defined') as it would be printed: Triton passes on the repr of some exceptions."""
    match = re.fullmatch(r"(\w+)\((.*)\)", reason, re.S)
    if match is None:
        return reason
    try:
        value = ast.literal_eval(match[2])
    except (SyntaxError, ValueError):
        return reason
    return f"{match[1]}: {value}" if isinstance(value, str) else reason


def _reachable(kernel: JITCallable) -> Iterator[JITCallable]:
    """The kernel and the jitted functions that it can call by a name in the same or another module."""
    seen: set[int] = set()
    waiting: list[Any] = [kernel]
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        yield function
        scope = {**getattr(function.fn, "__globals__", {}), **_closure(function.fn)}
        waiting += [value for value in scope.values() if isinstance(value, JITCallable)]


def _closure(function: Any) -> dict[str, Any]:
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    values = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return values


# The call ---------------------------------------------------------------------------------------------------


def _call_message(error: Exception, kernel: JITCallable) -> str:
    text = str(error.args[0]) if error.args else type(error).__name__
    return _first_lines(text.replace("dynamic_func()", f"{_name(kernel)}()"))


def _caller(error: Exception, file: str) -> tuple[str, int] | None:
    """The innermost line of `file` on the stack: the one that launches the kernel."""
    frames = traceback.StackSummary.extract(traceback.walk_stack(None), lookup_lines=False)
    for frame in frames:
        if frame.filename == file and frame.lineno is not None:
            return file, frame.lineno
    return None


# MLIR and LLVM ----------------------------------------------------------------------------------------------

_MLIR = re.compile(r'^(?:loc\(.*?)?"?(?P<file>[^\s":]+)"?:(?P<line>\d+):\d+\)*: error: (?P<text>.*)$', re.M)
_LLVM = re.compile(r"^(?:<unknown>:0: )?(?:LLVM ERROR|error): (?P<text>.*)$", re.M | re.I)


def _diagnostic(diagnostics: str, file: str) -> tuple[int | None, str] | None:
    """(line of the kernel's file if known, message) of the first error in the diagnostics."""
    for match in _MLIR.finditer(diagnostics):
        if Path(match["file"]).name == Path(file).name:
            return int(match["line"]), _first_lines(match["text"])
    found = _MLIR.search(diagnostics) or _LLVM.search(diagnostics)
    return (None, _first_lines(found["text"])) if found else None


# ptxas ------------------------------------------------------------------------------------------------------

# "ptxas k.ptx, line 40; error   : Unknown modifier '.such'", "ptxas-blackwell error   : Entry function ..."
_PTXAS = re.compile(r"^ptxas\S* (?:[^\n;]*?line (?P<line>\d+);)?.*?error\s*:\s*(?P<text>.*)$", re.M)


def _in_ptxas(log: str, printed: str, file_name: str) -> tuple[Kind, str, int | None]:
    """(kind, message, line of the student's file if known) from ptxas' log and the PTX that Triton
    printed."""
    errors = list(_PTXAS.finditer(log))
    if not errors:
        return "ptxas", _first_lines(log), None
    text = _first_lines("; ".join(dict.fromkeys(error["text"].strip() for error in errors[:3])))
    if "too much shared" in text:
        return "shared memory", text, None
    line = None
    if errors[0]["line"] and (start := re.search(r"^//\n// Generated by LLVM", printed, re.M)):
        line = resources.ptx_source_line(printed[start.start() :], int(errors[0]["line"]), file_name)
    return "ptxas", text, line

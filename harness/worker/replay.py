"""Do what a tape tells, with other values in the arguments, in a process in which no host code of the submission has run.

Kernels are taken from the submission's files by where they stand, as syntax: neither decorators nor defaults nor
annotations are evaluated, and nothing of a file but its kernels is. What a kernel names comes from the tape, as constants,
other kernels and what Triton defines.
"""

from __future__ import annotations

import ast
import builtins
import collections
import importlib
import math
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.worker import purity, tape

_DEFAULT = "_default_{}_"


def _attribute(value: Any, name: str, *default: Any) -> Any:
    """`getattr` for kernels."""
    if purity.is_internal(str(name)):
        raise Unreadable(f"a kernel uses `.{name}`, which no compiled kernel has")
    return getattr(value, str(name), *default)


# All of Python's names that a kernel has.
_BUILTINS = {name: getattr(builtins, name) for name in purity.BUILTINS} | {
    "getattr": _attribute, "hasattr": lambda value, name: hasattr(value, str(name)) and not purity.is_internal(str(name)),
    "AssertionError": AssertionError,
}  # fmt: skip


class Unreadable(Exception):
    """The tape does not tell what a tape can tell: why, in words."""


class Replay:
    """One tape. `files`: the submission's, by name; `folder`: an empty one, for the kernels. `moves`: what torch's copies of
    an input may be for (`Grader.moves`)."""

    def __init__(self, document: Mapping[str, Any], files: Mapping[str, bytes], folder: Path, moves: str) -> None:
        self.document, self.files, self.folder, self.moves = document, files, folder, moves
        self._given: set[int] = set()  # storages that a kernel was given
        self._moved: set[int] = set()  # storages that hold what torch has copied from an argument
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._touched: set[int] = set()  # by what is being done
        self._functions: dict[int, Any] = {}
        self._trees: dict[str, ast.Module] = {}

    def run(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs for these values of the arguments, which have the shapes and layouts of those of the call."""
        for number, tensor in zip(self.document["arguments"], arguments, strict=True):
            self._storages[number] = tensor.untyped_storage()
        for what, *rest in self.document["events"]:
            if what in ("new", "set"):
                self._content(*rest)
            elif what == "copy":
                self._copy(*rest)
            elif what == "fill":
                self._tensor(rest[0]).copy_(rest[1].expand(rest[0]["shape"]))
            elif what == "launch":
                self._launch(*rest)
            else:
                raise Unreadable(f"an event {what!r}")
        nothing_to_do = any(tensor.numel() == 0 for tensor in arguments)  # zeros may be all that is due
        for row in self.document["outputs"]:
            if row["storage"] not in self._given and math.prod(row["shape"]) and not nothing_to_do:
                raise Unreadable("an output was given to no kernel of the submission")
            if row["storage"] in self._moved and self.moves != "allowed":
                raise Unreadable("an output is torch's copy of the input; here the copy is the exercise")
        return [self._tensor(row) for row in self.document["outputs"]]

    def _content(self, number: int, size: int, content: bytes) -> None:
        if not 0 <= size <= tape.LARGEST * 64:
            raise Unreadable(f"memory of {size} bytes")
        if number in self.document["arguments"]:
            raise Unreadable("an argument's memory made anew")
        storage = self._storages.get(number)
        if storage is None:
            storage = self._storages[number] = torch.empty(size, dtype=torch.uint8).untyped_storage()
        memory = torch.empty(0, dtype=torch.uint8).set_(storage)
        if size and len(content) == 1:
            memory.fill_(content[0])
        elif size:
            memory.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))

    def _copy(self, target: Mapping[str, Any], source: Mapping[str, Any]) -> None:
        to, of = self._tensor(target), self._tensor(source)
        to.copy_(of.reshape(to.shape) if of.numel() == to.numel() else of)
        if source["storage"] in self._moved or source["storage"] in self.document["arguments"]:
            self._moved.add(target["storage"])
        if source["storage"] in self._given:
            self._given.add(target["storage"])

    def _launch(self, function: int, arguments: Mapping[str, Any], grid: list[int], options: Mapping[str, Any]) -> None:
        kernel = self._function(function)
        if (impure := purity.offence(kernel, str(self.folder))) is not None:
            raise Unreadable(impure)
        self._touched = set()
        kernel[tuple(grid)](**{name: self._value(value) for name, value in arguments.items()}, **options)
        self._given |= self._touched
        if self.moves == "refused" and self._touched & self._moved:
            self._moved |= self._touched - set(self.document["arguments"])

    def _tensor(self, row: Mapping[str, Any]) -> torch.Tensor:
        storage = self._storages[row["storage"]]
        self._touched.add(row["storage"])
        # Raises RuntimeError where that does not lie in the storage.
        return torch.empty(0, dtype=row["dtype"]).set_(storage, row["offset"], row["shape"], row["stride"])

    # -- values and functions -------------------------------------------------------------------------------------

    def _value(self, told: Any) -> Any:
        what, *rest = told
        if what == "plain":
            return rest[0]
        if what == "tensor":
            return self._tensor(rest[0])
        if what == "descriptor":
            return TensorDescriptor(self._tensor(rest[0]), *rest[1:4], padding=rest[4])
        if what == "wrapped":
            return triton.reinterpret(self._tensor(rest[0]), self._value(rest[1]))
        if what == "constexpr":
            return tl.constexpr(self._value(rest[0]))
        if what == "dtype":
            return tl.dtype(rest[0])
        if what in ("tuple", "list"):
            inner = [self._value(v) for v in rest[0]]
            return tuple(inner) if what == "tuple" else inner
        if what == "fields":
            return collections.namedtuple("fields", rest[0])(*map(self._value, rest[1]))
        if what == "dict":
            return {self._value(k): self._value(v) for k, v in rest[0]}
        if what == "function":
            return self._function(rest[0])
        if what == "named":
            return self._compilable(tape.resolve(*rest), rest[1])
        if what == "module":
            return self._compilable(importlib.import_module(rest[0]), rest[0])
        if what == "own":
            module = types.ModuleType(str(rest[0]))
            module.__file__ = str(self.folder / "module.py")
            vars(module).update({name: self._value(value) for name, value in rest[1]})
            return module
        raise Unreadable(f"a value {what!r}")

    def _compilable(self, value: Any, name: str) -> Any:
        if not purity.compilable(name, value):
            raise Unreadable(f"`{name}`, which no compiled kernel can name")
        return value

    def _function(self, number: int) -> Any:
        if number not in self._functions:
            self._functions[number] = self._made(number, self.document["functions"][number])
        return self._functions[number]

    def _made(self, number: int, row: Mapping[str, Any]) -> Any:
        node = self._definition(row)
        spec = node.args
        scope: dict[str, Any] = {"__name__": f"kernel_{number}", "tl": tl}

        def default(value: Any) -> ast.expr:
            name = _DEFAULT.format(len(scope))
            scope[name] = self._value(value)
            return ast.Name(name, ast.Load())

        for parameter in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            constant = parameter.arg in row["constexprs"]
            parameter.annotation = ast.parse("tl.constexpr", mode="eval").body if constant else None
        spec.defaults = [default(value) for value in row["defaults"]]
        only = row["keyword defaults"]
        spec.kw_defaults = [default(only[p.arg]) if p.arg in only else None for p in spec.kwonlyargs]
        node.decorator_list, node.returns = [], None
        file = self.folder / f"kernel_{number}.py"
        text = ast.unparse(ast.fix_missing_locations(ast.Module([node], []))) + "\n"
        file.write_text(text, encoding="utf-8")  # where Triton looks for the source
        exec(compile(text, str(file), "exec", dont_inherit=True), scope)  # defines, and does nothing else
        function = scope[node.name]
        found: Any = triton.jit(function) if row["kind"] == "jit" else triton.constexpr_function(function)
        self._functions[number] = scope[node.name] = found  # before its globals: it may call itself
        scope |= {name: self._value(value) for name, value in row["globals"].items()}
        scope["__builtins__"] = _BUILTINS
        return found

    def _definition(self, row: Mapping[str, Any]) -> ast.FunctionDef:
        """The function of that name that begins, with its decorators, on that line of that file."""
        name = str(row["file"])
        if name not in self.files:
            raise Unreadable(f"a kernel in {name}, which is no file of the submission")
        if name not in self._trees:
            self._trees[name] = ast.parse(self.files[name])
        for node in ast.walk(self._trees[name]):
            if isinstance(node, ast.FunctionDef) and node.name == row["name"]:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if first == row["line"]:
                    return node
        raise Unreadable(f"a kernel `{row['name']}`, which does not stand on line {row['line']} of {name}")

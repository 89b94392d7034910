"""What a call did to memory, event by event, so that it can be done again where none of the submission's host code runs.

The tape of an interpreted call holds its launches (kernel, grid, arguments), torch's copies and fills, and whatever else was
found in memory that a launch was given. `replay` does the same again with other values in the arguments. What comes out is
then the work of the kernels alone: a number that host code worked out from the values of the call is the wrong one now.
So it does not matter who made the tape, nor whether he was honest.
"""

from __future__ import annotations

import builtins
import enum
import importlib
import os
import types
from collections.abc import Iterable
from typing import Any

import torch
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.worker import ledger, purity

LARGEST = 64 << 20  # bytes of one call that neither an argument, nor a copy, nor a kernel has put there
_PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype)
_DEPTH = 12


class Untold(Exception):
    """Something cannot be told to another process: what, in words."""


class Tape:
    """The events of one call. `folder`: the submission's, with a separator at its end."""

    def __init__(self, folder: str, arguments: dict[str, torch.Tensor]) -> None:
        self.folder = folder
        self.events: list[list[Any]] = []
        self.functions: list[dict[str, Any]] = []
        self.untold = ""
        self.kernel: Any = None  # whose launch comes next
        self._numbers: dict[int, int] = {}  # of storages, by their address
        self._known: dict[int, bytes] = {}  # what a storage held after the last event
        self._alive: list[Any] = []
        self._places: dict[tuple[str, int], int] = {}
        self._told = 0
        self.arguments = [self._number(tensor, given=True) for tensor in arguments.values()]

    def document(self, outputs: Iterable[torch.Tensor]) -> dict[str, Any] | None:
        """As `replay` takes it; None where something cannot be told (`untold` says what)."""
        results = self._safely(lambda: [self._tensor(tensor) for tensor in outputs])
        if self.untold:
            return None
        return {
            "events": self.events, "functions": self.functions, "arguments": self.arguments, "outputs": results,
        }  # fmt: skip

    def operator(self, target: torch.Tensor, source: torch.Tensor | None) -> None:
        """torch copied `source` to `target`, or filled it (None)."""
        if target.numel() == 0 or target.layout != torch.strided or target.device.type != "cpu":
            return
        if source is None:
            self._safely(lambda: self.events.append(["fill", self._tensor(target, fresh=True), target.reshape(-1)[:1].clone()]))
        elif source.layout == torch.strided and source.untyped_storage()._cdata != target.untyped_storage()._cdata:
            self._safely(lambda: self.events.append(["copy", self._tensor(target, fresh=True), self._tensor(source)]))
        self._safely(lambda: self._keep(target))

    def launch(self, arguments: dict[str, Any], grid: tuple[int, int, int], options: dict[str, Any]) -> None:
        """`kernel` is about to run; `options` are what the compiler gets (warps, stages)."""

        def tell() -> None:
            told = {name: self._value(value) for name, value in arguments.items()}
            chosen = {name: value for name, value in options.items() if type(value) in _PLAIN}
            self.events.append(["launch", self._function(self.kernel.fn, "jit"), told, list(grid), chosen])

        self._safely(tell)

    def landed(self, tensors: Iterable[torch.Tensor]) -> None:
        """It has run, and may have written to these."""

        def keep() -> None:
            for tensor in tensors:
                self._keep(tensor)

        self._safely(keep)

    # -- memory ---------------------------------------------------------------------------------------------------

    def _safely(self, tell: Any) -> Any:
        if not self.untold:
            try:
                return tell()
            except Untold as error:
                self.untold = str(error)
        return None

    def _number(self, tensor: torch.Tensor, *, given: bool = False, fresh: bool = False) -> int:
        """The number of a tensor's storage. What it holds is told where that is not the work of an earlier event;
        `fresh`: it is the target of a copy, of which nothing else need be told where it is new."""
        storage = tensor.untyped_storage()
        key, number = storage._cdata, self._numbers.get(storage._cdata)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._alive.append(storage)
            if given:
                return number
            self._tell(["new", number, storage.nbytes()], b"\0" if fresh else _bytes(storage))
            self._keep(tensor)
        elif key in self._known and not fresh and self._known[key] != (now := _bytes(storage)):
            self._tell(["set", number, storage.nbytes()], now)
            self._known[key] = now
        return number

    def _tell(self, event: list[Any], content: bytes) -> None:
        """One byte stands for a storage that is full of it."""
        if len(content) > 1 and content.count(content[:1]) == len(content):
            content = content[:1]
        self._told += len(content)
        if self._told > LARGEST:
            raise Untold(f"more than {LARGEST >> 20} MiB that its host code has put into memory")
        self.events.append([*event, content])

    def _keep(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        number = self._numbers.get(storage._cdata)
        if number is not None and number not in self.arguments:
            self._known[storage._cdata] = _bytes(storage)

    def _tensor(self, tensor: torch.Tensor, *, fresh: bool = False) -> dict[str, Any]:
        if tensor.layout != torch.strided or tensor.device.type != "cpu":
            raise Untold(f"a tensor on {tensor.device.type} of layout {tensor.layout}")
        return {
            "storage": self._number(tensor, fresh=fresh), "dtype": tensor.dtype, "shape": list(tensor.shape),
            "stride": list(tensor.stride()), "offset": int(tensor.storage_offset()),
        }  # fmt: skip

    # -- values and functions -------------------------------------------------------------------------------------

    def _value(self, value: Any, depth: int = 0, attributes: frozenset[str] = frozenset()) -> list[Any]:
        """A value as a pair of what it is and what it holds; `replay.Replay._value` is the inverse."""
        if depth > _DEPTH:
            raise Untold("values within values without end")
        if isinstance(value, torch.Tensor):
            return ["tensor", self._tensor(value)]
        if isinstance(value, TensorDescriptor):
            parts = [list(value.shape), list(value.strides), list(value.block_shape), value.padding]
            return ["descriptor", self._tensor(value.base), *parts]
        if isinstance(value, TensorWrapper):
            return ["wrapped", self._tensor(value.base), self._value(value.dtype)]
        if isinstance(value, tl.constexpr):
            return ["constexpr", self._value(value.value, depth + 1, attributes)]
        if isinstance(value, tl.dtype) and not isinstance(value, tl.pointer_type):
            return ["dtype", value.name]
        if isinstance(value, enum.Enum) and self._found(type(value)) is None:
            return self._value(value.value, depth + 1)
        if type(value) in _PLAIN:
            return ["plain", value]
        if isinstance(value, (tuple, list)):
            inner = [self._value(v, depth + 1, attributes) for v in value]
            return ["fields", list(value._fields), inner] if hasattr(value, "_fields") else [type(value).__name__, inner]
        if isinstance(value, dict):
            return ["dict", [[self._value(k, depth + 1), self._value(v, depth + 1)] for k, v in value.items()]]
        if isinstance(value, (InterpretedFunction, JITFunction)):
            return ["function", self._function(value.fn, "jit")]
        if type(value).__name__ == "ConstexprFunction":
            return ["function", self._function(value.fn, "constexpr_function")]
        if isinstance(value, types.ModuleType):
            return self._module(value, depth, attributes)
        if (found := self._found(value)) is not None:
            return ["named", *found]
        if hasattr(value, "__index__") or hasattr(value, "__float__"):  # a number of NumPy's
            return ["plain", value.__index__() if hasattr(value, "__index__") else float(value)]
        raise Untold(f"a value of type {type(value).__name__}")

    def _module(self, value: types.ModuleType, depth: int, attributes: frozenset[str]) -> list[Any]:
        if purity.of_the_language(value):
            return ["module", value.__name__]
        if not str(getattr(value, "__file__", "")).startswith(self.folder):
            raise Untold(f"the module {value.__name__}")
        inner: list[Any] = []
        for name in sorted(attributes & vars(value).keys()):
            if not name.startswith("__"):
                inner.append([name, self._value(vars(value)[name], depth + 1, attributes)])
        return ["own", value.__name__, inner]

    def _found(self, value: Any) -> list[str] | None:
        """Module and name of something that Triton, math or Python defines."""
        module, name = str(getattr(value, "__module__", "") or ""), str(getattr(value, "__qualname__", ""))
        if isinstance(value, enum.Enum):
            module, name = type(value).__module__, f"{type(value).__qualname__}.{value.name}"
        try:
            return [module, name] if resolve(module, name) is value else None
        except (ImportError, AttributeError):
            return None

    def _function(self, function: Any, kind: str) -> int:
        """The number of a kernel, of a function that kernels call, or of one that is computed while they are compiled."""
        code = getattr(function, "__code__", None)
        if code is None or not code.co_filename.startswith(self.folder):
            raise Untold(f"a kernel `{getattr(function, '__name__', '?')}` that is in none of its files")
        place = (code.co_filename, code.co_firstlineno)
        if place in self._places:
            return self._places[place]
        number = self._places[place] = len(self.functions)
        row: dict[str, Any] = {}
        self.functions.append(row)
        steps = purity.steps(code)
        attributes = frozenset(str(name) for operation, name in steps if operation in ("LOAD_ATTR", "LOAD_METHOD"))
        names = {str(name) for operation, name in steps if operation in ("LOAD_GLOBAL", "LOAD_NAME")}
        scope = function.__globals__
        named = {n: self._value(scope[n], 0, attributes) for n in sorted(names & scope.keys()) if scope[n] is not function}
        defaults = [self._value(v) for v in function.__defaults__ or ()]
        only = {n: self._value(v) for n, v in (function.__kwdefaults__ or {}).items()}
        annotations = {n: str(a) for n, a in function.__annotations__.items()}
        row |= {
            "file": os.path.relpath(code.co_filename, self.folder), "line": code.co_firstlineno, "name": function.__name__,
            "kind": kind, "globals": named, "defaults": defaults, "keyword defaults": only,
            "constexprs": sorted(n for n, text in annotations.items() if "constexpr" in text),
        }  # fmt: skip
        return number


def resolve(module: str, name: str) -> Any:
    """What `name` (with dots) is in a module of Triton's, in math or in builtins. Raises ImportError or AttributeError."""
    if module.split(".")[0] not in (*purity.MODULES, "builtins"):
        raise ImportError(f"{module} is no module of the kernel language")
    found: Any = builtins if module == "builtins" else importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _bytes(storage: Any) -> bytes:
    found = ledger.contents(storage)
    if found is None:
        raise Untold(f"memory of {storage.nbytes():,} bytes")
    return found

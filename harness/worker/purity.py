"""Whether a kernel is a kernel: what the body of an interpreted one may name.

An interpreted kernel is a Python function, so its body could call torch or NumPy, or reach into the interpreter's
arrays, and behave otherwise where it is compiled. What a compiler would accept is all that it may name: the language,
other kernels, constants.
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import os
import types
from typing import Any

import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

MODULES = ("triton", "math")
BUILTINS = frozenset(
    ["abs", "min", "max", "range", "len", "int", "float", "bool", "str", "print", "isinstance", "getattr", "hasattr"]
).union(["tuple", "list", "sum", "zip", "enumerate"]
)
_LANGUAGE = ("triton", "triton.language", "math")  # and what lies below the second: modules a compiled kernel may name
_MISSING = object()
_CONSTANTS = (int, float, str, bytes, type(None), tl.constexpr, tl.dtype, enum.Enum)
# Where the interpreter keeps its NumPy arrays, and where Python keeps the frames and names of what called a kernel.
_INTERNALS = frozenset(
    ["handle", "fn", "gi_frame", "gi_code", "cr_frame", "ag_frame", "tb_frame", "tb_next", "f_back", "f_globals", "f_locals"]
).union(["f_builtins", "f_code"])


def offence(kernel: Any, folder: str, seen: set[int] | None = None) -> str | None:
    """Why the body of `kernel` (or of one that it calls) is no kernel, or None. `folder` is the submission's."""
    seen = set() if seen is None else seen
    function: Any = getattr(kernel, "fn", None)
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen or not code.co_filename.startswith(folder):
        return None
    seen.add(id(code))
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
    owner: Any = None  # the submission's module whose attribute comes next
    for operation, name in steps(code):
        if operation == "IMPORT_NAME":
            return f"kernel {function.__name__} imports {name}, which no compiled kernel can"
        if operation in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"):
            if is_internal(name):
                return f"kernel {function.__name__} uses `.{name}`, which no compiled kernel has"
            if owner is None:
                continue
            value, owner = getattr(owner, name, None), None
        elif operation in ("LOAD_GLOBAL", "LOAD_NAME"):
            value, owner = function.__globals__.get(name, getattr(builtins, name, _MISSING)), None
            if value is _MISSING and hasattr(interpreter, name):  # which lends kernels its own names while they run
                return f"kernel {function.__name__} uses `{name}`, which its file does not define"
        elif operation == "LOAD_DEREF" and name in cells:
            try:
                value, owner = cells[name].cell_contents, None
            except ValueError:
                continue
        else:
            owner = None
            continue
        if isinstance(value, types.ModuleType) and (
            str(getattr(value, "__file__", "")).startswith(folder) or of_the_language(value)
        ):
            owner = value
            continue
        if isinstance(value, (InterpretedFunction, JITFunction)) or type(value).__name__ == "ConstexprFunction":
            found = offence(value, folder, seen)
            if found is not None:
                return found
        elif not compilable(name, value):
            what = f"the module {value.__name__}" if isinstance(value, types.ModuleType) else f"`{name}`"
            return f"kernel {function.__name__} uses {what}, which no compiled kernel can"
    return None


def is_internal(name: str) -> bool:
    """Whether an attribute of that name leads out of the kernel language."""
    return name in _INTERNALS or name.startswith("_")


def of_the_language(module: types.ModuleType) -> bool:
    """Whether a compiled kernel may name that module."""
    return module.__name__ in _LANGUAGE or module.__name__.startswith(_LANGUAGE[1] + ".")


_NAMING = ("IMPORT_NAME", "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")


@functools.lru_cache(maxsize=256)
def steps(code: types.CodeType) -> tuple[tuple[str, Any], ...]:
    """Operation and argument of each instruction, also of comprehensions and inner functions; "" where none is named."""
    found = [(i.opname, i.argval) if i.opname in _NAMING else ("", None) for i in dis.get_instructions(code)]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += steps(constant)
    return tuple(s for s, before in zip(found, [("", None), *found], strict=False) if s[0] or before[0])


def compilable(name: str, value: Any) -> bool:
    """Whether a compiled kernel may name `value`, which its file calls `name`."""
    if value is _MISSING or isinstance(value, _CONSTANTS):
        return True
    if isinstance(value, (tuple, list, dict)):
        return all(compilable(name, v) for v in (value.values() if isinstance(value, dict) else value))
    if isinstance(value, types.ModuleType):
        return of_the_language(value)
    module = str(getattr(value, "__module__", "") or "").split(".")[0]
    if isinstance(value, types.BuiltinFunctionType):
        return value.__name__ in BUILTINS or module == "math"
    if isinstance(value, types.FunctionType):
        return module == triton.__name__ and f"{os.sep}triton{os.sep}" in value.__code__.co_filename
    if isinstance(value, type):
        return module not in ("torch", "numpy", "ctypes", "os", "sys")
    return triton.__name__ in (module, type(value).__module__.split(".")[0])

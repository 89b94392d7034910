"""The launcher: one kernel launch, interpreted, with what stock Triton does anew each time done once.

Stock Triton lists the members of `triton.language` and patches them for every launch (about 10 ms), copies
every storage onto itself, passes tensors instead of numbers to the grid function, and leaves
`triton.language.core` patched after a device function ran, so that nothing compiles in that process any
more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock
from triton.runtime.errors import InterpreterError
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.interpreter import language, libdevice, reduction, speed
from harness.interpreter.state import STATE
from harness.interpreter.watch import AddressBook

_MISSING = object()
_OPTIONS = {"num_warps": 32, "num_ctas": 16}  # 1,024 threads a block, 16 blocks a cluster
_GRID_LIMITS = (2**31 - 1, 65_535, 65_535)


class _Recorder:
    """Takes the place of stock's patch scope: notes what would be patched, and patches nothing."""

    def __init__(self) -> None:
        self.changes: list[tuple[Any, str, Any]] = []

    def set_attr(self, owner: Any, name: str, value: Any) -> None:
        self.changes.append((owner, name, value))


def _interpreted(member: Callable[..., Any]) -> Callable[..., Any]:
    """A builtin of `triton.language` bound to the interpreter."""
    semantic = stock.interpreter_semantic

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return member(*args, **kwargs)

    return call


class LanguagePatch:
    """All attributes of `triton.language` that interpreting changes: old value and new, worked out once."""

    def __init__(self) -> None:
        recorder = _Recorder()
        if not (tl.core.is_builtin(tl.load) and tl.core.is_builtin(tl.core.load)):
            raise RuntimeError("a kernel ran before the interpreter was repaired: call install() first")
        tensor, descriptor = tl.core.tensor, tl.core.tensor_descriptor_base
        for owner in (tl, tl.core, tl.math, tensor, descriptor):
            for name, member in inspect.getmembers(owner):
                if tl.core.is_builtin(member):
                    recorder.set_attr(owner, name, _interpreted(member))
        stock._patch_lang_tensor(tensor, recorder)
        for lang in (tl, tl.core):
            stock._patch_lang_core(lang, recorder)
        self._new: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self._old: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        for owner, name, value in recorder.changes:
            self.change(owner, name, value)
        self.depth = 0

    def change(self, owner: Any, name: str, value: Any) -> None:
        """Add or replace one patched attribute."""
        key = (id(owner), name)
        self._new[key] = (owner, name, value)
        self._old.setdefault(key, (owner, name, vars(owner).get(name, _MISSING)))

    def restore(self) -> None:
        """Put the compiler's language back."""
        for owner, name, value in self._old.values():
            if value is not _MISSING:
                setattr(owner, name, value)
            elif name in vars(owner):
                delattr(owner, name)

    @contextmanager
    def on(self) -> Iterator[None]:
        """The interpreter's language inside the block; calls may nest."""
        if self.depth == 0:
            for owner, name, value in self._new.values():
                setattr(owner, name, value)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if self.depth == 0:
                self.restore()


_patch: LanguagePatch | None = None


def language_patch() -> LanguagePatch:
    """The one patch of this process; first asked for while nothing is patched."""
    global _patch
    if _patch is None:
        _patch = LanguagePatch()
    return _patch


def mend_loop_bounds() -> None:
    """`int()` of a scalar tensor. Needed on 3.6 with NumPy >= 2.4 (triton-lang/triton issue 9171)."""
    language_patch().change(tl.core.tensor, "__index__", language.index)


def mend_loop_variables() -> None:
    """`tl.range` yields scalars of the kernel language; see language.py. Needed on 3.6 to 3.9."""
    language.mend_language()  # the plain `range`
    for owner in (tl, tl.core):
        language_patch().change(owner, "range", language._kernel_range)


def mend_reductions() -> None:
    """tl.reduce and tl.associative_scan, also as methods of a tensor. Needed on 3.6 to 3.9."""
    for owner in (tl, tl.core, tl.core.tensor):
        language_patch().change(owner, "reduce", reduction.reduce)
        language_patch().change(owner, "associative_scan", reduction.associative_scan)


def mend_libdevice() -> None:
    """`libdevice.tanh` and the like. Needed on 3.6 to 3.9."""
    for owner, name, value in libdevice.patches():
        language_patch().change(owner, name, value)


def _tensors(values: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The torch tensors among the arguments, also in tuples, descriptors and reinterpreting wrappers."""
    for name, value in values:
        if isinstance(value, (tuple, list)):
            yield from _tensors((name, part) for part in value)
        elif isinstance(value, TensorDescriptor):
            yield from _tensors([(name, value.base)])
        elif hasattr(value, "data_ptr"):
            yield name, getattr(value, "base", value) if not hasattr(value, "untyped_storage") else value


def _admit(book: AddressBook, arguments: dict[str, Any]) -> list[int]:
    """Allow, for one launch, the storages that the book does not know; returns their starts."""
    added = []
    for name, tensor in _tensors(arguments.items()):
        storage = tensor.untyped_storage()
        start, nbytes = storage.data_ptr(), storage.nbytes()
        if nbytes and not book.touches(start, nbytes):
            book.allow(start, nbytes, name)
            added.append(start)
    return added


def _grid(grid: Any, arguments: dict[str, Any]) -> tuple[int, int, int]:
    """The grid's three sizes; a grid function gets the arguments as passed, as in a compiled launch."""
    sizes = tuple(int(size) for size in (grid(arguments) if callable(grid) else grid))
    if not 1 <= len(sizes) <= 3:
        raise ValueError("a grid has 1 to 3 dimensions")
    x, y, z = sizes + (1,) * (3 - len(sizes))
    for size, limit in zip((x, y, z), _GRID_LIMITS, strict=True):
        if not 0 <= size <= limit:
            raise ValueError(f"grid {sizes} is out of range: a GPU takes at most {_GRID_LIMITS}")
    return x, y, z


def _check_options(options: dict[str, Any]) -> None:
    """What the compiler refuses of a launch's options, in its words: interpreting needs none of them."""
    for name, most in _OPTIONS.items():
        value = options.get(name)
        if value is not None and not (isinstance(value, int) and 0 < value <= most and value & (value - 1) == 0):
            raise ValueError(f"{name} must be a power of 2 from 1 to {most} (got {value!r})")


@lru_cache(maxsize=4096)
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    spec = inspect.getfullargspec(function)
    return frozenset(spec.args + spec.kwonlyargs)


def _launch(self: Any, *args: Any, **kwargs: Any) -> None:
    """Run all programs of a launch; InterpreterError with the cause chained when one fails."""
    names = _parameters(self.fn)
    options = {name: value for name, value in kwargs.items() if name not in names}
    _check_options(options)
    kwargs = {name: value for name, value in kwargs.items() if name in names}
    elsewhere = any(tensor.device.type != "cpu" for _, tensor in _tensors([("", args), *kwargs.items()]))
    here, here_kw = self._init_args_hst(args, kwargs) if elsewhere else (args, kwargs)
    for hook in self.pre_run_hooks:
        hook(*here, **here_kw)
    arguments = inspect.getcallargs(self.fn, *here, **here_kw)
    builder, book = stock.interpreter_builder, STATE.book
    before = STATE.kernel, STATE.program
    STATE.kernel = self.fn.__name__
    added = _admit(book, arguments) if book is not None else []
    try:
        grid = _grid(self.grid, arguments)
        if STATE.told is not None:
            STATE.told(arguments, grid, options)
        with language_patch().on(), np.errstate(all="ignore"):
            try:
                ready = {
                    name: value if name in self.constexprs else stock._implicit_cvt(value)
                    for name, value in arguments.items()
                }
                builder.set_grid_dim(*grid)
                for x, y, z in np.ndindex(grid):
                    STATE.program = builder.grid_idx = (x, y, z)
                    self.fn(**ready)
            except InterpreterError:
                raise
            except Exception as error:
                raise InterpreterError(repr(error)) from error
    finally:
        STATE.kernel, STATE.program = before
        if book is not None:
            for start in added:
                book.forget(start)
    if elsewhere:
        self._restore_args_dev(args, here, kwargs, here_kw)


def _call_device_function(self: Any, *args: Any, **kwargs: Any) -> Any:
    """A jitted function called from a kernel; errors pass through, to be wrapped once by the launch."""
    function = self.rewrite()
    if language_patch().depth:
        return function(*args, **kwargs)
    with language_patch().on():
        return function(*args, **kwargs)


def install() -> None:
    """Put the launcher in stock's place; always, as it also carries the watch and the place in the grid."""
    stock.GridExecutor.__call__ = _launch
    stock.InterpretedFunction.__call__ = _call_device_function
    speed.install(language_patch().change)

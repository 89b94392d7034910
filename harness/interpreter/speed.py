"""What stock Triton builds anew for every value of an interpreted kernel, built once.

A block's shape is a tuple of `constexpr`, each with a type of its own, and its type is written out as text: the compiler
does so once, the interpreter for every operation of every program, a third of its time. The results depend on the shape
and the element's type alone, so they are remembered. What is not of the usual form goes the stock way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.runtime import interpreter as stock

_core = tl.core
_stock_tensor: Callable[..., None] = _core.tensor.__init__
_stock_block: Callable[..., None] = _core.block_type.__init__
_stock_with_element_ty: Callable[..., Any] = _core.block_type.with_element_ty
_stock_equal: Callable[..., Any] = _core.dtype.__eq__
_stock_unwrap: Callable[..., Any] = _core._unwrap_if_constexpr
_stock_broadcast: Callable[..., Any] = stock.interpreter_semantic.broadcast_impl_value

_SCALARS = frozenset({tl.dtype, tl.pointer_type})
_PLAIN = _SCALARS | {int, float, bool, str, type(None), tl.block_type, tl.tensor}
_ODD = object()  # no shape of a tensor
_tensors: dict[Any, dict[str, Any]] = {}  # by sizes, None where it is no block
_blocks: dict[tuple[str, Any], dict[str, Any]] = {}  # by the element's type and sizes


def _sizes(shape: Any) -> tuple[int, ...] | None:
    """A shape in whatever form as numbers; None when it is of no usual form."""
    values = getattr(shape, "values", shape)
    if not isinstance(values, list):
        return None
    sizes = tuple([s.value if s.__class__ is _core.constexpr else s for s in values])
    return sizes if all(s.__class__ is int for s in sizes) else None


def _block_init(self: Any, element_ty: Any, shape: Any) -> None:
    sizes = _sizes(shape)
    if sizes is None:
        _stock_block(self, element_ty, shape)
        return
    known = _blocks.get((element_ty.name, sizes))
    if known is None:
        _stock_block(self, element_ty, shape)
        self.sizes = sizes
        _blocks[element_ty.name, sizes] = dict(vars(self))
    else:
        self.__dict__.update(known)
        self.element_ty = element_ty


def _with_element_ty(self: Any, scalar_ty: Any) -> Any:
    known = _blocks.get((scalar_ty.name, self.__dict__.get("sizes")))
    if known is None:
        return _stock_with_element_ty(self, scalar_ty)
    block = _core.block_type.__new__(_core.block_type)
    block.__dict__.update(known)
    block.element_ty = scalar_ty
    return block


def _tensor_init(self: Any, handle: Any, type: Any) -> None:
    kind = type.__class__
    key = None if kind in _SCALARS else type.__dict__.get("sizes", _ODD)
    known = _tensors.get(key)
    if known is None:
        _stock_tensor(self, handle, type)
        if key is not _ODD:
            _tensors[key] = {name: vars(self)[name] for name in ("shape", "numel")}
    else:
        self.__dict__.update(known)
        self.handle, self.type, self.dtype = handle, type, type.scalar


def _equal(self: Any, other: Any) -> Any:
    return self is other or _stock_equal(self, other)


def _unwrap(value: Any) -> Any:
    kind = value.__class__
    if kind is _core.constexpr:
        return value.value
    return value if kind in _PLAIN else _stock_unwrap(value)


def _broadcast(left: Any, right: Any) -> Any:
    sizes = left.type.__dict__.get("sizes")
    if sizes is not None and sizes == right.type.__dict__.get("sizes"):
        return left, right
    return _stock_broadcast(left, right)


def install(change: Callable[[Any, str, Any], None]) -> None:
    """`change(owner, name, value)`: takes effect while a kernel is interpreted."""
    change(_core.tensor, "__init__", _tensor_init)
    change(_core.block_type, "__init__", _block_init)
    change(_core.block_type, "with_element_ty", _with_element_ty)
    change(_core.dtype, "__eq__", _equal)
    change(_core, "_unwrap_if_constexpr", _unwrap)
    stock.interpreter_semantic.broadcast_impl_value = _broadcast

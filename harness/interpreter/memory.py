"""Loads, stores and atomics of the interpreter, with the address watch in front of them.

The replaced functions have other argument lists in Triton 3.9 (one cache policy) than in 3.6 to 3.8 (two),
so only the leading arguments, which are the same in all, are named. Tensor descriptors, both kinds, come
through here too: they turn into pointers and a mask that is false out of bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as stock

from harness.interpreter import watch
from harness.interpreter.lowfloat import np_dtype
from harness.interpreter.state import STATE

Handle = stock.TensorHandle
_BITS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}


def _mask_array(mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """The mask in the pointers' shape; Triton up to 3.8 hands a descriptor's mask over as a bare array."""
    if mask is None:
        return None
    data = mask if isinstance(mask, np.ndarray) else mask.data
    return np.broadcast_to(data, shape)


def _masked_off(dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """What lanes that are masked off hold when the load names no `other`.

    The documentation calls it undefined. The code that Triton makes for NVIDIA always gives 0: the PTX
    clears the register (`mov.u32 %r1, 0x0`) in front of the predicated load, and a pipelined load's
    `cp.async` fills with zeros (checked in the PTX of 3.7.1 for sm_90; triton-lang/triton pull request
    11193 names it too). Code that relies on it is right on every GPU of this course, so 0 is the default
    and poison is there for whoever asks.
    """
    if not STATE.poison_masked or int(np.prod(shape)) == 1:
        # A scalar load is never poisoned: in front of 3.9's builder `other=0` cannot be told from no `other`.
        return np.zeros(shape, dtype)
    if dtype == np.bool_:
        return np.ones(shape, dtype)
    if dtype.kind in "iu":
        return np.full(shape, np.iinfo(dtype).max - 100, dtype)
    return np.full(shape, np.nan, dtype)


def masked_load(self: Any, pointers: Any, mask: Any, other: Any, *policy: Any, **policies: Any) -> Any:
    """Read each masked-in lane; the others get `other` (or `_masked_off`)."""
    where = pointers.data
    kind = pointers.get_element_ty()
    dtype = np_dtype(kind)
    chosen = _mask_array(mask, where.shape)
    watch.check("load", where, chosen, dtype.itemsize)
    if chosen is None:
        chosen = np.ones(where.shape, np.bool_)
        fill = np.zeros(where.shape, dtype)
    elif other is None:
        fill = _masked_off(dtype, where.shape)
    else:
        fill = np.broadcast_to(np.asarray(other.data), where.shape).astype(dtype, copy=False)
    # Moved as plain bits: the compiled helper knows no ml_dtypes type.
    bits = _BITS[dtype.itemsize]
    read = stock._interpreter.load(where, chosen, np.ascontiguousarray(fill).view(bits), bits)
    return Handle(read.view(dtype), kind)


def masked_store(self: Any, pointers: Any, value: Any, mask: Any, *policy: Any, **policies: Any) -> Any:
    """Write each masked-in lane."""
    where = pointers.data
    dtype = np_dtype(pointers.get_element_ty())
    chosen = _mask_array(mask, where.shape)
    watch.check("store", where, chosen, dtype.itemsize)
    if chosen is None:
        chosen = np.ones(where.shape, np.bool_)
    # The value's own width would decide how many bytes are written; a comparison's result, for one, is
    # narrower.
    data = np.ascontiguousarray(
        np.broadcast_to(np.asarray(value.data), where.shape).astype(dtype, copy=False)
    )
    return stock._interpreter.store(where, data.view(_BITS[dtype.itemsize]), chosen)


def load(self: Any, pointers: Any, *policy: Any) -> Any:
    """A load without a mask."""
    return masked_load(self, pointers, None, None)


def store(self: Any, pointers: Any, value: Any, *policy: Any) -> Any:
    """A store without a mask."""
    return masked_store(self, pointers, value, None)


def atomic_cas(self: Any, pointers: Any, compare: Any, value: Any, sem: Any, scope: Any) -> Any:
    """Compare and swap, watched."""
    watch.check("atomic", pointers.data, None, np_dtype(pointers.get_element_ty()).itemsize)
    return _stock_cas(self, pointers, compare, value, sem, scope)


def atomic_rmw(self: Any, op: Any, pointers: Any, value: Any, mask: Any, sem: Any, scope: Any) -> Any:
    """Read, modify, write, watched; bfloat16 lane by lane (the helper would add its bits as integers)."""
    where = pointers.data
    dtype = np_dtype(pointers.get_element_ty())
    chosen = _mask_array(mask, where.shape)
    watch.check("atomic", where, chosen, dtype.itemsize)
    if pointers.get_element_ty().scalar != tl.bfloat16:
        return _stock_rmw(self, op, pointers, value, mask, sem, scope)
    if op not in (stock._ir.ATOMIC_OP.FADD, stock._ir.ATOMIC_OP.XCHG):
        raise ValueError(f"no bfloat16 atomic for {op}")
    before = np.zeros(where.shape, dtype)
    added = np.broadcast_to(value.data, where.shape)
    lanes = np.ndindex(where.shape) if chosen is None else map(tuple, np.argwhere(chosen))
    for lane in lanes:
        address = np.array([where[lane]], np.uint64)
        on = np.ones(1, np.bool_)
        old = stock._interpreter.load(address, on, np.zeros(1, np.uint16), np.dtype(np.uint16)).view(dtype)
        new = old + added[lane] if op == stock._ir.ATOMIC_OP.FADD else np.array([added[lane]], dtype)
        stock._interpreter.store(address, new.astype(dtype).view(np.uint16), on)
        before[lane] = old[0]
    return Handle(before, value.dtype.scalar)


_stock_cas = stock.InterpreterBuilder.create_atomic_cas
_stock_rmw = stock.InterpreterBuilder.create_atomic_rmw


def install() -> None:
    """Put the watched functions in place of stock Triton's: always, as they are the watch itself."""
    builder = stock.InterpreterBuilder
    builder.create_load = load
    builder.create_store = store
    builder.create_masked_load = masked_load
    builder.create_masked_store = masked_store
    builder.create_atomic_cas = atomic_cas
    builder.create_atomic_rmw = atomic_rmw

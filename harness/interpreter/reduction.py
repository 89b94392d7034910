"""`tl.reduce` and `tl.associative_scan` in whole-block steps, in the order and the types that the GPU uses.

Stock Triton (3.6 to 3.9) combines element by element in Python (milliseconds a row), sums bfloat16's bits,
and adds float32 along the first axis one after the other. Here neighbours are combined pairwise, log2(n)
steps of whole blocks; left operands stay left, so a combine function need not commute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as stock

from harness.interpreter.lowfloat import is_low, np_dtype
from harness.interpreter.state import STATE, BlockCondition, IntegerOverflow

Arrays = tuple[NDArray[Any], ...]
Combine = Callable[[Arrays, Arrays], Arrays]


def _standard(*names: str) -> tuple[Any, ...]:
    """Those of Triton's own combine functions that this version has."""
    return tuple(getattr(tl.standard, name) for name in names if hasattr(tl.standard, name))


_SUM = _standard("_sum_combine")
_PRODUCT = _standard("_prod_combine")
_MAX = _standard("_elementwise_max")
_MIN = _standard("_elementwise_min")
_ARGMAX = _standard("_argmax_combine_tie_break_left", "_argmax_combine_tie_break_fast")
_ARGMIN = _standard("_argmin_combine_tie_break_left", "_argmin_combine_tie_break_fast")
_BITS = {
    "_xor_combine": np.bitwise_xor,
    "_or_combine": np.bitwise_or,
}


def _among(combine: Any, known: tuple[Any, ...]) -> bool:
    return any(combine is one for one in known)


def _tensor(data: NDArray[Any], kind: Any) -> Any:
    """A tl.tensor: a block, or a scalar (which the interpreter keeps as one element) for a 0-d array."""
    if data.ndim:
        return tl.core.tensor(stock.TensorHandle(data, kind), tl.block_type(kind, list(data.shape)))
    return tl.core.tensor(stock.TensorHandle(data.reshape(1), kind), kind)


def _caller(combine: Any, kinds: list[Any]) -> Combine:
    """The student's combine function on arrays; its results get the inputs' types, as in compiled code."""
    function = combine.rewrite()

    def call(left: Arrays, right: Arrays) -> Arrays:
        shape = left[0].shape
        given = [_tensor(data, kind) for data, kind in zip(left + right, kinds * 2, strict=True)]
        found = function(*given)
        found = found if isinstance(found, (tuple, tl.core.tuple)) else (found,)
        out = []
        for value, kind in zip(found, kinds, strict=True):
            data = value.handle.data if isinstance(value, tl.core.tensor) else np.asarray(value)
            out.append(np.broadcast_to(data.reshape(shape) if data.size == left[0].size else data, shape))
            out[-1] = out[-1].astype(np_dtype(kind), copy=False)
        return tuple(out)

    return call


def _one_by_one(combine: Combine) -> Combine:
    """`combine` on one element at a time: for functions that branch on a value (`if a > b:`)."""

    def call(left: Arrays, right: Arrays) -> Arrays:
        out = tuple(np.empty_like(data) for data in left)
        for lane in np.ndindex(left[0].shape):
            pair = combine(
                tuple(np.asarray(d[lane]) for d in left), tuple(np.asarray(d[lane]) for d in right)
            )
            for target, value in zip(out, pair, strict=True):
                target[lane] = value.reshape(())
        return out

    return call


def _adaptive(combine: Combine) -> Combine:
    """Whole blocks, or one by one from the first step on at which the function asks a block for its truth."""
    chosen = combine

    def call(left: Arrays, right: Arrays) -> Arrays:
        nonlocal chosen
        try:
            return chosen(left, right)
        except BlockCondition:
            if chosen is not combine:
                raise
            chosen = _one_by_one(combine)
            return chosen(left, right)

    return call


def _ufunc(op: Any) -> Combine:
    return lambda left, right: tuple(
        op(a, b).astype(a.dtype, copy=False) for a, b in zip(left, right, strict=True)
    )


def _tree(data: Arrays, combine: Combine) -> Arrays:
    """Reduce the last axis (a power of two, as all sizes of blocks) pairwise, keeping the order."""
    while data[0].shape[-1] > 1:
        data = combine(tuple(d[..., 0::2] for d in data), tuple(d[..., 1::2] for d in data))
    return tuple(d[..., 0] for d in data)


def _scan(data: Arrays, combine: Combine) -> Arrays:
    """Inclusive scan of the last axis in log2(n) steps (Hillis and Steele), keeping the order.

    A block's sizes are powers of two, so the first `step` lanes, which have no partner, repeat the pair of
    the lane behind them, and what that gives is dropped: made-up pairs could overflow where the student's
    never do.
    """
    n, step = data[0].shape[-1], 1
    while step < n:
        lanes = np.maximum(np.arange(n), step)
        merged = combine(tuple(d[..., lanes - step] for d in data), tuple(d[..., lanes] for d in data))
        data = tuple(
            np.concatenate([d[..., :step], m[..., step:]], axis=-1) for m, d in zip(merged, data, strict=True)
        )
        step *= 2
    return data


def _range_check(exact: NDArray[Any], dtype: np.dtype[Any], what: str) -> None:
    if exact.size and (exact.min() < np.iinfo(dtype).min or exact.max() > np.iinfo(dtype).max):
        raise IntegerOverflow(f"{dtype} overflow detected in {what}")


def _sum(data: NDArray[Any]) -> NDArray[Any]:
    """Sum of the last axis, in its own type: integers wrap; floats pairwise (rounded at each step if 16
    bits wide).

    PTX of 3.7.1 for sm_90 adds bfloat16 with add.bf16 and float16 with add.f16: `tl.sum` widens neither.
    """
    if data.dtype.kind in "iub":
        if STATE.overflow and data.dtype == np.int32:
            _range_check(data.sum(axis=-1, dtype=np.int64), data.dtype, "tl.sum")
        return np.asarray(np.add.reduce(data, axis=-1, dtype=data.dtype))
    return _tree((data,), _ufunc(np.add))[0]


def _prefix_sum(data: NDArray[Any]) -> NDArray[Any]:
    if data.dtype.kind in "iub":
        if STATE.overflow and data.dtype == np.int32:
            _range_check(np.cumsum(data, axis=-1, dtype=np.int64), data.dtype, "tl.cumsum")
        return np.cumsum(data, axis=-1, dtype=data.dtype)
    return _scan((data,), _ufunc(np.add))[0]


def _unnan(value: NDArray[Any]) -> bool:
    return value.dtype.kind in "iub" or not bool(
        np.isnan(value.astype(np.float32) if is_low(value.dtype) else value).any()
    )


def _extreme(data: Arrays, largest: bool, with_index: bool) -> Arrays | None:
    """max or min, with the leftmost index on ties; None when a NaN makes the answer a matter of order.

    tl.max and tl.min drop NaN (`max.f32`), as fmax does. tl.argmax compares with `>`, so that NaN's effect
    depends on the order in which the GPU combines: that is left to the pairwise tree.
    """
    value = data[0]
    if not with_index:
        return (np.asarray((np.fmax if largest else np.fmin).reduce(value, axis=-1)),)
    if not _unnan(value):
        return None
    wide = value.astype(np.float32) if is_low(value.dtype) else value
    place = (np.argmax if largest else np.argmin)(wide, axis=-1)[..., None]
    return tuple(np.asarray(np.take_along_axis(d, place, axis=-1)[..., 0]) for d in data)


def _reduced(data: Arrays, combine_fn: Any, kinds: list[Any]) -> Arrays:
    if _among(combine_fn, _SUM):
        return (_sum(data[0]),)
    if _among(combine_fn, _MAX) or _among(combine_fn, _MIN):
        found = _extreme(data, _among(combine_fn, _MAX), False)
    elif _among(combine_fn, _ARGMAX) or _among(combine_fn, _ARGMIN):
        found = _extreme(data, _among(combine_fn, _ARGMAX), True)
    else:
        found = None
        for name, op in _BITS.items():
            if combine_fn is getattr(tl.standard, name, None):
                found = (np.asarray(op.reduce(data[0], axis=-1)),)
    return found if found is not None else _tree(data, _adaptive(_caller(combine_fn, kinds)))


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _axis(axis: Any, rank: int) -> int:
    place = int(_plain(axis))
    if not -rank <= place < rank:
        raise ValueError(f"axis {place} out of bounds for {rank} dimensions")
    return place % rank


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:
    """`tl.reduce`: a tensor, or a tuple of tensors of one shape, along one axis (None: all of them)."""
    tensors = (input,) if isinstance(input, tl.core.tensor) else tuple(input)
    axis, keep = _plain(axis), bool(_plain(keep_dims))
    kinds = [one.dtype for one in tensors]
    arrays = [one.handle.data for one in tensors]
    rank = len(tensors[0].shape)
    if axis is None:
        data = tuple(array.reshape(-1) for array in arrays)
    else:
        place = _axis(axis, rank)
        data = tuple(np.moveaxis(array, place, -1) for array in arrays)
    found = _reduced(data, combine_fn, kinds)
    if keep:
        found = tuple(f.reshape((1,) * rank) if axis is None else np.expand_dims(f, place) for f in found)
    out = tuple(
        _tensor(np.ascontiguousarray(f) if f.ndim else f, k) for f, k in zip(found, kinds, strict=True)
    )
    return out[0] if isinstance(input, tl.core.tensor) else out


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:
    """`tl.associative_scan`: inclusive; reverse: from the end, the later element on the left."""
    tensors = (input,) if isinstance(input, tl.core.tensor) else tuple(input)
    kinds = [one.dtype for one in tensors]
    place = _axis(axis, len(tensors[0].shape))
    data: Arrays = tuple(np.moveaxis(one.handle.data, place, -1) for one in tensors)
    backwards = bool(_plain(reverse))
    if backwards:
        data = tuple(d[..., ::-1] for d in data)
    if _among(combine_fn, _SUM):
        data = (_prefix_sum(data[0]),)
    elif _among(combine_fn, _PRODUCT):
        data = _scan(data, _ufunc(np.multiply))
    else:
        data = _scan(data, _adaptive(_caller(combine_fn, kinds)))
    if backwards:
        data = tuple(d[..., ::-1] for d in data)
    out = tuple(
        _tensor(np.ascontiguousarray(np.moveaxis(d, -1, place)), k) for d, k in zip(data, kinds, strict=True)
    )
    return out[0] if isinstance(input, tl.core.tensor) else out

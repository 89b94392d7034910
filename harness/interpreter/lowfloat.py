"""bfloat16 and float8 in the interpreter, casts as the GPU rounds them, and `tl.dot`.

Stock Triton (3.6 to 3.9) keeps these types as raw bits in uint16 and uint8 arrays, so that `+` adds bit
patterns, float32 -> bfloat16 truncates, and a dot multiplies bit patterns (triton-lang/triton issue 11584).
Here their arrays have the ml_dtypes type, whose arithmetic rounds once, to nearest even.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as stock

Handle = stock.TensorHandle
_IR = stock._ir

# float8e4b15 has no ml_dtypes type (and no NVIDIA GPU of this course uses it): it stays as stock Triton has
# it.
LOW: dict[Any, np.dtype[Any]] = {
    tl.bfloat16: np.dtype(ml_dtypes.bfloat16),
    tl.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
    tl.float8e5: np.dtype(ml_dtypes.float8_e5m2),
    tl.float8e4b8: np.dtype(ml_dtypes.float8_e4m3fnuz),
    tl.float8e5b16: np.dtype(ml_dtypes.float8_e5m2fnuz),
}
_LOW_NAMES = {kind.name: dtype for kind, dtype in LOW.items()}
_stock_np_dtype = stock._get_np_dtype
_known: dict[str, np.dtype[Any]] = {}


def np_dtype(kind: Any) -> np.dtype[Any]:
    """The NumPy type that holds a Triton type's elements: whatever the interpreter uses now."""
    found: np.dtype[Any] = stock._get_np_dtype(kind)
    return found


def _mended_np_dtype(kind: Any) -> np.dtype[Any]:
    """Like stock's, with ml_dtypes' types; cached by name, as it is called for every operation."""
    if isinstance(kind, tl.block_type):
        kind = kind.element_ty
    if isinstance(kind, tl.pointer_type):
        return np.dtype(np.uint64)
    found = _known.get(kind.name)
    if found is None:
        found = _known[kind.name] = _LOW_NAMES.get(kind.name) or _stock_np_dtype(kind)
    return found


def is_low(dtype: np.dtype[Any]) -> bool:
    """True for NumPy's float16 and for the ml_dtypes types."""
    return dtype == np.float16 or dtype.kind == "V" or dtype in LOW.values()


# --- casts ------------------------------------------------------------------------------------------------


def _toward_zero(exact: NDArray[Any], rounded: NDArray[Any]) -> NDArray[Any]:
    """The mode "rtz": one unit in the last place back where rounding to nearest went away from zero."""
    wide = np.float64
    away = np.abs(rounded.astype(wide)) > np.abs(exact.astype(wide))
    bits = rounded.view(np.dtype(f"u{rounded.itemsize}"))
    stepped: NDArray[Any] = np.where(away, bits - bits.dtype.type(1), bits).view(rounded.dtype)
    return stepped


def _float_to_int(data: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Truncate as `cvt.rzi.s32.f32` does: out of range saturates and NaN gives 0; x86 gives INT_MIN.

    The compiler takes the 16-bit instruction for 8-bit targets and keeps the low byte (PTX of 3.7.1).
    """
    if dtype == np.bool_:
        return np.asarray(data != 0)
    through = np.dtype(dtype.kind + "2") if dtype.itemsize == 1 else dtype
    info = np.iinfo(through)
    wide = data.astype(np.float64)
    whole = np.trunc(np.nan_to_num(wide, nan=0.0, posinf=np.inf, neginf=-np.inf))
    below, above = whole <= float(info.min), whole >= float(info.max)
    inside = np.where(below | above, 0.0, whole).astype(through)
    ends = np.where(above, through.type(info.max), np.where(below, through.type(info.min), inside))
    return ends.astype(dtype)


def _is_float8(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize == 1 and dtype in LOW.values()


def _convert(data: NDArray[Any], dtype: np.dtype[Any], toward_zero: bool = False) -> NDArray[Any]:
    """`data` in `dtype`, rounded to nearest even unless `toward_zero`."""
    source = data.dtype
    if source == dtype:
        return data
    from_float = source.kind == "f" or source in LOW.values()
    to_float = dtype.kind == "f" or dtype in LOW.values()
    if from_float and not to_float:
        return _float_to_int(data, dtype)
    if source == np.float64 and dtype in LOW.values():
        data = data.astype(np.float32)
    result: NDArray[Any] = data.astype(dtype)
    if toward_zero and from_float and dtype.itemsize < source.itemsize:
        result = _toward_zero(data, result)
    if from_float and _is_float8(dtype):
        # `cvt.rn.satfinite.e4m3x2.f32` (PTX of 3.7.1, sm_90): the largest finite number instead of inf or
        # NaN. torch's own cast does not saturate; the two agree on everything in range and on NaN.
        largest = np.float32(ml_dtypes.finfo(dtype).max)
        wide = data.astype(np.float32)
        over = np.abs(wide) > largest
        if over.any():
            result = np.where(over, np.copysign(largest, wide).astype(dtype), result)
    return result


def _cast(self: Any, source: Any, target: Any, *_: Any) -> Any:
    return Handle(_convert(source.data, np_dtype(target)), target.scalar)


def _fp_to_fp(self: Any, source: Any, target: Any, rounding: Any) -> Any:
    if tl.float8e4b15 in (source.dtype.scalar, target.scalar):
        return _stock_fp_to_fp(self, source, target, rounding)
    return Handle(_convert(source.data, np_dtype(target), rounding == _IR.ROUNDING_MODE.RTZ), target.scalar)


_stock_fp_to_fp = stock.InterpreterBuilder.create_fp_to_fp


def _constant(kind: Any) -> Any:
    """The builder's `get_<type>` for a low-precision constant; 3.6 to 3.8 lack them.

    That lack is why a bfloat16 block times a Python float fails there.
    """

    def get(self: Any, value: float) -> Any:
        return Handle(_convert(np.array([value], np.float32), np_dtype(kind)), kind)

    return get


# --- arithmetic -------------------------------------------------------------------------------------------

_WRAPPING = (np.add, np.subtract, np.multiply)


def _binary(self: Any, left: Any, right: Any, op: Any) -> Any:
    """One operation on two blocks. int1 wraps (True + True is False), which NumPy refuses or saturates."""
    a, b = left.data, right.data
    wraps = a.dtype == np.bool_ and op in _WRAPPING
    out = (op(a.astype(np.int8), b.astype(np.int8)) & 1).astype(np.bool_) if wraps else op(a, b)
    kind = left.dtype.scalar
    if out.dtype != np.bool_:
        # A block of bits of one type must not grow into another (float16 with float32, say).
        out = out.astype(np_dtype(kind), copy=False)
    return Handle(out, kind)


def _fma(self: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z rounded once for up to float32 (in float64 the product is exact); 3.6 to 3.8 round twice."""
    if z.data.dtype.itemsize >= 8 or z.data.dtype.kind in "iu":
        return Handle(x.data * y.data + z.data, z.dtype.scalar)
    wide = x.data.astype(np.float64) * y.data.astype(np.float64) + z.data.astype(np.float64)
    return Handle(_convert(wide, z.data.dtype), z.dtype.scalar)


def _ashr(self: Any, left: Any, right: Any) -> Any:
    """An arithmetic shift that leaves its operands alone (3.6 and 3.7 change their types in place)."""
    a, b = left.data, right.data
    signed = a.astype(stock._get_signed_np_dtype(a.dtype), copy=False)
    return Handle(np.right_shift(signed, b.astype(signed.dtype, copy=False)), left.dtype.scalar)


# --- dot --------------------------------------------------------------------------------------------------


def _tf32(data: NDArray[Any]) -> NDArray[Any]:
    """float32 cut to TF32's 10 mantissa bits, as tensor cores read it.

    Triton 3.7.1 emits no rounding in front of `wgmma...tf32.tf32` (sm_90): the hardware ignores the low 13
    bits.
    """
    bits = np.ascontiguousarray(data, np.float32).view(np.uint32)
    special = (bits & 0x7F800000) == 0x7F800000
    return np.where(special, bits, bits & np.uint32(0xFFFFE000)).view(np.float32)


def _dot(self: Any, a: Any, b: Any, acc: Any, precision: Any, max_imprecise: Any) -> Any:
    """acc + a @ b as tensor cores do it.

    float16, bfloat16, float8: exact products, float32 sums. float32: operands cut to TF32 when the
    precision is "tf32" (Triton's default), else as they are. A float16 accumulator is rounded after every
    16 terms, one MMA's depth. int8: int32.
    """
    x, y, start = a.data, b.data, acc.data
    if x.dtype.kind in "iu":
        return Handle(np.matmul(x, y, dtype=start.dtype) + start, acc.dtype.scalar)
    if x.dtype != np.float64:
        x, y = x.astype(np.float32), y.astype(np.float32)
        if a.dtype.scalar == tl.float32 and precision == _IR.INPUT_PRECISION.TF32:
            x, y = _tf32(x), _tf32(y)
    if start.dtype == np.float16:
        total = start
        for k in range(0, x.shape[-1], 16):
            part = np.matmul(x[..., k : k + 16], y[..., k : k + 16, :])
            total = (total.astype(np.float32) + part).astype(np.float16)
        return Handle(total, acc.dtype.scalar)
    return Handle((np.matmul(x, y) + start).astype(start.dtype, copy=False), acc.dtype.scalar)


def _scaled_value(handle: Any) -> NDArray[np.float32]:
    """An operand of `tl.dot_scaled` in float32 (3.8 and 3.9 read its bits, which now are numbers)."""
    if handle.dtype == tl.uint8:
        packed: NDArray[np.float32] = stock._e2m1_to_f32(handle.data)
        return packed
    return np.asarray(handle.data.astype(np.float32))


def mend_types() -> None:
    """Low-precision arrays, casts and constants. Needed on 3.6 to 3.9."""
    stock._get_np_dtype = _mended_np_dtype
    builder = stock.InterpreterBuilder
    builder.cast_impl = _cast
    builder.create_fp_to_fp = _fp_to_fp
    builder.binary_op = _binary
    builder.create_fma = _fma
    builder.create_ashr = _ashr
    for kind in LOW:
        setattr(builder, f"get_{kind.name}", _constant(kind))
    if hasattr(stock, "_mxfp_value_handle_to_float32"):
        stock._mxfp_value_handle_to_float32 = _scaled_value
    mend_dot()  # the stock dot would read the new arrays as bits


def mend_dot() -> None:
    """TF32 operands, float32 sums, float16 accumulators. Needed on 3.6 to 3.9."""
    stock.InterpreterBuilder.create_dot = _dot

"""`libdevice` functions by NumPy, so that sound GPU code such as `libdevice.tanh(x)` can be interpreted.

Stock Triton (3.6 to 3.9) has none: `triton.language.extra.libdevice` returns None and the CUDA one raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.language.extra import libdevice as generic
from triton.language.extra.cuda import libdevice as cuda
from triton.runtime import interpreter as stock


def _round_half_away(x: NDArray[Any]) -> NDArray[Any]:
    half = np.abs(x - np.trunc(x)) == 0.5
    return np.asarray(np.where(half, np.trunc(x) + np.sign(x), np.rint(x)))


# The fast_ names have larger errors on a GPU than here.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "div_rn": np.divide,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "exp": np.exp,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fast_expf": np.exp,
    "fast_logf": np.log,
    "fast_powf": np.power,
    "fast_tanhf": np.tanh,
    "floor": np.floor,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "pow": np.power,
    "rint": np.rint,
    "round": _round_half_away,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}


def _interpreted(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **_: Any) -> Any:
        semantic = stock.interpreter_semantic
        tensors = [semantic.to_tensor(argument) for argument in arguments]
        kinds = [one.dtype for one in tensors]
        kind = tl.float64 if tl.float64 in kinds else tl.float32
        if any(one not in (tl.float32, tl.float64) for one in kinds):
            raise TypeError(f"libdevice.{name} takes float32 or float64, not {', '.join(map(str, kinds))}")
        data = [one.handle.data.astype(np.float64 if kind is tl.float64 else np.float32) for one in tensors]
        found = np.asarray(compute(*data))
        shape = next((list(one.shape) for one in tensors if one.type.is_block()), None)
        if found.dtype == np.bool_:
            kind = tl.int1
        else:
            found = found.astype(data[0].dtype, copy=False)
        full = kind if shape is None else tl.block_type(kind, list(found.shape))
        return tl.tensor(stock.TensorHandle(found, kind), full)

    return call


def patches() -> list[tuple[Any, str, Any]]:
    """(module, name, function) for each function that this Triton's libdevice modules have."""
    return [
        (module, name, _interpreted(name, compute))
        for module in (generic, cuda)
        for name, compute in FUNCTIONS.items()
        if hasattr(module, name)
    ]

"""Bounds on the error of an output, from error analysis; docs/bounds.md derives them and shows their measured margins.

An output element may differ from the float64 oracle by at most

    c_out * u_out * |oracle|  +  u_acc * f(K) * magnitude  +  what is lost to underflow

`u` is the unit roundoff of a format (half the distance from 1 to the next number), `magnitude` the same operator on
absolute values, K the length of the sums. f(K) = lambda * sqrt(K) is the probabilistic bound of N. J. Higham and
T. Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41(5), 2019; the worst case
f(K) = K would admit low-precision accumulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

LAMBDA = 4.0  # |error| > LAMBDA * sqrt(K) * u * magnitude has a probability below 2 * exp(-LAMBDA**2 / 2) = 7e-4 an
# element even if every rounding were as large as u; real roundings are uniform, with a third of that variance.


def roundoff(dtype: torch.dtype) -> float:
    """Unit roundoff u of a floating format."""
    return float(torch.finfo(dtype).eps) / 2


@dataclass(frozen=True)
class Bound:
    """`exact`: bit for bit, NaN payloads too; `equal`: the same values, any NaN for NaN; else `tolerance`."""

    kind: str
    tolerance: Callable[[Any, Any, torch.Tensor, torch.dtype], torch.Tensor] | None = None


def exact() -> Bound:
    """Bit-equal to the oracle."""
    return Bound("exact")


def equal() -> Bound:
    """Equal in value; a NaN stands for any NaN, and -0 equals +0."""
    return Bound("equal")


def _smallest(dtype: torch.dtype) -> float:
    info = torch.finfo(dtype)
    return float(info.smallest_normal) * float(info.eps)


def _underflow(operations: float, acc: torch.dtype, dtype: torch.dtype) -> float:
    """What products and quotients in `acc`, and the rounding to `dtype`, lose where they underflow: half a subnormal
    each, whatever their size. Sums lose nothing there."""
    return operations * _smallest(acc) / 2 + _smallest(dtype)


def rounding(ulps: float = 1.0) -> Bound:
    """The result of one operation computed exactly and rounded once: `ulps` half-spacings of the output."""

    def tolerance(grader: Any, drawn: Any, expected: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return ulps * roundoff(dtype) * expected.abs() + _smallest(dtype)

    return Bound("tolerance", tolerance)


def pointwise(operations: float, acc: torch.dtype = torch.float32) -> Bound:
    """A function of single elements evaluated in `acc`: one rounding of the output (and one of slack), and `operations`
    roundings in `acc` relative to the grader's `magnitude` (default: the oracle of absolute values)."""

    def tolerance(grader: Any, drawn: Any, expected: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        magnitude: torch.Tensor = grader.magnitude(**drawn.args)
        return 2 * roundoff(dtype) * expected.abs() + operations * roundoff(acc) * magnitude + _underflow(operations, acc, dtype)

    return Bound("tolerance", tolerance)


def summation(over: str, acc: torch.dtype = torch.float32, operations: float = 0.0) -> Bound:
    """Sums of K = the size of dimension `over` (or the product of `*S`) in `acc`, in any order; `operations` more
    roundings a term or after the sum (a product, a division)."""

    def tolerance(grader: Any, drawn: Any, expected: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        size = drawn.dims[over]
        k = math.prod(size) if isinstance(size, tuple) else size
        factor = LAMBDA * math.sqrt(max(1, k)) + operations
        magnitude: torch.Tensor = grader.magnitude(**drawn.args)
        lost = _underflow(k * operations, acc, dtype)
        return 2 * roundoff(dtype) * expected.abs() + roundoff(acc) * factor * magnitude + lost

    return Bound("tolerance", tolerance)

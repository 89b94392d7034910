"""An output against the oracle: which elements are wrong, and by how much of the bound the right ones differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
MAP_ROWS, MAP_COLUMNS = 12, 48


@dataclass(frozen=True)
class Mismatch:
    """`wrong` marks the elements outside the bound; `first` is the first of them, in row-major order."""

    wrong: torch.Tensor
    first: tuple[int, ...]
    expected: str
    got: str
    bound: str

    @property
    def count(self) -> str:
        return f"{int(self.wrong.sum()):,} of {self.wrong.numel():,}"


def _text(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.8g}" if isinstance(number, float) else str(number)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bit patterns as integers."""
    return tensor if tensor.dtype == torch.bool else tensor.contiguous().view(_BITS[tensor.dtype.itemsize])


def _mismatch(wrong: torch.Tensor, expected: torch.Tensor, got: torch.Tensor, bound: torch.Tensor | None) -> Mismatch:
    flat = int(wrong.reshape(-1).nonzero()[0])
    first = tuple(int(i) for i in np.unravel_index(flat, wrong.shape))  # torch's imports SymPy: two seconds
    tolerance = _text(bound.expand(wrong.shape)[first]) if bound is not None else "exact"
    return Mismatch(wrong, first, _text(expected[first]), _text(got[first]), tolerance)


def exactly(got: torch.Tensor, expected: torch.Tensor) -> Mismatch | None:
    """Bit for bit."""
    ours, right = bits(got), bits(expected.to(got.dtype))
    return None if torch.equal(ours, right) else _mismatch(ours != right, expected, got, None)


def equally(got: torch.Tensor, expected: torch.Tensor) -> Mismatch | None:
    """The same values; NaN for NaN."""
    expected = expected.to(got.dtype)
    same = (got == expected) | (got.isnan() & expected.isnan()) if got.is_floating_point() else got == expected
    return _mismatch(~same, expected, got, None) if not bool(same.all()) else None


def within(got: torch.Tensor, expected: torch.Tensor, tolerance: torch.Tensor) -> tuple[Mismatch | None, float]:
    """Elementwise |got - expected| <= tolerance; also the largest error in units of the tolerance.

    NaN matches only NaN, an infinity only the same infinity. Where rounding the oracle to the output's format may
    overflow, the infinity and the largest finite number are both right.
    """
    reached = expected.double()
    value = got.double()
    tolerance = tolerance.double().expand(reached.shape)
    # Nearly every output is right in every element: two passes over new memory tell that, where the rest takes ten.
    share = torch.sub(value, reached).abs_().div_(tolerance)
    used = float(share.max()) if share.numel() else 0.0
    if used <= 1:  # not so where there is a NaN, which 0 / 0 gives as well
        return None, used
    error = (value - reached).abs()
    ok = error <= tolerance
    counted = ok
    if not bool(ok.all()):
        limit = float(torch.finfo(got.dtype).max)
        overflows = (reached.abs() + tolerance.nan_to_num(0.0) > limit) & reached.isfinite()
        to_infinity = overflows & value.isinf() & (value.sign() == reached.sign())
        to_largest = (
            reached.isfinite() & (reached.abs() > limit) & (value.abs() == limit) & (value.sign() == reached.sign())
        )
        ok = ok | (value == reached) | (value.isnan() & reached.isnan()) | to_infinity | to_largest
        counted = error.isfinite() & ~to_largest
    # 0 / 0 is no error; an infinite error or bound says nothing of how much was used.
    share = (error / tolerance).where(counted & (error > 0) & (tolerance > 0), 0.0).nan_to_num(0.0, posinf=0.0)
    used = float(share.max()) if share.numel() else 0.0
    return (_mismatch(~ok, expected, got, tolerance) if not bool(ok.all()) else None), used


def picture(wrong: torch.Tensor) -> list[str]:
    """A small map of the last two dimensions: `.` right, `x` wrong, one character a tile."""
    if wrong.dim() == 0 or wrong.numel() == 0:
        return []
    plane = wrong.reshape(-1, wrong.shape[-1]) if wrong.dim() > 1 else wrong.reshape(1, -1)
    rows, columns = plane.shape
    tall, wide = math.ceil(rows / MAP_ROWS), math.ceil(columns / MAP_COLUMNS)
    lines = []
    for top in range(0, rows, tall):
        strip = plane[top : top + tall]
        lines.append("".join("x" if bool(strip[:, c : c + wide].any()) else "." for c in range(0, columns, wide)))
    return lines

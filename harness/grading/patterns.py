"""Few compilations for many examples: what looks the same to Triton's compiler is drawn together.

Triton compiles a kernel anew (.15 s) for each dtype, and for each argument that turns from 1 to a multiple of 16 to
neither. Where kernels are compiled, an example of its own pattern costs ten times one that shares it.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import hypothesis.strategies as st

FOLLOWING = 5  # examples that follow each of the patterns for one that has its own
# How many patterns the examples of a part share, and what chooses them; None: each example has its own.
_patterns: ContextVar[tuple[int, int] | None] = ContextVar("patterns", default=None)


@contextlib.contextmanager
def few_patterns(count: int, salt: int) -> Iterator[None]:
    """Inside, most examples follow one of `count` patterns that `salt` chooses: the same `salt`, the same kernels."""
    token = _patterns.set((count, salt))
    try:
        yield
    finally:
        _patterns.reset(token)


class Pattern:
    """Narrows a choice to what looks the same to the compiler; the pattern 0 leaves it as it is, so that a
    counterexample shrinks to the smallest of all."""

    def __init__(self, draw: Any) -> None:
        few = _patterns.get()
        self.number = draw(st.sampled_from((0, *[*range(1, few[0] + 1)] * FOLLOWING))) if few is not None else 0
        self.salt = few[1] if few is not None else 0

    def _random(self, name: str) -> random.Random:
        return random.Random(f"{self.salt}/{self.number}/{name}")

    def sizes(self, name: str, fitting: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the sizes that are all 1, all multiples of 16, or all neither."""
        if not self.number:
            return fitting
        kind = specialised(self._random(name).choice(fitting))
        return tuple(n for n in fitting if specialised(n) == kind)

    def one(self, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """One of the values."""
        return (self._random(name).choice(values),) if self.number else values

    def turn(self, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """One of the values; in the next pattern one that stands far from it, so that two patterns see both halves of them."""
        if not self.number:
            return values
        first = random.Random(f"{self.salt}/{name}").random()
        return (values[int((first + _spread(self.number - 1)) % 1 * len(values))],)


def _spread(number: int) -> float:
    """0, 1/2, 1/4, 3/4, 1/8, ...: the first few of them are spread evenly over [0, 1) (van der Corput's sequence)."""
    place, scale = 0.0, 0.5
    while number:
        number, digit = divmod(number, 2)
        place += digit * scale
        scale /= 2
    return place


def specialised(n: int) -> str:
    """What Triton's compiler sees of a number."""
    return "one" if n == 1 else "sixteen" if n % 16 == 0 else "plain"

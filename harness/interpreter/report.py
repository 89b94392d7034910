"""What a probe found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Report:
    """needed: faults of stock Triton here. mended: those of them that are right now. broken: wrong now."""

    needed: tuple[str, ...]
    mended: tuple[str, ...]
    broken: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True when nothing is wrong now."""
        return not self.broken

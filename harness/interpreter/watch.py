"""The address watch: every load, store and atomic must stay inside memory that the kernel may touch.

Stock Triton (3.6 to 3.9) copies from and to raw addresses. A read past the end that is not used, or a write
into a neighbour, then shows only by luck; here the first such lane raises `AddressFault`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.interpreter.state import STATE


class AddressFault(Exception):
    """A masked-in lane lies, wholly or in part, outside all allowed ranges.

    kind: "load", "store" or "atomic". name_of_nearest: the allowed range next to it ("" when there is none).
    offset_bytes: the address minus the start of that range (negative: before it; >= its size: behind it).
    lane_index: the index inside the block, None for a scalar access. kernel: the kernel's name.
    nearest_bytes: the size of that range. program: the program's place in the grid.
    """

    def __init__(
        self,
        kind: str,
        name_of_nearest: str,
        offset_bytes: int,
        lane_index: tuple[int, ...] | None,
        kernel: str,
        nearest_bytes: int = 0,
        program: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        super().__init__(kind, name_of_nearest, offset_bytes, lane_index, kernel, nearest_bytes, program)
        self.kind = kind
        self.name_of_nearest = name_of_nearest
        self.offset_bytes = offset_bytes
        self.lane_index = lane_index
        self.kernel = kernel
        self.nearest_bytes = nearest_bytes
        self.program = program

    def __str__(self) -> str:
        where = "" if self.lane_index is None else f", lane {self.lane_index}"
        near = (
            f"byte {self.offset_bytes} of {self.name_of_nearest!r} ({self.nearest_bytes} bytes)"
            if self.name_of_nearest
            else "no memory of this launch"
        )
        return f"{self.kind} outside the tensors: {near}, in {self.kernel} at program {self.program}{where}"


class AddressBook:
    """The ranges of memory that kernels may touch, in bytes; ranges may overlap."""

    def __init__(self) -> None:
        self._ranges: dict[int, tuple[int, str]] = {}
        self._starts: NDArray[np.int64] = np.empty(0, np.int64)
        self._ends: NDArray[np.int64] = np.empty(0, np.int64)
        self._stale = False

    def allow(self, start: int, nbytes: int, name: str) -> None:
        """Allow [start, start + nbytes); a range that starts at the same address is replaced."""
        if nbytes < 0:
            raise ValueError(f"a range cannot have {nbytes} bytes")
        self._ranges[start] = (nbytes, name)
        self._stale = True

    def forget(self, start: int) -> None:
        """Take back the range that starts there; none there is no error."""
        if self._ranges.pop(start, None) is not None:
            self._stale = True

    def lookup(self, address: int) -> tuple[int, int, str] | None:
        """(start, nbytes, name) of a range that holds the byte at `address`, or None."""
        for start, (nbytes, name) in self._ranges.items():
            if start <= address < start + nbytes:
                return start, nbytes, name
        return None

    def touches(self, start: int, nbytes: int) -> bool:
        """True when some allowed range shares a byte with [start, start + nbytes), or starts there."""
        return start in self._ranges or any(
            first < start + nbytes and start < first + size for first, (size, _) in self._ranges.items()
        )

    def nearest(self, address: int) -> tuple[int, int, str] | None:
        """(start, nbytes, name) of the range with the fewest bytes between it and `address`, or None."""
        best: tuple[int, int, int, str] | None = None
        for start, (nbytes, name) in self._ranges.items():
            gap = max(start - address, address - (start + nbytes) + 1, 0)
            if best is None or gap < best[0]:
                best = (gap, start, nbytes, name)
        return None if best is None else best[1:]

    def first_outside(self, addresses: NDArray[np.int64], size: int) -> int | None:
        """The position of the first of the (flat) addresses whose `size` bytes are in no single range."""
        if self._stale:
            order = sorted(self._ranges)
            self._starts = np.array(order, np.int64)
            self._ends = np.array([start + self._ranges[start][0] for start in order], np.int64)
            self._stale = False
        starts, ends = self._starts, self._ends
        if not len(starts):
            return 0
        # Nearly always one tensor holds the whole block: two reductions and one search settle that.
        low, high = int(addresses.min()), int(addresses.max())
        place = int(starts.searchsorted(low, side="right")) - 1
        if place >= 0 and high + size <= int(ends[place]):
            return None
        places = starts.searchsorted(addresses, side="right") - 1
        good = (places >= 0) & (addresses <= ends[places] - size)
        # Ranges may overlap: a lane that the last range before it does not hold can be in a longer, earlier
        # one.
        doubtful = np.flatnonzero(~good)
        for begin in range(0, len(doubtful), 4096):
            part = doubtful[begin : begin + 4096]
            lanes = addresses[part, None]
            inside = ((starts <= lanes) & (lanes <= ends - size)).any(axis=1)
            if not inside.all():
                return int(part[np.argmin(inside)])
        return None


def check(kind: str, pointers: NDArray[Any], mask: NDArray[np.bool_] | None, size: int) -> None:
    """Raise AddressFault for the first masked-in lane of `pointers` (uint64) that is not allowed."""
    book = STATE.book
    if book is None:
        return
    # As signed numbers, so that an address that wrapped around below 0 is small rather than huge.
    lanes = pointers.reshape(-1).view(np.int64)
    chosen: NDArray[np.intp] | None = None
    if mask is not None:
        flat = np.broadcast_to(mask, pointers.shape).reshape(-1)
        if not flat.all():
            chosen = np.flatnonzero(flat)
            lanes = lanes[chosen]
    if not lanes.size:
        return
    at = book.first_outside(lanes, size)
    if at is None:
        return
    address = int(lanes[at])
    place = at if chosen is None else int(chosen[at])
    index = None
    if pointers.size > 1:
        index = tuple(int(i) for i in np.unravel_index(place, pointers.shape))
    near = book.nearest(address)
    start, nbytes, name = near if near is not None else (0, 0, "")
    raise AddressFault(kind, name, address - start, index, STATE.kernel, nbytes, STATE.program)

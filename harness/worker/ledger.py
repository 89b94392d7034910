"""Which memory holds what somebody saw being put there.

The trace of torch's operators (`evidence.Witness`) belongs to one thread and can be switched off from Python; then a
sum computed behind its back would look like memory that nobody computed. The ledger closes that: it knows every
storage that was passed, or made by an operator of the trace, and the bytes it held after the last event that was seen
(an operator, a launch). A storage that it does not know, or one whose bytes have changed since, was filled behind the
trace, by whatever means: another thread, NumPy, a raw pointer, an operator with the trace switched off.

On a GPU a launch may still run when the next event comes, so bytes are compared on the CPU only.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

LARGEST = 256 << 20  # bytes; a larger storage (lazily mapped, perhaps) is known by its identity only
KEPT = 4096  # storages remembered from call to call, when torch cannot say which are still in use


class Ledger:
    """The storages of one process, by the address of their object; lives as long as the worker."""

    def __init__(self) -> None:
        # A storage is kept with its entry: else its address could be handed out again and mistaken for it.
        self._known: dict[int, tuple[Any, bytes | None]] = {}

    def note(self, storage: Any) -> None:
        """What `storage` holds now is accounted for."""
        self._known[storage._cdata] = (storage, contents(storage))

    def offence(self, storage: Any) -> str | None:
        """What is wrong with the contents of `storage`, or None."""
        if storage.nbytes() == 0:
            return None
        entry = self._known.get(storage._cdata)
        if entry is None:
            return "it lies in memory that was made behind the trace of torch's operators"
        if entry[1] is not None and entry[1] != contents(storage):
            return "its memory was written behind the trace of torch's operators and your launches"
        return None

    def renew(self) -> None:
        """Before a call: forget what nobody else holds any more; take the rest (caches) as it stands."""
        for key, (storage, _) in list(self._known.items()):
            if _users(key) == 1:
                del self._known[key]
            else:
                self.note(storage)
        for key in list(self._known)[:-KEPT]:
            del self._known[key]


def _users(key: int) -> int:
    count = getattr(torch._C, "_storage_Use_Count", None)
    return int(count(key)) if count is not None else 2


def contents(storage: Any) -> bytes | None:
    """The bytes of a storage; None on a GPU, or where it is larger than `LARGEST`."""
    if storage.device.type != "cpu":
        return None
    size = storage.nbytes()
    if size > LARGEST:
        return None
    return bytes((ctypes.c_ubyte * size).from_address(storage.data_ptr())) if size else b""

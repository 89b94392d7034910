"""Tensors behind red zones, and the bytes that poison fresh memory.

A guarded storage lies between two bands of `BAND` bytes. Bands and poison are chosen so that a value read by mistake
shows: NaN for floating point, and in a second run a large finite value, since NaN poison hides an unwritten NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

BAND = 64 << 10  # bytes on each side; a multiple of every alignment in use
_ALIGN = 512
STAGED = 1 << 20  # bytes of a call's arguments that go to a GPU without a wait


def poison_byte(dtype: torch.dtype, poison: str) -> int:
    """The byte that fills fresh memory: 0xFF is NaN in every float format; 0x7B is large, finite and an odd integer."""
    floating = dtype.is_floating_point or dtype.is_complex
    if poison == "nan":
        return 0xFF if floating else 0x7B
    return 0x7B if floating else 0x2D


class _Pointer:
    """Device memory that torch takes over without a copy."""

    def __init__(self, owner: Any, pointer: int, nbytes: int) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "data": (pointer, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip


class Guarded:
    """`nbytes` of memory on `device` between two red zones; `data` is the uint8 tensor in the middle."""

    def __init__(self, nbytes: int, device: torch.device, band: int, name: str) -> None:
        self.nbytes, self.device, self.band, self.name = nbytes, device, band, name
        total = nbytes + 2 * BAND + _ALIGN
        if device.type == "cpu":
            array = np.empty(total, np.uint8)
            start = BAND + (-(array.ctypes.data + BAND)) % _ALIGN
            self.whole = torch.from_numpy(array)
            self.data = torch.from_numpy(array[start : start + nbytes])
        else:
            self.whole = torch.empty(total, dtype=torch.uint8, device=device)
            start = BAND
            pointer = self.whole.data_ptr() + start
            self.data = torch.as_tensor(_Pointer(self.whole, pointer, nbytes), device=device) if nbytes else (
                torch.empty(0, dtype=torch.uint8, device=device)
            )  # fmt: skip
        self.low = self.whole[:start]
        self.high = self.whole[start + nbytes :]
        self.fill(band)

    def fill(self, band: int) -> None:
        """Fill the red zones."""
        self.band = band
        self.low.fill_(band)
        self.high.fill_(band)

    def touched(self) -> torch.Tensor:
        """Whether a red zone was written, as a flag on the device: one wait there serves many of these."""
        return (self.low != self.band).any() | (self.high != self.band).any()

    def damage(self) -> str:
        """Where a red zone was written (only for one that was)."""
        for zone, side in ((self.low, "before"), (self.high, "after")):
            wrong = (zone != self.band).nonzero()
            if wrong.numel():
                at = int(wrong[-1 if side == "before" else 0])
                distance = zone.numel() - at if side == "before" else at
                return f"{distance} bytes {side} {self.name}"
        return f"around {self.name}"

    def view(self, dtype: torch.dtype, shape: Any, stride: Any, offset: int) -> torch.Tensor:
        return torch.empty(0, dtype=dtype, device=self.device).set_(
            self.data.untyped_storage(), offset, shape, stride
        )


class Fences:
    """Device memory whose end is the end of a mapping: one element past it is an illegal access, not a silent read.

    Made with the driver's virtual memory calls (cuMemAddressReserve, cuMemCreate, cuMemMap): pages of 2 MiB, the next
    address reserved and never mapped. The data ends within 16 bytes of the edge so that its start stays aligned.
    Mappings are kept and used again, since making one costs milliseconds.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.mappings: list[Any] = []

    def place(self, nbytes: int, used: int) -> torch.Tensor:
        """`nbytes` at the end of a mapping; `used` mappings serve other tensors of the same call."""
        from harness.worker import cuda_vmm

        if used < len(self.mappings) and self.mappings[used].size < nbytes:
            self.mappings[used] = cuda_vmm.Mapping(nbytes, self.device.index or 0)
        elif used == len(self.mappings):
            self.mappings.append(cuda_vmm.Mapping(nbytes, self.device.index or 0))
        mapping = self.mappings[used]
        start = mapping.end - (nbytes + 15) // 16 * 16
        return torch.as_tensor(_Pointer(mapping, start, nbytes), device=self.device)


class Arena:
    """Places the tensors of a call in guarded memory; slots keep the same storage across calls."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.slots: dict[tuple[int, int], Guarded] = {}
        self.fences = Fences(device)
        self._staging: torch.Tensor | None = None
        self._staged = 0

    def _send(self, raw: torch.Tensor, data: torch.Tensor) -> None:
        """Copy bytes to where they belong. Beside other processes every wait for the device costs its share of their
        turns, and a copy from pageable memory is a wait: what is small goes by pinned memory, which is free again when
        the next call is placed."""
        size = raw.numel()
        if self.device.type != "cuda" or self._staged + size > STAGED:
            data.copy_(raw)
            return
        if self._staging is None:
            self._staging = torch.empty(STAGED, dtype=torch.uint8, pin_memory=True)
        piece = self._staging[self._staged : self._staged + size]
        self._staged += (size + _ALIGN - 1) // _ALIGN * _ALIGN
        data.copy_(piece.copy_(raw), non_blocking=True)

    def place(
        self, tensors: dict[str, torch.Tensor], *, poison: str, slot: int | None, fence: bool
    ) -> tuple[dict[str, torch.Tensor], list[Guarded], list[torch.Tensor]]:
        """The tensors on the device, the guards around their storages, and the bytes that the storages hold.

        `fence` puts them at the end of a device mapping instead (no guards then: an access past the end faults).
        """
        placed: dict[str, torch.Tensor] = {}
        fenced = self._staged = 0
        storages: dict[int, tuple[torch.Tensor, torch.Tensor, Guarded | None]] = {}
        for name, tensor in tensors.items():
            key = tensor.untyped_storage()._cdata
            if key not in storages:
                raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
                band = poison_byte(tensor.dtype, poison)
                guard: Guarded | None = None
                if fence and raw.numel():
                    data = self.fences.place(raw.numel(), fenced)
                    fenced += 1
                else:
                    spot = (slot if slot is not None else -1, len(storages))
                    guard = self.slots.get(spot)
                    if guard is None or slot is None or guard.nbytes != raw.numel():
                        guard = Guarded(raw.numel(), self.device, band, f"argument {name}")
                        if slot is not None:
                            self.slots[spot] = guard
                    elif guard.band != band:
                        guard.fill(band)
                    guard.name = f"argument {name}"
                    data = guard.data
                self._send(raw, data)
                storages[key] = (raw if self.device.type == "cpu" else data.clone(), data, guard)
            data = storages[key][1]
            placed[name] = torch.empty(0, dtype=tensor.dtype, device=self.device).set_(
                data.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
            )
        guards = [g for _, _, g in storages.values() if g is not None]
        return placed, guards, [raw for raw, _, _ in storages.values()]

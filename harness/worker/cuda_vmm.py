"""A device mapping with nothing behind its end, through the CUDA driver's virtual memory calls.

Source: CUDA Driver API, "Virtual Memory Management". Only what `memory.Fence` needs: reserve one page more than is
mapped, so that the address after the end belongs to nobody.
"""

from __future__ import annotations

import ctypes

from harness.errors import MachineError

_cuda: ctypes.CDLL | None = None


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Flags(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 8)]


class _AllocationProp(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("requested_handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", _Flags),
    ]


class _AccessDesc(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


def library() -> ctypes.CDLL:
    """libcuda, loaded once and before the submission is (which may not load libraries)."""
    global _cuda
    if _cuda is None:
        _cuda = ctypes.CDLL("libcuda.so.1")
    return _cuda


def _call(name: str, *args: object) -> None:
    code = getattr(library(), name)(*args)
    if code != 0:
        raise MachineError(f"{name} failed with CUDA error {code}", "run `grade doctor`")


class Mapping:
    """At least `nbytes` of device memory; `end` is the first address that faults."""

    def __init__(self, nbytes: int, device: int) -> None:
        prop = _AllocationProp(type=1, location=_Location(type=1, id=device))
        size = ctypes.c_size_t()
        _call("cuMemGetAllocationGranularity", ctypes.byref(size), ctypes.byref(prop), 0)
        page = size.value
        self.size = (nbytes + page - 1) // page * page
        self.reserved = self.size + page
        base, handle = ctypes.c_uint64(), ctypes.c_uint64()
        reserve = ctypes.c_size_t(self.reserved)
        _call("cuMemAddressReserve", ctypes.byref(base), reserve, ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        self.base = base.value
        _call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(self.size), ctypes.byref(prop), ctypes.c_uint64(0))
        self.handle = handle.value
        _call("cuMemMap", base, ctypes.c_size_t(self.size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        access = _AccessDesc(location=_Location(type=1, id=device), flags=3)
        _call("cuMemSetAccess", base, ctypes.c_size_t(self.size), ctypes.byref(access), ctypes.c_size_t(1))
        self.end = self.base + self.size

    def __del__(self) -> None:
        if hasattr(self, "end"):
            cuda = library()
            cuda.cuCtxSynchronize()
            cuda.cuMemUnmap(ctypes.c_uint64(self.base), ctypes.c_size_t(self.size))
            cuda.cuMemRelease(ctypes.c_uint64(self.handle))
            cuda.cuMemAddressFree(ctypes.c_uint64(self.base), ctypes.c_size_t(self.reserved))

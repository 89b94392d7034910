"""What the examiner and a worker say to each other: values as plain data and raw buffers, never pickles.

A frame is eight bytes of length (little-endian) and one safetensors document. Its metadata holds the tree of values
as JSON; its entries are the bytes of storages. A tensor is a view (dtype, shape, strides in elements, offset in
elements) of one of them, so layouts and tensors that share memory arrive as they were sent.

What can be sent: None, bool, int, float, str, bytes, list, tuple, dict, torch.dtype, torch.Tensor, `Handle`.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors.numpy
import torch

MAX_FRAME = 16 << 30
DTYPES: dict[str, torch.dtype] = {
    str(d).removeprefix("torch."): d
    for d in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
        torch.bool, torch.complex64, torch.complex128,
    )
}  # fmt: skip


class WireError(ValueError):
    """A frame or a value that does not follow the format."""


@dataclass(frozen=True)
class Handle:
    """An object that stays in the worker: a class instance, a callable, a tensor subclass. `type` is its type's name."""

    id: int
    type: str


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def storage_bytes(tensor: torch.Tensor) -> bytes:
    """The bytes of a CPU tensor's whole storage."""
    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return flat.numpy().tobytes()


class _Packer:
    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self.storages: dict[int, int] = {}
        # Kept until the frame is built: a freed storage's address could be handed out again and mistaken for it.
        self.alive: list[Any] = []

    def pack(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$": "float", "v": repr(value)}
        if isinstance(value, (bytes, bytearray)):
            return {"$": "bytes", "v": self.blob(bytes(value))}
        if isinstance(value, list):
            return [self.pack(v) for v in value]
        if isinstance(value, tuple):
            return {"$": "tuple", "v": [self.pack(v) for v in value]}
        if isinstance(value, dict):
            return {"$": "dict", "v": [[self.pack(k), self.pack(v)] for k, v in value.items()]}
        if isinstance(value, torch.dtype):
            return {"$": "dtype", "v": dtype_name(value)}
        if isinstance(value, Handle):
            return {"$": "handle", "v": value.id, "type": value.type}
        if type(value) is torch.Tensor:
            return self.tensor(value)
        raise WireError(f"a value of type {type(value).__name__} cannot be sent")

    def blob(self, data: bytes) -> int:
        self.blobs.append(data)
        return len(self.blobs) - 1

    def tensor(self, value: torch.Tensor) -> Any:
        if dtype_name(value.dtype) not in DTYPES or value.layout != torch.strided:
            raise WireError(f"a tensor of dtype {value.dtype}, layout {value.layout} cannot be sent")
        if value.device.type != "cpu":
            raise WireError(f"a tensor on {value.device} cannot be sent; copy it to the CPU first")
        storage = value.untyped_storage()
        key = storage._cdata
        if key not in self.storages:
            self.alive.append(storage)
            self.storages[key] = self.blob(storage_bytes(value))
        return {
            "$": "tensor", "dtype": dtype_name(value.dtype), "shape": list(value.shape),
            "stride": list(value.stride()), "offset": value.storage_offset(), "storage": self.storages[key],
        }  # fmt: skip


def dumps(value: Any) -> bytes:
    """One frame, without its length."""
    packer = _Packer()
    tree = json.dumps(packer.pack(value), allow_nan=False, separators=(",", ":"))
    entries = {str(i): np.frombuffer(b, np.uint8) for i, b in enumerate(packer.blobs)}
    return bytes(safetensors.numpy.save(entries, metadata={"tree": tree}))


class _Unpacker:
    def __init__(self, blobs: dict[int, np.ndarray[Any, Any]]) -> None:
        self.blobs = blobs
        self.bases: dict[int, torch.Tensor] = {}

    def unpack(self, node: Any) -> Any:
        if node is None or isinstance(node, (bool, str, int, float)):
            return node
        if isinstance(node, list):
            return [self.unpack(v) for v in node]
        kind = node["$"]
        if kind == "tensor":
            return self.tensor(node)
        value = node["v"]
        if kind == "float":
            return float(value)
        if kind == "bytes":
            return self.blobs[int(value)].tobytes()
        if kind == "tuple":
            return tuple(self.unpack(v) for v in value)
        if kind == "dict":
            return {self.unpack(k): self.unpack(v) for k, v in value}
        if kind == "dtype":
            return DTYPES[value]
        if kind == "handle":
            return Handle(int(value), str(node["type"]))
        raise WireError(f"unknown kind {kind!r}")

    def base(self, index: int) -> torch.Tensor:
        if index not in self.bases:
            self.bases[index] = torch.from_numpy(self.blobs[index])
        return self.bases[index]

    def tensor(self, node: dict[str, Any]) -> torch.Tensor:
        dtype = DTYPES[node["dtype"]]
        shape, stride, offset = [int(n) for n in node["shape"]], [int(n) for n in node["stride"]], int(node["offset"])
        base = self.base(int(node["storage"]))
        if len(shape) != len(stride) or min([*shape, *stride, offset, 0]) < 0:
            raise WireError(f"shape {shape} and strides {stride} do not describe a tensor")
        last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) + 1 if 0 not in shape else 0
        if last * dtype.itemsize > base.numel():
            raise WireError(f"shape {shape}, strides {stride} reach beyond a storage of {base.numel()} bytes")
        typed: torch.Tensor = torch.empty(0, dtype=dtype).set_(base.untyped_storage(), offset, shape, stride)
        return typed


def loads(frame: bytes | bytearray) -> Any:
    """The value of one frame; `WireError` for anything that `dumps` does not make."""
    try:
        (header,) = struct.unpack("<Q", frame[:8])
        tree = json.loads(bytes(frame[8 : 8 + header]))["__metadata__"]["tree"]
        blobs = {int(name): array for name, array in safetensors.numpy.load(bytes(frame)).items()}
        return _Unpacker(blobs).unpack(json.loads(tree))
    except WireError:
        raise
    except Exception as error:  # a hostile frame may break any step; the caller needs one kind of answer
        raise WireError(f"unreadable frame: {type(error).__name__}: {error}") from error


def pack_frame(value: Any) -> bytes:
    body = dumps(value)
    return struct.pack("<Q", len(body)) + body

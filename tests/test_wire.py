"""What examiner and worker say to each other: it arrives as it was sent, and a hostile frame is a `WireError`."""

from __future__ import annotations

import contextlib
import json
import math
import struct

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import wire

NUMBERS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=64)
KEYS = st.text(max_size=5) | st.integers(-9, 9)
PLAIN = st.recursive(
    NUMBERS | st.sampled_from([*wire.DTYPES.values(), wire.Handle(3, "Engine")]),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
QUIET = settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@st.composite
def tensors(draw) -> torch.Tensor:
    """A tensor of any dtype with any layout that a view can have: permuted, stepped, offset, expanded, empty."""
    dtype = draw(st.sampled_from(list(wire.DTYPES.values())))
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    steps = [draw(st.integers(1, 3)) for _ in shape]
    offset = draw(st.integers(0, 5))
    whole = torch.randint(
        0, 255, (math.prod(n * s for n, s in zip(shape, steps, strict=True)) * dtype.itemsize + offset * dtype.itemsize,)
    )
    flat = whole.to(torch.uint8).view(dtype) if dtype != torch.bool else whole > 100
    value = flat[offset:].view([n * s for n, s in zip(shape, steps, strict=True)])
    value = value[tuple(slice(None, None, s) for s in steps)]
    value = value.permute(draw(st.permutations(range(len(shape)))))
    return value.unsqueeze(0).expand(3, *value.shape) if draw(st.booleans()) else value


def same(one: object, other: object) -> bool:
    """Equal to the type and to the bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    return one == other


def bits(tensor: torch.Tensor) -> bytes:
    flat = tensor.reshape(-1).clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


@QUIET
@given(PLAIN)
def test_plain_values_arrive_as_they_were_sent(value):
    assert same(wire.loads(wire.dumps(value)), value)


@QUIET
@given(st.lists(tensors(), max_size=3))
def test_tensors_arrive_with_their_layout(value):
    got = wire.loads(wire.dumps(value))
    for one, other in zip(got, value, strict=True):
        assert (one.dtype, one.shape, one.stride(), one.storage_offset()) == (
            other.dtype, other.shape, other.stride(), other.storage_offset(),
        )  # fmt: skip
        assert bits(one) == bits(other)


def test_shared_memory_arrives_shared_and_other_memory_apart():
    base = torch.arange(12.0)
    one, two, three = wire.loads(wire.dumps([base[:6], base[3:], base.clone()]))
    one[3] = -1
    assert two[0] == -1
    assert three[3] == 3


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, print, torch.nn.Parameter(torch.ones(2)), torch.ones(2, device="meta"), torch.eye(2).to_sparse(), 1 + 2j],
    ids=lambda v: type(v).__name__,
)
def test_what_cannot_be_sent_is_refused(value):
    with pytest.raises(wire.WireError, match="cannot be sent"):
        wire.dumps([value])


def frame(tree: object, *blobs: bytes) -> bytes:
    """A frame with a tree of one's own."""
    entries = {str(i): np.frombuffer(b, np.uint8) for i, b in enumerate(blobs)}
    return safetensors.numpy.save(entries, metadata={"tree": json.dumps(tree)})


def view(**changes: object) -> dict:
    return {"$": "tensor", "dtype": "float32", "shape": [2, 2], "stride": [2, 1], "offset": 0, "storage": 0} | changes


HOSTILE = {
    "shape beyond the storage": view(shape=[2, 3]),
    "offset beyond the storage": view(offset=1),
    "stride beyond the storage": view(stride=[3, 1]),
    "negative stride": view(stride=[-2, 1]),
    "negative shape": view(shape=[-2, 2]),
    "negative offset": view(offset=-1),
    "too few strides": view(stride=[1]),
    "sizes that overflow": view(shape=[2**62, 2**62], stride=[2**61, 2**61]),
    "wider dtype": view(dtype="float64"),
    "unknown dtype": view(dtype="object"),
    "storage that is not there": view(storage=1),
    "a shape of text": view(shape=["2", "x"]),
    "no shape": {"$": "tensor", "dtype": "float32"},
    "unknown kind": {"$": "pickle", "v": "gASVCgAAAA=="},
    "no kind": {"v": 1},
    "bytes that are not there": {"$": "bytes", "v": 7},
    "a list as a key": {"$": "dict", "v": [[[1], 2]]},
    "half a pair": {"$": "dict", "v": [[1]]},
    "a float of text": {"$": "float", "v": "one"},
}


@pytest.mark.parametrize("tree", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_trees(tree):
    assert wire.loads(frame(view(), bytes(16))).shape == (2, 2)
    with pytest.raises(wire.WireError):
        wire.loads(frame(tree, bytes(16)))


def test_deep_nesting():
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(wire.WireError):
        wire.loads(safetensors.numpy.save({}, metadata={"tree": deep}))


@QUIET
@given(st.binary(max_size=200))
def test_random_bytes(data):
    with pytest.raises(wire.WireError):
        wire.loads(data)


@QUIET
@given(PLAIN, st.data())
def test_a_cut_or_changed_frame_is_an_error_or_plain_data(value, data):
    whole = wire.dumps([value, torch.ones(3)])
    with pytest.raises(wire.WireError):
        wire.loads(whole[: data.draw(st.integers(0, len(whole) - 1))])
    at, byte = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 255))
    with contextlib.suppress(wire.WireError):
        wire.loads(whole[:at] + bytes([byte]) + whole[at + 1 :])


@pytest.mark.parametrize("length", [0, 2**31, 2**63, 2**64 - 1])
def test_a_header_length_that_lies(length):
    with pytest.raises(wire.WireError):
        wire.loads(struct.pack("<Q", length) + b'{"__metadata__":{"tree":"1"}}')


def test_frames_carry_their_length():
    packed = wire.pack_frame({"op": "call"})
    assert struct.unpack("<Q", packed[:8])[0] == len(packed) - 8
    assert wire.loads(packed[8:]) == {"op": "call"}

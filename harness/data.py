"""Timed inputs: described in a few words, made on the device from a seed, by both processes alike.

The examiner sends the description once and a new seed for every repeat; worker and examiner draw the same values from
it (same torch, same device, same generator), so that the outputs of timed calls can be checked without sending inputs.
"""

from __future__ import annotations

import secrets
from typing import Any

import torch

KINDS = ("normal", "integers", "mask", "index")


def fresh_seed() -> int:
    """A seed that nobody can know before it is used."""
    return secrets.randbits(62)


def generate(spec: dict[str, Any], generator: torch.Generator) -> torch.Tensor:
    """One tensor of `spec` (kind, shape, dtype, and for some kinds low/high or scale and shift; `pitch` pads the last
    dimension)."""
    shape, dtype, kind = tuple(spec["shape"]), spec["dtype"], spec["kind"]
    device = generator.device
    pitch = spec.get("pitch")
    full = (*shape[:-1], pitch) if pitch else shape
    if kind == "normal":
        values = torch.randn(
            full, generator=generator, device=device, dtype=torch.float32 if dtype.itemsize > 1 else torch.float16
        )
        if "scale" in spec:
            values.mul_(spec["scale"]).add_(spec["shift"])
        values = values.to(dtype) if values.dtype != dtype else values
    elif kind == "mask":
        values = torch.rand(full, generator=generator, device=device) < spec["density"]
    elif kind in ("integers", "index"):
        values = torch.randint(spec["low"], spec["high"], full, generator=generator, device=device, dtype=dtype)
    else:
        raise ValueError(f"kind {kind!r} is none of {KINDS}")
    return values[..., : shape[-1]] if pitch else values


def scaled(case: dict[str, Any], scale: float, shift: float) -> dict[str, Any]:
    """The same case with its normal values x at scale x + shift."""

    def of(value: Any) -> Any:
        normal = isinstance(value, dict) and value.get("kind") == "normal"
        return {**value, "scale": scale, "shift": shift} if normal else value

    return {name: of(value) for name, value in case.items()}


def arguments(case: dict[str, Any], seed: int, device: torch.device) -> list[Any]:
    """The arguments of a case in order; a dict with a `kind` becomes a tensor, anything else is passed as it is."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        generate(value, generator) if isinstance(value, dict) and "kind" in value else value for value in case.values()
    ]

"""What the device could do at best: no time is below it, and each case shows its share of it.

A case must read each of its inputs and write its output once, and do so many floating-point operations (the grader
says how many where that may be what takes the time). Bytes over bandwidth and operations over rate are two times; no
program is faster than the larger one (S. Williams, A. Waterman, D. Patterson, *Roofline: an insightful visual
performance model for multicore architectures*, CACM 52(4), 2009).

Bandwidth and rates are measured once a device, with the programs that come closest to them: a large copy, the vendor's
matrix product. They are not quite the device's own: hence `HEADROOM` before a time is called impossible, and what may
still lie in the L2 cache when a kernel ends is not counted against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from harness.timing import clock

# On an H200 a copy reaches .90 of the 4.8 TB/s and a product of random bfloat16 numbers .80 of the 989 TFLOP/s that the
# data sheet gives (zeros, which switch fewer transistors, .90).
HEADROOM = {"bytes": 1.2, "flops": 1.3}
COPY_BYTES = 1 << 30
SQUARE = 8192
REPEATS = 8


@dataclass(frozen=True)
class Peaks:
    """A device: bytes/s, floating-point operations/s by dtype ("float16"), bytes of L2."""

    bytes_per_s: float
    flops_per_s: Mapping[str, float]
    l2_bytes: int


@dataclass(frozen=True)
class Work:
    """The least that a case must move and compute; `dtype` of its factors."""

    bytes: int
    flops: float
    dtype: str


def work(inputs: Mapping[str, Any], outputs: list[torch.Tensor], flops: float = 0.0, moved: int | None = None) -> Work:
    """Of a timed case: `inputs` as `harness.data` describes them, `outputs` the baseline's; `moved` where the grader
    knows better."""
    tensors = [v for v in inputs.values() if isinstance(v, dict) and "kind" in v]
    if moved is None:
        moved = sum(prod(t["shape"]) * t["dtype"].itemsize for t in tensors)
        moved += sum(o.numel() * o.element_size() for o in outputs)
    return Work(moved, flops, str(tensors[0]["dtype"]).removeprefix("torch.") if tensors else "")


def ideal_ms(peaks: Peaks, of: Work) -> float:
    """The roofline's time."""
    return _least_ms(peaks, of, of.bytes, {"bytes": 1.0, "flops": 1.0})


def floor_ms(peaks: Peaks, of: Work) -> float:
    """A time that no program can be below."""
    return _least_ms(peaks, of, max(0, of.bytes - peaks.l2_bytes), HEADROOM)


def _least_ms(peaks: Peaks, of: Work, moved: int, headroom: Mapping[str, float]) -> float:
    rate = peaks.flops_per_s.get(of.dtype)
    computing = of.flops / (headroom["flops"] * rate) if rate else 0.0
    return 1e3 * max(moved / (headroom["bytes"] * peaks.bytes_per_s), computing)


def measure(device: torch.device) -> Peaks:
    """A second of work on the device, which must be idle."""
    flush = torch.empty(1, dtype=torch.int32, device=device)

    def best_ms(function: Any, *args: Any) -> float:
        with clock.on(device):
            function(*args)
            return min(clock.call(function, list(args), flush)[1] for _ in range(REPEATS))

    block = torch.empty(COPY_BYTES // 4, device=device).normal_()
    bandwidth = 2 * COPY_BYTES / best_ms(torch.clone, block) * 1e3
    del block
    rates = {}
    for dtype, side in ((torch.float16, SQUARE), (torch.bfloat16, SQUARE), (torch.float32, SQUARE // 2)):
        a, b = (torch.randn((side, side), device=device).to(dtype) for _ in range(2))
        rates[str(dtype).removeprefix("torch.")] = 2 * side**3 / best_ms(torch.matmul, a, b) * 1e3
    l2 = int(torch.cuda.get_device_properties(device).L2_cache_size)
    return Peaks(bandwidth, rates, l2)


def to_table(peaks: Peaks) -> dict[str, Any]:
    """As JSON keeps it."""
    return {"bytes_per_s": peaks.bytes_per_s, "flops_per_s": dict(peaks.flops_per_s), "l2_bytes": peaks.l2_bytes}


def from_table(table: Mapping[str, Any]) -> Peaks | None:
    """None for a table that holds something else."""
    try:
        rates = {str(k): float(v) for k, v in table["flops_per_s"].items()}
        return Peaks(float(table["bytes_per_s"]), rates, int(table["l2_bytes"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None

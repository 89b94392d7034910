"""The terminal view of `grade profile`: where the time goes, in 80 columns and without colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.profiler.counters import Counters
from harness.profiler.position import Part, Position

AT_THE_ROOF = 0.9  # of the roofline: little is left to be had
MUCH = 0.1  # of the time


def render(position: Position, counters: Sequence[Counters], note: str = "") -> RenderableType:
    """One timed case. `note`: why there are no counters."""
    table = Table.grid(padding=(0, 2))
    for label, text in _rows(position, counters, note):
        table.add_row(Text(label, style="dim"), Text(text))
    return Group(Text(f"  {position.case}"), Padding(table, (0, 0, 1, 4)))


def _rows(position: Position, counters: Sequence[Counters], note: str) -> Iterator[tuple[str, str]]:
    ms = position.ms
    if not ms:
        yield "time", "no kernel ran"
        return
    yield "time", f"{ms:.4g} ms of kernels; {position.baseline} takes {position.baseline_ms:.4g} ms"
    yield "roofline", _roof(position)
    moved = position.work.bytes / ms / 1e6
    yield "moved", f"{_bytes(position.work.bytes)} at the least: {moved:,.0f} GB/s of {position.peaks.bytes_per_s / 1e9:,.0f}"
    rate = position.peaks.flops_per_s.get(position.work.dtype)
    if position.work.flops and rate:
        done = position.work.flops / ms / 1e9
        yield "computed", f"{position.work.flops:.3g} operations: {done:,.0f} TFLOP/s of {rate / 1e12:,.0f}"
        yield "", f"{position.intensity:,.0f} operations a byte; the two roofs meet at {position.ridge:,.0f}"
    for number, part in enumerate(position.ours):
        yield "kernels" if number == 0 else "", _part(part, ms)
    for number, part in enumerate(position.theirs):
        yield position.baseline if number == 0 else "", _part(part, position.baseline_ms)
    for launch in counters:
        yield "counters", launch.kernel
        for name, value in launch.values.items():
            yield "", f"  {name:<18} {value}"
    if note:
        yield "counters", note
    yield "reading", reading(position)


def _roof(position: Position) -> str:
    share = position.ideal_ms / position.ms
    what = "the bytes" if position.bound == "memory" else "the operations"
    return f"{position.bound} bound: {what} take {position.ideal_ms:.4g} ms at best; {share:.0%} of that is reached"


def _part(part: Part, whole_ms: float) -> str:
    times = f"{part.count} x " if part.count > 1 else ""
    return f"{part.whose:<8}{part.ms:9.4g} ms {part.ms / whole_ms if whole_ms else 0:5.0%}  {times}{part.name}"


def _bytes(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,.4g} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:,.4g} GiB"


def reading(position: Position) -> str:
    """What the figures say, in a sentence."""
    ms = position.ms
    foreign = sum(part.ms for part in position.ours if part.whose != "own") / ms
    share = position.ideal_ms / ms
    if foreign > MUCH:
        return f"{foreign:.0%} of the time is not your kernels': copies can be saved by reading through the strides"
    if share >= AT_THE_ROOF and position.bound == "memory":
        return "the memory is as busy as it gets: only moving fewer bytes would be faster"
    if share >= AT_THE_ROOF:
        return "the matrix units are as busy as they get: only computing less would be faster"
    if len([part for part in position.ours if part.ms > MUCH * ms]) > 1:
        return "several kernels share the time: what one writes and the next one reads moves twice"
    if position.bound == "memory":
        return "the memory waits: more bytes in flight (wider loads, larger blocks), or fewer read twice"
    return "the matrix units wait: larger tiles, more stages, or a better order of the tiles"

"""The terminal view: what a student reads after `grade`. Fits 80 columns and says everything without colour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.record import CheckResult, ExerciseResult, Record, number
from harness.status import Performance, Status

_STYLE = {
    Status.PASSED: "green", Status.NOT_RUN: "dim", Status.NOT_STARTED: "yellow", Status.ERROR: "magenta",
}  # fmt: skip
_MARK = {Status.PASSED: "ok", Status.NOT_RUN: "--", Status.NOT_STARTED: "..", Status.ERROR: "!!"}


def render(record: Record) -> RenderableType:
    return Group(*_parts(record))


def _parts(record: Record) -> Iterator[RenderableType]:
    for exercise in record.exercises:
        yield from _exercise(exercise)
    total = f"{number(record.score)} of {number(record.max_score)} points"
    if record.pending:
        total += f", {number(record.pending)} pending ({'the clock failed' if record.unclocked else 'they need a GPU'})"
    yield Text(total, style="bold")
    passed = sum(e.status is Status.PASSED for e in record.exercises)
    gpu = record.environment.get("gpu") or "no GPU"
    yield Text(
        f"{passed} of {len(record.exercises)} exercises passed; evidence: {record.evidence} ({gpu}); "
        f"{record.duration_s:.1f} s" + _alone(record),
        style="dim",
    )


def _alone(record: Record) -> str:
    if not record.locked_s:
        return ""
    return f", in {record.locked_s:.1f} s of which ({record.locked_s / record.duration_s:.0%}) timing had the GPU alone"


def _exercise(result: ExerciseResult) -> Iterator[RenderableType]:
    head = Text(f"{result.id}  ", style="bold")
    head.append(str(result.status), style=_STYLE.get(result.status, "red"))
    head.append(f"  {number(result.score)}/{number(result.max_score)}")
    if result.pending:
        head.append(f"  ({number(result.pending)} pending)", style="dim")
    head.append(f"  {result.file}", style="dim")
    yield head
    if all(c.status is Status.NOT_STARTED for c in result.checks) and result.checks:
        yield Padding(Text(result.checks[0].message, style="dim"), (0, 0, 1, 2))
        return
    table = Table.grid(padding=(0, 1))
    for check in result.checks:
        style = _STYLE.get(check.status, "red")
        table.add_row(
            Text(_MARK.get(check.status, "XX"), style=style), check.name, Text(str(check.status), style=style),
            Text(f"{number(check.score)}/{number(check.max_score)}"),
            Text(f"{check.examples} examples" if check.examples else "", style="dim"),
        )  # fmt: skip
    speed = result.performance
    if speed.status is not Performance.NOT_NEEDED:
        style = {"passed": "green", "not measured": "dim"}.get(str(speed.status), "red")
        mark = {"passed": "ok", "not measured": "--"}.get(str(speed.status), "XX")
        table.add_row(
            Text(mark, style=style), "speed", Text(str(speed.status), style=style),
            f"{number(speed.score)}/{number(speed.max_score)}", Text(_speed(speed), style="dim"),
        )  # fmt: skip
    yield Padding(table, (0, 0, 0, 2))
    for check in result.checks:
        if check.status not in (Status.PASSED, Status.NOT_RUN):
            yield Padding(_failure(check), (1, 0, 0, 4))
    skipped = [c for c in result.checks if c.status is Status.NOT_RUN and c.message]
    if skipped:
        yield Padding(Text(f"{len(skipped)} not run: {skipped[0].message}", style="dim"), (1, 0, 0, 4))
    told = speed.status in (Performance.FAILED, Performance.INVALID, Performance.INCONCLUSIVE)
    if speed.message and (told or speed.fault):
        yield Padding(Text(speed.message), (1, 0, 0, 4))
    yield Text("")


def _speed(speed: Any) -> str:
    if speed.ratio is None:
        return f"needs {speed.threshold:g} x {speed.baseline}"
    stretch = f", stretch {speed.stretch:g}" if speed.stretch else ""
    interval = f" [{speed.low:.3f}, {speed.high:.3f}]" if speed.low is not None and speed.high is not None else ""
    return f"{speed.ratio:.3f} x {speed.baseline}{interval} (needs {speed.threshold:g}{stretch})"


def _failure(check: CheckResult) -> RenderableType:
    lines: list[RenderableType] = [Text.assemble((check.name + ": ", "bold"), check.message)]
    example = check.counterexample
    for name, value in (example.get("arguments") or {}).items():
        lines.append(Text(f"  {name} = {value}"))
    for choice in example.get("configurations") or []:
        lines.append(Text(f"  the autotuner may choose: {choice}"))
    for row in example.get("map") or []:
        lines.append(Text(f"    {row}", style="dim"))
    if check.hint:
        lines.append(Text(f"  likely: {check.hint}", style="yellow"))
    if check.output.strip():
        tail = check.output.strip().splitlines()[-5:]
        lines.append(Text("  it printed: " + "\n              ".join(tail), style="dim"))
    if check.replay:
        lines.append(Text(f"  again: {check.replay}", style="dim"))
    return Group(*lines)

"""Views of what the gate saw: for a terminal, as JSON (`grade/gate/v1`), as Markdown for a CI summary, as JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.gate.solutions import Kind
from harness.gate.trial import WRONG, Found, Report

SCHEMA = "grade/gate/v1"
_COLUMNS = {
    Kind.REFERENCE: "reference", Kind.STUB: "stub", Kind.MUTANT: "mutants", Kind.MUTATION: "mutations",
    Kind.ALTERNATE: "alternates",
}  # fmt: skip


def render(report: Report) -> RenderableType:
    """For a terminal of 80 columns; says everything without colour."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("exercise")
    for title in _COLUMNS.values():
        table.add_column(title, justify="right")
    for exercise, cells in _rows(report):
        table.add_row(exercise, *cells)
    parts: list[RenderableType] = [Text(str(fault)) for fault in report.faults]
    parts += [table] if table.row_count else []
    parts += [Text(line) for line in _wrong(report)]
    return Group(*parts, Text(_summary(report), style="bold"), Text(_dim(report), style="dim"))


def markdown(report: Report) -> str:
    """A summary that GitHub shows on a run's page (`--report markdown=$GITHUB_STEP_SUMMARY`)."""
    lines = [f"### grade gate {report.asked.target}", "", _summary(report), "", _dim(report), ""]
    if report.faults:
        lines += ["| file | rule | remedy |", "| --- | --- | --- |"]
        lines += [f"| {_cell(fault.file)} | {_cell(fault.rule)} | {_cell(fault.remedy)} |" for fault in report.faults]
        lines.append("")
    if wrong := [found for found in report.found if not found.held]:
        lines += ["| solution | what is wrong |", "| --- | --- |"]
        lines += [f"| {_cell(found.solution.id)} | {_cell(_why(found))} |" for found in wrong]
        lines.append("")
    lines += [f"| exercise | {' | '.join(_COLUMNS.values())} |", "| --- |" + " ---: |" * len(_COLUMNS)]
    lines += [f"| {exercise} | {' | '.join(cells)} |" for exercise, cells in _rows(report)]
    return "\n".join(lines) + "\n"


def junit(report: Report) -> str:
    """A suite for each exercise, a case for each solution and seed; what the machine failed in is an error."""
    from junitparser import Attr, Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

    class Case(TestCase):  # type: ignore[misc]  # it has no types
        file = Attr("file")

    suites: dict[str, Any] = {}

    def add(exercise: str, name: str, file: str, seconds: float, *results: Any) -> None:
        case = Case(name, classname=exercise, time=seconds)
        case.file = file
        case.result = list(results)
        suites.setdefault(exercise, TestSuite(exercise)).add_testcase(case)

    for fault in report.faults:
        add("exercise set", f"{fault.file}: {fault.rule}", fault.file, 0.0, Failure(fault.remedy, "Layout"))
    for found in report.found:
        results: list[Any] = []
        if found.machine:
            results = [Error(_why(found), "Harness")]
        elif found.wrong:
            results = [Failure(found.wrong, "Survived" if found.solution.kind in WRONG else "Rejected")]
        name = found.solution.id.split(" ", 1)[1] + (f" (seed {found.seed})" if found.seed != report.asked.seed else "")
        seconds = sum(check.duration_s for check in found.result.checks)
        add(found.result.id, name, _file(found), round(seconds, 3), *results)
    for solution in report.left_out:
        exercise, name = solution.id.split(" ", 1)
        add(exercise, name, solution.work.path.split(": ")[0], 0.0, Skipped(f"shows only on {', '.join(solution.on)}"))
    whole = JUnitXml("grade gate")
    for suite in suites.values():
        whole.add_testsuite(suite)
    whole.update_statistics()
    return str(whole.tostring().decode()) + "\n"


def document(report: Report) -> str:
    """`grade/gate/v1`."""
    (killed, mutants), (rejected, right) = report.killed, report.rejected
    whole = {
        "schema": SCHEMA, "course": report.course, "target": report.asked.target,
        "status": {0: "passed", 1: "failed", 3: "error"}[report.exit_code], "device": report.asked.device,
        "seed": report.asked.seed, "seeds": report.asked.seeds, "duration_s": round(report.duration_s, 2),
        "environment": report.environment,
        "mutants": mutants, "killed": killed, "kill_rate": killed / mutants if mutants else None,
        "right": right, "rejected": rejected, "false_reject_rate": rejected / right if right else None,
        "faults": [{"file": f.file, "rule": f.rule, "remedy": f.remedy} for f in report.faults],
        "solutions": [
            {
                "exercise": found.result.id, "kind": str(found.solution.kind), "name": found.solution.name, "seed": found.seed,
                "file": _file(found), "held": found.held, "wrong": _why(found),
                "checks": {check.name: str(check.status) for check in found.result.checks},
            }
            for found in report.found
        ],
        "left_out": [
            {"exercise": s.work.exercise.id, "kind": str(s.kind), "name": s.name, "on": list(s.on), "why": s.why}
            for s in report.left_out
        ],
    }  # fmt: skip
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _rows(report: Report) -> Iterator[tuple[str, list[str]]]:
    for exercise in dict.fromkeys(found.result.id for found in report.found):
        cells = []
        for kind in _COLUMNS:
            of_kind = [f for f in report.found if f.result.id == exercise and f.solution.kind is kind]
            cells.append(f"{sum(found.held for found in of_kind)}/{len(of_kind)}" if of_kind else "-")
        yield exercise, cells


def _wrong(report: Report) -> Iterator[str]:
    for found in report.found:
        if not found.held:
            yield f"{'!!' if found.machine else 'xx'} {found.solution.id} (seed {found.seed})\n   {_why(found)}"
            if found.solution.why:
                yield f"   {'on' if found.solution.kind is Kind.MUTATION else 'what is wrong with it:'} {found.solution.why}"


def _why(found: Found) -> str:
    if not found.machine:
        return found.wrong
    told = next((c.message for c in found.result.checks if c.status == "error"), found.result.performance.message)
    return f"the harness failed: {told.strip().splitlines()[-1] if told.strip() else found.result.status}"


def _file(found: Found) -> str:
    """The file that the solution stands in; a mutant's path has its name behind it."""
    return str(PurePosixPath(found.solution.work.path.split(": ")[0]))


def _summary(report: Report) -> str:
    (killed, mutants), (rejected, right) = report.killed, report.rejected
    told = [f"{len(report.faults)} faults of the set"] if report.faults else []
    if mutants:
        told.append(f"{killed} of {mutants} mutants killed ({killed / mutants:.1%})")
    if right:
        told.append(f"{rejected} of {right} gradings of right solutions rejected ({rejected / right:.1%})")
    if machine := sum(found.machine for found in report.found):
        told.append(f"{machine} not graded: the harness failed")
    return "; ".join(told) or "nothing to grade"


def _dim(report: Report) -> str:
    where = report.environment.get("gpu") or "interpreted"
    left = f"; {len(report.left_out)} mutants show elsewhere only" if report.left_out else ""
    return f"{where}; seeds {report.asked.seed} to {report.asked.seed + report.asked.seeds - 1}; {report.duration_s:.0f} s{left}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

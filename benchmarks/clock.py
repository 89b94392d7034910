"""Is the clock honest? Stability, power, and what people use instead, on one GPU.

    python -m benchmarks.clock [--out FOLDER] [--stability 20] [--power 50]
    python -m benchmarks.clock --plot docs/clock.json

(a) stability: the same submission timed again and again, each time by a new worker.
(b) power: additions slowed by a second kernel of known length to just below and just above the threshold.
(c) the same kernels by `triton.testing.do_bench` (medians) and by a plain mean of 100 events, a new process each time too.
(d) what only moves memory, against a copy of as many bytes beside it.

Writes clock.json and clock.md; with --plot the figures beside the JSON file, for which matplotlib must be there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMALL = 2**22  # elements: 48 MiB to move, 12 us on an H200
KERNELS = (("ch02.vec_add", True), ("ch06.softmax", False), ("ch02.vec_add", False), ("ch07.matmul_tiled", False))
COPIES = ("ch06.softmax",)  # they read a tensor once and write one like it
SLOWED = """

@triton.jit
def _spin(out_ptr, steps):
    x = tl.load(out_ptr)
    for _ in range(steps):
        x = x * 1.0000001 + 1e-9
    tl.store(out_ptr, x)


_fast, _out = vec_add, {}


def vec_add(x, y):
    z = _fast(x, y)
    if z.numel() >= 2**22:
        if x.device not in _out:
            _out[x.device] = torch.zeros(1, device=x.device)
        with torch.cuda.device_of(x):
            _spin[(1,)](_out[x.device], STEPS, num_warps=1)
    return z
"""


def spread(values: list[float]) -> float:
    """Largest less smallest, as a share of the median."""
    return (max(values) - min(values)) / statistics.median(values)


class Bench:
    """Labs for submissions, without the checks that come before the clock."""

    def __init__(self, park, device: str) -> None:
        import torch

        from harness import course as courses
        from harness.examiner.run import Options, Run

        self.course = courses.load(ROOT / "course.toml")
        self.device = torch.device(device)
        self.run = Run(self.course, park, Options(device=device, seed=1), lambda *_: None)
        self.peaks = self.run.clocking.peaks(self.device)
        self.scratch = Path(tempfile.mkdtemp(dir=park.folder))

    def exercise(self, target: str):
        (found,) = self.course.select((target,))
        return found

    def lab(self, target: str, file: Path | None = None, *, small: bool = False):
        from harness import submission
        from harness.examiner.graders import grader_of
        from harness.examiner.run import Job
        from harness.gate.solutions import reference_file

        exercise = self.exercise(target)
        (work,) = submission.find(self.course, (exercise,), file or reference_file(self.course, exercise))
        job = Job(work, grader_of(self.course, exercise), [], Path(tempfile.mkdtemp(dir=self.scratch)))
        if small:
            job.grader.benchmarks = (small_case(),)
        return self.run.clocking.lab(job)

    def copy(self, target: str) -> dict:
        """(d): a copy's time over the reference's, in pairs like any baseline's."""
        from dataclasses import replace

        from harness.examiner import timing
        from harness.timing import verdict

        lab = self.lab(target)
        lab.grader.benchmarks = tuple(replace(c, baseline="clone", run=lambda x: x.clone()) for c in lab.grader.benchmarks)
        watch = timing.Stopwatch(lab, self.device, self.peaks)
        found = verdict.interval(watch(0, range(256)), 0.05)
        lab.drop()
        ours, theirs = (statistics.median(getattr(pair, side) for pair in watch.pairs[0]) for side in ("ours", "theirs"))
        return {
            "target": target, "case": watch.cases[0].name, "time_ms": ours, "copy_ms": theirs, "ratio": found.ratio,
            "low": found.low, "high": found.high, "of_peak": 1e3 * watch.work[0].bytes / self.peaks.bytes_per_s / ours,
        }  # fmt: skip

    def stability(self, target: str, times: int, small: bool) -> dict:
        """(a): whole verdicts, a new worker each."""
        from harness.examiner import timing

        ratios, statuses, seconds = [], Counter(), []
        lab = self.lab(target, small=small)
        timing.prepare(lab, self.device)
        for _ in range(times):
            timing.warm_up(lab, self.device)
            started = time.monotonic()  # from here on the GPU would be locked
            found = timing.judge(lab, self.device, None, self.peaks)
            seconds.append(time.monotonic() - started)
            statuses[str(found.status)] += 1
            if found.message:
                print(target, found.message)
            if found.ratio is not None:
                ratios.append(found.ratio)
                milliseconds = found.cases[0].time_ms
        return {
            "target": target + (f", {SMALL:,} elements" if small else ""), "time_ms": milliseconds, "ratios": ratios,
            "spread": spread(ratios), "verdicts": dict(statuses),
            "cases": len(found.cases), "seconds": statistics.median(seconds) / len(found.cases),
        }  # fmt: skip

    def others(self, times: int) -> list[dict]:
        """(c): each of `KERNELS` by what else one might call, a new process each time as in (a)."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "triton.testing", "harness.examiner.graders"])
        with context.Pool(1, maxtasksperchild=1) as processes:
            rounds = processes.map(by_others, [str(self.device)] * times, chunksize=1)
        found = []
        for kernel in zip(*rounds, strict=True):
            ratios = {name: [one[name] for one in kernel] for name in kernel[0]}
            found.append({name: {"ratios": values, "spread": spread(values)} for name, values in ratios.items()})
        return found

    def slowed(self, steps: int, small: bool):
        from harness.gate.solutions import reference_file

        file = Path(tempfile.mkdtemp(dir=self.scratch)) / "vec_add.py"
        fast = reference_file(self.course, self.exercise("ch02.vec_add")).read_text("utf-8")
        file.write_text(fast + SLOWED.replace("STEPS", str(steps)), "utf-8")
        return self.lab("ch02.vec_add", file, small=small)

    def ratio(self, lab, pairs: int) -> float:
        """As many pairs as it takes to call it the truth."""
        from harness.examiner import timing
        from harness.timing import verdict

        return verdict.interval(timing.Stopwatch(lab, self.device, self.peaks)(0, range(pairs)), 0.05).ratio

    def power(self, times: int, small: bool, factors: tuple[float, float]) -> list[dict]:
        """(b): verdicts on submissions whose ratio is known, from a line through two slowed ones."""
        from harness.examiner import timing
        from harness.timing import verdict

        threshold = float(self.exercise("ch02.vec_add").threshold)
        few, many = (200, 2000) if small else (1000, 20000)
        inverse = {}
        for steps in (few, many):
            lab = self.slowed(steps, small)
            inverse[steps] = 1 / self.ratio(lab, 256)
            lab.drop()
        slope = (inverse[many] - inverse[few]) / (many - few)
        rows = []
        for factor in factors:
            steps = round(few + (1 / (factor * threshold) - inverse[few]) / slope)
            lab = self.slowed(steps, small)
            # A short kernel does not grow by the same time with each step: once more from where the line has led.
            steps += round((1 / (factor * threshold) - 1 / self.ratio(lab, 256)) / slope)
            lab.drop()
            lab = self.slowed(steps := max(0, steps), small)
            true = self.ratio(lab, 768) / threshold
            statuses, ratios = Counter(), []
            for _ in range(times):
                watch = timing.Stopwatch(lab, self.device, self.peaks)
                found = verdict.sequence(1, threshold, watch, short=watch.short())
                statuses[str(found.status)] += 1
                ratios.append(found.whole.ratio / threshold)
            lab.drop()
            right = "passed" if factor > 1 else "failed"
            rows.append(
                {
                    "wanted": factor, "true": true, "small": small, "steps": steps, "verdicts": dict(statuses), "right": right,
                    "wrong": times - statuses[right] - statuses["inconclusive"], "ratios": ratios, "spread": spread(ratios),
                }
            )  # fmt: skip
        return rows


def by_others(device: str) -> list[dict[str, float]]:
    """For each of `KERNELS` the ratio of the first case by each other clock: the baseline's time over the reference's,
    one after the other, on the same values."""
    import torch
    import triton.testing

    from harness import course as courses
    from harness import data
    from harness.examiner.graders import grader_of
    from harness.gate.solutions import reference_file
    from harness.profiler.target import load

    course = courses.load(ROOT / "course.toml")
    torch.cuda.set_device(device)

    def mean_of_100(f):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(100):
            f()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 100

    def do_bench(f):
        return triton.testing.do_bench(f, return_mode="median")

    clocks = {"do_bench": do_bench, "mean of 100 events": mean_of_100}
    found = []
    for target, small in KERNELS:
        (exercise,) = course.select((target,))
        case = small_case() if small else grader_of(course, exercise).benchmarks[0]
        args = data.arguments(case.inputs, data.fresh_seed(), torch.device(device))
        function = load(reference_file(course, exercise), exercise.name)
        sides = (partial(case.run, *args), partial(function, *args))
        for side in sides:
            side()  # compiles
        found.append({name: clock(sides[0]) / clock(sides[1]) for name, clock in clocks.items()})
    return found


def small_case():
    """An addition of `SMALL` elements."""
    import torch

    from harness.grading import case, normal_data

    return case("torch.add", torch.add, x=normal_data(SMALL), y=normal_data(SMALL))


def table(found: dict) -> list[str]:
    """clock.md."""
    lines = [
        "# The clock", "",
        f"`python -m benchmarks.clock` on one {found['gpu']} (torch {found['torch']}, Triton {found['triton']}).",
        "", "## The same submission again and again", "",
        "Scatter: the largest ratio less the smallest one, as a share of the median, by each clock in a new process each time.",
        "s a case: the GPU is locked so long for the verdict, for each of the exercise's cases.", "",
        "| kernel | ms | verdicts | scatter | of do_bench | of a mean of 100 events | s a case |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for one in found["stability"]:
        others = one["others"]
        lines.append(
            f"| {one['target']} | {one['time_ms']:.4f} | {words(one['verdicts'])} | {one['spread']:.2%} "
            f"| {others['do_bench']['spread']:.2%} | {others['mean of 100 events']['spread']:.2%} | {one['seconds']:.2f} |"
        )
    lines += [
        "", "## A known distance from the threshold", "",
        "| time | ratio / threshold | verdicts | silently wrong | scatter |", "| --- | ---: | --- | ---: | ---: |",
    ]  # fmt: skip
    for row in found["power"]:
        size = "12 us" if row["small"] else "190 us"
        lines.append(f"| {size} | {row['true']:.4f} | {words(row['verdicts'])} | {row['wrong']} | {row['spread']:.2%} |")
    lines += [
        "", "## Against a copy of as many bytes", "",
        "| exercise | case | ms | copy, ms | of the copy's bandwidth | of the device's |",
        "| --- | --- | ---: | ---: | --- | ---: |",
    ]  # fmt: skip
    for row in found["copies"]:
        interval = f"{row['ratio']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
        times = f"{row['time_ms']:.4f} | {row['copy_ms']:.4f}"
        lines.append(f"| {row['target']} | {row['case']} | {times} | {interval} | {row['of_peak']:.3f} |")
    return [*lines, ""]


def words(verdicts: dict[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in verdicts.items())


def plot(file: Path) -> None:
    """clock-stability.svg and clock-power.svg beside `file`."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    found = json.loads(file.read_text("utf-8"))
    figure, axes = pyplot.subplots(1, len(found["stability"]), figsize=(4 * len(found["stability"]), 3), layout="constrained")
    for axis, one in zip(axes, found["stability"], strict=True):
        rows = {"grade": one["ratios"], **{name: other["ratios"] for name, other in one["others"].items()}}
        middle = statistics.median(one["ratios"])
        for height, (name, ratios) in enumerate(rows.items()):
            axis.plot([100 * (r / middle - 1) for r in ratios], [height] * len(ratios), "|", markersize=14, label=name)
        axis.set_yticks(range(len(rows)), list(rows))
        axis.set_ylim(-0.6, len(rows) - 0.4)
        axis.set_title(f"{one['target']}\n{1e3 * one['time_ms']:.0f} us", fontsize=9)
        axis.set_xlabel("ratio, % from the median of `grade`", fontsize=8)
    figure.savefig(file.with_name("clock-stability.svg"))
    figure, axis = pyplot.subplots(figsize=(7, 2.5), layout="constrained")
    for height, row in enumerate(found["power"]):
        axis.plot(row["ratios"], [height] * len(row["ratios"]), "|", markersize=12)
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_ylim(-0.6, len(found["power"]) - 0.4)
    axis.set_yticks(
        range(len(found["power"])), [f"{'12' if r['small'] else '190'} us, true {r['true']:.3f}" for r in found["power"]]
    )
    axis.set_xlabel("ratio / threshold, one verdict each")
    figure.savefig(file.with_name("clock-power.svg"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--stability", type=int, default=20)
    parser.add_argument("--power", type=int, default=50)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    if options.plot is not None:
        plot(options.plot)
        return
    import torch
    import triton

    from harness.examiner.warm import Park

    options.out.mkdir(parents=True, exist_ok=True)
    found = {
        "gpu": torch.cuda.get_device_name(options.device), "torch": torch.__version__, "triton": triton.__version__,
        "stability": [], "power": [], "copies": [],
    }  # fmt: skip

    def keep(row: dict) -> None:
        (options.out / "clock.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        (options.out / "clock.md").write_text("\n".join(table(found)), "utf-8")
        print({name: value for name, value in row.items() if name not in ("ratios", "others")}, flush=True)

    with Park() as park:
        bench = Bench(park, options.device)
        for target in COPIES:
            found["copies"].append(bench.copy(target))
            keep(found["copies"][-1])
        for small, factors in ((False, (0.99, 1.01)), (True, (0.97, 1.03))):
            for row in bench.power(options.power, small, factors):
                found["power"].append(row)
                keep(row)
        for (target, small), others in zip(KERNELS, bench.others(options.stability), strict=True):
            found["stability"].append({**bench.stability(target, options.stability, small), "others": others})
            keep(found["stability"][-1])


if __name__ == "__main__":
    main()

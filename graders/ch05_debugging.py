"""Interpreter, asserts, sanitizers: a masked mean to repair, a strategy that finds faults, a checked gather.

The thirteen kernels that judge a strategy are models in NumPy, not Triton kernels, and run in the examiner: they
read the drawn bytes block by block as a kernel would, faults included, and what a faulty one finds behind its
memory is defined (the dtype's largest value). Real kernels would be compiled anew for each dtype, divisibility
and unit stride that comes up (hundreds of times), would read undefined memory where they are wrong, and a
strategy would be judged differently on a machine with a GPU. The models take a fifth of a second for 300 examples.
"""

import math
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import torch

from harness.examiner.trial import Wrong
from harness.grading import (
    LONG,
    SUMMABLE,
    Check,
    Drawn,
    F,
    Focus,
    Grader,
    I,
    Part,
    TensorGrader,
    arguments,
    booleans,
    bounds,
    case,
    check,
    choice,
    index_into,
    integers,
    law,
    mask,
    normal_data,
    tensor,
    widened,
)  # fmt: skip
from harness.status import Status


class masked_mean(TensorGrader):
    """f32[M], the mean over the selected elements of each row; NaN where nothing is selected, N = 0 included."""

    inputs = arguments(
        x=tensor("M", "N"), mask=tensor("M", "N", dtype=torch.bool, values=mask), dtypes=F, long=("N",),
        specials=SUMMABLE,
    )  # fmt: skip
    result = torch.float32
    program_each = "M"
    bound = bounds.summation(over="N", operations=4)  # a GPU's `/` may be two units in the last place off
    benchmarks = (
        case(
            "(x * mask).sum(1) / mask.sum(1)", lambda x, mask: (x * mask).sum(1) / mask.sum(1),
            x=normal_data(8192, 8192), mask=booleans(8192, 8192),
        ),
    )  # fmt: skip

    def oracle(self, x, mask):
        return torch.where(mask, x.double(), 0.0).sum(dim=1) / mask.sum(dim=1)

    @law("unselected values")
    def unselected(self, trial):
        """Elements that are not selected do not matter, whatever they hold."""
        drawn = trial.draw(self.inputs.under(self.ragged_sizes))
        junk = trial.draw(st.sampled_from([math.nan, math.inf, -math.inf, torch.finfo(torch.float32).max]))
        before = trial.run(*drawn.values())
        spoilt = drawn.replace(x=torch.where(drawn["mask"], drawn["x"], junk))
        after = trial.run(*spoilt.values())
        trial.drawn = spoilt
        trial.same(
            after, before, f"{junk} in the unselected elements changes the mean", "NaN * 0 is NaN: select, do not multiply"
        )


# -- strategy -------------------------------------------------------------------------------------------------

ROWS, COLUMNS, SPAN_BYTES = 64, 2048, 65_536
SEEDS, EXAMPLES, DUE = (11, 23, 37, 41, 53), 60, 9
DTYPES = (torch.float32, torch.float16, torch.int32, torch.int8)

# Runs in the worker, in front of the submission: draws, and describes each example as plain data.
DRIVER = '''
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy


def describe(x, limit):
    if type(x) is not torch.Tensor or x.layout != torch.strided:
        return type(x).__name__
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride())) if x.numel() else 0
    size = span * x.element_size()
    memory = torch.as_strided(x, (span,), (1,)).clone() if size <= limit else None
    return {"memory": memory, "shape": list(x.shape), "strides": list(x.stride()), "device": x.device.type, "bytes": size}


def examples(module, seeds, count, limit):
    made = module.strategy()
    if not isinstance(made, SearchStrategy):
        return type(made).__name__
    runs = []
    for number in seeds:
        drawn = []

        @seed(number)
        @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate],
                  suppress_health_check=list(HealthCheck))
        @given(made)
        def collect(x):
            drawn.append(describe(x, limit))

        collect()
        runs.append(drawn)
    return runs
'''


@dataclass(frozen=True)
class Memory:
    """What a kernel is given: x's memory from its first element on, its shape and its strides (in elements)."""

    cells: np.ndarray
    shape: tuple[int, int]
    strides: tuple[int, int]

    def read(self, address):
        """The elements at these addresses; behind x's memory lies the dtype's largest value."""
        return np.append(self.cells, _largest(self.cells.dtype))[np.minimum(address, len(self.cells))]

    def maximum(self):
        """The right answer: the largest element of each row; NaN wins."""
        (M, N), (pitch, step) = self.shape, self.strides
        return self.cells[np.arange(M)[:, None] * pitch + np.arange(N) * step].max(axis=1)


def _largest(dtype):
    return np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max


def _lowest(dtype):
    """The identity of the maximum."""
    return dtype.type(-np.inf) if dtype.kind == "f" else np.iinfo(dtype).min


# The ten faults, and what an input needs to bring each one out.
FAULTS = {
    "no mask on the tail": "row lengths that are not a power of two",
    "0 as the start": "rows whose elements are all negative",
    "-inf, which is 0 as an integer, as the padding": "rows of negative integers of a length that is not a power of two",
    "column stride of 1": "columns that do not lie side by side",
    "row stride of N": "rows that do not follow one another without a gap",
    "first block only": "rows longer than a block, with the maximum behind the first one",
    "last block only": "rows longer than a block, with the maximum before the last one",
    "NaN loses": "rows that hold NaN",
    "the lowest finite number as the start": "rows of nothing but -inf",
    "compares in float32": "integers that float32 cannot hold",
}


@dataclass(frozen=True)
class RowMax:
    """A kernel's row maximum, block by block, with at most one fault: each `if` is where a real kernel goes wrong."""

    fault: str = ""
    block: int = 256

    def __call__(self, memory):
        dtype, (M, N), (pitch, step) = memory.cells.dtype, memory.shape, memory.strides
        start = other = _lowest(dtype)
        if self.fault == "0 as the start":
            start = dtype.type(0)
        if self.fault == "the lowest finite number as the start" and dtype.kind == "f":
            start = -_largest(dtype)
        if self.fault == "-inf, which is 0 as an integer, as the padding" and dtype.kind == "i":
            other = dtype.type(0)
        if self.fault == "column stride of 1":
            step = 1
        if self.fault == "row stride of N":
            pitch = N
        pick = np.fmax if self.fault == "NaN loses" else np.maximum

        block = min(self.block, 1 << (N - 1).bit_length())  # the next power of two
        end = block if self.fault == "first block only" else N
        rows, best = np.arange(M)[:, None], np.full(M, start, dtype)
        for first in range(0, end, block):
            columns = first + np.arange(block)
            x = memory.read(rows * pitch + columns * step)
            if self.fault != "no mask on the tail":
                x = np.where(columns < N, x, other)
            if self.fault == "compares in float32":
                x, best = x.astype(np.float32), best.astype(np.float32)
            here = pick.reduce(x, axis=1)
            best = here if self.fault == "last block only" else pick(best, here)
        if dtype.kind == "i" and best.dtype.kind == "f":  # the conversion back saturates, as a GPU's does
            best = np.clip(best.astype(np.float64), np.iinfo(dtype).min, np.iinfo(dtype).max)
        return best.astype(dtype)


RIGHT = (RowMax(), RowMax(block=16), RowMax(block=4096))


def _agree(got, right):
    """Equal values; NaN equals NaN, -0 equals +0."""
    return np.array_equal(got, right, equal_nan=right.dtype.kind == "f")


def _accept(example, which):
    """The example as a kernel's memory; `Wrong` says why it lies outside the domain."""

    def demand(condition, what):
        if not condition:
            raise Wrong(
                f"{which} lies outside the domain of row_max: {what}", cause="a right kernel would be blamed for this input"
            )

    demand(isinstance(example, dict), f"it is no torch.Tensor but {example if isinstance(example, str) else 'something else'}")
    shape, strides, cells = example["shape"], example["strides"], example["memory"]
    demand(example["device"] == "cpu", f"it lies on {example['device']}")
    demand(len(shape) == len(strides) == 2, f"it has {len(shape)} dimensions, not 2")
    demand(0 <= shape[0] <= ROWS and 1 <= shape[1] <= COLUMNS, f"its shape is {shape}")
    demand(isinstance(cells, torch.Tensor), f"it spans {example['bytes']:,} bytes of memory")
    demand(cells.dtype in DTYPES, f"its dtype is {cells.dtype}")
    # What came from the worker is not believed: every address of x must lie in the memory that was sent.
    span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if shape[0] else 0
    demand(min(strides) >= 0 and cells.dim() == 1 and span <= len(cells), f"strides {strides} lead out of its memory")
    return Memory(cells.contiguous().numpy(), tuple(shape), tuple(strides))


class strategy(Grader):
    """A Hypothesis strategy whose examples, inputs of row_max, expose ten faulty kernels and blame no right one."""

    kernels = False

    def examples(self, trial, seeds, count):
        """One list of described examples a seed; the same seeds for every submission, so that all are judged alike."""
        made = trial.drive(DRIVER, "examples", list(seeds), count, SPAN_BYTES)
        trial.expect(isinstance(made, list), f"strategy() must return a Hypothesis SearchStrategy (got {made})")
        return made

    @check("draws", once=True)
    def draws(self, trial):
        """It is a strategy, and its examples are tensors."""
        (run,) = self.examples(trial, SEEDS[:1], 10)
        trial.expect(len(run) > 0, "no example can be drawn", cause="a filter that refuses everything?")
        for example in run:
            trial.expect(isinstance(example, dict), f"an example must be a torch.Tensor (got {example})")

    @check("no false alarm", needs=("draws",), once=True)
    def in_the_domain(self, trial):
        """Every example lies in the domain, where the three right kernels agree."""
        for run, seed in zip(self.examples(trial, SEEDS, EXAMPLES), SEEDS, strict=True):
            for number, example in enumerate(run, 1):
                memory = _accept(example, f"example {number} of seed {seed}")
                assert all(_agree(kernel(memory), memory.maximum()) for kernel in RIGHT), "a right kernel is wrong"

    @check("repeatable", needs=("draws",), once=True)
    def repeatable(self, trial):
        """The same seed gives the same examples."""
        first, second = self.examples(trial, (SEEDS[0], SEEDS[0]), EXAMPLES)
        trial.expect(
            len(first) == len(second) and all(map(_same, first, second)),
            "two draws with the same seed give different examples",
            cause="random numbers that Hypothesis did not draw: it cannot replay or shrink them",
        )

    @check("exposes faults", needs=("no false alarm",), once=True)
    def exposes(self, trial):
        """At least nine of the ten faulty kernels differ from the right answer on some example."""
        memories = [_accept(e, "an example") for run in self.examples(trial, SEEDS, EXAMPLES) for e in run]
        right = [memory.maximum() for memory in memories]
        with np.errstate(all="ignore"):
            missed = [
                need for fault, need in FAULTS.items()
                if all(map(_agree, map(RowMax(fault), memories), right))
            ]  # fmt: skip
        exposed = len(FAULTS) - len(missed)
        trial.expect(
            exposed >= DUE,
            f"{len(memories)} examples expose {exposed} of {len(FAULTS)} faulty kernels; {DUE} are due",
            cause="what your examples lack, or show too seldom: " + "; ".join(missed),
        )


def _same(a, b):
    """The same example: layout, dtype, and bits."""
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return a == b
    x, y = a["memory"], b["memory"]
    if any(a[k] != b[k] for k in ("shape", "strides", "bytes")) or (x is None) != (y is None):
        return False
    return x is None or (x.dtype == y.dtype and torch.equal(x.view(torch.uint8), y.view(torch.uint8)))


# -- checked_gather -------------------------------------------------------------------------------------------


class checked_gather(TensorGrader):
    """out[k] = x[index[k]], bit for bit; with debug, a device assert fires if and only if an index is out of range."""

    inputs = arguments(
        x=tensor("N"), index=tensor("K", dtype=torch.int64, values=index_into("N"), special=False), debug=choice(False, True),
        dtypes=F + I, at_least={"N": 1},
    )  # fmt: skip
    bound = bounds.exact()
    benchmarks = (
        case(
            "torch.gather", lambda x, index, debug: torch.gather(x, 0, index),
            x=normal_data(2**24), index=integers(2**26, low=0, high=2**24), debug=False,
        ),
    )  # fmt: skip

    def oracle(self, x, index, debug):
        return x[index]

    @law("in range is silent")
    def silent(self, trial):
        """The first and the last element may be asked for, as often as one likes."""
        drawn = trial.draw(self.inputs.under(self.ragged_sizes))
        edge = trial.draw(st.sampled_from([0, drawn.dims["N"] - 1]))
        drawn = drawn.replace(index=torch.full((drawn.dims["K"],), edge), debug=True)
        trial.judge(trial.run(*drawn.values()), drawn)

    def checks(self, *, gpu):
        parts = (
            Part("an index of -1", lambda trial: self.fires(trial, lambda N: -1)),
            Part("an index of -N", lambda trial: self.fires(trial, lambda N: -N)),
            Part("an index of N", lambda trial: self.fires(trial, lambda N: N)),
            Part("an index beyond 2**32", lambda trial: self.fires(trial, lambda N: 2**32)),
            Part("an empty x", self.fires_on_nothing, once=True),
        )
        # More than one block along either side, whatever the blocks are.
        long = [Focus(f"a long {dim}", (1, 3, 17), force={dim: LONG}, ranks=(1,)) for dim in ("K", "N")]
        standard = widened(super().checks(gpu=gpu), "ragged", *(Part(f.name, self._holds(f)) for f in long))
        # A failed assert ends the GPU's context, and the worker with it: a few examples of each kind are enough.
        return [*standard, Check("out of range fires", parts, ("aligned",), 0.1 if gpu else 0.4)]

    def fires(self, trial, bad):
        """One wrong index among right ones, anywhere."""
        drawn = trial.draw(self.inputs.under(Focus("out of range", (16, 3, 17, 64, 2, 1, 100))))
        index = drawn["index"].clone()
        index[trial.draw(st.integers(0, len(index) - 1))] = bad(drawn.dims["N"])
        self.expect_assert(trial, drawn.replace(index=index, debug=True))

    def fires_on_nothing(self, trial):
        x, index = torch.empty(0), torch.tensor([0])
        self.expect_assert(trial, Drawn({"x": x, "index": index, "debug": True}, {"N": 0, "K": 1}))

    def expect_assert(self, trial, drawn):
        """A failed device assert is an AssertionError when interpreted, and ends the context on a GPU."""
        trial.drawn = drawn
        try:
            trial.run(*drawn.values())
        except Wrong as wrong:
            on_device = wrong.status is Status.DEVICE_FAULT and "assert" in wrong.message.lower()
            if on_device or wrong.facts.get("kind") in ("DeviceAssertFailed", "AssertionError"):
                return
            raise
        trial.expect(
            False, "an index is out of range and debug is True, but no device assert fired",
            cause="is the condition both i >= 0 and i < N, and does the launch ask for a debug build?",
        )  # fmt: skip

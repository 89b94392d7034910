"""What a grader is: named checks, each a property with a body that runs one example.

A grader is a class named like its exercise (`row_sum`), found in graders/chNN_slug.py. `TensorGrader` derives the
standard checks from a domain, an oracle and a bound; `Grader` has only the checks that it writes itself, and carries
whatever does not take tensors and return tensors: a function of numbers, a class, a strategy, a process group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from harness.grading import domain as dom
from harness.grading.bounds import Bound

if TYPE_CHECKING:
    from harness.examiner.trial import Trial

REPEATED = "repeated calls"
Body = Callable[["Trial"], None]


@dataclass(frozen=True)
class Part:
    """One variant of a check, run with its own share of the examples. `once`: a single example, nothing to draw."""

    name: str
    body: Body
    once: bool = False
    share: float = 1.0  # of its share of the examples


@dataclass(frozen=True)
class Check:
    """A named property. `needs` are checks that must have passed; `examples` scales their number."""

    name: str
    parts: tuple[Part, ...]
    needs: tuple[str, ...] = ()
    examples: float = 1.0
    gpu_only: bool = False


def widened(checks: list[Check], name: str, *parts: Part) -> list[Check]:
    """`checks` with `parts` added to the one called `name`."""
    return [replace(c, parts=c.parts + parts) if c.name == name else c for c in checks]


def check(name: str, *, needs: tuple[str, ...] = (), examples: float = 1.0, once: bool = False) -> Any:
    """Marks a method ``(self, trial)`` as a check of its own. `once`: nothing is drawn, one example is enough."""

    def mark(method: Any) -> Any:
        method.check = {"name": name, "needs": needs, "examples": examples, "once": once}
        return method

    return mark


def law(name: str, *, examples: float = 0.5) -> Any:
    """Marks a method ``(self, trial)`` as a law of the operator: a check that needs "aligned"."""
    return check(name, needs=("aligned",), examples=examples)


@dataclass(frozen=True)
class Case:
    """A timed case: `inputs` by name as `harness.data` describes them, `run` the baseline on the same arguments."""

    name: str
    inputs: dict[str, Any]
    baseline: str
    run: Callable[..., Any]
    flops: float = 0.0  # the fewest floating-point operations, where they may be what takes the time
    moved: int | None = None  # the fewest bytes, where not every element of every input must be read


def case(
    baseline: str, run: Callable[..., Any], *, flops: float = 0.0, moved: int | None = None, **inputs: Any
) -> Case:
    """A timed case; `baseline` is what the student's users would call instead, `run` calls it.

    `flops` and `moved` (bytes) say what no program can do without, if it is not each input read and the output written.
    """
    shapes = [f"{n} {_words(v)}" for n, v in inputs.items()]
    return Case(", ".join(shapes), inputs, baseline, run, flops, moved)


def _words(value: Any) -> str:
    if not isinstance(value, dict):
        return repr(value)
    pitch = f", pitch {value['pitch']}" if value.get("pitch") else ""
    return f"{str(value['dtype']).removeprefix('torch.')}[{', '.join(map(str, value['shape']))}]{pitch}"


def normal(*shape: int, dtype: torch.dtype = torch.float32, pitch: int | None = None) -> dict[str, Any]:
    """Random-normal data for a timed case."""
    return {"kind": "normal", "shape": list(shape), "dtype": dtype, "pitch": pitch}


def integers(*shape: int, low: int, high: int, dtype: torch.dtype = torch.int64) -> dict[str, Any]:
    """Uniform integers from `low` to `high` - 1 for a timed case."""
    return {"kind": "integers", "shape": list(shape), "dtype": dtype, "low": low, "high": high}


def booleans(*shape: int, density: float = 0.5) -> dict[str, Any]:
    """Booleans, a share of `density` of them true, for a timed case."""
    return {"kind": "mask", "shape": list(shape), "dtype": torch.bool, "density": density}


SAMPLED = 4096  # elements of a timed output that are checked, chosen after it was made


class Grader:
    """An exercise's checks. Subclasses add methods marked with `check` or `law`."""

    kernels = True  # the submission must launch Triton kernels of its own, and they are compiled for real targets
    overflow = True  # integer overflow in a kernel is an error when interpreted
    atomics = False  # two runs may differ in the order of float atomics
    moves = "allowed"  # torch's copies of an input: "allowed"; "preparation": but not as the output; "refused"
    readable: tuple[str, ...] = ()  # arguments that the host may read element by element
    in_place: tuple[str, ...] = ()  # arguments that the call changes
    benchmarks: tuple[Case, ...] = ()

    def checks(self, *, gpu: bool) -> list[Check]:
        """The checks in the order in which they run and are shown; the engine adds "compiles" where `kernels`."""
        return self.own_checks()

    def own_checks(self) -> list[Check]:
        """Those made by marked methods, in the order of their definition."""
        found: list[Check] = []
        seen: set[str] = set()
        for cls in reversed(type(self).__mro__):
            for attribute, method in vars(cls).items():
                facts = getattr(method, "check", None)
                if isinstance(facts, dict) and attribute not in seen:
                    seen.add(attribute)
                    part = Part(facts["name"], getattr(self, attribute), facts["once"])
                    found.append(Check(facts["name"], (part,), facts["needs"], facts["examples"]))
        return found

    def compile_calls(self, example: Callable[[Any], Any]) -> list[list[Any]]:
        """Argument lists with which the kernels are compiled; `example` draws the simplest one of a strategy."""
        return []


class TensorGrader(Grader):
    """A function of tensors with an oracle: the standard checks of the syllabus' conventions follow from its domain."""

    inputs: dom.Arguments
    bound: Bound
    result: torch.dtype | None = None  # the output's dtype; None: that of the first tensor
    special = True
    pointwise = False  # an element of the output depends on the elements of the inputs at its position alone
    # A dimension each of whose indices may take a program of its own, which is slow to interpret: there few of them in
    # most examples, many in some.
    program_each: str | None = None
    ragged_sizes = dom.Focus("law", dom.RAGGED, ranks=(2, 1, 3))  # the usual focus of a law

    def oracle(self, **args: Any) -> Any:
        """The right answer in float64 (or exactly), from the arguments as logical tensors. A tensor, or a tuple."""
        raise TypeError(f"grader {type(self).__name__} has no oracle")

    def magnitude(self, **args: Any) -> torch.Tensor:
        """The operator on absolute values, which scales the bound."""
        absolute = {n: a.abs() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for n, a in args.items()}
        return self.oracle(**absolute)  # type: ignore[no-any-return]

    def excerpt(
        self, choose: Callable[[int, int], torch.Tensor], **args: Any
    ) -> tuple[dict[str, Any], torch.Tensor] | None:
        """A smaller problem whose answer is part of the answer to `args`: its arguments, and where in the whole (flat)
        output the elements of its output stand. `choose(n, count)`: `count` of the numbers below `n`, which nobody knows
        before, perhaps one twice. None: the oracle is quick enough for the whole."""
        if not self.pointwise:
            return None
        tensors = {n: a for n, a in args.items() if isinstance(a, torch.Tensor)}
        shape = next(iter(tensors.values())).shape
        index = choose(shape.numel(), SAMPLED)
        at = [index // shape[d + 1 :].numel() % n for d, n in enumerate(shape)]  # torch.unravel_index imports SymPy: 2 s
        return {**args, **{n: a[tuple(at)] for n, a in tensors.items()}}, index

    def result_dtype(self, drawn: dom.Drawn) -> torch.dtype:
        """The output's dtype for these arguments."""
        if self.result is not None:
            return self.result
        return next(a.dtype for a in drawn.args.values() if isinstance(a, torch.Tensor))

    def checks(self, *, gpu: bool) -> list[Check]:
        many: Part | None = None
        if self.program_each is not None and not gpu:
            dim, whole = self.program_each, type(self).inputs
            examples = whole.under(dom.Focus("many rows", (3, 17), force={dim: (129, 257, 293)}))
            many = Part("many rows", lambda trial: trial.hold(trial.draw(examples)), share=0.4)
            self.inputs = replace(whole, at_most={dim: 33})
        standard: list[tuple[str, list[dom.Focus], float]] = [
            ("aligned", dom.aligned(self.inputs, gpu=gpu), 0.5),
            ("ragged", dom.ragged(self.inputs, gpu=gpu), 1.0),
            ("empty", dom.empty(self.inputs, gpu=gpu), 0.4),
            ("strided", dom.strided(self.inputs, gpu=gpu), 1.0),
            ("dtypes", dom.dtypes(self.inputs, gpu=gpu), 1.0),
        ]
        if self.special and self.inputs.specials:
            standard.append(("special values", dom.special_values(self.inputs, gpu=gpu), 1.0))
        checks = [
            Check(
                name,
                tuple(Part(f.name, self._holds(f), share=f.share) for f in parts),
                () if name == "aligned" else ("aligned",),
                share,
            )
            for name, parts, share in standard
            if parts
        ]
        if many is not None:
            checks = widened(checks, "ragged", many)
        repeated = Part("new values behind old addresses", self._repeats)
        checks.append(Check(REPEATED, (repeated,), ("aligned",), 0.05))
        return checks + self.own_checks()

    def _holds(self, focus: dom.Focus) -> Body:
        def body(trial: Trial) -> None:
            trial.hold(trial.draw(self.inputs.under(focus)))

        return body

    def _repeats(self, trial: Trial) -> None:
        trial.hold_repeatedly(trial.draw(self.inputs.under(dom.Focus("repeated", (64, 33, 17), ranks=(2, 1)))))

    def compile_calls(self, example: Callable[[Any], Any]) -> list[list[Any]]:
        last = self.inputs.dtypes[-1:]
        plain = dom.Focus("compile", (256,), ranks=(2,))
        odd = dom.Focus("compile", (129, 257), dtypes=last, layouts=("step-2 slice", "padded pitch"), ranks=(2,))
        # Triton takes an argument that is 1 for a constant, which has no `.to` and no dtype.
        one = dom.Focus("compile", (1,), ranks=(2,))
        return [example(self.inputs.under(f)).values() for f in (plain, odd, one)]

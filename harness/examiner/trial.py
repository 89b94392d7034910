"""One example of a property: draw, run the submission in its worker, hold what comes back to the contract.

What every exercise is held to whatever its check (the syllabus' P0) stands here, once: red zones, poisoned memory,
inputs unchanged, new plain outputs, two runs bit-equal, a kernel of the submission's own behind every output.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.course import Exercise
from harness.examiner import compare, diagnose
from harness.examiner.again import Again
from harness.examiner.warm import POLL_S, Meanwhile, Worker, WorkerDied
from harness.grading.domain import CONTIGUOUS, Drawn, Focus, Tensor, lay, layout_name
from harness.grading.grader import Grader, TensorGrader
from harness.grading.patterns import specialised
from harness.status import Status

CONFIGURATIONS = 24  # of one autotuner that are run on one and the same example; every example has the turn of one of them
NO_ANSWER = "the worker sent something that is not an answer"
REPEATS = 40  # calls in one worker on changed values: more than any small counter


class Wrong(Exception):
    """The submission broke its contract in this example."""

    def __init__(self, message: str, *, status: Status = Status.FAILED, cause: str = "", **facts: Any) -> None:
        super().__init__(message)
        self.message, self.status, self.cause, self.facts = message, status, cause, facts
        self.drawn: Drawn | None = None


@dataclass
class Lab:
    """What the trials of one check share: the worker (replaced when it dies) and the limits."""

    exercise: Exercise
    grader: Grader
    gpu: bool
    start: Callable[[], Worker]  # a worker with the submission loaded; raises Wrong when that fails
    worker: Worker | None = None
    margin: float = 0.0
    calls: int = 0
    tuned: set[str] = field(default_factory=set)  # kernels of which every configuration was held
    again: Again | None = None  # where calls can be done again without the submission's host code

    def ask(
        self, request: dict[str, Any], limit_s: float, poll_s: float = POLL_S, meanwhile: Meanwhile | None = None
    ) -> dict[str, Any]:
        """`Worker.ask`, of a new worker where there is none. Raises `Wrong` when it ends."""
        if self.worker is None or self.worker.dead:
            self.worker = self.start()
        self.calls += 1
        try:
            reply = self.worker.ask(request, limit_s, poll_s, meanwhile)
        except WorkerDied as died:
            self.drop()
            raise Wrong(died.message, status=died.status, cause=_death(died.status)) from None
        if reply.get("fatal"):
            self.drop()
        return reply

    def drop(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def close(self) -> None:
        """No more trials."""
        self.drop()
        if self.again is not None:
            self.again.drop()


def _death(status: Status) -> str:
    return {
        Status.TIMED_OUT: "a loop that does not end, or one that is far too slow?",
        Status.OUT_OF_MEMORY: "is a size or a stride taken for a count?",
        Status.CRASHED: "a pointer out of bounds, or a call that ends the process?",
    }.get(status, "")


def raise_reply(reply: dict[str, Any]) -> None:
    """Raise `Wrong` for an answer that is not ok, with the student's own lines."""
    if reply["status"] == "ok":
        return
    where = [f"{w['file']}:{w['line']}: {w['source']}" for w in reply.get("where", [])[-3:]]
    message = str(reply.get("message", ""))
    if reply.get("kind") == "missing" and reply.get("names") is not None:
        import difflib

        names = [str(n) for n in reply["names"]]
        close = difflib.get_close_matches(str(reply["entry"]), names, 1)
        message = f"there is no function `{reply['entry']}` in the file"
        message += (
            f"; did you mean to call `{close[0]}` that?" if close else (f"; it has {', '.join(names)}" if names else "")
        )
    cause = ""
    if reply.get("kind") == "AddressFault":
        cause = "a mask is missing or too wide on this access, or an offset or stride is wrong"
    elif reply["status"] == str(Status.DEVICE_FAULT):
        cause = "an access outside a tensor (behind each lies memory that nobody may touch), or a failed device assert"
    elif reply["status"] == str(Status.NOT_STARTED):
        message = "not implemented yet: " + (message or "it raises NotImplementedError")
    if where:
        message = f"{message}\n  at " + "\n  at ".join(where)
    raise Wrong(message, status=Status(reply["status"]), cause=cause, kind=reply.get("kind", ""))


class Trial:
    """Handed to the body of a check. `draw` draws, `run` and `call` use the submission, the rest compares."""

    def __init__(self, lab: Lab, draw: Callable[[Any], Any], part: str) -> None:
        self.lab, self._draw, self.part = lab, draw, part
        self.drawn: Drawn | None = None
        self.turn: int | None = None  # of the configurations of an autotuner; one example has one
        self.reply: dict[str, Any] = {}  # to the last call that was held to P0
        self.tuned: list[tuple[str, int, str]] = []  # in the last call: kernel, configurations to choose from, the one chosen

    # -- drawing ------------------------------------------------------------------------------------------------

    @property
    def gpu(self) -> bool:
        """Whether the kernels run on a GPU (else they are interpreted)."""
        return self.lab.gpu

    def draw(self, strategy: Any) -> Any:
        """Draw from a Hypothesis strategy; a `Drawn` is remembered for the counterexample."""
        value = self._draw(strategy)
        if isinstance(value, Drawn):
            self.drawn = value
        return value

    # -- running ------------------------------------------------------------------------------------------------

    def call(
        self, *args: Any, target: Any = None, attribute: str = "", limit_s: float | None = None, names: list[str] | None = None,
        poison: str = "nan", slot: int | None = None, fence: bool = False, grad: tuple[str, ...] = (),
    ) -> dict[str, Any]:  # fmt: skip
        """Call the exercise's function (or `target`: another function's name, a handle) and return the whole answer:
        `value`, `facts` of each tensor in it, `evidence`. Raises `Wrong` when the call fails."""
        lab = self.lab
        if self.turn is None:
            self.turn = _turn(self.drawn)
        request = {
            "op": "call", "target": target, "attribute": attribute, "args": list(args), "turn": self.turn,
            "names": names or [f"argument {i + 1}" for i in range(len(args))], "poison": poison, "slot": slot, "fence": fence,
            "grad": list(grad), "readable": [*lab.grader.readable, *_readable(lab.grader)], "in_place": list(lab.grader.in_place),
            "moves": lab.grader.moves, "kernels": lab.grader.kernels, "overflow": lab.grader.overflow,
        }  # fmt: skip
        reply = lab.ask(request, limit_s or lab.exercise.limits.call_s)
        raise_reply(reply)
        self.tuned = _formed(reply)
        return reply

    def value(self, *args: Any, **options: Any) -> Any:
        """Call the exercise's function and return its value, held to nothing but the sandbox: for plain functions."""
        reply = self.call(*args, **options)
        if reply["evidence"]["refused"]:
            raise Wrong("; ".join(reply["evidence"]["refused"]), status=Status.REFUSED)
        return reply["value"]

    def drive(self, source: str, function: str, *args: Any, limit_s: float | None = None) -> Any:
        """Run a driver in the worker: `function` of the trusted `source`, called with the submission's module first."""
        request = {"op": "drive", "source": source, "function": function, "args": list(args), "kernels": self.lab.grader.kernels}
        reply = self.lab.ask(request, limit_s or self.lab.exercise.limits.call_s)
        raise_reply(reply)
        if refused := _told(reply):
            raise Wrong("; ".join(refused), status=Status.REFUSED)
        return reply["value"]

    def run(self, *args: Any, names: list[str] | None = None, **options: Any) -> Any:
        """Call the exercise's function on tensors and hold the call to P0; returns its value."""
        names = names or (self.drawn.names() if self.drawn is not None and len(self.drawn.args) == len(args) else None)
        reply = self.reply = self.call(*args, names=names, **options)
        self._accept(reply, args)
        if self.lab.grader.in_place:
            return reply["value"], reply["after"]
        return reply["value"]

    def _accept(self, reply: dict[str, Any], args: Any) -> None:
        evidence, grader = reply["evidence"], self.lab.grader
        if evidence["refused"]:
            raise Wrong(
                "; ".join(evidence["refused"]),
                status=Status.REFUSED,
                cause="the output must be made by your own Triton kernels",
            )
        if evidence["damage"]:
            raise Wrong(
                "wrote outside its memory: " + "; ".join(evidence["damage"][:3]),
                cause="a store without a mask, or with a mask that is too wide",
            )
        if evidence["changed"]:
            raise Wrong(
                f"changed its input {', '.join(evidence['changed'])}", cause="store into the output, not into the input"
            )
        if evidence["stale"]:
            raise Wrong(
                evidence["stale"] + ": every call returns new memory", cause="allocate the output inside the function"
            )
        tensors = [a for a in _flatten(list(args)) if isinstance(a, torch.Tensor)]
        nothing_to_do = any(t.numel() == 0 for t in tensors)
        outputs = [v for v in _flatten(reply["value"]) if isinstance(v, torch.Tensor)]
        if grader.kernels and not nothing_to_do and evidence["launches"] == 0 and any(o.numel() for o in outputs):
            raise Wrong(
                "no Triton kernel of the submission was launched",
                status=Status.REFUSED,
                cause="launch your kernel: kernel[grid](...)",
            )
        for path, fact in reply["facts"].items():
            name = f"output{path}"
            if fact["alias"]:
                raise Wrong(f"{name} is the memory of argument {fact['alias']}: return a new tensor")
            if fact["odd"] or fact["grad"]:
                raise Wrong(
                    f"{name} has its {'negative or conjugate bit' if fact['odd'] else 'requires_grad'} set: return a plain tensor"
                )
            if (fact["device"] == "cuda") != self.gpu:
                raise Wrong(f"{name} is on {fact['device']}: return it on the input's device")
            offence = fact["taint"] or (fact["moved"] if grader.moves != "allowed" else None)
            if grader.kernels and offence:
                raise Wrong(
                    f"{name}: {offence}",
                    status=Status.REFUSED,
                    cause="the output must be made by your own Triton kernels",
                )
            value = _at(reply["value"], path)
            if grader.kernels and not fact["own"] and not nothing_to_do and value.numel():
                raise Wrong(
                    f"{name} was given to no kernel of the submission", status=Status.REFUSED,
                    cause="the output must be made by your own Triton kernels",
                )  # fmt: skip
            if not _contiguous(value.shape, fact["stride"]):
                raise Wrong(
                    f"{name} has strides {tuple(fact['stride'])} for shape {tuple(value.shape)}: return a contiguous tensor"
                )

    # -- holding to the contract ----------------------------------------------------------------------------------

    def hold(self, drawn: Drawn) -> None:
        """The standard body: run, compare with the oracle, run again in memory poisoned otherwise, compare the bits."""
        grader = self.lab.grader
        assert isinstance(grader, TensorGrader)
        got = self.run(*drawn.values(), names=drawn.names(), poison="nan")
        self.judge(got, drawn)
        again = self.run(*drawn.values(), names=drawn.names(), poison="finite", fence=self.gpu)
        if grader.atomics:
            self.judge(again, drawn)
        else:
            self.same(
                again,
                got,
                "two runs on the same input differ",
                "memory that was never written, a race, or state kept between calls",
            )
        if self.lab.again is not None:
            self.lab.again.hold(self, drawn)
        self._hold_configurations(drawn)

    def _hold_configurations(self, drawn: Drawn) -> None:
        """The same example with each of the other configurations that an autotuner may choose, once a check."""
        new = {kernel: count for kernel, count, _ in self.tuned if kernel not in self.lab.tuned}
        first = self.turn or 0
        for step in range(1, min(CONFIGURATIONS, max(new.values(), default=0))):
            self.turn = first + step
            self.judge(self.run(*drawn.values(), names=drawn.names()), drawn)
        self.turn = first
        self.lab.tuned |= new.keys()

    def hold_repeatedly(self, drawn: Drawn) -> None:
        """Call many times in one worker: the same storage with other values, a single other element, new storage."""
        grader = self.lab.grader
        assert isinstance(grader, TensorGrader)
        generator = torch.Generator().manual_seed(int(drawn.dims.get("seed", 0)) + 1)
        for turn in range(REPEATS):
            drawn = _revalued(grader, drawn, generator, few=turn % 3 == 2)
            self.drawn = drawn
            slot = None if turn % 5 == 4 else 0
            got = self.run(*drawn.values(), names=drawn.names(), poison="nan" if turn % 2 else "finite", slot=slot)
            self.judge(got, drawn)

    def judge(self, got: Any, drawn: Drawn, expected: Any = None) -> None:
        """Hold a value to the oracle (or `expected`): arity, shape, dtype, then every element within the bound."""
        grader = self.lab.grader
        assert isinstance(grader, TensorGrader)
        self.drawn = drawn
        if expected is None:
            expected = grader.oracle(**drawn.args)
        if not isinstance(expected, tuple):
            self._element(got, expected, drawn, "output")
            return
        if type(got) is not tuple or len(got) != len(expected):
            raise Wrong(f"must return a tuple of {len(expected)} tensors (got {_kind(got)})")
        for i, (one, right) in enumerate(zip(got, expected, strict=True)):
            self._element(one, right, drawn, f"output[{i}]")

    def _element(self, got: Any, expected: torch.Tensor, drawn: Drawn, name: str) -> None:
        grader = self.lab.grader
        assert isinstance(grader, TensorGrader)
        dtype = grader.result_dtype(drawn)
        self.shaped(got, tuple(expected.shape), dtype, name)
        kind, used = grader.bound.kind, 0.0
        if kind == "exact":
            found = compare.exactly(got, expected)
        elif kind == "equal" or not dtype.is_floating_point:
            found = compare.equally(got, expected)
        else:
            assert grader.bound.tolerance is not None
            found, used = compare.within(got, expected, grader.bound.tolerance(grader, drawn, expected, dtype))
        self.lab.margin = max(self.lab.margin, used)
        if found is not None:
            self.mismatch(found, got, expected, drawn, name)

    def mismatch(
        self, found: compare.Mismatch, got: torch.Tensor, expected: torch.Tensor, drawn: Drawn, name: str
    ) -> None:
        at = f" at {list(found.first)}" if found.first else ""
        bound = "" if found.bound == "exact" else f" (bound {found.bound})"
        raise Wrong(
            f"{name} is wrong{at}: expected {found.expected}, got {found.got}{bound}; {found.count} elements are wrong",
            cause=diagnose.cause(got, expected, found, drawn, self.part),
            first_error={"index": list(found.first), "expected": found.expected, "got": found.got},
            wrong=found.count, map=compare.picture(found.wrong),
        )  # fmt: skip

    def shaped(self, got: Any, shape: tuple[int, ...], dtype: torch.dtype, name: str = "output") -> None:
        """A tensor of this shape and dtype."""
        if not isinstance(got, torch.Tensor):
            raise Wrong(f"{name} must be a torch.Tensor (got {_kind(got)})")
        if tuple(got.shape) != shape:
            raise Wrong(f"{name} must have shape {list(shape)} (got {list(got.shape)})")
        if got.dtype != dtype:
            raise Wrong(f"{name} must have dtype {dtype} (got {got.dtype})")

    def same(self, got: Any, expected: Any, message: str, cause: str = "") -> None:
        """Bit-equal tensors, or tuples of them."""
        ours, theirs = list(_flatten(got)), list(_flatten(expected))
        if len(ours) != len(theirs):
            raise Wrong(message, cause=cause)
        for one, other in zip(ours, theirs, strict=True):
            if not isinstance(one, torch.Tensor):
                self.expect(one == other, message, cause=cause)
            elif one.shape != other.shape or one.dtype != other.dtype:
                raise Wrong(message, cause=cause)
            elif (found := compare.exactly(one, other)) is not None:
                raise Wrong(
                    f"{message}: first at {list(found.first)}, {found.expected} and {found.got}", cause=cause,
                    first_error={"index": list(found.first), "expected": found.expected, "got": found.got},
                    wrong=found.count, map=compare.picture(found.wrong),
                )  # fmt: skip

    def expect(self, condition: bool, message: str, *, cause: str = "", **facts: Any) -> None:
        """Fail the example with `message` unless `condition`; `facts` go into the counterexample."""
        if not condition:
            raise Wrong(message, cause=cause, **facts)


def _turn(drawn: Drawn | None) -> int:
    """A number that follows from the example, so that it is the same when the example is run again, and the same for all
    that look alike to Triton's compiler, which would have to compile each of them for each configuration."""
    tensors = [a for a in _flatten(drawn.values()) if isinstance(a, torch.Tensor)] if drawn is not None else []
    looks = [(str(t.dtype), *map(specialised, (*t.shape, *t.stride()))) for t in tensors]
    return zlib.crc32(repr(looks).encode())


_FACTS = ("alias", "odd", "grad", "device", "taint", "moved", "own", "stride")  # of each tensor in an answer


def _told(reply: dict[str, Any]) -> list[str]:
    """What was refused; raises `Wrong` unless the answer has the form that the harness' side of the worker gives it."""
    try:
        refused = list(reply["evidence"]["refused"])
        if "value" not in reply or not all(isinstance(text, str) for text in refused):
            raise ValueError
        return refused
    except (KeyError, TypeError, ValueError):
        raise _no_answer() from None


def _formed(reply: dict[str, Any]) -> list[tuple[str, int, str]]:
    """What tuners chose; raises `Wrong` unless the answer to a call has its form."""
    _told(reply)
    try:
        evidence = reply["evidence"]
        texts = (*evidence["damage"], *evidence["changed"], evidence["stale"] or "")
        told = all(key in fact for fact in reply["facts"].values() for key in _FACTS)
        if not told or not isinstance(evidence["launches"], int) or not all(isinstance(text, str) for text in texts):
            raise ValueError
        return [(str(kernel), int(count), str(config)) for kernel, count, config in evidence["tuned"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _no_answer() from None


def _no_answer() -> Wrong:
    return Wrong(NO_ANSWER, status=Status.REFUSED)


def _readable(grader: Grader) -> list[str]:
    return grader.inputs.readable() if isinstance(grader, TensorGrader) else []


def _flatten(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from _flatten(v)
    elif isinstance(value, dict):
        yield from _flatten(list(value.values()))
    else:
        yield value


def _at(value: Any, path: str) -> Any:
    """The part of `value` that a path such as `[0]['w']` names."""
    import ast
    import re

    for key in re.findall(r"\[([^\]]*)\]", path):
        value = value[ast.literal_eval(key)]
    return value


def _kind(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return "a tensor" if isinstance(value, torch.Tensor) else f"{getattr(value, 'type', type(value).__name__)}"


def _contiguous(shape: torch.Size, stride: list[int]) -> bool:
    step = 1
    for size, s in zip(reversed(shape), reversed(stride), strict=True):
        if size != 1 and s != step and 0 not in shape:
            return False
        step *= size
    return True


def _revalued(grader: TensorGrader, drawn: Drawn, generator: torch.Generator, *, few: bool) -> Drawn:
    """The same sizes with other values; `few`: one element of each tensor is another one, the rest stays."""
    import numpy as np

    args = dict(drawn.args)
    rng = np.random.Generator(np.random.Philox(int(torch.randint(0, 2**62, (1,), generator=generator))))
    for name, spec in grader.inputs.specs.items():
        old = args[name]
        if not isinstance(spec, Tensor) or not isinstance(old, torch.Tensor):
            continue
        new = spec.values(rng, tuple(old.shape), old.dtype, drawn.dims)
        if few and new.numel():
            at = int(rng.integers(new.numel()))
            kept = old.contiguous().clone().reshape(-1)
            kept[at] = new.reshape(-1)[at]
            new = kept.reshape(old.shape)
        args[name] = lay(new, CONTIGUOUS)
    return Drawn(args, drawn.dims)


def describe(drawn: Drawn | None) -> dict[str, Any]:
    """The arguments of an example in words, for the result document."""

    def words(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            text = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}, {layout_name(value)}"
            if 0 < value.numel() <= 8:
                text += f", {value.tolist()}"
            return text
        if isinstance(value, (list, tuple)):
            return [words(v) for v in value]
        return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)

    return {} if drawn is None else {n: words(v) for n, v in drawn.args.items()}


__all__ = ["NO_ANSWER", "Focus", "Lab", "Trial", "Wrong", "describe", "raise_reply"]

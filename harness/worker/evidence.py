"""What a submission did while it ran: which kernels it launched, and whether torch, NumPy or Python did the work.

Storages carry a taint. A torch compute operator taints what it writes; moving data (copy_, contiguous, to, views)
carries the taint along; a launch carries it from any tensor argument to all of them. A tainted output is refused, and
so is one that no kernel of the submission was given. Computing something on the side (a grid size, an assertion) is
not an offence: only what reaches the output counts.

Three witnesses, since each alone can be got round: the trace of torch's operators (`Witness`), the ledger of what was
seen being written where (`ledger`), and what the kernels' bodies name (`purity`). All live in the submission's own
process: they find whoever lets torch do the work, not whoever rewrites this process' memory.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.worker import purity
from harness.worker.ledger import Ledger
from harness.worker.memory import Guarded, poison_byte
from harness.worker.rules import (
    EMPTIES,
    FACTORIES,
    FILLS,
    GRAPH,
    HOST_READS,
    HOST_WRITES,
    MOVES,
    READS,
    REFUSED_EVENTS,
    REFUSED_IMPORTS,
    forbidden,
)
from harness.worker.tape import Tape

_LIBRARIES = tuple(
    str(Path(module.__file__).parent) + os.sep  # type: ignore[arg-type]
    for module in (torch, sys.modules.get("triton"))
    if module is not None
)
_STDLIB = str(Path(os.__file__).parent) + os.sep


class Evidence:
    """What one call left behind."""

    def __init__(self, *, free: bool = False, timed: bool = False, moves: str = "", in_place: bool = False) -> None:
        self.free = free  # no kernel is asked for, so host code may compute with whatever it likes
        self.timed = timed  # the clock runs: memory is not guarded, and the ledger is not kept
        # Where the clock runs: what torch's copies of an input may be for (`Grader.moves`), whether arguments are changed.
        self.moves, self.in_place = moves, in_place
        self.launches = 0
        self.kernels: set[str] = set()
        self.refused: list[str] = []
        self.taint: dict[int, str] = {}
        self.moved: dict[int, str] = {}  # storages that hold what torch copied from an input
        self.written: set[int] = set()
        self.readable: set[int] = set()
        self.inputs: set[int] = set()
        self.reads = 0
        self.writes = 0
        self.literals = 0  # depth of calls that make a tensor from Python numbers
        self.allocated: list[Guarded] = []
        self.tape: Tape | None = None  # of an interpreted call
        self.alive: list[Any] = []

    def refuse(self, reason: str) -> None:
        if reason not in self.refused and len(self.refused) < 20:
            self.refused.append(reason)

    def key(self, tensor: torch.Tensor) -> int:
        if tensor.layout != torch.strided:
            self.alive.append(tensor)
            return id(tensor)
        storage = tensor.untyped_storage()
        self.alive.append(storage)
        return int(storage._cdata)

    def check(self, tensors: Iterable[torch.Tensor]) -> None:
        """Taint those whose memory was written where nobody saw it."""
        for tensor in () if self.timed else tensors:
            if tensor.layout == torch.strided and tensor.device.type != "meta":
                reason = ledger.offence(tensor.untyped_storage())
                if reason is not None:
                    self.taint.setdefault(self.key(tensor), reason)

    def note(self, tensors: Iterable[torch.Tensor]) -> None:
        """What these hold now was seen being put there."""
        for tensor in () if self.timed else tensors:
            if tensor.layout == torch.strided and tensor.device.type != "meta":
                ledger.note(tensor.untyped_storage())

    def begin(self, args: Iterable[Any]) -> None:
        """A timed call with these arguments begins: what was seen in the last one is no evidence."""
        self.taint, self.moved, self.written, self.alive = {}, {}, set(), []
        self.writes = 0
        self.inputs = {self.key(tensor) for tensor in _tensors(list(args))}

    def hold(self, result: Any) -> None:
        """Refuse what a timed call returns where the submission's kernels have not made it."""
        for tensor in () if self.free else _tensors(result):
            key = self.key(tensor)
            reason = self.taint.get(key) or (self.moved.get(key) if self.moves != "allowed" else None)
            if key in self.inputs and not self.in_place:
                reason = "it is the memory of an argument"
            if reason is None and key not in self.written and tensor.numel():
                reason = "it was given to no kernel of the submission"
            if reason is not None:
                self.refuse(f"the output of a timed call: {reason}")

    def host_write(self, tensor: torch.Tensor) -> None:
        self.writes += tensor.numel()
        if self.writes > HOST_WRITES:
            self.taint[self.key(tensor)] = f"the host put more than {HOST_WRITES:,} numbers into tensors, one by one"

    def host_read(self, tensor: torch.Tensor, elements: int) -> None:
        if self.free or self.timed or self.key(tensor) in self.readable:
            return
        self.reads += elements
        if self.reads > HOST_READS:
            self.refuse(
                "the host read more than a few elements of a tensor (.item(), .tolist()): "
                "the work belongs into the kernel, not into a Python loop"
            )


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _tensors(value)
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _tensors(value)


def _aliases(evidence: Evidence, out: Any, sources: list[torch.Tensor]) -> bool:
    """Whether the result is only another look at the arguments' memory: a view, by whatever name."""
    known = {evidence.key(t) for t in sources}
    results = list(_tensors(out))
    return bool(results) and all(evidence.key(t) in known for t in results)


class Witness(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every torch operator of a call; poisons and guards the memory that the submission allocates."""

    def __init__(self, evidence: Evidence, poison: str, max_bytes: int, moves_refused: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.evidence, self.poison, self.max_bytes, self.moves_refused = evidence, poison, max_bytes, moves_refused

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler (two seconds) at the first operator

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        evidence = self.evidence
        name = func._schema.name.removeprefix("aten::")
        if name in READS:
            for tensor in _tensors(args):
                evidence.host_read(tensor, tensor.numel())
            return func(*args, **kwargs)
        sources = list(_tensors([args, kwargs]))
        if name.startswith("lift_fresh") and evidence.literals:  # how torch.tensor hands over what it has made
            evidence.note(sources)
            for tensor in sources:
                evidence.host_write(tensor)
        if func.is_view:
            return func(*args, **kwargs)
        evidence.check(sources)
        out = self._judge(func, name, args, kwargs, sources)
        evidence.note(_tensors([out, sources if func._schema.is_mutable else ()]))
        if evidence.tape is not None and isinstance(out, torch.Tensor):
            if name in MOVES and sources:
                evidence.tape.operator(out, sources[1] if name == "copy_" else sources[0])
            elif name in ("fill_", "zero_"):
                evidence.tape.operator(out, None)
        return out

    def _judge(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], sources: list[torch.Tensor]
    ) -> Any:
        """Run an operator and carry the taint from what it reads to what it writes."""
        evidence = self.evidence
        out = func(*args, **kwargs)
        if name in FACTORIES:
            return self._fresh(name, out)
        if name in FILLS:
            if name == "fill_" and sources[0].numel() <= HOST_READS:
                evidence.host_write(sources[0])
            return out
        if not func._schema.is_mutable and _aliases(evidence, out, sources):
            return out
        if name in MOVES:
            moved = sources[1:] if name == "copy_" else sources
            reason = next((evidence.taint[k] for k in map(evidence.key, moved) if k in evidence.taint), None)
            owned = any(evidence.key(t) in evidence.written for t in moved)
            copied = None
            if any(evidence.key(t) in evidence.inputs or evidence.key(t) in evidence.moved for t in moved):
                copied = f"torch copied the input (aten::{name}); here the copy is the exercise"
            if reason is None and self.moves_refused:
                reason = copied
            # A view returned by a move (contiguous of a contiguous tensor) is the source itself.
            for target in _tensors(out):
                key = evidence.key(target)
                if all(key != evidence.key(t) for t in moved):
                    if reason is not None:
                        evidence.taint[key] = reason
                    if copied is not None:
                        evidence.moved[key] = copied
                    if owned:
                        evidence.written.add(key)
            return self._guard(out, sources) if name in ("clone", "_to_copy") else out
        reason = f"torch computed it (aten::{name})"
        for target in _tensors([out, [a for a in sources if func._schema.is_mutable]]):
            evidence.taint[evidence.key(target)] = reason
        return out

    def _fresh(self, name: str, out: Any) -> Any:
        if not isinstance(out, torch.Tensor) or out.device.type == "meta" or out.layout != torch.strided:
            return out
        return self._guarded(out, poisoned=name in EMPTIES)

    def _guard(self, out: Any, sources: list[torch.Tensor]) -> Any:
        evidence = self.evidence
        if not isinstance(out, torch.Tensor) or any(evidence.key(out) == evidence.key(s) for s in sources):
            return out
        guarded = self._guarded(out, poisoned=False)
        old, new = evidence.key(out), evidence.key(guarded)
        for table in (evidence.taint, evidence.moved):
            if old in table:
                table[new] = table[old]
        if old in evidence.written:
            evidence.written.add(new)
        return guarded

    def _guarded(self, out: torch.Tensor, *, poisoned: bool) -> torch.Tensor:
        if self.evidence.timed:
            return out
        nbytes = out.untyped_storage().nbytes()
        if nbytes > self.max_bytes:
            raise torch.OutOfMemoryError(
                f"an allocation of {nbytes:,} bytes is over the limit of {self.max_bytes:,} bytes"
            )
        fill = poison_byte(out.dtype, self.poison)
        guard = Guarded(nbytes, out.device, fill, "a tensor that the submission allocated")
        if poisoned:
            guard.data.fill_(fill)
        else:
            guard.data.copy_(torch.empty(0, dtype=torch.uint8, device=out.device).set_(out.untyped_storage()))
        self.evidence.allocated.append(guard)
        return guard.view(out.dtype, out.shape, out.stride(), int(out.storage_offset()))


_current: Evidence | None = None
_kernel_folder = ""
_watching = False
_looking = False
ledger = Ledger()


def _passed(args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors among a launch's arguments, also behind descriptors."""
    tensors = list(_tensors([list(args), kwargs]))
    tensors += [a.base for a in [*args, *kwargs.values()] if isinstance(getattr(a, "base", None), torch.Tensor)]
    return tensors


def _note_launch(evidence: Evidence, kernel: Any, tensors: list[torch.Tensor], name: str) -> None:
    evidence.note(tensors)
    keys = [evidence.key(t) for t in tensors]
    reason = next((evidence.taint[k] for k in keys if k in evidence.taint), None)
    if reason is not None:
        for key in keys:
            evidence.taint.setdefault(key, f"{reason}, and a kernel passed it on")
    if _is_own(kernel):
        evidence.launches += 1
        evidence.kernels.add(name)
        evidence.written.update(keys)


def _is_own(kernel: Any) -> bool:
    """Whether the submission wrote it."""
    code = getattr(getattr(kernel, "fn", None), "__code__", None)
    return code is not None and bool(code.co_filename.startswith(_kernel_folder))


def _from_submission() -> bool:
    """Whether the nearest frame that is neither the standard library's nor the harness' is the submission's."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_LIBRARIES):
            return False
        if not name.startswith((_STDLIB, "<frozen")) or "site-packages" in name:
            return name.startswith(_kernel_folder) or name.startswith("<")
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _audit(event: str, args: tuple[Any, ...]) -> None:
    global _looking
    if not _watching or _current is None:
        return
    if event == "import" and str(args[0]).startswith(REFUSED_IMPORTS):
        top = str(args[0])
        if any(top == name or top.startswith(name + ".") for name in REFUSED_IMPORTS) and _from_submission():
            _current.refuse(f"imports {top}")
        return
    if event == "sys._getframe":
        # Only who calls it himself is meant, not the standard library on his behalf; and the look is such a call too.
        if not _looking:
            _looking = True
            if sys._getframe(1).f_code.co_filename.startswith(_kernel_folder):
                _current.refuse("looks into other frames (sys._getframe)")
            _looking = False
        return
    what = REFUSED_EVENTS.get(event)
    if what is not None and _from_submission():
        _current.refuse(f"{what} ({event})")
        raise PermissionError(f"a submission may not do this: it {what} ({event})")


def _reader(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def read(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if _current is not None and not _current.free and not _current.timed and _from_submission():
            if name in ("tolist", "__iter__"):
                _current.host_read(self, self.numel())
            else:
                _current.refuse(f"hands a tensor to NumPy or another library (Tensor.{name})")
        return original(self, *args, **kwargs)

    read.__name__ = name
    return read


def install(folder: str) -> None:
    """Hooks for this process, before the submission is loaded from `folder`. They cannot be taken back."""
    global _kernel_folder
    _kernel_folder = folder
    from triton.runtime import interpreter, jit

    for cls in (jit.JITFunction, interpreter.InterpretedFunction):
        original = cls.run

        def run(
            self: Any, *args: Any, _original: Any = original, grid: Any, warmup: bool, **kwargs: Any
        ) -> Any:
            evidence = None if warmup else _current
            if evidence is None:
                return _original(self, *args, grid=grid, warmup=warmup, **kwargs)
            tensors = _passed(args, kwargs)
            if evidence.timed:
                kernel = _original(self, *args, grid=grid, warmup=warmup, **kwargs)
                _note_launch(evidence, self, tensors, str(getattr(kernel, "name", "")))  # as a trace will name it
                return kernel
            evidence.check(tensors)
            if isinstance(self, interpreter.InterpretedFunction):
                impure = purity.offence(self, _kernel_folder)
                if impure is not None:
                    evidence.refuse(impure)
            if evidence.tape is not None:
                evidence.tape.kernel = self
            result = _original(self, *args, grid=grid, warmup=warmup, **kwargs)
            if evidence.tape is not None:
                evidence.tape.landed(tensors)
            _note_launch(evidence, self, tensors, str(getattr(self.fn, "__name__", "")))
            return result

        cls.run = run
    for name in ("numpy", "__array__", "__dlpack__", "tolist"):
        setattr(torch.Tensor, name, _reader(name, getattr(torch.Tensor, name)))
    original_from_numpy = torch.from_numpy

    def from_numpy(array: Any) -> torch.Tensor:
        tensor = original_from_numpy(array)
        if _current is not None and _from_submission():
            _current.taint[_current.key(tensor)] = "NumPy computed it (torch.from_numpy)"
        return tensor

    torch.from_numpy = from_numpy  # type: ignore[assignment]
    for owner, name in ((torch, "tensor"), (torch, "as_tensor"), (torch, "scalar_tensor"), (torch.Tensor, "new_tensor")):
        setattr(owner, name, _literal(getattr(owner, name)))
    for owner, name, what in forbidden():
        if hasattr(owner, name):
            setattr(owner, name, _refusing(name, what, getattr(owner, name)))
    sys.addaudithook(_audit)


def _literal(original: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor whose data are Python numbers; from anything else it is a copy like any other."""

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        data = kwargs.get("data", args[-1] if args else None)
        evidence = _current
        if evidence is None or not any(isinstance(a, (int, float, complex, list, tuple)) for a in (*args[:2], data)):
            return original(*args, **kwargs)
        evidence.literals += 1
        try:
            return original(*args, **kwargs)
        finally:
            evidence.literals -= 1

    return make


def _refusing(name: str, what: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original, updated=())
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if _current is not None and not (what == GRAPH and _current.free) and _from_submission():
            _current.refuse(f"{what} ({name})")
            raise PermissionError(f"a submission may not do this: it {what} ({name})")
        return original(*args, **kwargs)

    del guarded.__wrapped__  # it would hand out what stands behind this one
    return guarded


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """The harness' own modules out of `sys.modules` while a submission's code runs: importing one is an event."""
    names = [n for n in sys.modules if n == "harness" or n.startswith("harness.")]
    kept = {n: sys.modules.pop(n) for n in names}
    try:
        yield
    finally:
        sys.modules.update(kept)


@contextlib.contextmanager
def gathering(
    inputs: dict[str, torch.Tensor],
    readable: set[str],
    poison: str,
    max_bytes: int,
    moves_refused: bool,
    *,
    free: bool = False,
) -> Iterator[Evidence]:
    """Notes what happens inside; `inputs` by name, those in `readable` may be read on the host."""
    global _current, _watching
    evidence = Evidence(free=free)
    ledger.renew()
    evidence.note(inputs.values())
    for name, tensor in inputs.items():
        evidence.inputs.add(evidence.key(tensor))
        if name.split("[")[0].split(".")[0] in readable:
            evidence.readable.add(evidence.key(tensor))
    _current, _watching = evidence, True
    try:
        with Witness(evidence, poison, max_bytes, moves_refused):
            yield evidence
    finally:
        _current, _watching = None, False


@contextlib.contextmanager
def timing(*, free: bool, moves: str, in_place: bool = False) -> Iterator[Evidence]:
    """Around timed calls (`timed_call`): notes which kernels are launched, and stops what is forbidden. Memory is not
    guarded and host reads are not counted, which would take time; the same code has been through `gathering` before."""
    global _current, _watching
    evidence = Evidence(free=free, timed=True, moves=moves, in_place=in_place)
    _current, _watching = evidence, True
    try:
        yield evidence
    finally:
        _current, _watching = None, False


def timed_call(evidence: Evidence, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call `function` inside `timing`; whose work the result is, is looked at each time, since who has been honest in the
    calls before need not be in this one."""
    evidence.begin(args)
    with Witness(evidence, "", 0, evidence.moves == "refused"):
        result = function(*args)
    evidence.hold(result)
    return result


@contextlib.contextmanager
def loading(max_bytes: int | None = None) -> Iterator[Evidence]:
    """Notes what the submission does while it is imported: tables it makes for its calls go into the ledger.

    `max_bytes`: of an allocation; None leaves torch's operators alone (where kernels are only compiled).
    """
    global _current, _watching
    evidence = Evidence()
    _current, _watching = evidence, True
    trace = contextlib.nullcontext() if max_bytes is None else Witness(evidence, "nan", max_bytes, False)
    try:
        with trace:
            yield evidence
    finally:
        _current, _watching = None, False

"""What a submission did while it ran: which kernels it launched, and whether torch, NumPy or Python did the work.

Storages carry a taint. A torch compute operator taints what it writes; moving data (copy_, contiguous, to, views)
carries the taint along; a launch carries it from any tensor argument to all of them. A tainted output is refused, and
so is one that no kernel of the submission was given. Computing something on the side (a grid size, an assertion) is
not an offence: only what reaches the output counts.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.worker.memory import Guarded, poison_byte

# Creating memory, or a constant in it: no data of an input enters.
FACTORIES = frozenset(
    "empty empty_like empty_strided new_empty new_empty_strided empty_permuted zeros zeros_like new_zeros ones "
    "ones_like new_ones full full_like new_full scalar_tensor arange eye".split()
)
EMPTIES = frozenset("empty empty_like empty_strided new_empty new_empty_strided empty_permuted".split())
FILLS = frozenset("fill_ zero_ resize_ set_".split())
# Moving data from one place to another, changing at most its dtype.
MOVES = frozenset(
    "copy_ _to_copy clone contiguous to lift_fresh lift_fresh_copy detach _reshape_copy _copy_from".split()
)
READS = frozenset("_local_scalar_dense item is_nonzero equal is_same_size record_stream".split())
# What a host may read of an input that is not meant to be read there (a scale, a flag), in elements a call.
HOST_READS = 16
REFUSED_IMPORTS = (
    "cupy", "numba", "pycuda", "jax", "tensorflow", "cffi", "torch.utils.cpp_extension", "scipy", "cuda", "tilelang",
)  # fmt: skip
REFUSED_EVENTS = {
    "subprocess.Popen": "starts another program", "os.system": "starts another program",
    "os.exec": "starts another program", "os.posix_spawn": "starts another program", "os.spawn": "starts another program",
    "os.fork": "forks", "os.forkpty": "forks", "pty.spawn": "starts another program",
    "ctypes.dlopen": "loads a native library", "ctypes.dlsym": "calls into a native library",
    "ctypes.cdata": "reads raw memory", "ctypes.string_at": "reads raw memory", "ctypes.cdata/buffer": "reads raw memory",
    "socket.__new__": "opens a socket", "_thread.start_new_thread": "starts a thread",
    "sys.settrace": "traces the interpreter", "sys.setprofile": "profiles the interpreter",
    "sys.addaudithook": "installs an audit hook",
}  # fmt: skip
_LIBRARIES = tuple(
    str(Path(module.__file__).parent) + os.sep  # type: ignore[arg-type]
    for module in (torch, sys.modules.get("triton"))
    if module is not None
)
_STDLIB = str(Path(os.__file__).parent) + os.sep


class Evidence:
    """What one call left behind."""

    def __init__(self) -> None:
        self.launches = 0
        self.kernels: set[str] = set()
        self.refused: list[str] = []
        self.taint: dict[int, str] = {}
        self.moved: dict[int, str] = {}  # storages that hold what torch copied from an input
        self.written: set[int] = set()
        self.readable: set[int] = set()
        self.inputs: set[int] = set()
        self.reads = 0
        self.allocated: list[Guarded] = []
        self.alive: list[Any] = []

    def refuse(self, reason: str) -> None:
        if reason not in self.refused and len(self.refused) < 20:
            self.refused.append(reason)

    def key(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        self.alive.append(storage)
        return int(storage._cdata)

    def host_read(self, tensor: torch.Tensor, elements: int) -> None:
        if self.key(tensor) in self.readable:
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


class Witness(TorchDispatchMode):
    """Sees every torch operator of a call; poisons and guards the memory that the submission allocates."""

    def __init__(self, evidence: Evidence, poison: str, max_bytes: int, moves_refused: bool) -> None:
        super().__init__()
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
        out = func(*args, **kwargs)
        if name in FACTORIES:
            return self._fresh(name, out)
        if name in FILLS or func.is_view:
            return out
        sources = list(_tensors([args, kwargs]))
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
            guard.data.copy_(torch.empty(0, dtype=torch.uint8, device=out.device).set_(out.untyped_storage()))  # type: ignore[call-overload]
        self.evidence.allocated.append(guard)
        return guard.view(out.dtype, out.shape, out.stride(), out.storage_offset())


_current: Evidence | None = None
_kernel_folder = ""
_watching = False


def _note_launch(kernel: Any, args: Any, kwargs: Any) -> None:
    evidence = _current
    if evidence is None:
        return
    code = getattr(getattr(kernel, "fn", None), "__code__", None)
    tensors = [t for t in _tensors([list(args), kwargs])]
    tensors += [a.base for a in [*args, *kwargs.values()] if isinstance(getattr(a, "base", None), torch.Tensor)]
    keys = [evidence.key(t) for t in tensors]
    reason = next((evidence.taint[k] for k in keys if k in evidence.taint), None)
    if reason is not None:
        for key in keys:
            evidence.taint.setdefault(key, f"{reason}, and a kernel passed it on")
    if code is not None and code.co_filename.startswith(_kernel_folder):
        evidence.launches += 1
        evidence.kernels.add(code.co_name)
        evidence.written.update(keys)


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
    if not _watching or _current is None:
        return
    if event == "import" and str(args[0]).startswith(REFUSED_IMPORTS):
        top = str(args[0])
        if any(top == name or top.startswith(name + ".") for name in REFUSED_IMPORTS) and _from_submission():
            _current.refuse(f"imports {top}")
        return
    what = REFUSED_EVENTS.get(event)
    if what is not None and _from_submission():
        _current.refuse(f"{what} ({event})")
        raise PermissionError(f"a submission may not do this: it {what} ({event})")


def _reader(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def read(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if _current is not None and _from_submission():
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
            result = _original(self, *args, grid=grid, warmup=warmup, **kwargs)
            if not warmup:
                _note_launch(self, args, kwargs)
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

    torch.from_numpy = from_numpy
    sys.addaudithook(_audit)


@contextlib.contextmanager
def gathering(
    inputs: dict[str, torch.Tensor], readable: set[str], poison: str, max_bytes: int, moves_refused: bool
) -> Iterator[Evidence]:
    """Notes what happens inside; `inputs` by name, those in `readable` may be read on the host."""
    global _current, _watching
    evidence = Evidence()
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
def loading() -> Iterator[Evidence]:
    """Notes what the submission does while it is imported (no tensors are involved)."""
    global _current, _watching
    evidence = Evidence()
    _current, _watching = evidence, True
    try:
        yield evidence
    finally:
        _current, _watching = None, False

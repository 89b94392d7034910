"""The worker's loop: load a submission, call it, answer with data. It decides nothing and never outlives a time-out."""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import os
import socket
import struct
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from harness import sandbox, wire
from harness.mailbox import Mailbox
from harness.timing import clock, trace
from harness.worker import evidence, kept_kernels, tape, timed, tuning
from harness.worker.memory import Arena
from harness.worker.rejected import Rejected, ruled

_OPERATIONS = ("load", "call", "drive", "aim", "compile")
_KEPT_OUTPUTS = 2
_DEVICE_FAULTS = ("CUDA error", "illegal memory access", "device-side assert", "misaligned address", "unspecified launch")
_COMPILE_ERRORS = (
    "CompilationError", "UnsupportedLanguageConstruct", "CompileTimeAssertionFailure", "OutOfResources", "PTXASError",
)  # fmt: skip
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "Cannot allocate memory")


class Channel:
    """Frames over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def receive(self) -> Any:
        header = self._exactly(8)
        return wire.loads(self._exactly(struct.unpack("<Q", header)[0])) if header else None

    def _exactly(self, count: int) -> bytearray:
        buffer = bytearray(count)
        view, got = memoryview(buffer), 0
        while got < count:
            read = self.sock.recv_into(view[got:])
            if read == 0:
                return bytearray()
            got += read
        return buffer

    def send(self, value: Any) -> None:
        self.sock.sendall(wire.pack_frame(value))


class Worker:
    def __init__(self, request: dict[str, Any], channel: Channel) -> None:
        self.mode: str = request["mode"]
        self.device = torch.device(request["device"])
        self.scratch = Path(request["scratch"])
        # A folder of its own: workers of one exercise run side by side, and none shall read what another writes.
        self.folder = Path(tempfile.mkdtemp(prefix="submission-", dir=self.scratch))
        self.max_bytes: int = request["max_allocation"]
        self.channel = channel
        self.module: types.ModuleType | None = None
        self.entry: Callable[..., Any] | None = None
        self.arena = Arena(self.device)
        self.handles: dict[int, Any] = {}
        self.previous: list[tuple[torch.Tensor, torch.Tensor]] = []

    # -- requests -----------------------------------------------------------------------------------------------

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write the submission's files to the scratch folder and import the main one."""
        for name, content in request["files"].items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        main, entry = self.folder / request["main"], request["entry"]
        if str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))  # last: a helper file of the submission shadows nothing
        spec = importlib.util.spec_from_file_location(f"submission_{main.stem}", main)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        allowed = None if self.mode == "compile" else self.max_bytes
        with evidence.loading(allowed) as seen, self.interpreting(None, overflow=False), evidence.hidden(), ruled(seen):
            spec.loader.exec_module(module)
        if seen.refused:
            raise Rejected(status="refused", message="while it is imported, the submission " + "; ".join(seen.refused))
        found = getattr(module, entry, None)
        if not callable(found):
            names = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
            raise Rejected(status="failed", kind="missing", entry=entry, names=names, message=f"no function `{entry}`")
        self.module, self.entry = module, found
        return {"status": "ok"}

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call the entry point, a named function or a handle's method with guarded copies of the arguments."""
        target = self._target(request)
        tensors: dict[str, torch.Tensor] = {}
        walk(request["args"], request["names"], tensors)
        poison = request["poison"]
        placed, guards, originals = self.arena.place(
            tensors, poison=poison, slot=request["slot"], fence=request["fence"]
        )
        args = [self._rebuild(v, n, placed) for v, n in zip(request["args"], request["names"], strict=True)]
        for name in request["grad"]:
            placed[name].requires_grad_()
        book = self.book(placed)
        with evidence.gathering(
            placed, set(request["readable"]), poison, self.max_bytes, request["moves"] == "refused", free=not request["kernels"]
        ) as seen:
            if book is not None:
                seen.allocated = _Watched(book)
                if request["kernels"] and not request["in_place"]:
                    seen.tape = tape.Tape(str(self.folder) + os.sep, placed)
            with (
                self.interpreting(book, overflow=request["overflow"], told=seen.tape and seen.tape.launch),
                tuning.in_turn(request["turn"]) as choices,
                evidence.hidden(),
                ruled(seen),
            ):
                value = target(*args)
                self._synchronize()
        leaves = [v for v in _leaves(value) if type(v) is torch.Tensor]
        outputs = [v for v in leaves if v.layout == torch.strided and v.device.type == self.device.type]
        report = self._report(seen, placed, guards, originals, set(request["in_place"]), outputs)
        described: dict[str, Any] = {}
        reply = {"status": "ok", "value": self._describe(value, "", described, seen, placed), "facts": described}
        if seen.tape is not None:
            reply |= {"tape": seen.tape.document(outputs), "untold": seen.tape.untold}
        if request["in_place"]:
            reply["after"] = {n: plain(t) for n, t in placed.items() if n.split("[")[0] in request["in_place"]}
        report["tuned"] = [[kernel, count, config] for kernel, (count, config) in choices.made.items()]
        return {**reply, "evidence": report}

    def drive(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a grader's driver: trusted source that calls the submission's module in a way plain calls cannot."""
        scope = types.ModuleType("driver")
        exec(compile(request["source"], "<driver>", "exec"), scope.__dict__)
        args = [self.handles[a.id] if isinstance(a, wire.Handle) else a for a in request["args"]]
        free = not request["kernels"]
        with (
            evidence.gathering({}, set(), "nan", self.max_bytes, False, free=free) as seen,
            self.interpreting(None, overflow=False),
        ):
            value = getattr(scope, request["function"])(self.module, *args)
            self._synchronize()
        facts: dict[str, Any] = {}
        report = {"launches": seen.launches, "refused": seen.refused}
        return {"status": "ok", "value": self._describe(value, "", facts, None, {}), "facts": facts, "evidence": report}

    def aim(self, request: dict[str, Any]) -> dict[str, Any]:
        """From here on this process compiles for a GPU that is not there."""
        from harness.compiler import offline

        offline.prepare(request["target"])
        return {"status": "ok"}

    def compile(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compile every kernel that the given calls launch; nothing runs."""
        from harness.compiler import offline, report

        assert self.entry is not None
        with offline.recording(disassemble=request["asm"]) as compiled:
            for args in request["calls"]:
                try:
                    self.entry(*[_untouched(a) for a in args])
                except Exception:
                    # What kernels would have written is not there, so host code that reads it back may stumble;
                    # a failed compilation is in `compiled.failures` whatever the submission made of it.
                    if not compiled and not compiled.failures:
                        raise
                if compiled.failures:
                    break
        failures = [failure_row(f) for f in compiled.failures]
        rows = report.table(compiled)
        asm = [{"kernel": c.kernel, "target": c.target, "asm": dict(c.asm)} for c in compiled] if request["asm"] else []
        return {"status": "ok", "rows": rows, "failures": failures, "asm": asm, "kernels": len(compiled)}

    # -- helpers ------------------------------------------------------------------------------------------------

    def _target(self, request: dict[str, Any]) -> Callable[..., Any]:
        target = request["target"]
        if isinstance(target, wire.Handle):
            found = self.handles[target.id]
        elif target is None:
            found = self.entry
        else:
            found = getattr(self.module, target, None)
            if found is None:
                raise Rejected(status="failed", kind="missing", entry=target, names=[], message=f"no function `{target}`")
        found = getattr(found, request["attribute"]) if request["attribute"] else found
        if not callable(found):
            raise Rejected(status="failed", kind="type", message=f"a {type(found).__name__} was returned where a callable is due")
        return found  # type: ignore[no-any-return]

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def book(self, placed: dict[str, torch.Tensor]) -> Any:
        if self.mode != "interpret":
            return None
        from harness.interpreter import AddressBook

        book = AddressBook()
        for name, tensor in placed.items():
            if tensor.numel():
                span = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
                book.allow(tensor.data_ptr(), span * tensor.element_size(), name)
        return book

    @contextlib.contextmanager
    def interpreting(self, book: Any, *, overflow: bool, told: Any = None) -> Iterator[None]:
        if self.mode != "interpret":
            yield
            return
        from harness import interpreter
        from harness.compiler import standin

        with standin.cuda("sm_90"), interpreter.session(overflow=overflow, addresses=book, told=told):
            yield

    def _rebuild(self, value: Any, name: str, placed: dict[str, torch.Tensor]) -> Any:
        if isinstance(value, torch.Tensor):
            return placed[name]
        if isinstance(value, wire.Handle):
            return self.handles[value.id]
        if isinstance(value, (list, tuple)):
            return type(value)(self._rebuild(v, f"{name}[{i}]", placed) for i, v in enumerate(value))
        if isinstance(value, dict):
            return {k: self._rebuild(v, f"{name}[{k}]", placed) for k, v in value.items()}
        return value

    def _report(
        self,
        seen: evidence.Evidence,
        placed: dict[str, torch.Tensor],
        guards: list[Any],
        originals: list[torch.Tensor],
        in_place: set[str],
        outputs: list[torch.Tensor],
    ) -> dict[str, Any]:
        """What the memory of a call looks like after it, with one wait for the device."""
        zones = [*guards, *seen.allocated]
        # Each storage once, by the name of its first tensor: the order in which `originals` holds them.
        storages: dict[int, tuple[str, Any]] = {}
        for name, tensor in placed.items():
            storages.setdefault(tensor.untyped_storage()._cdata, (name, tensor.untyped_storage()))
        names, differences = [], []
        for (name, storage), original in zip(storages.values(), originals, strict=True):
            if name.split("[")[0] not in in_place:
                names.append(name)
                now = torch.empty(0, dtype=torch.uint8, device=self.device).set_(storage)
                differences.append((now != original).any())
        earlier = [(plain_bytes(old) != copy).any() for old, copy in self.previous]
        flags = _flags([*(z.touched() for z in zones), *differences, *earlier])
        of_zones, of_storages = len(zones), len(zones) + len(names)
        damage = [z.damage() for z, hit in zip(zones, flags[:of_zones], strict=True) if hit]
        changed = [n for n, hit in zip(names, flags[of_zones:of_storages], strict=True) if hit]
        return {
            "launches": seen.launches, "kernels": sorted(seen.kernels), "refused": list(seen.refused),
            "damage": damage, "changed": changed, "stale": self._stale(outputs, any(flags[of_storages:])),
        }  # fmt: skip

    def _stale(self, outputs: list[torch.Tensor], changed: bool) -> str | None:
        """What is wrong with the memory of this call's outputs in the light of the calls before, whose have `changed`."""
        message = None
        if any(_overlap(old, new) for old, _ in self.previous for new in outputs):
            message = "an output lies in the memory of an earlier call's output"
        elif changed:
            message = "an earlier call's output has changed"
        fresh = [(t, plain_bytes(t)) for t in outputs if t.numel()]
        self.previous = [*self.previous, *fresh][-_KEPT_OUTPUTS:]
        return message

    def _describe(
        self, value: Any, path: str, facts: dict[str, Any], seen: evidence.Evidence | None, placed: dict[str, torch.Tensor]
    ) -> Any:
        """`value` as it can be sent; what is said of each tensor goes to `facts`, keyed by its path."""
        if type(value) is torch.Tensor and value.layout == torch.strided and value.device.type in ("cpu", "cuda"):
            fact: dict[str, Any] = {
                "device": value.device.type, "stride": list(value.stride()), "offset": value.storage_offset(),
                "grad": bool(value.requires_grad), "odd": bool(value.is_neg() or value.is_conj()),
            }  # fmt: skip
            if seen is not None:
                seen.check([value])
                key = seen.key(value)
                fact["own"] = key in seen.written
                fact["taint"] = seen.taint.get(key)
                fact["moved"] = seen.moved.get(key)
                fact["alias"] = next((n for n, t in placed.items() if _overlap(t, value)), None)
            facts[path] = fact
            return plain(value)
        if value is None or type(value) in (bool, int, float, str, bytes, torch.dtype):
            return value
        if type(value) in (list, tuple):
            return type(value)(self._describe(v, f"{path}[{i}]", facts, seen, placed) for i, v in enumerate(value))
        if type(value) is dict and all(type(k) in (str, int) for k in value):
            return {k: self._describe(v, f"{path}[{k!r}]", facts, seen, placed) for k, v in value.items()}
        self.handles[id(value)] = value
        kind = type(value).__name__
        if type(value) is torch.Tensor:
            kind = f"tensor on {value.device.type}, layout {str(value.layout).removeprefix('torch.')}"
        return wire.Handle(id(value), kind)


class _Watched(list[Any]):
    """The list of allocations of a call; each one joins the address book as it is made."""

    def __init__(self, book: Any) -> None:
        super().__init__()
        self.book = book

    def append(self, guard: Any) -> None:
        super().append(guard)
        if guard.nbytes:
            self.book.allow(guard.data.data_ptr(), guard.nbytes, "a tensor that the submission allocated")


def _flags(flags: list[torch.Tensor]) -> list[bool]:
    """Flags on a device as Python's, with one wait for all of them."""
    return [bool(f) for f in torch.stack(flags).tolist()] if flags else []


def _untouched(value: Any) -> Any:
    """A tensor of the described shape in memory that is never touched, so that a gigabyte costs nothing."""
    if not (isinstance(value, dict) and "untouched" in value):
        return value
    shape, pitch = value["untouched"], value["pitch"]
    whole = torch.empty([*shape[:-1], pitch or shape[-1]], dtype=value["dtype"])
    return whole[..., : shape[-1]]


def walk(values: Any, names: Any, out: dict[str, torch.Tensor]) -> None:
    for value, name in zip(values, names, strict=True):
        if isinstance(value, torch.Tensor):
            out[name] = value
        elif isinstance(value, (list, tuple)):
            walk(value, [f"{name}[{i}]" for i in range(len(value))], out)
        elif isinstance(value, dict):
            walk(value.values(), [f"{name}[{k}]" for k in value], out)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from _leaves(v)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


def plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)


def plain_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor's bytes, on its device."""
    plain = tensor.detach().resolve_conj().resolve_neg().reshape(-1)
    # `contiguous` would keep the odd stride of a tensor of one element, which cannot be viewed as bytes.
    return plain.clone(memory_format=torch.contiguous_format).view(torch.uint8)


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.numel() == 0 or b.numel() == 0 or a.device != b.device:
        return False
    low_a, low_b = a.untyped_storage().data_ptr(), b.untyped_storage().data_ptr()
    return low_a < low_b + b.untyped_storage().nbytes() and low_b < low_a + a.untyped_storage().nbytes()


def failure_row(failure: Any) -> dict[str, Any]:
    return {name: getattr(failure, name) for name in ("kernel", "target", "line", "source", "message")}


def explain(error: BaseException, folder: Path) -> dict[str, Any]:
    """What an exception means for the grade, with the frames that are the student's own."""
    root: BaseException = error
    if os.environ.get("TRITON_INTERPRET") == "1":
        from harness import interpreter

        root = interpreter.root_cause(error)
    if isinstance(error, Rejected):
        return error.reply
    if isinstance(root, SyntaxError) and isinstance(error, SyntaxError):
        source = (root.text or "").strip()
        where = [{"file": Path(root.filename or "").name, "line": root.lineno or 0, "source": source, "function": ""}]
        return {"status": "compile error", "kind": "syntax", "message": f"SyntaxError: {root.msg}", "where": where}
    where = []
    seen: BaseException | None = error
    while seen is not None:
        frames = [
            {
                "file": os.path.relpath(f.filename, folder), "line": f.lineno or 0, "source": (f.line or "").strip(),
                "function": f.name,
            }
            for f in traceback.extract_tb(seen.__traceback__)
            if f.filename.startswith(str(folder))
        ]
        where = frames or where
        seen = seen.__cause__ or seen.__context__
    name, text = type(root).__name__, str(root).strip()[:2000]
    reply: dict[str, Any] = {"kind": name, "message": f"{name}: {text}" if text else name, "where": where}
    module = type(root).__module__
    if isinstance(root, NotImplementedError) and where and str(where[-1]["source"]).startswith("raise"):
        return {**reply, "status": "not started"}
    if isinstance(root, (MemoryError, torch.OutOfMemoryError)) or any(t in text for t in _OUT_OF_MEMORY):
        return {**reply, "status": "out of memory"}
    if any(t in text for t in _DEVICE_FAULTS) or name == "AcceleratorError":
        # Further lines of CUDA's message are advice for people who debug CUDA programs.
        return {**reply, "status": "device fault", "fatal": True, "message": reply["message"].splitlines()[0]}
    if name == "PermissionError" and "a submission may not do this" in text:
        return {**reply, "status": "refused"}
    if name in _COMPILE_ERRORS or module.startswith("triton.compiler"):
        return {**reply, "status": "compile error"}
    return {**reply, "status": "failed"}


def main(sock: socket.socket, request: dict[str, Any], namespaces: tuple[str, ...]) -> None:
    """Shut the process in, then answer requests until the examiner hangs up."""
    scratch = Path(request["scratch"])
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # the parent's choice is not ours
    level = "none"
    box = Mailbox(request["mailbox_fd"]) if request["clock"] else None
    if request["sandbox"]:
        if "pid" in namespaces:
            with contextlib.suppress(OSError):
                sandbox.fresh_proc()
        for folder, kept in request["covered"].items():
            sandbox.show_only(Path(folder), map(Path, kept))
        sandbox.close_fds([0, 1, 2, sock.fileno()])
        cage = sandbox.Cage(
            scratch=scratch, readable=tuple(Path(p) for p in request["readable"]),
            executable=sandbox.default_executable() if request["mode"] != "interpret" else (),
            gpu=request["mode"] == "gpu", limits=sandbox.Limits(**request["limits"]),
        )  # fmt: skip
        reached = sandbox.enter(cage)
        level = str(sandbox.Level.BUBBLEWRAP if request["covered"] and reached is sandbox.Level.LANDLOCK else reached)
    from harness.worker import redo  # which builds on this module; the warm parent has imported it

    os.chdir(scratch)
    channel = Channel(sock)
    worker = Worker(request, channel)
    evidence.install(str(worker.folder) + os.sep)
    if request["kept"] is not None:
        kept_kernels.install(Path(request["kept"]))
    if worker.mode != "compile":
        tuning.install()
    if worker.device.type == "cuda":
        from harness.worker import cuda_vmm

        cuda_vmm.library()
        if request["clock"]:
            clock.prepare()
            trace.prepare()
        torch.cuda.init()  # type: ignore[no-untyped-call]
    channel.send({"status": "ok", "sandbox": level})
    clocked = timed.Timed(worker, box)
    handlers = {name: getattr(worker, name) for name in _OPERATIONS}
    handlers |= {name: getattr(clocked, name) for name in timed.OPERATIONS}
    handlers |= {name: getattr(redo.Redo(worker), name) for name in redo.OPERATIONS}
    while (message := channel.receive()) is not None:
        try:
            reply = handlers[message["op"]](message)
        except BaseException as error:  # whatever a submission raises, the examiner hears of it
            reply = explain(error, worker.folder)
            linecache.clearcache()
        with contextlib.suppress(Exception):  # a submission may have closed or replaced it
            sys.stdout.flush()
        channel.send({**reply, "ticket": message["ticket"]})
        if reply.get("fatal"):
            return

"""Compile what a host function launches for a GPU that is not there.

    prepare("sm_90")                    # once, in a process forked for this target
    with recording() as compiled:
        matmul(a, b)                    # CPU tensors: shape, strides, dtype, alignment count, values do not
    compiled[0].registers               # one `Compiled` a kernel, signature and configuration

Every launch of a jitted function, directly or through `triton.autotune` and `triton.heuristics`, compiles and
runs nothing, so what host code reads from a kernel's output is 0. One target a process: Triton keeps what it
compiled by device number and would give a second target the first one's code. Not with TRITON_INTERPRET: then
kernels are not compiled at all.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner
from triton.runtime.cache import get_cache_manager
from triton.runtime.jit import JITFunction

from harness.errors import MachineError

from . import binutils, failures, resources, standin
from .failures import CompileFailure
from .targets import Target

__all__ = ["CompileFailure", "Compiled", "Recording", "last_words", "prepare", "recording"]

TENSOR_MEMORY_COLUMNS = 512  # of a Blackwell multiprocessor, as Triton checks it at launch


@dataclass(frozen=True)
class Compiled:
    """A kernel as the compiler made it for one signature and one configuration.

    Widths are bits of one thread's accesses to global memory, `spills` 32-bit registers a thread, the rest
    bytes or counts of instructions. They are read from SASS (AMDGCN on gfx942), or from PTX where `recording`
    was told not to disassemble. `asm` holds ttir, ttgir, llir, and ptx, cubin, sass or amdgcn, hsaco.
    """

    kernel: str
    file: str
    line: int
    target: str
    config: Mapping[str, Any] | None
    registers: int
    spills: int
    local_bytes: int
    shared_bytes: int
    max_shared: int
    widest_load: int
    widest_store: int
    mma: int
    mma_kinds: tuple[str, ...]
    async_copy: int
    num_warps: int
    num_stages: int
    asm: Mapping[str, str | bytes] = field(repr=False)


class Recording(list[Compiled]):
    """What was compiled, in order, each signature and configuration once.

    `failures` holds what was raised at a launch: a submission that catches it hides nothing. `passed_over`
    holds the configurations that do not compile of an autotuned kernel of which another one does: Triton's
    autotuner passes over them as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[CompileFailure] = []
        self.passed_over: list[CompileFailure] = []


_prepared: tuple[Target, contextlib.ExitStack] | None = None


def prepare(target: str) -> None:
    """Make this process compile for `target` ("sm_80", "sm_90", "sm_100" or "gfx942") until it ends.

    From here on host code sees that GPU (`standin.cuda`), also while a submission's module is imported.
    Raises ValueError for another target, MachineError in an interpreting process or when another target was
    prepared.
    """
    global _prepared
    if _prepared is not None:
        if _prepared[0].name == target:
            return
        raise MachineError(f"this process compiles for {_prepared[0].name}", f"fork another one for {target}")
    # Interpreted or not is settled for Triton's own library when it is imported, for a kernel when it is
    # decorated.
    if triton.knobs.runtime.interpret or not isinstance(tl.sum, JITFunction):
        raise MachineError("kernels cannot be compiled in a process that interprets them",
                           "start it without TRITON_INTERPRET")  # fmt: skip
    stack = contextlib.ExitStack()
    _prepared = stack.enter_context(standin.cuda(target, zero_new_memory=True)), stack


@contextlib.contextmanager
def recording(max_configs: int = 8, *, disassemble: bool = True) -> Iterator[Recording]:
    """Compile every launch inside the block for the prepared target; yields the list that fills up.

    Of an autotuned kernel the first `max_configs` configurations that its own pruning leaves are compiled;
    nothing is timed. `disassemble` costs about .3 s a kernel and target the first time (the text is kept in
    Triton's cache folder); without it widths and tensor-core instructions are those of the PTX. Raises
    CompileFailure at the launch that fails, MachineError when nothing was prepared.
    """
    if _prepared is None:
        raise MachineError("no target to compile for", "call prepare() first")
    if max_configs < 1:
        raise ValueError(f"'max_configs' must be at least 1 (got {max_configs!r})")
    recorder = _Recorder(_prepared[0], max_configs, disassemble)
    launch, tune = JITFunction.run, Autotuner.run

    @functools.wraps(launch)
    def compile_launch(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        # Triton's own `run` stops short of launching when it warms up.
        return recorder.launch(self, functools.partial(launch, self, *args, grid=grid, warmup=True, **kwargs))

    @functools.wraps(tune)
    def compile_configurations(self: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.tune(self, args, kwargs)

    JITFunction.run, Autotuner.run = compile_launch, compile_configurations
    try:
        yield recorder.found
    finally:
        JITFunction.run, Autotuner.run = launch, tune


class _Recorder:
    def __init__(self, target: Target, max_configs: int, disassemble: bool) -> None:
        self.target, self.max_configs, self.disassemble = target, max_configs, disassemble
        self.found = Recording()
        self.config: dict[str, Any] | None = None
        self.tuning = False
        self.seen: dict[tuple[str, str], CompileFailure | None] = {}

    def launch(self, function: Any, launch: Callable[[], Any]) -> Any:
        """Compile one launch; gives Triton's kernel object, as a launch does."""
        try:
            return self._checked(function, _compile(function, launch, self.target, self.config))
        except CompileFailure as failure:
            if not (failure.skippable and self.tuning):
                _add(failure, self.found.failures)
            raise

    def _checked(self, function: Any, kernel: Any) -> Any:
        """The kernel, described in the recording when it is new; raises CompileFailure where it is over a
        limit."""
        if kernel is None:  # a hook of Triton's told it not to compile
            return None
        key = (str(kernel.hash), repr(self.config))
        if key not in self.seen:
            self.seen[key] = over = self._over_limit(function, kernel)
            if over is None:
                self.found.append(_described(function, kernel, self.target, self.config, self.disassemble))
        if (over := self.seen[key]) is not None:
            raise over
        return kernel

    def tune(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compile the configurations of an autotuned kernel; the first that compiles is the best one.

        Hooks run as they would for a launch: those of a configuration set the block shapes of descriptors.
        """
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        several = len(tuner.configs) > 1
        configs = (tuner.prune_configs(kwargs) if several else tuner.configs)[: self.max_configs]
        kernel, best, refused = None, None, []
        before = self.config, self.tuning
        for config in configs:
            # Triton passes over some failures while it times, but a single configuration it just launches.
            self.config, self.tuning = config.all_kwargs(), several
            try:
                compiled = self._configured(tuner, config, args, kwargs)
            except CompileFailure as failure:
                if not (failure.skippable and several):
                    raise
                refused.append(failure)
            else:
                kernel, best = (compiled, config) if best is None else (kernel, best)
            finally:
                self.config, self.tuning = before
        tuner.nargs = None
        if best is None and refused:
            _add(refused[0], self.found.failures)
            raise refused[0]
        for other in refused:
            _add(other, self.found.passed_over)
        tuner.best_config = best
        return kernel

    def _configured(self, tuner: Any, config: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if clash := sorted(kwargs.keys() & config.kwargs.keys()):
            raise ValueError(f"{', '.join(clash)}: passed at the launch and set by the autotuner as well")
        chosen = {**kwargs, **config.all_kwargs()}
        named = {**tuner.nargs, **chosen}
        if config.pre_hook:
            config.pre_hook(named)
        tuner.pre_hook(named)
        kernel = tuner.fn.run(*args, **chosen)
        tuner.post_hook(named, exception=None)
        return kernel

    def _over_limit(self, function: Any, kernel: Any) -> CompileFailure | None:
        """The limits that Triton itself checks when a kernel is loaded."""
        target, metadata = self.target, kernel.metadata
        threads = metadata.num_warps * target.warp_size
        tensor_memory = getattr(metadata, "tmem_size", None) or 0
        limits: tuple[tuple[failures.Kind, int, int, str], ...] = (
            ("shared memory", metadata.shared, target.max_shared, "smaller blocks or num_stages may help"),
            ("tensor memory", tensor_memory, TENSOR_MEMORY_COLUMNS, "smaller blocks may help"),
            ("threads", threads, target.max_threads, "a smaller num_warps helps"),
        )
        for kind, needed, limit, remedy in limits:
            if needed > limit:
                return failures.over_limit(function, target.name, kind, needed, limit, remedy, self.config)
        return None


def _add(failure: CompileFailure, failures_so_far: list[CompileFailure]) -> None:
    """A kernel that is launched in a loop fails each time; say it once."""
    if str(failure) not in map(str, failures_so_far):
        failures_so_far.append(failure)


# One compilation --------------------------------------------------------------------------------------------


def _compile(function: Any, launch: Callable[[], Any], target: Target, config: dict[str, Any] | None) -> Any:
    """Run `launch`, which compiles; any error becomes a CompileFailure. Its output is shown only if it
    succeeds."""
    printed = io.StringIO()
    with _standard_error(f"{function.fn.__name__} for {target.name}\n") as log:
        try:
            with contextlib.redirect_stdout(printed):
                kernel = launch()
        except Exception as error:
            diagnostics = log.read_text(encoding="utf-8", errors="replace")
            raise failures.from_exception(
                error, function, target.name, printed.getvalue(), diagnostics, config
            ) from None
    if printed.getvalue():
        sys.stdout.write(printed.getvalue())  # tl.static_print
    return kernel


def _log(pid: int) -> Path:
    return Path(tempfile.gettempdir(), f"compiling-{pid}.log")


@contextlib.contextmanager
def _standard_error(first_line: str) -> Iterator[Path]:
    """Send the process's standard error, which MLIR and LLVM write to past Python, to a file; yields its
    path.

    The file has a name because LLVM ends the process at some errors: then `last_words` reads what it said.
    """
    sys.stderr.flush()
    path, saved = _log(os.getpid()), os.dup(2)
    try:
        with path.open("w", encoding="utf-8") as file:
            file.write(first_line)
            file.flush()
            os.dup2(file.fileno(), 2)
            try:
                yield path
            finally:
                sys.stderr.flush()
                os.dup2(saved, 2)
    finally:
        os.close(saved)
        path.unlink(missing_ok=True)


def last_words(pid: int, folder: str | os.PathLike[str] | None = None) -> str | None:
    """What the compiler wrote before it took process `pid` with it: the kernel on the first line; None if it
    did not.

    `folder` is that process's folder for temporary files, if it is not this one's. The file is removed.
    """
    path = Path(folder, _log(pid).name) if folder is not None else _log(pid)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    path.unlink(missing_ok=True)
    return text


# What was made ----------------------------------------------------------------------------------------------


def _described(
    function: Any, kernel: Any, target: Target, config: dict[str, Any] | None, disassemble: bool
) -> Compiled:
    asm: dict[str, str | bytes] = {name: text for name, text in kernel.asm.items() if name != "source"}
    usage, code = _read(kernel, asm, disassemble)
    file, line = failures.definition(function)
    return Compiled(
        kernel=str(function.fn.__name__), file=file, line=line, target=target.name,
        config=None if config is None else dict(config),
        registers=usage.registers, spills=usage.spills, local_bytes=usage.local_bytes,
        shared_bytes=int(kernel.metadata.shared), max_shared=target.max_shared,
        widest_load=code.widest_load, widest_store=code.widest_store,
        mma=code.mma, mma_kinds=code.mma_kinds, async_copy=code.async_copy,
        num_warps=int(kernel.metadata.num_warps), num_stages=int(kernel.metadata.num_stages), asm=asm,
    )  # fmt: skip


def _read(
    kernel: Any, asm: dict[str, str | bytes], disassemble: bool
) -> tuple[resources.Usage, resources.Instructions]:
    """Usage and instructions; adds the SASS to `asm` where it was asked for."""
    if "amdgcn" in asm:
        text = str(asm["amdgcn"])
        return resources.usage_from_amdgcn(text), resources.instructions_from_amdgcn(text)
    cubin = asm["cubin"]
    assert isinstance(cubin, bytes)
    printed = _kept(kernel, "usage", cubin, binutils.resource_usage)
    usage = resources.usage_from_cuobjdump(printed, kernel.name)
    if not disassemble:
        return usage, resources.instructions_from_ptx(str(asm["ptx"]))
    sass = asm["sass"] = _kept(kernel, "sass", cubin, binutils.sass)
    return usage, resources.instructions_from_sass(sass)


def _kept(kernel: Any, kind: str, cubin: bytes, make: Callable[[bytes], str]) -> str:
    """`make(cubin)`, kept beside the kernel in Triton's cache folder."""
    cache = get_cache_manager(kernel.hash)
    name = f"{kernel.name[:150]}.{kind}"
    if path := cache.get_file(name):
        return Path(path).read_text(encoding="utf-8")
    text = make(cubin)
    cache.put(text, name, binary=False)
    return text

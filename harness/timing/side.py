"""One side of a pair: calls a function on new values and takes the time. The same code times submission and baseline.

The submission's side lives in its worker, the baseline's in the examiner. Three ways to call:

    sample   one call between two events of the device
    traced   samples while the profiler is on
    burst    many calls one after the other, for a clock outside of this process
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from harness import data
from harness.timing import clock
from harness.timing.trace import Kernel, Trace

FEW = 16  # elements of an output that show that a burst is over
_ASKED = struct.Struct(f"<{1 + FEW}q")


def asked(number: int, index: torch.Tensor) -> bytes:
    """The question for `FEW` elements of the output of a call, as it is sent."""
    return _ASKED.pack(number, *index.tolist())


def few(question: bytes) -> tuple[int, torch.Tensor]:
    """The call and the flat positions that such a question is about."""
    number, *index = _ASKED.unpack(question)
    return number, torch.tensor(index)


def as_bytes(values: Sequence[torch.Tensor]) -> bytes:
    """Elements of outputs as they lie in memory, one output after the other."""
    return b"".join(bytes(v.view(torch.uint8).numpy()) for v in values)


class Side:
    """`function` on `device`; between calls `flush_bytes` are written, so that the L2 is cold."""

    def __init__(self, function: Callable[..., Any], device: torch.device, flush_bytes: int) -> None:
        self.function, self.device = function, device
        self.flush = torch.empty(flush_bytes // 4, dtype=torch.int32, device=device)
        self.outputs: list[Any] = []  # of the last sample, or of every call of the last burst
        self.places = 1  # calls whose arguments and outputs are held, so that those of the next ones lie elsewhere
        self._args: list[list[Any]] = []
        self._held: deque[tuple[list[list[Any]], list[Any]]] = deque()
        self._trace: Trace | None = None
        clock.prepare_on(device)

    def sample(self, case: dict[str, Any], seed: int) -> float:
        """The milliseconds of one call on the values of `seed`."""
        while len(self._held) >= self.places:
            self._held.popleft()
        self._held.append((self._args, self.outputs))
        self.outputs = []
        with clock.on(self.device):
            with self._harness():
                self._args = [data.arguments(case, seed, self.device)]
            around = self._trace.call if self._trace is not None else None
            output, milliseconds = clock.call(self.function, self._args[0], self.flush, self._harness, around)
        self.outputs = [output]
        return milliseconds

    def rehearse(self, case: dict[str, Any], seed: int) -> None:
        """Load what makes values, and what looks at outputs; such values stand for one."""
        with clock.on(self.device):
            self.outputs = [data.arguments(case, seed, self.device)]
            self.chosen(0, torch.zeros(1, dtype=torch.int64))
            self.give_back()

    def fill(self, case: dict[str, Any], seeds: Sequence[int]) -> None:
        """Make the values of a burst, one call's for each seed."""
        self.outputs = []
        self._held.clear()
        with clock.on(self.device):
            self._args = [data.arguments(case, seed, self.device) for seed in seeds]
            clock.wait_for_all()

    def burst(self, spin_ms: float) -> float:
        """A call on each of those values, queued while the device spins for `spin_ms`. The milliseconds that the
        host took to queue them: the calls follow on each other where that is less."""
        with clock.on(self.device):
            self.outputs, queued = clock.burst(self.function, self._args, self.flush, spin_ms)
        return queued

    def clocked(self, spin_ms: float, number: int, index: torch.Tensor) -> tuple[float, float]:
        """A burst, until elements of an output are there, by this process' clock: the milliseconds of all of it, and those
        that queueing took."""
        started = time.perf_counter()
        queued = self.burst(spin_ms)
        self.bytes_of(number, index)
        return 1e3 * (time.perf_counter() - started), queued

    def give_back(self) -> None:
        """The memory of the last calls, back to the device."""
        self.outputs, self._args = [], []
        self._held.clear()
        torch.cuda.empty_cache()

    def start_trace(self, folder: Path) -> None:
        """From now on samples are traced."""
        self._trace = Trace(folder)

    def stop_trace(self) -> tuple[list[list[Kernel]], list[Kernel]]:
        """The kernels of each sample since, and those outside of any."""
        trace, self._trace = self._trace, None
        if trace is None:
            raise RuntimeError("nothing is being traced")
        return trace.stop()

    def chosen(self, number: int, index: torch.Tensor) -> tuple[list[torch.Tensor], list[tuple[int, ...]]]:
        """Elements of the output of a call, at flat positions that are taken modulo its size, and its shapes."""
        with self._harness():
            leaves = [t for t in _leaves(self.outputs[number]) if type(t) is torch.Tensor]
            index = index.to(self.device)
            values = [t.detach().reshape(-1)[index % max(1, t.numel())].cpu() if t.numel() else t.cpu() for t in leaves]
        return values, [tuple(t.shape) for t in leaves]

    def bytes_of(self, number: int, index: torch.Tensor) -> bytes:
        """The elements that `chosen` gives."""
        return as_bytes(self.chosen(number, index)[0])

    def _harness(self) -> contextlib.AbstractContextManager[None]:
        return self._trace.harness() if self._trace is not None else contextlib.nullcontext()


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _leaves(v)]
    return _leaves(list(value.values())) if isinstance(value, dict) else [value]

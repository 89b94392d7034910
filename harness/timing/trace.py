"""The profiler's trace: which kernels ran for a call, and how long each of them took by the device's own clock.

Events also see how the host launches: on an H200 they read 2.4 us more than the trace, which is twice a kernel of a
microsecond. So short calls are judged by the trace. It also says whose kernels did the work.

The profiler is Triton's own, Proton, on CUPTI: it is there wherever Triton is, and its first use in a process costs .03 s
(that of `torch.profiler` 3.4 s). Copies and fills by the driver (cudaMemcpyAsync, cudaMemsetAsync) are not in its trace;
the wall clock sees them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_numbers = itertools.count()


@dataclass(frozen=True)
class Kernel:
    """One kernel of a call: how often it ran, and the milliseconds of all of that."""

    name: str
    count: int
    ms: float


@functools.cache
def _proton() -> Any:
    """Triton's profiler, imported when first asked for: it belongs to GPUs."""
    import triton.profiler

    return triton.profiler


def prepare() -> None:
    """Import what tracing needs, before a submission is imported."""
    _proton()


class Trace:
    """Of this process, from now until `stop`. Writes its file to `folder`. Raises RuntimeError where it cannot start."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / f"trace-{next(_numbers)}"
        self._calls = 0
        self._session = _proton().start(str(self._file), context="shadow", data="tree", backend="cupti")

    @contextlib.contextmanager
    def harness(self) -> Iterator[None]:
        """Around kernels that belong to no call: inputs, the cold L2."""
        with _proton().scope("harness"):
            yield

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Around the next call."""
        number, self._calls = self._calls, self._calls + 1
        with _proton().scope(f"call {number}"):
            yield

    def stop(self) -> tuple[list[list[Kernel]], list[Kernel]]:
        """The kernels of each call, in the order of the calls, and those that ran outside of any."""
        _proton().finalize(self._session, "hatchet")
        written = Path(f"{self._file}.hatchet")
        try:
            return read(json.loads(written.read_text()), self._calls)
        finally:
            written.unlink(missing_ok=True)


def read(document: list[dict[str, Any]], calls: int) -> tuple[list[list[Kernel]], list[Kernel]]:
    """A tree as Proton writes it (its format "hatchet"): the kernels of each of `calls` calls, and those outside."""
    found: list[list[Kernel]] = [[] for _ in range(calls)]
    outside: list[Kernel] = []
    for node in document[0]["children"]:
        name, kernels = node["frame"]["name"], list(_kernels(node))
        if name.startswith("call ") and not _is_kernel(node):
            found[int(name.removeprefix("call "))] += kernels
        elif name != "harness" or _is_kernel(node):
            outside += kernels
    return found, outside


def _is_kernel(node: dict[str, Any]) -> bool:
    return "time (ns)" in node["metrics"]


def _kernels(node: dict[str, Any]) -> Iterator[Kernel]:
    """Those of a node and below it: a submission may have scopes of its own."""
    metrics = node["metrics"]
    if _is_kernel(node) and metrics["count"]:
        yield Kernel(node["frame"]["name"], int(metrics["count"]), metrics["time (ns)"] / 1e6)
    for child in node["children"]:
        yield from _kernels(child)


def total_ms(kernels: Sequence[Kernel]) -> float:
    """How long the device computed for a call; the gaps between its kernels do not count."""
    return sum(kernel.ms for kernel in kernels)

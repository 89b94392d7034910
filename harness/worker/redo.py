"""A worker in which the submission is never imported: it does again, or compiles, what the tape of a call tells."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from harness.worker.rejected import Rejected
from harness.worker.replay import Replay, Unreadable
from harness.worker.serve import Worker, failure_row, plain, plain_bytes, walk

OPERATIONS = ("replay", "recompile")


class Redo:
    """The operations; of a worker that has loaded nothing yet."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def replay(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what a call did again with other values: the outputs, and whether an argument has changed."""
        again, tensors = self._prepared(request)
        before = [plain_bytes(tensor) for tensor in tensors]
        with self.worker.interpreting(self.worker.book({}), overflow=request["overflow"]):
            outputs = _told(again, tensors)
        changed = any(not torch.equal(old, plain_bytes(new)) for old, new in zip(before, tensors, strict=True))
        return {"status": "ok", "outputs": [plain(tensor) for tensor in outputs], "changed": changed}

    def recompile(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compile the kernels of an interpreted call. In a cache of their own: no other run has a call of these shapes, so
        they are not worth keeping."""
        from harness.compiler import offline

        again, tensors = self._prepared(request)
        with _cache_aside(self.worker.folder), offline.recording(disassemble=False) as compiled:
            try:
                _told(again, tensors)
            except Rejected:
                raise
            except Exception:
                if not compiled.failures:
                    raise
        return {"status": "ok", "failures": [failure_row(f) for f in compiled.failures], "kernels": len(compiled)}

    def _prepared(self, request: dict[str, Any]) -> tuple[Replay, list[torch.Tensor]]:
        if self.worker.module is not None:
            raise Rejected(status="refused", message="the submission was imported here")
        tensors: dict[str, torch.Tensor] = {}
        walk(request["args"], [str(i) for i in range(len(request["args"]))], tensors)
        folder = Path(tempfile.mkdtemp(prefix="kernels-", dir=self.worker.folder))
        return Replay(request["tape"], request["files"], folder, request["moves"]), list(tensors.values())


def _told(again: Replay, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    try:
        return again.run(tensors)
    except Unreadable as error:
        raise Rejected(status="refused", message=str(error)) from None


@contextlib.contextmanager
def _cache_aside(folder: Path) -> Iterator[None]:
    kept = os.environ["TRITON_CACHE_DIR"]
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="cache-", dir=folder)
    try:
        yield
    finally:
        os.environ["TRITON_CACHE_DIR"] = kept

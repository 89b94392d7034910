"""A call done again on other values, in a worker that has run none of the submission's host code.

What a submission's own process says of who did the work can be forged there. So an interpreted call leaves a tape of its
launches (`worker.tape`), and some calls, chosen when they are over, are done again from the tape with other values of the
same shapes (`worker.replay`). Kernels alone can have made an output that is right again: whatever the host knew of the
first values is of no use then. Nothing need be believed of the tape.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness.course import Limits
from harness.examiner.warm import Worker, WorkerDied
from harness.grading.domain import Drawn, Tensor, normal
from harness.grading.grader import TensorGrader
from harness.status import Status

if TYPE_CHECKING:
    from harness.examiner.trial import Trial

SHARE = 0.25  # of the calls after the first one of a check, which is done again in any case
CAUSE = "the output must be made by your own Triton kernels; a number that the host works out from the values belongs into one"


class Again:
    """The second worker of one check. `start` forks one in which nothing is loaded; `files` are the submission's."""

    def __init__(self, start: Callable[[], Worker], files: Mapping[str, bytes], limits: Limits) -> None:
        self._start, self._files, self._limits = start, dict(files), limits
        self._worker: Worker | None = None
        self._random = random.SystemRandom()  # not of the seed, which a student knows
        self._right = False  # whether one was
        self._offence = False  # from the first one on all are done again: smaller examples are found, and found again

    def drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def hold(self, trial: Trial, drawn: Drawn) -> None:
        """Hold the launches of the last call, which was on `drawn`, to the contract on other values. Raises `Wrong`."""
        from harness.examiner.trial import Wrong

        reply, grader = trial.reply, trial.lab.grader
        if not grader.kernels or grader.in_place or not isinstance(grader, TensorGrader):
            return
        if self._right and not self._offence and self._random.random() > SHARE:
            return
        if reply.get("tape") is None:
            self._offence = True
            what = f"one was given {reply['untold']}" if reply.get("untold") else "they are not told"
            raise Wrong(f"its launches cannot be done again: {what}", status=Status.REFUSED, cause=CAUSE)
        other = revalued(grader, drawn, self._random)
        try:
            self._judge(trial, reply, other)
            self._right = True
        except Wrong as wrong:
            self._offence = True
            trial.judge(trial.run(*other.values(), names=other.names(), poison="nan"), other)  # is it wrong there as well?
            trial.drawn = drawn
            raise Wrong(
                f"its launches, done again on other values of the same shapes, do not give what is due: {wrong.message}",
                status=Status.REFUSED, cause=CAUSE,
            ) from None  # fmt: skip
        trial.drawn = drawn

    def _judge(self, trial: Trial, reply: dict[str, Any], other: Drawn) -> None:
        from harness.examiner.trial import Wrong, raise_reply

        request = {
            "op": "replay", "tape": reply["tape"], "files": self._files, "args": other.values(),
            "overflow": trial.lab.grader.overflow, "moves": trial.lab.grader.moves,
        }  # fmt: skip
        if self._worker is None or self._worker.dead:
            self._worker = self._start()
        try:
            answer = self._worker.ask(request, self._limits.call_s)
        except WorkerDied as died:
            self.drop()
            raise Wrong(died.message, status=died.status) from None
        raise_reply(answer)
        made = answer.get("outputs")
        if not isinstance(made, list) or answer.get("changed") is not False:  # kernels were run there, and may be hostile
            raise Wrong("an input is changed")
        trial.judge(_with(reply["value"], iter(made)), other)


def _with(value: Any, made: Iterator[Any]) -> Any:
    """`value` with its tensors replaced, in order."""
    if isinstance(value, torch.Tensor):
        return next(made, None)
    if isinstance(value, (list, tuple)):
        return type(value)(_with(v, made) for v in value)
    return {k: _with(v, made) for k, v in value.items()} if isinstance(value, dict) else value


def revalued(grader: TensorGrader, drawn: Drawn, source: random.Random) -> Drawn:
    """The example with other values in the same layouts: of all floats, and of integers that may have any value. What the
    host may read stays, as do indices, lengths and masks: what they may be depends on one another."""
    rng = np.random.Generator(np.random.Philox(source.getrandbits(62)))
    args = dict(drawn.args)
    for name, spec in grader.inputs.specs.items():
        old = args.get(name)
        if not isinstance(spec, Tensor) or not isinstance(old, torch.Tensor) or spec.host or name in grader.readable:
            continue
        if not (old.dtype.is_floating_point or spec.values is normal) or old.numel() == 0:
            continue
        args[name] = _laid_like(old, spec.values(rng, tuple(old.shape), old.dtype, drawn.dims))
    return Drawn(args, drawn.dims)


def _laid_like(old: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """`values` in a copy of the whole storage of `old`, at the same places; along a stride of 0 the first one counts."""
    storage = torch.empty(0, dtype=torch.uint8).set_(old.untyped_storage()).clone().untyped_storage()
    view = torch.empty(0, dtype=old.dtype).set_(storage, old.storage_offset(), old.shape, old.stride())
    once, first = view, values
    for dim, stride in enumerate(old.stride()):
        if stride == 0:
            once, first = once.narrow(dim, 0, 1), first.narrow(dim, 0, 1)
    once.copy_(first)
    return view

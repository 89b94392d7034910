"""An autotuner's choice, taken in turns: every configuration that it may choose is held to the contract.

Which configuration is the fastest depends on the device, on sizes and on what else runs, so that a wrong one among ten is
chosen in one run and not in the next. In a call that is checked the tuner therefore measures nothing: it takes the
configuration whose turn it is of those that its own pruning leaves, or the next one that compiles. It is launched once
more than the call asks for, as by a tuner that measures. In timed calls the tuner is left alone.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from triton.runtime.autotuner import Autotuner

from harness.interpreter.language import try_config


@dataclass
class Choices:
    """What tuners chose in a call: for each tuned kernel of how many configurations, and the last one taken."""

    turn: int
    made: dict[str, tuple[int, str]] = field(default_factory=dict)


_now: Choices | None = None
_run, _prune, _bench = Autotuner.run, Autotuner.prune_configs, Autotuner._bench


@contextlib.contextmanager
def in_turn(turn: int) -> Iterator[Choices]:
    """Inside, every tuner takes configuration number `turn` (modulo how many there are)."""
    global _now
    _now = choices = Choices(turn)
    try:
        yield choices
    finally:
        _now = None


def install() -> None:
    """Before a submission is imported; does nothing outside of `in_turn`."""
    global _bench
    _bench = Autotuner._bench  # the interpreter's, where kernels are interpreted
    Autotuner.run, Autotuner.prune_configs, Autotuner._bench = run, prune_configs, bench


def run(self: Any, *args: Any, **kwargs: Any) -> Any:
    choices = _now
    if choices is None or len(self.configs) < 2:
        return _run(self, *args, **kwargs)
    state = vars(self)
    if state.get("_turn") != choices.turn:  # the same one for all calls of a turn: two calls must agree to the bit
        self.cache.clear()
        state["_turn"] = choices.turn
    kept, self.cache_results = self.cache_results, False
    measure = state.pop("do_bench", None)
    state["do_bench"] = try_config
    try:
        return _run(self, *args, **kwargs)
    finally:
        self.cache_results = kept
        del state["do_bench"]
        if measure is not None:
            state["do_bench"] = measure
        best = getattr(self, "best_config", None)
        if best is not None:
            count = state.get("_count", len(self.configs))
            choices.made[str(self.base_fn.__name__)] = count, str(best)


def prune_configs(self: Any, kwargs: dict[str, Any]) -> Any:
    pruned = _prune(self, kwargs)
    if _now is None:
        return pruned
    first = _now.turn % len(pruned)
    vars(self).update(_count=len(pruned), _settled=False)
    return [*pruned[first:], *pruned[:first]]


def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
    if _now is None:
        return _bench(self, *args, config=config, **meta)
    state = vars(self)
    if state["_settled"]:
        return [math.inf] * 3
    took = _bench(self, *args, config=config, **meta)
    state["_settled"] = took[0] < math.inf
    return took

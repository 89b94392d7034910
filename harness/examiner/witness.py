"""The examiner's own clock as a witness: how long a call takes seen from outside of the submission's process.

A call on a GPU returns before its work is done, and a message between processes takes longer than many kernels. So the
time of n calls in a row is taken for two n: what does not depend on n cancels in the difference, and the slope is the time
of one call with the cold L2 that precedes it. The device spins while the calls are queued, so that the host's part is
hidden. A clock in the submission's process that was set back, work on a stream that nobody waited for, copies that the
profiler does not see: none of it makes this slope shorter.

The slope is not quite the time of a call by itself. The gap between two kernels is in it; the cold L2 is full of lines that
have yet to be written; a device that does not pause is hotter. All of that is the same for the baseline, whose own clock is
known to be true: by how much it seems longer from outside, a submission may as well. On an H200 that is .5 to 5 us for
kernels below 100 us, and nothing above.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from harness import data
from harness.timing.side import FEW

BURST_MS = 3.0  # of the faster side's time in the longer burst,
LONGEST, SHORTEST = 32, 3  # within so many calls
EMPTY = (8, 32)  # "calls" of bursts that only make the L2 cold
ROUNDS = 2  # bursts of each length in a look; the fastest one counts, since a disturbance only adds
SPIN_MS = 0.2  # for each call: twice what launching a kernel from Python takes, with somebody who looks at it
MOST_SPIN_MS = 30.0
ATTEMPTS = 8  # looks before a disagreement is believed
RETRIES = 3  # bursts in place of one that was queued too slowly
SPARE = 2.0  # the spin, in times of what queueing took: a host that is disturbed takes longer the next time
# By how much a call may seem longer from outside than the baseline does: a share, the gap before a kernel, that before
# each further one.
TOLERANCE, GAP_MS, FURTHER_MS = 0.05, 0.003, 0.0015
# And where a call waits for the device (a `.item()`), so that its launches cannot be queued ahead.
WAITING_MS = 0.2


class Bursting(Protocol):
    """A side of the clock, as far as it is used here."""

    def fill(self, case: dict[str, Any], seeds: Sequence[int]) -> None: ...

    def clocked(self, spin_ms: float, number: int, index: torch.Tensor) -> tuple[float, float]: ...


def lengths(call_ms: float, case_bytes: int, free_bytes: int) -> tuple[int, int]:
    """Calls in the shorter and in the longer burst. `call_ms`: of the faster side; `case_bytes`: of a call's inputs and
    outputs; `free_bytes`: what one side may take for them."""
    fitting = free_bytes // max(1, case_bytes)
    longer = max(2, min(LONGEST, max(SHORTEST, math.ceil(BURST_MS / call_ms)), fitting))
    return max(1, longer // 4), longer


class Slope:
    """The milliseconds of a call and of the cold L2 before it, by this process' clock. Every look makes it better: a
    disturbance only adds, so the fastest bursts of all looks count."""

    def __init__(self, side: Bursting, case: dict[str, Any], counts: tuple[int, int]) -> None:
        self._side, self._case, self._counts = side, case, counts
        self._fastest = dict.fromkeys(counts, math.inf)
        self._spin = 0.0
        self.waited = False  # for the device, within a call, so that no spin hides the host's part

    def look(self, after: Callable[[list[int]], None] | None = None) -> float:
        """Some bursts more. `after` is called with the seeds of one of the longer ones, which nobody knows before."""
        shorter, longer = self._counts
        if not self._spin:
            self._spin, self.waited = _spin_ms(self._side, self._case, longer)
        checked = secrets.randbelow(ROUNDS)
        for turn in range(ROUNDS):
            for count in self._counts:
                seeds = self._burst(count)
                if count == longer and turn == checked and after is not None:
                    after(seeds)
        return (self._fastest[longer] - self._fastest[shorter]) / (longer - shorter)

    def _burst(self, count: int) -> list[int]:
        """The seeds of a burst that was taken the time of; another one when the host was late, but not for ever."""
        for _ in range(RETRIES):
            seeds = _fill(self._side, self._case, count)
            whole, queued = _burst(self._side, self._spin, count)
            self._fastest[count] = min(self._fastest[count], whole)
            if self.waited or queued < self._spin:
                break
        return seeds


def _spin_ms(side: Bursting, case: dict[str, Any], count: int) -> tuple[float, bool]:
    """How long the device must spin for so many calls to be queued meanwhile, with time to spare; and whether they wait
    for the device, so that no spin is long enough."""
    spin = shortest = max(1.0, SPIN_MS * count)
    _fill(side, case, count)
    _burst(side, spin, count)  # the first one has to get memory from the driver, and is no measure
    while True:
        _fill(side, case, count)
        _, queued = _burst(side, spin, count)
        if SPARE * queued < spin:
            return spin, False
        if spin >= MOST_SPIN_MS:
            return (shortest, True) if queued > 0.9 * spin else (spin, False)
        spin = min(MOST_SPIN_MS, 1.1 * SPARE * queued)


def _fill(side: Bursting, case: dict[str, Any], count: int) -> list[int]:
    seeds = [data.fresh_seed() for _ in range(count)]
    side.fill(case, seeds)
    return seeds


def _burst(side: Bursting, spin_ms: float, count: int) -> tuple[float, float]:
    """The milliseconds until elements of an output are there that nobody knows before, and those of queueing."""
    index = torch.tensor([secrets.randbelow(1 << 62) for _ in range(FEW)])
    return side.clocked(spin_ms, secrets.randbelow(count), index)


def excess_ms(claimed_ms: float, outside_ms: float, longer_ms: float, kernels: int, waited: bool) -> float:
    """By how much the time from outside is more than the claim and all that may lie between them; 0 where they agree.

    `longer_ms`: by how much the baseline seems longer; `kernels`: of one call; `waited`: for the device, within a call.
    """
    allowed = claimed_ms * (1 + TOLERANCE) + GAP_MS + FURTHER_MS * max(0, kernels - 1) + (WAITING_MS if waited else 0.0)
    return max(0.0, outside_ms - allowed - longer_ms)

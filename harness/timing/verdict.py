"""From pairs of times to a verdict. Numbers in, numbers out: no device, no clock, no randomness.

A pair is one timed call of the submission and one of the baseline, side by side in time, so that what slows the device
for both (heat, power, a neighbour) cancels in their ratio. The estimate of a case is the median of its pairs' ratios.

Its interval is the distribution-free one of order statistics: the k-th smallest and k-th largest of n ratios enclose
the median unless fewer than k of n fall on one side of it, and the probability of that is a binomial sum whatever the
distribution is (H. A. David and H. N. Nagaraja, *Order Statistics*, 3rd edition, Wiley 2003, section 7.1). A bootstrap
would estimate the same and need random numbers: the same samples could give two verdicts.

Cases are joined by the geometric mean of their medians; half-widths add in quadrature, on the scale of logarithms. The
samples are looked at twice (`looks`); each look spends half of the error that the verdict may have (Bonferroni), so that looking
again does not turn chance into a verdict. What two pairs tell is independent on an H200, so the scatter of a verdict falls
with the root of their number; the second look is at as many as fit into a second of the device for a call of .2 ms. Short
calls scatter more, and to begin and end a trace of them takes as long as 100 pairs: they are looked at later, and need
not be known so well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import median

from harness.status import Performance

LOOKS = (64, 256)  # pairs of a case after which the verdict is tried
LOOKS_SHORT = (192, 512)  # where calls are short
ERROR = 0.01  # probability that the interval of a verdict misses the ratio, over all looks
# Half-width, as a share of the ratio, that a clear verdict must have as well: what is printed is stable. For short calls.
PRECISE, PRECISE_SHORT = 0.0015, 0.01
BUDGET_MS = 1000.0  # of the device, for the pairs of one case
FEWEST_CLEAN = 0.5  # share of the pairs that must be left when disturbed ones are thrown out
DRIFT = 0.05  # change of the clock between the calls of a pair that disturbs it


@dataclass(frozen=True)
class Conditions:
    """The device at one sample: `clock` in MHz (0 where nobody says), `reason` why it was held back, `foreign`
    processes that were on it."""

    clock: int = 0
    reason: str = ""
    foreign: int = 0


@dataclass(frozen=True)
class Pair:
    """Milliseconds of the submission and of the baseline, and the device at each of the two calls."""

    ours: float
    theirs: float
    at: tuple[Conditions, ...] = ()

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def disturbance(pair: Pair) -> str:
    """Why a pair does not count, or nothing."""
    for conditions in pair.at:
        if conditions.foreign:
            return "another process was on the GPU"
        if conditions.reason:
            return conditions.reason
    clocks = [c.clock for c in pair.at if c.clock]
    if clocks and max(clocks) > (1 + DRIFT) * min(clocks):
        return "the clock changed"
    return ""


@dataclass(frozen=True)
class Interval:
    """A ratio and the bounds between which it lies."""

    ratio: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """On the scale of logarithms, where it is a share of the ratio."""
        return (math.log(self.high) - math.log(self.low)) / 2 if self.low > 0 else math.inf


def rank(count: int, error: float) -> int:
    """The largest k so that the k-th smallest and k-th largest of `count` values miss their median with probability
    `error` or less; 0 when there are too few values for any."""
    left, k = 0.0, 0
    while True:
        left += math.comb(count, k) / 2**count
        if 2 * left > error:
            return k
        k += 1


def interval(pairs: Sequence[Pair], error: float = ERROR / len(LOOKS)) -> Interval:
    """The median ratio of one case and its interval; a negative or zero time is the caller's to refuse."""
    ratios = sorted(pair.ratio for pair in pairs)
    count = len(ratios)
    middle = math.sqrt(ratios[(count - 1) // 2] * ratios[count // 2])
    k = rank(count, error)
    if k == 0:
        return Interval(middle, 0.0, math.inf)
    return Interval(middle, ratios[k - 1], ratios[count - k])


def joined(intervals: Iterable[Interval]) -> Interval:
    """The geometric mean of several cases."""
    every = list(intervals)
    middle = math.fsum(math.log(i.ratio) for i in every) / len(every)

    def spread(widths: Iterable[float]) -> float:
        return math.sqrt(math.fsum(w * w for w in widths)) / len(every)

    if any(i.low <= 0 or math.isinf(i.high) for i in every):
        return Interval(math.exp(middle), 0.0, math.inf)
    low = spread(math.log(i.ratio / i.low) for i in every)
    high = spread(math.log(i.high / i.ratio) for i in every)
    return Interval(math.exp(middle), math.exp(middle - low), math.exp(middle + high))


@dataclass(frozen=True)
class Verdict:
    """`status`: passed, failed or inconclusive. `thrown`: how many pairs were left out, and why."""

    status: Performance
    whole: Interval
    cases: tuple[Interval, ...]
    pairs: int
    thrown: Counter[str] = field(default_factory=Counter)
    message: str = ""


def judge(cases: Sequence[Sequence[Pair]], threshold: float, *, final: bool, short: bool = False) -> Verdict | None:
    """The verdict on what was measured so far, or None when more pairs are wanted. `final`: there will be no more; `short`:
    calls are."""
    kept = [[p for p in pairs if not disturbance(p)] for pairs in cases]
    thrown = Counter(d for pairs in cases for p in pairs if (d := disturbance(p)))
    measured = sum(map(len, cases))
    if any(len(k) < FEWEST_CLEAN * len(p) or not k for k, p in zip(kept, cases, strict=True)):
        if not final:
            return None
        # What is left may be what the disturbance left untouched by chance: all of it is shown, none of it decides.
        intervals = tuple(interval(pairs) for pairs in cases)
        why = ", ".join(f"{reason} ({count} of {measured} pairs)" for reason, count in thrown.most_common())
        return Verdict(Performance.INCONCLUSIVE, joined(intervals), intervals, measured, thrown, f"disturbed: {why}")
    intervals = tuple(interval(pairs) for pairs in kept)
    whole = joined(intervals)
    status = Performance.INCONCLUSIVE
    if whole.low >= threshold:
        status = Performance.PASSED
    elif whole.high < threshold:
        status = Performance.FAILED
    if not final and (status is Performance.INCONCLUSIVE or whole.half_width > (PRECISE_SHORT if short else PRECISE)):
        return None
    message = ""
    if status is Performance.INCONCLUSIVE:
        message = f"between {whole.low:.3f} and {whole.high:.3f} after {measured} pairs; {threshold:g} are needed"
    return Verdict(status, whole, intervals, measured, thrown, message)


def looks(cases: int, *, short: bool) -> tuple[int, ...]:
    """Pairs of each case after which the verdict is tried; of several long cases fewer each, whose mean is known better."""
    return LOOKS_SHORT if short else tuple(8 * math.ceil(look / math.sqrt(cases) / 8) for look in LOOKS)


def sequence(
    cases: int, threshold: float, measure: Callable[[int, range], Sequence[Pair]], *, short: bool = False
) -> Verdict:
    """Pairs until there is a verdict. `measure(case, turns)` gives the next pairs of a case, one a turn; `short`: calls are.

    How many there may be follows from the baseline's time alone: a submission cannot buy a shorter look by being slow.
    """
    measured: list[list[Pair]] = [[] for _ in range(cases)]
    tries = looks(cases, short=short)
    for look, further in zip(tries, (*tries[1:], math.inf), strict=True):
        for case, pairs in enumerate(measured):
            pairs += measure(case, range(len(pairs), look))
        found = judge(measured, threshold, final=further > affordable(measured, threshold), short=short)
        if found is not None:
            return found
    raise AssertionError("the last look decides")


def affordable(cases: Sequence[Sequence[Pair]], threshold: float) -> float:
    """Pairs of the slowest case that fit into `BUDGET_MS`, for a submission that just reaches the threshold."""
    slowest = max(median([pair.theirs for pair in pairs]) for pairs in cases)
    return BUDGET_MS / (slowest * (1 + 1 / threshold))


def share(ratio: float, floor: float, threshold: float) -> Decimal:
    """The share of the points for speed that a ratio earns: all at the threshold, none at the floor, linear between."""
    reached, none, full = (Decimal(repr(x)) for x in (ratio, floor, threshold))
    if reached >= full:
        return Decimal(1)
    return max(Decimal(0), (reached - none) / (full - none)) if full > none else Decimal(0)

"""The statistics of a verdict, on simulated clocks: drift, spikes, two speeds, throttling, neighbours."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from harness.status import Performance
from harness.timing import verdict
from harness.timing.verdict import LOOKS, LOOKS_SHORT, PRECISE_SHORT, Conditions, Interval, Pair

QUIET = (Conditions(clock=1980), Conditions(clock=1980))


def clock(rng, count, *, ratio, noise=0.005, drift=0.0, spikes=0.0, modes=()):
    """Pairs of a submission of 1 ms and a baseline `ratio` times as long, on a device that is not quiet.

    `noise` of each sample; `drift`: how much slower both are at the end; `spikes`: share of samples that take 1.2 to 4
    times as long, independently; `modes`: factors that both samples of a pair share.
    """
    pairs = []
    for i in range(count):
        common = (1 + drift * i / count) * (rng.choice(modes) if modes else 1.0)
        ours, theirs = (common * t * math.exp(noise * rng.standard_normal()) for t in (1.0, ratio))
        if rng.random() < spikes:
            ours *= rng.uniform(1.2, 4)
        if rng.random() < spikes:
            theirs *= rng.uniform(1.2, 4)
        pairs.append(Pair(ours, theirs, QUIET))
    return pairs


def one(rng, **weather):
    return clock(rng, 1, **weather)[0]


def until_decided(draw, cases, threshold):
    """A whole sequential verdict. `draw(case)` gives that case's next pair."""
    return verdict.sequence(cases, threshold, lambda case, turns: [draw(case) for _ in turns])


@pytest.mark.parametrize("count", [8, 9, 32, 64, 255, 256])
@pytest.mark.parametrize("error", [0.0025, 0.01, 0.2])
def test_rank_is_the_binomial_one(count, error):
    """Against the definition: both tails together hold at most `error`, and would not with one rank more."""

    def tails(k):
        return 2 * sum(math.comb(count, i) for i in range(k)) / 2**count

    k = verdict.rank(count, error)
    assert tails(k) <= error < tails(k + 1)


def test_too_few_pairs_say_nothing():
    found = verdict.interval([Pair(1.0, 1.0)] * 5, 0.0025)
    assert (found.ratio, found.low, found.high) == (1.0, 0.0, math.inf)
    assert verdict.joined([found, Interval(1, 0.9, 1.1)]).high == math.inf


@pytest.mark.parametrize(
    "weather",
    [{}, {"drift": 0.5}, {"spikes": 0.2}, {"modes": (1.0, 1.3)}, {"drift": 0.3, "spikes": 0.1, "modes": (1.0, 1.1)}],
    ids=["quiet", "drift", "spikes", "two speeds", "all at once"],
)
def test_the_interval_covers_the_truth(weather):
    """Over 400 simulated verdicts no more miss than the error allows (1 % each; 12 of 400 has a probability of .1 %)."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(400):
        found = verdict.interval(clock(rng, 64, ratio=0.93, **weather), 0.01)
        missed += not found.low <= 0.93 <= found.high
    assert missed < 12


@pytest.mark.parametrize("ratio", [0.99, 1.01])
@pytest.mark.parametrize("weather", [{}, {"spikes": 0.1}, {"modes": (1.0, 1.2)}], ids=["quiet", "spikes", "two speeds"])
def test_one_per_cent_beside_the_threshold(ratio, weather):
    """At least 49 of 50 verdicts are right on each side, and none is silently wrong."""
    rng = np.random.default_rng(2)
    right = Performance.PASSED if ratio > 1 else Performance.FAILED
    found = [
        until_decided(lambda case: one(rng, ratio=0.8 * ratio, **weather), 1, 0.8).status
        for _ in range(50)
    ]
    assert found.count(right) >= 49
    assert set(found) <= {right, Performance.INCONCLUSIVE}


def test_on_the_threshold_it_does_not_toss_a_coin():
    """A ratio that is the threshold: chance decides in 1 % of the verdicts a side; the others say `inconclusive`."""
    rng = np.random.default_rng(3)
    found = [until_decided(lambda case: one(rng, ratio=0.8), 1, 0.8) for _ in range(60)]
    decided = [f for f in found if f.status is not Performance.INCONCLUSIVE]
    assert len(decided) <= 3
    assert all("are needed" in f.message for f in found if f.status is Performance.INCONCLUSIVE)


def test_clear_cases_stop_early_and_close_ones_go_on():
    rng = np.random.default_rng(4)
    clear = until_decided(lambda case: one(rng, ratio=0.95, noise=0.001), 1, 0.8)
    close = until_decided(lambda case: one(rng, ratio=0.802), 1, 0.8)
    assert (clear.status, clear.pairs) == (Performance.PASSED, LOOKS[0])
    assert close.pairs > LOOKS[0]


def test_what_is_printed_is_stable():
    """Twenty verdicts on the same noisy code (.5 % a sample): the printed ratios lie within half a per cent."""
    rng = np.random.default_rng(5)
    ratios = [
        until_decided(lambda case: one(rng, ratio=0.95), 1, 0.8).whole.ratio for _ in range(20)
    ]
    assert max(ratios) - min(ratios) < 0.005


def test_cases_are_joined_by_their_geometric_mean():
    rng = np.random.default_rng(6)
    truth = (0.6, 1.2, 0.9)
    found = until_decided(lambda case: one(rng, ratio=truth[case]), 3, 0.8)
    mean = math.prod(truth) ** (1 / 3)
    assert found.status is Performance.PASSED
    assert found.whole.low < mean < found.whole.high
    assert [round(c.ratio, 2) for c in found.cases] == [0.6, 1.2, 0.9]
    # Three cases of equal noise: the mean's interval is narrower than each one's.
    assert found.whole.half_width < min(c.half_width for c in found.cases)


def disturbed(pairs, share, **conditions):
    """The first `share` of the pairs under other conditions, where the baseline ran at half its speed."""
    count = int(share * len(pairs))
    bad = [Pair(p.ours, 2 * p.theirs, (QUIET[0], Conditions(**conditions))) for p in pairs[:count]]
    return bad + pairs[count:]


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ({"clock": 1980, "foreign": 1}, "another process was on the GPU"),
        ({"clock": 1980, "reason": "hot"}, "hot"),
        ({"clock": 1200}, "the clock changed"),
    ],
)
def test_disturbed_pairs_are_thrown_out_and_counted(conditions, reason):
    rng = np.random.default_rng(7)
    pairs = disturbed(clock(rng, 64, ratio=0.9), 0.4, **conditions)
    found = verdict.judge([pairs], 1.0, final=True)
    assert found.status is Performance.FAILED
    assert 0.89 < found.whole.ratio < 0.91
    assert found.thrown == {reason: 25}


def test_a_device_that_is_never_quiet_decides_nothing():
    rng = np.random.default_rng(8)
    pairs = disturbed(clock(rng, 64, ratio=0.9), 0.6, clock=1980, foreign=2)
    assert verdict.judge([pairs], 0.8, final=False) is None
    found = verdict.judge([pairs], 0.8, final=True)
    assert found.status is Performance.INCONCLUSIVE
    assert "another process was on the GPU (38 of 64 pairs)" in found.message


@pytest.mark.parametrize(
    ("ratio", "share"), [(1.2, "1"), (0.8, "1"), (0.79, "0.975"), (0.6, "0.5"), (0.4, "0"), (0.1, "0")]
)
def test_points_for_speed(ratio, share):
    assert verdict.share(ratio, 0.4, 0.8) == Decimal(share)


def test_several_cases_are_looked_at_less_often_each():
    """Their mean is as well known as that of one case."""
    rng = np.random.default_rng(11)
    one_case, four = (
        verdict.sequence(n, 0.8, lambda case, turns: clock(rng, len(turns), ratio=0.95), short=False) for n in (1, 4)
    )
    assert (one_case.pairs, four.pairs) == (LOOKS[-1], 4 * LOOKS[-1] // 2)
    assert four.whole.half_width < one_case.whole.half_width
    assert verdict.looks(1, short=False) == LOOKS
    assert verdict.looks(4, short=True) == LOOKS_SHORT


def test_a_slow_submission_buys_no_shorter_look():
    """Forty times slower than the baseline, it is looked at as often as one that is twice as slow."""
    rng = np.random.default_rng(9)
    fast, slow = (
        until_decided(lambda case, r=ratio: one(rng, ratio=r, noise=0.02), 1, 0.8) for ratio in (0.5, 0.025)
    )
    assert fast.pairs == slow.pairs == LOOKS[-1]


@pytest.mark.parametrize("short", [False, True])
def test_a_short_call_need_not_be_known_so_well(short):
    """What differs from one process to the next by a per cent is not looked at until it is known to .2 %."""
    rng = np.random.default_rng(10)
    found = verdict.sequence(1, 0.8, lambda case, turns: clock(rng, len(turns), ratio=1.5, noise=0.02), short=short)
    assert (found.status, found.pairs) == (Performance.PASSED, LOOKS_SHORT[0] if short else LOOKS[-1])
    assert found.whole.half_width < PRECISE_SHORT


def test_a_slow_baseline_is_looked_at_less_often():
    """A second for a case: pairs of 30 ms and more are not taken 256 times."""
    rng = np.random.default_rng(10)

    def pair(case):
        quick = one(rng, ratio=0.8)
        return Pair(30 * quick.ours, 30 * quick.theirs, quick.at)

    assert until_decided(pair, 1, 0.8).pairs == LOOKS[0]

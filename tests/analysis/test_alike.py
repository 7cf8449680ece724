"""Blocks that resemble the block before widen intervals, by a chain of signs."""

from itertools import pairwise, product

import numpy as np
import pytest
from quick import mostly_slow

from memlab.analysis import exact
from memlab.analysis.compare import compare
from memlab.analysis.correlation import LEAST_BLOCKS, of_blocks
from memlab.analysis.intervals import median_interval, ratio_interval

from . import alike

RNG = np.random.default_rng


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("tosses", [1, 2, 7])
def test_heads_in_a_chain_are_those_of_every_sequence(correlation: float, tosses: int) -> None:
    """Against all sequences of tosses, one by one."""
    stay = (1 + exact.repeats(correlation)) / 2
    chance = np.zeros(tosses + 1)
    for sides in product((0, 1), repeat=tosses):
        changes = sum(a != b for a, b in pairwise(sides))
        chance[sum(sides)] += 0.5 * (1 - stay) ** changes * stay ** (tosses - 1 - changes)
    assert exact.heads_cdf(tosses, correlation) == pytest.approx(np.cumsum(chance))


def test_without_a_correlation_the_chain_is_the_coin() -> None:
    for n in (6, 13, 40):
        coin = [exact.fair_coin_cdf(k, n) for k in range(n + 1)]
        assert exact.heads_cdf(n, 0.0) == pytest.approx(coin)
        assert exact.most_outside(n, 0.025, True) == exact.most_outside(n, 0.025, True, 0.0)


def test_the_sum_of_signs_varies_as_that_of_a_normal_process() -> None:
    """Gastwirth, Rubin and Wolff: the chain's variance is that of signs of an AR(1)."""
    rng, n = RNG(1), 400
    for correlation in (0.25, 0.6):
        x = alike.autoregressive(rng, n, 3000, correlation)
        measured = (x > 0).sum(axis=0).var() / (n / 4)
        repeat = exact.repeats(correlation)
        assert measured == pytest.approx((1 + repeat) / (1 - repeat), rel=0.1)


def test_looks_at_a_chain_spend_what_they_may() -> None:
    """The walk of heads crosses the boundary with at most the error, at any of its looks."""
    rng, correlation, n, walks = RNG(2), 0.5, 60, 4000
    stay = (1 + exact.repeats(correlation)) / 2
    flips = rng.random((walks, n)) > stay
    flips[:, 0] = rng.random(walks) < 0.5
    heads = np.cumsum(np.cumsum(flips, axis=1) % 2, axis=1)
    most = [exact.most_of_looks(k, 0.025, 0.5, correlation) for k in range(1, n + 1)]
    crossed = (heads <= most).any(axis=1).mean()
    assert 0.01 <= crossed <= 0.025 + 3 * 0.0025


def test_an_interval_is_wider_and_never_lacks_what_blocks_can_give() -> None:
    x = np.exp(0.05 * RNG(3).standard_normal(20))
    plain, wide = (median_interval(x, correlation=c) for c in (0.0, 0.5))
    assert wide.low is not None
    assert plain.low is not None
    assert wide.high is not None
    assert plain.high is not None
    assert wide.low < plain.low < plain.high < wide.high
    few = median_interval(x[:6], correlation=0.5)
    assert (few.low, few.high) == (None, None)
    assert few.method.startswith("needs ")
    for n in (6, 8, 12, 30):
        most = exact.most_correlated(n, 0.95)
        assert median_interval(x[:1].repeat(n), correlation=most).low is not None


def test_the_correlation_of_values_is_told_from_that_of_ratios() -> None:
    """A drift that all points share is in the values, and cancels in ratios."""
    rng = RNG(4)
    shared = 0.05 * alike.autoregressive(rng, 60, 1, 0.7)
    found = of_blocks(np.exp(shared + 0.02 * rng.standard_normal((60, 12))))
    assert found.medians is not None
    assert found.ratios is not None
    assert found.medians.estimate == pytest.approx(0.6, abs=3 * found.medians.error)
    assert abs(found.ratios.estimate) <= 3 * found.ratios.error
    assert found.of_medians > 0.4
    assert found.of_ratios == 0


def test_what_is_too_little_to_measure_is_not_measured() -> None:
    assert of_blocks(np.ones((30, 4))).medians is None  # they do not vary
    few = np.exp(RNG(5).standard_normal((LEAST_BLOCKS - 1, 4)))
    assert of_blocks(few) == of_blocks(np.full((3, 1), np.nan))
    gaps = np.exp(RNG(6).standard_normal((40, 2)))
    gaps[::2] = np.nan  # no block has the one before
    assert of_blocks(gaps).medians is None


def test_rising_ties_are_no_resemblance() -> None:
    """Counts of two values: ranks in the order of the blocks would rise within each."""
    values = RNG(7).integers(0, 2, (200, 3)).astype(float)
    found = of_blocks(values)
    assert found.medians is not None
    assert abs(found.medians.estimate) <= 3 * found.medians.error + 0.02


@pytest.mark.parametrize("of", mostly_slow(["median", "ratio"], "median"))
@pytest.mark.parametrize("correlation", mostly_slow([0.0, 0.25, 0.5], 0.5))
def test_intervals_hold_with_blocks_that_resemble_the_one_before(
    of: str, correlation: float
) -> None:
    """80 % at a correlation of 0.5 if blocks are taken for independent."""
    interval = {"median": alike.median_of, "ratio": alike.ratio_of}[of]
    (plain, wide), _ = alike.covered(interval, 20, correlation, 250)
    assert wide >= 91  # 93 to 97 % of many sets
    if correlation == 0.5:
        assert plain <= 88


def test_two_runs_of_such_blocks_are_held_apart_with_care() -> None:
    """Equal but for 3 % of noise between states that last: few are called different."""
    rng, called = RNG(8), [0, 0]
    for _ in range(150):
        sides = np.exp(0.05 * alike.autoregressive(rng, 25, 2, 0.6)).T
        correlation = max(of_blocks(side[:, None]).of_medians for side in sides)
        for way, by in enumerate((0.0, correlation)):
            (found,) = compare([sides], 0.01, correlation=by)
            called[way] += found.word in ("faster", "slower")
    assert called[1] <= 0.06 * 150 < called[0]


@pytest.mark.parametrize("blocks", mostly_slow([10, 25, 0], 25))
@pytest.mark.parametrize("which", mostly_slow(alike.WHICH, "the one"))
def test_a_crossover_beside_a_method_that_hardly_varies_is_held(blocks: int, which: str) -> None:
    """61 % of 25 blocks if blocks' ratios are interpolated: their mean has another median."""
    assert alike.crossing_covered("bimodal 60/40", which, blocks, 150 if blocks else 60) >= 90


def test_ratios_in_a_chain_are_those_of_signs() -> None:
    """The same positions for a ratio as for a median of its logs."""
    a, b = np.exp(0.1 * RNG(9).standard_normal((2, 30)))
    found = ratio_interval(a, b, correlation=0.3)
    logs = median_interval(np.log(a / b), correlation=0.3)
    assert found.low == pytest.approx(np.exp(logs.low or 0))

"""The crossover on curves whose crossing is known."""

from itertools import product
from math import inf

import numpy as np
import pytest
from quick import mostly_slow

from memlab.analysis.crossover import crossover

from .tables import SIZES, noisy

PUBLISHED_SIZES = np.array([1.0, 100, 512, 1024, 2048, 4096, 8192, 10240])


def curves(at, n=10, sd=0.05, seed=1, sizes=SIZES):
    """Costs a (level) and b (proportional to size), n blocks, that cross at size `at`."""
    m = len(sizes)
    costs = noisy(np.random.default_rng(seed), np.concatenate([np.ones(m), sizes / at]), n, sd)
    return costs[:, :m], costs[:, m:]


def test_exact_curves_cross_where_they_should():
    found = crossover(SIZES, *curves(1500, sd=0.0))
    assert [found.low, found.estimate, found.high] == pytest.approx([1500] * 3)
    assert found.crossings == 1


def test_interpolation_is_linear_in_the_log_of_the_size():
    """Ratios 4 at 1024 and 1/2 at 8192: two thirds of the way through the octaves."""
    found = crossover([1024, 8192], [[4.0, 1.0]] * 6, [[1.0, 2.0]] * 6)
    assert found.estimate == pytest.approx(4096)


def test_order_of_sizes_does_not_matter():
    a, b = curves(1500)
    assert crossover(SIZES[::-1], a[:, ::-1], b[:, ::-1]) == crossover(SIZES, a, b)


@pytest.mark.parametrize(
    ("at", "censored", "words"),
    [(0.5, -inf, "below 1"), (50_000, inf, "above 10240")],
)
def test_a_crossing_outside_the_measured_range_is_censored(at, censored, words):
    found = crossover(PUBLISHED_SIZES, *curves(at, sizes=PUBLISHED_SIZES))
    assert (found.low, found.estimate, found.high) == (censored,) * 3
    assert found.words(found.estimate) == words


def test_one_end_may_be_censored_alone():
    found = crossover(SIZES, *curves(8100, sd=0.1))
    assert found.low < 8100
    assert found.high == inf
    assert found.words(found.high) == "above 8192"


def test_words_of_a_size_and_of_nothing():
    few = crossover(SIZES, *curves(1500, n=5))
    assert (few.low, few.high, few.n) == (None, None, 5)
    assert few.words(few.low) == "unknown"
    assert few.words(1499.6) == "1500"


def test_the_last_of_several_crossings_counts():
    """Cheaper at 1024 and 2048, dearer again at 4096, cheaper from 8192 on."""
    a = np.tile([2.0, 0.5, 0.5, 2.0, 0.5], (6, 1))
    found = crossover(SIZES, a, np.ones((6, 5)))
    assert found.estimate == pytest.approx(np.sqrt(4096 * 8192))
    assert found.crossings == 3


def test_a_curve_that_becomes_dearer_has_no_crossover():
    a, b = curves(1500)
    assert crossover(SIZES, b, a).estimate == inf


def test_missing_cells_and_missing_sizes():
    a, b = curves(1500, n=12)
    a[0, 1], b[3, 2], a[:, 0] = np.nan, np.nan, np.nan
    found = crossover(SIZES, a, b)
    assert found.n == 11
    assert found.smallest == 1024
    assert found.low < found.estimate < found.high


@pytest.mark.parametrize(
    ("sizes", "shape"), [([1, 2], (6, 3)), ([1], (6, 1)), ([2, 2], (6, 2)), ([1, 2], (2,))]
)
def test_shapes_that_hold_no_crossover_are_errors(sizes, shape):
    with pytest.raises(ValueError, match=r"costs are|two or more different sizes"):
        crossover(sizes, np.ones(shape), np.ones(shape))


@pytest.mark.parametrize("case", mostly_slow(product([6, 10, 20], [False, True]), (10, True)))
def test_coverage(case):
    """At least as often as it says, of 1,000; less by three standard errors by chance."""
    n, sequential = case
    held = 0
    for seed in range(1000):
        found = crossover(SIZES, *curves(1500, n=n, seed=seed), sequential=sequential)
        held += found.low <= 1500 <= found.high
    assert held >= 930


def test_curves_that_run_nearly_parallel_are_held_too():
    """a is 5 % costlier below the crossing and 5 % cheaper above, with noise of 20 %."""
    held, exact = 0, np.exp(np.linspace(0.05, -0.05, 5))
    for seed in range(400):
        a, b = np.exp(0.2 * np.random.default_rng(seed).standard_normal((2, 20, 5)))
        found = crossover(SIZES, a * exact, b)
        held += found.low <= 2048 <= found.high
    assert held >= 0.95 * 400


@pytest.mark.parametrize(
    ("medians", "low", "high"),
    [
        ([2, 2, 1, 0.5, 0.5], (1024, 2048), (2048, 4096)),
        ([2, 2, 2, 2, 0.5], (4096, 8192), (4096, 8192)),
        ([2, 2, 2, 2, 2], (np.inf, np.inf), (np.inf, np.inf)),
        ([0.5, 0.5, 0.5, 0.5, 0.5], (-np.inf, -np.inf), (-np.inf, -np.inf)),
        ([1, 2, 2, 0.5, 0.5], (-np.inf, -np.inf), (2048, 4096)),
        ([2, 0.5, 2, 0.5, 1], (512, 1024), (np.inf, np.inf)),
        ([0.5, 0.5, 2, 2, 2], (np.inf, np.inf), (np.inf, np.inf)),
    ],
)
@pytest.mark.parametrize("sequential", [False, True])
def test_it_lies_between_sizes_that_are_shown(medians, low, high, sequential):
    rng = np.random.default_rng(1)
    a = np.array(medians) * np.exp(0.05 * rng.standard_normal((20, 5)))
    b = np.exp(0.05 * rng.standard_normal((20, 5)))
    found = crossover([512, 1024, 2048, 4096, 8192], a, b, sequential=sequential)
    assert low[0] <= found.low <= low[1]
    assert high[0] <= found.high <= high[1]


def test_its_p_is_that_of_the_signs_at_the_bound():
    """At 4 the ratio of one block of ten is below 1, at 8 that of nine."""
    a = np.where(np.arange(10)[:, None] < [0, 1, 9, 10], 0.5, 2.0)
    found = crossover([2, 4, 8, 16], a, np.ones_like(a))
    assert [found.p_after(2), found.p_after(4)] == pytest.approx([1 / 1024, 11 / 1024])
    assert [found.p_up_to(8), found.p_up_to(16)] == pytest.approx([11 / 1024, 1 / 1024])
    assert found.p_after(8) > 0.5
    upturned = crossover([2, 4, 8, 16], 1 / a, np.ones_like(a))
    assert [upturned.p_after(2), upturned.p_after(16)] == pytest.approx([1 / 1024] * 2)


HARDLY = [(0.03, 0, -0.001, -0.001), (0.1, 0, 0, 0), (0.02, 0.01, 0, 0)]


@pytest.mark.parametrize("case", mostly_slow(product(HARDLY, [0.0, 0.2]), (HARDLY[0], 0.2)))
def test_a_cost_that_is_hardly_the_cheaper_one_beyond_does_not_mislead(case):
    """The crossover is at 4, or beyond, if the costs never differ: 16 is not left out either."""
    costs, shared = case
    held = 0
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        ratios = costs + 0.05 * rng.standard_normal((12, 4)) + shared * rng.standard_normal((12, 1))
        found = crossover([2, 4, 8, 16], np.exp(ratios), np.ones((12, 4)))
        held += found.low <= 4 <= found.high
    assert held >= 930


def test_where_blocks_miss_a_size_those_that_have_both_are_taken():
    """All but five blocks miss 1024: too few to show anything from there on to 2048."""
    a, b = curves(1500, n=12, sd=0.001)
    a[5:, 1] = np.nan
    found = crossover(SIZES, a, b)
    assert (found.low, found.high, found.n) == (None, None, 5)
    a, b = curves(1500, n=16, sd=0.001)
    a[6:, 1] = np.nan
    found = crossover(SIZES, a, b)
    assert 1024 < found.low <= 1500 <= found.high < 2048


def test_where_no_block_has_both_sizes_the_medians_are_interpolated():
    a, b = curves(1500, n=12, sd=0)
    a[:6, 1], a[6:, 2] = np.nan, np.nan
    found = crossover(SIZES, a, b)
    assert found.estimate == pytest.approx(1500)
    assert (found.low, found.high) == pytest.approx((1500, 1500))


def test_looked_at_it_is_unknown_below_six_blocks():
    found = crossover([1, 2], np.ones((5, 2)), np.ones((5, 2)), sequential=True)
    assert (found.low, found.high) == (None, None)

"""The crossover on curves whose crossing is known."""

from math import inf

import numpy as np
import pytest

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
    assert found.bracket == (1024, 2048)
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
    assert found.bracket == (4096, 8192)


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


def test_bracket_needs_both_sides_shown():
    a, b = curves(2048, sd=0.3, n=8)
    dearer, cheaper = crossover(SIZES, a, b).bracket
    assert dearer is None or dearer < 2048
    assert cheaper is None or cheaper > 2048


@pytest.mark.parametrize(
    ("sizes", "shape"), [([1, 2], (6, 3)), ([1], (6, 1)), ([2, 2], (6, 2)), ([1, 2], (2,))]
)
def test_shapes_that_hold_no_crossover_are_errors(sizes, shape):
    with pytest.raises(ValueError, match=r"costs are|two or more different sizes"):
        crossover(sizes, np.ones(shape), np.ones(shape))


@pytest.mark.parametrize("n", [6, 10, 20])
def test_coverage(n):
    held = 0
    for seed in range(400):
        a, b = curves(1500, n=n, seed=seed)
        found = crossover(SIZES, a, b, resamples=200)
        held += found.low <= 1500 <= found.high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize(
    ("medians", "low", "high"),
    [
        ([2, 2, 1, 0.5, 0.5], 1024, 4096),
        ([2, 2, 2, 2, 0.5], 4096, 8192),
        ([2, 2, 2, 2, 2], np.inf, np.inf),
        ([0.5, 0.5, 0.5, 0.5, 0.5], -np.inf, -np.inf),
        ([1, 2, 2, 0.5, 0.5], -np.inf, 4096),
        ([2, 0.5, 2, 0.5, 1], 512, np.inf),
    ],
)
def test_looked_at_it_lies_between_sizes_that_are_shown(medians, low, high):
    rng = np.random.default_rng(1)
    a = np.array(medians) * np.exp(0.05 * rng.standard_normal((20, 5)))
    b = np.exp(0.05 * rng.standard_normal((20, 5)))
    found = crossover([512, 1024, 2048, 4096, 8192], a, b, looked=True)
    assert found.shown == (low, high)


def test_looked_at_it_is_unknown_below_six_blocks():
    found = crossover([1, 2], np.ones((5, 2)), np.ones((5, 2)), looked=True)
    assert (found.low, found.high) == (None, None)

"""What must hold for any data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlab.analysis.compare import benjamini_hochberg, compare
from memlab.analysis.crossover import crossover
from memlab.analysis.intervals import (
    median_interval,
    ratio_interval,
    unpaired_ratio_interval,
)
from memlab.analysis.noise import outliers
from memlab.analysis.verdicts import holm

COST = st.floats(1e-9, 1e3)
SAMPLES = st.lists(COST, min_size=6, max_size=30)
PAIRS = st.lists(st.tuples(COST, COST), min_size=6, max_size=30).map(np.array)
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)
SCALE = st.integers(-20, 20).map(lambda power: 2.0**power)  # exact in binary
few = settings(max_examples=50, deadline=None, derandomize=True)


def limits(interval):
    return [interval.low, interval.estimate, interval.high]


@few
@given(SAMPLES)
def test_an_interval_holds_its_estimate_and_lies_in_the_data(x):
    low, middle, high = limits(median_interval(x))
    rounding = 1 + 1e-12
    assert min(x) / rounding <= low <= middle * rounding
    assert middle <= high * rounding <= max(x) * rounding**2


@few
@given(SAMPLES, SCALE)
def test_scaling_the_samples_scales_the_interval(x, scale):
    scaled = limits(median_interval(np.multiply(scale, x)))
    assert scaled == [scale * limit for limit in limits(median_interval(x))]


@few
@given(SAMPLES, st.randoms())
def test_order_does_not_matter(x, random):
    shuffled = random.sample(x, len(x))
    assert median_interval(shuffled) == median_interval(x)


@few
@given(SAMPLES, st.data())
def test_a_larger_sample_never_lowers_a_limit(x, data):
    at = data.draw(st.integers(0, len(x) - 1))
    raised = [*x[:at], x[at] * data.draw(st.floats(1, 100)), *x[at + 1 :]]
    before, after = limits(median_interval(x)), limits(median_interval(raised))
    assert all(b <= a * (1 + 1e-12) for b, a in zip(before, after, strict=True))


@few
@given(SAMPLES)
def test_a_higher_level_never_narrows(x):
    at_90, at_95 = median_interval(x, 0.90), median_interval(x, 0.95)
    rounding = 1 + 1e-12
    assert at_95.low <= at_90.low * rounding
    assert at_90.high <= at_95.high * rounding


@few
@given(PAIRS)
def test_the_ratio_turned_round_is_its_reciprocal(pairs):
    a, b = pairs.T
    there, back = limits(ratio_interval(a, b)), limits(ratio_interval(b, a))
    assert there == pytest.approx([1 / limit for limit in reversed(back)])


@few
@given(SAMPLES, SAMPLES)
def test_the_unpaired_ratio_turned_round_is_its_reciprocal(a, b):
    there, back = limits(unpaired_ratio_interval(a, b)), limits(unpaired_ratio_interval(b, a))
    assert there == pytest.approx([1 / limit for limit in reversed(back)])


@few
@given(PAIRS, st.data())
def test_what_slows_both_sides_of_a_pair_cancels(pairs, data):
    powers = st.integers(-3, 3).map(lambda power: 2.0**power)
    slowdown = data.draw(st.lists(powers, min_size=len(pairs), max_size=len(pairs)))
    a, b = pairs.T
    assert limits(ratio_interval(a * slowdown, b * slowdown)) == pytest.approx(
        limits(ratio_interval(a, b))
    )


@few
@given(SAMPLES, SAMPLES)
def test_the_direction_of_a_metric_only_swaps_the_words(a, b):
    swap = {"faster": "slower", "slower": "faster"}
    (lower,), (higher,) = (compare([(a, b)], lower_is_better=flag) for flag in (True, False))
    assert higher.word == swap.get(lower.word, lower.word)


@few
@given(st.lists(st.tuples(COST, COST, COST), min_size=6, max_size=12).map(np.array))
def test_a_crossover_holds_its_limits_in_order(costs):
    found = crossover([1, 2, 4], costs, np.ones_like(costs))
    assert found.low <= found.estimate <= found.high
    for limit in (found.low, found.estimate, found.high):
        assert np.isinf(limit) or 1 - 1e-9 <= limit <= 4 + 1e-9


@few
@given(SAMPLES, SCALE)
def test_outliers_do_not_depend_on_the_unit(x, scale):
    """Judged away from the limit itself, where rounding of the logs may decide."""
    flags, scaled = outliers(x), outliers(np.multiply(scale, x))
    assert np.count_nonzero(flags != scaled) == 0 or np.ptp(x) < 1e-6 * max(x)


@few
@given(P_VALUES)
def test_corrections_never_lower_a_p_and_keep_their_order(p):
    hochberg, bonferroni_holm = benjamini_hochberg(p), holm(p)
    order = np.argsort(p)
    for adjusted in (hochberg, bonferroni_holm):
        assert all(before <= after * (1 + 1e-12) for before, after in zip(p, adjusted, strict=True))
        assert (np.diff(np.array(adjusted)[order]) >= 0).all()
    assert all(h <= b * (1 + 1e-12) for h, b in zip(hochberg, bonferroni_holm, strict=True))

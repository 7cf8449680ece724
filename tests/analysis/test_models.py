"""Cost models on costs made from known constants."""

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.special import ndtr, stdtrit

from memlab.analysis.models import _expanded, fit, held_out_errors, predict

SIZES = np.array([1.0, 100, 512, 1024, 2048, 4096, 8192, 10240])
FAULTS = np.array([0.0, 1, 0, 1, 0, 1, 0, 3])
TERMS = {"s_call": np.ones(8), "s_byte": SIZES, "s_fault": FAULTS}
TRUTH = {"s_call": 400e-9, "s_byte": 0.1e-9, "s_fault": 500e-9}
EXACT = sum(TRUTH[name] * TERMS[name] for name in TRUTH)


def measured(n, seed=1, sd=0.05):
    return EXACT * np.exp(sd * np.random.default_rng(seed).standard_normal((n, 8)))


def test_exact_costs_give_the_constants_back():
    model = fit(np.tile(EXACT, (6, 1)), TERMS)
    for name, constant in TRUTH.items():
        interval = model.constants[name]
        assert [interval.low, interval.estimate, interval.high] == pytest.approx([constant] * 3)
    assert model.relative_errors == pytest.approx((0,) * 8, abs=1e-9)
    assert predict(model, TERMS) == pytest.approx(EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 10, 20])
def test_coverage_of_the_constants(n):
    held = dict.fromkeys(TRUTH, 0)
    for seed in range(400):
        model = fit(measured(n, seed), TERMS, resamples=150)
        for name, constant in TRUTH.items():
            held[name] += model.constants[name].low <= constant <= model.constants[name].high
    assert all(0.93 <= count / 400 <= 0.995 for count in held.values())


def test_the_constants_are_those_of_scipy():
    """Of random terms, of which about half would be negative without the bound."""
    drawn = np.random.default_rng(1)
    for terms in (1, 2, 3, 4) * 25:
        design, costs = drawn.exponential(size=(9, terms)), drawn.exponential(size=9)
        expected, _ = nnls(design / costs[:, None], np.ones(9))
        model = fit(costs[None], {str(i): design[:, i] for i in range(terms)}, resamples=1)
        constants = [interval.estimate for interval in model.constants.values()]
        assert constants == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("n", [6, 8, 20, 200])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.998])
def test_the_level_of_the_draws_is_scipys(n, level):
    limit = np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2)
    assert _expanded(level, n) == pytest.approx(1 - 2 * ndtr(limit), abs=1e-5)


def test_a_term_that_plays_no_part_gets_nothing_and_never_less():
    costs = TRUTH["s_call"] * np.exp(0.05 * np.random.default_rng(1).standard_normal((10, 8)))
    interval = fit(costs, TERMS).constants["s_fault"]
    assert interval.low == 0
    assert interval.estimate < 0.1 * TRUTH["s_call"]


def test_small_costs_weigh_as_much_as_large_ones():
    """With absolute errors the 10 KiB point's noise would drown the cost of a call."""
    sizes = np.array([1.0, 2, 1e6, 2e6])
    terms = {"s_call": np.ones(4), "s_byte": sizes}
    costs = 1e-7 + 1e-9 * sizes
    costs[2:] *= [1.05, 0.95]
    model = fit(np.tile(costs, (6, 1)), terms)
    assert model.constants["s_call"].estimate == pytest.approx(1e-7, rel=0.02)


def test_missing_cells_are_left_out():
    costs = measured(12)
    costs[0, 3] = costs[5, 3] = costs[7, 0] = np.nan
    assert fit(costs, TERMS).constants["s_call"].estimate == pytest.approx(400e-9, rel=0.05)


def test_five_blocks_have_constants_without_limits():
    interval = fit(measured(5), TERMS).constants["s_call"]
    assert (interval.low, interval.high, interval.method) == (None, None, "needs 6 samples")


def test_a_point_with_five_samples_leaves_the_constants_without_limits():
    costs = measured(12)
    costs[5:, 3] = np.nan
    interval = fit(costs, TERMS).constants["s_call"]
    assert (interval.low, interval.n) == (None, 5)


def test_held_out_points_are_predicted_and_a_wrong_model_is_found_out():
    far = SIZES >= 8192
    assert np.abs(held_out_errors(measured(20), TERMS, far)).max() < 0.1
    curved = np.tile(1e-7 + 1e-15 * SIZES**2, (6, 1))
    straight = {"s_call": np.ones(8), "s_byte": SIZES}
    assert np.abs(held_out_errors(curved, straight, far)).max() > 0.2


def test_terms_that_rise_together_cannot_be_told_apart():
    terms = {"s_byte": SIZES, "s_fault": SIZES / 4096}
    with pytest.raises(ValueError, match="cannot tell s_byte, s_fault apart"):
        fit(measured(6), terms)


def test_more_terms_than_points_cannot_be_told_apart():
    few = {name: values[:2] for name, values in TERMS.items()}
    with pytest.raises(ValueError, match="apart"):
        fit(measured(6)[:, :2], few)


def test_what_is_no_cost_or_no_term_is_an_error():
    with pytest.raises(ValueError, match="costs are"):
        fit(-measured(6), TERMS)
    with pytest.raises(ValueError, match="a term is a count"):
        fit(measured(6), {"s_call": np.ones(3)})
    with pytest.raises(ValueError, match="are not the model's"):
        predict(fit(measured(6), TERMS), {"s_call": np.ones(8)})
    with pytest.raises(ValueError, match="held_out flags"):
        held_out_errors(measured(6), TERMS, np.zeros(8, dtype=bool))

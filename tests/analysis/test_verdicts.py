"""Each claim kind on data whose answer is plain, and every way to refuse one."""

from math import inf

import numpy as np
import pytest

from memlab.analysis.crossover import crossover
from memlab.analysis.verdicts import (
    count_verdict,
    crossover_verdict,
    holm,
    monotone_verdict,
    outcome_verdict,
    ratio_verdict,
    saturates_verdict,
)

from .tables import SIZES, noisy


def costs(*medians, n=10, sd=0.01, seed=1):
    return noisy(np.random.default_rng(seed), medians, n, sd)


@pytest.mark.parametrize(
    ("ratio", "above", "below", "word"),
    [
        (0.4, 0, 0.5, "reproduced"),
        (0.6, 0, 0.5, "contradicted"),
        (0.5, 0, 0.5, "inconclusive"),
        (12, 10, inf, "reproduced"),
        (8, 10, inf, "contradicted"),
        (2.5, 2, 3, "reproduced"),
        (3.5, 2, 3, "contradicted"),
        (3.0, 2, 3, "inconclusive"),
    ],
)
def test_ratio(ratio, above, below, word):
    a, b = costs(ratio, 1).T
    verdict = ratio_verdict(a, b, above=above, below=below)
    assert verdict.word == word
    assert verdict.low < verdict.estimate < verdict.high
    assert verdict.n == 10


def test_ratio_of_five_pairs_is_inconclusive_and_says_so():
    verdict = ratio_verdict([1.0] * 5, [2.0] * 5, below=0.9)
    assert (verdict.word, verdict.reason) == ("inconclusive", "needs 6 samples")
    assert verdict.estimate == pytest.approx(0.5)


@pytest.mark.parametrize("bounds", [{}, {"above": 2, "below": 2}, {"above": -1}])
def test_ratio_needs_bounds(bounds):
    with pytest.raises(ValueError, match="needs bounds"):
        ratio_verdict([1] * 6, [1] * 6, **bounds)


def test_small_baseline_loops_change_nothing():
    a, b = costs(12, 1).T
    assert ratio_verdict(
        a, b, above=10, baseline_loop_a=0.2 * a, baseline_loop_b=0.19 * b
    ) == ratio_verdict(a, b, above=10)


@pytest.mark.parametrize(
    ("ratio", "bounds", "word"),
    [
        (12, {"above": 10}, "reproduced"),
        (8, {"above": 10}, "inconclusive"),
        (12, {"below": 10}, "contradicted"),
        (8, {"below": 10}, "inconclusive"),
        (12, {"above": 10, "below": 20}, "inconclusive"),
    ],
)
def test_a_large_baseline_loop_of_the_divisor_leaves_a_lower_bound(ratio, bounds, word):
    a, b = costs(ratio, 1).T
    verdict = ratio_verdict(a, b, **bounds, baseline_loop_b=0.5 * b)
    assert verdict.word == word
    assert (verdict.estimate, verdict.high) == (None, inf)


@pytest.mark.parametrize(
    ("ratio", "bounds", "word"),
    [
        (0.4, {"below": 0.5}, "reproduced"),
        (0.6, {"below": 0.5}, "inconclusive"),
        (0.4, {"above": 0.5}, "contradicted"),
    ],
)
def test_a_large_baseline_loop_of_the_dividend_leaves_an_upper_bound(ratio, bounds, word):
    a, b = costs(ratio, 1).T
    verdict = ratio_verdict(a, b, **bounds, baseline_loop_a=0.5 * a)
    assert verdict.word == word
    assert (verdict.estimate, verdict.low) == (None, 0)


def test_a_bound_allows_for_the_other_sides_baseline_loop():
    """12 / 1 with 15 % floor above the line: the operation's own 10.2 still exceeds 10."""
    a, b = costs(12, 1, sd=0.001).T
    assert (
        ratio_verdict(a, b, above=10, baseline_loop_a=0.15 * a, baseline_loop_b=0.5 * b).word
        == "reproduced"
    )
    assert (
        ratio_verdict(a, b, above=10, baseline_loop_a=0.18 * a, baseline_loop_b=0.5 * b).word
        == "inconclusive"
    )


def test_an_upper_bound_allows_for_the_baseline_loop_of_the_divisor():
    """4 / 10 with 15 % floor below the line: the operation's own 4 / 8.5 is still under 0.5."""
    a, b = costs(4, 10, sd=0.001).T
    assert (
        ratio_verdict(a, b, below=0.5, baseline_loop_a=0.5 * a, baseline_loop_b=0.15 * b).word
        == "reproduced"
    )
    assert (
        ratio_verdict(a, b, below=0.45, baseline_loop_a=0.5 * a, baseline_loop_b=0.15 * b).word
        == "inconclusive"
    )


def test_large_baseline_loops_on_both_sides_are_refused():
    a, b = costs(100, 1).T
    verdict = ratio_verdict(a, b, above=2, baseline_loop_a=0.5 * a, baseline_loop_b=0.5 * b)
    assert verdict.word == "inconclusive"
    assert verdict.reason == "refused: baseline loops are 50% and 50% of the two sides"


@pytest.mark.parametrize(
    ("ratio", "word"),
    [(1.0, "reproduced"), (0.97, "reproduced"), (1.05, "inconclusive"), (1.1, "contradicted")],
)
def test_equivalent(ratio, word):
    a, b = costs(ratio, 1).T
    assert ratio_verdict(a, b, above=1 / 1.05, below=1.05).word == word


def test_no_difference_shown_is_not_equivalence():
    a, b = costs(1, 1, sd=0.3).T
    assert ratio_verdict(a, b, above=1 / 1.05, below=1.05).word == "inconclusive"


@pytest.mark.parametrize(
    ("at", "over", "up_to", "word"),
    [
        (1800, 1024, 4096, "reproduced"),
        (800, 1024, 4096, "contradicted"),
        (5000, 1024, 4096, "contradicted"),
        (4096, 1024, 4096, "inconclusive"),
        (100, 1024, 4096, "contradicted"),
        (100, 64, 256, "inconclusive"),
        (100, 0, 512, "reproduced"),
        (90_000, 1024, 4096, "contradicted"),
        (90_000, 8000, inf, "reproduced"),
        (90_000, 8000, 100_000, "inconclusive"),
        (90_000, 1024, SIZES[-1], "contradicted"),
    ],
)
def test_crossover(at, over, up_to, word):
    both = costs(*np.ones(5), *(SIZES / at))
    assert crossover_verdict(crossover(SIZES, both[:, :5], both[:, 5:]), over, up_to).word == word


def test_crossover_of_five_blocks_is_inconclusive():
    both = costs(*np.ones(5), *(SIZES / 1800), n=5)
    found = crossover(SIZES, both[:, :5], both[:, 5:])
    assert crossover_verdict(found, 1024, 4096).reason == "needs 6 blocks"


@pytest.mark.parametrize(
    ("medians", "direction", "within", "word"),
    [
        ((1, 2, 3, 4), "rising", 0, "reproduced"),
        ((1, 2, 3, 4), "falling", 0, "contradicted"),
        ((4, 3, 2, 1), "falling", 0, "reproduced"),
        ((1, 3, 2, 4), "rising", 0, "contradicted"),
        ((1, 2, 2, 4), "rising", 0, "inconclusive"),
        ((1, 2, 2, 4), "rising", 0.1, "reproduced"),
        ((1, 2, 1.9, 4), "rising", 0.1, "reproduced"),
        ((1, 2, 1.5, 4), "rising", 0.1, "contradicted"),
        ((1, 1, 1, 1), "rising", 0.1, "inconclusive"),
    ],
)
def test_monotone(medians, direction, within, word):
    verdict = monotone_verdict([1, 2, 4, 8], costs(*medians), direction, within)
    assert verdict.word == word


def test_monotone_names_the_step_that_breaks_it():
    verdict = monotone_verdict([1, 2, 4, 8], costs(1, 3, 2, 4), "rising")
    assert verdict.reason.startswith("not rising: 2 to 4 (p = ")
    verdict = monotone_verdict([1, 2, 4, 8], costs(1, 2, 2, 4), "rising")
    assert verdict.reason == "rising not shown for 2 to 4"


@pytest.mark.parametrize(("n", "word"), [(4, "inconclusive"), (5, "reproduced")])
def test_monotone_needs_five_blocks(n, word):
    assert monotone_verdict([1, 2, 4], costs(1, 2, 3, n=n), "rising").word == word


@pytest.mark.parametrize(
    ("medians", "word"),
    [
        ((9, 3, 1, 1, 1), "reproduced"),
        ((9, 3, 1.05, 0.96, 1), "reproduced"),
        ((9, 3, 1.5, 1, 1), "contradicted"),
        ((9, 3, 0.7, 1, 1), "contradicted"),
        ((9, 1, 1, 1, 1), "contradicted"),
        ((9, 3, 1.1, 1, 1), "inconclusive"),
        ((9, 1.1, 1, 1, 1), "inconclusive"),
    ],
)
def test_saturates(medians, word):
    assert saturates_verdict([1, 100, 512, 1024, 2048], costs(*medians), 512, 0.1).word == word


def test_saturates_shows_the_ratio_at_the_knee():
    verdict = saturates_verdict([1, 100, 512], costs(9, 1.04, 1), 100, 0.1)
    assert verdict.low < 1.04 < verdict.high
    assert verdict.reason == "level from 100: all 2 comparisons hold"


def test_saturation_at_the_last_level_cannot_be_judged():
    with pytest.raises(ValueError, match="needs a level beyond"):
        saturates_verdict([1, 2], costs(2, 1), 2, 0.1)


def test_costs_that_do_not_fit_their_levels_are_an_error():
    with pytest.raises(ValueError, match=r"\(10, 3\) for 2 levels"):
        monotone_verdict([1, 2], costs(1, 2, 3), "rising")


@pytest.mark.parametrize(
    ("hits", "n", "word"),
    [
        (5, 5, "reproduced"),
        (4, 5, "inconclusive"),
        (3, 5, "inconclusive"),
        (2, 5, "contradicted"),
        (0, 5, "contradicted"),
        (4, 6, "inconclusive"),
        (3, 6, "contradicted"),
        (7, 10, "inconclusive"),
        (6, 10, "contradicted"),
        (4, 4, "inconclusive"),
        (0, 4, "inconclusive"),
        (0, 0, "inconclusive"),
    ],
)
def test_outcome(hits, n, word):
    verdict = outcome_verdict(["sigbus"] * hits + ["ok"] * (n - hits), "sigbus")
    assert verdict.word == word
    assert verdict.reason.startswith(f"{hits} of {n} sigbus")


def test_outcome_interval_is_clopper_and_pearsons():
    """All of n: the lower limit p solves p**n = 2.5 %."""
    verdict = outcome_verdict(["ok"] * 8, "ok")
    assert (verdict.low, verdict.high) == (pytest.approx(0.025 ** (1 / 8)), 1)


@pytest.mark.parametrize(
    ("counts", "within", "word"),
    [
        ([20263] * 5, 0, "reproduced"),
        ([20263] * 4, 0, "inconclusive"),
        ([20263] * 4 + [20264], 0, "inconclusive"),
        ([20264] * 5, 0, "contradicted"),
        ([20264] * 5, 0.001, "reproduced"),
        ([20300] * 5, 0.001, "contradicted"),
    ],
)
def test_count(counts, within, word):
    assert count_verdict(counts, 20263, within).word == word


def test_count_shows_the_range_seen():
    verdict = count_verdict([7, 9, 8, 8, 11], 8)
    assert (verdict.low, verdict.estimate, verdict.high, verdict.n) == (7, 8, 11, 5)
    assert verdict.reason == "2 of 5 exactly 8"


@pytest.mark.parametrize(
    ("counts", "word", "p"),
    [
        ([7], "reproduced", 0.0),
        ([8], "contradicted", 0.0),
        ([8, 8, 8], "contradicted", 0.0),
        ([7, 8], "inconclusive", None),  # it varies: the rule of any count
        ([7] * 6 + [8], "inconclusive", None),
        ([8, 9] * 3, "contradicted", 0.1**6),
    ],
)
def test_the_first_sample_decides_a_count_that_cannot_vary(counts, word, p):
    found = count_verdict(counts, 7, exact=True)
    assert (found.word, found.n) == (word, len(counts))
    assert found.p == pytest.approx(p)


def test_count_of_zero_is_exact():
    assert count_verdict([0] * 5, 0, within=0.1).word == "reproduced"


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1, 1]

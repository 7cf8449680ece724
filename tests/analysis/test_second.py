"""memlab's intervals and verdicts against a second implementation, over generated data."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import quantile_test

from memlab.analysis.compare import benjamini_hochberg, compare
from memlab.analysis.crossover import crossover
from memlab.analysis.exact import Looks, fair_coin_cdf, outside_of_looks, sign_test
from memlab.analysis.intervals import (
    median_interval,
    ratio_interval,
    unpaired_ratio_interval,
)
from memlab.analysis.verdicts import (
    count_verdict,
    holm,
    monotone_verdict,
    outcome_verdict,
    ratio_verdict,
    saturates_verdict,
)

from . import second

COST = st.floats(1e-6, 1e3)
SAMPLES = st.lists(COST, min_size=6, max_size=40)
FEW = settings(max_examples=100, deadline=None, derandomize=True)


def costs(levels, least=6, most=30):
    """Tables (blocks, levels) with every word and p within reach: medians close by, noise of some
    per cent."""

    def made(seed, n, medians, noise):
        rng = np.random.default_rng(seed)
        return np.array(medians) * np.exp(noise * rng.standard_normal((n, levels)))

    medians = st.lists(
        st.sampled_from([0.5, 0.9, 1, 1.05, 1.3, 2]), min_size=levels, max_size=levels
    )
    noise = st.sampled_from([0.03, 0.1, 0.3])
    return st.builds(made, st.integers(0, 9999), st.integers(least, most), medians, noise)


def limits(found):
    return found.low, found.high


@FEW
@given(SAMPLES)
def test_median_interval(x):
    assert limits(median_interval(x)) == pytest.approx(second.median_limits(x))


@FEW
@given(SAMPLES)
def test_a_fixed_interval_is_no_wider_than_scipys_exact_one(x):
    exact = quantile_test(x, q=0, p=0.5).confidence_interval(0.95)
    low, high = limits(median_interval(x))
    assert exact.low <= low * (1 + 1e-12)
    assert high <= exact.high * (1 + 1e-12)


@FEW
@given(SAMPLES)
def test_median_interval_at_every_look(x):
    assert limits(median_interval(x, sequential=True)) == second.looked_limits(x)


@pytest.mark.parametrize("error", [Fraction(1, 40), Fraction(1, 20), Fraction(1, 1000)])
def test_boundary_in_exact_fractions(error):
    looks = Looks([float(error)])
    assert [int(looks.most(n)[0]) for n in range(61)] == second.boundary(60, error)


def test_boundary_of_nine_in_ten():
    looks = Looks([0.05], share=0.9)
    expected = second.boundary(40, Fraction(1, 20), Fraction(9, 10))
    assert [int(looks.most(n)[0]) for n in range(41)] == expected


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_every_run_of_a_coin_up_to_16_tosses(level):
    """Both ends of the interval, counted over all 65,536 runs."""
    most = [outside_of_looks(n, level) for n in range(1, 17)]
    missed = 0
    for tosses in product((0, 1), repeat=16):
        heads = 0
        for n, toss in enumerate(tosses, 1):
            heads += toss
            if min(heads, n - heads) <= most[n - 1]:
                missed += 1
                break
    assert missed / 2**16 <= 1 - level


def test_p_at_every_look_is_below_q_at_most_as_often_as_q():
    """Over all runs of 14 tosses, for every q that a p can take; a run's order says nothing."""
    p = [
        [sign_test([1.0] * above + [-1.0] * (n - above), sequential=True) for above in range(n + 1)]
        for n in range(15)
    ]
    for tosses in product((-1.0, 1.0), repeat=6):
        assert sign_test(tosses, sequential=True) == p[6][tosses.count(1.0)]
    counts = [np.cumsum(tosses) for tosses in product((0, 1), repeat=14)]
    worst = np.sort([min(p[n][above] for n, above in enumerate(run, 1)) for run in counts])
    rank = np.searchsorted(worst, worst, side="right") / worst.size
    assert (rank <= worst * (1 + 1e-9)).all()


@pytest.mark.parametrize("n", [5, 6, 10, 20, 50])
def test_p_at_every_look_is_never_below_the_p_of_one_look(n):
    for not_above in range(n + 1):
        differences = [-1.0] * not_above + [1.0] * (n - not_above)
        assert sign_test(differences, sequential=True) >= fair_coin_cdf(not_above, n)


@FEW
@given(st.lists(st.tuples(COST, COST), min_size=6, max_size=30))
def test_ratio_interval(pairs):
    a, b = zip(*pairs, strict=True)
    assert limits(ratio_interval(a, b)) == pytest.approx(second.ratio_limits(a, b))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 9999), st.integers(4, 9), st.integers(4, 9))
def test_unpaired_ratio_interval(seed, n, m):
    rng = np.random.default_rng(seed)
    a, b = np.exp(rng.standard_normal(n)), np.exp(rng.standard_normal(m))
    assert limits(unpaired_ratio_interval(a, b)) == pytest.approx(second.shift_limits(a, b))


@FEW
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_corrections(p):
    from scipy.stats import false_discovery_control

    assert benjamini_hochberg(p) == pytest.approx(false_discovery_control(p, method="bh"))
    order = sorted(range(len(p)), key=p.__getitem__)
    by_hand = [
        min(1, max(p[order[i]] * (len(p) - i) for i in range(rank + 1))) for rank in range(len(p))
    ]
    assert [holm(p)[i] for i in order] == pytest.approx(by_hand)


@FEW
@given(costs(2), st.sampled_from([(0.0, 0.95), (1.05, np.inf), (0.9, 1.1)]))
def test_ratio_words(table, bounds):
    a, b = table.T
    above, below = bounds
    word = ratio_verdict(a, b, above=above, below=below).word
    assert word == second.ratio_word(a, b, above, below)


@FEW
@given(costs(4, least=4), st.sampled_from(["rising", "falling"]))
def test_monotone_words(table, direction):
    word = monotone_verdict(range(4), table, direction).word
    assert word == second.monotone_word(table, direction)


@FEW
@given(costs(4, least=4), st.integers(0, 2))
def test_saturates_words(table, knee):
    word = saturates_verdict(range(4), table, knee, 0.1).word
    assert word == second.saturates_word(table, knee, 0.1)


@pytest.mark.parametrize("n", [1, 4, 5, 6, 10, 30])
def test_outcome_and_count_words(n):
    for hits in range(n + 1):
        expected = second.share_word(hits, n)
        assert outcome_verdict(["x"] * hits + ["y"] * (n - hits), "x").word == expected
        assert count_verdict([1] * hits + [2] * (n - hits), 1).word == expected


@pytest.mark.seconds
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(costs(2, most=9), min_size=1, max_size=3))
def test_comparison_words(tables):
    points = [tuple(table.T) for table in tables]
    assert [c.word for c in compare(points, 0.05)] == second.comparison_words(points, 0.05)


@FEW
@given(costs(4), st.booleans())
def test_crossover(ratios, sequential):
    sizes = [1, 2, 4, 8]
    assume(all(abs(np.median(np.log(column))) > 1e-6 for column in ratios.T))
    found = crossover(sizes, ratios, np.ones_like(ratios), sequential=sequential)
    assert found.estimate == pytest.approx(second.crossing(sizes, ratios))
    assert limits(found) == pytest.approx(second.crossing_limits(sizes, ratios, sequential))

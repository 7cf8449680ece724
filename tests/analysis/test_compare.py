"""Two runs: the words, the corrections, and how often they are wrong."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control, mannwhitneyu

from memlab.analysis.compare import (
    benjamini_hochberg,
    beyond_p,
    compare,
    compare_paired,
    equivalence_p,
    mann_whitney_p,
)

from .tables import comparison_shares, drift, paired_shares


def sample(n=20, factor=1.0, sd=0.02, seed=1):
    return factor * np.exp(sd * np.random.default_rng(seed).standard_normal(n))


def word(base, new, **options):
    return compare([(base, new)], **options)[0].word


def test_direction_of_the_metric():
    base, new = sample(seed=1), sample(factor=1.2, seed=2)
    assert word(base, new) == "slower"
    assert word(new, base) == "faster"
    assert word(base, new, lower_is_better=False) == "faster"
    assert word(new, base, lower_is_better=False) == "slower"


def test_same_even_where_a_small_difference_is_shown():
    (found,) = compare([(sample(50, seed=1), sample(50, factor=1.02, seed=2))])
    assert mann_whitney_p(sample(50, seed=1), sample(50, factor=1.02, seed=2)) < 0.05
    assert found.text == "same within 5 %"


def test_a_difference_that_is_shown_but_not_beyond_the_threshold_is_no_difference():
    """A ratio of 1.06 with an interval from 1.03: not the same, and not shown to be beyond 5 %."""
    base, new = sample(20, sd=0.05, seed=1), sample(20, factor=1.06, sd=0.05, seed=2)
    assert mann_whitney_p(base, new) < 0.05
    assert word(base, new) == "inconclusive"
    assert word(base, new, threshold=0.02) == "slower"


def test_inconclusive_says_how_many_more_blocks():
    (found,) = compare([(sample(8, sd=0.2, seed=1), sample(8, sd=0.2, seed=2))])
    assert found.word == "inconclusive"
    assert found.blocks_missing > 8
    assert found.text == f"inconclusive: about {found.blocks_missing} more blocks"


@pytest.mark.slow
def test_the_blocks_it_asks_for_usually_decide():
    decided = asked = 0
    rng = np.random.default_rng(5)
    for _ in range(100):
        base, new = (np.exp(0.05 * rng.standard_normal(10)) for _ in range(2))
        (found,) = compare([(base, new)])
        if found.word != "inconclusive" or found.blocks_missing > 500:
            continue
        asked += 1
        more = (np.exp(0.05 * rng.standard_normal(found.blocks_missing)) for _ in range(2))
        pair = tuple(np.concatenate(part) for part in zip((base, new), more, strict=True))
        decided += compare([pair])[0].word != "inconclusive"
    assert asked > 30
    assert decided / asked > 0.5


@pytest.mark.parametrize("n", [3, 4])
def test_no_word_from_fewer_than_five_samples(n):
    (found,) = compare([(np.arange(1, n + 1), 100 + np.arange(n))])
    assert found.word == "inconclusive"
    assert found.blocks_missing == 5 - n


def test_equal_constants_are_the_same_and_unequal_ones_are_not():
    assert word([3] * 5, [3] * 6) == "same"
    assert word([3] * 5, [4] * 6) == "slower"


def test_p_values_are_scipys():
    base, new = sample(9, seed=1), sample(9, factor=1.02, seed=2)
    assert mann_whitney_p(base, new) == mannwhitneyu(new, base).pvalue
    above = mannwhitneyu(new, base * 1.005, alternative="greater").pvalue
    assert beyond_p(base, new, 0.005) == pytest.approx(min(1, 2 * above))
    too_high = mannwhitneyu(new, base * 1.05, alternative="less").pvalue
    too_low = mannwhitneyu(new, base / 1.05, alternative="greater").pvalue
    assert equivalence_p(base, new, 0.05) == pytest.approx(max(too_high, too_low))


def test_benjamini_hochberg_is_scipys():
    p = [0.01, 0.8, 0.03, 0.02, 0.5, 0.03]
    assert benjamini_hochberg(p) == pytest.approx(false_discovery_control(p))
    assert benjamini_hochberg([]) == []


def test_equal_p_are_not_rounded_above_themselves():
    """0.05 * 12 / 12 is more than 0.05: twelve verdicts at their level all stood or none."""
    assert all(benjamini_hochberg([0.05] * count) == [0.05] * count for count in range(1, 200))


def test_one_false_find_among_many_points_is_corrected_away():
    rng = np.random.default_rng(0)
    pairs = [tuple(np.exp(0.3 * rng.standard_normal((2, 10)))) for _ in range(40)]
    alone = [compare([pair])[0].word for pair in pairs]
    together = [found.word for found in compare(pairs)]
    assert {"faster", "slower"} & set(alone)
    assert not {"faster", "slower"} & set(together)


def test_threshold_is_positive():
    with pytest.raises(ValueError, match="threshold"):
        compare([], threshold=0)


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 10, 20])
def test_false_differences_are_at_most_5_percent(n):
    shares = comparison_shares(n, 0.0)
    assert shares["faster"] + shares["slower"] <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 20])
def test_false_sameness_at_the_threshold_is_at_most_5_percent(n):
    assert comparison_shares(n, 0.05)["same"] <= 0.05


class TestPaired:
    """Levels of one run: what a block shares cancels."""

    def pair(self, factor, n=12, sd=0.02, seed=3):
        rng = np.random.default_rng(seed)
        shared = np.exp(5 * drift(rng, (n,)))  # the machine becomes over twice as slow meanwhile
        base, new = (shared * np.exp(sd * rng.standard_normal(n)) for _ in range(2))
        return base, factor * new

    def test_a_slowdown_under_a_drift_that_hides_it_from_two_runs(self):
        pair = self.pair(1.15)
        assert compare_paired([pair])[0].word == "slower"
        assert compare([pair])[0].word == "inconclusive"
        assert compare_paired([pair], lower_is_better=False)[0].word == "faster"
        assert compare_paired([self.pair(1.0)])[0].word == "same"

    def test_a_block_that_lacks_one_side_is_left_out(self):
        base, new = self.pair(1.15)
        new[::4] = np.nan
        (found,) = compare_paired([(base, new)])
        assert found.n == 9

    @pytest.mark.parametrize("n", [3, 4])
    def test_no_word_from_fewer_than_five_pairs(self, n):
        (found,) = compare_paired([(np.ones(n), 2 * np.ones(n))])
        assert (found.word, found.blocks_missing) == ("inconclusive", 6 - n)

    @pytest.mark.parametrize("n", [6, 20])
    def test_at_the_edge_every_word_is_rare(self, n):
        shares = paired_shares(n, 0.05)
        assert shares["slower"] <= 0.05
        assert shares["same"] <= 0.05

    def test_a_point_decided_alone_may_not_be_among_many(self):
        pairs = [self.pair(1.07, n=8, sd=0.003)] + [self.pair(1.05, seed=k) for k in range(40)]
        assert compare_paired(pairs[:1])[0].word == "slower"
        assert compare_paired(pairs)[0].word == "inconclusive"

"""How often a claim kind is wrong at the edge of its claim: at most 5 of 100.

1,000 simulated experiments or more a cell: a rate of 2.5 % has a standard error of 0.5 points.
Where a correction over many levels uses up the 5 % there are 3,000, for 0.4 points.
"""

from math import comb

import numpy as np
import pytest

from memlab.analysis.compare import benjamini_hochberg
from memlab.analysis.verdicts import (
    count_verdict,
    monotone_verdict,
    outcome_verdict,
    saturates_verdict,
)

from .tables import CASES, noisy, ratio_case, word_shares

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("n", [6, 10, 20])
@pytest.mark.parametrize("kind", [kind for kind in CASES if kind != "crossover"])
def test_at_the_edge(kind, n):
    seen = word_shares(kind, n, 0.0)
    assert seen["reproduced"] <= 0.05
    assert seen["contradicted"] <= 0.05


@pytest.mark.parametrize("n", [6, 20])
def test_crossover_at_the_end_of_the_range(n):
    seen = word_shares("crossover", n, 0.0)
    assert seen["reproduced"] <= 0.05
    assert seen["contradicted"] <= 0.05


def shares(judge, medians, n, sets=3000):
    rng = np.random.default_rng(n)
    words = [judge(noisy(rng, medians, n, 0.05)).word for _ in range(sets)]
    return {word: words.count(word) / sets for word in ("reproduced", "contradicted")}


@pytest.mark.parametrize("n", [8, 20])
def test_flat_levels_neither_rise_nor_are_shown_not_to(n):
    """Every step is at its edge: the worst case for the correction over the steps."""
    seen = shares(lambda costs: monotone_verdict(range(8), costs, "rising"), np.ones(8), n)
    assert seen["contradicted"] <= 0.05
    assert seen["reproduced"] <= 0.001


@pytest.mark.parametrize("n", [8, 20])
def test_saturation_with_every_level_at_the_edge_of_the_band(n):
    medians = [1.1, 1.1, 1.1, 1.1, 1]
    seen = shares(lambda costs: saturates_verdict(range(5), costs, 2, 0.1), medians, n)
    assert seen["contradicted"] <= 0.05
    assert seen["reproduced"] <= 0.05


@pytest.mark.parametrize("n", [8, 20])
def test_saturation_with_the_level_before_the_knee_at_the_edge(n):
    seen = shares(lambda costs: saturates_verdict(range(4), costs, 2, 0.1), [4, 1.1, 1, 1], n)
    assert seen["contradicted"] <= 0.05
    assert seen["reproduced"] <= 0.05


@pytest.mark.parametrize("n", [5, 6, 8, 10, 20, 50])
def test_outcome_and_count_exactly(n):
    """No simulation: the binomial of each number of hits times the word that it gets."""
    by_hits = [outcome_verdict(["x"] * k + ["y"] * (n - k), "x").word for k in range(n + 1)]
    assert by_hits == [count_verdict([1] * k + [2] * (n - k), 1).word for k in range(n + 1)]

    def chance(word, share):
        return sum(
            comb(n, k) * share**k * (1 - share) ** (n - k)
            for k in range(n + 1)
            if by_hits[k] == word
        )

    assert chance("reproduced", 0.5) <= 0.05
    assert chance("contradicted", 0.9) <= 0.05


@pytest.mark.parametrize("true", [0, 10])
def test_of_the_verdicts_of_a_study_that_stand_few_are_false(true):
    """20 claims, `true` of which hold by far and the others not at all, being at their edge: the
    share of false ones among those that stand, averaged over 400 studies (standard error 1 point).
    """
    rng = np.random.default_rng(true)
    shares, wrong_before = [], 0
    for _ in range(400):
        judged = [ratio_case(rng, 10, 0.2 if i < true else 0.0) for i in range(20)]
        stand = [p <= 0.05 for p in benjamini_hochberg([v.p or 1.0 for v in judged])]
        false = [
            s and (i >= true or v.word == "contradicted")
            for i, (s, v) in enumerate(zip(stand, judged, strict=True))
        ]
        shares.append(sum(false) / max(1, sum(stand)))
        wrong_before += any(v.word != "inconclusive" for v in judged[true:])
    assert np.mean(shares) <= 0.05 + 2 * 0.01
    assert wrong_before / 400 > 0.2  # uncorrected, many a study has a false verdict


def test_a_decided_verdict_has_a_p_and_an_open_one_none():
    rng = np.random.default_rng(1)
    for kind in CASES:
        for effect in (0.0, 0.3):
            verdict = CASES[kind](rng, 20, effect)
            decided = verdict.word in ("reproduced", "contradicted")
            assert (verdict.p is not None) == decided
            assert verdict.p is None or 0 <= verdict.p <= 0.05

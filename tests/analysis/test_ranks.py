"""Signed ranks in place of signs: what docs/statistics.md says of them, simulated again."""

import numpy as np
import pytest
from scipy.stats import wilcoxon

from memlab.analysis.exact import outside_of_looks

from . import ranks


@pytest.mark.parametrize("n", [6, 10, 17])
def test_the_interval_is_wilcoxons_test_turned_round(n: int) -> None:
    """scipy's exact test shows a shift at 5 % where the interval leaves it out, and only there."""
    rng = np.random.default_rng(n)
    for logs in rng.normal(0.5, 1.0, (30, n)):
        low, high = ranks.by_ranks(logs[None], looked=False)
        shown = wilcoxon(logs, method="exact").pvalue <= 0.05
        assert shown == (not low[0] <= 0 <= high[0])


@pytest.mark.slow
def test_the_first_look_spends_what_that_of_signs_spends() -> None:
    """One outcome in 64: all signs alike."""
    assert ranks.leave_looked()[ranks.FIRST] == outside_of_looks(ranks.FIRST, 0.95) == 0
    assert ranks.leave_looked()[ranks.FIRST - 1] == -1


@pytest.mark.slow
@pytest.mark.parametrize("case", ranks.CASES)
def test_the_table(case: str) -> None:
    """Signs hold whatever the noise. Ranks hold where it is symmetric, and fail where one of the
    two points alone is noisy and skewed. Four standard errors of room."""
    room = 4 * 100 * (0.05 * 0.95 / (4 * ranks.SETS)) ** 0.5
    assert ranks.coverage(case, "signs", 20) >= 95 - room
    skewed = case in ("one point: Pareto 1.1", "one point: bimodal 70/30")
    assert (ranks.coverage(case, "ranks", 20) >= 95 - room) == (not skewed)
    assert ranks.coverage(case, "ranks", 50) < 85 or not skewed

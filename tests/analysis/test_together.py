"""Errors of many verdicts together, and of runs that stop at the first word of a comparison."""

import pytest

from tests.analysis.together import study_rates, two_runs

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("true", [0, 20])
def test_of_verdicts_that_stand_at_most_five_per_cent_are_false(true: int) -> None:
    """A standard error of 150 studies is at most 1.8 %."""
    false, stand, bare = study_rates("lognormal", true, False, 150)
    assert stand > 0.9 * true
    assert false <= 0.05 + 2 * 0.018
    assert bare > 0.3  # so that the correction is what holds it


def test_two_runs_that_stop_at_the_first_word_are_seldom_wrong() -> None:
    """At the threshold each word is wrong. One standard error of 200 is 1.5 %."""
    sequential, fixed = (
        two_runs("lognormal", 0.05, 200, sequential) for sequential in (True, False)
    )
    assert max(sequential["slower"], sequential["same"]) <= 0.05 + 2 * 0.015
    assert max(fixed.values()) > 0.1

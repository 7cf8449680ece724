"""What holds for the next session: by simulation of sessions that differ by more than blocks do."""

from pathlib import Path

import numpy as np
import pytest
from quick import mostly_slow

from memlab.analysis.intervals import next_unit_interval

from .sessions import LUCK, SESSIONS, judged_slower, next_covered, ratio_covered, rows

DOC = Path(__file__).with_name("README.md")
SETS = 400  # a standard error of 1.1 points at 95 %


def test_next_unit_interval_is_students_at_an_eighth_of_the_error():
    """Logs -1, 0, 1: mean 0, deviation 1; t of 2 degrees of freedom is 12.5897 at 99.6875 %."""
    found = next_unit_interval(np.exp([-1.0, 0.0, 1.0]))
    half = 12.589741 * np.sqrt(4 / 3)
    assert (found.estimate, found.n) == (pytest.approx(1), 3)
    assert (found.low, found.high) == (
        pytest.approx(np.exp(-half)),
        pytest.approx(np.exp(half)),
    )


@pytest.mark.parametrize("values", [[3.0], [3.0, np.nan]])
def test_one_session_says_nothing_of_the_next(values):
    found = next_unit_interval(values)
    assert (found.low, found.estimate, found.high, found.n) == (None, 3.0, None, 1)


def test_sessions_that_agree_leave_no_doubt():
    found = next_unit_interval([0.1, 0.1, 0.1])
    assert (found.low, found.estimate, found.high) == (0.1, 0.1, 0.1)


def test_counts_that_may_be_0_have_an_interval_from_0_on():
    found = next_unit_interval([0, 0, 0, 1, 0])
    assert (found.low, found.estimate) == (0.0, 0.0)
    assert found.high > 1


@pytest.mark.parametrize("luck", LUCK)
@pytest.mark.parametrize("sessions", [5, 10])
def test_the_next_session_is_where_the_interval_says(luck, sessions):
    """Where one session's own interval hardly ever has it."""
    assert next_covered(luck, 1, SETS) < 0.6
    # Two standard errors of these sets below 95 %.
    assert next_covered(luck, sessions, SETS) > 0.95 - 2 * 0.011


@pytest.mark.parametrize("luck", LUCK)
@pytest.mark.parametrize("sessions", [5, 10])
def test_the_ratio_of_two_runs_holds_whatever_the_luck(luck, sessions):
    assert ratio_covered(luck, 1, SETS) < 0.7
    assert ratio_covered(luck, sessions, SETS) > 0.93


@pytest.mark.slow
@pytest.mark.parametrize("luck", mostly_slow(LUCK, next(iter(LUCK))))
def test_ten_sessions_catch_what_one_misses_and_pass_what_is_clean(luck):
    """Of fewer sets than above: what is asked for lies five standard errors and more apart."""
    sets = SETS // 2
    assert judged_slower(luck, 1, 0.15, sets) < 0.95
    assert judged_slower(luck, 10, 0.15, sets) > 0.94
    clean = judged_slower(luck, 10, 0.0, sets)
    assert clean < judged_slower(luck, 1, 0.0, sets)
    assert clean < 0.01


def documented():
    found = {}
    for line in DOC.read_text().splitlines():
        label, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        if len(cells) == len(SESSIONS) and all(c.replace(".", "").isdigit() for c in cells):
            found[label] = [float(cell) for cell in cells]
    return found


def test_every_row_is_documented():
    assert list(documented()) == list(rows())


@pytest.mark.slow
@pytest.mark.parametrize("label", rows())
def test_documented_row(label):
    assert documented()[label] == pytest.approx([rows()[label](n) for n in SESSIONS], abs=0.1)

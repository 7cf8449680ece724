"""Whole bisections of simulated kernels are wrong far less often than they say at most."""

from pathlib import Path

import pytest

from tests.analysis.bisections import AWAYS, SCALE, rates

DOC = Path(__file__).with_name("README.md")
LABELS = [(noise, away) for noise in SCALE for away in AWAYS]


def test_a_clear_step_is_named_exactly():
    found = rates("lognormal", "30 and 30 %", 40)
    assert (found.answered, found.wrong, found.exact) == (100, 0, 100)
    assert 2 <= found.looks <= 10  # halving 32 kernels, not walking them


@pytest.mark.slow
@pytest.mark.parametrize("away", AWAYS)
def test_wrong_steps_are_fewer_than_the_bound_that_is_printed(away):
    found = rates("lognormal", away, 200)
    assert found.wrong <= found.bound
    assert found.wrong <= 5 + 2 * 1.5  # per cent, and two standard errors


def documented():
    found = {}
    for line in DOC.read_text().splitlines():
        label, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        if label in [", ".join(one) for one in LABELS]:
            found[label] = [float(cell) for cell in cells]
    return found


def test_every_row_is_documented():
    assert list(documented()) == [", ".join(one) for one in LABELS]


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "away"), LABELS)
def test_documented_row(noise, away):
    r = rates(noise, away, 2000)
    cells = [r.answered, r.wrong, r.exact, r.bound, r.looks]
    assert documented()[f"{noise}, {away}"] == pytest.approx(cells, abs=0.1)

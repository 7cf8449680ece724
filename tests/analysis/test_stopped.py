"""Intervals that do not rest on signs, where a sweep stops as soon as they are narrow."""

from pathlib import Path

import pytest

from .stopped import NOISES, WHATS, changed, changed_rows, covered, rows

DOC = Path(__file__).with_name("README.md")


def documented() -> dict[str, list[float]]:
    found = {}
    for line in DOC.read_text().splitlines():
        label, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        if label in rows() or label in changed_rows():
            found[label] = [float(cell) for cell in cells]
    return found


def test_every_row_is_documented() -> None:
    assert list(documented()) == [*rows(), *changed_rows()]


@pytest.mark.parametrize("label", rows())
def test_the_interval_for_looks_holds_more_than_the_fixed_one(label: str) -> None:
    fixed, sequential = documented()[label]
    assert sequential > fixed
    assert sequential >= 93.5  # of a cost constant with two modes, within two standard errors


@pytest.mark.slow
@pytest.mark.parametrize("what", WHATS)
def test_a_looked_at_interval_holds_the_truth(what: str) -> None:
    """One standard error is 2 points."""
    assert covered(what, "lognormal", sequential=True, sets=100) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_a_change_that_was_found_is_as_large_and_where_it_is_said(name: str) -> None:
    ratio, place = changed(name, 0.05, 0, sets=100)
    assert min(ratio, place) >= 90

"""docs/statistics.md shows what the code gives: its tables, computed again."""

from pathlib import Path

import pytest

from .tables import BLOCKS, coverage_rows, power_rows, stopped_rows

DOC = Path(__file__).parents[2] / "docs" / "statistics.md"


def documented():
    """{label: {blocks: percent}} of every table row whose cells are all numbers."""
    rows = {}
    for line in DOC.read_text().splitlines():
        label, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        if len(cells) == len(BLOCKS) and all(c.replace(".", "").isdigit() for c in cells):
            rows[label] = dict(zip(BLOCKS, map(float, cells), strict=True))
    return rows


def test_every_row_is_documented_and_no_other():
    assert list(documented()) == [*coverage_rows(), *stopped_rows(), *power_rows()]


@pytest.mark.slow
@pytest.mark.parametrize("label", stopped_rows())
def test_stopped_row(label):
    assert list(documented()[label].values()) == pytest.approx(stopped_rows()[label](), abs=1.5)


@pytest.mark.parametrize("label", coverage_rows())
def test_coverage_row(label):
    row = coverage_rows()[label]
    again = [100 * row(n) for n in BLOCKS]
    assert list(documented()[label].values()) == pytest.approx(again, abs=1.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "n"),
    [
        ("ratio, 5%", 10),
        ("equivalent, 10%", 10),
        ("monotone, 10%", 6),
        ("saturates, 5%", 20),
        ("crossover, 5%", 6),
        ("two runs, slower by 5%", 10),
        ("two runs, the same", 20),
        ("two levels under drift, slower by 15%", 10),
    ],
)
def test_power_cell(label, n):
    assert documented()[label][n] == pytest.approx(100 * power_rows()[label](n), abs=4)

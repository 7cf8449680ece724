"""The tables of error rates are what the code gives, computed again."""

from pathlib import Path

import pytest
from quick import mostly_slow

from . import smallest
from .tables import BLOCKS, coverage_rows, power_rows, stopped_rows

DOCS = Path(__file__).parents[2] / "docs"
DOC = Path(__file__).with_name("README.md")


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


@pytest.mark.parametrize(
    ("said", "begins", "cells"),
    [
        ("a median's interval holds the truth", "median, ", slice(4)),
        ("a paired ratio's, under drift", "paired ratio under drift, ", slice(4)),
        ("a lone median's, under drift", "median under drift", slice(4)),
        ("a median's or ratio's in a sweep that stops", "stopped, ", slice(1, 2)),
    ],
)
def test_the_summary_spans_the_rows(said: str, begins: str, cells: slice) -> None:
    rows = [[*of.values()][cells] for label, of in documented().items() if label.startswith(begins)]
    found = [cell for row in rows for cell in row]
    (line,) = (
        line
        for line in (DOCS / "statistics.md").read_text().splitlines()
        if line.startswith(f"| {said}")
    )
    assert f"| {min(found)} to {max(found)} % |" in line


@pytest.mark.parametrize("name", mostly_slow(smallest.ROWS, "blocks, correlation 0.5"))
def test_the_smallest_change_that_shows_is_the_table_s(name: str) -> None:
    counts, of = smallest.ROWS[name]
    cells = " | ".join(smallest.cell(count, of(count)) for count in counts)
    assert f"| {name} | {cells} |" in (DOCS / "statistics.md").read_text()

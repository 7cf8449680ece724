"""Figures for claims: every mark stands where its numbers say, every word is there and readable."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from looking import collisions, texts
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from report_runs import SIZES, printed, stored

from memlab.experiment import At, Claim, Count, Equivalent, Monotone, Outcome
from memlab.judging.claims import judge
from memlab.present import figures
from memlab.present.figures import against, table_chart
from memlab.present.figures import claims as claims_figures
from memlab.published import PrintedCell
from memlab.results import Run
from memlab.results.beside import tables


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return stored(tmp_path_factory.mktemp("as-printed"))


def claims(run: Run) -> dict[str, against.JudgedRatio]:
    """Each claim's first row, by the kind of claim and what it is about."""
    found = against.against(run, judge(run))
    return {claim.text: rows[0] for claim, rows in found}


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in texts(figure)]


def lines(axes: Axes, marker: str) -> list[Line2D]:
    return [line for line in axes.get_lines() if line.get_marker() == marker]


def test_a_ratio_is_held_against_the_two_numbers_that_are_printed(run: Run) -> None:
    row = claims(run)["at 1 byte per call a mapping is over 10 times faster than write(2)"]
    assert row.claimed == (10, math.inf)
    assert row.printed == against.PrintedNumber(pytest.approx(300 / 22.14), ">")
    assert row.here == pytest.approx(600 / 22.14)
    assert row.word == "reproduced"


def test_a_level_stretch_is_held_against_its_printed_ends(run: Run) -> None:
    row = claims(run)["a mapping reaches its full speed at 100 bytes per call"]
    assert row.claimed == (pytest.approx(1 / 1.2), 1.2)
    assert row.printed == against.PrintedNumber(pytest.approx(2.84 / 2.49))
    assert row.here == pytest.approx(2.84 / 2.49)


def test_a_crossing_is_held_against_where_the_printed_curves_cross(run: Run) -> None:
    row = claims(run)["write(2) becomes faster than a mapping between 1024 and 4096 bytes per call"]
    before, after = math.log(3.48 / 2.48), math.log(2.34 / 2.47)
    crossing = 1024 * 2 ** (before / (before - after))
    assert row.printed is not None
    assert row.printed.value == pytest.approx(crossing)
    assert row.here == pytest.approx(crossing)
    assert row.claimed == (1024, 4096)


def test_one_printed_number_is_read_out_of_the_claim(tmp_path: Path) -> None:
    read = stored(tmp_path, lambda at: 0.5, experiment="mmap-read", blocks=6, size=[4096, 10240])
    row = claims(read)["2 GiB are read through a mapping in 0.9 ms or less at 10240 bytes per call"]
    assert row.printed == against.PrintedNumber(pytest.approx(867.88e-6))
    assert row.word == "contradicted"
    ratio = claims(read)["copying out of a mapping is faster than read(2) of the same size"]
    assert ratio.printed is None
    assert ratio.anchor == 1.0


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (Equivalent(text="", metric="m", of={}, to={}, within=0.25), (0.8, 1.25)),
        (Monotone(text="", metric="m", over="size", rising=True), (1.0, math.inf)),
        (Monotone(text="", metric="m", over="size", rising=False), (0.0, 1.0)),
        (Count(text="", metric="m", equals=100, within=0.1), (90.0, 110.0)),
        (Outcome(text="", metric="m", outcome="ok"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_where_a_claim_holds(claim: Claim, expected: tuple[float, float] | None) -> None:
    assert against.claimed(claim) == (expected and pytest.approx(expected))


@pytest.mark.parametrize(
    ("over", "under", "expected"),
    [
        ("4s", "2s", against.PrintedNumber(2.0)),
        (">4s", "2s", against.PrintedNumber(2.0, ">")),
        ("4s", ">2s", against.PrintedNumber(2.0, "<")),
        (">4s", "<2s", against.PrintedNumber(2.0, ">")),
        (">4s", ">2s", None),
    ],
)
def test_a_ratio_to_a_bound_is_a_bound(
    over: str, under: str, expected: against.PrintedNumber | None
) -> None:
    assert against.quotient_of(PrintedCell.read(over), PrintedCell.read(under)) == expected


def test_the_dumbbell_says_every_verdict_at_its_row_and_marks_it_there(run: Run) -> None:
    judged = judge(run)
    figure = claims_figures.dumbbell(run, judged)
    said = words(figure)
    for word in {j.word for j in judged}:
        assert said.count(word) == sum(j.word == word for j in judged)
    assert any("published >13.6" in line for line in said)
    assert "memlab 9.9, run ab12cd34 of 2026-01-02: 340 samples, 20 per point" in said
    axes = figure.axes[0]
    spots = [line.get_xdata()[0] for line in lines(axes, "o") if line.get_markersize() == 6.5]
    assert any(spot == pytest.approx(2.0, rel=1e-3) for spot in spots)  # 600 s and >300 s
    rings = [line.get_xdata()[0] for line in lines(axes, "o") if line.get_markersize() == 8]
    assert rings == [1.0] * len(judged)
    assert collisions(figure) == []


def test_an_open_end_is_an_arrow_and_no_number(tmp_path: Path) -> None:
    heavy = stored(tmp_path, blocks=6, floor_ns=9.0)  # of the 10 ns that a store of 1 byte takes
    row = claims(heavy)["at 1 byte per call a mapping is over 10 times faster than write(2)"]
    assert (row.here, row.high) == (None, math.inf)
    figure = claims_figures.dumbbell(heavy, judge(heavy))
    assert any(line.startswith("here at least ") for line in words(figure))
    assert collisions(figure) == []


def test_where_nothing_can_be_compared_the_row_says_why(tmp_path: Path) -> None:
    failed = stored(tmp_path, lambda at: None, blocks=6)
    figure = claims_figures.dumbbell(failed, judge(failed))
    assert "ENOMEM" in " ".join(words(figure))
    assert [line for line in figure.axes[0].get_lines() if line.get_marker() in "os"] == []
    assert collisions(figure) == []


def test_the_chart_has_a_mark_for_every_printed_cell_and_every_number_here(run: Run) -> None:
    table = next(iter(tables(run)))
    figure = claims_figures.table_chart(run, table)
    above, below = figure.axes
    cells = [cell.value for row in table.rows for cell in row.cells.values()]
    medians = [here.estimate for r in table.rows for here in r.here.values() if here]
    assert len(medians) == 2 * len(SIZES)
    for markers, wanted in (("x2", cells), ("os", medians)):
        ys = [float(m.get_ydata()[0]) for marker in markers for m in lines(above, marker)]
        assert sorted(ys) == pytest.approx(sorted(wanted))
    assert above.get_yscale() == "log"
    (bound,) = lines(above, "2")
    assert bound.get_ydata()[0] == 300
    (ratio,) = lines(below, "1")
    assert ratio.get_ydata()[0] == pytest.approx(600 * 1.0095 / 300)
    assert "median of 20 samples, 95 % interval" in words(figure)
    assert collisions(figure) == []


def test_a_chart_of_like_numbers_has_a_linear_axis_from_zero(tmp_path: Path) -> None:
    alike = stored(tmp_path, blocks=6)
    table = next(iter(tables(alike)))
    short = replace(table, rows=table.rows[3:])
    above = claims_figures.table_chart(alike, short).axes[0]
    assert above.get_yscale() == "linear"
    assert above.get_ylim()[0] == 0
    spans = [cell.value for row in short.rows for cell in row.cells.values()]
    assert max(spans) / min(spans) < table_chart.LOG_SPAN


def test_a_cell_without_a_number_here_is_marked(tmp_path: Path) -> None:
    few = stored(tmp_path, blocks=4, size=[1, 4096])
    figure = claims_figures.table_chart(few, next(iter(tables(few))))
    assert words(figure).count("not measured") == 2 * (len(SIZES) - 2)
    assert "median of 4 samples, no interval below 6" in words(figure)
    assert collisions(figure) == []


def test_the_matrix_has_the_word_in_each_cell(tmp_path: Path) -> None:
    def fails_at_100(at: At) -> float | None:
        return None if at["size"] == 100 else printed(at)

    mixed = stored(tmp_path, fails_at_100, blocks=6)
    figure = figures.draw(figures.outcomes(mixed))
    said = words(figure)
    assert "How the samples ended, by bytes per call" in said
    assert said.count("enomem 6") == 2
    assert said.count("ok 6") == 2 * (len(SIZES) - 1)
    assert collisions(figure) == []


def test_the_matrix_of_a_run_without_samples_says_so(tmp_path: Path) -> None:
    empty = stored(tmp_path, blocks=0)
    assert words(figures.draw(figures.outcomes(empty))).count("\N{EN DASH}") == 2 * len(SIZES)

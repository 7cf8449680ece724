"""Strips of samples: each sample a dot beside its point's median, and never too many of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from looking import collisions, written
from made_runs import made, ok
from matplotlib.figure import Figure

from memlab.experiment import At, Bars, Cost, Experiment, Factor, Metric, choice
from memlab.experiment.figures import Choice
from memlab.present import figures, report
from memlab.present.figures import rows, sidecar
from memlab.present.figures.kinds import strip_plot
from memlab.results import Run

EXPERIMENT = Experiment(
    name="strips",
    question="How much do they differ?",
    probe="noop",
    factors=[
        Factor("way", choice("steady", "wild"), quick=["steady", "wild"], help="how"),
        Factor("place", choice("near", "far"), quick=["near", "far"], help="where"),
    ],
    metrics=[Metric("took", "s", "time", of=lambda raw, at: raw["took"])],
    cost=Cost(),
    figure=Bars("took", over="place", by=["way"]),
)

Make = Callable[..., Run]


def world(at: At, block: int) -> Mapping[str, Any]:
    """Samples 1 % or 10 % of the median apart; nine blocks have a middle one."""
    step = {"steady": 0.01, "wild": 0.1}[str(at["way"])]
    return ok(took=2.0 * (1 + step * (block - 4)))


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(world: Any = world, **how: Any) -> Run:
        return made(tmp_path, monkeypatch, EXPERIMENT, world, **{"blocks": 9} | how)

    return make


def dots(figure: Figure) -> list[tuple[float, float]]:
    """The samples drawn, across and up."""
    lines = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    return [
        (float(x), float(y))
        for line in lines
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]


def test_a_row_has_the_samples_and_how_far_they_lie_from_their_median(make: Make) -> None:
    run = figures.chosen(make(), Choice(samples=True))
    marks = sidecar.as_data(run)["marks"]
    assert [mark["series"] for mark in marks] == [
        "near, steady",
        "near, wild",
        "far, steady",
        "far, wild",
    ]
    assert [mark["spread"] for mark in marks] == pytest.approx([0.02, 0.2, 0.02, 0.2])
    assert [mark["median"] for mark in marks] == [2.0] * 4
    of_point = {tuple(p.at.values()): run.by_point[p.index].ids.tolist() for p in run.points}
    assert all(mark["samples"] == of_point[tuple(mark["levels"].values())] for mark in marks)
    assert list(figures.findings(run)) == [
        "half of a point's samples lie within 2 % (near, steady) to 20 % (far, wild) of its median"
    ]


def test_each_sample_is_a_dot_and_the_first_is_at_the_top(make: Make) -> None:
    figure = figures.draw(figures.chosen(make(), Choice(samples=True)))
    drawn = dots(figure)
    assert len(drawn) == 4 * 9
    row = drawn[9:18]  # of near, wild
    assert [x for x, _ in row] == pytest.approx([0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4])
    assert [y for _, y in row] == sorted((y for _, y in row), reverse=True)
    assert collisions(figure) == []
    for said in ("2 s, n=9", "near, wild", "sample / median of its point", EXPERIMENT.question):
        assert said in written(figure)


def test_of_many_samples_a_few_are_drawn_and_the_extremes_are_among_them(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strip_plot, "_DOTS_MAX", 80)
    draw = np.random.default_rng(7)
    many = make(lambda at, block: ok(took=float(draw.lognormal())), blocks=300)
    figure = figures.draw(figures.chosen(many, Choice(samples=True)))
    drawn = [x for x, _ in dots(figure)]
    assert 4 * 18 <= len(drawn) <= 4 * 20
    values = [many.values("took", point) for point in many.points]
    extremes = [end for v in values for end in (v.min() / np.median(v), v.max() / np.median(v))]
    assert all(np.isclose(drawn, end).any() for end in extremes)
    said = "drawn: at most 20 samples per point, the least and largest among them"
    assert said in written(figure)


def test_of_many_points_those_that_spread_the_most_are_drawn(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROWS_MAX", 2)
    run = figures.chosen(make(), Choice(samples=True))
    assert len(sidecar.as_data(run)["marks"]) == 4
    figure = figures.draw(run)
    text = written(figure)
    assert len(dots(figure)) == 2 * 9
    assert "drawn: the 2 of 4 points that spread the most" in text
    assert "far, wild" in text
    assert "far, steady" not in text


def test_a_disturbed_sample_is_an_open_dot(make: Make) -> None:
    def disturbed(at: At, block: int) -> Mapping[str, Any]:
        reply = dict(world(at, block))
        result = reply["result"]
        window = result["window"] | {"major_fault_count": int(block == 3)}
        return reply | {"result": result | {"window": window}}

    figure = figures.draw(figures.chosen(make(disturbed), Choice(samples=True)))
    fills = [line.get_markerfacecolor() for line in figure.axes[0].lines if len(line.get_xdata())]
    assert fills.count("white") == 4
    assert "flagged: major faults" in written(figure)


def test_a_point_with_a_sample_at_zero_has_no_ratio_and_is_named(make: Make) -> None:
    run = figures.chosen(make(lambda at, block: ok(took=float(block))), Choice(samples=True))
    figure = figures.draw(run)
    assert "no value: near, steady; near, wild; far, steady; far, wild: not above zero" in written(
        figure
    )


def test_the_report_shows_the_samples_unless_they_are_all_the_same(make: Make) -> None:
    assert "every sample beside its point&#39;s median" in report.html([make()])


def test_exact_counts_have_no_distribution_in_the_report(make: Make) -> None:
    run = make(lambda at, block: ok(took=3.0))
    assert "every sample" not in report.html([run])
    said = list(figures.findings(figures.chosen(run, Choice(samples=True))))
    assert said == ["all samples of a point are the same"]

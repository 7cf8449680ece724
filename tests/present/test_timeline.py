"""Courses over time: the median trial strong, the others behind it, limits and events in place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looking import written
from made_runs import made, ok
from matplotlib.figure import Figure

from memlab.experiment import (
    BYTES,
    At,
    Control,
    Cost,
    Experiment,
    Factor,
    Metric,
    Timeline,
    choice,
)
from memlab.present import figures
from memlab.present.figures import sidecar, style
from memlab.results import Run

MIB = 2**20
LIMIT = 64 * MIB
EXPERIMENT = Experiment(
    name="course",
    question="How does memory go on under a limit?",
    probe="noop",
    factors=[
        Factor("way", choice("told", "left"), quick=["told", "left"], help="who gives way"),
        Factor("swap", choice("file", "zram"), quick=["file"], help="where to"),
        Factor("size", BYTES, quick=[MIB], help="of an entry"),
    ],
    metrics=[Metric("rate", "1/s", "operations a second", of=lambda raw, at: raw["rate"])],
    cost=Cost(),
    figure=Timeline(
        "rate",
        over="swap",
        by=["way"],
        series="charged",
        quantity="memory charged",
        marks="notices",
        mark_label="notification",
        ended="killed",
        ended_label="killed by the OOM killer",
        limit=lambda at: LIMIT if at["swap"] == "file" else None,
        limit_label="limit",
        where={"size": MIB},
        controls=["compressed"],
    ),
    controls=[
        Control("compressed", "Swap in memory.", {"swap": ["zram"]}, presets=["paper"]),
        Control("large", "Larger entries.", {"size": [4 * MIB], "way": ["told"]}, ["paper"]),
    ],
)
RATES = (5.0, 1.0, 9.0, 3.0, 7.0)  # block 0 has the median

Make = Callable[..., Run]


def world(at: At, block: int) -> Mapping[str, Any]:
    """A ramp to a height of the block's own, with 23 notices on the way where it is told."""
    told = at["way"] == "told"
    top = (40 if told else 60) * MIB + block * 2**18
    ramp = {
        "at_ns": [i * 10**7 for i in range(101)],
        "values": [top * i // 100 for i in range(101)],
    }
    notices = range(23) if told else ()
    return ok(
        rate=RATES[block],
        charged=ramp | {"lost": 0},
        notices={"at_ns": [i * 10**7 for i in notices], "values": [30 * MIB for _ in notices]}
        | {"lost": 0},
        killed=not told,
    )


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    count = itertools.count()

    def build(world: Any = world, **how: Any) -> Run:
        folder = tmp_path / str(next(count))
        folder.mkdir()
        return made(folder, monkeypatch, EXPERIMENT, world, **({"blocks": 5} | how))

    return build


def rows(run: Run) -> list[dict[str, Any]]:
    return [row for row in sidecar.as_data(run)["marks"] if row["kind"] == "over time"]


def courses(figure: Figure, axes: int = 0) -> list[Any]:
    """The lines of a whole trial."""
    return [line for line in figure.axes[axes].lines if len(line.get_xdata()) > 50]


def test_the_trial_of_the_median_is_strong_and_the_others_are_pale(make: Make) -> None:
    run = make()
    lines = courses(figures.draw(run))
    assert len(lines) == 2 * 5
    strong = [line for line in lines if line.get_linewidth() > 1]
    drawn = {row["series"]: row for row in rows(run)}
    for label, line in zip(("told", "left"), strong, strict=True):
        (sample,) = (s for s in run.samples if s.id == drawn[label]["drawn"])
        assert sample.block == 0
        assert sample.raw is not None
        assert list(line.get_ydata()) == sample.raw["charged"]["values"]
        assert list(line.get_xdata()) == [ns * 1e-9 for ns in sample.raw["charged"]["at_ns"]]
        assert len(drawn[label]["samples"]) == 5


def test_of_an_even_number_the_lower_middle_is_drawn(make: Make) -> None:
    run = make(blocks=4)  # 1, 3, 5, 9: block 3 has 3
    blocks = {s.id: s.block for s in run.samples}
    assert {blocks[row["drawn"]] for row in rows(run)} == {3}


def test_a_trial_without_the_metric_is_no_median(make: Make) -> None:
    def lame(at: At, block: int) -> Mapping[str, Any]:
        reply = world(at, block)
        return reply | {"result": reply["result"] | {"rate": None if block == 0 else RATES[block]}}

    run = make(lame)  # 1, 3, 7, 9
    blocks = {s.id: s.block for s in run.samples}
    assert {blocks[row["drawn"]] for row in rows(run)} == {3}


def test_events_and_an_end_are_marked_where_they_were(make: Make) -> None:
    run = make()
    (axes,) = figures.draw(run).axes
    (notices,) = (line for line in axes.lines if len(line.get_xdata()) == 23)
    assert list(notices.get_xdata()) == [i * 10**7 * 1e-9 for i in range(23)]
    (end,) = (line for line in axes.lines if line.get_marker() == "x")
    assert end.get_xydata().tolist() == [[1.0, 60 * MIB]]
    assert [(row["marks"], row["ended"]) for row in rows(run)] == [(23, False), (0, True)]
    text = written(figures.draw(run))
    assert "notification" in text
    assert "killed by the OOM killer" in text


def test_moments_lie_on_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever value was stored with them: it may be of another quantity."""
    assert isinstance(EXPERIMENT.figure, Timeline)
    momentary = replace(EXPERIMENT, figure=replace(EXPERIMENT.figure, moments=True))
    run = made(tmp_path, monkeypatch, momentary, world, blocks=5)
    (axes,) = figures.draw(run).axes
    (notices,) = (line for line in axes.lines if len(line.get_xdata()) == 23)
    assert list(notices.get_ydata()) == [40 * MIB * i // 100 for i in range(23)]


def test_the_limit_is_a_line_with_its_name_in_the_margin(make: Make) -> None:
    figure = figures.draw(make(levels={"swap": ["file", "zram"]}))
    with_limit, without = figure.axes
    assert [t.get_text() for t in with_limit.texts] == ["told", "left", "limit 64 MiB"]
    assert [t.get_text() for t in without.texts] == ["told", "left"]
    assert [LIMIT, LIMIT] in [list(line.get_ydata()) for line in with_limit.lines]
    assert {axes.get_ylim() for axes in figure.axes} == {(0.0, LIMIT * 1.08)}


def test_lines_differ_in_more_than_colour(make: Make) -> None:
    strong = [line for line in courses(figures.draw(make())) if line.get_linewidth() > 1]
    assert len({str(line.get_linestyle()) for line in strong}) == 2
    assert len({style.dashes(rank) for rank in range(2)}) == 2


def test_one_line_alone_is_an_area_and_needs_no_name(make: Make) -> None:
    (axes,) = figures.draw(make(levels={"way": ["left"]})).axes
    assert [text.get_text() for text in axes.texts] == ["limit 64 MiB"]
    assert len(axes.collections) == 1
    assert not figures.draw(make()).axes[0].collections


def test_a_level_that_the_run_lacks_gives_way_to_its_own(make: Make) -> None:
    run = make(levels={"size": [4 * MIB, 16 * MIB]})
    assert [row["levels"]["size"] for row in rows(run)] == [4 * MIB] * 2
    run = make(levels={"size": [4 * MIB, MIB]})
    assert [row["levels"]["size"] for row in rows(run)] == [MIB] * 2


def test_a_control_that_is_named_is_drawn_in_panels_of_its_own(make: Make) -> None:
    run = make(preset="paper")
    assert {point.control for point in run.points} == {None, "compressed", "large"}
    assert [row["panel"]["swap"] for row in rows(run)] == ["file", "file", "zram", "zram"]
    assert len(figures.draw(run).axes) == 2


def test_the_finding_is_the_peak(make: Make) -> None:
    text = written(figures.draw(make()))
    assert ": 40 MiB (told), 60 MiB (left)" in text
    many = make(levels={"swap": ["file", "zram"]})
    assert ": 40 MiB (file, told) to 60 MiB (zram, left)" in written(figures.draw(many))


def test_what_was_lost_and_what_failed_is_said(make: Make) -> None:
    def failing(at: At, block: int) -> Mapping[str, Any]:
        if at["way"] == "left":
            return {"outcome": "unavailable", "detail": "no swap", "probe_hash": "5eed5eed"}
        reply = world(at, block)
        charged = reply["result"]["charged"] | {"lost": 7}
        return reply | {"result": reply["result"] | {"charged": charged}}

    text = written(figures.draw(make(failing)))
    assert "no value: file, left: unavailable (no swap)" in text
    assert "7 values or events came when a series was full" in text


@pytest.mark.parametrize("blocks", [0, 1])
def test_a_run_with_nothing_to_draw_still_draws(make: Make, blocks: int) -> None:
    def empty(at: At, block: int) -> Mapping[str, Any]:
        none = {"at_ns": [], "values": [], "lost": 0}
        return ok(rate=1.0, charged=none, notices=none, killed=False)

    run = make(empty, blocks=blocks)
    assert "Nothing was recorded over time" in written(figures.draw(run))
    assert rows(run) == []

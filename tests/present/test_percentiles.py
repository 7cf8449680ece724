"""Percentile curves: merged latencies, drawn as far as enough lie beyond, never further."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from looking import written
from made_runs import histogram, made, ok, spread
from matplotlib.figure import Figure

from memlab.analysis.histogram import Histogram
from memlab.analysis.intervals import median_interval
from memlab.experiment import (
    BYTES,
    At,
    Control,
    Cost,
    Experiment,
    Factor,
    Metric,
    Percentiles,
    choice,
)
from memlab.observe.environment import EMULATED
from memlab.present import figures
from memlab.present.figures import sidecar
from memlab.results import Run

MIB = 2**20
EXPERIMENT = Experiment(
    name="latency",
    question="How long does a touch of idle memory take?",
    probe="noop",
    factors=[
        Factor("size", BYTES, quick=[MIB], help="bytes touched"),
        Factor("lock", choice("none", "locked"), quick=["none", "locked"], help="how"),
        Factor("swap", choice("file", "zram"), quick=["file"], help="where"),
    ],
    controls=[Control("large", "More of it.", {"size": [16 * MIB], "lock": ["locked"]})],
    metrics=[
        Metric(
            "median",
            "s",
            "median latency",
            of=lambda raw, at: (Histogram.of(raw["touch"]).percentile_ns(0.5) or math.nan) * 1e-9,
        )
    ],
    cost=Cost(),
    figure=Percentiles("median", over="size", by=["lock"], panels=["swap"], histogram="touch"),
)

Make = Callable[..., Run]
TOTAL, BLOCKS = 2000, 8


def world(at: At, block: int) -> Mapping[str, Any]:
    """Every block its own latencies; without the lock some are 900 times as long."""
    tail = 2 if at["lock"] == "locked" else 900
    return ok(touch=touches(tail, 10 * block + (at["lock"] == "locked")))


@cache
def touches(tail: float, seed: int) -> dict[str, Any]:
    return histogram(spread(100, tail, TOTAL, seed))


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    return lambda world=world, **how: made(tmp_path, monkeypatch, EXPERIMENT, world, **how)


def rows(run: Run, label: str) -> list[dict[str, Any]]:
    return [row for row in sidecar.as_data(run)["marks"] if row["series"] == label]


def merged(run: Run, point: int) -> Histogram:
    return Histogram.merged(blocks(run, point))


def blocks(run: Run, point: int) -> list[Histogram]:
    return [Histogram.of((s.raw or {})["touch"]) for s in run.by_point[point]]


def drawn(figure: Figure) -> set[tuple[float, float]]:
    return {
        (round(float(x), 9), float(y))
        for axes in figure.axes
        for line in axes.lines
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }


@pytest.mark.parametrize("asked", [{"blocks": 8}, {"blocks": None}], ids=["fixed", "looked at"])
def test_percentiles_are_of_all_latencies_and_intervals_of_the_blocks(
    make: Make, asked: Mapping[str, Any]
) -> None:
    run = make(asked=asked)
    told = [row for row in rows(run, "none") if "n" in row]
    assert [row["share"] for row in told] == [0.5, 0.9, 0.99, 0.999]  # of 16,000
    for row in told:
        value_ns = merged(run, 0).percentile_ns(row["share"])
        assert value_ns is not None
        assert row["value"] == value_ns * 1e-9
        assert row["latencies"] == TOTAL * BLOCKS
        assert row["samples"] == [sample.id for sample in run.by_point[0]]
        found = [block.percentile_ns(row["share"]) for block in blocks(run, 0)]
        values = [value for value in found if value is not None]
        assert row["n"] == len(values)
        if values:
            own = median_interval(values, sequential=asked["blocks"] is None)
            assert own.low is not None
            assert own.high is not None
            assert (row["low"], row["high"]) == (own.low * 1e-9, own.high * 1e-9)
            assert row["low"] <= row["median"] <= row["high"]
    # A block of 2,000 has two latencies beyond 99.9 %: no block can say where that is.
    assert (told[-1]["n"], told[-1].get("low")) == (0, None)


@pytest.mark.parametrize("emulated", [False, True])
def test_of_the_times_of_an_emulated_guest_nothing_is_said(make: Make, emulated: bool) -> None:
    run = make()
    run.row = replace(run.row, environment=run.environment | {"emulated_time": emulated})
    figure = figures.draw(run)
    assert ("latencies are within" in written(figure)) != emulated
    assert ("not drawn: the times of 3 points" in written(figure)) == emulated
    assert bool(figure.axes) != emulated
    left_out = sidecar.as_data(run)["unavailable"]
    assert {row["why"] for row in left_out} == ({EMULATED} if emulated else set())


def test_of_sessions_each_counts_once(make: Make) -> None:
    told = [row for row in rows(make(asked={"sessions": 2}), "none") if "n" in row]
    assert [row["n"] for row in told] == [1, 1, 1, 0]  # the run has one, and one has no interval
    assert all("low" not in row for row in told)


def test_blocks_with_too_few_latencies_are_left_out(make: Make) -> None:
    def few(at: At, block: int) -> Mapping[str, Any]:
        return ok(touch=histogram(spread(100, 2, TOTAL if block else 50, block)))

    told = [row for row in rows(make(few), "none") if "n" in row]
    assert [row["n"] for row in told] == [8, 7, 7, 0]


def test_a_curve_ends_open_where_ten_lie_beyond_and_the_longest_is_apart(make: Make) -> None:
    run = make()
    end, longest = rows(run, "none")[-2:]
    assert end["open_end"] is True
    assert end["share"] == (TOTAL * BLOCKS - 10) / (TOTAL * BLOCKS)
    assert longest["share"] == 1
    assert longest["value"] == merged(run, 0).max_ns * 1e-9
    spots = drawn(figures.draw(run))
    assert (round(math.log10(TOTAL * BLOCKS), 9), longest["value"]) in spots
    assert (round(math.log10(TOTAL * BLOCKS / 10), 9), end["value"]) in spots


def test_every_percentile_of_the_sidecar_is_drawn_in_its_place(make: Make) -> None:
    run = make()
    spots = drawn(figures.draw(run))
    for row in sidecar.as_data(run)["marks"]:
        if "n" in row:
            assert (round(-math.log10(1 - row["share"]), 9), row["value"]) in spots


def test_the_curve_never_falls(make: Make) -> None:
    (axes,) = figures.draw(make()).axes
    long = [line for line in axes.lines if len(line.get_xydata()) > 50]
    assert len(long) == 3  # two points and a control
    for line in long:
        for values in line.get_data():
            assert list(values) == sorted(values)


def test_the_curves_are_named_at_their_ends_and_differ_in_more_than_colour(make: Make) -> None:
    (axes,) = figures.draw(make()).axes
    assert [text.get_text() for text in axes.texts] == ["none", "locked", "control large"]
    marked = [line for line in axes.lines if len(line.get_xydata()) == 4]
    assert len({line.get_marker() for line in marked}) == 3


def test_the_finding_is_the_highest_percentile_of_all(make: Make) -> None:
    run = make()
    text = written(figures.draw(run))
    # Of 2,000 latencies no block has a percentile of 99.9.
    assert "99 % of a block's latencies are within" in text
    assert text.index("; locked)") < text.index("; none)")  # the shorter one first
    assert "16,000 latencies per curve" in text


def test_few_blocks_have_no_interval(make: Make) -> None:
    run = make(blocks=3)
    assert {row.get("low") for row in rows(run, "none") if "n" in row} == {None}
    text = written(figures.draw(run))
    assert "95 % interval" not in text
    assert "latencies are within" not in text


def test_too_few_latencies_are_said_and_not_drawn(make: Make) -> None:
    def few(at: At, block: int) -> Mapping[str, Any]:
        return ok(touch=histogram([100, 200])) if at["lock"] == "none" else world(at, block)

    run = make(few)
    assert rows(run, "none") == []
    assert "no value: none: 16 latencies, too few for a median" in written(figures.draw(run))


def test_failed_trials_are_said(make: Make) -> None:
    def failing(at: At, block: int) -> Mapping[str, Any]:
        if at["lock"] == "locked":
            return {"outcome": "enomem", "detail": "mlock", "probe_hash": "5eed5eed"}
        return world(at, block)

    text = written(figures.draw(make(failing)))
    assert "no value: locked; control large: enomem (mlock)" in text


@pytest.mark.parametrize("count", [0, 1])
def test_a_run_with_nothing_to_draw_still_draws(make: Make, count: int) -> None:
    run = make(lambda at, block: ok(touch=histogram([])), blocks=count)
    assert "No point has latencies enough for a median" in written(figures.draw(run))
    assert sidecar.as_data(run)["marks"] == []


def test_only_the_levels_and_controls_that_the_figure_names_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = replace(EXPERIMENT.figure, where={"lock": "locked"}, controls=[])
    declared = replace(EXPERIMENT, figure=shown)
    run = made(tmp_path, monkeypatch, declared, world)
    assert {row["series"] for row in sidecar.as_data(run)["marks"]} == {"locked"}
    assert [text.get_text() for text in figures.draw(run).axes[0].texts] == ["locked"]

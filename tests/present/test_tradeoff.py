"""One metric against another: marks at two medians, intervals both ways, arrows from a base."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looking import collisions, texts, written
from made_runs import made, ok

from memlab.experiment import (
    At,
    Control,
    Cost,
    Experiment,
    Factor,
    Metric,
    Tradeoff,
    choice,
)
from memlab.present import figures
from memlab.present.figures import sidecar
from memlab.results import Run

MIB = 2**20
EXPERIMENT = Experiment(
    name="calm",
    question="What does the calm cost?",
    probe="noop",
    factors=[
        Factor("allocator", choice("one", "two"), quick=["one", "two"], help="whose malloc"),
        Factor(
            "setting", choice("default", "never", "at_once"), quick=["default", "never"], help="how"
        ),
        Factor("objects", choice("small", "large"), quick=["large"], help="sizes"),
    ],
    controls=[
        Control("at_once", "At once.", {"allocator": ["one"], "setting": ["at_once"]}),
        Control("small", "Small ones.", {"allocator": ["one"], "objects": ["small"]}),
    ],
    metrics=[
        Metric("p99", "s", "latency; and a remark", of=lambda raw, at: raw["p99"]),
        Metric("rss", "B", "memory held", of=lambda raw, at: raw["rss"]),
    ],
    cost=Cost(),
    figure=Tradeoff(
        "p99",
        over="allocator",
        by=["setting"],
        panels=["objects"],
        log="y",
        against="rss",
        base={"setting": "default"},
    ),
)
P99_S = {"default": 8e-3, "never": 50e-6, "at_once": 16e-3}
RSS = {"default": 80 * MIB, "never": 104 * MIB, "at_once": 30 * MIB}

Make = Callable[..., Run]


def world(at: At, block: int) -> Mapping[str, Any]:
    """The second one holds half as much again, and has a third of the latency."""
    second, setting = at["allocator"] == "two", str(at["setting"])
    p99_s = P99_S[setting] * (1 + block / 100) / (3 if second else 1)
    return ok(p99=p99_s, rss=RSS[setting] * (1 + block / 200) * (1.5 if second else 1))


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    return lambda world=world, **how: made(tmp_path, monkeypatch, EXPERIMENT, world, **how)


def rows(run: Run) -> dict[str, dict[str, Any]]:
    return {row["series"]: row for row in sidecar.as_data(run)["marks"]}


def test_a_mark_stands_at_both_medians(make: Make) -> None:
    run = make(blocks=9)  # the median is block 4
    found = rows(run)
    assert found.keys() == {f"{a}, {s}" for a in ("one", "two") for s in ("default", "never")} | {
        "one, at once"
    }
    mark = found["two, never"]
    assert mark["y"]["median"] == pytest.approx(50e-6 * 1.04 / 3)
    assert mark["x"]["median"] == pytest.approx(104 * MIB * 1.02 * 1.5)
    assert mark["y"]["low"] < mark["y"]["median"] < mark["y"]["high"]
    assert (mark["x"]["n"], len(mark["samples"])) == (9, 9)
    assert (mark["x"]["unit"], mark["y"]["unit"]) == ("B", "s")


def test_marks_lie_where_the_axes_say(make: Make) -> None:
    (axes,) = figures.draw(make(blocks=9)).axes
    assert (axes.get_yscale(), axes.get_xscale()) == ("log", "linear")
    marks = [line for line in axes.lines if line.get_marker() not in ("None", "", "_")]
    spots = [(float(m.get_xdata()[0]) / MIB, float(m.get_ydata()[0])) for m in marks]
    assert any(spot == pytest.approx((104 * 1.02, 52e-6)) for spot in spots)
    assert len(spots) == 5
    low, high = axes.get_xlim()
    assert low < 30 * MIB * 1.02 < 120 * MIB * 1.02 < high
    assert axes.get_xlabel() == "memory held"
    assert axes.get_ylabel() == "latency (log)"


def test_a_control_of_another_panel_is_not_in_this_one(make: Make) -> None:
    assert not any("small" in text.get_text() for text in texts(figures.draw(make())))


def test_controls_are_those_that_the_figure_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = replace(EXPERIMENT, figure=replace(EXPERIMENT.figure, controls=()))
    run = made(tmp_path, monkeypatch, bare, world)
    assert len(rows(run)) == 4
    assert "a control's point" not in written(figures.draw(run))


def test_panels_are_named(make: Make) -> None:
    both = figures.draw(make(levels={"objects": ["small", "large"]}))
    assert {axes.get_title("left") for axes in both.axes} == {"small", "large"}
    assert len(both.axes) == 2


def test_what_has_no_mark_is_said(make: Make) -> None:
    def without(at: At, block: int) -> Mapping[str, Any]:
        if at["allocator"] == "two" and at["setting"] == "never":
            return {"outcome": "unavailable", "detail": "not installed", "probe_hash": ""}
        reply = dict(world(at, block))
        if at["setting"] == "at_once":
            reply["result"] = {**reply["result"], "p99": None}
        return reply

    said = written(figures.draw(make(without)))
    assert "no value: two, never: unavailable (not installed)" in said
    assert "no value: one, at once: no p99" in said


def test_zero_has_no_place_on_a_log_axis(make: Make) -> None:
    said = written(figures.draw(make(lambda at, block: ok(p99=0.0, rss=MIB * 10.0))))
    assert "no value: 5 points: not above zero" in said


def test_points_that_coincide_keep_their_names_apart(make: Make) -> None:
    figure = figures.draw(make(lambda at, block: ok(p99=1e-3 * (1 + block / 50), rss=50.0 * MIB)))
    assert collisions(figure) == []

"""The figure of a mechanism: pairs at their derived x, controls filled and named, 0 has a place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looking import collisions, texts, written
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from thread_runs import CACHE, MECHANISM, MIB, collapse, stored

from memlab.analysis.intervals import ratio_interval
from memlab.present import figures
from memlab.present.figures import sidecar
from memlab.results import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        yield stored(tmp_path_factory.mktemp("store"), patch)


def rows(run: Run, kind: str) -> list[dict[str, Any]]:
    marks = sidecar.as_data(run)["marks"]
    return [m for m in marks if m["figure"] == "mechanism" and m["kind"] == kind]


def signs(axes: Axes) -> list[Line2D]:
    return [line for line in axes.get_lines() if line.get_marker() in ("o", "s", "^", "D", "v")]


def test_every_pair_of_grid_and_controls_is_a_ratio_at_its_x(run: Run) -> None:
    found = rows(run, "ratio")
    future = [point for point in run.points if point.at["lock"] == "future"]
    assert len(found) == len(future) == 5 * 2 + 5 * 2 + 1
    for mark in found:
        at = mark["levels"]
        assert mark["x"] == at["live_threads"] * at["stack"]
        assert mark["to"] == {**at, "lock": "off"}
        of, to = (next(run.matching(levels)) for levels in (at, mark["to"]))
        wanted = ratio_interval(run.values("rate", of), run.values("rate", to))
        assert (mark["median"], mark["low"], mark["high"]) == (
            wanted.estimate,
            wanted.low,
            wanted.high,
        )
        ids = [s.id for point in (of, to) for s in run.by_point[point.index]]
        assert sorted(mark["samples"]) == sorted(s for s in ids if s is not None)


def test_every_mark_is_drawn_at_its_data_coordinates(run: Run) -> None:
    above, below = figures.draw(run, "mechanism").axes
    for axes, kinds in ((above, ("ratio",)), (below, ("line", "control"))):
        drawn = sorted(
            (float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in signs(axes)
        )
        marks = [mark for kind in kinds for mark in rows(run, kind)]
        assert drawn == sorted((mark["x"], mark["median"]) for mark in marks)
        assert axes.get_xscale() == "log"
    assert above.get_yscale() == "log"
    assert {mark["metric"] for mark in rows(run, "line")} == {"faults"}


def test_controls_are_filled_and_have_their_names(run: Run) -> None:
    figure = figures.draw(run, "mechanism")
    above = figure.axes[0]
    small = [line for line in signs(above) if line.get_xdata()[0] < MIB]
    assert len(small) == 10
    assert all(line.get_markerfacecolor() == line.get_color() for line in small)
    grid = [line for line in signs(above) if line.get_xdata()[0] in (10 * MIB, 50 * MIB)]
    assert len(grid) == 10
    assert all(line.get_markerfacecolor() == "none" for line in grid)
    named = [text.get_text() for text in above.texts if text.get_text().startswith("control ")]
    assert named == ["control small_stacks", "control small_stacks", "control many"]
    assert "filled: a control" in written(figure)


def test_points_that_coincide_are_rings_in_rings_at_their_own_place(run: Run) -> None:
    figure = figures.draw(run, "mechanism")
    here = [line for line in signs(figure.axes[0]) if line.get_xdata()[0] == 50 * MIB]
    assert {line.get_marker() for line in here} == {"o", "s", "^", "D", "v"}
    assert len({line.get_markersize() for line in here}) == 5
    assert all(line.get_transform() == figure.axes[0].transData for line in here)


def test_the_mark_is_a_line_through_both_panels_with_its_name(run: Run) -> None:
    figure = figures.draw(run, "mechanism")
    for axes in figure.axes:
        dashed = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
        assert [list(line.get_xdata()) for line in dashed] == [[CACHE, CACHE]]
    said = [" ".join(text.get_text().split()) for text in texts(figure)]
    assert "glibc's stack cache, 40 MiB" in said
    grid = [mark for mark in rows(run, "ratio") if not mark["series"].startswith("control")]
    ends = [mark["median"] for mark in grid if mark["x"] >= CACHE]
    span = " to ".join(dict.fromkeys(f"{end:.3g}" for end in (min(ends), max(ends))))
    assert any(f"{span} from there on" in line and "below 40 MiB" in line for line in said)


def test_a_count_of_0_stands_on_a_stretch_of_its_own(run: Run) -> None:
    below = figures.draw(run, "mechanism").axes[1]
    assert below.get_yscale() == "symlog"
    assert min(below.get_yticks()) == 0
    zeros = [line for line in signs(below) if line.get_ydata()[0] == 0]
    assert len(zeros) == 10


def test_without_zeros_the_axis_is_logarithmic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored(tmp_path, monkeypatch, controls=False)
    assert figures.draw(run, "mechanism").axes[1].get_yscale() == "log"


def lost(at: Any) -> float | str:
    return "oom-killed" if at["lock"] == "future" and at["processes"] == 8 else collapse(at)


def test_a_pair_without_a_ratio_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stored(tmp_path, monkeypatch, lost)
    figure = figures.draw(run, "mechanism")
    gone = [r for r in sidecar.as_data(run)["unavailable"] if r["figure"] == "mechanism"]
    assert sorted(row["x"] for row in gone) == [MIB / 16, 5 * MIB / 16, 10 * MIB, 50 * MIB]
    assert [row["why"] for row in gone] == ["oom-killed"] * 4
    assert "oom-killed" in written(figure)
    assert collisions(figure) == []


CASES: dict[str, dict[str, Any]] = {
    "with controls": {},
    "grid alone": {"controls": False},
    "one pair": {"controls": False, "levels": {"processes": [1], "live_threads": [5]}},
    "too few samples": {"blocks": 2},
    "no samples": {"blocks": 0},
    "all lost": {"rate": lambda at: "enomem"},
    "no pair": {"levels": {"lock": ["off"]}, "controls": False},
    "no mark": {"more_figures": {"mechanism": replace(MECHANISM, mark=None)}},
    "a mark at the edge": {
        "more_figures": {"mechanism": replace(MECHANISM, mark=(2.0**40, "where all memory ends"))}
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_case_is_readable(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stored(tmp_path, monkeypatch, **CASES[case])
    figure = figures.draw(run, "mechanism")
    assert collisions(figure) == []
    drawn = sum(len(signs(axes)) for axes in figure.axes)
    assert drawn == sum(len(rows(run, kind)) for kind in ("ratio", "line", "control"))

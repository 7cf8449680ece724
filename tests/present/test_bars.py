"""Figures of bars: every bar, printed value and ratio at its place, and all words readable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looking import collisions, written
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from thread_runs import BARS, EXPERIMENT, LOCKS, ROWS, collapse, stored

from memlab.analysis.intervals import ratio_interval
from memlab.experiment import At, Bars, Factor, choice
from memlab.present import figures, words
from memlab.present.figures import scales, sidecar, style
from memlab.results import Run

PROCESSES = [1, 2, 4, 8, 16]
LINEAR = replace(BARS, log="")
MEMORIES = (
    "a plain anonymous mapping",
    "hugetlb",
    "transparent_huge_pages_by_madvise",
    "device memory, uncached",
)


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return monkeypatch


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        yield stored(tmp_path_factory.mktemp("store"), patch, figure=LINEAR)


@pytest.fixture(scope="module")
def drawn(run: Run) -> Figure:
    """Once for all that look at it."""
    return figures.draw(run)


def rectangles(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def signs(axes: Axes, marker: str) -> list[tuple[float, float]]:
    """The places of signs, in data coordinates."""
    found = [line for line in axes.get_lines() if line.get_marker() == marker]
    return [(float(x), float(y)) for line in found for x, y in zip(*_data(line), strict=True)]


def _data(line: Line2D) -> tuple[Any, Any]:
    return line.get_xdata(), line.get_ydata()


def value(run: Run, **levels: object) -> Any:
    """The values by block of the one grid point with these levels."""
    (point,) = (p for p in run.matching(levels) if p.control is None)
    return run.values("rate", point)


def rows(run: Run, kind: str) -> list[dict[str, Any]]:
    return [m for m in sidecar.as_data(run)["marks"] if m["kind"] == kind and not m["figure"]]


def test_a_group_a_level_and_a_bar_a_line_in_the_plans_order(run: Run, drawn: Figure) -> None:
    assert len(drawn.axes) == 4  # bars and ratios for each of two panels
    bars = sorted(rectangles(drawn.axes[0]), key=lambda bar: bar.get_x())
    tops = [bar.get_height() for bar in bars]
    medians = [
        next(
            s.medians["rate"].estimate
            for s in run.summaries
            if s.point.at["processes"] == count
            and (s.point.at["lock"], s.point.at["live_threads"]) == (lock, 1)
            and s.point.control is None
        )
        for count in PROCESSES
        for lock in LOCKS
    ]
    assert tops == pytest.approx(medians)
    middles = [bar.get_x() + bar.get_width() / 2 for bar in bars]
    width = middles[1] - middles[0]
    assert middles == pytest.approx(
        [group + (rank - 1) * width for group in range(5) for rank in range(3)]
    )
    assert {bar.get_hatch() for bar in bars[:3]} == {"", "////", "...."}
    assert [label.get_text() for label in drawn.axes[2].get_xticklabels()] == [
        str(count) for count in PROCESSES
    ]


def test_an_interval_stands_on_every_bar(run: Run, drawn: Figure) -> None:
    ends = signs(drawn.axes[1], "_")
    marks = [m for m in rows(run, "bar") if m["panel"] == {"live_threads": 5}]
    assert len(marks) == 15
    wanted = [end for mark in marks for end in (mark["low"], mark["high"])]
    assert sorted(y for _, y in ends) == pytest.approx(sorted(wanted))


def test_printed_values_stand_on_their_bars_by_signs_that_no_series_has(drawn: Figure) -> None:
    axes = drawn.axes[0]
    printed = [row[lock] for row in ROWS for lock in LOCKS]
    exact = sorted(float(str(cell).replace(",", "")) for cell in printed if "<" not in str(cell))
    assert sorted(y for _, y in signs(axes, "x")) == exact
    ((x, y),) = signs(axes, "1")
    assert not {"x", "1", "2"} & {*style.MARKERS, *style.CONTROL_MARKERS}
    assert y == 900
    last = max(rectangles(axes), key=lambda bar: bar.get_x())
    assert last.get_x() < x < last.get_x() + last.get_width()


def test_ratios_are_paired_by_block_and_stand_under_their_bars(run: Run, drawn: Figure) -> None:
    below = drawn.axes[3]
    levels = {"lock": "future", "live_threads": 5}
    wanted = [
        ratio_interval(
            value(run, processes=count, **levels),
            value(run, processes=count, **{**levels, "lock": "off"}),
        )
        for count in PROCESSES
    ]
    places = signs(below, "^")
    assert [y for _, y in places] == pytest.approx([found.estimate for found in wanted])
    bars = sorted(rectangles(drawn.axes[1]), key=lambda bar: bar.get_x())[2::3]
    for (x, _), bar in zip(places, bars, strict=True):
        assert bar.get_x() < x < bar.get_x() + bar.get_width()
    assert any(list(line.get_ydata()) == [1.0, 1.0] for line in below.get_lines())
    printed = [
        25_000 / 31_000,
        12_000 / 30_000,
        6_000 / 28_000,
        2_500 / 26_000,
    ]
    crosses = [y for _, y in signs(below, "x")]
    assert all(any(y == pytest.approx(ratio) for y in crosses) for ratio in printed)
    assert signs(below, "1")[0][1] == pytest.approx(900 / 25_000)


def test_the_sidecar_names_both_points_samples_of_a_ratio(run: Run) -> None:
    found = rows(run, "ratio")
    assert len(found) == 2 * 5 * 2
    for mark in found:
        assert mark["to"] == {**mark["levels"], "lock": "off"}
        assert (mark["unit"], mark["n"], len(mark["samples"])) == ("1", 10, 20)
        both = [
            sample.id
            for at in (mark["levels"], mark["to"])
            for point in run.matching(at)
            for sample in run.by_point[point.index]
        ]
        assert sorted(mark["samples"]) == sorted(both)
    bars = rows(run, "bar")
    assert len(bars) == 30
    assert all(len(mark["samples"]) == mark["n"] == 10 for mark in bars)
    printed = rows(run, "published")
    assert {(mark["source"], mark["levels"]["live_threads"]) for mark in printed} == {
        ("printed, threads", 1),
        ("printed, threads", 5),
    }
    (bound, _) = (mark for mark in rows(run, "published ratio") if mark["bound"])
    assert (bound["printed"], bound["bound"]) == ("<900 / 25,000", "<")


def test_on_a_log_axis_values_are_dots(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    figure = figures.draw(stored(tmp_path, patch, figure=BARS, published=[]))
    assert not any(rectangles(axes) for axes in figure.axes)
    dots = [y for _, y in signs(figure.axes[0], "o")]
    assert len(dots) == len(PROCESSES)
    assert len(figure.axes) == 4


@pytest.mark.slow
@pytest.mark.parametrize("figure", [BARS, LINEAR], ids=["log", "linear"])
def test_beside_published_values_the_times_of_an_emulated_guest_are_not_drawn(
    tmp_path: Path, patch: pytest.MonkeyPatch, figure: Bars
) -> None:
    run = stored(tmp_path, patch, figure=figure)
    run.row = replace(run.row, environment=run.environment | {"emulated_time": True})
    drawn = figures.draw(run)
    assert all(not signs(axes, shape) for axes in drawn.axes for shape in "os^")
    assert signs(drawn.axes[0], "x")
    assert not any(legend.get_patches() for legend in drawn.legends)  # no bar is drawn
    assert "not drawn: the times of 30 points, measured in an emulated guest" in written(drawn)
    assert collisions(drawn) == []


def lost(at: At) -> float | str:
    gone = {8: "oom-killed", 16: "unavailable"}
    word = gone.get(int(at["processes"])) if at["lock"] == "future" else None
    return word or collapse(at)


@pytest.mark.slow
def test_a_bar_without_a_value_is_its_word(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    run = stored(tmp_path, patch, lost, figure=LINEAR)
    figure = figures.draw(run)
    for axes in figure.axes[:2]:
        assert len(rectangles(axes)) == 13
        assert [w for w in _said(axes) if w.replace("-", "").isalpha()] == [
            "oom-killed",
            "unavailable",
        ]
    gone = [row for row in sidecar.as_data(run)["unavailable"] if not row["figure"]]
    assert [row["why"] for row in gone] == ["oom-killed", "unavailable"] * 2
    assert (
        "processes 8, future, live threads 1; processes 8, future, live threads 5: oom-killed"
        in (written(figure))
    )
    assert collisions(figure) == []


@pytest.mark.slow
def test_where_the_base_has_no_value_there_is_no_ratio(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    run = stored(tmp_path, patch, lambda at: "enomem" if at["lock"] == "off" else 1e4)
    assert rows(run, "ratio") == []
    assert len(rows(run, "published ratio")) == 20
    assert collisions(figures.draw(run)) == []


def worded(patch: pytest.MonkeyPatch, folder: Path, **changes: Any) -> Run:
    """A run whose groups are words."""
    kind = choice(*MEMORIES)
    memory = Factor("memory", kind, quick=MEMORIES, help="memory behind the copy")
    figure = Bars("rate", over="memory", by=["lock"], panels=["live_threads"], base={"lock": "off"})
    return stored(
        folder,
        patch,
        controls=False,
        factors=[*EXPERIMENT.factors, memory],
        figure=figure,
        levels={"processes": [4]},
        **changes,
    )


@pytest.mark.slow
def test_groups_may_be_words(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    run = worded(patch, tmp_path)
    figure = figures.draw(run)
    names = [label.get_text() for label in figure.axes[2].get_xticklabels()]
    assert [name.replace("\n", " ") for name in names] == [n.replace("_", " ") for n in MEMORIES]
    marks = rows(run, "bar")
    assert [mark["levels"]["memory"] for mark in marks[:4]] == list(MEMORIES)
    assert figure.axes[0].get_ylim()[0] == 0.0  # no log is declared
    assert collisions(figure) == []


def test_a_value_stands_above_each_mark_where_all_fit(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    run = stored(
        tmp_path,
        patch,
        controls=False,
        figure=LINEAR,
        published=[],
        levels={"processes": [4], "live_threads": [5]},
    )
    figure = figures.draw(run)
    bars, ratios = rows(run, "bar"), rows(run, "ratio")
    assert _said(figure.axes[0]) == [words.tick(mark["median"], mark["unit"]) for mark in bars]
    assert _said(figure.axes[1]) == [f"{mark['median']:.3g}" for mark in ratios]
    assert len(bars) == 3
    assert len(ratios) == 2
    assert collisions(figure) == []


def test_no_values_where_one_does_not_fit(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    figure = figures.draw(stored(tmp_path, patch, figure=LINEAR, published=[]))
    assert [_said(axes) for axes in figure.axes] == [[]] * 4


def test_beside_printed_values_each_has_its_number_upright_or_turned(drawn: Figure) -> None:
    printed = [str(row[lock]) for row in ROWS for lock in LOCKS]
    for axes in drawn.axes[:2]:
        assert {*printed} <= {*_said(axes)}
        assert len(_said(axes)) == 2 * len(printed)  # and ours
        assert {text.get_rotation() for text in axes.texts} == {90.0}
    assert collisions(drawn) == []


def _said(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


BIG = {
    "levels": {"processes": [1, 2, 4, 8, 16, 32, 64, 128], "lock": [*LOCKS, "future_onfault"]},
    "figure": replace(BARS, panels=[], by=["lock", "live_threads"]),
}
SIZES: dict[str, dict[str, Any]] = {
    "one group": {"levels": {"processes": [4], "live_threads": [5]}},
    "two panels": {},
    "linear": {"figure": LINEAR},
    "linear, eight groups of eight": BIG | {"figure": replace(BIG["figure"], log="")},
    "eight groups of eight": BIG,
    "many in two panels": {**BIG, "figure": BARS},
    "a thousandth": {"rate": lambda at: 3e4 / (1000 if at["lock"] == "future" else 1)},
    "alike": {"rate": lambda at: 3e4 * (1.01 if at["lock"] == "current" else 1)},
    "too few samples": {"blocks": 3},
    "no samples": {"blocks": 0},
    "no base": {"figure": replace(BARS, base=None)},
    "all lost": {"rate": lambda at: "enomem"},
}


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_every_size_is_readable(size: str, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    run = stored(tmp_path, patch, **{"controls": False, **SIZES[size]})
    figure = figures.draw(run)
    assert collisions(figure) == []
    drawn = sum(len(rectangles(axes)) for axes in figure.axes)
    bars = 0 if "y" in run.experiment.figure.log else len(rows(run, "bar"))
    assert drawn == bars
    assert len(rows(run, "bar")) == len([s for s in run.summaries if s.medians])


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((0.8, 1.25), ["0.8", "0.9", "1", "1.1", "1.25"]),
        ((0.05, 1.3), ["1/20", "1/10", "1/5", "1/2", "1"]),
        ((0.8, 5.3), ["1", "2", "5"]),
        ((0.5, 120.0), ["1", "10", "100"]),
        ((0.0009, 2.5), ["1/1,000", "1/100", "1/10", "1"]),
    ],
)
def test_the_ratio_axis_ticks_where_there_is_room(
    values: tuple[float, float], named: list[str]
) -> None:
    axes = Figure().add_subplot()
    scales.ratios(axes.yaxis, values, 110.0 if values != (0.0009, 2.5) else 60.0)
    low, high = axes.get_ylim()
    ticks = [t for t in axes.get_yticks() if low <= t <= high]
    said = [axes.yaxis.get_major_formatter()(tick) for tick in ticks]
    assert [tick for tick in said if tick in named] == named
    assert ("1" in said, len(said) <= 9) == (True, True)

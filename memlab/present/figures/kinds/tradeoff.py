"""One metric against another: a mark per point with intervals both ways, its levels beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.artist import Artist

from memlab.experiment import Tradeoff
from memlab.experiment.points import varied_factors
from memlab.present import words
from memlab.present.figures import frame, scales, style
from memlab.present.figures.frame import Mark
from memlab.present.figures.layout import NARROW, Canvas, Page, line, sign
from memlab.results import PointSummary, Run


def title(run: Run, shown: Tradeoff) -> str:
    up, across = (words.metric_label(run.metric(n)) for n in (shown.metric, shown.against))
    return f"{up} against {across}"


def rows(run: Run, shown: Tradeoff) -> pd.DataFrame:
    own = [shown.over, *shown.by]
    found: list[Mark] = []
    for panel in frame.panels(run, shown.panels, own):
        inside = [
            s for s in run.summaries if frame.has(s.point.at, panel) and _drawn(shown, s.point)
        ]
        several = varied_factors([summary.point for summary in inside])
        told = [name for name in own if name in several] or own[:1]
        found += [
            {"panel": panel, "series": words.labels(run.experiment, s.point.at, told)}
            | _cells(run, shown, s)
            for s in inside
            if s.outcomes
        ]
    return frame.frame(found)


def _drawn(shown: Tradeoff, point: Any) -> bool:
    return point.control is None or shown.controls is None or point.control in shown.controls


def _cells(run: Run, shown: Tradeoff, summary: PointSummary) -> Mark:
    at, control = summary.point.at, summary.point.control
    places = [summary.point.at for summary in run.summaries]
    found: Mark = {
        "kind": "control tradeoff" if control else "tradeoff",
        "levels": dict(at),
        "_colour": frame.rank(places, [shown.over], at),
        "_shape": frame.rank(places, shown.by, at),
    }
    pair = (("x", shown.against), ("y", shown.metric))
    lacks = [name for _, name in pair if name not in summary.medians]
    if lacks:
        return found | frame.lost_cells(run, summary.point, f"no {' and no '.join(lacks)}")
    # Zero has no place on a log axis.
    if any(summary.medians[n].estimate <= 0 for axis, n in pair if axis in shown.log):
        return found | frame.lost_cells(run, summary.point, "not above zero")
    for axis, name in pair:
        cells = {"metric": name, "unit": run.metric(name).unit}
        found[axis] = cells | frame.numbers(summary.medians[name])
    return found | {"samples": run.good(summary.point).ids}


def finding(run: Run, shown: Tradeoff, rows: pd.DataFrame) -> None:
    """None: the claims say it."""


def draw(page: Page, shown: Tradeoff, rows: pd.DataFrame) -> None:
    run, marks = page.run, frame.marks(rows)
    parts = frame.split(marks, "panel") or [[]]
    several = len(parts) > 1
    page.width = page.width if several else NARROW
    titles = [frame.place(run, part[0]["panel"], whole=False) if several else "" for part in parts]
    high, columns = (250.0, 2) if several else (340.0, 1)
    lost = frame.said_lost(rows)
    grid = page.grid(titles, columns, [high], list(_signs(run, shown, marks)), lost)
    for i, ((axes,), part) in enumerate(zip(grid, parts, strict=True)):
        axes.grid(axis="both", color=style.FAINT, linewidth=0.7)
        for axis, name in ((axes.xaxis, "x"), (axes.yaxis, "y")):
            metric = run.metric(shown.against if name == "x" else shown.metric)
            cells = [mark[name] for mark in marks]
            ends = frame.values(cells, "low", "median", "high")
            ends += [max(ends, default=1.0) * 1.12]  # room for the names
            length = (page.width - 120) / columns if name == "x" else high
            scales.quantities(axis, metric.unit, ends, length, log=name in shown.log)
            label = scales.metric(metric, log=name in shown.log)
            if name == "x":
                scales.x_label(axes, label)
            elif i % columns == 0:
                scales.y_label(axes, label, high)
            else:
                axes.tick_params(labelleft=False)
        for base, to in _arrows(shown, part):
            _arrow(axes, base, to)
        for mark in part:
            _draw(axes, mark)
    page.settle()
    for (axes,), part in zip(grid, parts, strict=True):
        _name(Canvas.of(axes), shown, part)


def _arrows(shown: Tradeoff, part: list[Mark]) -> Iterator[tuple[Mark, Mark]]:
    """From each point at the base to those that differ from it in `by` alone."""
    for base in part:
        if shown.base is not None and frame.has(base["levels"], shown.base):
            same = {name: v for name, v in base["levels"].items() if name not in shown.by}
            yield from ((base, m) for m in part if m is not base and frame.has(m["levels"], same))


def _spot(mark: Mark) -> tuple[float, float]:
    return mark["x"]["median"], mark["y"]["median"]


def _arrow(axes: Any, base: Mark, to: Mark) -> None:
    look = {"arrowstyle": "->", "alpha": 0.55, "linewidth": 1.1, "shrinkA": 6, "shrinkB": 6}
    look["color"] = style.colour(to["_colour"])
    axes.annotate("", _spot(to), _spot(base), arrowprops=look, zorder=2)


def _bars(mark: Mark) -> Iterator[list[tuple[float, float]]]:
    """The ends of both intervals."""
    x, y = _spot(mark)
    if mark["x"]["low"] is not None:
        yield [(mark["x"]["low"], y), (mark["x"]["high"], y)]
    if mark["y"]["low"] is not None:
        yield [(x, mark["y"]["low"]), (x, mark["y"]["high"])]


def _draw(axes: Any, mark: Mark) -> None:
    hue = style.colour(mark["_colour"])
    for ends in _bars(mark):
        axes.plot(*zip(*ends, strict=True), color=hue, linewidth=1.4, zorder=3)
    x, y = _spot(mark)
    fill = hue if mark["kind"] == "tradeoff" else "white"
    look = {"marker": style.marker(mark["_shape"]), "markersize": 7.5, "markeredgewidth": 1.4}
    axes.plot([x], [y], color=hue, markerfacecolor=fill, zorder=4, **look)


def _name(canvas: Canvas, shown: Tradeoff, part: list[Mark]) -> None:
    """Every mark named beside it, over little ink."""
    for mark in part:
        canvas.mark(*_spot(mark))
        for ends in _bars(mark):
            canvas.line(ends)
    for base, to in _arrows(shown, part):
        canvas.line([_spot(base), _spot(to)])
    for mark in part:
        hue = style.darker(style.colour(mark["_colour"]))
        weight = "bold" if mark["kind"] == "tradeoff" else "normal"
        near = canvas.spot(*_spot(mark))
        canvas.call(mark["series"], near, hue, lead=True, fontweight=weight)


def _signs(run: Run, shown: Tradeoff, marks: list[Mark]) -> Iterator[Artist]:
    """The legend, of what is drawn alone."""
    shapes = {m["_shape"]: words.labels(run.experiment, m["levels"], shown.by) for m in marks}
    for shape, label in sorted(shapes.items()):
        yield sign(label, marker=style.marker(shape), markersize=7.5)
    if any(mark["kind"] != "tradeoff" for mark in marks):
        yield sign("control point", marker="o", markersize=7.5, markerfacecolor="white")
    if any(mark["y"]["low"] is not None for mark in marks):
        yield sign("95 % interval of each median", marker="+", markersize=11)
    if any(True for part in frame.split(marks, "panel") for _ in _arrows(shown, part)):
        base = words.labels(run.experiment, shown.base or {}, shown.base or {})
        yield line(f"arrow: from {base}", linewidth=1.1)

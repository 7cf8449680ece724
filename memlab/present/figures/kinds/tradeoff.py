"""One metric against another: a mark per point with intervals both ways, its levels beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.axes import Axes

from memlab.experiment import Tradeoff
from memlab.experiment.points import varied_factors
from memlab.present import words
from memlab.present.figures import frame, paint, scales, style
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import NARROW, Note, Page
from memlab.present.figures.paint import line, sign
from memlab.results import PointSummary, Run


def title(run: Run, shown: Tradeoff) -> str:
    up, across = (words.metric_label(run.metric(n)) for n in (shown.metric, shown.against))
    return f"{up} against {across}"


def rows(run: Run, shown: Tradeoff) -> Rows:
    own = [shown.over, *shown.by]
    found: list[Mark] = []
    for panel in frame.panels(run, shown.panels, own):
        inside = [
            s for s in run.summaries if frame.has(s.point.at, panel) and _drawn(shown, s.point)
        ]
        several = varied_factors([summary.point for summary in inside])
        naming = [name for name in own if name in several] or own[:1]
        found += [
            {"panel": panel, "series": words.labels(run.named, s.point.at, naming)}
            | _cells(run, shown, s)
            for s in inside
            if s.outcomes
        ]
    return frame.rows(found)


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


def finding(run: Run, shown: Tradeoff, rows: Rows) -> None:
    """None: the claims say it."""


def draw(page: Page, shown: Tradeoff, rows: Rows) -> None:
    run, marks = page.run, frame.marks(rows)
    several = len(frame.split(marks, "panel")) > 1
    page.width = page.width if several else NARROW
    high, columns = (250.0, 2) if several else (340.0, 1)
    shapes = {m["_shape"]: words.labels(run.named, m["levels"], shown.by) for m in marks}
    for shape, label in sorted(shapes.items()):
        page.legend(sign(label, marker=style.marker(shape), markersize=7.5))
    for (axes,), part in page.panels(marks, columns, [high]):
        axes.grid(axis="both", color=style.FAINT, linewidth=0.7)
        for axis, name in ((axes.xaxis, "x"), (axes.yaxis, "y")):
            metric = run.metric(shown.against if name == "x" else shown.metric)
            ends = frame.values([mark[name] for mark in marks], "low", "median", "high")
            ends += [max(ends, default=1.0) * 1.12]  # room for the names
            length = (page.width - 120) / columns if name == "x" else high
            scales.quantities(axis, metric.unit, ends, length, log=name in shown.log)
            label = scales.metric(metric, log=name in shown.log)
            scales.x_label(axes, label) if name == "x" else scales.y_label(axes, label, high)
        for mark in part:
            _draw(page, axes, mark)
        for base, to in _arrows(shown, part):
            hue = style.colour(to["_colour"])
            look = {"arrowstyle": "->", "alpha": 0.55, "linewidth": 1.1, "shrinkA": 6, "shrinkB": 6}
            axes.annotate("", _spot(to), _spot(base), arrowprops=look | {"color": hue}, zorder=2)
            name = words.labels(run.named, shown.base or {}, shown.base or {})
            page.legend(line(f"arrow: from {name}", linewidth=1.1))


def _arrows(shown: Tradeoff, part: list[Mark]) -> Iterator[tuple[Mark, Mark]]:
    """From each point at the base to those that differ from it in `by` alone."""
    for base in part:
        if shown.base is not None and frame.has(base["levels"], shown.base):
            same = {name: v for name, v in base["levels"].items() if name not in shown.by}
            yield from ((base, m) for m in part if m is not base and frame.has(m["levels"], same))


def _spot(mark: Mark) -> tuple[float, float]:
    return mark["x"]["median"], mark["y"]["median"]


def _draw(page: Page, axes: Axes, mark: Mark) -> None:
    """A mark with intervals both ways, and its name beside it, over little ink."""
    hue, spot, own = style.colour(mark["_colour"]), _spot(mark), mark["kind"] == "tradeoff"
    fill = hue if own else "white"
    face: dict[str, Any] = {"markersize": 7.5, "markeredgewidth": 1.4, "markerfacecolor": fill}
    paint.dot(axes, spot, paint.ends(mark["x"]), hue, across=True, zorder=3, marker="")
    shape = style.marker(mark["_shape"])
    paint.dot(axes, spot, paint.ends(mark["y"]), hue, zorder=3, marker=shape, **face)
    page.call(axes, Note(mark["series"], spot, style.darker(hue), bold=own))
    if not own:
        page.legend(sign("control point", marker="o", markersize=7.5, markerfacecolor="white"))
    if paint.ends(mark["y"]):
        page.legend(sign("95 % interval of each median", marker="+", markersize=11))

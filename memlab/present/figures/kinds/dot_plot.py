"""Many alike side by side: a strip of dots a point, a dot a member, beside it mean and spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from memlab.experiment import DotPlot
from memlab.experiment.points import Point
from memlab.present import words
from memlab.present.figures import frame, paint, scales, style
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import STEP, Page
from memlab.present.figures.paint import sign
from memlab.results import Run
from memlab.results.columns import measurements
from memlab.text.units import finite

_HIGH = 270.0  # points
_GAP = 0.5  # between the strips of two levels of `over`, where a strip is 1 wide
_DOTS, _MEAN = (0.06, 0.74), 0.87  # where in a strip the dots lie, and the mean
_PALE = 0.35  # of the hue, for the trials behind


def rows(run: Run, shown: DotPlot) -> Rows:
    """A row per strip: the members of the trial whose metric is the median. `mean` and `spread`,
    one standard deviation of the members, are medians over the trials; the one that is `apart` is
    in neither."""
    own = [shown.over, *shown.by]
    places = [point.at for point in frame.grid(run)]
    return frame.rows(
        {
            "panel": panel,
            "kind": "members",
            "series": words.labels(run.named, point.at, frame.naming(run, own)),
            "levels": dict(point.at),
            "_group": words.label(run.named, shown.over, point.at[shown.over]),
            "_rank": frame.rank(places, shown.by, point.at),
        }
        | _strip(run, shown, point)
        for panel in frame.panels(run, shown.panels, own)
        for point in frame.grid(run)
        if frame.has(point.at, panel)
    )


def _strip(run: Run, shown: DotPlot, point: Point) -> Mark:
    metric = run.metric(shown.metric)
    samples = run.valued(shown.metric, point)
    if not samples:
        return frame.lost_cells(run, point, "not measured")
    values = samples.column(shown.metric)
    chosen = int(np.argmin(np.abs(values - np.median(values))))
    members = [
        *samples.read(
            lambda sample: measurements(shown.members(sample.readings or {}, point.at)),
            f"the figure's members of {shown.metric}",
        )
    ]
    apart = shown.apart(point.at)
    counted = [[v for i, v in enumerate(trial) if i != apart] for trial in members]
    return {
        "metric": shown.metric,
        "unit": metric.unit,
        "members": [finite(value) for value in members[chosen]],
        "apart": apart,
        "mean": finite(float(np.median([np.mean(trial) for trial in counted]))),
        "spread": finite(float(np.median([np.std(trial) for trial in counted]))),
        "drawn_sample": int(samples.ids[chosen]),
        "samples": samples.ids,
        "_drawn": members[chosen],
        "_behind": [trial for i, trial in enumerate(members) if i != chosen],
    }


def finding(run: Run, shown: DotPlot, rows: Rows) -> str:
    """Where the members are most alike and where least, as spread over mean."""
    found = [mark for mark in frame.marks(rows) if mark.get("mean", 0) > 0]
    if not found:
        return "no point has a value"
    ranked = sorted(found, key=lambda mark: float(mark["spread"]) / float(mark["mean"]))
    said = [
        f"{100 * mark['spread'] / mark['mean']:.0f} % of the mean ({mark['series']})"
        for mark in (ranked[0], ranked[-1])
    ]
    return f"spread: {' to '.join(said if len(ranked) > 1 else said[:1])}"


def draw(page: Page, shown: DotPlot, rows: Rows) -> None:
    run, found, lost = page.run, frame.marks(rows), frame.unavailable(rows)
    top = [v for m in found for trial in (m["_drawn"], *m["_behind"]) for v in trial]
    top += [mark["mean"] + mark["spread"] for mark in found]
    metric = run.metric(shown.metric)
    several = [name for name in shown.by if name in run.varied]
    for (axes,), part in page.panels(found, 1, [_HIGH]):
        kept = dict.fromkeys(mark["_group"] for mark in part)
        strips = [mark for mark in (*part, *lost) if mark["_group"] in kept]
        strips = [mark for mark in strips if mark["panel"] == part[0]["panel"]]
        places = dict(_places(run, strips))
        scales.quantities(axes.yaxis, metric.unit, top, _HIGH, log=False)
        scales.y_label(axes, f"{shown.member_label}'s {metric.name.replace('_', ' ')}", _HIGH)
        axes.set_xlim(-_GAP / 2, max(places, default=0.0) + 1 + _GAP / 2)
        axes.tick_params(axis="x", length=0)
        wide = (page.width - 100) / (len(strips) * (1 + _GAP) or 1)
        labels = [words.labels(run.named, mark["levels"], several) for mark in places.values()]
        names = [style.wrap(label, style.SMALL, wide) for label in labels]
        said = ["\n".join(lines) for lines in names]
        axes.set_xticks([left + 0.5 for left in places], said, parse_math=False)
        below = max(map(len, names), default=0) * STEP + 8
        for left, mark in places.items():
            _draw(axes, mark, left)
        for group in kept:
            lefts = [left for left, mark in places.items() if mark["_group"] == group]
            look: dict[str, Any] = {"va": "top", "fontsize": style.TEXT, "color": "black"}
            look |= {"weight": "bold", "parse_math": False}
            paint.edge_text(axes, group, sum(lefts) / len(lefts) + 0.5, -below, **look)
    _name_signs(page, shown, found)


def _places(run: Run, strips: Sequence[Mark]) -> Iterator[tuple[float, Mark]]:
    """Every strip by its left end, in the plan's order; those of one group stand together."""
    levels = [dict(point.at) for point in frame.grid(run)]
    at = 0.0
    ordered = sorted(strips, key=lambda mark: levels.index(mark["levels"]))
    for group in frame.split(ordered, "_group"):
        for mark in group:
            yield at, mark
            at += 1
        at += _GAP


def _draw(axes: Axes, mark: Mark, left: float) -> None:
    if "why" in mark:
        paint.edge_text(axes, mark["why"], left + 0.5, 6, rotation=90, va="bottom")
        return
    hue, count = style.colour(mark["_rank"]), len(mark["_drawn"])
    low, high = _DOTS
    places = [left + low + (high - low) * (i + 0.5) / count for i in range(count)]
    look: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 2.2, "clip_on": False}
    for trial in mark["_behind"]:
        axes.plot(places, trial, color=style.paler(hue, _PALE), zorder=2, **look)
    for i, (x, value) in enumerate(zip(places, mark["_drawn"], strict=True)):
        apart = i == mark.get("apart")
        look |= {"marker": "X" if apart else style.marker(mark["_rank"])}
        look |= {"markersize": 7.5 if apart else 4.6, "zorder": 5 if apart else 3}
        axes.plot([x], [value], color=style.INK if apart else hue, **look)
    mean, spread = mark["mean"], mark["spread"]
    ends = max(0.0, mean - spread), mean + spread
    look = {"marker": "_", "markersize": 15, "markeredgewidth": 2.4, "clip_on": False}
    caps = {"marker": "_", "markersize": 7, "markeredgewidth": 2.0, "clip_on": False}
    hue = style.darker(hue)
    paint.dot(axes, (left + _MEAN, mean), ends, hue, wide=1.5, caps=caps, **look)


def _name_signs(page: Page, shown: DotPlot, found: Sequence[Mark]) -> None:
    """The legend, of what is drawn alone."""
    if not found:
        return
    label = f"{shown.member_label}, in the trial whose mean is the median"
    page.legend(sign(label, marker="o", markersize=4.6))
    if any(mark["_behind"] for mark in found):
        pale = style.paler(style.QUIET, _PALE)
        page.legend(sign("in other trials", pale, marker="o", markersize=2.6))
    if any("apart" in mark for mark in found):
        label = f"{shown.apart_label}, not in the mean"
        page.legend(sign(label, style.INK, marker="X", markersize=7.5))
    zeros = any(0 in trial for mark in found for trial in (mark["_drawn"], *mark["_behind"]))
    if shown.zero_label and zeros:
        page.legend(sign(shown.zero_label, marker="s", markersize=4.6))
    label = "mean and standard deviation of the members (medians over trials)"
    page.legend(sign(label, marker="_", markersize=13, markeredgewidth=2.4))

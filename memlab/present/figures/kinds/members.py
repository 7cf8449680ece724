"""Many alike side by side: a strip of dots a point, a dot a member, beside it mean and spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from memlab.experiment import Members
from memlab.experiment.points import Point
from memlab.present import words
from memlab.present.figures import frame, scales, style
from memlab.present.figures.frame import Mark
from memlab.present.figures.layout import STEP, Page, edge_text, sign
from memlab.results import Run
from memlab.units import finite

_HIGH = 270.0  # points
_GAP = 0.5  # between the strips of two levels of `over`, where a strip is 1 wide
_DOTS, _MEAN = (0.06, 0.74), 0.87  # where in a strip the dots lie, and the mean
_PALE = 0.35  # of the hue, for the trials behind


def title(run: Run, shown: Members) -> str:
    metric = words.metric_label(run.metric(shown.metric))
    over = scales.factor(run.experiment, shown.over)
    return f"{metric}, by {over}"


def rows(run: Run, shown: Members) -> pd.DataFrame:
    """A row per strip: the members of the trial whose metric is the median. `mean` and `spread`,
    one standard deviation of the members, are medians over the trials; the one that is `apart` is
    in neither."""
    own = [shown.over, *shown.by]
    told = [name for name in own if name in run.varied] or own[:1]
    places = [point.at for point in frame.grid(run)]
    return frame.frame(
        {
            "panel": panel,
            "kind": "members",
            "series": words.labels(run.experiment, point.at, told),
            "levels": dict(point.at),
            "_group": words.label(run.experiment, shown.over, point.at[shown.over]),
            "_rank": frame.rank(places, shown.by, point.at),
        }
        | _strip(run, shown, point)
        for panel in frame.panels(run, shown.panels, own)
        for point in frame.grid(run)
        if frame.has(point.at, panel)
    )


def _strip(run: Run, shown: Members, point: Point) -> Mark:
    metric = run.metric(shown.metric)
    samples = run.valued(shown.metric, point)
    if not samples:
        return frame.lost_cells(run, point, "not measured")
    values = samples.column(shown.metric)
    chosen = int(np.argmin(np.abs(values - np.median(values))))
    members = [list(shown.members(sample.readings or {}, point.at)) for sample in samples]
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


def finding(run: Run, shown: Members, rows: pd.DataFrame) -> str:
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


def draw(page: Page, shown: Members, rows: pd.DataFrame) -> None:
    run, found, lost = page.run, frame.marks(rows), frame.unavailable(rows)
    parts = frame.split(found, "panel") or [[]]
    titles = [frame.place(run, part[0]["panel"], whole=False) if part else "" for part in parts]
    grid = page.grid(titles, 1, [_HIGH], list(_signs(shown, found)), frame.said_lost(rows))
    top = [v for m in found for trial in (m["_drawn"], *m["_behind"]) for v in trial]
    top += [mark["mean"] + mark["spread"] for mark in found]
    metric = run.metric(shown.metric)
    several = [name for name in shown.by if name in run.varied]
    for (axes,), part in zip(grid, parts, strict=True):
        here = [m for m in lost if part and m["panel"] == part[0]["panel"]]
        kept = {mark["_group"] for mark in part}
        strips = [m for m in (*part, *here) if m["_group"] in kept]
        order = {id(mark): place for mark, place in _places(run, strips)}
        scales.quantities(axes.yaxis, metric.unit, top, _HIGH, log=False)
        scales.y_label(axes, f"{shown.member_label}'s {metric.name.replace('_', ' ')}", _HIGH)
        axes.set_xlim(-_GAP / 2, max(order.values(), default=0.0) + 1 + _GAP / 2)
        axes.tick_params(axis="x", length=0)
        wide = (page.width - 100) / (len(strips) * (1 + _GAP) or 1)
        labels = [words.labels(run.experiment, mark["levels"], several) for mark in strips]
        names = [style.wrap(label, style.SMALL, wide) for label in labels]
        at = [order[id(mark)] + 0.5 for mark in strips]
        axes.set_xticks(at, ["\n".join(lines) for lines in names], parse_math=False)
        for mark in strips:
            _draw(axes, mark, order[id(mark)])
        below = max(map(len, names), default=0) * STEP + 8
        for group in frame.split(strips, "_group"):
            middle = sum(order[id(mark)] + 0.5 for mark in group) / len(group)
            look: dict[str, Any] = {"va": "top", "fontsize": style.TEXT, "color": "black"}
            edge_text(
                axes, group[0]["_group"], middle, -below, weight="bold", parse_math=False, **look
            )
    page.settle()


def _places(run: Run, strips: Sequence[Mark]) -> Iterator[tuple[Mark, float]]:
    """The left end of every strip, in the plan's order; those of one group stand together."""
    levels = [dict(point.at) for point in frame.grid(run)]
    at = 0.0
    ordered = sorted(strips, key=lambda mark: levels.index(mark["levels"]))
    for group in frame.split(ordered, "_group"):
        for mark in group:
            yield mark, at
            at += 1
        at += _GAP


def _draw(axes: Axes, mark: Mark, left: float) -> None:
    if "why" in mark:
        edge_text(axes, mark["why"], left + 0.5, 6, rotation=90, va="bottom")
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
    axes.errorbar(
        [left + _MEAN],
        [mark["mean"]],
        yerr=[[min(mark["spread"], mark["mean"])], [mark["spread"]]],
        color=style.darker(hue),
        marker="_",
        markersize=15,
        markeredgewidth=2.4,
        capsize=3.5,
        linewidth=1.5,
        zorder=4,
        clip_on=False,
    )


def _signs(shown: Members, found: Sequence[Mark]) -> Iterator[Artist]:
    """The legend, of what is drawn alone."""
    if not found:
        return
    label = f"{shown.member_label}, in the trial whose mean is the median"
    yield sign(label, marker="o", markersize=4.6)
    if any(mark["_behind"] for mark in found):
        yield sign("in other trials", style.paler(style.QUIET, _PALE), marker="o", markersize=2.6)
    if any("apart" in mark for mark in found):
        label = f"{shown.apart_label}, not in the mean"
        yield sign(label, style.INK, marker="X", markersize=7.5)
    zeros = any(0 in trial for mark in found for trial in (mark["_drawn"], *mark["_behind"]))
    if shown.zero_label and zeros:
        yield sign(shown.zero_label, marker="s", markersize=4.6)
    label = "mean and standard deviation of the members (medians over trials)"
    yield sign(label, marker="_", markersize=13, markeredgewidth=2.4)

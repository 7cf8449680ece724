"""Variance components, how far each moves a sample: a row a point, a mark a component."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from memlab.analysis.variance_components import Spread
from memlab.experiment import VarianceComponents
from memlab.present import words
from memlab.present.figures import frame, paint, style
from memlab.present.figures import rows as place
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import NARROW, Page
from memlab.present.figures.paint import sign
from memlab.present.figures.rows import DrawnRow
from memlab.results import Run
from memlab.results.variance_components import of_point
from memlab.text import units

_APART = 5.0  # points between the components of a row
_BEYOND = 3  # times the largest mark, where the axis ends

_COMPONENTS = {
    "session": "the session",
    "layout": "the layout of the probe's code",
    "block": "the block",
}
_LOOKS: dict[str, dict[str, Any]] = {
    "session": {"marker": "D", "markersize": 5.5, "markerfacecolor": "white"},
    "layout": {"marker": "s", "markersize": 6},
    "block": {"marker": "o", "markersize": 5.5},
}


def title(run: Run, shown: VarianceComponents) -> str:
    of = words.metric_label(run.metric(shown.metric))
    return f"{of}: how far each variance component moves a sample"


def rows(run: Run, shown: VarianceComponents) -> Rows:
    """A row per point; by component a sample's relative standard deviation, its low and high."""
    return frame.rows(
        {
            "panel": {},
            "kind": "layers",
            "series": words.labels(run.named, point.at, run.varied) or shown.metric,
            "levels": dict(point.at),
            "metric": shown.metric,
        }
        | _numbers_of(of_point(run, point, shown.metric))
        | {"samples": run.valued(shown.metric, point).ids}
        for point in frame.grid(run)
    )


def _numbers_of(found: Mapping[str, Spread]) -> dict[str, float]:
    return {
        name + end: value
        for name, one in found.items()
        for end, value in (("", one.deviation), ("_low", one.low), ("_high", one.high))
    }


def _components(found: list[Mark]) -> list[str]:
    return [name for name in _COMPONENTS if any(name in mark for mark in found)]


def finding(run: Run, shown: VarianceComponents, rows: Rows) -> str | None:
    """The median over the points, by component."""
    found = frame.marks(rows)
    said = [
        f"{units.format_percent(float(np.median(values)))} by {_COMPONENTS[name]}"
        for name in _components(found)
        if (values := [mark[name] for mark in found if name in mark])
    ]
    return f"at the median point a sample is moved {', '.join(said)}" if said else None


def draw(page: Page, shown: VarianceComponents, rows: Rows) -> None:
    found = [mark for mark in frame.marks(rows) if _components([mark])]
    page.notes.append(
        "a component's standard deviation and its 95 % interval, of normal components on logs; "
        "0 %: not separated from the blocks' spread; an arrow: beyond the axis; one that was not "
        "sampled has no mark"
    )
    found = place.most(page, found, lambda mark: float(mark["block"]), "vary")
    if not found:
        page.width, page.notes = NARROW, ["too few samples"]
        return
    names = _components(found)
    seen = [(mark, name) for mark in found for name in names if name in mark]
    most = _BEYOND * max(mark[name] for mark, name in seen)  # one of few groups has no near end
    axes, middles = place.ratios(
        page,
        [DrawnRow(mark["series"], "; ".join(_numbers(mark, names))) for mark in found],
        [1.0, *(1 + min(most, mark[f"{name}_high"]) for mark, name in seen)],
        "a sample / its point's median, one standard deviation up (log)",
    )
    for mark, middle in zip(found, middles, strict=True):
        for number, name in enumerate(names):
            if name in mark:
                up = middle + _APART * ((len(names) - 1) / 2 - number)
                _draw(axes, mark, name, up, most)
    page.legend(*(sign(_COMPONENTS[name], _hue(name), **_LOOKS[name]) for name in names))


def _hue(name: str) -> str:
    return style.colour(list(_COMPONENTS).index(name))


def _draw(axes: Axes, mark: Mark, name: str, up: float, most: float) -> None:
    """A component's mark on the line of its interval, which ends in an arrow beyond the axis."""
    hue, high = _hue(name), mark[f"{name}_high"]
    ends = 1 + mark[f"{name}_low"], 1 + min(most, high)
    paint.dot(axes, (1 + mark[name], up), ends, hue, across=True, wide=1.2, **_LOOKS[name])
    if high > most:
        axes.plot(ends[1], up, marker=">", markersize=4, color=hue, clip_on=False, zorder=4)


def _numbers(mark: Mark, names: list[str]) -> Iterator[str]:
    for name in names:
        if name in mark:
            low, high = (units.format_percent(mark[f"{name}_{end}"]) for end in ("low", "high"))
            yield f"{name} {units.format_percent(mark[name])} ({low} to {high})"

"""Every sample beside its point's median: a row of dots a point, in the order they were taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from memlab.analysis.least import least_samples
from memlab.experiment import StripPlot
from memlab.experiment.points import Point, combinations, varied_factors
from memlab.present import words
from memlab.present.figures import frame, paint, style
from memlab.present.figures import rows as place
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import NARROW, Page
from memlab.present.figures.paint import sign
from memlab.present.figures.rows import DrawnRow
from memlab.results import PointSummary, Run
from memlab.text import units

_DOTS_MAX = 1600  # of a figure: a report of a large run stays small
_BAND = 0.7  # of a row's height, from its first sample to its last
_DOT: Mapping[str, Any] = {"marker": "o", "markersize": 3.2, "markeredgewidth": 0.8}


def title(run: Run, shown: StripPlot) -> str:
    return f"{run.metric(shown.metric).label}: every sample beside its point's median"


def rows(run: Run, shown: StripPlot) -> Rows:
    """A row per point, those of a group together. `spread` is the median distance of its samples
    from their median, as a share of it."""
    order = [*shown.panels, shown.over, *shown.by]
    names = [*(n for n in order if n in run.varied), *(n for n in run.varied if n not in order)]
    lines = combinations((point.at for point in frame.grid(run)), shown.by)

    levels = {name: [*dict.fromkeys(p.at[name] for p in run.points)] for name in names}

    def order_of(summary: PointSummary) -> tuple[object, ...]:
        at = summary.point.at
        return summary.point.control or "", *(levels[name].index(at[name]) for name in names)

    return frame.rows(
        {
            "panel": {},
            "kind": "control strip" if summary.point.control else "strip",
            "series": _name(run, names, summary.point),
            "levels": dict(summary.point.at),
        }
        | _strip(run, shown, summary)
        | (
            {}
            if summary.point.control
            else {"_rank": lines.index({name: summary.point.at[name] for name in shown.by})}
        )
        for summary in sorted(run.summaries, key=order_of)
        if summary.outcomes
    )


def _name(run: Run, names: Sequence[str], point: Point) -> str:
    if point.control is None:
        return words.labels(run.named, point.at, names)
    return frame.control_name(run, point, varied_factors(run.control(point.control)))


def _strip(run: Run, shown: StripPlot, summary: PointSummary) -> Mark:
    samples = run.valued(shown.metric, summary.point)
    values = samples.column(shown.metric)
    if not len(values) or values.min() <= 0:  # ratios on a log axis
        return frame.lost_cells(run, summary.point, "not above zero" if len(values) else "")
    ratios = values / np.median(values)
    return frame.median_cells(run, summary, shown.metric) | {
        "spread": float(np.median(np.abs(ratios - 1))),
        "_ratios": ratios,
        "_disturbed": run.disturbed(samples),
    }


def finding(run: Run, shown: StripPlot, rows: Rows) -> str | None:
    """How far samples lie from their median, where they are most alike and where least; of points
    with samples enough for an interval."""
    enough = (mark for mark in frame.marks(rows) if mark["n"] >= least_samples(0.95))
    result = sorted(enough, key=lambda mark: float(mark["spread"]))
    if not result:
        return None
    if all((mark["_ratios"] == 1).all() for mark in result):
        return "all samples of a point are the same"
    least, most = (units.format_percent(mark["spread"]) for mark in (result[0], result[-1]))
    text = f"{least} ({result[0]['series']}) to {most} ({result[-1]['series']})"
    text = text if least != most else most
    return f"half of a point's samples lie within {text} of its median"


def draw(page: Page, shown: StripPlot, rows: Rows) -> None:
    result = place.most(page, frame.marks(rows), lambda mark: float(mark["spread"]), "spread")
    most = max(10, _DOTS_MAX // max(1, len(result)))
    if any(len(mark["_ratios"]) > most for mark in result):
        page.notes.insert(
            0, f"drawn: at most {most} samples per point, the least and largest among them"
        )
    if not result:
        page.width = NARROW
        return
    axes, middles = place.ratios(
        page,
        [
            DrawnRow(m["series"], f"{words.quantity(m['median'], m['unit'])}, n={m['n']}")
            for m in result
        ],
        [end for mark in result for end in (mark["_ratios"].min(), mark["_ratios"].max())],
        "sample / median of its point (log)",
    )
    page.legend(sign("a sample; the first at the top of its row", **_DOT))
    for mark, middle in zip(result, middles, strict=True):
        _draw(page, axes, mark, middle, most)
    if any("low" in mark for mark in result):
        page.legend(Patch(label="95 % interval of the median", color=style.paler(style.QUIET, 0.4)))


def _draw(page: Page, axes: Axes, mark: Mark, middle: float, most: int) -> None:
    """The first sample is at the top of the row, the last at its foot; the interval is behind."""
    ratios = mark["_ratios"]
    hue = style.colour(mark["_rank"]) if mark["kind"] == "strip" else style.INK
    if (ends := paint.ends(mark, mark["median"])) is not None:
        wide: dict[str, Any] = {"linewidth": place.ROW * 0.62, "solid_capstyle": "butt"}
        axes.plot(ends, [middle] * 2, color=style.paler(hue, 0.4), zorder=2, **wide)
    drawn = np.arange(len(ratios))
    if len(ratios) > most:
        even = np.linspace(0, len(ratios) - 1, most - 2).astype(int)
        drawn = np.unique([*even, ratios.argmin(), ratios.argmax()])
    up = middle + place.ROW * _BAND * (0.5 - (drawn + 0.5) / len(ratios))
    flagged = mark["_disturbed"][drawn]
    for part, fill in ((~flagged, hue), (flagged, "white")):
        look = {**_DOT, "markerfacecolor": fill, "linestyle": "", "zorder": 3}
        axes.plot(ratios[drawn][part], up[part], color=hue, **look)
    if flagged.any():
        flags = dict.fromkeys(item for s in page.run.summaries for item in s.noise)
        text = ", ".join(flag for flag in flags if flag != "outlier")
        page.legend(sign(f"flagged: {text}", markerfacecolor="white", **_DOT))

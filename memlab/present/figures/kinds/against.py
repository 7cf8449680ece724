"""A mechanism: a ratio, and below it a second metric, over a quantity derived from the points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from memlab.experiment import Against
from memlab.experiment.points import point_key
from memlab.judging import evidence
from memlab.present import words
from memlab.present.figures import frame, paint, scales, style
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import Note, Page
from memlab.present.figures.paint import sign
from memlab.results import PointSummary, Run

_UPPER, _LOWER = 200.0, 160.0  # heights in points
_RINGS = (13.0, 10.5, 8.5, 6.5, 4.5)  # points: points that coincide are rings in rings


def title(run: Run, shown: Against) -> str:
    of, to = _sides(run, shown)
    metric = words.metric_label(run.metric(shown.metric))
    return f"{metric}, {of} / {to}, by {shown.x_label}"


def _sides(run: Run, shown: Against) -> tuple[str, str]:
    of, to = (words.labels(run.named, side, side) for side in (shown.of, shown.to))
    return of, to


def rows(run: Run, shown: Against) -> Rows:
    """In rising x the ratios, then the second metric of the points above the line. The grid's and
    the controls' points alike: a mechanism knows no controls."""
    every = {point_key(summary.point.at): summary for summary in run.summaries}
    places = [summary.point.at for summary in run.summaries]
    found: list[Mark] = []
    for of in run.summaries:
        at = of.point.at
        to = every.get(point_key({**at, **shown.to}))
        if to is None or not frame.has(at, shown.of) or not (of.outcomes and to.outcomes):
            continue
        control = of.point.control or to.point.control or ""
        label = words.labels(run.named, at, [shown.by])
        cells: Mark = {
            "panel": {},
            "series": f"control {control}: {label}" if control else label,
            "levels": dict(at),
            "x": float(shown.x(at)),
            "_by": label,
            "_control": control,
            "_rank": frame.rank(places, [shown.by], at),
        }
        found += [cells | mark for mark in _pair(run, shown, of, to, control)]
    return frame.rows(sorted(found, key=lambda mark: float(mark["x"])))


def _pair(
    run: Run, shown: Against, of: PointSummary, to: PointSummary, control: str
) -> Iterator[Mark]:
    ratio = frame.ratio_cells(run, shown.metric, of.point, to.point)
    positive = shown.x(of.point.at) > 0
    if ratio and positive:
        yield {"kind": "ratio"} | ratio
    else:
        lost = next((s for s in (of, to) if shown.metric not in s.medians), of)
        why = "not above zero" if shown.metric in lost.medians else ""
        yield {"kind": "ratio"} | frame.lost_cells(run, lost.point, why)
    second = of.medians.get(shown.beside)
    if second and second.estimate >= 0 and positive:
        kind = "control" if control else "line"
        yield {"kind": kind} | frame.median_cells(run, of, shown.beside)


def finding(run: Run, shown: Against, rows: Rows) -> str | None:
    """`current and future / off: 0.98 to 1.01 below 40 MiB, 0.05 to 0.4 from there on`, of the
    grid: a control may have moved the line."""
    marks = [
        mark
        for mark in frame.marks(rows, kind="ratio")
        if not mark["_control"] and mark.get("low") is not None
    ]
    if shown.mark is None or not marks:
        return None
    at, _ = shown.mark
    below, beyond = [m for m in marks if m["x"] < at], [m for m in marks if m["x"] >= at]
    parts = [
        f"{_range(inside)} {where}"
        for inside, where in (
            (below, f"below {words.quantity(at, shown.x_unit)}"),
            (beyond, "from there on"),
        )
        if inside
    ]
    return f"{' / '.join(_sides(run, shown))}: {', '.join(parts)}"


def _range(marks: Sequence[Mark]) -> str:
    ends = [evidence.number(end(mark["median"] for mark in marks)) for end in (min, max)]
    return " to ".join(dict.fromkeys(ends))


def draw(page: Page, shown: Against, rows: Rows) -> None:
    run, marks = page.run, frame.marks(rows)
    above = [mark for mark in marks if mark["kind"] == "ratio"]
    below = [mark for mark in marks if mark["kind"] != "ratio"]
    ((upper, lower),) = page.grid([""], 1, [_UPPER, _LOWER])
    xs = [mark["x"] for mark in marks] + ([shown.mark[0]] if shown.mark else [])
    for axes in (upper, lower):
        scales.quantities(axes.xaxis, shown.x_unit, xs, page.width - 100, log=True)
        for x in dict.fromkeys(mark["x"] for mark in marks):
            axes.axvline(x, color=style.FAINT, linewidth=0.7, zorder=0)
        if shown.mark:
            axes.axvline(shown.mark[0], color=style.QUIET, linewidth=1.0, linestyle="--", zorder=1)
    upper.tick_params(labelbottom=False)
    unit = "" if shown.x_unit in ("1", "B", "s") else f"{shown.x_unit}, "
    scales.x_label(lower, f"{shown.x_label} ({unit}log)")
    of, to = _sides(run, shown)
    metric, second = run.metric(shown.metric), run.metric(shown.beside)
    scales.ratios(upper.yaxis, frame.values(above, "low", "median", "high"), _UPPER)
    scales.y_label(upper, f"{words.metric_label(metric)}, {of} / {to} (log)", _UPPER)
    _counts(lower, frame.values(below, "low", "median", "high"), second.unit)
    scales.y_label(lower, f"{of}: {scales.metric(second, log=True)}", _LOWER)
    for mark in sorted(marks, key=lambda mark: int(mark["_rank"])):
        _draw(page, upper if mark["kind"] == "ratio" else lower, mark)
    if any("low" in mark for mark in marks):
        page.legend(sign("95 % interval", marker="|", markersize=9))
    if any(mark["_control"] for mark in marks):
        page.legend(sign("filled: a control", marker="o", markersize=7))
    if shown.mark:
        paint.edge_text(upper, shown.mark[1], shown.mark[0], 3, 1.0)
    for own in frame.split((mark for mark in above if mark["_control"]), "_control"):
        for mark in {own[0]["x"]: own[0], own[-1]["x"]: own[-1]}.values():
            name = f"control {mark['_control']}"
            page.call(upper, Note(name, (mark["x"], mark["median"])))


def _counts(axes: Axes, ends: Sequence[float], unit: str) -> None:
    """A log axis; a count of 0 stands at its foot."""
    positive = [end for end in ends if end > 0] or [1.0]
    scales.quantities(axes.yaxis, unit, positive, _LOWER, log=True)
    if min(ends, default=1.0) > 0:
        return
    low, high = axes.get_ylim()
    locator = axes.yaxis.get_major_locator()
    ticks = [tick for tick in locator.tick_values(low, high) if low <= tick <= high]
    formatter = axes.yaxis.get_major_formatter()
    axes.set_yscale("symlog", linthresh=low, linscale=0.4)
    axes.set_ylim(-0.25 * low, high)
    axes.yaxis.set_major_locator(FixedLocator([0.0, *ticks]))
    axes.yaxis.set_major_formatter(formatter)
    axes.minorticks_off()


def _draw(page: Page, axes: Axes, mark: Mark) -> None:
    """A ring per point, so that points in one place are all seen; a control's is filled."""
    rank = mark["_rank"]
    hue, size = style.colour(rank), _RINGS[min(rank, len(_RINGS) - 1)]
    look: dict[str, Any] = {"marker": style.marker(rank), "markerfacecolor": "none"}
    page.legend(sign(mark["_by"], hue, markersize=min(9.0, size), **look))
    look |= {"markersize": size, "markeredgewidth": 1.4, "clip_on": False}
    look |= {"markerfacecolor": hue} if mark["_control"] else {}
    order = 3.5 + rank / 100
    spot = mark["x"], mark["median"]
    paint.dot(axes, spot, paint.ends(mark), hue, wide=1.2, zorder=order, **look)

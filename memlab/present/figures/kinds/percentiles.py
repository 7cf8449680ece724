"""Latency over nines: a curve per point, intervals at round percentiles, the longest apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from memlab.analysis.histogram import LEAST_BEYOND, Histogram
from memlab.experiment import At, Percentiles
from memlab.experiment.points import Point, has
from memlab.present import words
from memlab.present.figures import frame, paint, scales, style
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import NARROW, Note, Page
from memlab.present.figures.paint import line, sign
from memlab.results import Run
from memlab.results.samples import Samples
from memlab.text import units

SHARES = (0.5, *(1 - 10.0**-nines for nines in range(1, 10)))  # 50 %, 90 %, 99 %, ...
_STEPS = 50  # of the curve, per nine
_SAID_MAX = 3  # curves whose percentile the finding says one by one


def nines(share: float) -> float:
    """A share's place on the axis: 0.9 is 1, 0.99 is 2."""
    return -math.log10(1 - share)


def percent(share: float) -> str:
    """`99.9 %`, without the last bits of a share that is inexact in binary."""
    return f"{round(100 * share, 7):.10g} %"


def title(run: Run, shown: Percentiles) -> str:
    return f"{_quantity(run, shown)}, by percentile"


def _quantity(run: Run, shown: Percentiles) -> str:
    """`delivery time` of `p90 delivery time` or of `delivery time, 99th percentile`."""
    text = run.metric(shown.metric).label
    first, _, rest = text.partition(" ")
    return rest if first[:1] == "p" and first[1:].replace(".", "").isdigit() else text


def rows(run: Run, shown: Percentiles) -> Rows:
    """A row per marked percentile of a curve, then its open end, then its longest latency."""
    names = [*shown.by, shown.over]
    points = [point for point in frame.grid(run) if has(point.at, shown.where)]
    naming = frame.naming(run, names)
    places = [point.at for point in points]
    marks: list[Mark] = []
    for panel in frame.panels(run, shown.panels, names, shown.where):
        for point in points:
            if has(point.at, panel):
                label = words.labels(run.named, point.at, naming)
                rank = frame.rank(places, names, point.at)
                marks += _curve(run, shown, panel, point, label, rank)
        for number, inside in frame.controls(run, shown, panel):
            several = [n for n in naming if len({point.at[n] for point in inside}) > 1]
            for point in inside:
                label = frame.control_name(run, point, several)
                marks += _curve(run, shown, panel, point, label, number)
    return frame.rows(marks)


def _curve(
    run: Run, shown: Percentiles, panel: At, point: Point, label: str, rank: int
) -> Iterator[Mark]:
    samples = run.by_point[point.index]
    behind = run.good(point)
    blocks = [
        *behind.read(
            lambda sample: Histogram.of((sample.raw or {})[shown.histogram]),
            f"the figure's {shown.histogram}",
        )
    ]
    merged = Histogram.merged(blocks)
    cells: Mark = {
        "panel": panel,
        "kind": "percentile" if point.control is None else "control percentile",
        "series": label,
        "levels": dict(point.at),
    }
    if not merged.supports(SHARES[0]):
        if samples:
            few = f"{merged.total} latencies, too few for a median"
            yield cells | frame.lost_cells(run, point, few)
        return
    cells |= {
        "histogram": shown.histogram,
        "unit": "s",
        "latencies": merged.total,
        "samples": behind.ids,
        "_rank": rank,
    }
    for share in SHARES:
        value_ns = merged.percentile_ns(share)
        if value_ns is None:
            break
        yield (
            cells
            | {"share": share, "value": value_ns * 1e-9}
            | _over_blocks(run, behind, blocks, share)
        )
    path = list(_path(merged))
    share, value_s = path[-1]
    yield cells | {"share": share, "value": value_s, "open_end": True, "_path": path}
    yield cells | {"share": 1.0, "value": merged.max_ns * 1e-9}


def _over_blocks(run: Run, behind: Samples, blocks: Sequence[Histogram], share: float) -> Mark:
    """The median of each block's own percentile, with its interval. The latencies of a block are
    not independent: what disturbs one disturbs its neighbours. Blocks are what was repeated."""
    results = [block.percentile_ns(share) for block in blocks]
    values = np.array([np.nan if value is None else value for value in results], dtype=float)
    values = run.per_unit(behind, values)
    if np.isnan(values).all():
        return {"n": 0}
    interval = run.interval(values)
    cells = {"median": interval.estimate, "low": interval.low, "high": interval.high}
    return {n: v * 1e-9 for n, v in cells.items() if v is not None} | {"n": interval.n}


def _path(merged: Histogram) -> Iterator[tuple[float, float]]:
    """Percentiles in even steps of nines, and the last one that enough latencies lie beyond."""
    last = (merged.total - LEAST_BEYOND) / merged.total
    steps = int((nines(last) - nines(SHARES[0])) * _STEPS)
    even = (1 - 10.0 ** -(nines(SHARES[0]) + i / _STEPS) for i in range(steps + 1))
    for share in sorted({*even, *SHARES, last}):
        value_ns = merged.percentile_ns(share)
        if value_ns is not None and share <= last:
            yield share, value_ns * 1e-9


def finding(run: Run, shown: Percentiles, rows: Rows) -> str | None:
    """The highest percentile that has an interval on all curves: of each, or the least and the
    most; None if none has one."""
    curves = frame.split(frame.marks(rows, kind="percentile"), "panel", "series")
    if not curves:
        return "no point has latencies enough for a median"
    shared = min(sum("low" in mark for mark in curve) for curve in curves) - 1
    if shared < 0:
        return None
    several = any(curve[0]["panel"] != curves[0][0]["panel"] for curve in curves)
    values = []
    for curve in curves:
        mark = curve[shared]
        place = frame.place(run, mark["panel"], whole=False) if several else ""
        between = units.span(mark["low"], mark["high"], partial(words.quantity, unit="s"))
        name = ", ".join(filter(None, [mark["series"], place]))
        values.append(
            (mark["median"], f"{words.quantity(mark['median'], 's')} ({between}; {name})")
        )
    parts = [text for _, text in sorted(values)]
    few = ", ".join(parts) if len(parts) <= _SAID_MAX else f"{parts[0]} to {parts[-1]}"
    return f"{percent(SHARES[shared])} of a block's latencies are within {few}"


def draw(page: Page, shown: Percentiles, rows: Rows) -> None:
    result = frame.marks(rows)
    several = len(frame.split(result, "panel")) > 1
    page.width = page.width if several else NARROW
    columns, high = (2, 230.0) if several else (1, 300.0)
    totals = sorted({mark["latencies"] for mark in result})
    many = " to ".join(f"{n:,}" for n in dict.fromkeys((*totals[:1], *totals[-1:])))
    page.notes += [f"{many} latencies per curve"] if many else []
    up = frame.values(result, "low", "value", "median", "high", above=0.0)
    low, right = nines(SHARES[0]), max((_across(mark) for mark in result), default=1.0)
    ticks = [share for share in SHARES if nines(share) <= right]
    if result:
        page.legend(line("latencies of all blocks together", linewidth=1.8))
    for (axes,), part in page.panels(result, columns, [high], whole=True):
        scales.quantities(axes.yaxis, "s", up, high, log=True)
        scales.y_label(axes, f"{_quantity(page.run, shown)} (log)", high)
        axes.set_xlim(low - 0.035 * (right - low), right + 0.035 * (right - low))
        page.levels(axes, [nines(share) for share in ticks], [percent(share) for share in ticks])
        scales.x_label(axes, "percentile")
        axes.grid(color=style.FAINT, linewidth=0.7)
        page.name(axes, [_draw(page, axes, curve) for curve in frame.split(part, "series")])


def _across(mark: Mark) -> float:
    """A mark's place: the longest is one of so many latencies."""
    share = mark["share"]
    return math.log10(mark["latencies"]) if share == 1 else nines(share)


def _draw(page: Page, axes: Axes, curve: Sequence[Mark]) -> Note:
    """A curve; its name, beside its solid end."""
    *marked, end, longest = curve
    control, rank = end["kind"] != "percentile", end["_rank"]
    hue = style.INK if control else style.colour(rank)
    axes.plot(
        [nines(share) for share, _ in end["_path"]],
        [value_s for _, value_s in end["_path"]],
        color=hue,
        linewidth=0.9 if control else 1.8,
        linestyle=style.dashes(rank),
        zorder=3,
    )
    # Each percentile stands once, on the curve; the blocks' own have an interval, and no mark.
    marker = style.control_marker(rank) if control else style.marker(rank)
    spots = [(_across(mark), mark["value"]) for mark in marked]
    caps = {"marker": "_", "markersize": 6}
    for mark, spot in zip(marked, spots, strict=True):
        paint.dot(axes, spot, paint.ends(mark), hue, caps=caps, marker="")
    look: dict[str, Any] = {"marker": marker, "markersize": 5.6, "linestyle": "", "zorder": 5}
    axes.plot(*zip(*spots, strict=True), color=hue, **look)
    if any("low" in mark for mark in marked):
        label = "95 % interval of the median of the blocks' own percentiles"
        page.legend(sign(label, marker="|", markersize=11, markeredgewidth=1.4))
    # An open end where too few lie beyond to go on, and the longest of all apart from it.
    last, apart = ((_across(mark), mark["value"]) for mark in (end, longest))
    axes.plot(
        *zip(last, apart, strict=True), color=hue, linewidth=0.8, linestyle=style.DOTTED, zorder=2
    )
    look = {"marker": "o", "markerfacecolor": "white", "markersize": 8}
    axes.plot(*last, color=hue, zorder=4.2, **look)
    page.legend(sign(f"fewer than {LEAST_BEYOND} lie beyond", **look))
    look = {"marker": "+", "markersize": 9, "markeredgewidth": 1.8}
    axes.plot(*apart, color=hue, **look)
    page.legend(sign("longest", **look))
    return Note(end["series"], last, hue if control else style.darker(hue), bold=not control)

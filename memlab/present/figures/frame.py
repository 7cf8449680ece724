"""The marks of a figure as tidy data: a row per mark, in base units.

Every kind has the columns `panel` (the levels that hold there), `kind`, `series` (its name in
words) and `levels`, and of a measured mark `samples`. A row with `why` is a point that was tried
and has no value to draw. A column whose name begins with _ is only for drawing: the sidecar has
all others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from memlab.analysis.intervals import Interval, ratio_interval
from memlab.experiment import At, Control, Figure
from memlab.experiment.points import Point, combinations, has
from memlab.observe.environment import EMULATED
from memlab.present import words
from memlab.published import PrintedCell
from memlab.results import PointSummary, Run
from memlab.results.samples import ids_of
from memlab.text import units

Mark = dict[str, Any]
Rows = list[Mark]
_NAMED_MAX = 4  # points without a value that the page names; the sidecar has all
_DETAIL_MAX = 100  # characters of what a failed trial said
_PROBE = re.compile(r"^probe \w+: \w+: ")  # that the foot's words say already
_PLACE = re.compile(r" at \S+:\d+$")  # of the line of C that said it
_COLUMNS = ("panel", "kind", "series", "levels", "why")


def rows(drawn: Iterable[Mark]) -> Rows:
    """Marks as the rows of a figure: their cells in the order of the columns, those that every kind
    has first."""
    marks = list(drawn)
    columns = dict.fromkeys((*_COLUMNS, *(name for mark in marks for name in mark)))
    return [{name: mark[name] for name in columns if name in mark} for mark in marks]


def marks(rows: Rows, **wanted: object) -> list[Mark]:
    """The rows that have a value, and these cells, each without what it does not have."""
    return [
        mark
        for mark in _records(rows)
        if "why" not in mark and all(mark.get(name) == value for name, value in wanted.items())
    ]


def unavailable(rows: Rows) -> list[Mark]:
    """The rows of points without a value."""
    return [mark for mark in _records(rows) if "why" in mark]


def _records(rows: Rows) -> list[Mark]:
    return [{name: cell for name, cell in row.items() if cell is not None} for row in rows]


def as_data(rows: Rows) -> list[Mark]:
    """The rows for the sidecar: a cell that is None says that there is no number."""
    return [
        {
            name: cell.tolist() if isinstance(cell, np.ndarray) else cell
            for name, cell in row.items()
            if name[:1] != "_"
        }
        for row in rows
    ]


def split(marks: Iterable[Mark], *names: str) -> list[list[Mark]]:
    """The marks by these cells, in the order of the first of each."""
    parts: dict[tuple[str, ...], list[Mark]] = {}
    for mark in marks:
        parts.setdefault(tuple(repr(mark.get(name)) for name in names), []).append(mark)
    return list(parts.values())


def values(marks: Iterable[Mark], *names: str, above: float = -math.inf) -> list[float]:
    """Every number of these cells."""
    cells = (mark[name] for mark in marks for name in names if mark.get(name) is not None)
    return [float(value) for value in cells if value > above]


# From a run


def without_times(run: Run, rows: Rows) -> Rows:
    """Without what was measured: only its points, each once, as ones that have no value."""
    points = {frozenset(point.at.items()) for point in run.points}
    result: Rows = []
    left_out: dict[frozenset[tuple[str, Any]], Mark] = {}
    for row in rows:
        if "source" in row or "why" in row:
            result.append(row)
        elif (key := frozenset(row.get("levels", {}).items())) in points:
            names = ("panel", "kind", "series", "levels")
            left_out.setdefault(key, {name: row[name] for name in names} | {"why": EMULATED})
    return [*result, *left_out.values()]


def shared(places: Iterable[At]) -> At:
    """The levels that all places have."""
    first, *others = [*places] or [{}]
    return {
        name: level for name, level in first.items() if all(has(at, {name: level}) for at in others)
    }


def grid(run: Run) -> list[Point]:
    """The points that belong to no control."""
    return [point for point in run.points if point.control is None]


def panels(
    run: Run, named: Sequence[str], apart: Sequence[str], where: At | None = None
) -> list[At]:
    """The levels of each panel: of the factors named for that, and of every factor that varies and
    is not the figure's own, so that points that differ are never joined to one line."""
    free = [name for name in run.varied if name not in (*apart, *named)]
    inside = (point.at for point in grid(run) if has(point.at, where or {}))
    return combinations(inside, [*named, *free])


def place(run: Run, panel: At, *, whole: bool = True) -> str:
    """A panel's levels in words: those that tell the panels apart; all where none does, unless
    `whole` is false."""
    names = [name for name in panel if name in run.varied]
    return words.labels(run.named, panel, names or (list(panel) if whole else []))


def naming(run: Run, names: Sequence[str]) -> list[str]:
    """The factors whose levels name a series: those that vary, or the first."""
    return [name for name in names if name in run.varied] or [*names[:1]]


def controls(run: Run, shown: Figure, panel: At) -> Iterator[tuple[int, list[Point]]]:
    """The number of each control that a figure shows, and its points in a panel that agrees with
    it: it may set a factor to a level that has its own panel, or to one that has none."""
    places = [point.at for point in grid(run)]
    for number, control in enumerate(run.experiment.controls):
        if shown.controls is None or control.name in shown.controls:
            rest = left_by(control, panel, places)
            yield number, [p for p in run.control(control.name) if has(p.at, rest)]


def left_by(control: Control, panel: At, places: Sequence[At]) -> At:
    """The panel's levels that a control's points have to have."""
    return {
        name: level
        for name, level in panel.items()
        if name not in control.levels or set(control.levels[name]) <= {at[name] for at in places}
    }


def control_name(run: Run, point: Point, several: Iterable[str]) -> str:
    """`control faults: mmap`: of a control's points only what tells them apart."""
    which = words.labels(run.named, point.at, several)
    return f"control {point.control}" + (f": {which}" if which else "")


def numbers(interval: Interval) -> Mark:
    """A median with its interval, as cells."""
    return {
        "median": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "n": interval.n,
    }


def median_cells(run: Run, summary: PointSummary, name: str) -> Mark:
    """The cells of a point's median of a metric."""
    metric = run.metric(name)
    return {
        "metric": name,
        "unit": metric.unit,
        **numbers(summary.medians[name]),
        "extrapolated": name in summary.extrapolated,
        "samples": run.valued(name, summary.point).ids,
    }


def lost_cells(run: Run, point: Point, why: str = "") -> Mark:
    """The cells of a point that was tried and has nothing to draw; `why` where no trial failed."""
    samples = run.by_point[point.index]
    outcomes = samples.outcomes
    failed = ", ".join(word for word in outcomes if word != "ok")
    return {
        "why": failed or why or "the metric has no value",
        "outcomes": dict(outcomes),
        "details": list(samples.details),
    }


def said_lost(rows: Rows) -> list[str]:
    """Which points have no value, once for each reason: `no value: write, 1 KiB: enomem`."""
    parts = []
    for same in split(unavailable(rows), "why"):
        if same[0]["why"] == EMULATED:
            points = units.counted(len(same), "point")
            parts.append(f"not drawn: the times of {points}, measured in an emulated guest")
            continue
        names = list(dict.fromkeys(str(mark.get("_name", mark["series"])) for mark in same))
        where = "; ".join(names) if len(names) <= _NAMED_MAX else f"{len(names)} points"
        details = dict.fromkeys(str(item) for mark in same for item in mark.get("details", ()))
        detail = _PLACE.sub("", _PROBE.sub("", next(iter(details), "")))
        more = f" ({detail})" if 0 < len(detail) <= _DETAIL_MAX else ""
        parts.append(f"no value: {where}: {same[0]['why']}{more}")
    return parts


def printed_cells(cell: PrintedCell, source: str) -> Mark:
    """The cells of a published value."""
    cells = {"value": cell.value, "printed": cell.printed, "bound": cell.bound}
    return cells | {"source": source}


def sources(marks: Iterable[Mark]) -> str:
    """`published (miao-2021)`: where the marks' published values stand."""
    tables = [mark["source"] for mark in marks if "source" in mark]
    return f"published ({', '.join(dict.fromkeys(table.partition(',')[0] for table in tables))})"


def rank(places: Iterable[At], names: Sequence[str], at: At) -> int:
    """The number of a combination of these factors' levels among those that there are."""
    return combinations(places, names).index({name: at[name] for name in names})


def ratio_cells(run: Run, name: str, of: Point, to: Point) -> Mark | None:
    """The cells of metric(of) / metric(to) over what holds both; None where there is no
    ratio. Its samples are those of both points."""
    over, under = run.values(name, of), run.values(name, to)
    both = np.isfinite(over) & np.isfinite(under)
    if not both.any() or min(over[both].min(), under[both].min()) <= 0:
        return None
    metric = run.metric(name)
    valued = [run.valued(name, point) for point in (of, to)]
    behind = [samples[both[run.units(samples)]] for samples in valued]
    return {
        "metric": name,
        "unit": "1",
        "to": dict(to.at),
        **numbers(ratio_interval(over[both], under[both], **run.sampling(name))),
        "extrapolated": any(run.extrapolated(metric, samples) for samples in behind),
        "samples": ids_of(behind),
    }


def columns(places: Sequence[At], most: int) -> int:
    """How many panels stand side by side: where it fits, a column per level of the last factor."""
    last = len({repr(list(at.items())[-1:]) for at in places})
    if len(places) > last > 1 and last <= most:
        return last
    return min(len(places), most, 2 if len(places) in (2, 4) or most < 3 else 3)

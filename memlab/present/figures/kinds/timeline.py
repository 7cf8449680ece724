"""A quantity over the time of a trial: the median trial strong, the point's others pale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from memlab.experiment import At, Raw, Timeline
from memlab.experiment.points import Point, combinations, has, varied_factors
from memlab.present import words
from memlab.present.figures import frame, scales, style
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import NARROW, Note, Page
from memlab.present.figures.paint import line, sign
from memlab.results import Run
from memlab.results.columns import measurement, measurements
from memlab.store import SampleRow
from memlab.text import units

_SAID_MAX = 3  # lines that the finding says one by one
_MANY = 40  # events on a line from which their signs become small

Trial = dict[str, Any]  # at_s, values, events (seconds, value), lost, ended, sample


def title(run: Run, shown: Timeline) -> str:
    return f"{shown.quantity} over time"


def rows(run: Run, shown: Timeline) -> Rows:
    """A row per line. The course itself is the sample's own, in the store."""
    fixed, of = _fixed(run, shown), (None, *shown.controls)
    points = [p for p in run.points if p.control in of and has(p.at, fixed)]
    points = [p for p in points if _recorded(run, shown, p)]
    split = [name for name in (*shown.panels, shown.over) if name not in shown.by]
    apart = varied_factors(points)
    names = [*split, *(name for name in apart if name not in (*split, *shown.by))]
    naming = [name for name in shown.by if name in apart]
    places = [point.at for point in points]
    return frame.rows(
        {
            "panel": panel,
            "kind": "over time",
            "series": (label := words.labels(run.named, point.at, naming)),
            "levels": dict(point.at),
            "_rank": frame.rank(places, naming, point.at),
            "_name": ", ".join(filter(None, (frame.place(run, panel), label))),
        }
        | _cells(run, shown, point)
        for panel in combinations(places, names)
        for point in points
        if has(point.at, panel) and run.by_point[point.index]
    )


def _fixed(run: Run, shown: Timeline) -> At:
    """The levels that the figure is confined to; where the run lacks one, its first."""
    fixed, of = {}, (None, *shown.controls)
    for name, level in shown.where.items():
        if levels := [point.at[name] for point in run.points if point.control in of]:
            fixed[name] = level if level in levels else levels[0]
    return fixed


def _recorded(run: Run, shown: Timeline, point: Point) -> bool:
    """Whether a trial records over time there: no one waits at a point without a wait."""
    result = run.good(point)
    return not result or any(result.read(lambda sample: _has_course(sample, shown), _what(shown)))


def _what(shown: Timeline) -> str:
    return f"the figure's {shown.series}"


def _has_course(sample: SampleRow, shown: Timeline) -> bool:
    return bool(_course(sample.readings or {}, shown)["values"])


def _course(raw: Raw, shown: Timeline) -> Raw:
    """Empty in samples that are older than the series."""
    course: Raw = raw.get(shown.series, {"values": []})
    return course


def _cells(run: Run, shown: Timeline, point: Point) -> Mark:
    if why := run.experiment.only_outcome(point.at):
        return frame.lost_cells(run, point, why)
    samples = run.good(point)
    result = samples.read(
        lambda sample: _trial(sample, shown) if _has_course(sample, shown) else None, _what(shown)
    )
    trials = [
        (value, trial)
        for value, trial in zip(samples.column(shown.metric).tolist(), result, strict=True)
        if trial is not None
    ]
    if not trials:
        return frame.lost_cells(run, point, "nothing was recorded over time")
    drawn, *others = _median_first(trials)
    return {
        "field": shown.series,
        "unit": shown.unit,
        "limit": shown.limit(point.at),
        "points": len(drawn["values"]),
        "lost": drawn["lost"],
        "most": max(drawn["values"]),
        "last": drawn["values"][-1],
        "marks": len(drawn["events"]),
        "ended": drawn["ended"],
        "drawn": drawn["sample"],
        "samples": [trial["sample"] for trial in (drawn, *others)],
        "_drawn": drawn,
        "_others": others,
    }


def _trial(sample: SampleRow, shown: Timeline) -> Trial:
    raw = sample.readings or {}
    course = _course(raw, shown)
    events: Raw = raw[shown.marks] if shown.marks else {"at_ns": [], "values": [], "lost": 0}
    times, values = measurements(course["at_ns"]), measurements(course["values"])
    moments, marked = measurements(events["at_ns"]), events["values"]
    if shown.moments:
        marked = np.interp(moments, times, values).tolist()
    return {
        "sample": sample.id,
        "at_s": [at_ns * 1e-9 for at_ns, _ in zip(times, values, strict=True)],
        "values": [value * shown.scale for value in values],
        "events": [
            (at_ns * 1e-9, value * shown.scale)
            for at_ns, value in zip(moments, measurements(marked), strict=True)
        ],
        "lost": int(measurement(course["lost"]) + measurement(events["lost"])),
        "ended": bool(shown.ended and raw[shown.ended]),
    }


def _median_first(trials: Sequence[tuple[float, Trial]]) -> list[Trial]:
    """The trial of the median, then the others; a trial without the metric counts last."""
    order = sorted(trials, key=lambda pair: (math.isnan(pair[0]), pair[0]))
    counted = sum(not math.isnan(value) for value, _ in order)
    middle = max(0, counted - 1) // 2
    return [order[middle][1], *(trial for i, (_, trial) in enumerate(order) if i != middle)]


def finding(run: Run, shown: Timeline, rows: Rows) -> str:
    """The peak of each line, or of the lowest and the highest."""
    result = frame.marks(rows)
    if not result:
        return "nothing was recorded over time"
    several = len(frame.split(result, "panel")) > 1
    ordered = sorted(result, key=lambda mark: float(mark["most"]))
    if len(result) > _SAID_MAX:
        text = " to ".join(_sentence(shown, mark, several) for mark in (ordered[0], ordered[-1]))
    else:
        text = ", ".join(_sentence(shown, mark, several) for mark in result)
    return f"peak {shown.quantity}: {text}"


def _sentence(shown: Timeline, mark: Mark, several: bool) -> str:
    name = mark["_name"] if several else mark["series"]
    peak = words.tick(mark["most"], shown.unit)
    return peak + (f" ({name})" if name else "")


def draw(page: Page, shown: Timeline, rows: Rows) -> None:
    result = frame.marks(rows)
    parts = frame.split(result, "panel")
    several = len(parts) > 1
    page.width = page.width if several else NARROW
    columns = 1 if not several else 2 if len(parts) in (2, 4) else 3
    high = 190.0 if several else 300.0
    if lost := sum(mark["lost"] for mark in result):
        page.notes.append(f"{lost:,} values or events came when a series was full")
    trials = [t for mark in result for t in (mark["_drawn"], *mark["_others"])]
    across = [max((t["at_s"][-1] for t in trials), default=0.0) * 1.03 / 1.08]
    up = frame.values(result, "limit")
    up += [value for t in trials for value in (max(t["values"]), *(v for _, v in t["events"]))]
    if result:
        page.legend(line("median trial"))
    for number, ((axes,), part) in enumerate(page.panels(result, columns, [high], whole=several)):
        scales.quantities(axes.xaxis, "s", across, (page.width - 150) / columns, log=False)
        scales.quantities(axes.yaxis, shown.unit, up, high, log=False)
        unit = "" if shown.unit[:1] in "Bs" else f" ({shown.unit})"
        scales.y_label(axes, f"{shown.quantity}{unit}", high)
        if number + columns >= len(parts):
            scales.x_label(axes, "time in the trial")
        for mark in part:
            _draw(page, axes, shown, mark, alone=len(part) == 1)
        page.name(axes, _notes(shown, part))


def _draw(page: Page, axes: Axes, shown: Timeline, mark: Mark, *, alone: bool) -> None:
    hue, trial, rank = style.colour(mark["_rank"]), mark["_drawn"], mark["_rank"]
    for other in mark["_others"]:
        pale = style.paler(hue, 0.4)
        axes.plot(other["at_s"], other["values"], color=pale, linewidth=0.7, zorder=2)
        page.legend(line("other trials", style.paler(style.QUIET, 0.4), linewidth=0.7))
    if alone:
        pale = style.paler(hue, 0.22)
        axes.fill_between(trial["at_s"], trial["values"], color=pale, linewidth=0, zorder=1)
    look: dict[str, Any] = {"linewidth": 1.6, "linestyle": style.dashes(rank)}
    axes.plot(trial["at_s"], trial["values"], color=hue, zorder=3, **look)
    if trial["events"]:
        many = len(trial["events"]) > _MANY
        look = {"linestyle": "", "markerfacecolor": "white", "marker": style.marker(rank)}
        look |= {"markersize": 2.6 if many else 5.6, "markeredgewidth": 0.6 if many else 1.0}
        axes.plot(*zip(*trial["events"], strict=True), color=style.darker(hue), zorder=4, **look)
        look = {"marker": "o", "markerfacecolor": "white", "markersize": 5.6}
        page.legend(sign(shown.mark_label, style.INK, **look))
    if trial["ended"]:
        look = {"marker": "x", "markersize": 9, "markeredgewidth": 2.2, "linestyle": ""}
        axes.plot(trial["at_s"][-1], trial["values"][-1], color=style.INK, zorder=5, **look)
        page.legend(sign(shown.ended_label, style.INK, **look))
    if "limit" in mark:
        axes.axhline(mark["limit"], color=style.INK, linestyle=style.DOTTED, linewidth=1.0)


def _notes(shown: Timeline, part: Sequence[Mark]) -> list[Note]:
    """The names of a panel's lines, and its limits."""
    ends = [(mark["_drawn"]["at_s"][-1], mark["last"]) for mark in part]
    notes = [
        Note(mark["series"], end, style.darker(style.colour(mark["_rank"])), bold=True)
        for mark, end in zip(part, ends, strict=True)
        if mark["series"]
    ]
    for limit in dict.fromkeys(mark["limit"] for mark in part if "limit" in mark):
        text = f"{shown.limit_label} {units.format_quantity(limit, shown.unit)}".strip()
        notes.append(Note(text, (max(x for x, _ in ends), limit)))
    return notes

"""Groups of bars beside printed values, and below them their ratios to one bar.

On a log axis the values are dots: the length of a bar would mean nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlab.experiment import At, Bars, Level
from memlab.experiment.points import combinations, has, point_key
from memlab.judging.effects import effects
from memlab.present import words
from memlab.present.figures import frame, groups, scales
from memlab.present.figures.against import quotient_of
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import NARROW, Page
from memlab.published import PrintedCell
from memlab.results import PointSummary, Run
from memlab.results.beside import tables

_FEW = 6  # bars that a narrow page holds
_SAID_MAX = 2  # levels that the headline says in words

Printed = tuple[PrintedCell, str]  # a value and the table that it stands in


def rows(run: Run, shown: Bars) -> Rows:
    """Bars, printed values, ratios of both to the base bar; x is a group's number from the left.
    Controls are not drawn."""
    summaries = {
        point_key(s.point.at): s for s in run.summaries if s.point.control is None and s.outcomes
    }
    places = [point.at for point in frame.grid(run) if has(point.at, shown.where)]
    levels = list(dict.fromkeys(at[shown.over] for at in places))
    printed = _printed(run, shown)
    return frame.rows(
        {"panel": panel, "x": x, "_rank": rank, "_group": level} | mark
        for panel in frame.panels(run, shown.panels, [shown.over, *shown.by], shown.where)
        for rank, line in enumerate(combinations(places, shown.by))
        for x, level in enumerate(levels)
        for mark in _marks(run, shown, summaries, printed, {**panel, shown.over: level}, line)
    )


def _printed(run: Run, shown: Bars) -> dict[str, Printed]:
    """The printed cells in the figure's metric, by the levels of the point they stand beside."""
    return {
        point_key(
            {**beside.setting, **at, **beside.declared.row(beside.table.rows_are, row.level)}
        ): (
            row.cells[column],
            f"{beside.source.id}, {beside.table.id}",
        )
        for beside in tables(run)
        if beside.declared.metric == shown.metric
        for row in beside.rows
        for column, at in beside.declared.columns.items()
    }


def _marks(
    run: Run,
    shown: Bars,
    summaries: Mapping[str, PointSummary],
    printed: Mapping[str, Printed],
    place: At,
    line: At,
) -> Iterator[Mark]:
    """What stands in one place of a group."""
    key = _key(summaries, {**place, **line})
    if key is None:
        return
    summary, printed_cell, metric = summaries[key], printed.get(key), run.metric(shown.metric)
    label = words.labels(run.named, line, frame.naming(run, shown.by))
    at: Mark = {"levels": dict(summary.point.at), "metric": shown.metric, "unit": metric.unit}
    median = summary.medians.get(shown.metric)
    bar = {"kind": "bar", "series": label} | at
    if median is None or (median.estimate <= 0 and "y" in shown.log):
        why = "not above zero" if median else run.experiment.only_outcome(summary.point.at)
        whole = words.labels(run.named, at["levels"], run.varied)
        yield bar | {"_name": whole} | frame.lost_cells(run, summary.point, why)
    else:
        yield bar | frame.median_cells(run, summary, shown.metric)
    if printed_cell:
        yield (
            {"kind": "published", "series": f"{label}, published"}
            | at
            | frame.printed_cells(*printed_cell)
        )
    base = {**line, **(shown.base or line)}
    under = _key(summaries, {**place, **base}) if base != line else None
    if under is None or run.experiment.only_outcome(summary.point.at):
        return
    over = f"{label} / {words.labels(run.named, base, shown.base or {})}"
    if here := frame.ratio_cells(run, shown.metric, summary.point, summaries[under].point):
        yield {"kind": "ratio", "series": over} | at | here
    below = printed.get(under)
    result = quotient_of(printed_cell[0], below[0]) if printed_cell and below else None
    if printed_cell and below and result and result.value > 0:
        text = f"{printed_cell[0].printed} / {below[0].printed}"
        yield (
            {"kind": "published ratio", "series": f"{over}, published"}
            | at
            | {"to": dict(summaries[under].point.at), "unit": "1"}
            | frame.printed_cells(PrintedCell(text, result.value, result.bound), printed_cell[1])
        )


def _key(summaries: Mapping[str, PointSummary], wanted: At) -> str | None:
    """The key of the grid's point with these levels."""
    return next((k for k, s in summaries.items() if has(wanted, s.point.at)), None)


def finding(run: Run, shown: Bars, rows: Rows) -> str | None:
    """Of a user's command what each level changes; of all others the claims say it."""
    if not run.experiment.watched:
        return None
    parts = [f"with {words.effect(run.experiment, item)}" for item in effects(run, [shown.metric])]
    more = [f"{len(parts) - _SAID_MAX} more"] if len(parts) > _SAID_MAX else []
    return "; ".join((*parts[:_SAID_MAX], *more))


def draw(page: Page, shown: Bars, rows: Rows) -> None:
    run, results = page.run, frame.marks(rows)
    metric, log = run.metric(shown.metric), "y" in shown.log
    # What has no value anywhere takes no room: the foot says it.
    drawn = {mark["_group"] for mark in results}
    order = dict.fromkeys(point.at[shown.over] for point in run.points)
    levels: list[Level] = [level for level in order if level in drawn]
    alone = len(frame.split(results, "panel")) < 2
    if alone and len(levels) * len({mark["_rank"] for mark in results}) <= _FEW:
        page.width = NARROW
    base = words.labels(run.named, shown.base or {}, shown.base or {})
    chart = groups.Chart(
        {level: words.label(run.named, shown.over, level) for level in levels} or {"": ""},
        over=scales.factor(run.experiment, shown.over),
        unit=metric.unit,
        up=scales.metric(metric, log=log),
        ratio=f"ratio to {base} (log)",
        high=150.0 if page.width == NARROW else 190.0,
        log=log,
        dots=log,
    )
    in_place = [mark for mark in frame.unavailable(rows) if "_group" in mark]
    groups.draw(page, chart, results, in_place)

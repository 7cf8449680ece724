"""A run's tables in a report, as text: published beside here, every point, noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memlab.analysis.intervals import Interval
from memlab.experiment import Against, Metric
from memlab.present import beside as beside_words
from memlab.present import words
from memlab.results import PointSummary, Run
from memlab.results.beside import Beside
from memlab.results.run import FLOOR_SHARE


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: what it is, its head, its rows (the first cell names the row), remarks below."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()


def setting(run: Run, beside: Beside) -> str:
    varied = [name for name in beside.setting if name in run.varied]
    return words.levels(run.experiment, beside.setting, varied)


def published(run: Run, beside: Beside) -> Grid:
    """A published table: printed, here, the ratio, the samples, for each column."""
    metric = run.metric(beside.declared.metric)
    head = [beside.table.rows_are]
    for column in beside.declared.columns:
        head += [f"{column}, published", f"{column}, here", "here / published", "n"]
    rows = []
    for row in beside.rows:
        cells = [row.name]
        for column, cell in row.printed.items():
            here = row.here[column]
            ratio = "-" if here.ratio is None else f"{cell.ratio_bound}{here.ratio:.3g}"
            median = words.median(here.median, metric.unit, extrapolated=here.extrapolated)
            cells += [cell.printed, median, ratio, str(here.median.n) if here.median else "-"]
        rows.append(cells)
    where = setting(run, beside)
    caption = f"{beside.source.id}: {beside.table.title} ({beside.table.place})"
    caption += f"; here: run {run.id}" + (f", {where}" if where else "")
    return Grid(caption, head, rows, list(beside_words.of_here(run, beside)))


def metrics_shown(run: Run) -> list[Metric]:
    """The metrics that the figure, the tables and the claims are about."""
    declared = run.experiment
    drawn = [declared.figure, *declared.more_figures.values()]
    names = [figure.metric for figure in drawn]
    names += [figure.beside for figure in drawn if isinstance(figure, Against)]
    names += [p.metric for p in declared.published]
    return [
        run.metric(name) for name in dict.fromkeys([*names, *(c.metric for c in declared.claims)])
    ]


def points(run: Run, metric: Metric) -> Grid:
    head = ["point", "control", "median", "95 % interval", "n", "loop alone", "ended", "flags"]
    better = "lower is better" if metric.lower_is_better else "higher is better"
    caption = f"{metric.name}: {metric.help} ({metric.unit}); {better}; run {run.id}"
    return Grid(caption, head, [_point(run, metric, summary) for summary in run.summaries])


def _point(run: Run, metric: Metric, found: PointSummary) -> list[str]:
    control = next((c for c in run.experiment.controls if c.name == found.point.control), None)
    names = [
        f.name
        for f in run.experiment.factors
        if f.name in run.varied or (control and f.name in control.levels)
    ]
    median = found.medians.get(metric.name)
    flags = [f"{flag} {count}" for flag, count in found.noise.most_common()]
    return [
        words.levels(run.experiment, found.point.at, names) or "the only point",
        found.point.control or "",
        words.median(median, metric.unit, extrapolated=metric.name in found.extrapolated),
        _interval(median, metric.unit),
        str(median.n) if median else "0",
        _floor(found, metric),
        outcomes([found]) or "not measured",
        ", ".join(flags),
    ]


def _interval(median: Interval | None, unit: str) -> str:
    if median is None or median.low is None or median.high is None:
        return "-"
    return f"{words.quantity(median.low, unit)} to {words.quantity(median.high, unit)}"


def _floor(found: PointSummary, metric: Metric) -> str:
    """The loop without the operation: its own time, and its share where that is large."""
    share = found.floor_share(metric.name)
    if share is None:
        return "-"
    mark = "*" if share > FLOOR_SHARE else ""
    return f"{words.quantity(found.floors[metric.name], metric.unit)} ({share:.0%}){mark}"


def noise(run: Run) -> Grid:
    flags = sum((s.noise for s in run.summaries), Counter[str]())
    total = len(run.samples)
    rows = [[flag, str(n), f"{n / total:.1%}"] for flag, n in flags.most_common()]
    caption = f"What disturbed the {total} samples of run {run.id}; flagged, none dropped"
    return Grid(caption, ["flag", "samples", "share"], rows)


def noise_said(run: Run) -> Iterator[str]:
    wall_s = sum(session.wall_s for session in run.sessions)
    share = "-" if run.window_share is None else f"{run.window_share:.0%}"
    ended = run.sessions[-1].ended if run.sessions else None
    yield (
        f"{len(run.samples)} samples in {words.quantity(wall_s, 's')}, {share} of it inside timed "
        f"windows; the sweep ended: {ended or 'killed'}."
    )
    for name, how in run.row.request.get("scaled", {}).items():
        yield f"Scaled to fit this host: {name} {how}."
    for found in run.summaries:
        if set(found.outcomes) - {"ok"}:
            at = words.levels(run.experiment, found.point.at, run.varied) or "the only point"
            details = f": {'; '.join(found.details)}" if found.details else ""
            yield f"{at}: {outcomes([found])}{details}."


def outcomes(summaries: Sequence[PointSummary]) -> str:
    total = sum((s.outcomes for s in summaries), Counter[str]())
    return ", ".join(f"{count} {word}" for word, count in total.most_common())

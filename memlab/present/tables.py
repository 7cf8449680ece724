"""A run as tables on the terminal, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from memlab.analysis.intervals import Interval
from memlab.experiment import At, Metric
from memlab.present import words
from memlab.results import PointSummary, Run
from memlab.results.beside import Beside, tables
from memlab.results.crossing import crossings
from memlab.results.run import FLOOR_SHARE

LEGEND = (
    "medians; ± is half the 95 % interval of the median; ~ extrapolated from what was measured; "
    "* the loop alone is over 20 % of it"
)


def show(run: Run) -> None:
    """Print a run: a table a panel, crossings, controls, what was published, noise."""
    console = Console(highlight=False)
    console.print(_head(run))
    for title, table in _panels(run):
        console.print()
        console.print(f"[bold]{title}[/bold]")
        console.print(table)
    if run.samples:
        console.print(f"[dim]{LEGEND}[/dim]")
    for crossed in crossings(run):
        where = words.levels(run.experiment, crossed.panel, crossed.panel)
        console.print(
            f"[bold]{where}: {words.crossing(run.experiment, crossed)}[/bold]", soft_wrap=True
        )
    _controls(run, console)
    published = list(tables(run))
    for beside in published:
        _beside(run, beside, console)
    for line in _remarks(published):
        console.print(line)
    console.print()
    for line in _foot(run):
        console.print(line)


def _head(run: Run) -> str:
    blocks = [summary.outcomes.total() for summary in run.summaries]
    cpu, kernel = run.environment.get("cpu_model"), run.environment.get("kernel_release")
    spread = f"{min(blocks)} to {max(blocks)}" if min(blocks) != max(blocks) else f"{max(blocks)}"
    name = f" ({run.row.name})" if run.row.name else ""
    return (
        f"run {run.id}{name}: {run.experiment.question}\n"
        f"{cpu}, Linux {kernel}; {len(run.points)} points, {spread} samples each, "
        f"seed {run.row.seed}"
    )


def _panels(run: Run) -> Iterator[tuple[str, Table]]:
    """One table a panel of the experiment's figure: rows over its axis, columns its lines."""
    figure, metric = run.experiment.figure, run.metric(run.experiment.figure.metric)
    grid = [s for s in run.summaries if s.point.control is None]
    by = [name for name in figure.by if name in run.varied] or list(figure.by[:1])
    named = {figure.over, *by}
    free = [name for name in run.varied if name not in named]
    panel_names = list(dict.fromkeys([*figure.panels, *free]))
    for panel in _combinations(grid, panel_names):
        inside = [s for s in grid if _has(s, panel)]
        lines = _combinations(inside, by)
        every = all(metric.name in s.extrapolated for s in inside if s.medians)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(figure.over, justify="right", no_wrap=True)
        for line in lines:
            title = words.levels(run.experiment, line, by)
            table.add_column(title, justify="right", no_wrap=True)
        if metric.floor:
            table.add_column("loop alone", justify="right", style="dim")
        for level in dict.fromkeys(s.point.at[figure.over] for s in inside):
            row = [s for s in inside if s.point.at[figure.over] == level]
            found = (next((s for s in row if _has(s, line)), None) for line in lines)
            cells = [_cell(summary, metric, mark=not every) for summary in found]
            if metric.floor:
                floor = run.pooled_floor(metric, [s.point for s in row])
                cells.append("-" if floor is None else words.quantity(floor, metric.unit))
            table.add_row(run.experiment.describe_level(figure.over, level), *cells)
        place = words.levels(run.experiment, panel, panel_names)
        beyond = "; all extrapolated" if every else ""
        yield f"{metric.help} ({metric.unit}): {place}{_type_of(run, panel)}{beyond}", table


def _type_of(run: Run, panel: At) -> str:
    """The filesystem that really lies under the panel's level."""
    file = run.experiment.file
    if file is None or file.filesystem not in panel:
        return ""
    found = run.environment.get("filesystems", {}).get(panel[file.filesystem])
    return f" [{found['type']} at {found['path']}]".replace("[", "\\[") if found else ""


def _combinations(summaries: Sequence[PointSummary], names: Sequence[str]) -> list[At]:
    found = (tuple((name, s.point.at[name]) for name in names) for s in summaries)
    return [dict(pairs) for pairs in dict.fromkeys(found)]


def _has(summary: PointSummary, at: At) -> bool:
    return all(summary.point.at[name] == level for name, level in at.items())


def _cell(summary: PointSummary | None, metric: Metric, *, mark: bool = True) -> str:
    """A median; `mark` says whether an extrapolated one gets its mark."""
    if summary is None:
        return ""
    if metric.name not in summary.medians:
        return next((word for word in summary.outcomes), "not yet")
    text = words.median(
        summary.medians[metric.name],
        metric.unit,
        extrapolated=mark and metric.name in summary.extrapolated,
    )
    share = summary.floor_share(metric.name)
    return text + ("*" if share is not None and share > FLOOR_SHARE else "")


def _controls(run: Run, console: Console) -> None:
    metric = run.metric(run.experiment.figure.metric)
    for control in run.experiment.controls:
        summaries = [s for s in run.summaries if s.point.control == control.name]
        if not summaries:
            continue
        console.print()
        console.print(f"[bold]control {control.name}[/bold]  {control.why}")
        names = [
            f.name
            for f in run.experiment.factors
            if f.name in control.levels or f.name in run.varied
        ]
        for summary in summaries:
            at = words.levels(run.experiment, summary.point.at, names)
            console.print(f"  {at}: {_cell(summary, metric)}")


def _beside(run: Run, beside: Beside, console: Console) -> None:
    metric = run.metric(beside.declared.metric)
    setting = words.levels(
        run.experiment, beside.setting, [n for n in beside.setting if n in run.varied]
    )
    console.print()
    console.print(
        f"[bold]published beside here[/bold]  {beside.source.id}: {beside.table.title}"
        + (f"; here: {setting}" if setting else "")
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(beside.table.rows_are, justify="right")
    for column in beside.declared.columns:
        table.add_column(f"{column}: published", justify="right", style="dim")
        table.add_column("here", justify="right", no_wrap=True)
        table.add_column("x", justify="right", no_wrap=True)
    for row in beside.rows:
        cells = []
        for column, cell in row.printed.items():
            here = row.here[column]
            ratio = "-" if here.ratio is None else f"{_bound(cell.bound)}{here.ratio:.3g}"
            median = words.median(here.median, metric.unit, extrapolated=here.extrapolated)
            cells += [cell.printed, median, ratio]
        table.add_row(run.experiment.describe_level(beside.table.rows_are, row.level), *cells)
    console.print(table)
    for line in _beyond(run, beside):
        console.print(line)


def _bound(bound: str) -> str:
    """A ratio to a value that is only known to be larger is only known to be smaller."""
    return {"": "", ">": "<", "<": ">"}[bound]


def _remarks(published: Sequence[Beside]) -> Iterator[str]:
    """What a reader of the published tables has to know, once a table."""
    if published:
        yield "[dim]x: here / published[/dim]"
    for beside in {(b.source.id, b.table.id): b for b in published}.values():
        if beside.declared.note:
            yield beside.declared.note
        yield f"[dim]unsure in the source: {'; '.join(beside.table.unsure)}[/dim]"


def _beyond(run: Run, beside: Beside) -> Iterator[str]:
    """Printed values that no reading could reach, held against this machine's own limit."""
    limit = beside.declared.limit
    if limit and beside.limit:
        unit = run.metric(limit.metric).unit
        here = words.median(beside.limit, unit)
        beyond = {row.level: row.beyond for row in beside.rows if row.beyond}
        if beyond:
            level, implied = max(beyond.items(), key=lambda item: max(item[1].values()))
            column, value = max(implied.items(), key=lambda item: item[1])
            at = run.experiment.describe_level(beside.table.rows_are, level)
            yield (
                f"As reading, {column} at {at} would be a {limit.what} of "
                f"{words.quantity(value, unit)}; this machine's own limit, measured by the "
                f"control {limit.control!r}, is {here}. "
                f"{len(beyond)} of {len(beside.rows)} printed rows lie beyond it."
            )


def _foot(run: Run) -> Iterator[str]:
    failed = [s for s in run.summaries if s.outcomes.total() > s.outcomes["ok"]]
    for summary in failed:
        at = words.levels(run.experiment, summary.point.at, run.varied)
        outcomes = ", ".join(f"{n} {word}" for word, n in summary.outcomes.items() if word != "ok")
        yield f"{at}: {outcomes}: {'; '.join(summary.details)}"
    flags = sum((s.noise for s in run.summaries), Counter())
    seen = ", ".join(f"{flag} {count}" for flag, count in flags.most_common()) or "none"
    yield f"noise: {seen}, of {len(run.samples)} samples; flagged, none dropped"
    for name, how in run.row.request.get("scaled", {}).items():
        yield f"scaled to this host: {name} {how}"
    ended = run.sessions[-1].ended if run.sessions else None
    wall_s = sum(session.wall_s for session in run.sessions)
    share = f"{run.window_share:.0%}" if run.window_share is not None else "-"
    yield (
        f"{len(run.samples)} samples in {words.quantity(wall_s, 's')}, {share} of it inside timed "
        f"windows; ended: {ended or 'killed'}; store: {run.store_path}"
    )


def as_data(run: Run) -> dict[str, Any]:
    """A run's summary as plain data, for --json. Base units; None where there is no number."""
    return {
        "run": run.id,
        "experiment": run.experiment.name,
        "name": run.row.name,
        "created_at": run.row.created_at,
        "seed": run.row.seed,
        "memlab": run.row.memlab,
        "request": run.row.request,
        "environment": run.environment,
        "ended": run.sessions[-1].ended if run.sessions else None,
        "samples": len(run.samples),
        "window_share": run.window_share,
        "points": [
            {
                "levels": dict(s.point.at),
                "control": s.point.control,
                "outcomes": dict(s.outcomes),
                "details": list(s.details),
                "metrics": {name: _interval(i) for name, i in s.medians.items()},
                "floors": dict(s.floors),
                "extrapolated": sorted(s.extrapolated),
                "noise": dict(s.noise),
            }
            for s in run.summaries
        ],
        "crossings": [
            {
                "panel": dict(c.panel),
                "of": dict(c.of),
                "to": dict(c.to),
                "estimate": _finite(c.found.estimate),
                "low": _finite(c.found.low),
                "high": _finite(c.found.high),
                "words": words.crossing(run.experiment, c),
            }
            for c in crossings(run)
        ],
        "published": [_published(beside) for beside in tables(run)],
    }


def _published(beside: Beside) -> dict[str, Any]:
    return {
        "source": beside.source.id,
        "table": beside.table.id,
        "setting": dict(beside.setting),
        "limit": _interval(beside.limit) if beside.limit else None,
        "rows": [
            {
                "level": row.level,
                "printed": {column: cell.printed for column, cell in row.printed.items()},
                "here": {
                    column: _interval(here.median) if here.median else None
                    for column, here in row.here.items()
                },
                "ratio": {column: here.ratio for column, here in row.here.items()},
                "beyond_limit": dict(row.beyond),
            }
            for row in beside.rows
        ],
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {
        "low": interval.low,
        "estimate": interval.estimate,
        "high": interval.high,
        "n": interval.n,
    }


def _finite(value: float | None) -> float | None:
    """JSON has no infinity: a crossing outside the sizes measured is None, and `words` says so."""
    return value if value is not None and abs(value) != float("inf") else None

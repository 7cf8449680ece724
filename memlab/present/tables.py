"""A run as tables on the terminal, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memlab.experiment import At, Metric
from memlab.judging import costs
from memlab.present import attribution, beside, words
from memlab.results import PointSummary, Run
from memlab.results.beside import tables
from memlab.results.crossing import crossings
from memlab.results.run import FLOOR_SHARE

_SIDE_BY_SIDE = 4  # columns of medians that a terminal of 100 columns has room for
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
    for printed in published:
        beside.show(console, run, printed)
    if published:
        console.print(Text(beside.LEGEND, style="dim"))
    for line in beside.remarks(published):
        console.print(Text(line, style="dim"))
    for line in costs.lines_for_show(run):
        console.print(Text(line))
    for line in attribution.lines(run):
        console.print(Text(line))
    console.print()
    for line in _foot(run):
        console.print(line)


def _head(run: Run) -> str:
    blocks = [summary.outcomes.total() for summary in run.summaries]
    cpu, kernel = run.environment.get("cpu_model"), run.environment.get("kernel_release")
    spread = f"{min(blocks)} to {max(blocks)}" if min(blocks) != max(blocks) else f"{max(blocks)}"
    name = f" ({run.row.name})" if run.row.name else ""
    remark = words.machine_remark(run.environment)
    return (
        f"run {run.id}{name}: {run.experiment.question}\n"
        f"{cpu}, Linux {kernel}; {len(run.points)} points, {spread} samples each, "
        f"seed {run.row.seed}" + (f"\n{remark}" if remark else "")
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
        told = [metric.name in s.extrapolated for s in inside if s.medians]
        every = bool(told) and all(told)
        table = _table(run, inside, by, mark=not every)
        place = words.levels(run.experiment, panel, panel_names)
        beyond = "; all extrapolated" if every else ""
        yield f"{metric.help} ({metric.unit}): {place}{_type_of(run, panel)}{beyond}", table


def _table(run: Run, inside: Sequence[PointSummary], by: Sequence[str], *, mark: bool) -> Table:
    """A panel's table. Where the lines are more than the levels and would not fit side by side,
    they are the rows."""
    over, metric = run.experiment.figure.over, run.metric(run.experiment.figure.metric)
    unit = words.cell_unit(metric.unit)
    lines = _combinations(inside, by)
    levels = _combinations(inside, [over])
    across, down = (
        (levels, lines) if len(lines) > max(_SIDE_BY_SIDE, len(levels)) else (lines, levels)
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(over if down is levels else "", justify="right", no_wrap=True)
    for at in across:
        table.add_column(_label(run, at), justify="right", no_wrap=True)
    if metric.floor:
        table.add_column("loop alone", justify="right", style="dim")
    for at in down:
        row = [s for s in inside if _has(s, at)]
        found = (next((s for s in row if _has(s, other)), None) for other in across)
        cells = [_cell(summary, metric, unit, mark=mark) for summary in found]
        if metric.floor:
            floor = run.pooled_floor(metric, [s.point for s in row])
            cells.append("-" if floor is None else words.quantity(floor, unit))
        table.add_row(_label(run, at), *cells)
    return table


def _label(run: Run, at: At) -> str:
    """A level of the axis alone, others with their names where they need them."""
    if list(at) == [run.experiment.figure.over]:
        return run.experiment.describe_level(*next(iter(at.items())))
    return words.levels(run.experiment, at, at)


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


def _cell(summary: PointSummary | None, metric: Metric, unit: str, *, mark: bool = True) -> str:
    """A median; `mark` says whether an extrapolated one gets its mark."""
    if summary is None:
        return ""
    if metric.name not in summary.medians:
        return next((word for word in summary.outcomes), "not yet")
    text = words.median(
        summary.medians[metric.name],
        unit,
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
            console.print(f"  {at}: {_cell(summary, metric, metric.unit)}")


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
        f"windows; ended: {ended or 'not yet, or killed'}; store: {run.store_path}"
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
                "metrics": {name: beside.interval(i) for name, i in s.medians.items()},
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
        "published": [beside.as_data(table) for table in tables(run)],
        "attribution": attribution.as_data(run),
    }


def _finite(value: float | None) -> float | None:
    """JSON has no infinity: a crossing outside the sizes measured is None, and `words` says so."""
    return value if value is not None and abs(value) != float("inf") else None

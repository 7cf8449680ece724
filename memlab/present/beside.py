"""A published table beside this machine's numbers, on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from memlab.analysis.intervals import Interval
from memlab.judging import evidence
from memlab.present import words
from memlab.results import Run
from memlab.results.beside import Beside, RatioHere, Row

LEGEND = (
    "x: here / published; ± is half the 95 % interval of the median; ~ extrapolated from what "
    "was measured"
)


def show(console: Console, run: Run, beside: Beside) -> None:
    """Print one table: its printed values, ours with intervals, and the ratios."""
    metric = run.metric(beside.declared.metric)
    varied = [name for name in beside.setting if name in run.varied]
    setting = words.levels(run.experiment, beside.setting, varied)
    every = all(h.extrapolated for row in beside.rows for h in row.here.values() if h.median)
    title = f"{beside.source.id}: {beside.table.title}" + (f"; here: {setting}" if setting else "")
    title += ", all extrapolated" if every else ""
    unit = words.cell_unit(metric.unit)
    title += f" ({metric.unit})" if unit != metric.unit else ""
    console.print()
    console.print(f"[bold]published beside here[/bold]  {escape(title)}")
    # Three columns of three do not fit on a terminal: then a line a printed cell.
    columns = [*beside.declared.columns, *beside.declared.ratios]
    layout = _wide if len(columns) <= 2 else _long
    console.print(layout(beside, unit, mark=not every))
    for line in of_here(run, beside):
        console.print(escape(line))


def _table(beside: Beside) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(beside.table.rows_are, justify="right", no_wrap=True)
    return table


def _wide(beside: Beside, unit: str, *, mark: bool) -> Table:
    """A row a printed row: published, here and their ratio for each column."""
    table = _table(beside)
    for column in beside.declared.columns:
        table.add_column(f"{column}:\npublished", justify="right", style="dim", no_wrap=True)
        table.add_column("here", justify="right", no_wrap=True)
        table.add_column("x", justify="right", no_wrap=True)
    for row in beside.rows:
        cells = [part for column in row.printed for part in _cells(row, column, unit, mark=mark)]
        table.add_row(row.name, *cells)
    return table


def _long(beside: Beside, unit: str, *, mark: bool) -> Table:
    """A row a printed cell, the printed ratios after the columns that they divide."""
    table = _table(beside)
    table.add_column("column", no_wrap=True)
    table.add_column("published", justify="right", style="dim", no_wrap=True)
    table.add_column("here", justify="right", no_wrap=True)
    table.add_column("x", justify="right", no_wrap=True)
    for row in beside.rows:
        name = row.name
        for column in row.printed:
            table.add_row(name, column, *_cells(row, column, unit, mark=mark))
            name = ""
        for column, ratio in row.ratios.items():
            label = f"{ratio.of} / {ratio.to} ({column})"
            table.add_row("", label, ratio.printed.printed, _ratio(ratio), "")
        table.add_section()
    return table


def _cells(row: Row, column: str, unit: str, *, mark: bool) -> tuple[str, str, str]:
    cell, here = row.printed[column], row.here[column]
    ratio = "-" if here.ratio is None else f"{cell.ratio_bound}{here.ratio:.3g}"
    median = words.median(here.median, unit, extrapolated=mark and here.extrapolated)
    return cell.printed, median, ratio


def _ratio(ratio: RatioHere) -> str:
    """`0.0429 (0.0337 to 0.0469)`."""
    return "-" if ratio.here is None else evidence.interval(ratio.here)


def remarks(published: Sequence[Beside]) -> Iterator[str]:
    """What a reader of the published tables has to know, once a table."""
    for beside in {(b.source.id, b.table.id): b for b in published}.values():
        if beside.declared.note:
            yield beside.declared.note
        yield f"unsure in the source: {'; '.join(beside.table.unsure)}"


def of_here(run: Run, beside: Beside) -> Iterator[str]:
    """What has to be known of this machine's numbers, and printed values that nothing here could
    reach, held against this machine's own limit."""
    if remark := words.machine_remark(run.environment):
        yield remark
    limit = beside.declared.limit
    past = {row.name: row.beyond for row in beside.rows if row.beyond}
    if limit and beside.limit and past:
        unit = run.metric(limit.metric).unit
        name, implied = max(past.items(), key=lambda item: max(item[1].values()))
        column, value = max(implied.items(), key=lambda item: item[1])
        yield (
            f"As reading, {column} at {name} would be a {limit.what} of "
            f"{words.quantity(value, unit)}; this machine's own limit, measured by the "
            f"control {limit.control!r}, is {words.median(beside.limit, unit)}. "
            f"{len(past)} of {len(beside.rows)} printed rows lie beyond it."
        )


def as_data(beside: Beside) -> dict[str, Any]:
    """The table as plain data, for --json. Base units; None where there is no number."""
    return {
        "source": beside.source.id,
        "table": beside.table.id,
        "setting": dict(beside.setting),
        "limit": interval(beside.limit) if beside.limit else None,
        "rows": [
            {
                "level": row.level,
                "printed": {column: cell.printed for column, cell in row.printed.items()},
                "here": {
                    column: interval(here.median) if here.median else None
                    for column, here in row.here.items()
                },
                "ratio": {column: here.ratio for column, here in row.here.items()},
                "beyond_limit": dict(row.beyond),
                "ratios": {
                    column: {
                        "of": ratio.of,
                        "to": ratio.to,
                        "printed": ratio.printed.printed,
                        "here": interval(ratio.here) if ratio.here else None,
                    }
                    for column, ratio in row.ratios.items()
                },
            }
            for row in beside.rows
        ],
    }


def interval(found: Interval) -> dict[str, Any]:
    """An interval as plain data, in the metric's base unit."""
    return {
        "low": found.low,
        "estimate": found.estimate,
        "high": found.high,
        "n": found.n,
    }

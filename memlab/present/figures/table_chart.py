"""A published table as a chart: its cells beside ours with intervals, and the ratios below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlab.analysis.intervals import Interval
from memlab.present import tables
from memlab.present.figures import frame, groups
from memlab.present.figures.frame import Mark
from memlab.present.figures.layout import NARROW, Page
from memlab.results import Run
from memlab.results.beside import Beside
from memlab.text import units

LOG_SPAN = 100.0  # largest over smallest number above which the axis is logarithmic
_FLIPPED = {"": "", ">": "<", "<": ">"}  # a ratio to what is a bound


def heading(run: Run, beside: Beside) -> tuple[str, str]:
    """The chart's title, and at which setting of the run it is."""
    here = tables.setting(run, beside)
    return f"{beside.source.id}: {beside.table.title}", f"here: {here}" if here else ""


def draw(page: Page, beside: Beside) -> None:
    result = list(_marks(page.run, beside))
    values = (mark for mark in result if mark["kind"] != "ratio")
    ends = frame.values(values, "low", "median", "high", "value", above=0.0)
    log = max(ends) / min(ends) > LOG_SPAN
    page.width = NARROW
    page.notes.append(_counts([here for row in beside.rows for here in row.here.values() if here]))
    chart = groups.Chart(
        {row.name: row.name for row in beside.rows},
        over=beside.table.rows_are,
        unit=page.run.metric(beside.declared.metric).unit,
        up=f"{beside.table.quantity}{' (log)' if log else ''}",
        ratio="here / published (log)",
        high=190.0,
        log=log,
        dots=True,
    )
    lost = [mark for mark in result if "why" in mark]
    groups.draw(page, chart, [mark for mark in result if "why" not in mark], lost)


def _marks(run: Run, beside: Beside) -> Iterator[Mark]:
    source = f"{beside.source.id}, {beside.table.id}"
    for row in beside.rows:
        for rank, (column, here) in enumerate(row.here.items()):
            printed = row.cells[column]
            at: Mark = {"panel": {}, "series": column, "_group": row.name, "_rank": rank}
            at |= {"unit": run.metric(beside.declared.metric).unit}
            yield {"kind": "published"} | at | frame.printed_cells(printed, source)
            if here is None:
                yield {"kind": "bar", "why": "not measured"} | at
                continue
            cells = frame.numbers(here) | {"extrapolated": column in row.extrapolated}
            cells = {name: cell for name, cell in cells.items() if cell is not None}
            yield {"kind": "bar"} | at | cells
            ends = {n: cells[n] / printed.value for n in ("low", "median", "high") if n in cells}
            yield {"kind": "ratio", "bound": _FLIPPED[printed.bound]} | at | cells | ends


def _counts(medians: Sequence[Interval]) -> str:
    """How many samples stand behind a mark."""
    each = units.from_to([median.n for median in medians] or [0])
    short = any(median.low is None for median in medians)
    return f"median of {each} samples, {'no interval below 6' if short else '95 % interval'}"

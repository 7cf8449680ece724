"""The stored runs, a row each. A list of runs reads no sample, and imports nothing that does."""

from __future__ import annotations

from collections.abc import Sequence

from memlab import experiments
from memlab.present.answer import say
from memlab.present.machine import machine_of
from memlab.present.table import Cell, Column, Table
from memlab.store import Listed


def write(runs: Sequence[Listed]) -> None:
    """Print a row per stored run."""
    noted = any(item.note for item in runs)
    heads = ["run", "measured", "experiment", "name", "samples", "ended"]
    heads += [*["note"] * noted, "machine"]
    cells: list[list[Cell | str]] = [_row(item, noted=noted) for item in runs]
    columns = [Column(head, "right" if head == "samples" else "left", wrap=20) for head in heads]
    machines = {str(cells_of[-1]) for cells_of in cells}
    if len(machines) > 1:
        say([Table("", columns, cells)])
        return
    shown = Table("", columns[:-1], [row[:-1] for row in cells])
    say([shown, f"all of them on {machines.pop()}"])


def _row(listed: Listed, *, noted: bool) -> list[Cell | str]:
    row, machine = listed.row, machine_of(listed.row.environment)
    return [
        row.id,
        row.created_at[:16].replace("T", " "),
        experiments.short(row.experiment),
        row.name or "",
        str(listed.samples),
        listed.ended or "unfinished",
        *([listed.note or ""] if noted else []),
        machine if row.origin is None else f"{row.origin}: {machine}",
    ]

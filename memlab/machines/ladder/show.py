"""The ladder in print: a matrix of rows by kernels, the steps in words, and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from memlab import experiments
from memlab.judging.summary import standing
from memlab.machines.ladder.judge import Bisected, KernelCell, KernelRow, verdicts
from memlab.present import words
from memlab.present.answer import Part, Sentence, say
from memlab.present.table import Cell, Column, Table
from memlab.text import units

SHORT = {
    "reproduced": "holds",
    "contradicted": "contradicted",
    "inconclusive": "not decided",
    "not testable here": "not testable",
}
_NAMED = 24  # characters that a row's name may be narrowed to, so that all kernels have room
_ALIKE = 8  # metrics that are alike everywhere: so many have a line of their own
_COLOURS = {"reproduced": "#cfe8d5", "contradicted": "#f3c6c0", "": "#dbe4f0"}


def show(kernels: Sequence[str], rows: Sequence[KernelRow], *, verbose: bool) -> None:
    """Print what changes between the kernels, then the matrix: the rows that change or that do not
    hold, or all of them."""
    say(_parts(kernels, rows, verbose=verbose))


def _parts(kernels: Sequence[str], rows: Sequence[KernelRow], *, verbose: bool) -> Iterator[Part]:
    for line in steps(rows):
        yield Sentence(line, "bold")
    for row in rows:
        if row.as_claimed:
            text = f"{_name(row)}: that it is so since {row.since} is {row.as_claimed}"
            yield Sentence(text, "bold")
    shown = [row for row in rows if verbose or _telling(row)]
    if shown:
        columns = [
            Column("", "left", wrap=_NAMED),
            *(Column(version, wrap=14) for version in kernels),
        ]
        cells: list[list[Cell | str]] = [
            [_name(row), *(_cell(row, row.cells.get(version)) for version in kernels)]
            for row in shown
        ]
        yield Table("", columns, cells)
    alike = [] if verbose else [row for row in rows if not _telling(row)]
    counted = [row for row in alike if row.is_metric][:_ALIKE]
    for row in counted:
        same = _said(row, next(iter(row.cells.values())))
        yield f"{_name(row)}: {same} everywhere"
    untested = [row for row in alike if _is_untested(row)]
    for name in dict.fromkeys(row.experiment for row in rows):
        more = [row for row in alike if row.experiment == name and row not in counted]
        testable = [row for row in more if row not in untested]
        for number, what in (
            (len(testable), "alike under every kernel"),
            (len(more) - len(testable), "not testable under any"),
        ):
            if number:
                yield Sentence(f"{name}: {units.counted(number, 'more row')} {what} (-v)", "dim")
    if verbose and (together := standing(verdicts(rows), "all kernels")):
        yield Sentence(together, "dim")


def steps(rows: Sequence[KernelRow]) -> list[str]:
    """`page-fault off-count: contradicted since 6.12.107, reproduced before`."""
    parts = []
    for row in rows:
        for before, since in row.steps:
            old, new = row.cells[before], row.cells[since]
            parts.append(f"{_name(row)}: {_said(row, new)} since {since}, {_said(row, old)} before")
    return parts or ["nothing changes between these kernels"] * bool(rows)


def bisected(row: KernelRow, found: Bisected) -> list[str]:
    """Where it changes, what was measured, and how sure that is."""
    old, new = found.measured[found.before], found.measured[found.since]
    text = (
        f"{_name(row)}: {_said(row, new)} since {found.since}, {_said(row, old)} in {found.before}"
    )
    if found.skipped:
        text += f"; {', '.join(found.skipped)} between them could not be told apart"
    seen = ", ".join(f"{version} {_said(row, cell)}" for version, cell in found.measured.items())
    return [
        text,
        f"measured: {seen}",
        f"each verdict is wrong in at most 5 % of cases, this answer in at most "
        f"{found.error_percent} %, if it changes once",
    ]


def _telling(row: KernelRow) -> bool:
    """Whether it changes, or does not hold; a metric, whether it changes."""
    words_seen = {cell.word for cell in row.cells.values()}
    is_same = row.is_metric or words_seen <= {"reproduced"} or _is_untested(row)
    return bool(row.steps) or not is_same


def _is_untested(row: KernelRow) -> bool:
    """Whether no kernel here can be asked."""
    return {cell.word for cell in row.cells.values()} == {"not testable here"}


def _name(row: KernelRow) -> str:
    declared = experiments.load(row.experiment)
    place = words.levels(declared, row.at, row.at) if row.at else ""
    return f"{row.experiment} {row.id or row.text}" + (f", {place}" if place else "")


def _said(row: KernelRow, cell: KernelCell) -> str:
    number = "" if cell.value is None else words.quantity(cell.value, words.cell_unit(row.unit))
    return " ".join(part for part in (SHORT.get(cell.word, cell.word), number) if part)


def _cell(row: KernelRow, cell: KernelCell | None) -> Cell:
    return Cell("-", "quiet") if cell is None else Cell(_said(row, cell), cell.word)


def figure(kernels: Sequence[str], rows: Sequence[KernelRow], path: Path) -> Path:
    """The rows that change or do not hold, as coloured cells with their words; all rows where none
    does. Written as PNG."""
    from memlab.present import figures
    from memlab.present.figures import style

    shown = [row for row in rows if _telling(row)] or list(rows)
    with style.settings():
        wide, high = 4.0 + 1.05 * len(kernels), 1.0 + 0.32 * len(shown)
        result = figures.RunFigure(figsize=(wide, high), dpi=200)
        axes = result.add_axes((3.9 / wide, 0.1 / high, 1 - 4.0 / wide, 1 - 1.0 / high))
        axes.set(xlim=(0, len(kernels)), ylim=(len(shown), 0))
        axes.xaxis.tick_top()
        axes.set_xticks([i + 0.5 for i in range(len(kernels))], kernels, fontsize=8)
        axes.set_yticks([i + 0.5 for i in range(len(shown))], map(_name, shown), fontsize=7)
        axes.tick_params(length=0)
        for y, row in enumerate(shown):
            for x, version in enumerate(kernels):
                cell = row.cells.get(version)
                colour = "#f5f5f5" if cell is None else _COLOURS.get(cell.word, "#f6ecc9")
                axes.fill([x, x + 1, x + 1, x], [y, y, y + 1, y + 1], colour, edgecolor="white")
                message = "-" if cell is None else _said(row, cell)
                axes.text(x + 0.5, y + 0.5, message, ha="center", va="center", fontsize=6.5)
        result.suptitle("Under which kernel does it hold?", x=0.02, ha="left", fontsize=10)
    return figures.write(result, path)

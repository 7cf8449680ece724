"""Runs compared, on a screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from memlab.judging.compare import Compared
from memlab.present import table, tables, words
from memlab.present.screens.lines import height, lines_of, of_most_rows, rows_taken, unbroken
from memlab.present.table import SCREEN, Text, write

_ROWS = 2  # that a comparison gives for its medians


def compare(results: Sequence[Compared], in_full: str = "") -> None:
    """Print how many points got which word, what else differs, and a row per point of runs compared
    with one base. Where these have no room on one screen, the largest effects of either direction
    stand first, the medians go where they have no room beside, and a line says what is left out,
    with the command that prints all, `in_full`; without one nothing is."""
    console = table.console()
    with console.capture() as head:
        for line in tables.compared_counts(results):
            console.print(Text(line, style="bold"))
        notes = tables.compared_notes(results, in_full=not in_full)
        for line in [*tables.compared_heads(results), *notes]:
            console.print(Text(line))
    lines = len(head.get().splitlines())
    shown, medians, remaining = tables.compared(results, p=False), True, []
    if in_full and height(console, shown) > _room(console, results, lines, medians=True):
        whole = len(shown.rows)
        lines += rows_taken([f"not shown: {whole} points, the medians: {in_full}"], console.width)
        shown, few = (
            of_most_rows(
                console,
                tables.compared(results, p=False, medians=medians, largest_first=True),
                _room(console, results, lines, medians=medians),
            )
            for medians in (True, False)
        )
        fits = height(console, shown) <= _room(console, results, lines, medians=True)
        if not fits or len(shown.rows) + _ROWS < len(few.rows):
            shown, medians, remaining = few, False, ["the medians"]
        if whole > len(shown.rows):
            remaining = [words.count(whole - len(shown.rows), "point"), *remaining]
    console.file.write(head.get())
    write(console, shown)
    if remaining:
        unbroken([f"not shown: {', '.join(remaining)}: {in_full}"])
    console.print(_legend(results, medians=medians))


def _room(console: Console, results: Sequence[Compared], lines: int, *, medians: bool) -> int:
    """The lines of one screen that so many above a table and its legend leave."""
    return SCREEN - lines - len(lines_of(console, [_legend(results, medians=medians)]))


def _legend(results: Sequence[Compared], *, medians: bool) -> Text:
    return Text(tables.ratio_legend(results[0], medians=medians), style="dim")

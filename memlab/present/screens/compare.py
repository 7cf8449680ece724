"""Runs compared, on a screen."""

from __future__ import annotations

from collections.abc import Sequence

from memlab.judging.compare import Compared
from memlab.present import table, tables
from memlab.present.screens.lines import (
    lines_of,
    not_shown,
    of_most_rows,
    rows_taken,
    table_lines,
    unbroken,
)
from memlab.present.table import SCREEN, Text, write

_ROWS = 2  # that a comparison gives for its medians


def compare(results: Sequence[Compared], in_full: str = "", last: Sequence[str] = ()) -> None:
    """Print how many points got which word, what else differs, and a row per point of runs compared
    with one base. Where these have no room on one screen, the largest effects of either direction
    stand first, the medians go where they have no room beside, and a line says what is left out,
    with the command that prints all, `in_full`; without one nothing is. `last` is printed last."""
    console = table.console()
    with console.capture() as head:
        for line in tables.compared_counts(results):
            console.print(Text(line, style="bold"))
        notes = tables.compared_notes(results, in_full=not in_full)
        for line in [*tables.compared_heads(results), *notes]:
            console.print(Text(line))
    lines = len(head.get().splitlines()) + rows_taken(last, console.width)
    shown, medians, remaining = tables.compared(results, p=False), True, []
    whole = len(shown.rows)

    def room(*, medians: bool) -> int:
        """The lines of one screen that those above a table and its legend leave."""
        return SCREEN - lines - len(lines_of(console, [_legend(results, medians=medians)]))

    if in_full and len(table_lines(console, shown)) > room(medians=True):
        longest = not_shown({"point": whole}, in_full, "the medians")
        lines += rows_taken(longest, console.width)
        shown, few = (
            of_most_rows(
                console,
                tables.compared(results, p=False, medians=medians, largest_first=True),
                room(medians=medians),
            )
            for medians in (True, False)
        )
        fits = len(table_lines(console, shown)) <= room(medians=True)
        if not fits or len(shown.rows) + _ROWS < len(few.rows):
            shown, medians, remaining = few, False, ["the medians"]
    left = {"point": whole - len(shown.rows)} if whole > len(shown.rows) else {}
    console.file.write(head.get())
    write(console, shown)
    unbroken(not_shown(left, in_full, *remaining))
    console.print(_legend(results, medians=medians))
    unbroken(last)


def _legend(results: Sequence[Compared], *, medians: bool) -> Text:
    return Text(tables.ratio_legend(results[0], medians=medians), style="dim")

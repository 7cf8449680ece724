"""Runs compared, on a screen."""

from __future__ import annotations

from collections.abc import Sequence

from memlab.judging.compare import Compared
from memlab.present import table, tables, words
from memlab.present.screens.lines import height, lines_of, of_most_rows, rows_taken, unbroken
from memlab.present.table import SCREEN, Text, write

_ROWS = 2  # that a comparison gives for its medians


def compare(results: Sequence[Compared], in_full: str = "") -> None:
    """Print how many points got which word, what else differs, and a row per point of runs compared
    with one base. Where these have no room on one screen, points that differ stand first, the
    medians go where they have no room beside, and a line says what is left out, with the command
    that prints all, `in_full`; without one nothing is."""
    console = table.console()
    with console.capture() as head:
        for line in tables.compared_counts(results):
            console.print(Text(line, style="bold"))
        for line in [*tables.compared_heads(results), *tables.compared_notes(results)]:
            console.print(Text(line))
    legend = Text(tables.ratio_legend(results[0]), style="dim")
    room = SCREEN - len(head.get().splitlines()) - len(lines_of(console, [legend]))
    shown, remaining = tables.compared(results, p=False), []
    if in_full and height(console, shown) > room:
        whole = len(shown.rows)
        room -= rows_taken([f"not shown: {whole} points, the medians: {in_full}"], console.width)
        few = tables.compared(results, p=False, medians=False)
        shown, few = (of_most_rows(console, item, room) for item in (shown, few))
        if height(console, shown) > room or len(shown.rows) + _ROWS < len(few.rows):
            shown, remaining = few, ["the medians"]
        if whole > len(shown.rows):
            remaining = [words.count(whole - len(shown.rows), "point"), *remaining]
    console.file.write(head.get())
    write(console, shown)
    if remaining:
        unbroken([f"not shown: {', '.join(remaining)}: {in_full}"])
    console.print(legend)

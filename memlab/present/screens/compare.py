"""Runs compared, on a screen."""

from __future__ import annotations

from collections.abc import Sequence

from memlab.judging.compare import Compared
from memlab.present import table, tables
from memlab.present.answer import (
    Part,
    Sentence,
    Verbatim,
    lines,
    not_shown,
    of_most_rows,
    rows_taken,
    say,
)
from memlab.present.table import SCREEN

_ROWS = 2  # that a comparison gives for its medians


def compare(results: Sequence[Compared], in_full: str = "", last: Sequence[str] = ()) -> None:
    """Print how many points got which word, what else differs, and a row per point of runs compared
    with one base. Where these have no room on one screen, the largest effects of either direction
    stand first, the medians go where they have no room beside, and a line says what is left out,
    with the command that prints all, `in_full`; without one nothing is. `last` is printed last."""
    console = table.console()
    head: list[Part] = [Sentence(line, "bold") for line in tables.compared_counts(results)]
    head += tables.compared_heads(results)
    head += tables.compared_notes(results, in_full=not in_full)
    shown, medians, left = tables.compared(results, p=False), True, []
    whole = len(shown.rows)

    def room(*, medians: bool) -> int:
        """The lines of one screen that those above a table and its legend leave."""
        above = lines(console, [*head, _legend(results, medians=medians)])
        return SCREEN - len(above) - rows_taken(last, console.width)

    if in_full and len(lines(console, [shown])) > room(medians=True):
        longest = rows_taken(not_shown({"point": whole}, in_full, "the medians"), console.width)
        shown, few = (
            of_most_rows(
                console,
                tables.compared(results, p=False, medians=medians, largest_first=True),
                room(medians=medians) - longest,
            )
            for medians in (True, False)
        )
        fits = len(lines(console, [shown])) <= room(medians=True) - longest
        if not fits or len(shown.rows) + _ROWS < len(few.rows):
            shown, medians, left = few, False, ["the medians"]
    hidden = {"point": whole - len(shown.rows)} if whole > len(shown.rows) else {}
    rest = map(Verbatim, not_shown(hidden, in_full, *left))
    say([*head, shown, *rest, _legend(results, medians=medians), *map(Verbatim, last)])


def _legend(results: Sequence[Compared], *, medians: bool) -> Sentence:
    return Sentence(tables.ratio_legend(results[0], medians=medians), "dim")

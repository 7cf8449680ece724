"""The claims of a kernel's changelog in print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from memlab import experiments
from memlab.analysis.verdicts import VerdictWord
from memlab.machines.ladder.changes import JudgedChange, Side
from memlab.present import table, words
from memlab.present.table import Cell, Column, Table, Text, write
from memlab.published import Changelog

_WORDS: dict[VerdictWord, str] = {
    "reproduced": "{} of {} claims hold",
    "contradicted": "{} contradicted",
    "inconclusive": "{} not decided",
    "not testable here": "{} not testable here",
}


def show(log: Changelog, judged: Sequence[JudgedChange]) -> None:
    """Print the answer, the claims with the number of each kernel, and what each rests on."""
    console = table.console()
    console.print(Text(f"{log.id}: {headline(judged)}", style="bold"))
    rows: list[list[Cell | str]] = [
        [one.change.id, Cell(one.word, one.word), _side(one, one.before), _side(one, one.since)]
        for one in judged
    ]
    columns = [
        Column("claim", "left", wrap=30),
        Column("verdict", "left"),
        Column("before", wrap=24),
        Column("since", wrap=24),
    ]
    write(console, Table("", columns, rows))
    for one in judged:
        console.print(Text(f"{one.change.id}: {one.change.text}"))
        console.print(Text(f"  {one.word}: {one.reason}"))
        console.print(Text(f"  {one.change.subject} ({one.change.place})", style="dim"))
        for line in one.change.printed.splitlines():
            console.print(Text(f"  > {line}", style="dim"))


def headline(judged: Sequence[JudgedChange]) -> str:
    """`1 of 4 claims hold, 3 not testable here`."""
    counts = Counter(one.word for one in judged)
    said = [
        _WORDS[word].format(counts[word], len(judged))
        for word in _WORDS
        if counts[word] or word == "reproduced"
    ]
    return ", ".join(said)


def _side(judged: JudgedChange, side: Side | None) -> str:
    if side is None:
        return "-"
    if side.cell is None or side.cell.value is None:
        return f"{side.version}: no number"
    metric = next(
        m
        for m in experiments.load(judged.change.experiment).metrics
        if m.name == judged.change.metric
    )
    return f"{side.version}: {words.quantity(side.cell.value, words.cell_unit(metric.unit))}"

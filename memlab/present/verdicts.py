"""Verdicts on the terminal: published tables, and under them what holds here and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from memlab.experiment import Experiment
from memlab.judging import summary
from memlab.judging.claims import as_data as judged_as_data
from memlab.judging.reproduce import Reproduced
from memlab.judging.summary import ClaimSummary
from memlab.present import beside, words

_STYLES = {
    "reproduced": "bold green",
    "contradicted": "bold red",
    "inconclusive": "bold yellow",
    "not testable here": "bold yellow",
}


def show(found: Sequence[Reproduced], not_built: Sequence[str]) -> None:
    """Print what was reproduced: the answer in plain words first, then its grounds."""
    console = Console(highlight=False)
    summaries = [s for r in found for s in summary.by_claim(r.judged)]
    for line in summary.sentence(summaries):
        console.print(Text(line, style="bold"))
    for reproduced in found:
        _experiment(console, reproduced)
    if not_built:
        console.print()
    for line in not_built:
        console.print(Text(line))


def _experiment(console: Console, reproduced: Reproduced) -> None:
    run, experiment = reproduced.run, reproduced.experiment
    console.rule(Text(experiment.name, style="bold"), align="left")
    console.print(Text(experiment.question))
    if run is None:
        console.print(Text(f"not testable here: {reproduced.refused}"))
        return
    console.print(Text(f"run {run.id} of {run.row.created_at[:16]}, {run.blocks} blocks"))
    for table in reproduced.tables:
        beside.show(console, run, table)
    if reproduced.tables:
        console.print(Text(beside.LEGEND, style="dim"))
    for line in beside.remarks(reproduced.tables):
        console.print(Text(line, style="dim"))
    for claim in summary.by_claim(reproduced.judged):
        _claim(console, experiment, claim)


def _claim(console: Console, experiment: Experiment, claim: ClaimSummary) -> None:
    """The statement, what it rests on, then a verdict with its evidence for each setting."""
    console.print()
    basis = f"  [published: {claim.claim.published}]" if claim.claim.published else ""
    console.print(Text.assemble("claim: ", (claim.claim.text, "bold"), (basis, "dim")))
    said: set[str] = set()  # a control that says the same of every setting is heard once
    for group in summary.groups(claim, experiment.figure.over):
        text = Text.assemble(
            (group.closest.verdict.word, _STYLES[group.closest.verdict.word]),
            f" ({where})" if (where := words.where(experiment, group)) else "",
            f": {group.closest.evidence}",
        )
        _indented(console, text, 2)
        for line in group.closest.lines:
            console.print(Text(f"    {line}", style="dim"), soft_wrap=True)
        for line in group.closest.control_says.splitlines():
            if line not in said:
                _indented(console, Text(line), 4)
            said.add(line)


def _indented(console: Console, text: Text, columns: int) -> None:
    """Wrapped text behind blanks. rich's Padding would fill each line with blanks to its end."""
    for line in text.wrap(console, max(1, console.width - columns)):
        line.rstrip()
        console.print(Text(" " * columns).append_text(line))


def as_data(found: Sequence[Reproduced], not_built: Sequence[str]) -> dict[str, Any]:
    """What `reproduce` and `claims` say, as plain data for --json."""
    summaries = [s for r in found for s in summary.by_claim(r.judged)]
    return {
        "summary": summary.sentence(summaries),
        "experiments": [
            {
                "experiment": r.experiment.name,
                "run": r.run.id if r.run else None,
                "refused": r.refused or None,
                "tables": [beside.as_data(table) for table in r.tables],
                "claims": [judged_as_data(judged) for judged in r.judged],
            }
            for r in found
        ],
        "not_built": list(not_built),
    }

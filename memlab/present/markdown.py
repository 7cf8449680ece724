"""Markdown, for a pull request, an issue or a page."""

from __future__ import annotations

from collections.abc import Sequence

from memlab.judging.compare import Compared
from memlab.judging.reproduce import Reproduced
from memlab.present import tables, words
from memlab.present.answer import Heading, Sentence, markdown
from memlab.present.table import Column, Table
from memlab.present.verdicts import verdicts


def compared(results: Sequence[Compared]) -> str:
    """Runs compared with one base: the answer, a row per point, what else differs."""
    head, what = tables.compared_heads(results)
    answer = [Sentence(line, "bold") for line in tables.compared_counts(results)]
    notes = [Sentence(line, lead="- ") for line in tables.compared_notes(results)]
    legend = tables.ratio_legend(results[0])
    return markdown([[Heading(head)], answer, [what], [tables.compared(results)], notes, [legend]])


def claims(study: Reproduced) -> str:
    """A run's verdicts, those that do not hold first."""
    run = study.run
    rows = [
        [
            verdict.word,
            f"`{claim.id}`",
            f"{claim.text}{f' ({verdict.where})' if verdict.where else ''}",
            verdict.reason,
        ]
        for claim in (verdicts(run, study.judged) if run else [])
        for verdict in claim.verdicts
    ]
    columns = [Column(head) for head in ("verdict", "id", "claim", "here")]
    title = Heading(f"{study.experiment.name}{f', run {run.id}' if run else ''}")
    headline, *_ = words.headline([study])
    return markdown([[title], [Sentence(headline, "bold")], [Table("", columns, rows)]])

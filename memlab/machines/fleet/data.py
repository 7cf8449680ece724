"""Hosts beside each other as the document that `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from memlab.machines import documents
from memlab.machines.fleet.judge import Level, Split
from memlab.machines.ladder.judge import KernelRow
from memlab.present import words
from memlab.present.documents import Word
from memlab.results import Run


def hosts_claims(
    runs: Mapping[str, Run],
    rows: Sequence[KernelRow],
    splits: Sequence[Split],
    levels: Sequence[Level],
) -> documents.HostsClaims:
    by_host = {level.host: level for level in levels}
    return documents.HostsClaims(
        experiment=next(iter(runs.values())).experiment.name,
        hosts=[
            documents.HostsRun(
                host=host,
                run=run.id,
                machine=words.machine(run),
                level=by_host[host].ratio if host in by_host else None,
                outlier=host in by_host and by_host[host].apart,
            )
            for host, run in runs.items()
        ],
        claims=[
            documents.HostsClaim(
                id=row.id,
                text=row.text,
                at=row.at,
                verdicts={host: cast(Word, c.word) for host, c in row.cells.items()},
            )
            for row in rows
        ],
        disagreements=[
            documents.Disagreement(
                id=split.row.id,
                at=split.row.at,
                hosts={word: [*hosts] for word, hosts in split.groups.items()},
                outlier=split.outlier,
                differences=[
                    documents.TellingPart(
                        one.name, {**one.values}, one.separation.explained, one.separation.p
                    )
                    for one in split.differences
                ],
            )
            for split in splits
        ],
    )

"""A history as the document that `--json` prints."""

from __future__ import annotations

from pathlib import Path

from memlab.machines import documents
from memlab.machines.history.judge import History
from memlab.present.documents import ShownInterval


def history(found: History, figure: Path) -> documents.RunHistory:
    nights, metric = found.nights, found.metric
    newest = nights[-1].run

    return documents.RunHistory(
        experiment=newest.experiment.name,
        metric=metric.name,
        unit=metric.unit,
        host=newest.row.origin,
        typical=found.typical,
        rate=found.rate,
        alarm=found.alarm,
        runs=[
            documents.HistoryRun(
                one.run.id,
                one.run.row.created_at,
                ShownInterval.from_attributes(one.level),
                [*one.events],
            )
            for one in nights
        ],
        changes=[
            documents.Changed(
                after=nights[one.after].run.id,
                earliest=nights[one.earliest].run.id,
                latest=nights[one.latest].run.id,
                seen=nights[one.seen].run.id,
                ratio=ShownInterval.from_attributes(one.ratio),
                worse=(one.ratio.estimate > 1) == metric.lower_is_better,
            )
            for one in found.changes
        ],
        left_out=[*found.left_out],
        figure=str(figure),
    )

"""What was found, as the documents that `--json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, cast

from memlab import published as studies
from memlab.analysis import intervals
from memlab.experiment import PRESETS, Claim, Experiment
from memlab.experiment.points import Point
from memlab.judging.claims import Judged, as_data
from memlab.judging.compare import Compared
from memlab.judging.reproduce import Reproduced
from memlab.present import describe, documents, words
from memlab.present.machine import machine_of
from memlab.results import Run, modes
from memlab.results.attribution import traced
from memlab.results.beside import Beside, tables
from memlab.results.crossing import crossings
from memlab.store import Listed
from memlab.text.units import finite


def run(run: Run) -> documents.Show:
    """A run's summary. The request and the environment are as they were stored."""
    return documents.Show(
        run=run.id,
        experiment=run.experiment.name,
        name=run.row.name,
        note=run.note,
        created_at=run.row.created_at,
        seed=run.row.seed,
        memlab=run.row.memlab,
        request=cast(documents.Request, run.row.request),
        environment=cast(documents.Environment, run.environment),
        ended=cast(documents.Ended, run.sessions[-1].ended if run.sessions else None),
        samples=len(run.samples),
        window_share=run.window_share,
        points=[
            documents.ShownPoint(
                levels=s.point.at,
                control=s.point.control,
                outcomes=dict(s.outcomes),
                details=list(s.details),
                metrics={name: interval(i) for name, i in s.medians.items()},
                baseline_loops=dict(s.baseline_loops),
                extrapolated=sorted(s.extrapolated),
                noise=dict(s.noise),
                modes=_modes(run, s.point),
            )
            for s in run.summaries
        ],
        crossings=[
            documents.ShownCrossing(
                panel=c.panel,
                of=c.of,
                to=c.to,
                estimate=finite(c.found.estimate),
                low=finite(c.found.low),
                high=finite(c.found.high),
                words=words.crossing(run.named, c),
            )
            for c in crossings(run)
        ],
        published=[published(table) for table in tables(run)],
        attribution=_attribution(run),
    )


def _modes(run: Run, point: Point) -> documents.ShownModes | None:
    found = modes.of_point(run, point)
    if found is None:
        return None
    both = found.modes
    return documents.ShownModes(found.metric, both.low, both.high, both.low_share, found.high_met)


def _attribution(run: Run) -> list[documents.TracedPoint]:
    return [
        documents.TracedPoint(
            levels=found.at,
            operations=found.operations,
            tails=[
                documents.ShownTail(
                    share=one.share,
                    judged=one.judged,
                    untraced=one.untraced,
                    shortest=one.shortest_s,
                    nothing=one.nothing,
                    brief=one.brief,
                    causes={
                        cause: documents.Cause(met.met, met.main, met.inside_s)
                        for cause, met in one.causes.items()
                    },
                )
                for one in found.tails
            ],
            events=dict(found.events),
            unseen=dict(found.unseen),
            lost=found.lost,
            overhead={metric: interval(i) for metric, i in found.overhead.items()},
            samples=list(found.samples),
        )
        for found in traced(run)
    ]


def published(table: Beside) -> documents.PublishedTable:
    return documents.PublishedTable(
        source=table.source.id,
        table=table.table.id,
        setting=table.setting,
        limit=interval(table.limit) if table.limit else None,
        rows=[
            documents.PublishedRow(
                level=row.level,
                printed={column: cell.printed for column, cell in row.printed.items()},
                here={
                    column: interval(here.median) if here.median else None
                    for column, here in row.here.items()
                },
                ratio={column: here.ratio for column, here in row.here.items()},
                beyond_limit=dict(row.beyond),
                ratios={
                    column: documents.PrintedRatio(
                        of=ratio.of,
                        to=ratio.to,
                        printed=ratio.printed.printed,
                        here=interval(ratio.here) if ratio.here else None,
                    )
                    for column, ratio in row.ratios.items()
                },
            )
            for row in table.rows
        ],
    )


def interval(found: intervals.Interval) -> documents.ShownInterval:
    return documents.ShownInterval(found.low, found.estimate, found.high, found.n)


def claims(found: Sequence[Reproduced], not_built: Sequence[str]) -> documents.Claims:
    return documents.Claims(
        summary=words.headline(found),
        experiments=[
            documents.JudgedExperiment(
                experiment=r.experiment.name,
                run=r.run.id if r.run else None,
                refused=r.refused or None,
                tables=[published(table) for table in r.tables],
                claims=[claim(judged) for judged in r.judged],
            )
            for r in found
        ],
        not_built=list(not_built),
    )


def claim(judged: Judged) -> documents.JudgedClaim:
    return documents.JudgedClaim(**as_data(judged))


def comparison(compared: Compared) -> documents.Compare:
    return documents.Compare(
        experiment=compared.experiment.name,
        metric=compared.metric.name,
        unit=compared.metric.unit,
        lower_is_better=compared.metric.lower_is_better,
        base=compared.base,
        new=compared.new,
        threshold=compared.threshold,
        counts=dict(compared.counts),
        remarks=list(compared.remarks),
        points=[
            documents.ComparedPoint(
                levels=point.at,
                word=point.comparison.word,
                text=point.comparison.text,
                base=point.base,
                new=point.new,
                ratio=point.comparison.ratio.estimate,
                ratio_low=point.comparison.ratio.low,
                ratio_high=point.comparison.ratio.high,
                beyond_p=point.comparison.beyond_p,
                same_p=point.comparison.same_p,
                blocks_missing=point.comparison.blocks_missing,
                detectable=point.comparison.detectable,
                n=point.comparison.n,
            )
            for point in compared.points
        ],
        only_base=list(compared.only_base),
        only_new=list(compared.only_new),
    )


def runs(found: Iterable[Listed]) -> list[documents.ListedRun]:
    """Stored runs as they are listed."""
    return [
        documents.ListedRun(
            run=one.row.id,
            experiment=one.row.experiment,
            name=one.row.name,
            note=one.note,
            created_at=one.row.created_at,
            samples=one.samples,
            ended=cast(documents.Ended, one.ended),
            machine=machine_of(one.row.environment),
            host=one.row.origin,
        )
        for one in found
    ]


def experiment(declared: Experiment) -> documents.Describe:
    return documents.Describe(
        name=declared.name,
        question=declared.question,
        probe=declared.probe_file,
        window=describe.probe_comment(declared).strip(),
        factors=[
            documents.DeclaredFactor(
                name=f.name,
                kind=f.kind.noun,
                help=f.help,
                good=list(f.kind.levels) if f.kind.levels else None,
                least=f.least,
                most=finite(f.most),
                levels=documents.PresetLevels(*(list(f.levels(preset)) for preset in PRESETS)),
            )
            for f in declared.factors
        ],
        excludes=[exclude.why for exclude in declared.excludes],
        metrics=[
            documents.DeclaredMetric(
                m.name, m.unit, m.help, m.lower_is_better, m.baseline_loop is not None
            )
            for m in declared.metrics
        ],
        controls=[
            documents.DeclaredControl(
                c.name, c.description, {k: list(v) for k, v in c.levels.items()}
            )
            for c in declared.controls
        ],
        claims=[_declared(claim) for claim in declared.claims],
        changes=[_declared(claim) for claim in declared.changes],
        published=[
            documents.DeclaredTable(p.source, p.table, p.metric, p.note) for p in declared.published
        ],
        studies=[_study(source) for source in declared.sources],
        budget_s=documents.PresetBudgets(*(declared.budget_s[preset] for preset in PRESETS)),
    )


def _declared(claim: Claim) -> dict[str, Any]:
    return {"kind": type(claim).__name__.lower()} | asdict(claim)


def _study(source: str) -> documents.DeclaredStudy:
    found = studies.load(source)
    return documents.DeclaredStudy(
        id=found.id,
        title=found.title,
        kind=found.kind,
        authors=found.authors,
        year=found.year,
        language=found.language,
        appeared=found.appeared,
        missing=found.missing,
    )

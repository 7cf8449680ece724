"""One run's part of a report: every text, table and figure, ready to be laid out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memlab import published as studies
from memlab.experiment import Outcome
from memlab.experiment.figures import Choice
from memlab.judging import reproduce
from memlab.judging.reproduce import Reproduced
from memlab.present import figures, tables, words
from memlab.present.answer import Part, Sentence
from memlab.present.figures import claims, layout
from memlab.present.report import inline_svg, provenance
from memlab.present.table import Table
from memlab.present.verdicts import ClaimVerdicts, verdicts
from memlab.results import Run
from memlab.text import units

_CONTRADICTED = 5  # named in the few lines at the top


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure: its caption, and itself as an <svg> element, which is already HTML."""

    anchor: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Section:
    """Everything that a report says of one run."""

    anchor: str
    name: str
    title: str
    run: str
    asked: str
    studies: Sequence[str]
    machine: str
    found: Sequence[str]
    claims: Sequence[ClaimVerdicts]
    figures: Sequence[Drawn]
    published: Sequence[Part]
    points: Sequence[Table]
    noise: Table
    ended: Sequence[str]
    environment: Sequence[tuple[str, str]]
    source: provenance.Provenance


def section(run: Run, prefix: str) -> Section:
    """One run's part; `prefix`, one a report, keeps its figures' ids apart from the others'."""
    result = reproduce.of_run(run)
    source = provenance.source(run)
    return Section(
        anchor=f"run-{prefix}-{run.id}",
        name=run.row.name or "",
        title=run.experiment.name,
        run=run.id,
        asked=run.experiment.question,
        studies=[
            f"{source}: {studies.load(source).reference}" for source in run.experiment.sources
        ],
        machine=layout.machine(run),
        found=list(_results(run, result)),
        claims=verdicts(run, result.judged),
        figures=list(_figures(run, result, prefix)),
        published=list(_published(run, result)),
        points=[tables.points(run, metric) for metric in tables.metrics_shown(run)],
        noise=tables.noise(run),
        ended=list(tables.ended(run)),
        environment=[(key, _plain(value)) for key, value in run.environment.items()],
        source=source,
    )


def _results(run: Run, study: Reproduced) -> Iterator[str]:
    """How many claims hold, those that are contradicted, what the figures show, how sure it is."""
    headline, *contradicted = words.headline([study])
    yield headline
    yield from contradicted[:_CONTRADICTED]
    if rest := contradicted[_CONTRADICTED:]:
        yield f"{len(rest)} more are contradicted: the table of verdicts has them first."
    for measured in figures.findings(run):
        yield f"Measured: {measured}."
    yield _how_sure(run)


def _published(run: Run, study: Reproduced) -> Iterator[Part]:
    if not study.tables:
        yield "No published table has a point of this run."
        return
    for item in study.tables:
        yield tables.published(run, item)
    yield Sentence(tables.PUBLISHED_LEGEND, "dim")


def _how_sure(run: Run) -> str:
    counts = [s.outcomes.total() for s in run.summaries] or [0]
    each = units.from_to(counts)
    failed = sum(n for s in run.summaries for word, n in s.outcomes.items() if word != "ok")
    ended = "all ended ok" if not failed else f"{failed} did not end ok"
    samples = units.counted(len(run.samples), "sample")
    points = units.counted(len(run.points), "point")
    return (
        f"How sure: {samples} of {points}, {each} per point, {ended}. 'reproduced' and "
        "'contradicted' have an error rate of at most 5 %."
    )


def _figures(run: Run, study: Reproduced, prefix: str) -> Iterator[Drawn]:
    """The claims, the experiment's own figure, the published tables, the outcomes."""
    results = []
    if study.judged:
        words_of = Counter(j.shown for j in study.judged)
        text = ", ".join(f"{count} {word}" for word, count in words_of.most_common())
        caption = f"Published against here, claim by claim: {text}"
        results.append((caption, claims.dumbbell(run, study.judged)))
    if run.samples:
        for name in figures.names(run):
            results.append((figures.caption(run, name), figures.draw(run, name)))
        if _differ(run):
            every = figures.chosen(run, Choice(samples=True))
            results.append((figures.caption(every), figures.draw(every)))
    for table in study.tables:
        if run.is_emulated_time(table.declared.metric):
            continue
        setting = tables.setting(run, table)
        caption = f"{table.source.id}: {table.table.title}, beside this run"
        caption += f" ({setting})" if setting else ""
        results.append((caption, claims.table_chart(run, table)))
    if _has_outcomes(run):
        caption = f"How the samples of each point ended: {tables.outcomes(run.summaries)}"
        results.append((caption, figures.draw(figures.outcomes(run))))
    for i, (caption, figure) in enumerate(results, 1):
        label = f"{caption}. Run {run.id}, {len(run.samples)} samples."
        yield Drawn(
            f"figure-{prefix}-{i}", label, inline_svg.inline(figure, label, f"{prefix}-{i}")
        )


def _differ(run: Run) -> bool:
    """Whether samples of a point differ: exact counts have no distribution to show."""
    name = run.experiment.figure.metric
    values = (run.valued(name, point).column(name) for point in run.points)
    return any(len(value) and value.min() < value.max() for value in values)


def _has_outcomes(run: Run) -> bool:
    """Whether how samples ended is a result here."""
    claimed = any(isinstance(claim, Outcome) for claim in run.experiment.claims)
    return bool(run.samples) and (claimed or {*run.samples.outcomes} > {"ok"})


def _plain(value: Any) -> str:
    """A value of the environment on one line; what could not be read is said to be unknown."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_plain(part)}" for key, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        return " | ".join(_plain(part) for part in value) or "none"
    return str(value) or "none"

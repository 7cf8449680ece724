"""One run's part of a report: every text, table and figure, ready to be laid out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memlab.experiment import Outcome
from memlab.judging import summary
from memlab.judging.claims import Judged, judge
from memlab.judging.summary import ClaimSummary
from memlab.present import beside as beside_words
from memlab.present import figures, words
from memlab.present.figures import claims, outcome_matrix, page
from memlab.present.report import grids, inline_svg, provenance
from memlab.results import Run
from memlab.results.beside import Beside, tables


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure: its caption, and itself as an <svg> element, which is already HTML."""

    anchor: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict: where it holds, the word, its evidence and the lines that it was read from,
    what the controls say, its samples."""

    where: str
    word: str
    evidence: str
    lines: Sequence[str]
    controls: Sequence[str]
    samples: str


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """One claim with its verdicts."""

    text: str
    published: str
    verdicts: Sequence[Verdict]


@dataclass(frozen=True, slots=True)
class Section:
    """Everything that a report says of one run."""

    anchor: str
    name: str
    title: str
    run: str
    asked: str
    machine: str
    found: Sequence[str]
    claims: Sequence[JudgedClaim]
    figures: Sequence[Drawn]
    published: Sequence[grids.Grid]
    remarks: Sequence[str]
    points: Sequence[grids.Grid]
    noise: grids.Grid
    noise_said: Sequence[str]
    environment: Sequence[tuple[str, str]]
    source: provenance.Source


def section(run: Run, prefix: str) -> Section:
    """One run's part; `prefix`, one a report, keeps its figures' ids apart from the others'."""
    judged = judge(run)
    published = list(tables(run))
    source = provenance.source(run)
    return Section(
        anchor=f"run-{prefix}-{run.id}",
        name=run.row.name or "",
        title=run.experiment.name,
        run=run.id,
        asked=run.experiment.question,
        machine=page.machine(run),
        found=list(_found(run, judged)),
        claims=[_claim(run, found) for found in summary.by_claim(judged)],
        figures=list(_figures(run, judged, published, prefix)),
        published=[grids.published(run, table) for table in published],
        remarks=list(beside_words.remarks(published)),
        points=[grids.points(run, metric) for metric in grids.metrics_shown(run)],
        noise=grids.noise(run),
        noise_said=list(grids.noise_said(run)),
        environment=[(key, _plain(value)) for key, value in run.environment.items()],
        source=source,
    )


def _found(run: Run, judged: Sequence[Judged]) -> Iterator[str]:
    """What holds, what does not, where the costs cross, and how sure that is."""
    found = summary.by_claim(judged)
    yield from summary.sentence(found)
    holding = [s.claim.text for s in found if s.overall == "holds"]
    if holding:
        yield f"What holds: {'; '.join(holding)}."
    for measured in figures.findings(run):
        yield f"Measured: {measured}."
    yield _how_sure(run)


def _how_sure(run: Run) -> str:
    counts = [s.outcomes.total() for s in run.summaries] or [0]
    each = " to ".join(str(n) for n in dict.fromkeys((min(counts), max(counts))))
    failed = sum(n for s in run.summaries for word, n in s.outcomes.items() if word != "ok")
    ended = "all ended ok" if not failed else f"{failed} did not end ok"
    return (
        f"How sure: {len(run.samples)} samples of {len(run.points)} points, {each} a point, "
        f"{ended}. Even where the truth lies right at the edge of a claim, a wrong 'reproduced' or "
        "'contradicted' comes up in at most 5 of 100 experiments."
    )


def _claim(run: Run, found: ClaimSummary) -> JudgedClaim:
    groups = summary.groups(found, run.experiment.figure.over)
    verdicts = [
        Verdict(
            where=words.where(run.experiment, group) or "the only setting",
            word=group.closest.verdict.word,
            evidence=group.closest.evidence,
            lines=group.closest.lines,
            controls=group.closest.control_says.splitlines(),
            samples=f"{len({s for j in group.members for s in j.samples})} samples of run {run.id}",
        )
        for group in groups
    ]
    return JudgedClaim(found.claim.text, found.claim.published, verdicts)


def _figures(
    run: Run, judged: Sequence[Judged], published: Sequence[Beside], prefix: str
) -> Iterator[Drawn]:
    """The claims, the experiment's own figure, the published tables, the outcomes."""
    made = []
    if judged:
        words_of = Counter(j.word for j in judged)
        said = ", ".join(f"{count} {word}" for word, count in words_of.most_common())
        caption = f"Published against here, claim by claim: {said}"
        made.append((caption, claims.dumbbell(run, judged)))
    if run.samples:
        for name in figures.names(run):
            made.append((figures.caption(run, name), figures.draw(run, name)))
    for table in published:
        setting = grids.setting(run, table)
        caption = f"{table.source.id}: {table.table.title}, beside this machine"
        caption += f" ({setting})" if setting else ""
        made.append((caption, claims.table_chart(run, table)))
    if _has_outcomes(run):
        rows, columns = outcome_matrix.factors(run)
        caption = f"How the samples of each point ended: {grids.outcomes(run.summaries)}"
        made.append((caption, claims.outcome_matrix(run, rows, columns)))
    for i, (caption, figure) in enumerate(made, 1):
        label = f"{caption}. Run {run.id}, {len(run.samples)} samples."
        yield Drawn(
            f"figure-{prefix}-{i}", label, inline_svg.inline(figure, label, f"{prefix}-{i}")
        )


def _has_outcomes(run: Run) -> bool:
    """Whether how samples ended is a result here."""
    claimed = any(isinstance(claim, Outcome) for claim in run.experiment.claims)
    return bool(run.samples) and (claimed or any(s.outcome != "ok" for s in run.samples))


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

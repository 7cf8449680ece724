"""One run's part of a report: every text, table and figure, ready to be laid out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memlab.analysis.intervals import Interval
from memlab.experiment import Metric, Outcome
from memlab.judging import summary
from memlab.judging.claims import Judged, judge
from memlab.judging.summary import ClaimSummary
from memlab.present import against, claims_figures, figures, inline_svg, marks, outcome_matrix
from memlab.present import beside as beside_words
from memlab.present import page, provenance, words
from memlab.results import PointSummary, Run
from memlab.results.beside import Beside, tables
from memlab.results.run import FLOOR_SHARE

_REVERSED: Mapping[str, str] = {"": "", ">": "<", "<": ">"}


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: what it is, its head, its rows (the first cell names the row), remarks below."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure: its caption, and itself as an <svg> element, which is already HTML."""

    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict: where it holds, the word, its evidence, what the controls say, its samples."""

    where: str
    word: str
    evidence: str
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
    found: Sequence[str]
    claims: Sequence[JudgedClaim]
    figures: Sequence[Drawn]
    published: Sequence[Grid]
    points: Sequence[Grid]
    noise: Grid
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
        found=list(_found(run, judged)),
        claims=[_claim(run, found) for found in summary.by_claim(judged)],
        figures=list(_figures(run, judged, published, prefix)),
        published=[_beside(run, table) for table in published],
        points=[_points(run, metric) for metric in _shown(run)],
        noise=_noise(run),
        noise_said=list(_noise_said(run)),
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
    crossing = page.finding(run, marks.panels(run))
    if crossing:
        yield f"Measured: {crossing}."
    yield _how_sure(run)


def _how_sure(run: Run) -> str:
    counts = [s.outcomes.total() for s in run.summaries] or [0]
    each = " to ".join(str(n) for n in dict.fromkeys((min(counts), max(counts))))
    failed = sum(n for s in run.summaries for word, n in s.outcomes.items() if word != "ok")
    ended = "all ended ok" if not failed else f"{failed} did not end ok"
    return (
        f"How sure: {len(run.samples)} samples of {len(run.points)} points, {each} a point, "
        f"{ended}. Where a claim is only just false, or only just true, a wrong word comes up "
        "in at most 5 of 100 experiments."
    )


def _claim(run: Run, found: ClaimSummary) -> JudgedClaim:
    groups = summary.groups(found, run.experiment.figure.over)
    verdicts = [
        Verdict(
            where=against.where(run.experiment, group) or "the only setting",
            word=group.closest.verdict.word,
            evidence=group.closest.evidence,
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
        made.append((caption, claims_figures.dumbbell(run, judged)))
    if run.samples:
        metric = run.metric(run.experiment.figure.metric)
        caption = f"{metric.help} by {run.experiment.figure.over}"
        made.append((caption, figures.draw(run)))
    for table in published:
        setting = _setting(run, table)
        caption = f"{table.source.id}: {table.table.title}, beside this machine"
        caption += f" ({setting})" if setting else ""
        made.append((caption, claims_figures.table_chart(run, table)))
    if _has_outcomes(run):
        rows, columns = outcome_matrix.factors(run)
        caption = f"How the samples of each point ended: {_outcomes(run.summaries)}"
        made.append((caption, claims_figures.outcome_matrix(run, rows, columns)))
    for i, (caption, figure) in enumerate(made, 1):
        label = f"{caption}. Run {run.id}, {len(run.samples)} samples."
        yield Drawn(label, inline_svg.inline(figure, label, f"{prefix}-{i}"))


def _has_outcomes(run: Run) -> bool:
    """Whether how samples ended is a result here."""
    claimed = any(isinstance(claim, Outcome) for claim in run.experiment.claims)
    return bool(run.samples) and (claimed or any(s.outcome != "ok" for s in run.samples))


def _outcomes(summaries: Sequence[PointSummary]) -> str:
    total = sum((s.outcomes for s in summaries), Counter[str]())
    return ", ".join(f"{count} {word}" for word, count in total.most_common())


def _setting(run: Run, beside: Beside) -> str:
    varied = [name for name in beside.setting if name in run.varied]
    return words.levels(run.experiment, beside.setting, varied)


def _beside(run: Run, beside: Beside) -> Grid:
    """A published table: printed, here, the ratio, the samples, for each column."""
    metric = run.metric(beside.declared.metric)
    head = [beside.table.rows_are]
    for column in beside.declared.columns:
        head += [f"{column}, published", f"{column}, here", "here / published", "n"]
    rows = []
    for row in beside.rows:
        cells = [run.experiment.describe_level(beside.table.rows_are, row.level)]
        for column, cell in row.printed.items():
            here = row.here[column]
            ratio = "-" if here.ratio is None else f"{_REVERSED[cell.bound]}{here.ratio:.3g}"
            median = words.median(here.median, metric.unit, extrapolated=here.extrapolated)
            cells += [cell.printed, median, ratio, str(here.median.n) if here.median else "-"]
        rows.append(cells)
    setting = _setting(run, beside)
    caption = f"{beside.source.id}: {beside.table.title} ({beside.table.place})"
    caption += f"; here: run {run.id}" + (f", {setting}" if setting else "")
    remarks = [*beside_words.beyond(run, beside), *beside_words.remarks([beside])]
    return Grid(caption, head, rows, remarks)


def _shown(run: Run) -> list[Metric]:
    """The metrics that the figure, the tables and the claims are about."""
    declared = run.experiment
    names = [declared.figure.metric, *(p.metric for p in declared.published)]
    return [run.metric(name) for name in dict.fromkeys([*names, *(c.metric for c in declared.claims)])]


def _points(run: Run, metric: Metric) -> Grid:
    head = ["point", "control", "median", "95 % interval", "n", "loop alone", "ended", "flags"]
    better = "lower is better" if metric.lower_is_better else "higher is better"
    caption = f"{metric.name}: {metric.help} ({metric.unit}); {better}; run {run.id}"
    return Grid(caption, head, [_point(run, metric, summary) for summary in run.summaries])


def _point(run: Run, metric: Metric, found: PointSummary) -> list[str]:
    control = next((c for c in run.experiment.controls if c.name == found.point.control), None)
    names = [
        f.name
        for f in run.experiment.factors
        if f.name in run.varied or (control and f.name in control.levels)
    ]
    median = found.medians.get(metric.name)
    flags = [f"{flag} {count}" for flag, count in found.noise.most_common()]
    return [
        words.levels(run.experiment, found.point.at, names) or "the only point",
        found.point.control or "",
        words.median(median, metric.unit, extrapolated=metric.name in found.extrapolated),
        _interval(median, metric.unit),
        str(median.n) if median else "0",
        _floor(found, metric),
        _outcomes([found]) or "not measured",
        ", ".join(flags),
    ]


def _interval(median: Interval | None, unit: str) -> str:
    if median is None or median.low is None or median.high is None:
        return "-"
    return f"{words.quantity(median.low, unit)} to {words.quantity(median.high, unit)}"


def _floor(found: PointSummary, metric: Metric) -> str:
    """The loop without the operation: its own time, and its share where that is large."""
    share = found.floor_share(metric.name)
    if share is None:
        return "-"
    mark = "*" if share > FLOOR_SHARE else ""
    return f"{words.quantity(found.floors[metric.name], metric.unit)} ({share:.0%}){mark}"


def _noise(run: Run) -> Grid:
    flags = sum((s.noise for s in run.summaries), Counter[str]())
    total = len(run.samples)
    rows = [[flag, str(n), f"{n / total:.1%}"] for flag, n in flags.most_common()]
    caption = f"What disturbed the {total} samples of run {run.id}; flagged, none dropped"
    return Grid(caption, ["flag", "samples", "share"], rows)


def _noise_said(run: Run) -> Iterator[str]:
    wall_s = sum(session.wall_s for session in run.sessions)
    share = "-" if run.window_share is None else f"{run.window_share:.0%}"
    ended = run.sessions[-1].ended if run.sessions else None
    yield (
        f"{len(run.samples)} samples in {words.quantity(wall_s, 's')}, {share} of it inside timed "
        f"windows; the sweep ended: {ended or 'killed'}."
    )
    for name, how in run.row.request.get("scaled", {}).items():
        yield f"Scaled to fit this host: {name} {how}."
    for found in run.summaries:
        if set(found.outcomes) - {"ok"}:
            at = words.levels(run.experiment, found.point.at, run.varied) or "the only point"
            details = f": {'; '.join(found.details)}" if found.details else ""
            yield f"{at}: {_outcomes([found])}{details}."


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

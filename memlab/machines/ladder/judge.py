"""Claims and counts under one kernel after another: what each shows, where it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from memlab.analysis.verdicts import ALPHA, Verdict, VerdictWord
from memlab.experiment import At, Count, Outcome, Within
from memlab.judging.claims import judge
from memlab.judging.summary import Said
from memlab.machines import least
from memlab.results import Run
from memlab.text.units import finite, version_order

_APART = 0.01  # of a count: less is not a step, where a count is not exact


@dataclass(frozen=True, slots=True)
class KernelCell:
    """What one kernel shows: a verdict's word, or nothing where the row is a metric; the number
    with its 95 % interval (of a count the range seen), None where there is none. p: the verdict's,
    None where it is undecided."""

    word: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None

    def differs(self, other: KernelCell) -> bool:
        """Another verdict, or a number beyond the other's interval."""
        if self.word != other.word:
            return True
        if self.value is None or other.value is None:
            return False
        if None not in (self.low, self.high, other.low, other.high):
            overlap = max(self.low or 0, other.low or 0) <= min(self.high or 0, other.high or 0)
            if overlap:
                return False
        return abs(self.value - other.value) > _APART * max(abs(self.value), abs(other.value))


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A claim at one setting, or a metric at one point, by kernel version. `unit` is the number's;
    `at` is what the settings or points of this row's name differ in."""

    experiment: str
    id: str
    text: str
    at: At
    unit: str
    cells: Mapping[str, KernelCell] = field(default_factory=dict)
    since: str = ""  # of a changelog's claim the version that it names

    @property
    def is_metric(self) -> bool:
        """Whether it is a metric's: its cells have numbers and no verdicts."""
        return all(not cell.word for cell in self.cells.values())

    @property
    def steps(self) -> list[tuple[str, str]]:
        """The kernels between which it changes: before, since."""
        return [(a, b) for a, b in pairwise(self.cells) if self.cells[b].differs(self.cells[a])]

    @property
    def as_claimed(self) -> VerdictWord | None:
        """Whether a changelog's claim became true at its version: contradicted under a kernel
        before, and reproduced since. None if the row is not such a claim."""
        if not self.since:
            return None
        order = version_order(self.since)
        old = {c.word for v, c in self.cells.items() if version_order(v) < order}
        new = {c.word for v, c in self.cells.items() if version_order(v) >= order}
        if "reproduced" in old or "contradicted" in new:
            return "contradicted"
        if "contradicted" in old and "reproduced" in new:
            return "reproduced"
        return "inconclusive" if old and new else "not testable here"


def verdicts(rows: Sequence[KernelRow]) -> list[Said]:
    """The verdicts of all rows and kernels, or hosts."""
    return [(row.id, cell.word, cell.p) for row in rows for cell in row.cells.values()]


def rows(
    runs: Sequence[tuple[str, Run]], ids: Sequence[str], metrics: Sequence[str], timed: bool
) -> list[KernelRow]:
    """A row per claim and setting, and per metric and point, of one experiment's runs with their
    kernels' versions, the oldest first."""
    results: dict[tuple[object, ...], tuple[KernelRow, dict[str, KernelCell]]] = {}
    for version, run in runs:
        for row, cell in (*_claims(run, ids, timed), *_metrics(run, metrics)):
            key = (row.id, row.text, *sorted((n, str(level)) for n, level in row.at.items()))
            kept = results.setdefault(key, (row, {}))
            kept[1][version] = cell
    return [replace(row, cells=cells) for row, cells in results.values()]


def _claims(run: Run, ids: Sequence[str], timed: bool) -> Iterator[tuple[KernelRow, KernelCell]]:
    for judged in judge(run, least.selected(run.experiment, ids, timed)):
        claim = judged.claim
        number = isinstance(claim, Count | Within)
        unit = run.metric(claim.metric).unit if number else "1"
        at = judged.setting
        if claim.since:  # which names what matters, and its ladder measures one point
            at = {name: level for name, level in at.items() if name in run.varied}
        row = KernelRow(run.experiment.name, claim.id, claim.text, at, unit, since=claim.since)
        yield row, _cell(judged.verdict, number and not isinstance(claim, Outcome))


def _cell(verdict: Verdict, number: bool) -> KernelCell:
    if not number:
        return KernelCell(verdict.word, p=verdict.p)
    ends = (verdict.estimate, verdict.low, verdict.high)
    value, low, high = (None if end is None else finite(end) for end in ends)
    return KernelCell(verdict.word, value, low, high, verdict.p)


def _metrics(run: Run, names: Sequence[str]) -> Iterator[tuple[KernelRow, KernelCell]]:
    for summary in run.summaries:
        at = {name: summary.point.at[name] for name in run.varied}
        for name in names:
            if name in summary.medians:
                metric, seen = run.metric(name), summary.medians[name]
                row = KernelRow(run.experiment.name, name, metric.help, at, metric.unit)
                yield row, KernelCell("", seen.estimate, seen.low, seen.high)


@dataclass(frozen=True, slots=True)
class Bisected:
    """The two neighbours between which a row changes; kernels between them that said nothing; what
    was measured, kernel by kernel, in order. `looks`: at how many runs, undecided ones among them.
    """

    before: str
    since: str
    skipped: Sequence[str]
    measured: Mapping[str, KernelCell]
    looks: int = 0

    @property
    def error_percent(self) -> int:
        """At most so often is one of the verdicts, and the answer with it, a wrong one: each look
        at a run has 5 %, and a kernel that stays undecided has two."""
        return min(100, round(100 * ALPHA * max(self.looks, len(self.measured))))


def bisect(
    versions: Sequence[str],
    good: KernelCell,
    bad: KernelCell,
    look: Callable[[str], KernelCell | None],
) -> Bisected:
    """Halve a row of kernels, whose ends are `good` and `bad`, down to the step between them.

    `look` measures one kernel; one that gives nothing, or what neither end or both show, is skipped
    and its neighbour taken. Exact where the row changes once.
    """
    low, high = 0, len(versions) - 1
    measured = {versions[low]: good, versions[high]: bad}
    skipped: set[int] = set()
    while remaining := [i for i in range(low + 1, high) if i not in skipped]:
        middle = min(remaining, key=lambda i: abs(2 * i - low - high))
        cell = look(versions[middle])
        alike = cell and (not cell.differs(good), not cell.differs(bad))
        if cell is None or alike in ((True, True), (False, False)):
            skipped.add(middle)
            continue
        measured[versions[middle]] = cell
        low, high = (middle, high) if alike == (True, False) else (low, middle)
    between = [versions[i] for i in sorted(skipped) if low < i < high]
    return Bisected(versions[low], versions[high], between, measured)

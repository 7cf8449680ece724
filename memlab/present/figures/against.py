"""Claims as numbers on a scale: what is claimed, what is printed, and what this machine shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memlab import published
from memlab.analysis.crossover import crossover
from memlab.experiment import (
    At,
    Claim,
    Count,
    Crossover,
    Equivalent,
    Monotone,
    Outcome,
    Ratio,
    Saturates,
    Within,
)
from memlab.judging import evidence, summary
from memlab.judging.claims import Judged
from memlab.judging.summary import SettingGroup
from memlab.present import words
from memlab.published import PrintedCell
from memlab.results import Run
from memlab.text import units

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number as a source prints it, or made of two that it prints."""

    value: float
    bound: str = ""  # ">" where it is only known to be more, "<" less


@dataclass(frozen=True, slots=True)
class _Column:
    """A printed column: its cells by the level of their row, and where each row lies."""

    rows_are: str
    cells: Mapping[Any, PrintedCell]
    places: Mapping[Any, At]


@dataclass(frozen=True, slots=True)
class JudgedRatio:
    """One claim at settings that agree on it: all numbers in one unit, positive.

    `claimed` is where the claim holds, 0 and inf where it is open. `low` and `high` are the
    ends of the 95 % interval, 0 and inf where they are open, None where there is no interval.
    """

    group: SettingGroup
    where: str
    word: str
    n: int
    claimed: Bounds | None
    low: float | None
    here: float | None
    high: float | None
    printed: PrintedNumber | None

    @property
    def anchor(self) -> float | None:
        """What the numbers are held against: the printed one, else a bound of the claim."""
        if self.printed is not None:
            return self.printed.value
        return next((end for end in self.claimed or () if 0 < end < math.inf), None)

    @property
    def drawn(self) -> bool:
        """Whether there is a number here and one to hold it against."""
        known = [v for v in (self.low, self.here, self.high) if v is not None and 0 < v < math.inf]
        return bool(known) and self.anchor is not None


def against(run: Run, judged: Sequence[Judged]) -> list[tuple[Claim, list[JudgedRatio]]]:
    """Every claim with its settings, those that agree and lie side by side as one."""
    over = run.experiment.figure.over
    return [
        (result.claim, [_against(run, group) for group in summary.groups(result, over)])
        for result in summary.by_claim(judged)
    ]


def scale(run: Run, claim: Claim) -> str:
    """What the numbers of a claim are: `write / mmap`, or the metric itself."""
    experiment = run.experiment
    if isinstance(claim, Ratio | Equivalent):
        return " / ".join(evidence.side(experiment, side) for side in (claim.of, claim.to))
    if isinstance(claim, Crossover):
        of, to = (evidence.side(experiment, side) for side in (claim.of, claim.to))
        return f"{claim.over} from which {of} is cheaper than {to}"
    if isinstance(claim, Saturates):
        at = experiment.describe_level(claim.over, claim.at)
        return f"cost at {at} / cost at the largest {claim.over}"
    if isinstance(claim, Monotone):
        return f"value at the last {claim.over} / value at the first"
    if isinstance(claim, Within | Count):
        return run.metric(claim.metric).help
    return ""


def quantity(run: Run, claim: Claim, value: float) -> str:
    """A value of a claim's scale in words: a ratio, a size, or the metric itself."""
    if isinstance(claim, Crossover):
        return evidence.size(run.experiment.factor(claim.over), value)
    if isinstance(claim, Within | Count):
        return units.format_quantity(value, run.metric(claim.metric).unit)
    return evidence.number(value)


def _against(run: Run, group: SettingGroup) -> JudgedRatio:
    judged = group.closest
    verdict, claim = judged.verdict, judged.claim
    scaled = not isinstance(claim, Outcome)
    low, here, high = (
        (_open(v) for v in (verdict.low, verdict.estimate, verdict.high))
        if scaled
        else (None, None, None)
    )
    return JudgedRatio(
        group=group,
        where=words.where(run.named, group),
        word=judged.shown,
        n=verdict.n,
        claimed=claimed(claim),
        low=low,
        here=here,
        high=high,
        printed=_printed(run, claim, {**judged.setting, **claim.where}),
    )


def _open(value: float | None) -> float | None:
    """A censored end of a crossover, -inf, is 0 on a scale of positive numbers."""
    return value if value is None else max(0.0, value)


def claimed(claim: Claim) -> Bounds | None:
    """Where a claim holds, on the scale of its verdict's numbers; None where it has no scale."""
    if isinstance(claim, Ratio | Within):
        return claim.above or 0.0, claim.below or math.inf
    if isinstance(claim, Equivalent | Saturates):
        return 1 / (1 + claim.within), 1 + claim.within
    if isinstance(claim, Crossover):
        return claim.low, claim.high
    if isinstance(claim, Monotone):
        return (1.0, math.inf) if claim.rising else (0.0, 1.0)
    if isinstance(claim, Count):
        return claim.equals * (1 - claim.within), claim.equals * (1 + claim.within)
    return None


def _printed(run: Run, claim: Claim, at: At) -> PrintedNumber | None:
    """The published number on a claim's scale; None where its source prints nothing to hold."""
    if isinstance(claim, Within):
        return _stated(claim)
    if isinstance(claim, Ratio | Equivalent):
        return quotient_of(*(_cell(run, claim, {**at, **side}) for side in (claim.of, claim.to)))
    if isinstance(claim, Crossover):
        return _crossing(run, claim, at)
    if isinstance(claim, Saturates):
        column = _column(run, claim, at)
        levels = (claim.at, max(column.cells)) if column else ()
        return quotient_of(*(_cell(run, claim, {**at, claim.over: v}) for v in levels))
    return None


def _stated(claim: Claim) -> PrintedNumber | None:
    """The one number that a claim rests on, where it is one: `867.88 µs`."""
    try:
        cell = PrintedCell.read(claim.published.replace(" ", ""))
    except ValueError:
        return None
    return PrintedNumber(cell.value, cell.bound)


def _column(run: Run, claim: Claim, at: At) -> _Column | None:
    """The printed column of the claim's metric whose levels hold at `at`."""
    for declared in run.experiment.published:
        table = published.load(declared.source).tables[declared.table]
        for name, levels in declared.columns.items():
            if declared.metric == claim.metric and all(at.get(n) == v for n, v in levels.items()):
                cells = {row[table.rows_are]: table.cell(row, name) for row in table.rows}
                places = {level: declared.row(table.rows_are, level) for level in cells}
                return _Column(table.rows_are, cells, places)
    return None


def _cell(run: Run, claim: Claim, at: At) -> PrintedCell | None:
    """The printed cell at these levels."""
    column = _column(run, claim, at)
    if column is None:
        return None
    here = (level for level, place in column.places.items() if place.items() <= at.items())
    return next((column.cells[level] for level in here), None)


def quotient_of(
    over: PrintedCell | None = None, under: PrintedCell | None = None
) -> PrintedNumber | None:
    """The ratio of two printed numbers, a bound where one of them is."""
    if over is None or under is None:
        return None
    bounds = {over.bound, under.ratio_bound} - {""}
    return None if len(bounds) > 1 else PrintedNumber(over.value / under.value, "".join(bounds))


def _crossing(run: Run, claim: Crossover, at: At) -> PrintedNumber | None:
    """Where the printed curves cross, interpolated as ours are."""
    first, second = (_column(run, claim, {**at, **side}) for side in (claim.of, claim.to))
    if first is None or second is None or first.rows_are != claim.over:
        return None
    levels = [level for level in first.cells if level in second.cells]
    if len(levels) < 2:
        return None
    a, b = (np.array([[side.cells[level].value for level in levels]]) for side in (first, second))
    result = crossover(levels, a, b).estimate
    return PrintedNumber(result) if math.isfinite(result) else None

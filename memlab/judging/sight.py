"""What a claim looks at: its points in a run, at one setting of the factors it leaves free."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memlab.analysis.intervals import FloatArray
from memlab.experiment import (
    At,
    Claim,
    Level,
    Metric,
    Saturates,
)
from memlab.experiment.expressions import Expression, fields_of
from memlab.experiment.needs import parts
from memlab.experiment.points import Point
from memlab.results import Run
from memlab.text import units

ABSENT = "not in this run"  # of points that the run was never to measure
FAILED = " ended as "  # of points whose trials did not end well
REFUSED = re.compile(r"its counter is refused \((\w+)\)")  # in the reason of a claim
# Of a cost: what is left of it where the baseline loop takes all, since logs need some.
_BASELINE_LOOP_LEFT = 0.01


class MissingData(Exception):
    """The run holds too little to judge a claim; one line says what is missing and how to get it.

    `testable` is false where this machine cannot give it.
    """

    def __init__(self, reason: str, *, testable: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.testable = reason, testable


@dataclass(frozen=True, slots=True)
class ClaimSide:
    """One point that a claim compares. `values` by block, nan where a block has none."""

    point: Point
    values: FloatArray
    baseline_loop: FloatArray | None  # the baseline loop, where the metric has a baseline loop

    @property
    def baseline_loop_share(self) -> float:
        """The share of the cost that the baseline loop takes, at most 1."""
        if self.baseline_loop is None:
            return 0.0
        return min(1.0, float(np.median(self.baseline_loop) / np.nanmedian(self.values)))


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of a claim along a factor, in rising order of its levels."""

    levels: Sequence[Level]
    sides: Sequence[ClaimSide]

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(side.point for side in self.sides)

    @property
    def table(self) -> FloatArray:
        """Values, shape (blocks, levels)."""
        return np.column_stack([side.values for side in self.sides])

    @property
    def net(self) -> FloatArray:
        """Values less the baseline loop: the least that the operation itself can cost."""
        baseline_loops = [
            0.0 if s.baseline_loop is None else float(np.median(s.baseline_loop))
            for s in self.sides
        ]
        return np.maximum(self.table - baseline_loops, self.table * _BASELINE_LOOP_LEFT)


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A run seen by one claim at one setting."""

    run: Run
    claim: Claim
    setting: At

    @property
    def metric(self) -> Metric:
        return self.run.metric(self.claim.metric)

    def point(self, levels: At) -> Point:
        """The point at the claim's `where` and these levels; MissingData where the run has none."""
        at = {**self.setting, **self.claim.where, **levels}
        point = next(self.run.matching(at), None)
        if point is None:
            raise self.lack({**self.claim.where, **levels})
        return point

    def side(self, levels: At) -> ClaimSide:
        """The values at a point; MissingData where it has none."""
        return self._side(self.point(levels))

    def pair(self, of: At, to: At) -> tuple[ClaimSide, ClaimSide]:
        """Two points with positive values and at least one block in common."""
        first, second = self.side(of), self.side(to)
        _check_comparable(np.column_stack([first.values, second.values]))
        return first, second

    def curve(self, levels: At, over: str) -> Curve:
        """The values along a factor; MissingData where the run has fewer than two of its levels."""
        named = {**self.claim.where, **levels}
        at = {**self.setting, **named}
        points = sorted(self.run.matching(at), key=lambda point: point.at[over])
        if len(points) < 2:
            raise self.lack(named, f"two or more levels of {over}")
        curve = Curve([point.at[over] for point in points], [self._side(p) for p in points])
        _check_comparable(curve.table)
        return curve

    def crossing_curves(self, of: At, to: At, over: str) -> tuple[Curve, Curve]:
        """Two curves over the levels that both have."""
        first, second = self.curve(of, over), self.curve(to, over)
        shared = [level for level in first.levels if level in second.levels]
        if len(shared) < 2:
            raise MissingData(f"the two sides share fewer than two levels of {over} in this run")
        first, second = (_only(curve, shared) for curve in (first, second))
        _check_comparable(np.concatenate([first.table, second.table], axis=1))
        return first, second

    def ratio_curve(self, of: At, to: At, over: str) -> Curve:
        """The ratio of two curves by block, over the levels of both, without baseline loops."""
        first, second = self.crossing_curves(of, to, over)
        sides = [
            ClaimSide(a.point, a.values / b.values, None)
            for a, b in zip(first.sides, second.sides, strict=True)
        ]
        return Curve(first.levels, sides)

    def lack(self, levels: At, more: str = "") -> MissingData:
        """The error that names points this run does not have, and the sweep that measures them."""
        needed = " with ".join(filter(None, [_levels(self, levels), more]))
        return MissingData(f"needs {needed}: {ABSENT}; to get it: {command(self)}")

    def level(self, name: str, level: Level) -> str:
        """A level in words."""
        return self.run.experiment.describe_level(name, level)

    def extrapolated(self, points: Sequence[Point]) -> bool:
        """Whether a value at these points is more than was measured."""
        samples = (self.run.by_point[point.index] for point in points)
        return any(self.run.extrapolated(self.metric, of_point) for of_point in samples)

    def lines(self, point: Point, expected: float | None = None) -> list[str]:
        """What a value of the metric at a point was read from: of the first sample whose value
        is not the expected one, else of the first. Empty where the metric keeps nothing."""
        evidence = self.metric.evidence
        samples = self.run.good(point)
        if evidence is None or not samples:
            return []
        values = samples.column(self.metric.name)
        unlike = ~np.isnan(values) if expected is None else values != expected
        first = samples[np.array([unlike.argmax()])]
        what = f"the evidence of {self.metric.name}"
        (text,) = first.read(lambda sample: str(evidence(sample.readings or {}, point.at)), what)
        return text.splitlines()

    def values(self, point: Point) -> FloatArray:
        """The metric at a point by what counts once, of samples that meet the claim's condition."""
        return self._where_provided(self.run.values, point)

    def by_block(self, point: Point) -> FloatArray:
        """The same by block: the median of a session would hide one."""
        return self._where_provided(self.run.by_block, point)

    def _where_provided(self, read: Callable[[str, Point], FloatArray], point: Point) -> FloatArray:
        values = read(self.metric.name, point)
        if not np.isfinite(values).any():
            raise _no_value(self, point)
        if (condition := self.claim.provided) is None:
            return values
        shown = read(condition.metric, point)
        values_there = np.where(shown >= condition.least, values, np.nan)
        if np.isfinite(values_there).any():
            return values_there
        metric = self.run.metric(condition.metric)
        known = shown[np.isfinite(shown)]
        largest = (
            units.format_quantity(float(known.max()), metric.unit) if known.size else "not known"
        )
        least = units.format_quantity(condition.least, metric.unit)
        raise MissingData(
            f"judged only where {condition.text}: {metric.label} {largest} at most, needs {least}"
        )

    def _side(self, point: Point) -> ClaimSide:
        values = self.values(point)
        baseline_loop = self.run.baseline_loop(self.metric, point)
        return ClaimSide(point, values, baseline_loop if baseline_loop.size else None)


def _only(curve: Curve, levels: Sequence[Level]) -> Curve:
    sides = [side for level, side in zip(curve.levels, curve.sides, strict=True) if level in levels]
    return Curve(list(levels), sides)


def _check_comparable(table: FloatArray) -> None:
    """Ratios need positive values, and blocks that hold both sides."""
    if (table <= 0).any():
        raise MissingData("a ratio needs values above 0, and some are 0")
    if not (np.isfinite(table[:, :-1]) & np.isfinite(table[:, -1:])).any(axis=0).all():
        raise MissingData("no block holds a sample of both sides")


def _no_value(sight: ClaimView, point: Point) -> MissingData:
    """Why a point has no value: unavailable here, not yet measured, or every trial failed."""
    samples = sight.run.by_point[point.index]
    where = _levels(sight, {name: point.at[name] for name in sight.run.varied} or point.at)
    if not samples:
        return MissingData(f"no sample yet of {where}; memlab sweep --resume {sight.run.id}")
    outcomes = {*samples.outcomes}
    detail = "".join(f": {text}" for text in samples.details[:1])
    if outcomes == {"unavailable"}:
        return MissingData(f"{where} is unavailable{detail}", testable=False)
    if outcomes == {"ok"}:
        why = sight.metric.lacks(sight.run.environment) or _uncounted(sight, point)
        reason = f"{where} has no {sight.metric.name} here" + (f": {why}" if why else "")
        return MissingData(reason, testable=False)
    return MissingData(f"{where}{FAILED}{', '.join(sorted(outcomes))}{detail}")


def _uncounted(sight: ClaimView, point: Point) -> str:
    """Which counter of its metric the kernel refused: `its counter is refused (EACCES)`."""
    reads = sight.metric.of
    sample = next(iter(sight.run.good(point)), None)
    if sample is None or not isinstance(reads, Expression):
        return ""
    for path in fields_of(reads):
        value: Any = sample.readings
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, Mapping) and value.get("error"):
            return f"its counter is refused ({value['error']})"
    return ""


def _levels(sight: ClaimView, at: At) -> str:
    describe = sight.run.experiment.describe_level
    return " ".join(f"{name}={describe(name, level)}" for name, level in at.items())


def command(sight: ClaimView) -> str:
    """The sweep that measures what the claim needs at this setting, and nothing more."""
    experiment, claim = sight.run.experiment, sight.claim
    wanted: dict[str, list[Level]] = {name: [level] for name, level in sight.setting.items()}
    for side in parts(claim):
        for name, level in side.items():
            wanted[name] = list(dict.fromkeys([*wanted.get(name, []), level]))
    if isinstance(claim, Saturates):
        quick = experiment.factor(claim.over).quick
        wanted[claim.over] = list(dict.fromkeys([*quick, claim.at]))
    defaults = {f.name: set(f.quick) for f in experiment.factors}
    options = [
        f"-p {name}="
        + ",".join(experiment.describe_level(name, v).replace(" ", "") for v in levels)
        for name, levels in wanted.items()
        if set(levels) != defaults[name]
    ]
    return " ".join([f"memlab sweep {experiment.name}", *options])

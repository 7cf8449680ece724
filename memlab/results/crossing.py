"""Where one line of a run's figure becomes cheaper than another, panel by panel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from memlab.analysis.crossover import CrossingPoint, crossover
from memlab.experiment import At, Lines
from memlab.results.run import Run


@dataclass(frozen=True, slots=True)
class Crossing:
    panel: At
    of: At
    to: At
    found: CrossingPoint
    cost: float  # of the first line at the crossing, in the metric's unit; nan outside the range

    @property
    def known(self) -> bool:
        """Whether there are samples enough for an interval. Without one no number is printed."""
        return self.found.low is not None and self.found.high is not None

    @property
    def decided(self) -> bool:
        """Whether its interval ends within the levels, or lies outside of them as a whole."""
        low, high = self.found.low, self.found.high
        if low is None or high is None:
            return False
        return low == high or (math.isfinite(low) and math.isfinite(high))


def crossings(run: Run) -> Sequence[Crossing]:
    """The crossings that the experiment's figure asks for; none where a line is missing, or of
    times in an emulated guest."""
    figure = run.experiment.figure
    if not isinstance(figure, Lines) or figure.crossing is None:
        return []
    if run.is_emulated_time(figure.metric):
        return []
    return [*_crossings(run, figure)]


def _crossings(run: Run, figure: Lines) -> Iterator[Crossing]:
    assert figure.crossing is not None
    of, to = figure.crossing
    panels = dict.fromkeys(
        tuple((name, point.at[name]) for name in figure.panels) for point in run.points
    )
    for panel in map(dict, panels):
        first, second = _line(run, {**panel, **of}), _line(run, {**panel, **to})
        shared = sorted(first.keys() & second.keys())
        if len(shared) < 2:
            continue
        a = np.column_stack([first[level] for level in shared])
        b = np.column_stack([second[level] for level in shared])
        if (a <= 0).any() or (b <= 0).any() or np.isnan(a / b).all(axis=0).any():
            continue  # a cost of 0 has no ratio to anything
        result = crossover(shared, a, b, **run.sampling(figure.metric))
        costs = np.log(np.nanmedian(a, axis=0))
        inside = np.isfinite(result.estimate)
        cost = (
            float(np.exp(np.interp(np.log(result.estimate), np.log(shared), costs)))
            if inside
            else float("nan")
        )
        yield Crossing(panel, of, to, result, cost)


def _line(run: Run, at: At) -> dict[float, np.ndarray]:
    """Values by block at each level of the figure's axis, for points with these levels."""
    figure = run.experiment.figure
    line: dict[float, np.ndarray] = {}
    for point in run.matching(at):
        values = run.values(figure.metric, point)
        if np.isfinite(values).any():
            line.setdefault(float(point.at[figure.over]), values)
    return line

"""Ratios in a figure: one point over another, paired by block, and the axis they stand on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from memlab.analysis.intervals import ratio_interval
from memlab.experiment import Metric
from memlab.judging import evidence
from memlab.present.figures import placing, style
from memlab.present.figures.series import Mark, samples_behind
from memlab.results import Run
from memlab.run.plan import Point

_LEAST = (0.8, 1.25)  # what the axis shows at the least: noise shall not look like an effect
_ROOM = 12.0  # points between two labels
_FINE_SPAN = 4.0  # the largest over the smallest ratio up to which ticks are decimals
_FINE = (0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)


def mark_of(run: Run, metric: Metric, x: float, of: Point, to: Point) -> Mark | None:
    """metric(of) / metric(to) over the blocks that hold both; None where there is no ratio."""
    over, under = run.values(metric.name, of), run.values(metric.name, to)
    both = np.isfinite(over) & np.isfinite(under)
    if not both.any() or min(over[both].min(), under[both].min()) <= 0:
        return None
    found = ratio_interval(over[both], under[both])
    behind = [
        sample
        for point in (of, to)
        for sample in samples_behind(run, point, metric.of)
        if both[sample.block]
    ]
    return Mark(
        x=x,
        y=found.estimate,
        low=found.low,
        high=found.high,
        n=found.n,
        at=of.at,
        to=to.at,
        extrapolated=metric.extrapolated is not None
        and any(
            metric.extrapolated(sample.raw or {}, point.at)
            for point in (of, to)
            for sample in samples_behind(run, point, metric.of)
        ),
        samples=tuple(sample.id for sample in behind if sample.id is not None),
        probe_hashes=tuple(dict.fromkeys(sample.probe_hash for sample in behind)),
    )


def limits(marks: Sequence[Mark]) -> tuple[float, float]:
    """The axis's ends; 1 is always inside."""
    ends = [end for m in marks for end in (m.low, m.y, m.high) if end is not None]
    return placing.limits([*ends, *_LEAST], log=True, margin=0.08)


def axis(axes: Axes, ends: tuple[float, float], length: float) -> None:
    """A log axis with lines at 1, 1/2, 2, 1/10, 10 and on; labels where they have room."""
    low, high = ends
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.minorticks_off()
    every = ticks(low, high)
    scale = placing.Axis(low, high, log=True, length=length)
    named: list[float] = []
    for tick in sorted(every, key=_rank):
        if all(abs(scale.place(tick) - scale.place(other)) >= _ROOM for other in named):
            named.append(tick)
    axes.set_yticks(every, [text(tick, low, high) if tick in named else "" for tick in every])
    axes.axhline(1.0, color=style.QUIET, linewidth=1.0, zorder=2)


def ticks(low: float, high: float) -> list[float]:
    if high / low <= _FINE_SPAN:
        return [tick for tick in _FINE if low <= tick <= high]
    last = math.ceil(max(abs(math.log10(low)), abs(math.log10(high))))
    stride = 1 if last <= 4 else 2
    decades = [10.0**k for k in range(-last * stride, last * stride + 1, stride)]
    return sorted(tick for tick in (*decades, 0.5, 2.0) if low <= tick <= high)


def _rank(tick: float) -> tuple[bool, bool, float]:
    """1 first, then the powers of ten, the near ones first."""
    power = math.log10(tick)
    return tick != 1, power != round(power), abs(power)


def text(tick: float, low: float, high: float) -> str:
    """`1/10` below 1 where the axis spans factors; decimals where it spans parts."""
    if tick < 1 and high / low > _FINE_SPAN:
        return f"1/{1 / tick:,.10g}"
    return f"{tick:,.10g}"


def said(mark: Mark) -> str:
    """`0.059 (0.057 to 0.061)`."""
    if mark.low is None or mark.high is None:
        return evidence.number(mark.y)
    return (
        f"{evidence.number(mark.y)} ({evidence.number(mark.low)} to {evidence.number(mark.high)})"
    )

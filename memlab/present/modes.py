"""Points whose samples have two modes, in words."""

from __future__ import annotations

from collections.abc import Iterator

from memlab.experiment.points import Point, point_label
from memlab.results import Run
from memlab.results.modes import of_point
from memlab.text import units

_MOST = 8  # lines


def lines(run: Run) -> Iterator[str]:
    """`two modes at size=1: 62 % at 1.2 ms and 38 % at 3.6 ms, these on CPU 3`, a line a point."""
    result = list(filter(None, (_line(run, point) for point in run.points)))
    yield from result[:_MOST]
    if result[_MOST:]:
        yield f"two modes at {units.counted(len(result) - _MOST, 'more point')}"


def _line(run: Run, point: Point) -> str:
    result = of_point(run, point)
    if result is None:
        return ""
    where = point_label(run.experiment, point.at, run.varied or list(point.at))
    modes, unit = result.modes, run.metrics[0].unit
    shares = units.format_percent(modes.low_share), units.format_percent(1 - modes.low_share)
    low, high = (units.format_quantity(value, unit) for value in (modes.low, modes.high))
    met = f", these {result.high_met}" if result.high_met else ""
    return f"two modes at {where}: {shares[0]} at {low} and {shares[1]} at {high}{met}"

"""Points whose samples have two modes, in words: a median between them is the time of no sample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from memlab import units
from memlab.analysis.noise import two_modes
from memlab.experiment.points import Point, point_label
from memlab.present import words
from memlab.results import Run
from memlab.results.samples import Samples

_MOST = 8  # lines
_NEARLY_ALL = 0.9


def lines(run: Run) -> Iterator[str]:
    """`two modes at size=1: 62 % at 1.2 ms and 38 % at 3.6 ms, these on CPU 3`, a line a point."""
    found = list(filter(None, (_line(run, point) for point in run.points)))
    yield from found[:_MOST]
    if found[_MOST:]:
        yield f"two modes at {words.count(len(found) - _MOST, 'more point')}"


def _line(run: Run, point: Point) -> str:
    metric = run.metrics[0]
    samples = run.by_point[point.index]
    values = samples.column(metric.name)
    modes = two_modes(values)
    if modes is None:
        return ""
    samples, high = samples[np.isfinite(values)], values[np.isfinite(values)] > modes.above
    where = point_label(run.experiment, point.at, run.varied or list(point.at))
    shares = units.format_percent(modes.low_share), units.format_percent(1 - modes.low_share)
    low, up = (units.format_quantity(value, metric.unit) for value in (modes.low, modes.high))
    what = next((f", these {name}" for name, seen in _seen(run, samples) if _parts(seen, high)), "")
    return f"two modes at {where}: {shares[0]} at {low} and {shares[1]} at {up}{what}"


def _seen(run: Run, samples: Samples) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """What a sample may have met, in words, and which did."""
    cpus = samples.taken("cpu")
    for cpu in np.unique(cpus[np.isfinite(cpus)]):
        yield f"on CPU {int(cpu)}", cpus == cpu
    blocks = samples.taken("block")
    for end in np.unique(blocks)[:-1]:
        yield f"up to block {int(end) + 1}", blocks <= end
        yield f"after block {int(end) + 1}", blocks > end
    for word, flagged in run.flagged(samples).items():
        yield f"flagged {word}", flagged


def _parts(seen: npt.NDArray[np.bool_], high: npt.NDArray[np.bool_]) -> bool:
    """Whether nearly all of the upper mode met it, and nearly none of the lower."""
    return bool(seen[high].mean() >= _NEARLY_ALL and seen[~high].mean() <= 1 - _NEARLY_ALL)

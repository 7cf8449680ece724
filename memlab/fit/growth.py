"""Whether a program's memory grew to the end of its run: then a longer run needs more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from memlab.experiment.points import Point
from memlab.results import Run

_SERIES = "anonymous_bytes"  # in RAM and swap: mapped files can be read again
_PARTS = 8  # of a run's time
_START_PARTS = 2  # in which a program loads and allocates what it works with
_EVEN = 0.5  # of the mean rise, at least, from each part to the next
_MOST = 0.75  # of the runs: the end of one may take long, or another program may stop it
_LEAST_S = 0.5  # a shorter run may be nothing but a start
_GROWN_SHARE, _GROWN_BYTES = 0.1, 1 << 20  # of the peak and in all, at least


def growth(run: Run, point: Point) -> float | None:
    """Bytes per second by which anonymous memory rose from part to part of a run; None if over a
    quarter of the runs did otherwise, or are too short to tell."""
    read = run.good(point).read(lambda sample: _steady(sample.readings or {}), _SERIES)
    rates = [*read]
    rising = [rate for rate in rates if rate is not None]
    return float(np.median(rising)) if rising and len(rising) >= _MOST * len(rates) else None


def _steady(readings: Mapping[str, Any]) -> float | None:
    """By the largest size in each part, so that memory which swings grows if its peaks do."""
    if (series := readings.get(_SERIES)) is None:  # of an earlier version
        return None
    times, values = (np.asarray(series[name], dtype=float) for name in ("at_ns", "values"))
    if times.size < 2 * _PARTS or times[-1] - times[0] < _LEAST_S * 1e9:
        return None
    ends = np.linspace(times[0], times[-1], _PARTS + 1)
    part = np.clip(np.searchsorted(ends, times, side="right") - 1, 0, _PARTS - 1)
    if np.unique(part).size < _PARTS:
        return None
    peaks = np.array([values[part == number].max() for number in range(_START_PARTS, _PARTS)])
    rises = np.diff(peaks)
    grown = float(peaks[-1] - peaks[0])
    if grown < max(_GROWN_SHARE * peaks.max(), _GROWN_BYTES) or rises.min() < _EVEN * rises.mean():
        return None
    return float(grown / (ends[1] - ends[0]) / rises.size * 1e9)

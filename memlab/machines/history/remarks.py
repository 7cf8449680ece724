"""What a reader of a series has to know beside its changes, a line each."""

from __future__ import annotations

from calendar import day_abbr
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import numpy as np

from memlab.analysis.alarm import YEAR
from memlab.analysis.history import WatchedSeries
from memlab.analysis.trends import drift, weekdays
from memlab.text import units

_DAY = timedelta(days=1)
_MONTH = 365.25 / 12  # days
_ALIKE = 0.2  # the correlation from which it is said
_NIGHTLY = (0.8, 1.25)  # days between runs that are called nightly
_MISSING = 1.5  # times the usual step between two runs, from which one is missing


def percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def lines(dates: Sequence[datetime], watched: WatchedSeries) -> list[str]:
    """Of the runs on these dates: how far apart they are, and what moves them but no step."""
    recent = slice(-YEAR, None)
    logs = np.array(watched.logs)
    levels = watched.levels()
    days = np.array([(date - dates[0]) / _DAY for date in dates])
    results = [*_dates(dates), *_correlation(watched.correlation), *_habit(watched)]
    slope = drift(days[recent], logs[recent], levels[recent], watched.correlation)
    if slope:
        low, estimate, high = (
            percent(float(np.exp(end * _MONTH))) for end in (slope.low, slope.estimate, slope.high)
        )
        so = "the changes may be parts of it" if watched.changes else "too slow to be a change"
        results.append(f"a drift of {estimate} a month ({low} to {high}) fits as well: {so}")
    if week := weekdays(dates[recent], (logs - levels)[recent]):
        lowest, highest = (
            f"{day_abbr[day]} {percent(float(np.exp(apart)))}"
            for day, apart in (week.lowest, week.highest)
        )
        results.append(f"the day of the week matters: lowest on {lowest}, highest on {highest}")
    return results


def _dates(dates: Sequence[datetime]) -> Iterator[str]:
    steps = np.diff([date.timestamp() for date in dates]) / _DAY.total_seconds()
    usual = float(np.median(steps)) if len(steps) else 1.0
    if usual <= 0:
        return
    nightly = _NIGHTLY[0] <= usual <= _NIGHTLY[1]
    if not nightly:
        yield f"a run each {_time(usual)}: {YEAR} runs take {_time(YEAR * usual)}"
    long = steps[steps > _MISSING * usual]
    missing = int(np.round(long / usual - 1).sum())
    if missing:
        what = units.counted(missing, "night" if nightly else "run")
        yield f"{what} missing between these, at most {_time(float(long.max()))} without a run"


def _time(days: float) -> str:
    if days >= 1:
        return units.counted(round(days), "day")
    hours = days * 24
    return f"{hours:.2g} h" if hours >= 1 else f"{hours * 60:.2g} min"


def _correlation(correlation: float) -> Iterator[str]:
    if correlation >= _ALIKE:
        yield (
            f"a run resembles the run before it (correlation {correlation:.2f}): the limits are "
            "wider by that, and small changes are seen later"
        )


def _habit(watched: WatchedSeries) -> Iterator[str]:
    if watched.habit is not None:
        yield (
            "the series has gone to one level and back twice: such visits count as its noise "
            "now, and are not reported any more"
        )

"""Axes: their limits, where they have ticks, and what the ticks and axes are called."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    MultipleLocator,
    NullLocator,
)

from memlab.experiment import Experiment, Metric
from memlab.present import words
from memlab.present.figures import placing, style

_PER_TICK = 26.0  # points of a y axis that a tick needs
_FINE_SPAN = 4.0  # the largest over the smallest ratio up to which ticks are decimals
_FINE = (0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
_LEAST = (0.8, 1.25)  # what an axis of ratios shows at the least: noise shall not look like much


def quantities(axis: Axis, unit: str, values: Sequence[float], length: float, *, log: bool) -> None:
    """An axis that holds the values, with ticks in words: `20 us`, `4 KiB`. A linear one starts
    at 0. A length of x is counted as if a tick were 60 points wide."""
    binary = unit.partition("/")[0] == "B"
    most = max(3, int(length / (60.0 if isinstance(axis, XAxis) else _PER_TICK)))
    if log:
        low, high = placing.limits([v for v in values if v > 0] or [1.0], log=True, margin=0.07)
    else:
        low, high = 0.0, max(values, default=0.0) * 1.08 or 1.0
    _scale(axis, low, high, "log" if log else "linear")
    locator: Locator = MaxNLocator(most, steps=[1, 2, 5, 10])
    if log:
        locator = _powers(low, high, 2 if binary else 10, most)
    elif binary:
        locator = MultipleLocator(2.0 ** math.ceil(math.log2(high / most)))
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    say = words.quantity if unit == "B/s" else words.tick
    axis.set_major_formatter(FuncFormatter(lambda value, _: say(value, unit)))


def _scale(axis: Axis, low: float, high: float, scale: str) -> None:
    name = "x" if isinstance(axis, XAxis) else "y"
    axis.axes.set(**{f"{name}scale": scale, f"{name}lim": (low, high)})


def _powers(low: float, high: float, base: int, most: int) -> Locator:
    """Powers of the base, with 2 and 5 between those of ten where they are few."""
    span = math.log(high / low, base)
    subs = (1.0, 2.0, 5.0) if base == 10 and 3 * span <= most else (1.0,)
    if base == 10 and span < 0.5:
        return MaxNLocator(most, steps=[1, 2, 5, 10])
    return LogLocator(base, subs=subs, numticks=most + 2)


def ratios(axis: Axis, values: Sequence[float], length: float) -> None:
    """A log axis around 1, with ticks at 1, 2, 5, 10 and their inverses, or at decimals."""
    low, high = placing.limits([*values, *_LEAST], log=True, margin=0.08)
    _scale(axis, low, high, "log")
    wide = 32.0 if isinstance(axis, XAxis) else 13.0  # points of a tick's name
    fine = high / low <= _FINE_SPAN
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = _FINE if fine else [part * 10.0**power for power in powers for part in (1, 2, 5)]
    ticks = sorted((tick for tick in steps if low <= tick <= high), key=_rank)
    places = [math.log(tick / low) / math.log(high / low) * length for tick in ticks]
    shown_ticks = placing.fitting(places, [wide] * len(ticks), 0.0, range(len(ticks)))
    axis.set_major_locator(FixedLocator(sorted(ticks[i] for i in shown_ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda tick, _: ratio(tick, fine=fine)))
    if not isinstance(axis, XAxis):
        axis.axes.axhline(1.0, color=style.QUIET, linewidth=1.0, zorder=2)


def _rank(tick: float) -> tuple[bool, bool, float]:
    """1 first, then the powers of ten, the near ones first."""
    power = math.log10(tick)
    return tick != 1, abs(power - round(power)) > 1e-9, abs(power)


def ratio(tick: float, *, fine: bool) -> str:
    """`1/10` below 1 where the axis spans factors; decimals where it spans parts."""
    return f"1/{1 / tick:,.10g}" if tick < 0.999 and not fine else f"{tick:,.10g}"


def y_label(axes: Axes, text: str, length: float) -> None:
    """What an axis shows, in as many lines as its height asks for."""
    lines = style.wrap(text, style.SMALL, max(length, 90.0))
    axes.set_ylabel("\n".join(lines), fontsize=style.SMALL, parse_math=False)


def x_label(axes: Axes, text: str) -> None:
    axes.set_xlabel(text, fontsize=style.SMALL, parse_math=False)


def metric(shown: Metric, *, log: bool = False) -> str:
    """`threads started (threads/s)`, `latency (log)`: seconds and bytes stand at the ticks."""
    unit = "" if shown.unit.partition("/")[0] in ("s", "B", "1", "count") else shown.unit
    return _with(shown.label, unit, log=log)


def factor(experiment: Experiment, name: str, *, log: bool = False) -> str:
    return _with(experiment.factor(name).label, "", log=log)


def _with(text: str, unit: str, *, log: bool) -> str:
    message = ", ".join(part for part in (unit, "log" if log else "") if part)
    return f"{text} ({message})" if message else text

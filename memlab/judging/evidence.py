"""Evidence in words: what was compared, the estimate, its 95 % interval, the samples."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import inf

from memlab.analysis.correlation import SamplingScheme
from memlab.analysis.crossover import CrossingPoint
from memlab.analysis.exact import least_of
from memlab.analysis.intervals import Interval
from memlab.experiment import At, Experiment, Factor, Level
from memlab.text import units

LOOP = "the baseline loop is"  # how remarks begin on a number that is only a bound


def number(value: float) -> str:
    """Three significant digits with thousands apart: `1,090`, `0.0712`."""
    return f"{float(f'{value:.3g}'):,.10g}"


def interval(result: Interval) -> str:
    """`1,090 (1,050 to 1,120)`."""
    if result.low is None or result.high is None:
        return f"{number(result.estimate)} (n={result.n})"
    return f"{number(result.estimate)} ({number(result.low)} to {number(result.high)})"


def in_a_sentence(result: Interval, unit: str) -> str:
    """`61.5 us ±1.2 %`, with its ends if half of the interval would mislead, and without where
    both ends are written alike. A time of something is a time: the sentence names what it is of."""
    base, _, per = unit.partition("/")
    name = partial(units.format_quantity, unit=base if base == "s" and per != "s" else unit)
    if result.low is None or result.high is None or name(result.low) == name(result.high):
        return name(result.estimate)
    ends = f"({units.span(result.low, result.high, name)})"
    half = units.format_percent(result.halfwidth_relative or 0.0)
    spread = ends if result.is_lopsided else f"±{half}"
    return f"{name(result.estimate)} {spread}"


def times(ratio: Interval) -> str:
    """How many times as large the larger of two is: `4.36 (3.59 to 4.83)`."""
    low, high = ratio.low, ratio.high
    if low is None or high is None or number(low) == number(high):
        return number(max(ratio.estimate, 1 / ratio.estimate))
    if ratio.estimate >= 1:
        return interval(ratio)
    most = f"{number(1 / low)})" if low else ""
    least = f"({number(1 / high)} to " if low else f"(at least {number(1 / high)})"
    return f"{number(1 / ratio.estimate)} {least}{most}"


def measured(result: Interval, unit: str) -> str:
    """`61.5 us (61.2 us to 61.8 us)`."""
    estimate = units.format_quantity(result.estimate, unit)
    if result.low is None or result.high is None:
        return f"{estimate} (n={result.n})"
    low, high = (units.format_quantity(end, unit) for end in (result.low, result.high))
    return f"{estimate} ({low} to {high})"


def resembling(result: Interval | CrossingPoint, sampling: SamplingScheme, unit: str) -> str:
    """Why samples that are enough for an interval otherwise have none; else empty."""
    if result.low is not None or result.n < least_of(result.level, 0.0, sampling["sequential"]):
        return ""
    least = least_of(result.level, **sampling)
    return f"; each {unit} resembles the one before, and an interval needs {least} {unit}s"


def side(experiment: Experiment, levels: At) -> str:
    """`read, none`: one side of a comparison by its levels, bare where they are words."""
    return ", ".join(_level(experiment, name, level) for name, level in levels.items())


def place(experiment: Experiment, where: At, varied: Iterable[str]) -> str:
    """`mmap, 1 B`: the held levels that the run varies; empty where there are none."""
    return ", ".join(_what(experiment, n, where[n]) for n in varied if n in where)


def _what(experiment: Experiment, name: str, level: Level) -> str:
    """A number that is a level needs its label, or its factor's name, to say what it is."""
    text = experiment.describe_level(name, level)
    if not text.replace(",", "").isdecimal():
        return text
    return experiment.factor(name).level_labels.get(level) or f"{name.replace('_', ' ')} {text}"


def _level(experiment: Experiment, name: str, level: Level) -> str:
    label = experiment.factor(name).level_labels.get(level)
    words = label or experiment.describe_level(name, level)
    return words if isinstance(level, str) else f"{name} {words}"


def size(factor: Factor, value: float) -> str:
    """A value between the levels of a factor: `1.37 KiB`."""
    return units.format_quantity(value, factor.kind.unit)


def crossing(point: CrossingPoint, factor: Factor) -> str:
    """Where a curve becomes the cheaper one: `from 1.37 KiB (1.35 KiB to 1.43 KiB)`."""
    text = f"from {size(factor, point.estimate)}"
    if point.estimate == -inf:
        text = f"at every {factor.name} measured"
    elif point.estimate == inf:
        text = f"at no {factor.name} up to {size(factor, point.largest)}"
    if point.low is None or point.high is None:
        return f"{text} (n={point.n})"
    if point.low == point.high == point.estimate:
        return text
    return f"{text} ({_end(point, factor, point.low)} to {_end(point, factor, point.high)})"


def _end(point: CrossingPoint, factor: Factor, end: float) -> str:
    if end == -inf:
        return f"below {size(factor, point.smallest)}"
    return f"above {size(factor, point.largest)}" if end == inf else size(factor, end)


def bounds(above: str, below: str) -> str:
    """`claimed above 10`, from bounds in words; empty is not a bound."""
    return "claimed " + " and ".join(
        f"{word} {bound}" for word, bound in (("above", above), ("below", below)) if bound
    )

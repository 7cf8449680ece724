"""Numbers in words: medians with their intervals, levels, panels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memlab import units
from memlab.analysis.crossover import Crossover
from memlab.analysis.intervals import Interval
from memlab.experiment import At, Experiment
from memlab.judging.summary import Group
from memlab.observe.environment import EMULATED
from memlab.results.crossing import Crossing


def machine_remark(environment: Mapping[str, Any]) -> str:
    """What has to stand beside every time of such a machine; empty where nothing has to."""
    return f"emulated: {EMULATED}" if environment.get("emulated_time") else ""


def quantity(value: float, unit: str) -> str:
    return units.format_quantity(value, unit)


def tick(value: float, unit: str) -> str:
    """A value beside an axis whose label says the unit: `20k` of threads/s, `4 KiB` of B/thread."""
    base, _, per = unit.partition("/")
    if base in ("s", "B"):
        return units.format_quantity(value, base)
    if per == "s":
        return units.format_quantity(value, "1/s").removesuffix("/s")
    return units.format_quantity(value, "1")


def median(interval: Interval | None, unit: str, *, extrapolated: bool = False) -> str:
    """`~2.48 s ±1.2%`: ± is half the 95 % interval, ~ is more than was measured."""
    if interval is None:
        return "-"
    width = interval.halfwidth_relative
    spread = f"n={interval.n}" if width is None else f"±{100 * width:.2g}%"
    return f"{'~' if extrapolated else ''}{quantity(interval.estimate, unit)} {spread}"


def cell_unit(unit: str) -> str:
    """The unit of a table's cells: a noun (`threads/s`) stands once above, not in every cell;
    seconds and bytes change scale from cell to cell and stay."""
    if unit.partition("/")[0] in ("s", "B"):
        return unit
    return "1/s" if unit.endswith("/s") else "1"


def levels(experiment: Experiment, at: At, names: Iterable[str]) -> str:
    """`write, tmpfs, 4 KiB`: levels alone where they speak for themselves."""
    return ", ".join(
        level if isinstance(level := at[name], str) else f"{name} {_level(experiment, name, at)}"
        for name in names
    )


def named_levels(experiment: Experiment, at: At) -> str:
    """Every level with its factor's name: `size 4 KiB, method write`."""
    return ", ".join(f"{name} {_level(experiment, name, at)}" for name in at)


def _level(experiment: Experiment, name: str, at: At) -> str:
    return experiment.describe_level(name, at[name])


def crossing(experiment: Experiment, crossed: Crossing) -> str:
    """`write cheaper from 2.3 KiB (2.1 to 2.6 KiB)`, or which one is cheaper throughout."""
    of, to = sides(experiment, crossed)
    found, name = crossed.found, level_words(experiment)
    if found.estimate == -math.inf:
        return f"{of} cheaper at every {experiment.figure.over}"
    if found.estimate == math.inf and not found.crossings:
        return f"{to} cheaper at every {experiment.figure.over}"
    if found.estimate == math.inf:
        return f"{of} not cheaper at {name(found.largest)}"
    last = f", the last of {found.crossings} crossings" if found.crossings > 1 else ""
    return f"{of} cheaper from {name(found.estimate)} ({_span(found, name)}){last}"


def _span(found: Crossover, name: Callable[[float], str]) -> str:
    if found.low is None or found.high is None:
        return f"n={found.n}, no interval"
    low = f"below {name(found.smallest)}" if math.isinf(found.low) else name(found.low)
    high = f"above {name(found.largest)}" if math.isinf(found.high) else name(found.high)
    number, _, unit = low.partition(" ")
    if math.isfinite(found.low) and high.endswith(f" {unit}"):
        low = number
    return f"{low} to {high}"


def sides(experiment: Experiment, crossed: Crossing) -> tuple[str, str]:
    """The two lines of a crossing by what tells them apart."""
    of, to = crossed.of, crossed.to
    apart = [name for name in of if name in to and of[name] != to[name]]
    return levels(experiment, of, apart), levels(experiment, to, apart)


def level_words(experiment: Experiment) -> Callable[[float], str]:
    """How a value between the levels of the figure's axis is written: `2.3 KiB`."""
    suffix = experiment.factor(experiment.figure.over).kind.suffix
    unit = {"_bytes": "B", "_ns": "s"}.get(suffix, "1")
    return lambda level: units.format_quantity(level, unit)


def where(experiment: Experiment, group: Group) -> str:
    """A group's setting in words: `dir, size 1 B to 4 KiB, 3 levels; the closest, 4 KiB`."""
    at = levels(experiment, group.at, group.at)
    if group.span is None:
        return at
    over = experiment.figure.over
    first, last = (experiment.describe_level(over, level) for level in group.span)
    closest = experiment.describe_level(over, group.closest.setting[over])
    if experiment.factor(over).kind.levels is not None:  # words have no order to span
        each = (experiment.describe_level(over, j.setting[over]) for j in group.members)
        span = f"{over} {', '.join(each)}; the closest, {closest}"
        return f"{at}, {span}" if at else span
    span = f"{over} {first} to {last}, {len(group.members)} levels; the closest, {closest}"
    return f"{at}, {span}" if at else span

"""Numbers in words: medians with their intervals, levels, panels."""

from __future__ import annotations

from collections.abc import Iterable

from memlab import units
from memlab.analysis.intervals import Interval
from memlab.experiment import At, Experiment
from memlab.results.crossing import Crossing


def quantity(value: float, unit: str) -> str:
    return units.format_quantity(value, unit)


def median(interval: Interval | None, unit: str, *, extrapolated: bool = False) -> str:
    """`~2.48 s ±1.2 %`: ± is half the 95 % interval, ~ is more than was measured."""
    if interval is None:
        return "-"
    width = interval.halfwidth_relative
    spread = f"n={interval.n}" if width is None else f"±{100 * width:.2g} %"
    return f"{'~' if extrapolated else ''}{quantity(interval.estimate, unit)} {spread}"


def levels(experiment: Experiment, at: At, names: Iterable[str]) -> str:
    """`write, tmpfs, 4 KiB`: levels alone where they speak for themselves."""
    return ", ".join(
        level if isinstance(level := at[name], str) else f"{name} {_level(experiment, name, at)}"
        for name in names
    )


def _level(experiment: Experiment, name: str, at: At) -> str:
    return experiment.describe_level(name, at[name])


def crossing(experiment: Experiment, crossed: Crossing) -> str:
    """Where one line becomes the cheaper one, in a sentence."""
    over = experiment.figure.over
    of, to = (
        levels(experiment, at, ["method"] if "method" in at else at)
        for at in (crossed.of, crossed.to)
    )
    found = crossed.found
    if found.estimate == float("-inf"):
        return f"{of} is cheaper than {to} at every {over} measured"
    if found.estimate == float("inf"):
        return f"{of} is not cheaper than {to} at the largest {over} measured"
    size = quantity(found.estimate, "B")
    limits = f"95 %: {_limit(found.low)} to {_limit(found.high)}"
    if found.low is None:
        limits = f"no interval from {found.n} blocks"
    return f"{of} becomes cheaper than {to} from {size} a call ({limits})"


def _limit(size: float | None) -> str:
    if size is None:
        return "unknown"
    if size in (float("-inf"), float("inf")):
        return "outside the sizes measured"
    return quantity(size, "B")

"""The points of a plan, and of a stored run: one level for every factor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memlab.experiment.kinds import At, Level
from memlab.experiment.vocabulary import Experiment


@dataclass(frozen=True, slots=True)
class Point:
    """One cell of the plan: a level for every factor. `control` names the control that added it;
    None for a point of the grid."""

    index: int
    at: At
    control: str | None = None


def point_key(at: At) -> str:
    """A point's identity as text."""
    return json.dumps(dict(at), sort_keys=True)


LONG = 24  # characters of a level, above which it is called by its label


def point_label(experiment: Experiment, at: At, names: Iterable[str]) -> str:
    """A point in words: `size=4 KiB method=mmap`."""
    return " ".join(level_label(experiment, name, at[name]) for name in names)


def level_label(experiment: Experiment, name: str, level: Level) -> str:
    """`size=4 KiB`; the label of a level that is empty or long."""
    label = short_label(experiment, name, level)
    return label or f"{name}={experiment.describe_level(name, level)}"


def short_label(experiment: Experiment, name: str, level: Level) -> str:
    """The label of a level that is empty or long; nothing for one that can stand as it is."""
    text = experiment.describe_level(name, level)
    return "" if 0 < len(text) <= LONG else experiment.factor(name).level_labels.get(level, "")


def has(at: At, levels: At) -> bool:
    """Does `at` have these levels? A factor that it does not name is not compared."""
    return all(at[name] == level for name, level in levels.items() if name in at)


def combinations(places: Iterable[At], names: Sequence[str]) -> list[At]:
    """The combinations of these factors' levels that there are, in the order given."""
    result = (tuple((name, at[name]) for name in names) for at in places)
    return [dict(pairs) for pairs in dict.fromkeys(result)]


def varied_factors(points: Sequence[Point]) -> list[str]:
    """The factors that take more than one level among these points, in declared order."""
    if not points:
        return []
    return [name for name in points[0].at if len({p.at[name] for p in points}) > 1]

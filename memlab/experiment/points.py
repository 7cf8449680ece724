"""The points of a plan, and of a stored run: one level for every factor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memlab.experiment.kinds import At
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


def point_label(experiment: Experiment, at: At, names: Iterable[str]) -> str:
    """A point in words: `size=4 KiB method=mmap`."""
    return " ".join(f"{name}={experiment.describe_level(name, at[name])}" for name in names)


def varied_factors(points: Sequence[Point]) -> list[str]:
    """The factors that take more than one level among these points, in declared order."""
    if not points:
        return []
    return [name for name in points[0].at if len({p.at[name] for p in points}) > 1]

"""What is measured and in which order: points x blocks, shuffled by a stored seed.

Every block holds every point once, in an order of its own, so that drift of the machine
meets all points alike (randomised multiple interleaved trials).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memlab.errors import BadLevels
from memlab.experiment import At, Experiment, Level
from memlab.experiment.points import Point, point_key


@dataclass(frozen=True, slots=True)
class Plan:
    points: Sequence[Point]
    excluded: Mapping[str, int]  # reason -> number of points that it took


def build(
    experiment: Experiment,
    preset: str,
    levels: Mapping[str, Sequence[Level]],
    *,
    controls: bool = True,
) -> Plan:
    """The points of a sweep: the grid, then the controls' points that are not in it."""
    of_factor = {f.name: levels.get(f.name) or f.levels(preset) for f in experiment.factors}
    excluded: dict[str, int] = {}
    points: dict[str, Point] = {}

    def add(chosen: Mapping[str, Sequence[Level]], control: str | None) -> None:
        for at, why in experiment.combinations(chosen):
            if why is not None and control is None:
                excluded[why] = excluded.get(why, 0) + 1
            if why is None:
                points.setdefault(point_key(at), Point(len(points), at, control))

    add(of_factor, None)
    if not points:
        raise BadLevels(f"no point is left: {'; '.join(excluded)}")
    for control in experiment.controls if controls else ():
        if preset in control.presets:
            add(of_factor | dict(control.levels), control.name)
    return Plan(tuple(points.values()), excluded)


def order(
    points: Sequence[Point], seed: int, block: int, reuse_key: Callable[[At], str] = lambda _: ""
) -> list[Point]:
    """The points in the order of one block; the same for the same seed and block, always.

    Points that share what is `kept` follow each other: these groups are in random order, and so
    are the points of each.
    """
    shuffled = sorted(points, key=lambda point: point.index)
    random.Random(f"{seed}/{block}").shuffle(shuffled)
    groups = list(dict.fromkeys(reuse_key(point.at) for point in shuffled))
    return sorted(shuffled, key=lambda point: groups.index(reuse_key(point.at)))


def block_seed(seed: int, block: int) -> int:
    """That of the order of turns within a block, of 63 bits."""
    return random.Random(f"{seed}/{block}/turns").getrandbits(63)

"""What is measured and in which order: points x blocks, shuffled by a stored seed.

Every block holds every point once, in an order of its own, so that drift of the machine
meets all points alike (randomised multiple interleaved trials).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from memlab.experiment import At, Experiment, Factor, Level


class BadLevels(ValueError):
    """The levels asked for are no levels, or leave no point; one line says which are."""


@dataclass(frozen=True, slots=True)
class Point:
    """One cell of the plan: a level for every factor; `control` names why it is beside the grid."""

    index: int
    at: At
    control: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    points: Sequence[Point]
    excluded: Mapping[str, int]  # reason -> number of points that it took


def read_levels(experiment: Experiment, assignments: Iterable[str]) -> dict[str, list[Level]]:
    """`size=1,4k` and the like, as levels. BadLevels names the factor and the good levels."""
    from memlab import units

    levels: dict[str, list[Level]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        factor = _factor(experiment, name.strip())
        if not equals or not text.strip():
            raise BadLevels(f"-p {assignment!r}: write -p {factor.name}={_example(factor)}")
        if factor.name in levels:
            raise BadLevels(f"-p {factor.name} is given twice; write its levels in one list")
        try:
            parsed = units.expand(text, factor.kind.parse)
        except ValueError as error:
            raise BadLevels(f"{factor.name}: {error}") from None
        levels[factor.name] = _bounded(factor, parsed)
    return levels


def check_levels(experiment: Experiment, given: Mapping[str, object]) -> dict[str, list[Level]]:
    """Levels given as Python values: one value, text, or a sequence of either."""
    levels: dict[str, list[Level]] = {}
    for name, value in given.items():
        factor = _factor(experiment, name)
        values: list[Any] = [value]
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            values = list(value)
        if not values:
            raise BadLevels(f"{factor.name}: no level given; for example {_example(factor)}")
        try:
            levels[factor.name] = _bounded(factor, [factor.kind.check(v) for v in values])
        except (ValueError, TypeError, OverflowError) as error:
            raise BadLevels(f"{factor.name}: {error}") from None
    return levels


def _bounded(factor: Factor, levels: Iterable[Level]) -> list[Level]:
    """Each once; BadLevels where one is out of the factor's bounds."""
    for level in levels:
        if not factor.within(level):
            said = factor.kind.format(level)
            raise BadLevels(f"{factor.name}: {said} is out of bounds, {factor.bounds}")
    return list(dict.fromkeys(levels))


def build(
    experiment: Experiment,
    preset: str,
    levels: Mapping[str, Sequence[Level]],
    *,
    controls: bool = True,
) -> Plan:
    """The points of a sweep: the grid, then the controls' points that are not in it."""
    own = {f.name: levels.get(f.name) or f.levels(preset) for f in experiment.factors}
    excluded: dict[str, int] = {}
    points: dict[str, Point] = {}

    def add(chosen: Mapping[str, Sequence[Level]], control: str | None) -> None:
        for combination in product(*chosen.values()):
            at = dict(zip(chosen, combination, strict=True))
            why = next((e.why for e in experiment.excludes if e.when(at)), None)
            if why is not None and control is None:
                excluded[why] = excluded.get(why, 0) + 1
            if why is None:
                points.setdefault(key(at), Point(len(points), at, control))

    add(own, None)
    if not points:
        raise BadLevels(f"no point is left: {'; '.join(excluded)}")
    for control in experiment.controls if controls else ():
        if preset in control.presets:
            add(own | dict(control.levels), control.name)
    return Plan(tuple(points.values()), excluded)


def order(points: Sequence[Point], seed: int, block: int) -> list[Point]:
    """The points in the order of one block; the same for the same seed and block, always."""
    shuffled = sorted(points, key=lambda point: point.index)
    random.Random(f"{seed}/{block}").shuffle(shuffled)
    return shuffled


def key(at: At) -> str:
    """A point's identity as text."""
    return json.dumps(dict(at), sort_keys=True)


def label(experiment: Experiment, at: At, names: Iterable[str]) -> str:
    """A point in words: `size=4 KiB method=mmap`."""
    return " ".join(f"{name}={experiment.describe_level(name, at[name])}" for name in names)


def varied(points: Sequence[Point]) -> list[str]:
    """The factors that take more than one level among these points, in declared order."""
    if not points:
        return []
    return [name for name in points[0].at if len({p.at[name] for p in points}) > 1]


def _factor(experiment: Experiment, name: str) -> Factor:
    from difflib import get_close_matches

    known = [f.name for f in experiment.factors]
    if name in known:
        return experiment.factor(name)
    near = get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}? " if near else ""
    raise BadLevels(f"{experiment.name} has no factor {name!r}; {hint}factors: {', '.join(known)}")


def _example(factor: Factor) -> str:
    return ",".join(factor.kind.format(level).replace(" ", "") for level in factor.quick[:3])

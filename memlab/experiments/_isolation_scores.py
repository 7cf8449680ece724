"""Scores of groups that did the same mix of loads: a group's, and what a trial's come to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from memlab.experiment import At, Raw

LOADS = ("arithmetic", "copy", "pipe", "switch", "spawn", "calls", "memory")  # enum mix_load
HOG_GROUP = 0  # the probe's: where a hog is

Statistic = Callable[[Sequence[float]], float | None]


def scores(raw: Raw, at: At) -> list[float]:
    """Of every group: the geometric mean of its loads' operations a second.

    UnixBench divides each load by a reference machine's first; in a geometric mean those cancel
    out of every comparison. A group that was killed has 0.
    """
    groups = raw["groups"][: raw["group_count"]]
    return [0.0 if group["killed"] else score(group["done_count"], at) for group in groups]


def score(done: Sequence[int], at: At) -> float:
    return math.prod(rates(done, at)) ** (1 / len(LOADS))


def rates(done: Sequence[int], at: At) -> list[float]:
    return [count / float(at["slice"]) for count in done]


def has_hog(at: At) -> bool:
    return at["neighbour"] != "quiet"


def behaving(at: At, values: Sequence[float]) -> Sequence[float]:
    """Those of the groups without the hog's."""
    return values[HOG_GROUP + 1 :] if has_hog(at) else values


def over_groups(statistic: Statistic) -> Callable[[Raw, At], float | None]:
    return lambda raw, at: statistic(behaving(at, scores(raw, at)))


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def variation(values: Sequence[float]) -> float | None:
    """The coefficient of variation: standard deviation over mean."""
    middle = mean(values)
    deviation = math.sqrt(mean([(value - middle) ** 2 for value in values]))
    return deviation / middle if middle else None


def fairness(values: Sequence[float]) -> float | None:
    """Jain's index: 1 where all have the same, 1/n where one has all."""
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else None


def lowest(values: Sequence[float]) -> float | None:
    middle = mean(values)
    return min(values) / middle if middle else None


def killed(raw: Raw, at: At) -> float:
    """Groups without the hog's whose process was killed."""
    return float(sum(behaving(at, [g["killed"] for g in raw["groups"][: raw["group_count"]]])))


def rate_of(load: int) -> Callable[[Raw, At], float | None]:
    """Of one load, by a group."""
    return lambda raw, at: mean(
        behaving(
            at, [rates(g["done_count"], at)[load] for g in raw["groups"][: raw["group_count"]]]
        )
    )

"""How well a property tells groups apart: mutual information, less what chance would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_SHUFFLES = 2000
_SEED = 7


@dataclass(frozen=True, slots=True)
class Separation:
    """explained: the share of the groups' entropy that the property tells, 1 where it tells all;
    beyond_chance: the same less what a shuffled property would tell; p: the share of shuffles that
    tell as much."""

    explained: float
    beyond_chance: float
    p: float


def separation(groups: Sequence[str], values: Sequence[str]) -> Separation:
    """How much `values` say of `groups`, both of shape (hosts,), two groups or more.

    Mutual information adjusted for chance, as Vinh, Epps and Bailey have it (Journal of Machine
    Learning Research 11 (2010) 2837-2854), its expectation by 2,000 shuffles: a property with a
    value of its own for each host tells every group apart, and says nothing.
    """
    group = np.unique(np.asarray(groups), return_inverse=True)[1]
    value = np.unique(np.asarray(values), return_inverse=True)[1]
    entropy = _entropy(group)
    share = _information(group, value[None, :])[0] / entropy
    rng = np.random.default_rng(_SEED)
    shuffled = rng.permuted(np.tile(value, (_SHUFFLES, 1)), axis=1)
    chance = _information(group, shuffled) / entropy
    expected = float(chance.mean())
    beyond = 0.0 if expected >= 1 else (share - expected) / (1 - expected)
    p = (1 + int((chance >= share - 1e-9).sum())) / (1 + _SHUFFLES)
    return Separation(float(share), float(beyond), p)


def _entropy(labels: npt.NDArray[np.int64]) -> float:
    share = np.bincount(labels) / len(labels)
    share = share[share > 0]
    return float(-(share * np.log(share)).sum())


def _information(
    group: npt.NDArray[np.int64], values: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Mutual information of the groups with each row of values, shape (rows,)."""
    total = np.zeros(len(values))
    n = len(group)
    for g in range(group.max() + 1):
        for v in range(values.max() + 1):
            both = ((group == g) & (values == v)).sum(axis=1) / n
            alone = (group == g).sum() / n * (values == v).sum(axis=1) / n
            positive = both > 0
            total[positive] += both[positive] * np.log(both[positive] / alone[positive])
    return total

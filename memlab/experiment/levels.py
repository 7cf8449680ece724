"""Levels as the user gives them, text or Python values, checked against kind and bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memlab.errors import BadLevels, nearest
from memlab.experiment.factor import Factor
from memlab.experiment.kinds import Level
from memlab.experiment.vocabulary import Experiment
from memlab.text import units


def read_levels(experiment: Experiment, assignments: Iterable[str]) -> dict[str, list[Level]]:
    """`size=1,4k` and the like, as levels. BadLevels names the factor and the good levels."""
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


def check_levels(experiment: Experiment, wanted: Mapping[str, object]) -> dict[str, list[Level]]:
    """Levels given as Python values: one value, text, or a sequence of either."""
    levels: dict[str, list[Level]] = {}
    for name, value in wanted.items():
        values: list[Any] = [value]
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            values = list(value)
        factor = _factor(experiment, name)
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
            text = factor.kind.format(level)
            raise BadLevels(f"{factor.name}: {text} is out of bounds, {factor.bounds}")
    return list(dict.fromkeys(levels))


def _factor(experiment: Experiment, name: str) -> Factor:
    known = [f.name for f in experiment.factors]
    if name in known:
        return experiment.factor(name)
    hint = nearest(name, known, "")
    raise BadLevels(
        f"{experiment.name} has no factor {name!r}; {hint}{' ' if hint else ''}factors: "
        f"{', '.join(known)}"
    )


def _example(factor: Factor) -> str:
    return ",".join(factor.kind.format(level).replace(" ", "") for level in factor.quick[:3])

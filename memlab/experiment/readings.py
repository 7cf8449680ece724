"""How a metric is read from a sample, declared by the names of the probe's fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memlab.experiment.kinds import At
from memlab.experiment.metric import Raw

Reading = Callable[[Raw, At], float | None]


def read(*fields: str, per: str | Sequence[str] = (), when: At | None = None) -> Reading:
    """The sum of these fields of a sample, over the field `per` or the sum of several.

    A field is its path, as `window.elapsed_ns`, or as `at.size` for the point's level of a factor.
    What ends in `_ns` is read in seconds; of a counter (`count` beside `error`), the count. None
    where a counter has none, where `per` is 0, and at points with other levels than `when`.
    """
    above, below = _sum(fields), _sum([per] if isinstance(per, str) else per)

    def value(raw: Raw, at: At) -> float | None:
        if when and any(at[name] != level for name, level in when.items()):
            return None
        if not per:
            return above(raw, at)
        divisor, dividend = below(raw, at), above(raw, at)
        return dividend / divisor if divisor and dividend is not None else None

    return value


def _sum(fields: Sequence[str]) -> Reading:
    numbers = [_number(path) for path in fields]

    def total(raw: Raw, at: At) -> float | None:
        found = [part for number in numbers if (part := number(raw, at)) is not None]
        return sum(found) if len(found) == len(numbers) else None

    return total


def _number(path: str) -> Reading:
    first, *rest = path.split(".")
    unit = 1e-9 if path.endswith("_ns") else 1.0

    def number(raw: Raw, at: At) -> float | None:
        found: Any = at if first == "at" else raw[first]
        for name in rest:
            found = found[name]
        if isinstance(found, Mapping):
            found = found["count"]
        return None if found is None else found * unit

    return number


SYSTEM_SHARE = read("window.system_ns", per=("window.user_ns", "window.system_ns"))

"""An account: a table that adds up, whose remainder is a line of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One part of an account, or, with `part_of`, a part of another line."""

    name: str
    value: float
    low: float | None = None
    """With `high`, the 95 % interval of a sample, or bounds; None of what is counted."""
    high: float | None = None
    note: str = ""
    part_of: str | None = None
    limit: float | None = None
    """In the account of limits: what `value` may be at most."""
    unit: str | None = None
    """Where it is not the account's."""


@dataclass(frozen=True, slots=True)
class Account:
    """Lines that add up to `total`, but for `rest`."""

    name: str
    """stock, flow, limits or time."""
    title: str
    unit: str
    total: float | None
    """None if the lines are not parts of a sum: limits."""
    lines: tuple[Line, ...]
    rest: float
    """What no line explains; negative where lines count something twice."""
    whole: bool
    """Whether all of it was looked at."""

    @property
    def small_rest(self) -> bool:
        """Whether the remainder is under a tenth, or too little to matter."""
        return self.total is None or abs(self.rest) <= max(self.total / 10, _NOTHING[self.unit])


_NOTHING = {"B": 4 << 20, "1/s": 1000.0, "count": 2.0}


@dataclass(frozen=True, slots=True)
class Part:
    """A named part of a line: a slab cache, a caller of vmalloc, a kind of shared memory."""

    name: str
    bytes: int


def made(
    name: str, title: str, unit: str, total: float, lines: Sequence[Line], *, whole: bool
) -> Account:
    """An account whose rest is what the lines leave of the total. Lines of 0 are left out."""
    shown = tuple(line for line in lines if line.value)
    rest = total - sum(line.value for line in shown if line.part_of is None)
    return Account(name, title, unit, total, shown, rest, whole)

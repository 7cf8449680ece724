"""What a sweep reports while it runs: the contract between the driver and what shows progress."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from memlab.experiment.points import Point
from memlab.text.printable import printable

if TYPE_CHECKING:  # SQLite, which the lock of the machine has no use for
    from memlab.store import RunRow


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a sweep is, after each trial. `readings` are what metrics read of it."""

    block: int
    position: int
    in_block: int
    point: Point
    outcome: str
    readings: Mapping[str, Any] | None
    done_points: int
    points: int
    elapsed_s: float
    left_s: float | None


class Watch(Protocol):
    """What is called as a sweep goes. `warned` gets a line that the user has to know."""

    def warned(self, line: str) -> None: ...
    def started(self, run: RunRow, points: Sequence[Point], taken: int) -> None: ...
    def sampled(self, progress: Progress) -> None: ...
    def ended(self, reason: str) -> None: ...


class Silent:
    """A watch that prints nothing but warnings."""

    def warned(self, line: str) -> None:
        sys.stderr.write(f"memlab: {printable(line)}\n")

    def started(self, run: RunRow, points: Sequence[Point], taken: int) -> None:
        pass

    def sampled(self, progress: Progress) -> None:
        pass

    def ended(self, reason: str) -> None:
        pass

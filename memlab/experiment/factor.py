"""What is varied: its levels by preset, and the bounds of a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from memlab.experiment.kinds import Kind, Level


@dataclass(frozen=True, slots=True)
class Factor:
    """Something that is varied. A preset without levels of its own takes the one before it."""

    name: str
    kind: Kind
    help: str
    quick: Sequence[Level]
    paper: Sequence[Level] | None = None
    full: Sequence[Level] | None = None
    host: bool = False  # set around the trial (environ, settings, containment); no probe param
    least: float = 0  # of a number, in the kind's unit
    most: float = math.inf

    def levels(self, preset: str) -> Sequence[Level]:
        for own in {"quick": (), "paper": (self.paper,), "full": (self.full, self.paper)}[preset]:
            if own is not None:
                return own
        return self.quick

    def within(self, level: Level) -> bool:
        """Whether a number lies within the bounds; any other level does."""
        if isinstance(level, bool | str):
            return True
        return self.least <= level <= self.most

    @property
    def bounds(self) -> str:
        """`1 to 64`, `1 or more`; empty where there is none but 0."""
        if self.most < math.inf:
            return f"{self.kind.format(self.least)} to {self.kind.format(self.most)}"
        return f"{self.kind.format(self.least)} or more" if self.least else ""

    @property
    def field(self) -> str:
        """The name of the probe's field for this factor."""
        return self.name + self.kind.suffix

"""What is varied: its levels by preset, and the bounds of a number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from memlab.experiment.kinds import ENUM, Kind, Level, choice, enum_levels


@dataclass(frozen=True, slots=True)
class Factor:
    """Something that is varied. A preset without levels of its own takes the one before it.

    `help` begins with what an axis says of it; what else there is to say follows a semicolon.
    `level_labels` names levels there, where their identifiers say too little.
    `plain` is the level that a claim is about which does not name the factor. Without it such a
    claim is about every level of a run, each judged on its own.
    """

    name: str
    kind: Kind
    help: str
    quick: Sequence[Level] = ()  # an ENUM without any takes all of its levels
    paper: Sequence[Level] | None = None
    full: Sequence[Level] | None = None
    host: bool = False  # set around the trial (environ, settings, containment); no probe param
    least: float = 0  # of a number, in the kind's unit
    most: float = math.inf
    plain: Level | None = None
    level_labels: Mapping[Level, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """On an axis."""
        return self.help.partition(";")[0]

    def of(self, probe: str) -> Factor:
        """This factor for a probe: an ENUM gets the levels that the probe's C declares."""
        if self.kind is not ENUM:
            return self
        levels = enum_levels(probe, self.name)
        return replace(self, kind=choice(*levels), quick=self.quick or levels)

    def levels(self, preset: str) -> Sequence[Level]:
        for preset_levels in {"quick": (), "paper": (self.paper,), "full": (self.full, self.paper)}[
            preset
        ]:
            if preset_levels is not None:
                return preset_levels
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
    def param(self) -> str:
        """The name of the probe's field for this factor."""
        return self.name + self.kind.suffix

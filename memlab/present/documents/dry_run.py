"""`memlab sweep --dry-run` and `clean`: what a sweep would need, and what killed ones had left."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from memlab.present.documents import Document, Levels, NonEmpty, Number, Positive


class PlannedPoint(Document):
    """A point that would be measured."""

    levels: Levels
    control: str | None
    """The control that it belongs to; null in the grid."""


class PlannedGuest(Document):
    """A virtual machine that is not booted. How much of its memory is free is not known."""

    kernel: str
    """Path of its image."""
    kernel_release: str
    memory_bytes: Positive
    cpus: Positive
    append: str
    """Added to its kernel's command line."""
    iommu: bool
    """Whether it has an emulated IOMMU."""
    accelerator: Literal["kvm", "tcg"]
    """tcg: emulated."""
    directory: str
    """Where on the host its disk lies."""
    disk_bytes: Number
    """The size of its disk."""


class ShownChangeByBlocks(Document):
    """How many blocks show a change with probability 0.9."""

    change: float = field(name="detectable")
    """Relative: 0.03 is 3 %."""
    blocks: Positive | None
    """null: over 1,000."""
    seconds: float | None
    """About the time of those blocks."""


class ShownByBlocks(Document):
    """What blocks show with probability 0.9, for pairs of points that differ in one factor."""

    run: str
    """The run whose noise it is made of."""
    metric: str
    pairs: Positive
    blocks: Number
    """Those of --blocks, or as many as the budget has time for."""
    shows: float | None = field(name="detectable")
    """The smallest relative change, of all pairs together; null if so few blocks have no
    interval."""
    noisiest_pair: str
    noisiest_shows: float | None = field(name="noisiest_detectable")
    """The same of that pair."""
    changes: NonEmpty[ShownChangeByBlocks]


class DryRun(Document):
    """What a sweep would measure and need."""

    experiment: str
    points: NonEmpty[PlannedPoint]
    blocks: Positive
    """How often every point is measured at least; with --blocks exactly."""
    memory_bytes: Number
    """Free memory that it needs."""
    disk_bytes: dict[str, Number]
    """Room for files that it needs, by folder; memory where that is a tmpfs."""
    seconds: Annotated[float, Meta(ge=0)]
    """An estimate for those blocks; for an emulated guest in which none of these was measured yet,
    what this host would take."""
    promise: ShownByBlocks | None
    """What it can show, by the noise of the newest run here with these points; null without one."""
    budget_s: float | None
    """Wall time after which it ends; null if only --blocks ends it."""
    turns: bool
    """Whether the points of a block take turns of 2 ms; else each trial has a window of its own."""
    excluded: dict[str, Positive]
    """Why points are left out, and how many."""
    scaled: dict[str, str]
    """What was made smaller to fit the host or the guest, by factor."""
    unavailable: dict[str, Positive]
    """What this host lacks for points, and for how many; they end as unavailable. Empty for a
    guest, which is asked when it has booted."""
    guest: PlannedGuest | None
    """null: this host."""


class UndoneRun(Document):
    """What one killed run had left."""

    run: str
    """Its id; ? of a killed command that left temporary folders."""
    changes: list[str]
    """Each change: what was made or set, and where."""


class Clean(Document):
    """What killed runs had left on the host, undone."""

    undone: list[UndoneRun]
    failed: list[str]
    """What could not be undone, and why."""
    left_alone: list[str]
    """Journals of runs on other machines, in other containers or of other users."""

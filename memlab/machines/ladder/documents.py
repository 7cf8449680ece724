"""What `memlab kernels ladder --json` prints, as types."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import field

from memlab.machines.guest.documents import FoundKernel
from memlab.present.documents import Document, Levels, NonEmpty, Word

if TYPE_CHECKING:
    from memlab.machines.ladder.judge import KernelCell, KernelRow
    from memlab.machines.ladder.measure import KernelResult


class KernelRuns(Document):
    """One kernel of a ladder."""

    kernel: FoundKernel
    runs: dict[str, str]
    """The id of its run, by experiment."""
    failed: list[str]
    """A line for each thing that could not be measured under it."""
    seconds: float
    """Of wall time, now; a run that the store had takes none."""

    @classmethod
    def made_of(cls, found: KernelResult) -> Self:
        kernel = FoundKernel.made_of(found.kernel)
        runs = {name: run.id for name, run in found.runs.items()}
        return cls.from_attributes(found, kernel=kernel, runs=runs)


class LadderCell(Document):
    """What one kernel shows."""

    word: Word | None = field(name="verdict")
    """null: the row is a metric."""
    value: float | None
    """The count or the median; null where the claim has none."""
    low: float | None
    """Of its 95 % interval, of a count the range seen."""
    high: float | None
    """The same."""

    @classmethod
    def made_of(cls, found: KernelCell) -> Self:
        return cls.from_attributes(found, word=found.word or None)


class Step(Document):
    """Two neighbouring kernels between which a row changes."""

    before: str
    since: str


class LadderRow(Document):
    """A claim at one setting, or a metric at one point, under each kernel."""

    experiment: str
    id: str
    """Of the claim, or the metric's name."""
    text: str
    at: Levels = field(name="levels")
    unit: str
    """Of the values: the base unit."""
    cells: dict[str, LadderCell]
    """By kernel version, the oldest first."""
    steps: list[Step]
    since: str | None
    """Of a changelog's claim the version that it names; it is to be contradicted before."""
    as_claimed: Word | None = field(name="verdict")
    """The verdict on that step, by the kernels at hand; null without `since`."""

    @classmethod
    def made_of(cls, row: KernelRow) -> Self:
        return cls.from_attributes(
            row,
            cells={version: LadderCell.made_of(cell) for version, cell in row.cells.items()},
            steps=[Step(*versions) for versions in row.steps],
            since=row.since or None,
        )


class Ladder(Document):
    """Claims on counts and outcomes under one kernel after another."""

    kernels: NonEmpty[KernelRuns]
    rows: NonEmpty[LadderRow]
    figures: list[str]
    """Paths of the files drawn."""
    seconds: float
    """Of wall time, now, for all of it."""

    @classmethod
    def made_of(
        cls,
        results: Sequence[KernelResult],
        rows: Sequence[KernelRow],
        figure: Path,
        seconds: float,
    ) -> Self:
        return cls(
            [KernelRuns.made_of(result) for result in results],
            [LadderRow.made_of(row) for row in rows],
            [str(figure)],
            seconds,
        )

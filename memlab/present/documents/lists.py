"""`memlab list` and `runs`: the experiments, the stored runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import field

from memlab.present.documents import DateTime, Document, Ended, Number, RunId

if TYPE_CHECKING:
    from memlab.store import Listed


class ListedExperiment(Document):
    """An experiment and its question."""

    name: str
    question: str
    sources: list[str] = field(name="studies")
    """The studies that it re-runs, by id."""


class ListedRun(Document):
    """A run of the store."""

    run: RunId
    experiment: str
    name: str | None
    note: str | None
    """What `memlab runs --note` wrote beside it."""
    created_at: DateTime
    samples: Number
    ended: Ended
    """How its last session ended; null: not yet, or killed."""
    machine: str
    """The processor and the kernel."""
    origin: str | None = field(name="host")
    """The host that measured it; null: this one."""

    @classmethod
    def made_of(cls, listed: Listed) -> Self:
        from memlab.present.machine import machine_of

        row, ended = listed.row, listed.ended
        machine = machine_of(row.environment)
        return cls.from_attributes(listed, row, run=row.id, ended=ended, machine=machine)

"""A published table beside a run's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import field

from memlab.present.documents import Document, Levels, ShownInterval

if TYPE_CHECKING:
    from memlab.results.beside import Beside, PrintedRow


class PrintedRatio(Document):
    """A printed column that divides one column by another."""

    of: str
    to: str
    printed: str
    here: ShownInterval | None
    """Paired by block; null where a side is missing."""


class PublishedRow(Document):
    """A printed row beside the run's numbers."""

    level: float | str
    """What the printed row is of: a level, or its name as it is printed."""
    printed: dict[str, str]
    """The printed cells by column, digit for digit."""
    here: dict[str, ShownInterval | None]
    """The run's medians by column, in the metric's base unit; null: the run has no such point."""
    ratio: dict[str, float | None]
    """Here over printed, by column; a bound where the printed cell is one. null as here."""
    beyond_limit: dict[str, float]
    """Columns whose printed cell implies more than the machine's limit, with what it implies, in
    the limit's unit."""
    ratios: dict[str, PrintedRatio]
    """By printed column."""

    @classmethod
    def made_of(cls, row: PrintedRow) -> Self:
        return cls.from_attributes(row, level=row.level)  # a whole number stays one


class PublishedTable(Document):
    """A published table beside a run's numbers, at one setting of the factors it does not name."""

    source: str
    """The study's id."""
    table: str
    """The table's id in the study."""
    setting: Levels = field(name="levels")
    limit: ShownInterval | None
    """The machine's limit that a control measured; null: there is none, or it was not measured."""
    rows: list[PublishedRow]

    @classmethod
    def made_of(cls, table: Beside) -> Self:
        return cls.from_attributes(
            table,
            source=table.source.id,
            table=table.table.id,
            rows=[PublishedRow.made_of(row) for row in table.rows],
        )

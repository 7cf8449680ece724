"""The published tables, digit for digit, one TOML file a source."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

# Sizes are powers of two, as memlab writes them: "10GB" of a guest's memory is 10 GiB.
_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9} | {
    "B": 1.0,
    "KB": 2.0**10,
    "MB": 2.0**20,
    "GB": 2.0**30,
    "MiB/s": 2.0**20,
}
_CELL = re.compile(r"(?P<bound>[<>]?)~?(?P<number>[\d,]+(?:\.\d+)?)(?P<unit>[A-Za-zµ/ ]*)")


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """One printed number: as printed, in base units, and whether it is only a bound."""

    printed: str
    value: float
    bound: str  # "" exact, ">" at least, "<" at most

    @property
    def ratio_bound(self) -> str:
        """The bound of a ratio to this cell: below a value that is only known to be larger."""
        return {"": "", ">": "<", "<": ">"}[self.bound]

    @classmethod
    def read(cls, printed: str) -> PrintedCell:
        match = _CELL.fullmatch(printed)
        # A scan may set a blank inside a unit: "10G B".
        unit = match["unit"].replace(" ", "") if match else ""
        if not match or unit not in _UNITS:
            raise ValueError(f"published cell {printed!r} is not a number with a known unit")
        number = float(match["number"].replace(",", ""))
        return cls(printed, number * _UNITS[unit], match["bound"])


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """One printed table. `rows` are the printed cells by column, in the printed order."""

    id: str
    title: str
    place: str
    quantity: str
    rows_are: str
    unsure: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]

    def cell(self, row: Mapping[str, Any], column: str) -> PrintedCell:
        return PrintedCell.read(row[column])


JUDGMENTS = ("claims", "checks", "corrected", "not_testable", "background", "open")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a study, in English, and what becomes of it: exactly one of JUDGMENTS.

    `claims` are the study's, as EXPERIMENT:ID, and `checks` those that rest on other grounds.
    `corrected` is the sentence that is right, with its source. `not_testable` says what would be
    needed, `background` why there is nothing to judge, `open` what is still to be built.
    """

    id: str
    place: str
    text: str
    claims: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    corrected: str = ""
    not_testable: str = ""
    background: str = ""
    open: str = ""

    @property
    def judgment(self) -> str:
        (name,) = (name for name in JUDGMENTS if getattr(self, name))
        return name

    @property
    def judged_by(self) -> tuple[str, ...]:
        return self.claims or self.checks

    @classmethod
    def read(cls, id: str, data: Mapping[str, Any]) -> Statement:
        """ValueError if it has no judgment, or more than one."""
        names = [name for name in JUDGMENTS if data.get(name)]
        if len(names) != 1:
            has = " and ".join(names) or "none"
            raise ValueError(f"statement {id}: needs one of {', '.join(JUDGMENTS)}; has {has}")
        lists = {name: tuple(data[name]) for name in ("claims", "checks") if name in data}
        return cls(id, **{**data, **lists})


@dataclass(frozen=True, slots=True)
class Source:
    """One published study: how to cite it, the host it measured, its tables.

    `title` is in English, the study's own or ours. `authors` and `appeared` are empty, and `year`
    is None, where the text does not say; `missing` names what a full reference lacks.
    """

    id: str
    title: str
    kind: str
    authors: str
    year: int | None
    language: str
    appeared: str
    missing: str
    host: Mapping[str, str]
    tables: Mapping[str, PrintedTable]
    statements: Mapping[str, Statement]

    @property
    def reference(self) -> str:
        """The study in one line: title, authors, year, language, where; what is not known."""
        year = str(self.year) if self.year else ""
        kind = f"{self.kind.capitalize()} in {self.language}"
        parts = [self.title, self.authors, year, kind, self.appeared, f"Not known: {self.missing}"]
        return ". ".join(filter(None, parts))


def ids() -> list[str]:
    """Every study, by name. The folder is the registry."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))


@cache
def load(source: str) -> Source:
    """A source by its id; KeyError where there is none."""
    if source not in ids():
        raise KeyError(source)
    return read(Path(__file__).parent / f"{source}.toml")


def read(path: Path) -> Source:
    """The source that a file declares; ValueError where it declares none."""
    try:
        return _read(path)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a study: {type(error).__name__}: {error}") from None


def _read(path: Path) -> Source:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    fields = ("id", "title", "place", "quantity", "rows_are")
    tables = {
        table["id"]: PrintedTable(
            **{name: table[name] for name in fields},
            unsure=tuple(table["unsure"]),
            rows=tuple(table["rows"]),
        )
        for table in data["tables"]
    }
    return Source(
        **{name: data[name] for name in ("id", "title", "kind", "language", "missing", "host")},
        authors=data.get("authors", ""),
        year=data.get("year"),
        appeared=data.get("appeared", ""),
        tables=tables,
        statements={
            name: Statement.read(name, item) for name, item in data.get("statements", {}).items()
        },
    )

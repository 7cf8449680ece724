"""Rows as lines of JSON, as they travel from one store to another.

A run's line comes first, then a line per point, then, session by session, a line as it begins, one
per sample and one as it ends; the last line of all says that nothing is missing. Each carries a
SHA-256 of its text, which finds what a link or a disk has changed; it proves no sender.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from memlab._version import __version__

from .rows import PointRow, RunRow, SampleRow, SessionRow, checked, decode, measured

FORMAT = 1  # of the lines; a reader takes no newer one
LONGEST = 16 << 20  # characters of one line; a traced sample has some 100 kB
_KINDS = {"run": RunRow, "point": PointRow, "session": SessionRow, "sample": SampleRow}
_SEAL = ',"sha256":"'
_FIELDS = {
    kind: {"row", "run", *(field.name for field in fields(row) if field.init)}
    | ({"format", "points", "samples"} if kind == "run" else set())
    for kind, row in _KINDS.items()
}


class Unknown(ValueError):
    """A row has what this memlab does not know. `writer` is the memlab that wrote it, if the row
    says so: only that of a run does."""

    def __init__(self, what: str, writer: object = None) -> None:
        super().__init__(f"memlab {__version__} does not know {what}")
        self.writer = writer if isinstance(writer, str) else None


@dataclass(frozen=True, slots=True)
class End:
    """The last line: how many samples came before it."""

    samples: int


Line = RunRow | PointRow | SessionRow | SampleRow | End


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a run: how many points follow its line, and how many samples it has."""

    points: int = 0
    samples: int = 0


def of_run(row: RunRow, points: int, samples: int) -> str:
    counts = {"format": FORMAT, "points": points, "samples": samples}
    return _sealed("run", row.id, {**counts, **asdict(row)})


def of_point(run: str, row: PointRow) -> str:
    return _sealed("point", run, asdict(row))


def of_session(run: str, row: SessionRow) -> str:
    return _sealed("session", run, asdict(row))


def of_sample(run: str, row: SampleRow) -> str:
    names = ("point", "block", "position", "outcome", "detail", "started_at", "trial_s", "cpu")
    values = {name: getattr(row, name) for name in (*names, "probe_hash", "raw", "context")}
    return _sealed("sample", run, values)


def of_end(samples: int) -> str:
    return _sealed("end", "", {"samples": samples})


def _sealed(kind: str, run: str, values: Mapping[str, Any]) -> str:
    text = json.dumps({"row": kind, "run": run, **values}, separators=(",", ":"))[:-1]
    return f'{text}{_SEAL}{_digest(text)}"}}'


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read(line: str) -> tuple[str, Line, Counts]:
    """The run's id, the row, and a run's counts. ValueError, in one line, for what is not a row,
    was changed, or makes no sense."""
    try:
        return _read(line)
    except ValueError:
        raise
    except Exception as error:  # whatever is made of it, it is not a row
        raise ValueError(f"it is not a row of memlab ({type(error).__name__}: {error})") from None


def _read(line: str) -> tuple[str, Line, Counts]:
    text, seal, digest = line.rpartition(_SEAL)
    if not seal:
        raise ValueError(f"it is not a row of memlab: {line[:60]!r}")
    if digest != f'{_digest(text)}"}}':
        raise ValueError("it is not as it was written")
    try:
        values = decode(f"{text}}}")
    except (ValueError, RecursionError):
        # Lone surrogates and numbers without bounds are JSON only to json.
        values = json.loads(f"{text}}}", parse_constant=_no_number)
    if not isinstance(values, dict):
        raise ValueError(f"it is not a row of memlab: {line[:60]!r}")
    kind, run = values.get("row"), values.get("run")
    if kind == "end":
        return "", End(_count(values, "samples")), Counts()
    if kind not in _KINDS or not isinstance(run, str):
        raise Unknown(f"rows of the kind {kind!r:.60}")
    counts = Counts()
    if kind == "run":
        if _count(values, "format") > FORMAT:
            raise Unknown(
                f"rows of format {values['format']}, only of {FORMAT}", values.get("memlab")
            )
        counts = Counts(_count(values, "points"), _count(values, "samples"))
        values |= {"id": run} | {n: json.dumps(values.get(n)) for n in ("request", "environment")}
    if unknown := sorted(values.keys() - _FIELDS[kind]):
        raise Unknown(f"the field {unknown[0]!r:.60} of a {kind}", values.get("memlab"))
    try:
        row = checked(_KINDS[kind], {"id": 0, **values})
    except KeyError as error:
        raise ValueError(f"it lacks {error}") from None
    if kind == "sample" and not isinstance(values["raw"], dict | None):
        raise ValueError("raw is not an object")
    if kind == "sample" and not measured(values["raw"]):
        raise ValueError(f"its window is not {values['raw']['window']!r:.60}")
    return run, row, counts


def _count(values: Mapping[str, Any], name: str) -> int:
    result = values.get(name)
    if type(result) is not int or result < 0:
        raise ValueError(f"{name} is not {result!r:.60}")
    return result


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")

"""An exported file read back: the samples of a baseline that is kept in a repository."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlab.experiment import At, Experiment, Level
from memlab.experiment.window import WINDOW_METRICS

# What `export` writes beside the factors and the metrics (results.run.Run.record).
_COLUMNS = {
    *("run", "sample", "point", "control", "block", "position", "outcome", "detail"),
    *("started_at", "trial_s", "cpu", "probe_hash", "noise"),
}
_MISSING = ("", None)


class BadExport(ValueError):
    """A file that is no export of this experiment; one line says what it lacks."""


@dataclass(frozen=True, slots=True)
class Row:
    """One exported sample: its point, its probe and one metric, None where it has none."""

    at: At
    probe_hash: str
    value: float | None


@dataclass(frozen=True, slots=True)
class Exported:
    """The samples of an exported file, and its columns that this memlab does not know."""

    run: str
    rows: tuple[Row, ...]
    unknown: tuple[str, ...]


def is_file(name: str) -> bool:
    """Whether a name means an exported file and not a run."""
    return Path(name).suffix in (".csv", ".jsonl")


def machine_file(path: Path) -> Path:
    """Where the machine of an exported file is described: `base.machine.json` for `base.csv`."""
    return path.with_suffix(".machine.json")


def machine(path: Path) -> Mapping[str, Any] | None:
    """The machine that an exported file was measured on; None where nothing beside it says."""
    described = machine_file(path)
    try:
        found = json.loads(described.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BadExport(f"cannot read {described}: {error}") from None
    if not isinstance(found, dict):
        raise BadExport(f"{described} describes no machine")
    return found


def read(path: Path, experiment: Experiment, metric: str) -> Exported:
    """Read an exported CSV or JSON Lines file. Raises BadExport, with the file's name."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            records = list(_records(file, path.suffix))
    except OSError as error:
        raise BadExport(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, csv.Error) as error:
        raise BadExport(f"{path} is no exported file: {error}") from None
    if not records:
        raise BadExport(f"{path} holds no samples")
    columns = list(records[0])
    needed = ["run", "outcome", "probe_hash", metric, *(f.name for f in experiment.factors)]
    if missing := [name for name in needed if name not in columns]:
        raise BadExport(
            f"{path} is no export of {experiment.name}: it lacks the column"
            f"{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        )
    metrics = {m.name for m in (*experiment.metrics, *WINDOW_METRICS)}
    known = _COLUMNS | metrics | {f.name for f in experiment.factors}
    return Exported(
        run=str(records[0]["run"]),
        rows=tuple(_row(path, experiment, metric, record) for record in records),
        unknown=tuple(name for name in columns if name not in known),
    )


def _records(file: Iterable[str], suffix: str) -> Iterator[Mapping[str, Any]]:
    if suffix == ".csv":
        yield from csv.DictReader(file)
    else:
        yield from (json.loads(line) for line in file if line.strip())


def _row(path: Path, experiment: Experiment, metric: str, record: Mapping[str, Any]) -> Row:
    try:
        at = {f.name: f.kind.cast(_literal(record[f.name])) for f in experiment.factors}
        value = record[metric]
        measured = None if value in _MISSING else float(value)
    except (KeyError, TypeError, ValueError) as error:
        raise BadExport(f"{path}, sample {record.get('sample')}: {error}") from None
    return Row(at, str(record["probe_hash"]), measured if record["outcome"] == "ok" else None)


def _literal(value: Any) -> Level:
    """A level out of a CSV cell: a number where it is one, else the word."""
    if not isinstance(value, str):
        level: Level = value
        return level
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value

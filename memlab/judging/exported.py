"""An exported file read back: the samples of a baseline that is kept in a repository."""

from __future__ import annotations

import csv
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

from memlab.errors import BadExport
from memlab.experiment import At, Experiment, Level, renamed
from memlab.experiment.window import WINDOW_METRICS
from memlab.store import rows

# What `export` writes beside the factors and the metrics (results.run.Run.record).
_COLUMNS = {
    *("run", "sample", "point", "control", "block", "position", "outcome", "detail"),
    *("started_at", "trial_s", "session", "cpu", "probe_hash", "noise"),
}
_MISSING = ("", None)
# What a file from elsewhere may ask for: a sample is some 1 kB, a machine some 4 kB.
_LINE_MAX, _SAMPLES_MAX, _MACHINE_BYTES_MAX = 1 << 20, 1_000_000, 1 << 20


@dataclass(frozen=True, slots=True)
class ExportedSample:
    """One exported sample: its point, its probe and one metric, None where it has none; of a run
    that is spread over sessions, which of them took it."""

    at: At
    probe_hash: str
    value: float | None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """The samples of an exported file, and its columns that this memlab does not know."""

    run: str
    rows: tuple[ExportedSample, ...]
    unknown: tuple[str, ...]


def is_file(name: str) -> bool:
    """Whether a name means an exported file and not a run."""
    return Path(name).suffix in (".csv", ".jsonl", ".parquet")


def machine_file(path: Path) -> Path:
    """Where the machine of an exported file is described: `base.machine.json` for `base.csv`."""
    return path.with_suffix(".machine.json")


def machine(path: Path) -> Mapping[str, Any] | None:
    """The machine that an exported file was measured on; None where nothing beside it says."""
    described = machine_file(path)
    try:
        with _opened(described) as file:
            text = file.read(_MACHINE_BYTES_MAX + 1)
        found: dict[str, Any] = json.loads(text, parse_constant=_no_number)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadExport(f"cannot read {described}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadExport(f"{described} describes no machine: {error}") from None
    if not rows.environment(found):
        raise BadExport(f"{described} describes no machine")
    return found


def read(path: Path, experiment: Experiment, metric: str) -> Exported:
    """Read an exported CSV or JSON Lines file. Raises BadExport, with the file and the line."""
    if path.suffix == ".parquet":
        raise BadExport(f"{path}: CSV and JSON Lines are compared; memlab export -o FILE.csv")
    run, number = "", 1
    columns: tuple[str, ...] = ()
    samples: list[ExportedSample] = []
    try:
        with _opened(path) as file:
            for number, found in _records(file, path.suffix):  # noqa: B007 - of an error
                record = renamed.current(experiment.name, found)
                if not samples:
                    columns = tuple(record)
                    _check(columns, experiment, metric)
                    run = str(record["run"])
                samples.append(_row(experiment, metric, record))
                if len(samples) > _SAMPLES_MAX:
                    raise ValueError(f"more than {_SAMPLES_MAX:,} samples")
    except OSError as error:
        raise BadExport(f"cannot read {path}: {error.strerror}") from None
    except BadExport as error:
        raise BadExport(f"{path} {error}") from None
    except (ValueError, TypeError, OverflowError, RecursionError, csv.Error) as error:
        raise BadExport(f"{path} is not an exported file: near line {number}: {error}") from None
    if not samples:
        raise BadExport(f"{path} holds no samples")
    metrics = {m.name for m in (*experiment.metrics, *WINDOW_METRICS)}
    known = _COLUMNS | metrics | {f.name for f in experiment.factors}
    return Exported(run, tuple(samples), tuple(name for name in columns if name not in known))


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """A regular file: a FIFO would be waited for, a device has no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, encoding="utf-8", newline="") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a regular file")
        yield file


def _check(columns: tuple[str, ...], experiment: Experiment, metric: str) -> None:
    needed = ["run", "outcome", "probe_hash", metric, *(f.name for f in experiment.factors)]
    if missing := [name for name in needed if name not in columns]:
        raise BadExport(
            f"is not an export of {experiment.name}: it lacks the column"
            f"{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        )


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_LINE_MAX + 1):
        if len(line) > _LINE_MAX:
            raise ValueError(f"a line of more than {_LINE_MAX:,} characters")
        yield line


def _records(file: TextIO, suffix: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each sample with the number of its line: an object whose values are words or numbers."""
    if suffix == ".csv":
        reader = csv.DictReader(_lines(file))
        # `time_2gib (s)`: a unit is for who reads the file
        reader.fieldnames = [name.partition(" (")[0] for name in reader.fieldnames or ()]
        for record in reader:
            if None in record or None in record.values():
                raise ValueError("it has more or fewer cells than the head")
            yield reader.line_num, record
        return
    for number, line in enumerate(_lines(file), 1):
        if line.strip():
            record = json.loads(line, parse_constant=_no_number)
            if not isinstance(record, dict) or not all(map(_scalar, record.values())):
                raise ValueError("it is not an object of words and numbers")
            yield number, record


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _row(experiment: Experiment, metric: str, record: Mapping[str, Any]) -> ExportedSample:
    try:
        at = {f.name: f.kind.cast(_literal(record[f.name])) for f in experiment.factors}
        value = record[metric]
        measured = None if value in _MISSING else float(value)
        probe, outcome = str(record["probe_hash"]), record["outcome"]
    except KeyError as error:
        raise ValueError(f"it lacks {error}") from None
    if measured is not None and not math.isfinite(measured):
        raise ValueError(f"{metric} is {measured}")
    session = str(record["session"]) if "session" in record else None
    return ExportedSample(at, probe, measured if outcome == "ok" else None, session)


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

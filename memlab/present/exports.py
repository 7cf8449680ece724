"""A run's samples as a tidy file: one row a sample, metrics in base units."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, TextIO

import msgspec

from memlab import output as files
from memlab.errors import BadExport, CannotRun, StoreError
from memlab.judging import exported
from memlab.observe import environment
from memlab.printable import printable
from memlab.results import Run
from memlab.store import Store, travel

_ROWS = 50_000  # of one piece of a parquet file


def write(run: Run, kind: str, output: Path | TextIO) -> None:
    """Write a run as csv, jsonl or parquet. A file appears whole or not at all.

    Raises CannotRun where parquet lacks its library or the file cannot be written.
    """
    if not isinstance(output, Path):
        output.write(_text(run, kind))
        return
    content = parquet(run) if kind == "parquet" else _text(run, kind).encode()
    _write(output, content)


def write_machine(run: Run, output: Path) -> Path:
    """Write, beside an exported file, what two runs must share to be compared; returns the file."""
    machine = environment.compared(run.environment)
    path = exported.machine_file(output)
    _write(path, (json.dumps(machine, indent=1) + "\n").encode())
    return path


def write_rows(store: Path, run: str | None, known: Path | None, output: Path | None) -> None:
    """Write the rows of a run, or of all, as they travel between stores, short of those that are
    known where they go. Damaged runs are left out, and named in a StoreError at the end."""
    try:
        have = msgspec.json.decode(_read(known), type=travel.Known) if known else {}
    except ValueError as error:
        raise BadExport(f"--known: {error}") from None
    with Store(store) as opened:
        runs, damaged = opened.listed()
        if run is not None:
            row = opened.find(run)
            runs, damaged = [one for one in runs if one.row.id == row.id], {}
        found = (f"{line}\n" for line in travel.outgoing(opened, runs, have))
        if output:
            _write(output, "".join(found).encode())
        else:
            sys.stdout.writelines(found)
    if damaged:
        said = "; ".join(f"run {id}: {why}" for id, why in damaged.items())
        raise StoreError(f"{store} is damaged: {said}")


def _read(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise BadExport(f"cannot read {path}: {error.strerror or error}") from None


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write({path: content})
    except OSError as error:
        raise CannotRun(f"cannot write {path}: {error.strerror or error}") from None


def _text(run: Run, kind: str) -> str:
    if kind == "csv":
        seen = run.frame.map(lambda value: printable(value) if isinstance(value, str) else value)
        return str(seen.to_csv(index=False, header=_heads(run)))
    return "".join(json.dumps(_without_nan(record)) + "\n" for record in run.records())


def _heads(run: Run) -> list[str]:
    """The columns' names with their units: `time_2gib (s)`."""
    units = {metric.name: metric.unit for metric in run.metrics}
    units |= {factor.name: factor.kind.unit for factor in run.experiment.factors}
    # A count's unit is a noun, as in `minor_faults`, and needs no saying.
    said = {n: f"{n} ({u})" for n, u in units.items() if u in ("s", "B") or "/" in u}
    said["started_at"] = "started_at (s since 1970)"
    return [said.get(name, name) for name in run.frame.columns]


def _without_nan(record: dict[str, Any]) -> dict[str, Any]:
    """JSON has no nan: a missing metric is null. Floats keep every digit."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in record.items()
    }


def parquet(run: Run) -> bytes:
    """A run's samples as a Parquet file. CannotRun where the library is missing.

    In pieces: the whole frame of a long run does not fit into memory with its copies.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise CannotRun("parquet needs pyarrow: pip install 'memlab[parquet]'") from None
    buffer = pa.BufferOutputStream()
    schema = pa.Schema.from_pandas(run.frame_of(slice(_ROWS)), preserve_index=False)
    with pq.ParquetWriter(buffer, schema) as writer:
        for start in range(0, max(1, len(run.samples)), _ROWS):
            part = run.frame_of(slice(start, start + _ROWS))
            writer.write_table(pa.Table.from_pandas(part, schema, preserve_index=False))
    return bytes(buffer.getvalue())

"""A run's samples as a tidy file: one row a sample, metrics in base units."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from memlab.errors import BadExport, CannotRun, StoreError
from memlab.files import output as files
from memlab.observe import environment
from memlab.results import Run
from memlab.store import Store, travel
from memlab.text.printable import printable

if TYPE_CHECKING:
    import pandas as pd

_OWN = ("directory", "name")  # of a request: what says where it was


def write(run: Run, kind: str, output: Path | TextIO) -> None:
    """Write a run as csv, jsonl or parquet. A file appears whole or not at all.

    Raises CannotRun where parquet lacks its library or the file cannot be written.
    """
    if not isinstance(output, Path):
        output.writelines(_text(run, kind))
        return
    if kind == "parquet":
        _write(output, _parquet(run))
    else:
        _write(output, map(str.encode, _text(run, kind)))


def write_baseline(run: Run, output: Path) -> None:
    """Write a run's rows for a repository: of its machine what must be alike where runs are
    compared, and neither its folders nor its name. Raises CannotRun."""
    request = {name: of for name, of in run.row.request.items() if name not in _OWN}
    machine = environment.compared(run.environment)
    with Store(run.store_path) as store:
        listed = [item for item in store.listed()[0] if item.row.id == run.id]
        samples = [
            replace(item, row=replace(item.row, name=None, request=request, environment=machine))
            for item in listed
        ]
        _write(output, (f"{line}\n".encode() for line in travel.outgoing(store, samples, {})))


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
            runs, damaged = [item for item in runs if item.row.id == row.id], {}
        result = (f"{line}\n" for line in travel.outgoing(opened, runs, have))
        if output:
            _write(output, map(str.encode, result))
        else:
            sys.stdout.writelines(result)
    if damaged:
        text = "; ".join(f"run {id}: {why}" for id, why in damaged.items())
        raise StoreError(f"{store} is damaged: {text}")


def _read(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise BadExport(f"cannot read {path}: {error.strerror or error}") from None


def _write(path: Path, content: files.Content) -> None:
    files.make_folder(path.parent)
    files.write({path: content})


def _cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula (CWE-1236)."""
    return f"'{printable(text)}" if text.startswith(("=", "+", "-", "@")) else printable(text)


def _text(run: Run, kind: str) -> Iterator[str]:
    """A CSV or JSON Lines file, in pieces."""
    if kind != "csv":
        for record in run.records():
            yield json.dumps(_without_nan(record)) + "\n"
        return
    printable_frame = run.frame.map(lambda value: _cell(value) if isinstance(value, str) else value)
    yield str(printable_frame.to_csv(index=False, header=_heads(run, run.frame)))


def _heads(run: Run, frame: pd.DataFrame) -> list[str]:
    """The columns' names with their units: `time_2gib (s)`."""
    units = {metric.name: metric.unit for metric in run.metrics}
    units |= {factor.name: factor.kind.unit for factor in run.experiment.factors}
    # A count's unit is a noun, as in `minor_faults`, and needs no saying.
    words = {n: f"{n} ({u})" for n, u in units.items() if u in ("s", "B") or "/" in u}
    words["started_at"] = "started_at (s since 1970)"
    return [words.get(name, name) for name in frame.columns]


def _without_nan(record: dict[str, Any]) -> dict[str, Any]:
    """JSON has no nan: a missing metric is null. Floats keep every digit."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in record.items()
    }


def _parquet(run: Run) -> bytes:
    """A run's samples as a Parquet file. CannotRun if the library is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise CannotRun("parquet needs pyarrow: pip install 'memlab[parquet]'") from None
    return bytes(run.frame.to_parquet(None, engine="pyarrow", index=False))

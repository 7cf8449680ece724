"""A run's samples as a tidy file: one row a sample, metrics in base units."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from memlab.errors import BadExport, CannotRun, StoreError
from memlab.files import output as files
from memlab.observe import environment
from memlab.present import bibtex
from memlab.results import Run
from memlab.store import Store, travel
from memlab.text.printable import printable

if TYPE_CHECKING:
    import pandas as pd

_OWN = ("directory", "name")  # of a request: what says where it was
_ROWS = 10_000  # of one piece of a file
_SAMPLES_MAX = 10_000_000  # that are counted of another's file


def write(run: Run, kind: str, output: Path | TextIO) -> None:
    """Write a run as csv, jsonl, parquet or bibtex. A file appears whole or not at all.

    Raises CannotRun where parquet lacks its library or the file cannot be written.
    """
    if not isinstance(output, Path):
        output.writelines(_text(run, kind))
        return
    if kind == "parquet":
        _write(output, parquet(run))
    else:
        _write(output, map(str.encode, _text(run, kind)))


def write_baseline(run: Run, output: Path) -> None:
    """Write a run's rows for a repository: of its machine what must be alike where runs are
    compared, and neither its folders nor its name. Raises CannotRun."""
    request = {name: of for name, of in run.row.request.items() if name not in _OWN}
    seen = environment.compared(run.environment)
    with Store(run.store_path) as store:
        listed = [one for one in store.listed()[0] if one.row.id == run.id]
        kept = [
            replace(one, row=replace(one.row, name=None, request=request, environment=seen))
            for one in listed
        ]
        _write(output, (f"{line}\n".encode() for line in travel.outgoing(store, kept, {})))


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
            _write(output, map(str.encode, found))
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


def _write(path: Path, content: files.Content) -> None:
    try:
        files.make_folder(path.parent)
        files.write({path: content})
    except OSError as error:
        raise CannotRun(f"cannot write {path}: {error.strerror or error}") from None


def _cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula (CWE-1236)."""
    return f"'{printable(text)}" if text.startswith(("=", "+", "-", "@")) else printable(text)


def _text(run: Run, kind: str) -> Iterator[str]:
    """A CSV or JSON Lines file in pieces; of BibTeX the whole."""
    if kind == "bibtex":
        yield f"{bibtex.text(run)}\n"
        return
    if kind != "csv":
        for record in run.records():
            yield json.dumps(_without_nan(record)) + "\n"
        return
    for number, frame in enumerate(_frames(run)):
        seen = frame.map(lambda value: _cell(value) if isinstance(value, str) else value)
        yield str(seen.to_csv(index=False, header=False if number else _heads(run, frame)))


def _frames(run: Run) -> Iterator[pd.DataFrame]:
    """A run's frame in pieces, with at least one: the whole of a long run does not fit into memory
    with its copies."""
    for start in range(0, max(1, len(run.samples)), _ROWS):
        yield run.frame_of(slice(start, start + _ROWS))


def _heads(run: Run, frame: pd.DataFrame) -> list[str]:
    """The columns' names with their units: `time_2gib (s)`."""
    units = {metric.name: metric.unit for metric in run.metrics}
    units |= {factor.name: factor.kind.unit for factor in run.experiment.factors}
    # A count's unit is a noun, as in `minor_faults`, and needs no saying.
    said = {n: f"{n} ({u})" for n, u in units.items() if u in ("s", "B") or "/" in u}
    said["started_at"] = "started_at (s since 1970)"
    return [said.get(name, name) for name in frame.columns]


def _without_nan(record: dict[str, Any]) -> dict[str, Any]:
    """JSON has no nan: a missing metric is null. Floats keep every digit."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in record.items()
    }


class _Sink:
    """A file that keeps what is written to it until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._at = 0

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._at += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None: ...

    def taken(self) -> list[bytes]:
        found, self._pieces = self._pieces, []
        return found


def parquet(run: Run) -> Iterator[bytes]:
    """A run's samples as a Parquet file, in pieces. CannotRun where the library is missing."""
    return _parquet(run, *arrow())


def arrow() -> tuple[Any, Any]:
    """pyarrow and its Parquet; CannotRun where the library is missing."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise CannotRun("parquet needs pyarrow: pip install 'memlab[parquet]'") from None
    return pa, pq


def counted(path: Path) -> tuple[set[str], int, int]:
    """What a Parquet file of a run's samples holds: the ids of its runs, how many samples, and of
    how many blocks. Whatever the library raises where it is none."""
    runs, samples, blocks = set[str](), 0, set[int]()
    with arrow()[1].ParquetFile(path) as file:  # some rows at a time: a footer may claim any number
        for batch in file.iter_batches(10_000, columns=["run", "block"]):
            samples += len(batch)
            runs |= {*batch.column("run").unique().to_pylist()}
            blocks |= {*batch.column("block").unique().to_pylist()}
            if samples > _SAMPLES_MAX:
                raise ValueError(f"more than {_SAMPLES_MAX:,} samples")
    return runs, samples, len(blocks)


def _parquet(run: Run, pa: Any, pq: Any) -> Iterator[bytes]:
    sink = _Sink()
    frames = _frames(run)
    first = next(frames)
    schema = pa.Schema.from_pandas(first, preserve_index=False)
    with pq.ParquetWriter(sink, schema) as writer:
        for frame in chain([first], frames):
            writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))
            yield from sink.taken()
    yield from sink.taken()

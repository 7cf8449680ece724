"""A run's samples as a tidy file: one row a sample, metrics in base units."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, TextIO

from memlab.judging import exported
from memlab.observe import environment
from memlab.results import Run
from memlab.run.request import CannotRun


def write(run: Run, kind: str, output: Path | TextIO) -> None:
    """Write a run as csv, jsonl or parquet. A file appears whole or not at all.

    Raises CannotRun where parquet lacks its library or the file cannot be written.
    """
    if not isinstance(output, Path):
        output.write(_text(run, kind))
        return
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        if kind == "parquet":
            _parquet(run, part)
        else:
            part.write_text(_text(run, kind), encoding="utf-8")
        part.replace(output)
    except OSError as error:
        raise CannotRun(f"cannot write {output}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


def write_machine(run: Run, output: Path) -> None:
    """Write, beside an exported file, what two runs must share to be compared."""
    machine = environment.compared(run.environment)
    exported.machine_file(output).write_text(json.dumps(machine, indent=1) + "\n", encoding="utf-8")


def _text(run: Run, kind: str) -> str:
    if kind == "csv":
        return str(run.frame.to_csv(index=False))
    at = {point.index: point for point in run.points}
    records = (run.record(sample, at[sample.point]) for sample in run.samples)
    return "".join(json.dumps(_without_nan(record)) + "\n" for record in records)


def _without_nan(record: dict[str, Any]) -> dict[str, Any]:
    """JSON has no nan: a missing metric is null. Floats keep every digit."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in record.items()
    }


def _parquet(run: Run, path: Path) -> None:
    try:
        run.frame.to_parquet(path, index=False)
    except ImportError:
        raise CannotRun("parquet needs pyarrow: pip install 'memlab[parquet]'") from None

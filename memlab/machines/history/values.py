"""A series in a CSV file, `date,value`, as a history: runs that memlab did not measure."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

from memlab.analysis.intervals import Interval
from memlab.errors import BadRequest, CannotRun
from memlab.experiment import Metric
from memlab.experiment.tried import named_metric
from memlab.machines.history.judge import LEAST_RUNS, History, Night, of_nights

_LARGEST = 16 << 20  # bytes of a file
_SHOWN = 40  # characters of a cell that an error prints


def of_csv(path: Path, name: str | None, limit: int, rate: float) -> History:
    """The column of that name, else the second, against the first, which has dates: the newest
    `limit` rows. A row without a value is left out. BadRequest names the line that is wrong."""
    header, *rows = _rows(path)
    column = _column(path, header, name)
    metric = _metric(path, header[column])
    values, left_out = [], []
    for line, row in enumerate(rows, 2):
        at = f"{path}, line {line}"
        if len(row) != len(header):
            raise BadRequest(f"{at} has {len(row)} columns, and the first line {len(header)}")
        date, text = _date(at, row[0]), row[column].strip()
        if text:
            values.append((date, row[0].strip(), _value(at, text)))
        else:
            left_out.append(row[0].strip())
    values.sort(key=lambda value: value[0])
    values = values[-limit:]
    if len(values) < LEAST_RUNS:
        raise BadRequest(f"{path} has {len(values)} values: a history takes {LEAST_RUNS} or more")
    typical = sorted(value for _, _, value in values)[len(values) // 2]
    nights = [
        Night(message, date, Interval(None, value / typical, None, 1, "one value"))
        for date, message, value in values
    ]
    return replace(of_nights(path.name, metric, typical, nights, rate), left_out=left_out)


def _rows(path: Path) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read(_LARGEST + 1)
        rows = [row for row in csv.reader(text.splitlines(), strict=True) if row]
    except OSError as error:
        raise CannotRun(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadRequest(f"{path} is not text: write lines of date,value in UTF-8") from None
    except csv.Error as error:
        raise BadRequest(f"{path} is not a CSV file: {error}") from None
    if len(text) > _LARGEST:
        raise BadRequest(f"{path} is larger than {_LARGEST >> 20} MiB: cut it to newer rows")
    if len(rows) < 2 or len(rows[0]) < 2:
        raise BadRequest(f"{path} has no values: write a header `date,NAME`, then a row per run")
    return rows


def _column(path: Path, header: Sequence[str], name: str | None) -> int:
    if name is None:
        return 1
    names = [cell.partition("[")[0].strip() for cell in header[1:]]
    if name not in names:
        raise BadRequest(f"{path} has no column {name!r}; it has {', '.join(names)}")
    return names.index(name) + 1


def _metric(path: Path, cell: str) -> Metric:
    """`time[s]`, `rate[1/s]` or `score[,higher]`: as a metric of `memlab try` is named."""
    declared = named_metric(cell.strip())
    if declared is None or declared.pattern:
        raise BadRequest(
            f"{path}: column {cell[:_SHOWN]!r}: name it NAME or NAME[UNIT], as in time[s]"
        )
    return Metric(
        declared.name,
        declared.unit,
        f"{declared.name} in {path.name}",
        lambda raw, _: raw["value"],
        lower_is_better=declared.lower_is_better,
    )


def _date(at: str, text: str) -> datetime:
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadRequest(
            f"{at}: {text[:_SHOWN]!r} is not a date; write it as 2026-02-08 or 2026-02-08T03:00"
        ) from None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _value(at: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise BadRequest(f"{at}: {text[:_SHOWN]!r} is no number") from None
    if not (isfinite(value) and value > 0):
        raise BadRequest(f"{at}: {text[:_SHOWN]} is not above 0; changes are ratios")
    return value

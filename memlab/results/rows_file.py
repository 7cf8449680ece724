"""A run in a file of rows: a baseline that is kept in a repository."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from memlab import experiments
from memlab.errors import BadExport, NotComparable
from memlab.files import folders
from memlab.results.run import Run
from memlab.store import Store, database, travel

_MADE_BY = "memlab export RUN --format rows -o NAME.jsonl"
_UNNAMED = "elsewhere"  # the host of rows that name none


def is_file(name: str) -> bool:
    """Whether a name means a file and not a run."""
    return Path(name).suffix in (".csv", ".jsonl", ".parquet")


@contextmanager
def opened(path: Path, beside: Run) -> Iterator[Run]:
    """The run in a file of rows, for as long as this lasts, named as the file; `beside` is what it
    is held against, whose experiment it has to be of. Raises BadExport and NotComparable."""
    if path.suffix in (".csv", ".parquet"):
        raise BadExport(f"{path}: {path.suffix[1:]} is written and not read; write {_MADE_BY}")
    with folders.temporary("import") as result:
        store = result / "rows.db"
        with _regular(path) as file:
            runs = [*travel.stage(store, file, str(path), _UNNAMED).runs]
        if len(runs) != 1:
            raise BadExport(f"{path} holds {len(runs)} runs, and a baseline is one: {_MADE_BY}")
        with Store(store) as staged:
            row = staged.find(runs[0])
        names = [experiments.short(item.experiment) for item in (row, beside.row)]
        if names[0] != names[1]:
            raise NotComparable(f"{path} is of {names[0]}, and the other of {names[1]}")
        # One's own experiment lies elsewhere on another host, and nothing is loaded that a file
        # names.
        yield Run(replace(row, experiment=beside.row.experiment, name=path.name), store)


@contextmanager
def _regular(path: Path) -> Iterator[IO[bytes]]:
    """A FIFO would be waited for, a device has no end."""
    try:
        if not database.check_file(path):
            raise FileNotFoundError(2, os.strerror(2))
        file = path.open("rb")
    except OSError as error:
        raise BadExport(f"cannot read {path}: {error.strerror}") from None
    with file:
        yield file

"""Runs and their samples, written and read. Every sample is committed as it arrives.

Values are stored raw, as the probe returned them; metrics are derived when read.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import database
from .database import StoreError
from .rows import PointRow, RunRow, SampleRow, SessionRow


class UnknownRun(LookupError):
    """No run answers to that name."""


def default_path() -> Path:
    """$MEMLAB_STORE, else memlab/results.db in the XDG data directory."""
    if named := os.environ.get("MEMLAB_STORE"):
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "memlab" / "results.db"


class Store:
    """The open store. `create=False` opens an existing one and makes nothing."""

    def __init__(self, path: Path | None = None, *, create: bool = False) -> None:
        self.path = path or default_path()
        if not create and not self.path.exists():
            raise StoreError(f"no store at {self.path}; `memlab sweep mmap-write` makes one")
        self._db = database.opened(self.path, create)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Writing

    def add_run(self, run: RunRow, points: Sequence[PointRow]) -> None:
        with database.transaction(self._db, self.path) as db:
            db.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run.id,
                    run.experiment,
                    run.name,
                    run.created_at,
                    run.seed,
                    json.dumps(run.request),
                    json.dumps(run.environment),
                    run.memlab,
                ),
            )
            db.executemany(
                "INSERT INTO points VALUES (?, ?, ?, ?)",
                [(run.id, p.point, json.dumps(p.levels), p.control) for p in points],
            )

    def begin_session(self, run: str) -> int:
        with database.transaction(self._db, self.path) as db:
            (last,) = db.execute(
                "SELECT coalesce(max(session), 0) FROM sessions WHERE run = ?", (run,)
            ).fetchone()
            session = int(last) + 1
            db.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, 0, NULL)", (run, session, time.time())
            )
        return session

    def add_sample(self, run: str, session: int, wall_s: float, sample: SampleRow) -> None:
        """Commit one sample, and how long its session has lasted."""
        with database.transaction(self._db, self.path) as db:
            db.execute(
                "INSERT INTO samples (run, point, block, position, outcome, detail, started_at,"
                " trial_s, cpu, probe_hash, raw) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run,
                    sample.point,
                    sample.block,
                    sample.position,
                    sample.outcome,
                    sample.detail,
                    sample.started_at,
                    sample.trial_s,
                    sample.cpu,
                    sample.probe_hash,
                    None if sample.raw is None else json.dumps(sample.raw, separators=(",", ":")),
                ),
            )
            db.execute(
                "UPDATE sessions SET wall_s = ? WHERE run = ? AND session = ?",
                (wall_s, run, session),
            )

    def end_session(self, run: str, session: int, wall_s: float, ended: str) -> None:
        with database.transaction(self._db, self.path) as db:
            db.execute(
                "UPDATE sessions SET wall_s = ?, ended = ? WHERE run = ? AND session = ?",
                (wall_s, ended, run, session),
            )

    # Reading

    def runs(self) -> list[RunRow]:
        """Every run, oldest first."""
        rows = self._db.execute("SELECT * FROM runs ORDER BY created_at, rowid")
        return [RunRow(**_unpacked(row, "request", "environment")) for row in _named(rows)]

    def find(self, wanted: str) -> RunRow:
        """A run by its id, the start of its id, its name, or `last`."""
        runs = self.runs()
        if wanted == "last" and runs:
            return runs[-1]
        exact = [run for run in runs if run.id == wanted] or [
            run for run in runs if run.name == wanted
        ][-1:]
        matches = exact or [run for run in runs if run.id.startswith(wanted)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UnknownRun(
                f"{wanted!r} fits {len(matches)} runs: {', '.join(run.id for run in matches[:5])}"
            )
        from difflib import get_close_matches

        known = [run.id for run in runs] + [run.name for run in runs if run.name]
        near = get_close_matches(wanted, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "`memlab runs` lists them"
        raise UnknownRun(f"no run {wanted!r} in {self.path}; {hint}")

    def points(self, run: str) -> list[PointRow]:
        rows = self._db.execute(
            "SELECT point, levels, control FROM points WHERE run = ? ORDER BY point",
            (run,),
        )
        return [PointRow(point, json.loads(levels), control) for point, levels, control in rows]

    def samples(self, run: str) -> Iterator[SampleRow]:
        """Every sample of a run in the order it was taken, one at a time."""
        rows = self._db.execute(
            "SELECT point, block, position, outcome, detail, started_at, trial_s, cpu,"
            " probe_hash, raw, id FROM samples WHERE run = ? ORDER BY id",
            (run,),
        )
        for row in _named(rows):
            yield SampleRow(**_unpacked(row, "raw"))

    def taken(self, run: str) -> set[tuple[int, int]]:
        """The (block, point) pairs that have a sample."""
        return set(self._db.execute("SELECT block, point FROM samples WHERE run = ?", (run,)))

    def sample_count(self, run: str) -> int:
        (count,) = self._db.execute("SELECT count(*) FROM samples WHERE run = ?", (run,)).fetchone()
        return int(count)

    def sessions(self, run: str) -> list[SessionRow]:
        rows = self._db.execute(
            "SELECT session, started_at, wall_s, ended FROM sessions WHERE run = ? ORDER BY 1",
            (run,),
        )
        return [SessionRow(*row) for row in rows]

    def format_history(self) -> list[tuple[int, str, str, str]]:
        rows = self._db.execute(
            "SELECT version, change, memlab, at FROM format_history ORDER BY version"
        )
        return list(rows)


def _named(rows: sqlite3.Cursor) -> Iterator[dict[str, Any]]:
    """Each row by its columns' names."""
    names = [column[0] for column in rows.description]
    for row in rows:
        yield dict(zip(names, row, strict=True))


def _unpacked(row: dict[str, Any], *columns: str) -> dict[str, Any]:
    """A row with its JSON columns read; NULL stays None."""
    texts = {name: row[name] for name in columns if row[name] is not None}
    return row | {name: json.loads(text) for name, text in texts.items()}

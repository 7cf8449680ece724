"""Runs and their samples, written and read. Every sample is committed as it arrives.

Values are stored raw, as the probe returned them; metrics are derived when read.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from memlab import experiments
from memlab.errors import StoreBusy, StoreError, UnknownRun, nearest
from memlab.files import folders

from . import database, lines
from .rows import (
    Listed,
    PointRow,
    Row,
    RunHead,
    RunRow,
    SampleRow,
    SessionRow,
    checked,
    checked_columns,
    how_ended,
    is_head,
)

_READ = {"detail": "substr(detail, 1, 10000)"}  # nobody reads more of what a trial said
_AT_ONCE = 10_000  # rows
_COUNTED = 10_000  # samples up to which those of a run are counted where runs are listed
Named = TypeVar("Named", RunHead, RunRow)
_SESSION = "SELECT ended FROM sessions WHERE run = ? AND session = ?"
_EXPECTED = "SELECT total(samples) FROM sessions WHERE run = ?"
_THERE = "SELECT value, (SELECT count(*) FROM samples WHERE run = value) FROM json_each(?)"
_SITTINGS = "FROM sessions WHERE run IN (SELECT value FROM json_each(?)) GROUP BY run"


def default_path() -> Path:
    """$MEMLAB_STORE, else memlab/results.db in the XDG data directory."""
    if named := os.environ.get("MEMLAB_STORE"):
        return Path(named)
    return folders.user("data") / "results.db"


class Store:
    """The open store. `create=False` opens an existing one and makes nothing. `tell` is given each
    row of a sweep as a line, once it is committed."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        create: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.path, self._tell = path or default_path(), tell
        with ExitStack() as stack:
            self._db = database.opened(self.path, create, stack)
            self._open = stack.pop_all()

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_own(self) -> None:
        """StoreError for another user's store: a run that goes on loads the libraries, boots the
        kernels and fills the folders that its store names."""
        owner = self.path.stat().st_uid
        if owner != os.geteuid():
            raise StoreError(
                f"{self.path} belongs to user {owner}: a run is resumed by whoever measured it"
            )

    # Writing

    def add_run(self, run: RunRow, points: Sequence[PointRow]) -> None:
        with database.transaction(self._db, self.path) as db:
            db.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (
                    run.id,
                    run.experiment,
                    run.name,
                    run.created_at,
                    run.seed,
                    json.dumps(run.request),
                    json.dumps(run.environment),
                    run.memlab,
                    run.origin,
                ),
            )
            db.executemany(
                "INSERT INTO points VALUES (?, ?, ?, ?, NULL)",
                [(run.id, p.point, json.dumps(p.levels), p.control) for p in points],
            )
            database.seal(db, "points", "run = ?", run.id)
            database.seal(db, "runs", "id = ?", run.id)

    def delete_run(self, run: str) -> None:
        """Delete a run with its points, samples and sessions."""
        with database.transaction(self._db, self.path) as db:
            db.execute("DELETE FROM runs WHERE id = ?", (run,))  # the rest goes with it

    def rename_run(self, run: str, name: str) -> None:
        with database.transaction(self._db, self.path) as db:
            db.execute("UPDATE runs SET name = ? WHERE id = ?", (name, run))
            database.seal(db, "runs", "id = ?", run)

    def note_run(self, run: str, text: str) -> None:
        """Keep a user's words beside a run, in place of older ones; empty words remove those."""
        with database.transaction(self._db, self.path) as db:
            db.execute("DELETE FROM notes WHERE run = ?", (run,))
            if text:
                db.execute("INSERT INTO notes VALUES (?, ?)", (run, text))

    @contextmanager
    def _writing(self, run: str) -> Iterator[database.Connection]:
        """A transaction on a run that is there; StoreError names one that is not any more."""
        try:
            with database.transaction(self._db, self.path) as db:
                yield db
                if not db.execute("SELECT 1 FROM runs WHERE id = ?", (run,)).fetchone():
                    raise sqlite3.IntegrityError("no such run")
        except StoreError:
            with suppress(sqlite3.Error):
                if not self._db.execute("SELECT 1 FROM runs WHERE id = ?", (run,)).fetchone():
                    raise StoreError(
                        f"run {run} was deleted from {self.path} while it was written to, with all "
                        "that it had measured; measure again"
                    ) from None
            raise

    def begin_session(self, run: str) -> int:
        with self._writing(run) as db:
            (last,) = db.execute(
                "SELECT coalesce(max(session), 0) FROM sessions WHERE run = ?", (run,)
            ).fetchone()
            row = SessionRow(int(last) + 1, time.time(), 0.0, None)
            db.execute(
                "INSERT INTO sessions (run, session, started_at, wall_s) VALUES (?, ?, ?, 0)",
                (run, row.session, row.started_at),
            )
            self._seal_session(run, row.session)
        self._tell_begun(run, row)
        return row.session

    def _tell_begun(self, run: str, session: SessionRow) -> None:
        if self._tell:
            points = self.points(run)
            self._tell(lines.of_run(self.find(run), len(points), self.sample_count(run)))
            for point in points:
                self._tell(lines.of_point(run, point))
            self._tell(lines.of_session(run, session))

    def add_sample(self, run: str, session: int, wall_s: float, *samples: SampleRow) -> None:
        """Commit one sample, or those of a block together, and how long its session has lasted."""
        with self._writing(run):
            self._insert(run, samples)
            self._count(run, session, samples[0].started_at, wall_s, len(samples))
        self._tell_samples(run, samples)

    def _tell_samples(self, run: str, samples: Sequence[SampleRow]) -> None:
        if self._tell:
            for sample in samples:
                self._tell(lines.of_sample(run, sample))

    def receive(self, run: str, session: SessionRow, samples: Sequence[SampleRow]) -> int:
        """Take samples that were measured elsewhere, with how far their session has come: all of
        them or none. Those that are there already are left; StoreError where one of them differs.
        Returns how many are new."""
        with database.transaction(self._db, self.path) as db:
            before = db.execute(_SESSION, (run, session.session)).fetchone()
            count = self._insert(run, samples, "INSERT OR IGNORE") if samples else 0
            self._count(run, session.session, session.started_at, session.wall_s, count)
            db.execute(
                "UPDATE sessions SET ended = ?, samples = max(samples, ?)"
                " WHERE run = ? AND session = ?",
                (session.ended, session.samples, run, session.session),
            )
            self._seal_session(run, session.session)
            if count < len(samples):
                for sample in samples:
                    self._check_same(run, sample)
        if before is None:
            self._tell_begun(run, session)
        self._tell_samples(run, samples)
        if session.ended and before != (session.ended,):
            self._tell_ended(run, session.session)
        return count

    def _check_same(self, run: str, sample: SampleRow) -> None:
        where = "run = ? AND block = ? AND point = ?"
        with self._naming(run):
            (stored,) = self._rows(SampleRow, "samples", where, run, sample.block, sample.point)
        if replace(stored, id=sample.id) != sample:
            raise StoreError(_differing(run, sample.block, sample.point))

    def merge(self, other: Path) -> dict[str, int]:
        """Take in every row of another store of this format that memlab wrote: all or nothing.
        What is there already is left; StoreError where it differs, or adds to a run of this host.
        Returns, by run, how many of its samples are new."""
        self._db.execute("ATTACH ? AS other", [str(other)])
        try:
            with database.transaction(self._db, self.path) as db:
                for check, what in _DIFFERING:
                    for result in db.execute(f"{check} LIMIT 1"):
                        raise StoreError(what(*result))
                before = dict(db.execute(_COUNTS))
                for statement in _MERGE:
                    db.execute(statement)
                for run, count in [*db.execute(_UNEVEN)]:
                    db.execute(_AS_THERE, {"run": run, "count": count})
                # Where the middle of a run is missing yet, who took what is not known.
                for run, count in [*db.execute(_UNEVEN)]:
                    db.execute(_LAST_HAS_ALL, {"run": run, "count": count})
                for table, id in (("runs", "id"), ("sessions", "run")):
                    database.seal(db, table, f"{id} IN (SELECT id FROM other.runs)")
                return {run: n - before.get(run, 0) for run, n in db.execute(_COUNTS)}
        finally:
            self._db.execute("DETACH other")

    def _insert(self, run: str, samples: Iterable[SampleRow], how: str = "INSERT") -> int:
        """How many were inserted."""
        count = 0
        for sample in samples:
            values = (
                run,
                sample.point,
                sample.block,
                sample.position,
                sample.outcome,
                sample.detail,
                float(sample.started_at),
                float(sample.trial_s),
                sample.cpu,
                sample.probe_hash,
                _packed(sample.raw),
                _packed(sample.context),
            )
            count += self._db.execute(
                f"{how} INTO samples (run, point, block, position, outcome, detail, started_at,"
                " trial_s, cpu, probe_hash, raw, context, checksum)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, database.checksum(*values)),
            ).rowcount
        return count

    def _count(self, run: str, session: int, started_at: float, wall_s: float, count: int) -> None:
        self._db.execute(
            "INSERT INTO sessions (run, session, started_at, wall_s, samples)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET wall_s = max(wall_s, excluded.wall_s), samples = samples + excluded.samples",
            (run, session, started_at, wall_s, count),
        )
        self._seal_session(run, session)

    def end_session(self, run: str, session: int, wall_s: float, ended: str) -> None:
        with self._writing(run) as db:
            db.execute(
                "UPDATE sessions SET wall_s = ?, ended = ? WHERE run = ? AND session = ?",
                (wall_s, ended, run, session),
            )
            self._seal_session(run, session)
        self._tell_ended(run, session)

    def _tell_ended(self, run: str, session: int) -> None:
        if self._tell:
            (row,) = (row for row in self.sessions(run) if row.session == session)
            self._tell(lines.of_session(run, row))

    def _seal_session(self, run: str, session: int) -> None:
        database.seal(self._db, "sessions", "run = ? AND session = ?", run, session)

    # Reading

    def runs(self) -> list[RunRow]:
        """Every run whose row is whole, oldest first; `damaged` has the others."""
        rows = (row for row in self._runs().values() if isinstance(row, RunRow))
        return sorted(rows, key=lambda row: row.created_at)

    def heads(self) -> list[RunHead]:
        """Every run by only its id and name, oldest first. What is shown or measured of one is to
        be asked of `run`, which checks it."""
        with self._reading():
            rows = self._db.execute("SELECT id, experiment, name, created_at, origin FROM runs")
            results = [RunHead(*row) for row in rows if is_head(row)]
            return sorted(results, key=lambda head: head.created_at)

    def listed(
        self, experiment: str | None = None, most: int | None = None
    ) -> tuple[list[Listed], dict[str, str]]:
        """The newest `most` runs, or all, with how many samples each has and how its last session
        ended, oldest first; and those of them that are damaged, as far as that shows without
        reading every sample: what of them. Of a long run not even the count of samples is."""
        result, damaged = [], {}
        with self._reading():
            rows = self._runs(None if most is None else self._newest(experiment, most))
            some = [json.dumps([*rows])]
            expected = dict(self._db.execute(f"SELECT run, total(samples) {_SITTINGS}", some))
            last = self._db.execute(f"SELECT run, ended, max(session) {_SITTINGS}", some)
            ended = {run: how for run, how, _ in last}
            notes = self.notes()
            few = json.dumps([id for id in rows if expected.get(id, 0) <= _COUNTED])
            counts = dict(self._db.execute(_THERE, [few]))
            for id, row in rows.items():
                if isinstance(row, str):
                    damaged[id] = row
                    continue
                if experiment not in (None, row.experiment):
                    continue
                count = int(expected.get(id, 0))
                if lost := counts.get(id, count) - count:
                    damaged[id] = f"{abs(lost)} of its samples or sessions are lost"
                elif not how_ended(ended.get(id)):
                    damaged[id] = f"a session's ended is not {ended[id]!r:.60}"
                else:
                    result.append(Listed(row, count, ended.get(id), notes.get(id)))
        return sorted(result, key=lambda item: item.row.created_at), damaged

    def run_count(self, experiment: str | None = None) -> int:
        """How many runs there are, or of an experiment."""
        which, values = ("WHERE experiment = ?", [experiment]) if experiment else ("", [])
        with self._reading():
            return int(self._db.execute(f"SELECT count(*) FROM runs {which}", values).fetchone()[0])

    def _newest(self, experiment: str | None, most: int) -> list[str]:
        where = "WHERE experiment = ?" if experiment else ""
        query = f"SELECT id FROM runs {where} ORDER BY created_at DESC, rowid DESC LIMIT ?"
        values = [experiment, most] if experiment else [most]
        return [str(id) for (id,) in self._db.execute(query, values)]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """One state of a store that a sweep may be writing to."""
        try:
            self._db.execute("BEGIN")
            yield
        except sqlite3.Error as error:
            self._check_busy(error)
            raise StoreError(f"{self.path} is damaged: {error}") from None
        finally:
            with suppress(sqlite3.Error):  # nothing was written, and a damaged file may refuse
                self._db.execute("ROLLBACK")

    def notes(self) -> dict[str, str]:
        """By run, what a user noted of it. Where they cannot be read there are none: no number
        depends on them."""
        with suppress(sqlite3.Error):
            result = self._db.execute("SELECT run, CAST(substr(text, 1, 1000) AS BLOB) FROM notes")
            return {str(run): bytes(text or b"").decode(errors="replace") for run, text in result}
        return {}

    def find(self, wanted: str) -> RunRow:
        """A run by its id, the start of its id, its name, `last`, or as the newest run of an
        experiment by the experiment's name. What came from another host is its newest only
        by HOST:last and by HOST:EXPERIMENT: its clock is another one."""
        if not wanted:
            raise UnknownRun("a run's id or name is empty; `memlab runs` lists them")
        matches = []
        with suppress(StoreError):
            matches = _matching(self.heads(), wanted)
        whole = self._runs([matches[0].id]) if len(matches) == 1 else {}
        if isinstance(row := next(iter(whole.values()), None), RunRow):
            return row
        runs = self.runs()  # those that are whole, where one is not, and for what there is instead
        rest = _matching(runs, wanted)
        if len(rest) == 1:
            return rest[0]
        if rest:
            named = ", ".join(run.id for run in rest[:5])
            more = ", ..." if rest[5:] else ""
            raise UnknownRun(f"{wanted!r} fits {len(rest)} runs: {named}{more}")
        if wanted == "last" and (hosts := [run.origin for run in runs]):
            raise UnknownRun(
                f"no run of this host in {self.path}; all of them are from other hosts: "
                f"{hosts[-1]}:last"
            )
        if wanted in experiments.names():
            hosts = [run.origin for run in runs if run.experiment == wanted]
            what = f"; {hosts[-1]}:{wanted} is of another host" if hosts else ""
            raise UnknownRun(
                f"no run of {wanted} in {self.path}; `memlab sweep {wanted}` measures one, and "
                f"example:{wanted} is the recorded run{what}"
            )
        for id, why in self._runs().items():
            if isinstance(why, str) and wanted in ("last", id):
                with self._naming(id):
                    raise _Damaged(why)
        if not runs:
            raise UnknownRun(
                f"no run is in {self.path}: `memlab sweep mmap-write` measures one, and "
                "example:mmap-write is a recorded run"
            )
        known = [name for run in runs for name in (run.id, run.name, run.experiment) if name]
        hint = nearest(wanted, known, "`memlab runs` lists them")
        raise UnknownRun(f"no run {wanted!r} in {self.path}; {hint}")

    def run(self, id: str) -> RunRow | None:
        with self._naming(id):
            return next(self._rows(RunRow, "runs", "id = ?", id), None)

    def points(self, run: str) -> list[PointRow]:
        with self._naming(run):
            return self._points(run)

    def samples(self, run: str) -> Iterator[SampleRow]:
        """Every sample of a run in the order it was taken, one at a time. StoreError where one is
        changed, and at the end where some are missing."""
        with self._naming(run):
            yield from self._samples(run)

    def some_samples(self, run: str, ids: Sequence[int]) -> Iterator[SampleRow]:
        """The samples with these ids, in that order where they ascend. StoreError as of all."""
        with self._naming(run):
            where = "id IN (SELECT value FROM json_each(?)) AND +run = ? ORDER BY id"
            count = 0
            for row in self._rows(SampleRow, "samples", where, json.dumps(ids), run):
                count += 1
                yield row
            if count != len(ids):
                raise _Damaged(f"{len(ids) - count} of its samples are listed and not there")

    def columns(self, run: str, ids: Sequence[int]) -> Mapping[str, Sequence[Any]]:
        """What `some_samples` gives, as columns. StoreError as of all."""
        names = database.SAMPLE.split(", ")
        where = "id IN (SELECT value FROM json_each(?)) AND +run = ? ORDER BY id"
        read = f"SELECT {database.SAMPLE}, checksum FROM samples WHERE {where}"
        try:
            rows = self._db.execute(read, [json.dumps(ids), run]).fetchall()
            if len(rows) == len(ids) and database.samples_sealed(run, rows):
                columns = dict(zip([*names, "checksum"], zip(*rows, strict=True), strict=True))
                return {**checked_columns(columns), "id": sorted(ids)}
        except (sqlite3.Error, TypeError, ValueError, RecursionError):
            pass  # row by row it is slower, takes unusual JSON, and says which sample is damaged
        samples = [*self.some_samples(run, ids)]
        return {name: [getattr(sample, name) for sample in samples] for name in [*names, "id"]}

    def places(self, run: str) -> tuple[array[int], array[int]]:
        """The ids of a run's samples, and the point of each, in no order. StoreError where some are
        missing."""
        ids, at = array("q"), array("q")
        with self._naming(run):
            least = self._one(_EXPECTED, run)
            try:
                for some, points in self._places(run):
                    ids.extend(some)
                    at.extend(points)
            except (TypeError, OverflowError):
                raise _Damaged("a sample's point is not an integer below 2^63") from None
            self._check_count(run, least, len(ids))
            if lost := {*at} - {point.point for point in self._points(run)}:
                raise _Damaged(f"sample {ids[at.index(min(lost))]} is of no point")
        return ids, at

    def _places(self, run: str) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        try:
            result = self._db.execute("SELECT id, point FROM samples WHERE run = ?", [run])
            while rows := result.fetchmany(_AT_ONCE):
                ids, points = zip(*rows, strict=True)
                yield ids, points
        except sqlite3.Error as error:
            self._check_busy(error)
            raise _Damaged(str(error)) from None

    def taken(self, run: str) -> set[tuple[int, int]]:
        """The (block, point) pairs that have a sample."""
        return {(sample.block, sample.point) for sample in self.samples(run)}

    def sample_count(self, run: str) -> int:
        """How many samples a run has."""
        with self._naming(run):
            return int(self._one("SELECT count(*) FROM samples WHERE run = ?", run))

    def sessions(self, run: str) -> list[SessionRow]:
        with self._naming(run):
            return list(self._rows(SessionRow, "sessions", "run = ? ORDER BY session", run))

    # What is damaged

    def _check_busy(self, error: sqlite3.Error) -> None:
        """StoreBusy if another process has locked the store: it is not damaged by that."""
        if database.is_busy(error):
            raise StoreBusy(f"cannot read the store {self.path}: {error}") from None

    def damaged(self) -> dict[str, str]:
        """Each run of which something is lost or changed, and what."""
        results = {}
        for id, row in self._runs().items():
            try:
                if isinstance(row, str):
                    raise _Damaged(row)
                for table in ("points", "samples", "sessions"):
                    self._check(table, id)
            except _Damaged as error:
                results[id] = str(error)
        return results

    def _check(self, table: str, run: str) -> None:
        changed = f"total({database.CHECKSUMS[table]} IS NOT checksum)"
        if count := self._one(f"SELECT {changed} FROM {table} WHERE run = ?", run):
            raise _Damaged(f"{count:.0f} of its {table} are not as they were written")
        if table == "samples":
            lost = self._one(
                f"SELECT ({_EXPECTED}) - (SELECT count(*) FROM samples WHERE run = ?)", run, run
            )
            if lost:
                raise _Damaged(f"{abs(lost):.0f} of its samples or sessions are lost")

    @contextmanager
    def _naming(self, run: str) -> Iterator[None]:
        """Of a damaged store, say which runs are whole."""
        try:
            yield
        except _Damaged as error:
            damaged = self.damaged()
            whole = [id for id in self._runs() if id not in damaged]
            shown = ", ".join(whole[:5]) + (f" and {len(whole) - 5} more" if whole[5:] else "")
            others = f"whole are: {shown}" if whole else "no run is whole"
            raise StoreError(f"run {run} in {self.path} is damaged: {error}; {others}") from None

    def _runs(self, ids: Sequence[str] | None = None) -> dict[str, RunRow | str]:
        """By id: the run, or what is wrong with its row; all, or some. A broken table is read from
        both ends."""
        results: dict[str, RunRow | str] = {}
        some = "true" if ids is None else "id IN (SELECT value FROM json_each(?))"
        values = [] if ids is None else [json.dumps(ids)]
        for order in ("ASC", "DESC"):
            try:
                for id, row in self._each(
                    RunRow, "runs", f"{some} ORDER BY rowid {order}", *values
                ):
                    results[str(id)] = row
                break
            except _Damaged as error:
                results["?"] = str(error)
        return results

    def _points(self, run: str) -> list[PointRow]:
        return list(self._rows(PointRow, "points", "run = ? ORDER BY point", run))

    def _samples(self, run: str) -> Iterator[SampleRow]:
        points = {point.point for point in self._points(run)}
        rows = self._rows(SampleRow, "samples", "run = ? ORDER BY id", run)
        for row in self._counted(run, rows):
            if row.point not in points:
                raise _Damaged(f"sample {row.id} is of no point")
            yield row

    def _counted(self, run: str, rows: Iterable[Any]) -> Iterator[Any]:
        """The rows, of which there must be one a sample."""
        least = self._one(_EXPECTED, run)
        count = 0
        for row in rows:
            count += 1
            yield row
        self._check_count(run, least, count)

    def _check_count(self, run: str, least: float, count: int) -> None:
        if not least <= count <= self._one(_EXPECTED, run):  # a sweep may be adding some
            raise _Damaged("some of its samples or sessions are lost")

    def _rows(self, kind: type[Row], table: str, where: str, *values: object) -> Iterator[Row]:
        for id, row in self._each(kind, table, where, *values):
            if isinstance(row, str):
                raise _Damaged(f"{table[:-1]} {id}: {row}")
            yield row

    def _each(
        self, kind: type[Row], table: str, where: str, *values: object
    ) -> Iterator[tuple[object, Row | str]]:
        """Each row's number and itself, or what is wrong with it."""
        names = [field.name for field in fields(kind) if field.init]
        read = [_READ.get(name, name) for name in names]
        number = names.index("id") if "id" in names else 0
        try:
            rows = self._db.execute(
                f"SELECT {', '.join(read)}, {database.CHECKSUMS[table]}, checksum"
                f" FROM {table} WHERE {where}",
                values,
            )
            for *columns, now, sealed in rows:
                try:
                    if now != sealed:
                        raise ValueError("it is not as it was written")
                    yield columns[number], checked(kind, dict(zip(names, columns, strict=True)))
                except ValueError as error:
                    yield columns[number], str(error)
        except sqlite3.Error as error:
            self._check_busy(error)
            raise _Damaged(str(error)) from None

    def _one(self, statement: str, *values: object) -> Any:
        try:
            (result,) = self._db.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            self._check_busy(error)
            raise _Damaged(str(error)) from None
        return result


def _matching(runs: list[Named], wanted: str) -> list[Named]:
    """The runs that `find` is asked for, oldest first."""
    host, _, of_host = wanted.rpartition(":")
    if from_host := [run for run in runs if host and run.origin == host]:
        runs, wanted = from_host, of_host
    local = [run for run in runs if from_host or run.origin is None]
    if wanted == "last" and local:
        return local[-1:]
    exact = [run for run in runs if run.id == wanted] or [
        run for run in runs if run.name == wanted
    ][-1:]
    exact = exact or [run for run in local if experiments.short(run.experiment) == wanted][-1:]
    return exact or [run for run in runs if run.id.startswith(wanted)]


_SAMPLE = (
    "run, point, block, position, outcome, detail, started_at, trial_s, cpu, probe_hash, raw,"
    " context, checksum"
)
_COUNTS = (
    "SELECT run, count(*) FROM main.samples WHERE run IN (SELECT id FROM other.runs) GROUP BY 1"
)
_UNEVEN = (
    "SELECT r.id, (SELECT count(*) FROM main.samples WHERE run = r.id) AS here FROM other.runs r"
    " WHERE here IS NOT (SELECT total(samples) FROM main.sessions WHERE run = r.id)"
)
_AS_THERE = (
    "UPDATE main.sessions SET samples = coalesce((SELECT samples FROM other.sessions o"
    " WHERE o.run = :run AND o.session = main.sessions.session), 0) WHERE run = :run"
    " AND :count = (SELECT count(*) FROM other.samples WHERE run = :run)"
    " AND :count = (SELECT total(samples) FROM other.sessions WHERE run = :run)"
)
_LAST_HAS_ALL = (
    "UPDATE main.sessions SET samples = iif("
    "session = (SELECT max(session) FROM main.sessions WHERE run = :run), :count, 0)"
    " WHERE run = :run"
)
_MERGE = (
    "INSERT OR IGNORE INTO main.runs SELECT * FROM other.runs",
    "INSERT OR IGNORE INTO main.points SELECT * FROM other.points",
    f"INSERT OR IGNORE INTO main.samples ({_SAMPLE}) SELECT {_SAMPLE} FROM other.samples"
    " ORDER BY id",
    "INSERT INTO main.sessions SELECT * FROM other.sessions"
    " WHERE run IN (SELECT id FROM main.runs WHERE origin IS NOT NULL) ON CONFLICT DO UPDATE"
    " SET wall_s = max(wall_s, excluded.wall_s), ended = coalesce(excluded.ended, ended),"
    " samples = max(samples, excluded.samples)",
)


def _unlike(columns: str) -> str:
    return " OR ".join(f"a.{name} IS NOT b.{name}" for name in columns.split())


# Of what both stores have: what must not differ, and what is said where it does. A name is its
# owner's to change, and a detail is read no further than its start.
_DIFFERING: Sequence[tuple[str, Callable[..., str]]] = (
    (
        "SELECT id FROM other.runs a JOIN main.runs b USING (id) WHERE "
        + _unlike("experiment created_at seed memlab request environment"),
        lambda run: f"run {run} is there already, and is another one",
    ),
    (
        "SELECT run FROM (SELECT run, count(*) AS n FROM other.points GROUP BY run) a"
        " JOIN (SELECT run, count(*) AS n FROM main.points GROUP BY run) b USING (run)"
        " WHERE a.n IS NOT b.n UNION ALL "
        "SELECT run FROM other.points a JOIN main.points b USING (run, point) WHERE "
        + _unlike("control levels"),
        lambda run: f"run {run} is there already, and has other points",
    ),
    (
        "SELECT run, block, point FROM other.samples a JOIN main.samples b"
        f" USING (run, block, point) WHERE {_unlike('outcome started_at trial_s cpu raw context')}",
        lambda *found: _differing(*found),
    ),
    (
        "SELECT run FROM other.samples a JOIN main.runs r ON run = r.id AND r.origin IS NULL"
        " WHERE NOT EXISTS (SELECT 1 FROM main.samples b"
        " WHERE b.run = a.run AND b.block = a.block AND b.point = a.point)",
        lambda run: f"run {run} is this host's own, and it took no such sample",
    ),
)


def _differing(run: str, block: int, point: int) -> str:
    return (
        f"run {run} has another sample of block {block}, point {point} already: it was measured "
        "twice, or one of the two is changed"
    )


class _Damaged(Exception):
    """Something is lost or changed, and what."""


def _packed(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"))

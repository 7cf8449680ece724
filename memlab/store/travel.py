"""Rows on their way between stores: out of one as lines, and into another, checked.

What arrives is hostile until it is checked: it passes the checks of stored values, goes into a
store of its own first, and from there into the user's, all of it or nothing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from memlab.errors import BadExport, StoreError
from memlab.files import folders

from . import database, lines
from .rows import Listed, PointRow, RunRow, SampleRow, SessionRow, host_name
from .store import Store

Known = Mapping[str, tuple[int, str | None]]  # of a run: its samples, and how it ended

_TOGETHER = 500  # samples that are written in one transaction
_TOGETHER_CHARACTERS = 16 << 20  # of lines, which are in memory until then
_POINTS_MOST = 100_000  # of a run; all of them are in memory at once
_FREE_BYTES, _FREE_SHARE = 256 << 20, 0.05  # of a disk, that rows from elsewhere leave to others
_SQLITE = b"SQLite format 3\0"
_CUT = "it ends before its last row; --partial takes what is there"


def outgoing(store: Store, runs: Iterable[Listed], known: Known) -> Iterator[str]:
    """Lines of these runs, each without its first samples, as many as are known of it; a run of
    which all is known is left out. StoreError where one is damaged."""
    count = 0
    for item in runs:
        run, skip = item.row.id, known.get(item.row.id, (0, None))[0]
        if known.get(run) == (item.samples, item.ended):
            continue
        points, samples = store.points(run), enumerate(store.samples(run))
        yield lines.of_run(item.row, len(points), item.samples)
        yield from (lines.of_point(run, point) for point in points)
        for session in store.sessions(run):
            yield lines.of_session(run, replace(session, ended=None, samples=0))
            for number, sample in islice(samples, session.samples):
                if number >= skip:
                    count += 1
                    yield lines.of_sample(run, sample)
            yield lines.of_session(run, session)
        for _ in samples:  # what a sweep adds meanwhile goes the next time
            pass
    yield lines.of_end(count)


def known(store: Store) -> dict[str, tuple[int, str | None]]:
    """What a store has already, for `outgoing` of another."""
    return {item.row.id: (item.samples, item.ended) for item in store.listed()[0]}


@dataclass(frozen=True, slots=True)
class Taken:
    """What came in: by run its new samples, and how many it has where it comes from; how far the
    clock there is ahead of this host's, in s, as far as that shows; whether the last row came; and
    hosts of runs that keep their name, though another was given."""

    runs: Mapping[str, int]
    expected: Mapping[str, int]
    ahead_s: Mapping[str, float]
    whole: bool
    own_names: Sequence[str] = ()


class Arriving:
    """Lines from elsewhere, one after another, on their way into a store. `host` is where runs
    come from that name no other; else the name that the host gave itself. Of a `live` sweep a
    session has the samples that came, whatever it says of itself. `own` makes rows this host's own:
    those of its guests are. `check` raises ValueError for a run that is not wanted."""

    def __init__(
        self,
        store: Store,
        host: str | None = None,
        *,
        live: bool = False,
        own: Callable[[lines.Line], lines.Line] | None = None,
        check: Callable[[RunRow], None] | None = None,
    ) -> None:
        self._check = check
        self._waiting = self._unchecked = 0  # characters, since rows were stored, since a look
        self._store, self._host, self._live, self._own = store, host, live, own
        self.clock_s = 0.0  # how far its clock is ahead, where rows come as they are written
        self._run: RunRow | None = None
        self._points: list[PointRow] = []
        self._numbers: set[int] = set()
        self._missing = 0  # points of the run, after its own line
        self.session: SessionRow | None = None
        self._samples: list[SampleRow] = []
        self.runs: dict[str, int] = {}  # the new samples of each
        self.expected: dict[str, int] = {}
        self.seen = 0
        self.ended = False
        self.ahead_s: dict[str, float] = {}
        self._own_names: dict[str, None] = {}

    def take(self, line: str) -> lines.Line:
        """Take one line, and return what it says. ValueError and StoreError, in a line, where it is
        none or does not fit what came before or what is in the store."""
        try:
            run, row, counts = lines.read(line)
        except lines.Unknown as error:
            writer = error.writer or (self._run and self._run.memlab)
            wrote = f"; memlab {writer:.40} wrote it: upgrade memlab here" if writer else ""
            raise ValueError(f"{error}{wrote}") from None
        self._check_room(len(line))
        if self._own:
            row = self._own(row)
        if self.ended:
            self.ended, self.seen = False, 0  # files may be put one behind the other
        if self._missing and not isinstance(row, PointRow):
            raise ValueError(f"{self._missing} points of its run are missing before it")
        if isinstance(row, RunRow):
            self.flush()
            if self._check:
                self._check(row)
            if counts.points > _POINTS_MOST:
                raise ValueError(f"a run of more than {_POINTS_MOST:,} points")
            self._run, self._points, self.session = self._from(row), [], None
            self._missing = counts.points
            self.expected[run] = counts.samples
        elif isinstance(row, lines.End):
            self.flush()
            if row.samples != self.seen:
                raise ValueError(f"{self.seen} samples came before it, and it counts {row.samples}")
            self.ended = True
            return row
        elif self._run is None or run != self._run.id:
            raise ValueError(f"a row of run {run:.60} does not follow that run's own row")
        if isinstance(row, PointRow):
            if not self._missing:
                raise ValueError("more points than its run has")
            self._points.append(row)
            self._missing -= 1
        if isinstance(row, RunRow | PointRow) and not self._missing:
            self._add_run()
        if isinstance(row, SessionRow):
            self.flush()
            self.session = row
            self.flush()
            if row.ended is None:
                self.clock_s = row.started_at - time.time()
        if isinstance(row, SampleRow):
            self._add(row)
        return row

    def _check_room(self, characters: int) -> None:
        """ValueError if what comes takes the room that others need: on the disk, and in memory
        before it is there."""
        self._waiting += characters
        self._unchecked += characters
        if self._missing and self._waiting > _TOGETHER_CHARACTERS:
            raise ValueError(f"points of more than {_TOGETHER_CHARACTERS >> 20} MiB")
        if self._unchecked > _TOGETHER_CHARACTERS:
            self._unchecked = 0
            disk = shutil.disk_usage(self._store.path.parent)
            least = min(_FREE_BYTES, int(disk.total * _FREE_SHARE))
            if disk.free < least:
                raise ValueError(f"only {disk.free >> 20} MiB are free where {self._store.path} is")

    @property
    def interrupted(self) -> bool:
        """Whether the last session that came was interrupted."""
        return self.session is not None and self.session.ended == "interrupted"

    def taken(self, runs: Mapping[str, int]) -> Taken:
        return Taken(runs, self.expected, self.ahead_s, self.ended, [*self._own_names])

    def flush(self) -> None:
        """Bring what has come into the store."""
        self._waiting = 0
        if self._run and self.session:
            session = replace(self.session, samples=0) if self._live else self.session
            new = self._store.receive(self._run.id, session, self._samples)
            self.runs[self._run.id] = self.runs.get(self._run.id, 0) + new
            self._samples = []

    def _from(self, row: RunRow) -> RunRow:
        """The run with the host that it comes from."""
        if self._own:
            return row
        origin = row.origin or self._host or row.environment.get("host_name")
        if not host_name(origin):
            raise ValueError(f"run {row.id} names no host: --host NAME says which one it was")
        if self._host not in (None, origin):
            self._own_names[str(origin)] = None
        return replace(row, origin=origin)

    def _add_run(self) -> None:
        run = self._run
        assert run is not None
        self._numbers = {point.point for point in self._points}
        stored = self._store.run(run.id)
        if stored is None:
            self._store.add_run(run, self._points)
        elif stored.origin is None and not self._own:
            raise StoreError(f"run {run.id} is this host's own")
        elif replace(stored, name=run.name, origin=run.origin) != run:
            raise StoreError(f"run {run.id} is there already, and is another one")
        elif self._store.points(run.id) != self._points:
            raise StoreError(f"run {run.id} is there already, and has other points")
        self.runs.setdefault(run.id, 0)

    def _add(self, row: SampleRow) -> None:
        session = self.session
        if session is None:
            raise ValueError("a sample before its session")
        if row.point not in self._numbers:
            raise ValueError(f"a sample of point {row.point}, which its run does not have")
        # Of a session that is cut short nothing else says how long it lasted.
        lasted_s = row.started_at + row.trial_s - session.started_at
        self.session = replace(session, wall_s=max(session.wall_s, lasted_s))
        run = self._run
        assert run is not None
        ahead_s = row.started_at - time.time()
        self.ahead_s[run.id] = max(self.ahead_s.get(run.id, 0.0), ahead_s)
        self._samples.append(row)
        self.seen += 1
        if len(self._samples) >= _TOGETHER or self._waiting > _TOGETHER_CHARACTERS:
            self.flush()


class LineSource(Protocol):
    """What lines are read from: a file, or a link."""

    def readline(self, limit: int, /) -> bytes: ...


def take_in(
    store: Store,
    source: LineSource,
    name: str,
    host: str | None = None,
    *,
    partial: bool = False,
    turn: AbstractContextManager[object] | None = None,
) -> Taken:
    """Take rows in from a file or a stream; with `partial`, up to where it breaks off. `turn` is
    held while the store is written to, which others write to as well. BadExport
    with the line's number, StoreError where what is there already differs: nothing is taken."""
    with _staged() as path:
        try:
            arriving = stage(path, source, name, host, partial=partial)
        except BadExport as error:
            raise BadExport(f"{error}; nothing is imported") from None
        with turn or nullcontext():
            return arriving.taken(store.merge(path))


def stage(
    path: Path, source: LineSource, name: str, host: str | None = None, *, partial: bool = False
) -> Arriving:
    """Put rows into a new store of their own. BadExport with the line's number, where the source's
    `name` is said."""
    with Store(path, create=True) as result:
        arriving, number = Arriving(result, host), 0
        try:
            for number, line in enumerate(lines_of(source, partial=partial), 1):  # noqa: B007
                arriving.take(line)
            arriving.flush()
        except Exception as error:  # whatever lies in a file, nothing of it is taken
            raise BadExport(f"{name}, near line {number}: {error}") from None
    if not (arriving.ended or partial):
        raise BadExport(f"{name}: {_CUT if number else 'it is empty'}")
    return arriving


def take_store_in(store: Store, other: Path, host: str | None = None) -> Taken:
    """Take every run of another store in, which is left as it is. BadExport where a run of it is
    damaged; StoreError where what is there already differs. Then nothing is taken."""
    with ExitStack() as closing:
        path = closing.enter_context(_staged())
        foreign = closing.enter_context(Store(database.copied(other, closing)))
        stage = closing.enter_context(Store(path, create=True))
        arriving = Arriving(stage, host)
        runs, damaged = foreign.listed()
        try:
            for id, why in damaged.items():
                raise ValueError(f"run {id} is damaged: {why}")
            for line in outgoing(foreign, runs, {}):
                arriving.take(line)
        except Exception as error:  # as of a file
            raise BadExport(f"{other}: {error}; nothing is imported") from None
        return arriving.taken(store.merge(path))


def is_store(path: Path) -> bool:
    """Whether a file begins as SQLite's do. OSError for what is not a regular file."""
    if not database.check_file(path):
        raise FileNotFoundError(2, os.strerror(2), str(path))
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


@contextmanager
def _staged() -> Iterator[Path]:
    """Where a store may lie for a while, that nobody else sees."""
    with folders.temporary("import") as result:
        yield result / "rows.db"


def lines_of(source: LineSource, *, partial: bool) -> Iterator[str]:
    """With `partial`, a last line that is cut short is skipped."""
    while line := source.readline(lines.LONGEST + 1):
        if len(line) > lines.LONGEST:
            raise ValueError(f"it has more than {lines.LONGEST >> 20} MiB")
        if line.endswith(b"\n"):
            yield line[:-1].decode()
        elif not partial:
            raise ValueError(_CUT)

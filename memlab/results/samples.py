"""A run's samples as columns: how each one was taken, and the numbers derived from it.

The samples of a short run are held as they were read. Those of a long run are read once, point by
point, and only their columns are held; a figure or an evidence that wants samples reads them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from memlab.errors import StoreError
from memlab.experiment import At
from memlab.results import kept
from memlab.results.columns import Expression, Fields, Unreadable, evaluate
from memlab.store import RunRow, SampleRow, Store

IntArray = npt.NDArray[np.int64]

HELD = 5000  # samples of a run that are held in memory, some 25 kB each
_AT_ONCE = 1000  # samples that are read at once of a longer run
_WORDS = ("outcome", "detail", "probe_hash")  # a number for each that there is, -1 for None
_HEADS = {
    "id": np.int64,
    "point": np.int32,
    "block": np.int32,
    "position": np.int32,
    "started_at": np.float64,
    "trial_s": np.float64,
    "cpu": np.float64,  # nan where there is none
} | dict.fromkeys(_WORDS, np.int32)


def _taken(name: str) -> str:
    """The column of how a sample was taken; no metric's name has a blank."""
    return f"taken {name}"


def readings(sample: SampleRow) -> Mapping[str, Any] | None:
    """What metrics are read from: of a sample that is ok."""
    return sample.readings if sample.outcome == "ok" else None


@dataclass(frozen=True, slots=True)
class Derived:
    """A number derived from a sample: the expression, what it is in words, and what of the sample
    it is read from; nan where that is None."""

    expression: Expression
    what: str
    of: Callable[[SampleRow], Mapping[str, Any] | None] = readings


class Table:
    """The columns of all samples of a run, in the order they were taken."""

    def __init__(
        self, row: RunRow, store_path: Path, at: Mapping[int, At], derived: Mapping[str, Derived]
    ) -> None:
        self._row, self._path, self._at, self._derived = row, store_path, at, derived
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._words: dict[str, list[str]] = {name: [] for name in _WORDS}
        self._failed: dict[str, str] = {}
        self._held: Sequence[SampleRow] | None = None
        self._code = code = [one.expression for one in derived.values()]
        self.keeps = False  # whether what is made of all samples is worth keeping
        with Store(store_path) as store:
            if store.sample_count(row.id) <= HELD:
                self._hold(list(store.samples(row.id)))
                return
            self.keeps = True
            if found := kept.read(store_path, row.id, code):
                self._columns, self._words, self._failed = found
            else:
                self._read(store)
                kept.write(store_path, row.id, code, self._columns, self._words, self._failed)

    def __len__(self) -> int:
        return len(self._columns[_taken("id")])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A column. StoreError where a sample does not hold what it is read from."""
        if name not in self._columns:
            self._add({name: np.float64})
            for point, rows in self.by_point(np.arange(len(self))).items():
                self._derive([name], rows, [*self.rows(rows)], self._at[point])
        if name in self._failed:
            raise StoreError(self._failed[name])
        return self._columns[name]

    def coded(self, name: str, rows: IntArray) -> tuple[list[str | None], IntArray]:
        """Outcome, detail or probe_hash: what there is among these samples, in the order in which
        it came first, and which of it each one has."""
        numbers, first, which = np.unique(
            self._columns[_taken(name)][rows], return_index=True, return_inverse=True
        )
        order = np.argsort(first)
        there = [self._words[name][number] if number >= 0 else None for number in numbers[order]]
        return there, np.argsort(order)[which]

    def saying(self, change: Callable[[str], str]) -> Table:
        """The same columns, with the details of samples changed."""
        other = copy(self)
        other.keeps = False
        other._words = self._words | {"detail": [change(word) for word in self._words["detail"]]}
        return other

    def part(self, name: str) -> bytes | None:
        """What is kept of all samples under a name, as long as the store and the code are these."""
        return kept.part(self._path, self._row.id, self._code, name) if self.keeps else None

    def keep_part(self, name: str, content: bytes) -> None:
        if self.keeps:
            kept.write_part(self._path, self._row.id, self._code, name, content)

    def by_point(self, rows: IntArray) -> Mapping[int, IntArray]:
        """Which of these samples are each point's, in the order they were taken."""
        points = self._columns[_taken("point")][rows]
        order = np.argsort(points, kind="stable")
        found, starts = np.unique(points[order], return_index=True)
        parts = np.split(rows[order], starts[1:])
        there = {int(point): part for point, part in zip(found, parts, strict=False)}
        return {point: there.get(point, np.empty(0, np.int64)) for point in self._at}

    def rows(self, rows: IntArray) -> Iterator[SampleRow]:
        """These samples, one at a time."""
        if self._held is not None:
            yield from (self._held[row] for row in rows)
            return
        ids = self._columns[_taken("id")][rows]
        with Store(self._path) as store:
            for part in np.split(ids, range(_AT_ONCE, len(ids), _AT_ONCE)):
                yield from store.some_samples(self._row.id, part.tolist())

    def _add(self, kinds: Mapping[str, type], count: int | None = None) -> None:
        """Columns in which nothing stands yet."""
        for name, kind in kinds.items():
            self._columns[name] = np.empty(len(self) if count is None else count, kind)

    def _hold(self, samples: Sequence[SampleRow]) -> None:
        self._held = samples
        self._add({_taken(name): kind for name, kind in _HEADS.items()}, len(samples))
        self._fill(np.arange(len(samples)), samples)

    def _read(self, store: Store) -> None:
        places = np.fromiter(store.places(self._row.id), np.dtype("i8,i4"))
        places.sort()
        self._add({_taken(name): kind for name, kind in _HEADS.items()}, len(places))
        self._add(dict.fromkeys(self._derived, np.float64))
        self._columns[_taken("point")][:] = places["f1"]
        for point, rows in self.by_point(np.arange(len(self))).items():
            for part in np.split(rows, range(_AT_ONCE, len(rows), _AT_ONCE)):
                samples = [*store.some_samples(self._row.id, places["f0"][part].tolist())]
                self._fill(part, samples)
                self._derive(self._derived, part, samples, self._at[point])

    def _fill(self, rows: IntArray, samples: Sequence[SampleRow]) -> None:
        """Write how these samples were taken."""
        for name, kind in _HEADS.items():
            values = [getattr(sample, name) for sample in samples]
            if name in _WORDS:
                known: dict[str | None, int] = {None: -1}
                known |= {word: number for number, word in enumerate(self._words[name])}
                values = [known.setdefault(value, len(known) - 1) for value in values]
                self._words[name] = [word for word in known if word is not None]
            if name == "cpu":
                values = [np.nan if value is None else value for value in values]
            self._columns[_taken(name)][rows] = np.array(values, kind)

    def _derive(
        self, names: Iterable[str], rows: IntArray, samples: Sequence[SampleRow], at: At
    ) -> None:
        """Write what is derived from samples of a point, which has the levels `at`."""
        read: dict[Any, tuple[IntArray, Sequence[Mapping[str, Any]], Fields]] = {}
        for name in names:
            derived = self._derived[name]
            if derived.of not in read:
                found = [derived.of(sample) for sample in samples]
                there = np.flatnonzero([one is not None for one in found])
                kept = [one for one in found if one is not None]
                read[derived.of] = (there, kept, Fields(kept))
            there, values, fields = read[derived.of]
            column = np.full(len(rows), np.nan)
            try:
                column[there] = evaluate(derived.expression, values, fields, at)
            except Unreadable as error:
                self._failed.setdefault(
                    name,
                    f"run {self._row.id} in {self._path}: sample {samples[there[error.number]].id} "
                    f"does not hold what {derived.what} is read from ({error})",
                )
            self._columns[name][rows] = column


class Samples(Sequence[SampleRow]):
    """Some of a run's samples in the order they were taken, read where they are asked for."""

    def __init__(self, table: Table, rows: IntArray) -> None:
        self.table, self.rows = table, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[SampleRow]:
        return self.table.rows(self.rows)

    @overload
    def __getitem__(self, index: int) -> SampleRow: ...

    @overload
    def __getitem__(self, index: slice | IntArray | npt.NDArray[np.bool_]) -> Samples: ...

    def __getitem__(
        self, index: int | slice | IntArray | npt.NDArray[np.bool_]
    ) -> SampleRow | Samples:
        if isinstance(index, int):
            return next(self.table.rows(self.rows[[index]]))
        return Samples(self.table, np.asarray(self.rows[index], np.int64))

    def by_point(self) -> Mapping[int, Samples]:
        found = self.table.by_point(self.rows)
        return {point: Samples(self.table, rows) for point, rows in found.items()}

    @property
    def ids(self) -> list[int]:
        found: list[int] = self.taken("id").tolist()
        return found

    @property
    def outcomes(self) -> Counter[str]:
        """How many ended how, in the order in which they first came."""
        there, which = self.coded("outcome")
        counts = np.bincount(which, minlength=len(there)).tolist()
        return Counter({word or "": count for word, count in zip(there, counts, strict=True)})

    @property
    def details(self) -> tuple[str, ...]:
        """What trials that were not ok said, each once."""
        return tuple(filter(None, self.coded("detail")[0]))

    @property
    def probe_hashes(self) -> tuple[str, ...]:
        return tuple(filter(None, self.coded("probe_hash")[0]))

    def coded(self, name: str) -> tuple[list[str | None], IntArray]:
        """Of a column of words: what there is, in the order in which it came first, and which of
        it each sample has."""
        return self.table.coded(name, self.rows)

    def having(self, name: str) -> Samples:
        """Those that have a number in a column."""
        there: npt.NDArray[np.bool_] = ~np.isnan(self.column(name))
        return self[there]

    def values(self, name: str) -> Iterator[tuple[int, int, float]]:
        """The id, the block and the number in a column of each."""
        columns = (self.taken("id"), self.taken("block"), self.column(name))
        return zip(*(column.tolist() for column in columns), strict=True)

    def taken(self, name: str) -> npt.NDArray[Any]:
        """How they were taken: id, point, block, position, started_at, trial_s or cpu."""
        return self.column(_taken(name))

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column of the table, of these samples."""
        found: npt.NDArray[Any] = self.table[name][self.rows]
        return found

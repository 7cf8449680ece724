"""A run's samples as columns: how each one was taken, and the numbers derived from it.

Only the columns are in memory: each sample is read once for all of them, and again if a figure or
an evidence needs the sample itself.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from memlab.errors import StoreError
from memlab.experiment import At, Expression, Raw
from memlab.experiment.fields import Fields, Unreadable
from memlab.results.columns import evaluate
from memlab.store import RunRow, SampleRow, Store
from memlab.store.rows import readings

IntArray = npt.NDArray[np.int64]
Columns = Mapping[str, Sequence[Any]]  # some samples, as the store gives them
T = TypeVar("T")

_AT_ONCE = 2000  # samples that are read at once, some 25 kB each
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


def _how(name: str) -> str:
    """The column of how a sample was taken; no metric's name has a blank."""
    return f"taken {name}"


Of = Literal["ok", "any", "raw"]


@dataclass(frozen=True, slots=True)
class Derived:
    """A number derived from a sample: the expression, what it is in words, and what of the sample
    it is read from: its readings where it is `ok`, or however it ended (`any`), or only what
    the probe returned (`raw`). nan if it has none."""

    expression: Expression | Callable[[Any, At], Any]
    what: str
    of: Of = "ok"


class SampleTable:
    """The columns of all samples of a run, in the order they were taken."""

    def __init__(
        self, row: RunRow, store_path: Path, at: Mapping[int, At], derived: Mapping[str, Derived]
    ) -> None:
        self._row, self._path, self._at, self._derived = row, store_path, at, derived
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._words: dict[str, list[str]] = {name: [] for name in _WORDS}
        self._failed: dict[str, str] = {}
        with Store(store_path) as store, _uncollected():
            self._read(store)

    def __len__(self) -> int:
        return len(self._columns[_how("id")])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A column. StoreError where a sample does not hold what it is read from."""
        if name in self._failed:
            raise StoreError(self._failed[name])
        return self._columns[name]

    def coded(self, name: str, rows: IntArray) -> tuple[list[str | None], IntArray]:
        """Outcome, detail or probe_hash: what there is among these samples, in the order in which
        it came first, and which of it each one has."""
        coded = self._columns[_how(name)][rows]
        if len(coded) and (coded == coded[0]).all():  # in most points of most runs
            only = self._words[name][coded[0]] if coded[0] >= 0 else None
            return [only], np.zeros(len(coded), np.int64)
        numbers, first, which = np.unique(coded, return_index=True, return_inverse=True)
        order = np.argsort(first)
        distinct = [self._words[name][number] if number >= 0 else None for number in numbers[order]]
        return distinct, np.argsort(order)[which]

    def by_point(self, rows: IntArray) -> Mapping[int, IntArray]:
        """Which of these samples are each point's, in the order they were taken."""
        points = self._columns[_how("point")][rows]
        order = np.argsort(points, kind="stable")
        result, starts = np.unique(points[order], return_index=True)
        parts = np.split(rows[order], starts[1:])
        rows_of = {int(point): part for point, part in zip(result, parts, strict=False)}
        return {point: rows_of.get(point, np.empty(0, np.int64)) for point in self._at}

    def rows(self, rows: IntArray) -> Iterator[SampleRow]:
        """These samples, one at a time."""
        ids = self._columns[_how("id")][rows]
        with Store(self._path) as store:
            for part in np.split(ids, range(_AT_ONCE, len(ids), _AT_ONCE)):
                yield from store.some_samples(self._row.id, part.tolist())

    def unreadable(self, sample: int | None, what: str, error: Unreadable) -> str:
        """The line about a sample that another program wrote, or another memlab. It has the
        error's own text: an experiment of the user's may be what is wrong."""
        return (
            f"run {self._row.id} of {self._row.experiment} in {self._path}: sample {sample} does "
            f"not hold what {what} is read from, as this memlab's probe returns it ({error})"
            f"{self._row.writer}"
        )

    def _add(self, kinds: Mapping[str, type], count: int | None = None) -> None:
        """Columns in which nothing stands yet."""
        for name, kind in kinds.items():
            self._columns[name] = np.empty(len(self) if count is None else count, kind)

    def _read(self, store: Store) -> None:
        """Read all samples, some at a time, into columns."""
        ids, points = (np.frombuffer(column, np.int64) for column in store.places(self._row.id))
        order = np.argsort(ids)
        ids = ids[order]
        self._add({_how(name): kind for name, kind in _HEADS.items()}, len(ids))
        self._add(dict.fromkeys(self._derived, np.float64))
        self._columns[_how("point")][:] = points[order]
        for start in range(0, len(ids), _AT_ONCE):
            rows = np.arange(start, min(start + _AT_ONCE, len(ids)))
            some = ids[rows].tolist()
            columns = store.columns(self._row.id, some)
            self._fill(rows, columns)
            self._derive(self._derived, rows, columns)

    def _fill(self, rows: IntArray, samples: Columns) -> None:
        """Write how these samples were taken."""
        for name, kind in _HEADS.items():
            values = samples[name]
            if name in _WORDS:
                known: dict[str | None, int] = {None: -1}
                known |= {word: number for number, word in enumerate(self._words[name])}
                for word in dict.fromkeys(values):
                    known.setdefault(word, len(known) - 1)
                values = [*map(known.__getitem__, values)]
                self._words[name] = [word for word in known if word is not None]
            self._columns[_how(name)][rows] = np.array(values, kind)

    def _derive(self, names: Iterable[str], rows: IntArray, samples: Columns) -> None:
        """Write what is derived from samples."""
        both = [*map(readings, samples["raw"], samples["context"])]
        read: dict[Of, tuple[IntArray, Fields]] = {}
        levels = [self._at[p] for p in self._columns[_how("point")][rows].tolist()]
        for name in names:
            derived = self._derived[name]
            if derived.of not in read:
                read[derived.of] = _fields(derived.of, samples, both, levels)
            numbers, fields = read[derived.of]
            column = np.full(len(rows), np.nan)
            try:
                column[numbers] = evaluate(derived.expression, fields)
            except Unreadable as error:
                self._failed.setdefault(
                    name,
                    self.unreadable(samples["id"][numbers[error.number]], derived.what, error),
                )
            self._columns[name][rows] = column


def _fields(
    of: Of, samples: Columns, both: Sequence[Raw | None], at: Sequence[At]
) -> tuple[IntArray, Fields]:
    """The numbers of the samples that returned something to read, and what that is."""
    numbers = [
        number
        for number, raw in enumerate(samples["raw"])
        if raw is not None and (of != "ok" or samples["outcome"][number] == "ok")
    ]
    source = samples["raw"] if of == "raw" else both
    parts = [source[number] or {} for number in numbers]
    return np.array(numbers, np.int64), Fields(parts, [at[number] for number in numbers])


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for garbage: what a sample holds is a tree, and a look frees nothing of it
    and takes a fifth of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def ids_of(parts: Iterable[Samples]) -> IntArray:
    """Which rows of the store all of these are."""
    return np.concatenate([np.empty(0, np.int64), *(samples.ids for samples in parts)])


class Samples(Sequence[SampleRow]):
    """Some of a run's samples in the order they were taken, read where they are asked for."""

    def __init__(self, table: SampleTable, rows: IntArray) -> None:
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

    def read(self, function: Callable[[SampleRow], T], what: str) -> Iterator[T]:
        """What a function makes of the readings of each: an experiment's own, or one that takes
        them to be as a probe returns them. They may come from anybody: StoreError with whatever it
        raises. What it gives has to be of the kinds that the caller goes on with."""
        for sample in self:
            try:
                result = function(sample)
            except MemoryError:
                raise
            except Exception as error:
                text = self.table.unreadable(sample.id, what, Unreadable(0, error))
                raise StoreError(text) from error
            yield result

    def by_point(self) -> Mapping[int, Samples]:
        result = self.table.by_point(self.rows)
        return {point: Samples(self.table, rows) for point, rows in result.items()}

    @property
    def ids(self) -> IntArray:
        """Which rows of the store they are: as one array."""
        return self.taken("id")

    @property
    def outcomes(self) -> Counter[str]:
        """How many ended how, in the order in which they first came."""
        distinct, which = self.coded("outcome")
        counts = np.bincount(which, minlength=len(distinct)).tolist()
        return Counter({word or "": count for word, count in zip(distinct, counts, strict=True)})

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
        has_number: npt.NDArray[np.bool_] = ~np.isnan(self.column(name))
        return self[has_number]

    def values(self, name: str) -> Iterator[tuple[int, int, float]]:
        """The id, the block and the number in a column of each."""
        columns = (self.taken("id"), self.taken("block"), self.column(name))
        return zip(*(column.tolist() for column in columns), strict=True)

    def taken(self, name: str) -> npt.NDArray[Any]:
        """How they were taken: id, point, block, position, started_at, trial_s or cpu."""
        return self.column(_how(name))

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column of the table, of these samples."""
        result: npt.NDArray[Any] = self.table[name][self.rows]
        return result

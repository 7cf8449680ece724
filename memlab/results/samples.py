"""A run's samples as columns: how each one was taken, and the numbers derived from it.

The samples of a short run are held as they were read. Of a long run only the columns are held: each
sample is read once for all of them, and again where a figure or an evidence wants it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import msgspec
import numpy as np
import numpy.typing as npt

from memlab.errors import StoreError
from memlab.experiment import At, Level
from memlab.results.columns import Expression, Fields, Layer, Shapes, Unreadable, evaluate
from memlab.store import RunRow, SampleRow, Store

IntArray = npt.NDArray[np.int64]

HELD = 5000  # samples of a run that are held in memory, some 25 kB each
_AT_ONCE = 4000  # samples that are read at once of a longer run
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


Kind = TypeVar("Kind")
Of = Literal["ok", "any", "raw"]


@dataclass(frozen=True, slots=True)
class Derived:
    """A number derived from a sample: the expression, what it is in words, and what of the sample
    it is read from: its readings where it is `ok`, or however it ended (`any`), or what the probe
    alone returned (`raw`). nan where it has none."""

    expression: Expression
    what: str
    of: Of = "ok"


Read = tuple[IntArray, Sequence[Mapping[str, Any]], Fields]  # which samples, and what of them


class _Rows:
    """Samples of a point."""

    def __init__(self, samples: Sequence[SampleRow]) -> None:
        self._samples = samples

    def column(self, name: str) -> Sequence[Any]:
        return [getattr(sample, name) for sample in self._samples]

    def read(self, of: Of) -> Read:
        found = [_read(sample, of) for sample in self._samples]
        there = np.flatnonzero([one is not None for one in found])
        kept = [one for one in found if one is not None]
        return there, kept, Fields(kept)


def _read(sample: SampleRow, of: Of) -> Mapping[str, Any] | None:
    if of == "raw":
        return sample.raw or None
    return sample.readings if of == "any" or sample.outcome == "ok" else None


class _Columns:
    """The same of the columns that a store gives, all of one shape."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], shapes: tuple[Shapes, Shapes]) -> None:
        self._columns = columns
        self._there = np.flatnonzero([text is not None for text in columns["raw"]])
        self._texts = [
            [text for text in _of(columns[name], self._there) if text is not None]
            for name in ("raw", "context")
        ]
        self._parts = [
            known.read(texts) if texts else ()
            for known, texts in zip(shapes, self._texts, strict=True)
        ]
        self._layers = [Layer(part or ()) for part in self._parts]

    @property
    def whole(self) -> bool:
        """Whether all of them could be read, each with a context or none."""
        raw, context = self._parts
        return None not in (raw, context) and len(context or ()) in (0, len(self._there))

    def column(self, name: str) -> Sequence[Any]:
        return self._columns[name]

    def read(self, of: Of) -> Read:
        some = np.arange(len(self._there))
        if of == "ok":
            outcomes = _of(self._columns["outcome"], self._there)
            some = np.flatnonzero([outcome == "ok" for outcome in outcomes])
        texts = [_of(values, some) if values else () for values in self._texts]
        raw, context = (layer.some(some.tolist()) for layer in self._layers)
        if of == "raw":
            return self._there[some], _Readings(texts[0], ()), Fields(raw)
        return self._there[some], _Readings(*texts), Fields(raw, context)


def _of(values: Sequence[Kind], numbers: IntArray) -> Sequence[Kind]:
    """Some of the values, or the values themselves where it is all."""
    return values if len(numbers) == len(values) else [values[i] for i in numbers.tolist()]


class _Readings(Sequence[Mapping[str, Any]]):
    """What samples hold, read where it is asked for."""

    def __init__(self, raw: Sequence[str], context: Sequence[str]) -> None:
        self._raw, self._context = raw, context or ["{}"] * len(raw)
        self._known: dict[int, Mapping[str, Any]] = {}

    def __len__(self) -> int:
        return len(self._raw)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return _Readings(self._raw[index], self._context[index])
        if index not in self._known:
            decode = msgspec.json.decode
            self._known[index] = {**decode(self._raw[index]), **decode(self._context[index])}
        return self._known[index]


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
        with Store(store_path) as store:
            if store.sample_count(row.id, HELD + 1) <= HELD:
                self._hold(list(store.samples(row.id)))
            else:
                self._read(store)

    def __len__(self) -> int:
        return len(self._columns[_taken("id")])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A column. StoreError where a sample does not hold what it is read from."""
        if name not in self._columns:
            self._add({name: np.float64})
            for rows in self.by_point(np.arange(len(self))).values():
                self._derive([name], rows, _Rows([*self.rows(rows)]))
        if name in self._failed:
            raise StoreError(self._failed[name])
        return self._columns[name]

    def coded(self, name: str, rows: IntArray) -> tuple[list[str | None], IntArray]:
        """Outcome, detail or probe_hash: what there is among these samples, in the order in which
        it came first, and which of it each one has."""
        coded = self._columns[_taken(name)][rows]
        if len(coded) and (coded == coded[0]).all():  # in most points of most runs
            only = self._words[name][coded[0]] if coded[0] >= 0 else None
            return [only], np.zeros(len(coded), np.int64)
        numbers, first, which = np.unique(coded, return_index=True, return_inverse=True)
        order = np.argsort(first)
        there = [self._words[name][number] if number >= 0 else None for number in numbers[order]]
        return there, np.argsort(order)[which]

    def saying(self, change: Callable[[str], str]) -> Table:
        """The same columns, with the details of samples changed."""
        other = copy(self)
        other._words = self._words | {"detail": [change(word) for word in self._words["detail"]]}
        return other

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
        self._fill(np.arange(len(samples)), _Rows(samples))

    def _read(self, store: Store) -> None:
        """Read all samples, some at a time, and hold their columns alone."""
        ids, points = (np.frombuffer(column, np.int64) for column in store.places(self._row.id))
        order = np.argsort(ids)
        ids = ids[order]
        self._add({_taken(name): kind for name, kind in _HEADS.items()}, len(ids))
        self._add(dict.fromkeys(self._derived, np.float64))
        self._columns[_taken("point")][:] = points[order]
        shapes = Shapes(), Shapes()
        for alike in self._by_words(np.arange(len(self))):
            for rows in np.split(alike, range(_AT_ONCE, len(alike), _AT_ONCE)):
                some = ids[rows].tolist()
                columns = store.columns(self._row.id, some)
                found = _Columns(columns, shapes) if columns else None
                samples: _Rows | _Columns | None = found if found and found.whole else None
                samples = samples or _Rows([*store.some_samples(self._row.id, some)])
                self._fill(rows, samples)
                self._derive(self._derived, rows, samples)
        self._columns = {name: _packed(column) for name, column in self._columns.items()}

    def _fill(self, rows: IntArray, samples: _Rows | _Columns) -> None:
        """Write how these samples were taken."""
        for name, kind in _HEADS.items():
            values = samples.column(name)
            if name in _WORDS:
                known: dict[str | None, int] = {None: -1}
                known |= {word: number for number, word in enumerate(self._words[name])}
                for word in dict.fromkeys(values):
                    known.setdefault(word, len(known) - 1)
                values = [*map(known.__getitem__, values)]
                self._words[name] = [word for word in known if word is not None]
            self._columns[_taken(name)][rows] = np.array(values, kind)

    def _by_words(self, rows: IntArray) -> Iterator[IntArray]:
        """These samples in parts whose points differ in numbers alone: they are likely of one
        shape, and computed at once."""
        known: dict[Any, int] = {}
        kinds = {
            point: known.setdefault(tuple(_word(level) for level in at.values()), len(known))
            for point, at in self._at.items()
        }
        of_row = np.array([*kinds.values()])[
            np.searchsorted([*kinds], self._columns[_taken("point")][rows])
        ]
        for kind in range(len(known)):
            yield rows[of_row == kind]

    def _derive(self, names: Iterable[str], rows: IntArray, samples: _Rows | _Columns) -> None:
        """Write what is derived from samples."""
        read: dict[Of, tuple[Read, Fields]] = {}
        levels = Layer([self._at[p] for p in self._columns[_taken("point")][rows].tolist()])
        for name in names:
            derived = self._derived[name]
            if derived.of not in read:
                found = samples.read(derived.of)
                read[derived.of] = found, Fields(levels.some(found[0].tolist()))
            (there, values, fields), at = read[derived.of]
            column = np.full(len(rows), np.nan)
            try:
                column[there] = evaluate(derived.expression, values, fields, at)
            except Unreadable as error:
                self._failed.setdefault(
                    name,
                    f"run {self._row.id} in {self._path}: sample "
                    f"{samples.column('id')[there[error.number]]} does not hold what "
                    f"{derived.what} is read from ({error})",
                )
            self._columns[name][rows] = column


def _packed(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One number where all are the same, to the bit: a counter that never moved takes no memory."""
    bits = column.view(f"i{column.itemsize}")
    return np.broadcast_to(column[:1].copy(), len(column)) if (bits == bits[0]).all() else column


def ids_of(parts: Iterable[Samples]) -> IntArray:
    """Which rows of the store all of these are."""
    return np.concatenate([np.empty(0, np.int64), *(samples.ids for samples in parts)])


def _word(level: Level) -> Level | None:
    """A level; None of a number."""
    return None if type(level) in (int, float) else level


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
    def ids(self) -> IntArray:
        """Which rows of the store they are: as one array, since those of a run may be a million."""
        return self.taken("id")

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

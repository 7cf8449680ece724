"""Expressions over many samples at once: what is declared for one sample serves a million.

A metric's expression reads a sample's fields and computes. Given `Fields` instead of a sample it
reads arrays, and numpy computes. What depends on a sample's own shape (a branch that samples of one
point take differently, a list of unlike values) cannot be computed so, and is then computed sample
by sample. No expression has to know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from keyword import iskeyword
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from memlab.experiment import At

FloatArray = npt.NDArray[np.float64]
Expression = Callable[[Any, At], Any]

FOREIGN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
FEWEST = 32  # samples below which arrays are no faster
_LARGEST = 1e100  # and 1e-100 the least: what is made of two such numbers is finite
_EXACT = 2.0**53  # integers up to here are exact as floats
_PARTS = 4  # how often samples are parted by an expression's branches


class Uneven(Exception):
    """The samples differ in more than numbers: there is no one array to read. `parts` is what tells
    them apart, where they have to be computed in two parts."""

    def __init__(self, parts: npt.NDArray[np.bool_] | None = None) -> None:
        super().__init__()
        self.parts = parts


class Unreadable(Exception):
    """A sample, by its number, that another program wrote, or a memlab not yet known here."""

    def __init__(self, number: int, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.number, self.error = number, error


class Column(np.ndarray[Any, np.dtype[Any]]):
    """Numbers of many samples. It is true where all are, and false where none is."""

    def __bool__(self) -> bool:
        there = np.asarray(self) != 0
        if there.all():
            return True
        if there.any():
            raise Uneven(there)
        return False


Many = Sequence[Mapping[str, Any]] | Sequence[msgspec.Struct]  # objects, or all of one shape


class Layer:
    """Objects, one a sample, and what was read of them: `Fields` of the same samples share it."""

    def __init__(self, samples: Many) -> None:
        self.samples = samples
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """A field of all of them; KeyError where one has none of that name."""
        if name not in self._read:
            first = self.samples[0]
            if isinstance(first, msgspec.Struct):
                self._read[name] = _joined_of_shape(self.samples, name)  # type: ignore[arg-type]
            else:
                self._read[name] = _joined([sample[name] for sample in self.samples])  # type: ignore[index]
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        """Whether each has the field; Uneven where some have it."""
        if isinstance(self.samples[0], msgspec.Struct):
            return name in self.samples[0].__struct_fields__
        there = {name in sample for sample in self.samples}  # type: ignore[operator]
        if len(there) > 1:
            raise Uneven
        return there == {True}

    @property
    def names(self) -> Sequence[str]:
        """The names of the fields, in order; Uneven where they differ."""
        if isinstance(self.samples[0], msgspec.Struct):
            return self.samples[0].__struct_fields__
        first, *others = ([*sample] for sample in self.samples)  # type: ignore[misc]
        if any(names != first for names in others):
            raise Uneven
        return first

    def some(self, numbers: Sequence[int]) -> Layer:
        """Of some of the samples; itself where it is all, or nothing is there."""
        if len(self.samples) in (0, len(numbers)):
            return self
        return Layer([self.samples[i] for i in numbers])  # type: ignore[arg-type]


class Fields(Mapping[str, Any]):
    """The fields of many samples, as one sample's are read: numbers as a `Column`, objects as
    `Fields`, and what is the same in all of them as it is. `over` has fields of the same samples
    that go before theirs."""

    def __init__(self, samples: Many | Layer, over: Many | Layer = ()) -> None:
        layers = (one if isinstance(one, Layer) else Layer(one) for one in (over, samples))
        self._layers = [layer for layer in layers if len(layer.samples)]

    def __getitem__(self, name: str) -> Any:
        for layer in self._layers:
            if layer is self._layers[-1] or name in layer:
                return layer[name]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(name in layer for layer in self._layers)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401, it is what get is

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layer in self._layers for name in layer.names))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def one(self, number: int) -> Mapping[str, Any]:
        """What one sample has, where no fields lie over it."""
        found: Mapping[str, Any] = self._layers[0].samples[number]  # type: ignore[assignment]
        return found

    def some(self, numbers: Sequence[int]) -> Fields:
        """The fields of some of the samples."""
        found = Fields(())
        found._layers = [layer.some(numbers) for layer in self._layers]
        return found


class Shapes:
    """JSON objects read as types that are made from the first of their kind: in half the time, and
    a third of the memory, that dicts take."""

    def __init__(self) -> None:
        self._known: dict[Any, msgspec.json.Decoder[Any]] = {}
        self._last: msgspec.json.Decoder[Any] | None = None

    def read(self, texts: Sequence[str]) -> Sequence[msgspec.Struct] | None:
        """All of them; None where one has other fields than the first, or is no object."""
        with suppress(msgspec.MsgspecError):
            if self._last:
                return [*map(self._last.decode, texts)]
        for exact in (True, False):
            with suppress(msgspec.MsgspecError, RecursionError, ValueError):
                shape = _shape(msgspec.json.decode(texts[0]), exact)
                if not isinstance(shape, tuple):
                    return None
                if shape not in self._known:
                    self._known[shape] = msgspec.json.Decoder(_type_of(shape))
                found = [*map(self._known[shape].decode, texts)]
                self._last = self._known[shape]
                return found
        return None


def _shape(value: Any, exact: bool) -> Any:
    """The fields of an object, with theirs; of what is none, or cannot be one of a type, None, or
    int where it is one and the shape is to say so: what is known to be one is read faster."""
    if type(value) is int and exact:
        return int
    if not isinstance(value, dict) or not value or not all(map(_is_name, value)):
        return None
    return tuple((name, _shape(of, exact)) for name, of in value.items())


def _is_name(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name) and not name.startswith("_")


def _type_of(shape: Any) -> Any:
    if not isinstance(shape, tuple):
        return shape or Any
    fields = [(name, _type_of(of)) for name, of in shape]
    return msgspec.defstruct("Shape", fields, forbid_unknown_fields=True, gc=False)


def _joined_of_shape(samples: Sequence[msgspec.Struct], name: str) -> Any:
    """`_joined`, without looking at each value where their type says what it is."""
    if name not in samples[0].__struct_fields__:
        raise KeyError(name)
    kind, read = samples[0].__annotations__[name], attrgetter(name)
    if kind is int:
        with suppress(OverflowError):
            found = np.fromiter(map(read, samples), np.int64, len(samples))
            if (found == found[0]).all():
                return read(samples[0])
            if found.max() >= _EXACT or found.min() <= -_EXACT:
                raise Uneven
            return found.astype(float).view(Column)
    values = [*map(read, samples)]
    return _joined(values) if kind in (int, Any) else Fields(values)


def _joined(values: Sequence[Any]) -> Any:
    first, objects = values[0], isinstance(values[0], dict | msgspec.Struct)
    if not objects and values.count(first) == len(values):
        return first
    kinds = {*map(type, values)}
    if objects and len(kinds) == 1:
        return Fields(values)
    if not kinds <= {int, float}:
        raise Uneven
    found = np.array(values, dtype=float)
    if int in kinds and np.abs(found).max() >= _EXACT:
        raise Uneven
    return found.view(Column)


def evaluate(
    expression: Expression,
    samples: Sequence[Mapping[str, Any]],
    fields: Fields,
    at: Fields,
    parts: int = _PARTS,
) -> FloatArray:
    """An expression's value of each sample, shape (samples,), nan for None. `fields` are those of
    the samples, and `at` has the levels that each was taken at. Raises Unreadable where a sample
    does not hold what the expression reads."""
    try:
        if len(samples) >= FEWEST and (
            (found := _at_once(expression, samples, fields, at)) is not None
        ):
            return found
    except Uneven as uneven:
        if parts and uneven.parts is not None and uneven.parts.shape == (len(samples),):
            return _in_parts(expression, samples, fields, at, uneven.parts, parts - 1)
    found = np.empty(len(samples))
    for number, sample in enumerate(samples):
        try:
            found[number] = _one(expression, sample, at.one(number))
        except FOREIGN as error:
            raise Unreadable(number, error) from error
    return found


def _in_parts(
    expression: Expression,
    samples: Sequence[Mapping[str, Any]],
    fields: Fields,
    at: Fields,
    first: npt.NDArray[np.bool_],
    parts: int,
) -> FloatArray:
    """The same where an expression's branch takes some of the samples, and another the others."""
    found = np.empty(len(samples))
    for part in (first, ~first):
        numbers = np.flatnonzero(part).tolist()
        some = [samples[i] for i in numbers], fields.some(numbers), at.some(numbers)
        try:
            found[part] = evaluate(expression, *some, parts)
        except Unreadable as error:
            raise Unreadable(numbers[error.number], error.error) from error
    return found


def _one(expression: Expression, sample: Mapping[str, Any], at: At) -> float:
    """OverflowError, or TypeError, where a sample holds no number that could be measured."""
    value = expression(sample, at)
    if value is None:
        return float("nan")
    if value and not math.isnan(value) and not 1 / _LARGEST < abs(value) < _LARGEST:
        raise OverflowError(f"{value:g} is no measurement")
    return float(value + 0)


def _at_once(
    expression: Expression, samples: Sequence[Mapping[str, Any]], fields: Fields, at: Fields
) -> FloatArray | None:
    """None where the expression has to be asked sample by sample: it fails on arrays, or says
    something else of the first, the middle or the last sample (it took a mean over all). Uneven
    where two parts can be asked."""
    count = len(samples)
    try:
        with np.errstate(all="raise"):
            value = expression(fields, at)
        found = np.full(count, np.nan if value is None else np.asarray(value, dtype=float))
    except Uneven:
        raise
    except Exception:  # whatever it is, asking sample by sample raises it again or does not
        return None
    size = np.abs(found[~np.isnan(found) & (found != 0)])
    if ((size <= 1 / _LARGEST) | (size >= _LARGEST)).any():
        return None
    some = [0, count // 2, count - 1]
    alone = [_one(expression, samples[i], at.one(i)) for i in some]
    return found if np.array_equal(found[some], alone, equal_nan=True) else None

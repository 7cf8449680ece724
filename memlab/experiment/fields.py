"""The fields of many samples, for expressions: an array a field, with nan where there is none.

A field is read once for all expressions. What is computed of only some of the samples (a side of a
`when`) is asked of those: another's missing field is not an error of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from memlab.experiment.kinds import At, Level, Raw

Array = npt.NDArray[Any]  # of floats, of truths, or of whatever else lies in a field
FloatArray = npt.NDArray[np.float64]

_MISSING: Any = object()
_COUNTER = {"count", "error"}
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "max": np.maximum,
    "min": np.minimum,
}


class Evaluated(Protocol):
    """memlab.experiment.expressions.Expression, which imports no numpy."""

    def evaluate(self, fields: Fields) -> Any: ...


class Unreadable(Exception):
    """A sample, by its number, that another program wrote, or a memlab not yet known here."""

    def __init__(self, number: int, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.number, self.error = number, error


class Fields:
    """Samples, as readings and levels, of which `rows` are asked; all share what was read."""

    def __init__(self, readings: Sequence[Raw], at: Sequence[At]) -> None:
        self.readings, self.at = readings, at
        self._rows = np.arange(len(readings))
        self._lenient = False
        self._lists: dict[tuple[str, ...], Sequence[Any]] = {(): readings, ("at",): at}
        self._arrays: dict[tuple[str, ...], tuple[Array, bool]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def _some(self, rows: npt.NDArray[np.int64], *, lenient: bool) -> Fields:
        other = copy(self)
        other._rows, other._lenient = rows, lenient
        return other

    def read(self, path: tuple[str, ...]) -> Array:
        """A field's values; Unreadable where a sample has no such field."""
        if path not in self._arrays:
            self._arrays[path] = _array(self._list(path), path)
        array, incomplete = self._arrays[path]
        result: Array = array if len(self._rows) == len(array) else array[self._rows]
        if incomplete and len(lacking := np.flatnonzero([item is _MISSING for item in result])):
            if not self._lenient:
                raise Unreadable(int(self._rows[lacking[0]]), KeyError(path[-1]))
            return _array([None if item is _MISSING else item for item in result], ())[0]
        return result

    def _list(self, path: tuple[str, ...]) -> Sequence[Any]:
        if path not in self._lists:
            name, parts = path[-1], self._list(path[:-1])
            try:
                results = [part[name] for part in parts]
            except (LookupError, TypeError):
                results = [
                    part.get(name, _MISSING) if type(part) is dict else _MISSING for part in parts
                ]
            self._lists[path] = results
        return self._lists[path]

    def full(self, value: float) -> Array:
        return np.full(len(self), value, dtype=float)

    def numbers(self, values: Array) -> FloatArray:
        """Values that have to be numbers, or none."""
        if values.dtype != object:
            return values.astype(float, copy=False)
        result = np.full(len(self), np.nan)
        for number, value in enumerate(values):
            try:
                if value is not None:
                    result[number] = _number(value)
            except (TypeError, OverflowError) as error:
                raise Unreadable(int(self._rows[number]), error) from None
        return result

    def truth(self, values: Array) -> npt.NDArray[np.bool_]:
        if values.dtype == bool:
            return values
        if values.dtype == object:
            return np.array([bool(value) for value in values], bool)
        result: npt.NDArray[np.bool_] = (values != 0) & ~np.isnan(values)
        return result

    def binary(self, sign: str, first: Array, right: Array) -> Array:
        if sign == "and":
            return self.truth(first) & self.truth(right)
        if sign == "or":
            return self.truth(first) | self.truth(right)
        a, b = self.numbers(first), self.numbers(right)
        with np.errstate(all="ignore"):
            result: Array
            if sign == "/":
                result = np.divide(a, b, out=np.full(len(self), np.nan), where=b != 0)
            else:
                result = _BINARY[sign](a, b)
        return result

    def one_of(self, values: Array, wanted: Sequence[Level]) -> npt.NDArray[np.bool_]:
        if values.dtype == object:
            return np.array([value in wanted for value in values], bool)
        return np.isin(values, [float(item) for item in wanted if not isinstance(item, str)])

    def parted(
        self, met: npt.NDArray[np.bool_], then: Evaluated, otherwise: Evaluated | None
    ) -> FloatArray:
        result = np.full(len(self), np.nan)
        for rows, side in ((met, then), (~met, otherwise)):
            if side is not None and rows.any():
                some = self._some(self._rows[rows], lenient=self._lenient)
                result[rows] = some.numbers(side.evaluate(some))
        return result

    def or_(self, part: Evaluated, default: Evaluated | None) -> Array:
        some = self._some(self._rows, lenient=True)
        result: Array = part.evaluate(some)
        if default is None:
            return result
        numbers: FloatArray = some.numbers(result).copy()
        if (none := np.isnan(numbers)).any():
            others = self._some(self._rows[none], lenient=self._lenient)
            numbers[none] = others.numbers(default.evaluate(others))
        return numbers

    def each(self, function: Callable[..., float | None], of: Sequence[Array]) -> FloatArray:
        result = np.full(len(self), np.nan)
        columns, number = [_values(values) for values in of], 0
        try:
            for number, values in enumerate(zip(*columns, strict=True)):
                value = function(*values)
                result[number] = np.nan if value is None else float(value)
        except MemoryError:
            raise
        except Exception as error:  # whatever a function makes of a sample that is not as it reads
            raise Unreadable(int(self._rows[number]), error) from error
        return result


_NAMED_BY_OTHERS = ("at", "metrics")  # levels, and what a command's own metrics are called


def _array(values: Sequence[Any], path: tuple[str, ...]) -> tuple[Array, bool]:
    """A field's values as an array, and whether some are missing."""
    kinds = {*map(type, values)}
    if dict in kinds and next(v for v in values if type(v) is dict).keys() == _COUNTER:
        values = [v.get("count", _MISSING) if type(v) is dict else v for v in values]
        kinds = {*map(type, values)}
    if kinds <= {int, float, bool, type(None)}:
        try:
            result = np.array(values, dtype=float)
        except OverflowError:
            pass
        else:
            seconds = bool(path) and path[-1].endswith("_ns") and path[0] not in _NAMED_BY_OTHERS
            return (result * 1e-9 if seconds else result), False
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects, type(_MISSING) in kinds


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r:.60} is not a number")
    return float(value)


def _values(values: Array) -> list[Any]:
    result = values.tolist()
    return result if values.dtype == object else [None if item != item else item for item in result]


def value(expression: Evaluated, raw: Raw, at: At) -> float | None:
    """An expression's value of one sample, None where it has none. What reading a field raises."""
    fields = Fields([raw], [at])
    try:
        (result,) = fields.numbers(expression.evaluate(fields)).tolist()
    except Unreadable as error:
        raise error.error from None
    return None if result != result else result

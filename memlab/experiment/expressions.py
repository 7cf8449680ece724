"""What a metric is: an expression over the named fields of a sample, or of its point.

    F.window.elapsed_ns / F.call_count              seconds per call
    F.resident_bytes.where(thp="always")            none at points with other levels
    F.at.size / F.window.elapsed_ns                 bytes per second; `at` has the point's levels

A field that ends in `_ns` is read in seconds; of a counter (`count` beside `error`) its count is.
What has no value (a counter that is not there, a division by zero) gives none. Numbers are computed
for many samples at once, and of one sample where an expression is called as a function is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memlab.experiment.kinds import At, Level, Raw

if TYPE_CHECKING:
    from memlab.experiment.fields import Fields


class Expression(ABC):
    """Computed from fields; what it is made of are expressions and numbers."""

    __slots__ = ()

    def __add__(self, other: Expression | float) -> Expression:
        return _Binary("+", self, expression(other))

    def __radd__(self, other: float) -> Expression:
        return _Binary("+", expression(other), self)

    def __sub__(self, other: Expression | float) -> Expression:
        return _Binary("-", self, expression(other))

    def __rsub__(self, other: float) -> Expression:
        return _Binary("-", expression(other), self)

    def __mul__(self, other: Expression | float) -> Expression:
        return _Binary("*", self, expression(other))

    def __rmul__(self, other: float) -> Expression:
        return _Binary("*", expression(other), self)

    def __truediv__(self, other: Expression | float) -> Expression:
        return _Binary("/", self, expression(other))

    def __rtruediv__(self, other: float) -> Expression:
        return _Binary("/", expression(other), self)

    def __lt__(self, other: Expression | float) -> Expression:
        return _Binary("<", self, expression(other))

    def __le__(self, other: Expression | float) -> Expression:
        return _Binary("<=", self, expression(other))

    def __gt__(self, other: Expression | float) -> Expression:
        return _Binary(">", self, expression(other))

    def __ge__(self, other: Expression | float) -> Expression:
        return _Binary(">=", self, expression(other))

    def __and__(self, other: Expression) -> Expression:
        return _Binary("and", self, other)

    def __or__(self, other: Expression) -> Expression:
        return _Binary("or", self, other)

    def __invert__(self) -> Expression:
        return _Not(self)

    def __bool__(self) -> bool:
        raise TypeError(f"{self} is true of some samples: write .where(...), when(...), & or |")

    def __call__(self, raw: Raw, at: At) -> float | None:
        """Of one sample. The errors of evaluating a field that it does not have."""
        from memlab.experiment.fields import value

        return value(self, raw, at)

    def where(self, *conditions: Expression, **levels: Level | Sequence[Level]) -> Expression:
        """None where a condition is not met, or at points with other levels than these."""
        for name, level in levels.items():
            conditions += (_one_of(Field(("at", name)), level),)
        result = self
        for condition in reversed(conditions):
            result = _When(condition, result, None)
        return result

    def one_of(self, *values: Level) -> Expression:
        """Whether it is one of these."""
        return _OneOf(self, values)

    def or_(self, default: Expression | float) -> Expression:
        """Another where it has no value, or the sample no such field."""
        return _Or(self, expression(default))

    @property
    def optional(self) -> Expression:
        """None where the sample has no such field: older ones may not."""
        return _Or(self, None)

    @property
    def parts(self) -> Sequence[Expression]:
        """The expressions that it is made of."""
        return ()

    @abstractmethod
    def evaluate(self, fields: Fields) -> Any:
        """Its value of each sample."""


def fields_of(expression: Expression) -> Iterator[str]:
    """The path of each field that an expression reads, each once."""

    def walk(part: Expression) -> Iterator[str]:
        if isinstance(part, Field) and part._path:
            yield str(part)
        for inner in part.parts:
            yield from walk(inner)

    yield from dict.fromkeys(walk(expression))


def when(condition: Expression, then: Expression | float, otherwise: Any = None) -> Expression:
    """One expression where a condition is met, another (or none) where it is not."""
    return _When(condition, expression(then), None if otherwise is None else expression(otherwise))


def larger(first: Expression | float, other: Expression | float) -> Expression:
    return _Binary("max", expression(first), expression(other))


def smaller(first: Expression | float, other: Expression | float) -> Expression:
    return _Binary("min", expression(first), expression(other))


def each(name: str, function: Callable[..., float | None], *of: Expression) -> Expression:
    """A function of the values of these, sample by sample: for lists, histograms and words. It is
    `name` in a formula."""
    return _Each(name, function, of)


def expression(value: Expression | float) -> Expression:
    """A number as an expression; an expression as it is."""
    return value if isinstance(value, Expression) else _Number(value)


def _one_of(of: Expression, level: Any) -> Expression:
    return _OneOf(of, tuple(level) if isinstance(level, list | tuple | set) else (level,))


class Field(Expression):
    """A field by its path. `[...]` reads one whose name Python or an expression has for itself."""

    __slots__ = ("_path",)

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Field:
        if name.startswith("__"):
            raise AttributeError(name)
        return Field((*self._path, name))

    def __getitem__(self, name: str) -> Field:
        return Field((*self._path, name) if self._path else (*name.split("."),))

    def __str__(self) -> str:
        return ".".join(self._path) or "sample"

    def evaluate(self, fields: Fields) -> Any:
        return fields.read(self._path)


F = Field(())


class _Number(Expression):
    __slots__ = ("_value",)

    def __init__(self, value: float) -> None:
        self._value = value

    def __str__(self) -> str:
        value = self._value
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"

    def evaluate(self, fields: Fields) -> Any:
        return fields.full(self._value)


_RANK = {"or": 1, "and": 2, "<": 3, "<=": 3, ">": 3, ">=": 3, "+": 4, "-": 4, "*": 5, "/": 5}
_HIGHEST = 9


def _rank(part: Expression) -> int:
    if isinstance(part, _Binary):
        return _RANK.get(part._sign, _HIGHEST)
    return 0 if isinstance(part, _When) else 3 if isinstance(part, _OneOf) else _HIGHEST


def _inside(part: Expression, rank: int) -> str:
    return f"({part})" if _rank(part) < rank else str(part)


class _Binary(Expression):
    __slots__ = ("_left", "_right", "_sign")

    def __init__(self, sign: str, first: Expression, right: Expression) -> None:
        self._sign, self._left, self._right = sign, first, right

    def __str__(self) -> str:
        if self._sign not in _RANK:
            return f"{self._sign}({self._left}, {self._right})"
        rank = _RANK[self._sign]
        # a - (b - c), a / (b * c)
        right = _inside(self._right, rank + (self._sign in "-/"))
        return f"{_inside(self._left, rank)} {self._sign} {right}"

    @property
    def parts(self) -> Sequence[Expression]:
        return self._left, self._right

    def evaluate(self, fields: Fields) -> Any:
        return fields.binary(self._sign, self._left.evaluate(fields), self._right.evaluate(fields))


class _Not(Expression):
    __slots__ = ("_part",)

    def __init__(self, of: Expression) -> None:
        self._part = of

    def __str__(self) -> str:
        return f"not {_inside(self._part, _HIGHEST)}"

    @property
    def parts(self) -> Sequence[Expression]:
        return (self._part,)

    def evaluate(self, fields: Fields) -> Any:
        return ~fields.truth(self._part.evaluate(fields))


class _OneOf(Expression):
    __slots__ = ("_part", "_values")

    def __init__(self, of: Expression, values: Sequence[Level]) -> None:
        self._part, self._values = of, values

    def __str__(self) -> str:
        parts = [str(value) for value in self._values]
        return f"{self._part} is {' or '.join(parts)}"

    @property
    def parts(self) -> Sequence[Expression]:
        return (self._part,)

    def evaluate(self, fields: Fields) -> Any:
        return fields.one_of(self._part.evaluate(fields), self._values)


class _When(Expression):
    """Each side is asked only of those samples that it is for."""

    __slots__ = ("_condition", "_otherwise", "_then")

    def __init__(
        self, condition: Expression, then: Expression, otherwise: Expression | None
    ) -> None:
        self._condition, self._then, self._otherwise = condition, then, otherwise

    def __str__(self) -> str:
        otherwise = "" if self._otherwise is None else f" else {self._otherwise}"
        return f"{_inside(self._then, 1)} where {self._condition}{otherwise}"

    @property
    def parts(self) -> Sequence[Expression]:
        sides = self._condition, self._then, self._otherwise
        return [side for side in sides if side is not None]

    def evaluate(self, fields: Fields) -> Any:
        met = fields.truth(self._condition.evaluate(fields))
        return fields.parted(met, self._then, self._otherwise)


class _Or(Expression):
    __slots__ = ("_default", "_part")

    def __init__(self, of: Expression, default: Expression | None) -> None:
        self._part, self._default = of, default

    def __str__(self) -> str:
        if self._default is None:
            return str(self._part)
        return f"({self._part} or {self._default})"

    @property
    def parts(self) -> Sequence[Expression]:
        return (self._part,) if self._default is None else (self._part, self._default)

    def evaluate(self, fields: Fields) -> Any:
        return fields.or_(self._part, self._default)


class _Each(Expression):
    __slots__ = ("_function", "_name", "_parts")

    def __init__(
        self, name: str, function: Callable[..., float | None], of: Sequence[Expression]
    ) -> None:
        self._name, self._function, self._parts = name, function, of

    def __str__(self) -> str:
        return f"{self._name}({', '.join(map(str, self._parts))})"

    @property
    def parts(self) -> Sequence[Expression]:
        return self._parts

    def evaluate(self, fields: Fields) -> Any:
        return fields.each(self._function, [part.evaluate(fields) for part in self._parts])

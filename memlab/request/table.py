"""What an option of a sweep is: a field of `Request`, with all that the command line, Python, the
stored run and its JSON Schema say of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from numbers import Real
from operator import index
from pathlib import Path
from typing import Any

from memlab.errors import BadRequest, there_are
from memlab.text import units

TIME_MAX_S = 1e11  # the year 5138, or as long a duration


def _seconds(value: Any) -> Any:
    return units.parse_seconds(value) if isinstance(value, str) else value


def _share(value: Any) -> Any:
    """A number from 1 on could be meant either way."""
    if isinstance(value, str):
        return units.parse_percent(value)
    if value >= 1:
        raise ValueError(
            f"{value:g} may be meant as {value:g} % or as {value:.0%}: "
            f'write "{value:g}%" or {value / 100:g}'
        )
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"a whole number, not {value!r}")
    return index(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"True or False, not {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"text, not {value!r}")
    return value


def _cpus(value: Any) -> list[int]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"a list of whole numbers, not {value!r}")
    return [*map(_count, value)]


def _path(value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"a path, not {value!r}")
    return os.fspath(value)


@dataclass(frozen=True, slots=True)
class ValueKind:
    """What values an option takes: its name, its type in Python, what makes a value of what Python
    is given (ValueError says what is wrong), and how a value is printed."""

    name: str
    python: str
    read: Callable[[Any], Any] = lambda value: value
    show: Callable[[Any], str] = str


def _number(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What reads a number, or text that has a unit."""

    def checked(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | Real):
            raise ValueError(f"a number, or text with its unit, not {value!r}")
        return read(value)

    return checked


SECONDS = ValueKind("seconds", "float | str", _number(_seconds), lambda value: f"{value:g} s")
SHARE = ValueKind("share", "float | str", _number(_share), lambda value: f"{value:.0%}")
COUNT = ValueKind("count", "int", _count)
FLAG = ValueKind("flag", "bool", _flag)
TEXT = ValueKind("text", "str", _text)
CHOICE = ValueKind("choice", "str")
CPUS = ValueKind("cpus", "Sequence[int]", _cpus)
PATH = ValueKind("path", "str | Path", _path)
WHOLE_PATH = ValueKind("path", "str | Path", lambda value: str(Path(_path(value)).absolute()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option.

    `on` has its help on each command that takes it. A flag of `--no-...` turns off what is on; a
    `flag` without dashes is a setting of `--design`.
    `python` is its name in Python, if that is not the field's, and `doc` what is said of it there;
    `stored` is what the JSON Schema says of a run's, and `always` whether runs of all versions have
    it. A value lies from `least` to `most`, and above `above`; `is_a` says so.
    """

    field: str = ""
    default: Any
    kind: ValueKind
    flag: str
    on: Mapping[str, str]
    metavar: str = ""
    python: str = ""
    doc: str
    stored: str = ""
    always: bool = True
    choices: tuple[str, ...] = ()
    above: float = -inf
    least: float = -inf
    most: float = inf
    is_a: str = ""

    def read(self, value: Any) -> Any:
        """What Python was given, as a request has it. Raises BadRequest."""
        if value is None:
            return self.default
        try:
            return self.kind.read(value)
        except ValueError as error:
            raise BadRequest(f"{self.python}: {error}") from None

    def check(self, value: Any) -> None:
        """Raises BadRequest where a request cannot have this value."""
        if value is None and self.default is None:
            return
        if self.choices and value not in self.choices:
            raise BadRequest(f"no {self.python} {value!r}; {there_are(self.choices)}")
        # nan is in no range
        if self.is_a and not (self.least <= value <= self.most and value > self.above):
            raise BadRequest(f"{self.python} is {self.is_a}, not {self.kind.show(value)}")


def asked(default: Any, kind: ValueKind, flag: str, **settings: Any) -> Any:
    """A field of Request that is an option."""
    return field(
        default=default, metadata={"": Option(default=default, kind=kind, flag=flag, **settings)}
    )


def options_of(request: type) -> tuple[Option, ...]:
    """The options among a class's fields, in their order."""
    return tuple(
        replace(option, field=item.name, python=option.python or item.name)
        for item in fields(request)
        if (option := item.metadata.get(""))
    )

"""What a factor's levels are: how they are read, printed and passed to a probe.

The probe's field for a factor is the factor's name and the kind's suffix, so
`size` of kind BYTES is `size_bytes` in the C struct and no mapping is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlab.errors import NotBuilt, nearest
from memlab.text import units

Level = int | float | bool | str
At = Mapping[str, Level]  # one point: the level of every factor
Raw = Mapping[str, Any]  # what the probe returned, its window included


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of level. `parse` raises ValueError with a one-line message."""

    noun: str
    parse: Callable[[str], Level]
    format: Callable[[Level], str]
    cast: Callable[[Level], Level]
    suffix: str = ""
    to_field: Callable[[Level], Any] = lambda level: level
    levels: tuple[str, ...] | None = None  # every good level, where they can be listed

    @property
    def unit(self) -> str:
        """Of a level as a number: B, s or 1."""
        return {"_bytes": "B", "_ns": "s"}.get(self.suffix, "1")

    def check(self, level: Level) -> Level:
        """A level given as a Python value or as text, as the value that is stored."""
        return self.parse(level) if isinstance(level, str) else self.cast(level)


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise ValueError(f"{text!r} is not a count; write a whole number like 4")
    return value


def _flag(text: str) -> bool:
    words = {"yes": True, "true": True, "on": True, "1": True}
    words |= {"no": False, "false": False, "off": False, "0": False}
    if text.lower() not in words:
        raise ValueError(f"{text!r} is neither yes nor no")
    return words[text.lower()]


def _bytes_text(level: Level) -> str:
    return units.format_size(int(level))


def _whole(level: Level) -> int:
    if isinstance(level, bool) or level != int(level) or not 0 <= int(level) < 2**63:
        raise ValueError(f"{level!r} is not a whole number from 0 to 2**63 - 1")
    return int(level)


def _duration(level: Level) -> float:
    if isinstance(level, bool) or not 0 <= float(level) < float("inf"):
        raise ValueError(f"{level!r} is not a duration in seconds")
    return float(level)


BYTES = Kind("size", units.parse_size, _bytes_text, _whole, "_bytes")
SECONDS = Kind(
    "duration",
    units.parse_duration,
    lambda level: units.format_duration(float(level)),
    _duration,
    "_ns",
    to_field=lambda level: round(float(level) * 1e9),
)

FOUND = "found"  # of a path: the file that the system finds by itself


def _path(text: str) -> str:
    if text != FOUND and "/" not in text:
        raise ValueError(f"{text!r} is not a path; write one with a slash, such as ./{text}")
    return text if text == FOUND else str(Path(text).absolute())


COUNT = Kind("count", _count, str, _whole, "_count")
FLAG = Kind(
    "yes or no",
    _flag,
    lambda level: "yes" if level else "no",
    lambda level: _flag(str(level)),
    levels=("no", "yes"),
)
PATH = Kind(
    "path",
    _path,
    str,
    lambda level: _path(str(level)),
    to_field=lambda level: "" if level == FOUND else level,
)


def choice(*words: str) -> Kind:
    """A kind whose levels are words."""

    def parse(text: str) -> str:
        if text in words:
            return text
        hint = nearest(text, words, "")
        raise ValueError(
            f"invalid value {text!r}{'; ' if hint else ''}{hint} (choose from {', '.join(words)})"
        )

    return Kind("choice", parse, str, lambda level: parse(str(level)), levels=words)


ENUM = choice()  # a param that is an enum of C: Experiment fills in its levels


def enum_levels(probe: str, param: str) -> tuple[str, ...]:
    """The levels of a probe's param that is an enum of C, in the order of the enum.

    The build has written them to a data module, so the compiled probes are not loaded. Raises
    NotBuilt without that module, ValueError if the param is not an enum.
    """
    try:
        from memlab._built import ENUMS
    except ModuleNotFoundError:
        raise NotBuilt from None
    c_type = (params(probe) or {}).get(param, "")
    if not c_type.startswith("enum "):
        raise ValueError(f"probe {probe} has no param {param!r} that is an enum")
    return tuple(ENUMS[c_type.removeprefix("enum ")])


def result_fields(probe: str) -> Sequence[str] | None:
    """The path of each field of what a probe written in C returns. None where the probe is written
    in Python. Raises NotBuilt."""
    try:
        from memlab._built import FIELDS
    except ModuleNotFoundError:
        raise NotBuilt from None
    return FIELDS.get(probe)


def params(probe: str) -> Mapping[str, str] | None:
    """What a probe written in C takes: field to int, bool, str, array or `enum TAG`. None where
    the probe is written in Python. Raises NotBuilt."""
    try:
        from memlab._built import PARAMS
    except ModuleNotFoundError:
        raise NotBuilt from None
    return PARAMS.get(probe)

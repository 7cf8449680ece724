"""What a factor's levels are: how they are read, printed and passed to a probe.

The probe's field for a factor is the factor's name and the kind's suffix, so
`size` of kind BYTES is `size_bytes` in the C struct and no mapping is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from memlab import units

Level = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of level. `parse` raises ValueError with a one-line message."""

    noun: str
    parse: Callable[[str], Level]
    format: Callable[[Level], str]
    cast: Callable[[Level], Level]
    suffix: str = ""
    to_field: Callable[[Level], Level] = lambda level: level
    levels: tuple[str, ...] | None = None  # every good level, where they can be listed

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
        raise ValueError(f"{level!r} is no duration in seconds")
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
        raise ValueError(f"{text!r} is no path; write one with a slash, such as ./{text}")
    return text if text == FOUND else str(Path(text).absolute())


AUTO = "auto"  # of a range: the largest that the probe finds
_RANGE = re.compile(r"(?P<start>[^+-]+)(?P<sign>[+-])(?P<end>[^+-]+)")
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}")


def _address(text: str) -> int:
    return int(text, 16) if _HEX.fullmatch(text) else units.parse_size(text)


def _range(text: str) -> str:
    """As START+LENGTH in hexadecimal, whichever way it is written."""
    spelled = _RANGE.fullmatch(text)
    if text.strip() == AUTO:
        return AUTO
    try:
        if not spelled:
            raise ValueError
        start, end = (_address(spelled[name].strip()) for name in ("start", "end"))
    except ValueError:
        raise ValueError(
            f"{text!r} is no range of physical addresses; write START+LENGTH such as 1g+64m, or "
            "first and last byte as /proc/iomem does, 0x40000000-0x43ffffff"
        ) from None
    length = end if spelled["sign"] == "+" else end - start + 1
    if not 0 < length < 2**64 or start + length > 2**64:
        raise ValueError(f"{text!r} is no range: it is empty, or ends beyond the last address")
    return f"0x{start:x}+0x{length:x}"


PHYSICAL_RANGE = Kind(
    "physical range",
    _range,
    str,
    lambda level: _range(str(level)),
    to_field=lambda level: "" if level == AUTO else level,
)
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
    """A kind whose levels are words; the probe sees the enum constant of that name."""

    def parse(text: str) -> str:
        if text in words:
            return text
        near = get_close_matches(text, words, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"{text!r} is no level; {hint}levels: {', '.join(words)}")

    return Kind("choice", parse, str, lambda level: parse(str(level)), levels=words)

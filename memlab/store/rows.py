"""What the store holds, a row a dataclass. Times are Unix times, durations seconds."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import starmap
from operator import truediv
from typing import Any, NamedTuple, NoReturn, TypeVar

from memlab._version import __version__
from memlab.errors import BadLevels, BadRequest, UnknownExperiment
from memlab.request import OPTIONS, Option
from memlab.text.printable import printable

decode: Callable[[str], Any] = json.loads
with suppress(ImportError):  # a guest of another architecture has none
    import msgspec

    decode = msgspec.json.decode

Row = TypeVar("Row", "RunRow", "PointRow", "SampleRow", "SessionRow")


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as it was asked for. `origin` is the host that measured it; None for this one."""

    id: str
    experiment: str
    name: str | None
    created_at: str
    seed: int
    request: Mapping[str, Any]
    environment: Mapping[str, Any]
    memlab: str
    origin: str | None = None

    @property
    def writer(self) -> str:
        """How a line ends about a run that cannot be read: the version that wrote it, if that is
        another one."""
        if self.memlab == __version__:
            return ""
        return f"; memlab {printable(self.memlab)[:40]} wrote it, and this is memlab {__version__}"

    @contextmanager
    def naming_writer(self) -> Iterator[None]:
        """Around what an unknown experiment, factor or option is an error of."""
        try:
            yield
        except (UnknownExperiment, BadLevels, BadRequest) as error:
            raise type(error)(f"{error}{self.writer}") from None


class RunHead(NamedTuple):
    """What a run is found by, unchecked."""

    id: str
    experiment: str
    name: str | None
    created_at: str
    origin: str | None


@dataclass(frozen=True, slots=True)
class PointRow:
    point: int
    levels: Mapping[str, Any]
    control: str | None


def interquartile_mean(ordered: Sequence[float]) -> float:
    """Of the half in the middle: at each end a quarter of the values is left out, of 3 one."""
    out = (len(ordered) + 1) // 4
    return statistics.fmean(ordered[out : len(ordered) - out])


def readings(
    raw: Mapping[str, Any] | None, context: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """What metrics read of a sample. Where the window was taken in turns, its elapsed_ns is that of
    all its calls at the interquartile mean of the turns' times per call: a stall of the machine
    lies in some of them. `loop_ns` is the time that they all took."""
    if raw is None:
        return None
    both = {**raw, **context} if context else raw
    turns = raw.get("turns")
    if not isinstance(turns, dict):
        return both
    try:
        pairs = zip(turns["elapsed_ns"], turns["call_count"], strict=True)
        per_call = interquartile_mean(sorted(starmap(truediv, pairs)))
        elapsed_ns = round(per_call * (sum(turns["call_count"]) + turns["lead_call_count"]))
        loop = {"loop_ns": raw["window"]["elapsed_ns"]}
        typical = {**raw["window"], "elapsed_ns": elapsed_ns}
    except (LookupError, TypeError, ValueError, ArithmeticError):  # of another program
        return both
    return {**both, **loop, "window": typical} if 0 <= elapsed_ns <= _INT_MAX else both


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One trial as it ended. `raw` is what the probe returned, None where it returned nothing.

    `context` is what was known beside the probe: `host`, what the host counted meanwhile;
    `contained`, the group that held the trial; `machine`, the virtual machine that it started;
    `layout`, which one of the probe's code lay in memory, from 0.
    None where no worker answered. `readings` is both in one, as metrics read it: see there.
    """

    point: int
    block: int
    position: int
    outcome: str
    detail: str | None
    started_at: float
    trial_s: float
    cpu: int | None
    probe_hash: str
    raw: Mapping[str, Any] | None
    context: Mapping[str, Any] | None = None
    id: int | None = None

    readings: Mapping[str, Any] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "readings", readings(self.raw, self.context))  # frozen


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One sitting of a run: its start (Unix time), its wall time, how it ended, its samples."""

    session: int
    started_at: float
    wall_s: float
    ended: str | None
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Listed:
    """A run as a list of runs has it. `ended` is None where its last session was cut short."""

    row: RunRow
    samples: int
    ended: str | None
    note: str | None = None


# What a stored value has to be: a store may come from anybody. Text is cut where it is shown.

CELLS_MAX = 1 << 24  # points times blocks, or sessions: a number for each is held at once
_COUNT_MAX = 1_000_000  # of points, and of blocks
_INT_MAX = 2**63 - 1  # what SQLite takes (sqlite.org/datatype3.html), and numpy
_TIME_MAX_S = 1e11  # the year 5138, or as long a duration
_DEPTH_MAX = 16  # of JSON in JSON
_TEXT_MAX = 10_000  # characters: a level may be a path


def _text(value: Any) -> bool:
    """A lone surrogate, which JSON can have, is in no UTF-8: nothing that is written can be it."""
    if not isinstance(value, str) or len(value) > _TEXT_MAX:
        return False
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _path(value: Any) -> bool:
    """Where a path's bytes are not UTF-8, os.fsdecode has lone surrogates for them; JSON keeps
    these."""
    return isinstance(value, str) and _text(
        "".join(c for c in value if not "\udc80" <= c <= "\udcff")
    )


def _count(most: int = _COUNT_MAX) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 0 <= value <= most


def _optional(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or good(value)


def _number(value: Any) -> bool:
    """One that a float and 64 bits can be: `math.isfinite` takes no larger integer."""
    if type(value) is int:
        return -_INT_MAX <= value <= _INT_MAX
    return type(value) is float and math.isfinite(value)


def _time(value: Any) -> bool:
    return _number(value) and abs(value) <= _TIME_MAX_S


def _cpu(value: Any) -> bool:
    """-1: not pinned to one."""
    return type(value) is int and -1 <= value <= _COUNT_MAX


def _id(value: Any) -> bool:
    """It becomes a part of file names."""
    return (
        isinstance(value, str)
        and re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}", value) is not None
    )


def measured(raw: Mapping[str, Any] | None) -> bool:
    """Whether the window of what a probe returned, if it has one, has times: whole nanoseconds that
    run forward."""
    window = (raw or {}).get("window")
    return not isinstance(window, dict) or all(
        _count(_INT_MAX)(value) for name, value in window.items() if name.endswith("_ns")
    )


def host_name(value: Any) -> bool:
    """What names the host that a run comes from: HOST or USER@HOST."""
    return (
        isinstance(value, str)
        and re.fullmatch(r"[0-9A-Za-z_][0-9A-Za-z_.:@-]{0,252}", value) is not None
    )


def how_ended(value: Any) -> bool:
    """A word, or None of a session that was cut short."""
    return value is None or _text(value)


def _level(value: Any) -> bool:
    return _text(value) or type(value) is bool or _number(value)


def _dict(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(good, value.values()))


def _list(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(good, value))


def _shallow(value: Any, depth: int = _DEPTH_MAX) -> bool:
    """Whether what was JSON is nested so little that it can be walked."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_shallow(part, depth - 1) for part in parts)


def _holding(**good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """An object in which these keys, where they are there, hold this."""
    return lambda value: (
        isinstance(value, dict)
        and _shallow(value)
        and all(check(value[name]) for name, check in good.items() if name in value)
    )


def _filesystem(value: Any) -> bool:
    return isinstance(value, dict) and _path(value.get("path")) and _text(value.get("type"))


def _cache(value: Any) -> bool:
    good = _holding(
        level=_optional(_count()), type=_optional(_text), size_bytes=_optional(_count(_INT_MAX))
    )
    return good(value) and "size_bytes" in value


_BY_KIND: Mapping[str, Callable[[Any], bool]] = {
    "choice": _text,
    "count": _count(_INT_MAX),
    "cpus": _list(_count()),
    "flag": lambda value: isinstance(value, bool),
    "path": _path,
    "seconds": _time,
    "share": _time,
    "text": _text,
}


def _option(option: Option) -> Callable[[Any], bool]:
    good = _BY_KIND[option.kind.name]
    return good if option.default is not None else _optional(good)


_REQUEST = _holding(
    **{option.field: _option(option) for option in OPTIONS},
    levels=_dict(_list(_level)),
    scaled=_dict(_text),
    guest=_optional(
        _holding(
            kernel=_text,
            memory_bytes=_count(_INT_MAX),
            cpus=_optional(_count()),
            append=_text,
            directory=_optional(_path),
        )
    ),
)
environment = _holding(  # what is read out of one; anything else is shown as it is
    filesystems=_dict(_filesystem),
    cpu_model=_optional(_text),
    kernel_release=_optional(_text),
    page_size_bytes=_optional(_count(_INT_MAX)),
    memory_total_bytes=_optional(_count(_INT_MAX)),
    swap_total_bytes=_optional(_count(_INT_MAX)),
    caches=_optional(_list(_cache)),
    numa_nodes=_optional(_list(_holding())),
    contents=_optional(_dict(_text)),
    mitigations=_optional(_dict(_optional(_text))),
)
_GOOD: Mapping[type, Mapping[str, Callable[[Any], bool]]] = {
    RunRow: {
        "id": _id,
        "experiment": _text,
        "name": _optional(_text),
        "created_at": _text,
        "seed": _count(_INT_MAX),
        "request": _REQUEST,
        "environment": environment,
        "memlab": _text,
        "origin": _optional(host_name),
    },
    PointRow: {"point": _count(), "levels": _dict(_level), "control": _optional(_text)},
    SampleRow: {
        "point": _count(),
        "block": _count(),
        "position": _count(),
        "outcome": _text,
        "detail": _optional(_text),
        "started_at": _time,
        "trial_s": _time,
        "cpu": _optional(_cpu),
        "probe_hash": _text,
        "raw": _optional(lambda value: isinstance(value, dict)),
        "context": _optional(lambda value: isinstance(value, dict)),
        "id": _count(_INT_MAX),
    },
    SessionRow: {
        "session": _count(),
        "started_at": _time,
        "wall_s": _time,
        "ended": how_ended,
        "samples": _count(_INT_MAX),
    },
}
_JSON = ("request", "environment", "levels", "raw", "context")
_OBJECTS = ("raw", "context")  # of a sample
_ALIKE = ("request", "environment")  # the same text in many runs: read once


def is_head(values: Sequence[Any]) -> bool:
    """Whether values are of the types of a RunHead's."""
    kinds = [*map(type, values)]
    optional = {str, type(None)}
    return kinds[0] is kinds[1] is kinds[3] is str and {kinds[2], kinds[4]} <= optional


def checked(kind: type[Row], values: Mapping[str, Any]) -> Row:
    """A row out of a store's columns. ValueError, in one line, where a value makes no sense."""
    fields = {}
    for name in _GOOD[kind]:
        read: Callable[[Any, str, Any], Any] = _alike if name in _ALIKE else _good
        fields[name] = read(kind, name, values[name])
    return kind(**fields)


def checked_columns(samples: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Columns of samples out of a store, their texts read. ValueError, TypeError or RecursionError
    if one is unusual: `checked` finds out which, and whether it makes sense."""
    whole = ("point", "block", "position")
    if not (
        all(
            {*map(type, samples[name])} == {int}
            and min(samples[name]) >= 0
            and max(samples[name]) <= _COUNT_MAX
            for name in whole
        )
        and all(map(_text, {*samples["outcome"], *samples["probe_hash"]}))
        and all(map(_optional(_text), {*samples["detail"]}))
        and all(
            {*map(type, samples[name])} == {float}
            and max(map(abs, samples[name])) <= _TIME_MAX_S  # SQLite keeps no nan
            for name in ("started_at", "trial_s")
        )
        and all(map(_optional(_cpu), {*samples["cpu"]}))
        and {*map(type, samples["raw"])} | {*map(type, samples["context"])} <= {str, type(None)}
    ):
        raise ValueError("a value of another type or size")
    objects = {name: [text and decode(text) for text in samples[name]] for name in _OBJECTS}
    if {type(item) for column in objects.values() for item in column} - {dict, type(None)}:
        raise ValueError("a text that is not an object's")
    return {**samples, **objects}


def _good(kind: type, name: str, value: Any) -> Any:
    if name in _JSON and isinstance(value, str):
        try:
            value = _decoded(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name}: {error}") from None
    if not _GOOD[kind][name](value):
        raise ValueError(f"{name} is not {value!r:.60}")
    return value


_alike = lru_cache(maxsize=64)(_good)


def _decoded(text: str) -> Any:
    """msgspec is five times as fast; json takes more: lone surrogates, numbers without bounds."""
    try:
        return decode(text)
    except (ValueError, RecursionError):
        return json.loads(text, parse_constant=_no_number)


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")

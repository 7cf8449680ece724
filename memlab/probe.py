"""Calls a probe: a dict of params in, a dict of what it measured out.

The only importer of the compiled module. A warm parent holds this module and nothing else, so
it imports no more than it must.
"""

from __future__ import annotations

import errno
import os

from memlab import _probes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_ffi = _probes.ffi
_lib = _probes.lib

_STATUS_WORDS = {_lib.PROBE_ERROR: "error", _lib.PROBE_UNAVAILABLE: "unavailable"}


class ProbeError(Exception):
    """A probe did not measure: which call said no, with which errno, at which line of C.

    `status` is "error", or "unavailable" where the kernel does not offer the call.
    """

    def __init__(
        self, name: str, status: str, call: str, errno_name: str, file: str, line: int
    ) -> None:
        super().__init__(name, status, call, errno_name, file, line)
        self.name = name
        self.status = status
        self.call = call
        self.errno_name = errno_name
        self.file = file
        self.line = line

    def __str__(self) -> str:
        return (
            f"probe {self.name}: {self.status}: {self.call}: {self.errno_name} "
            f"at {self.file}:{self.line}"
        )


def _text(chars: Any) -> str:
    """The str of a C string."""
    text: str = _ffi.string(chars).decode()
    return text


_INDEX = {_text(_lib.probe_name(i)): i for i in range(_lib.probe_count())}


def names() -> tuple[str, ...]:
    """The compiled probes, in alphabetical order."""
    return tuple(_INDEX)


def hash(name: str) -> str:
    """SHA-256 (hex) of the probe's source, what it includes, the compiler and its flags."""
    return _text(_lib.probe_hash(_index(name)))


def build() -> dict[str, str]:
    """The compiler and the flags that made the probes."""
    return {"compiler": _text(_lib.probe_compiler()), "flags": _text(_lib.probe_build_flags())}


def source_path(name: str) -> str:
    """The C file the probe was compiled from, as installed beside the compiled module."""
    _index(name)
    folder, _, _ = _probes.__file__.rpartition("/")
    return f"{folder}/probe_sources/{name}.c"


def params(name: str) -> dict[str, str | tuple[str, ...]]:
    """What a probe takes: field name to "int", "bool" or "str", or to an enum's levels."""
    return {field: _kind(c_field.type) for field, c_field in _fields(name)}


def call(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Runs the probe and returns its result struct as nested dicts, in the struct's own units.

    A counter is {"count": int, "error": None}, or {"count": None, "error": errno name} where
    the machine does not have it. A histogram is what memlab.histogram reads. A series is
    {"at_ns": [...], "values": [...], "lost": int}. Raises ProbeError
    where the probe did not measure, TypeError and ValueError where params do not fit the
    probe's struct.
    """
    kept: list[Any] = []
    arguments = _arguments(name, params, kept)
    c_params, c_result, c_failure = _signature(name)
    result = _ffi.new(c_result)
    failure = _ffi.new(c_failure)
    status = getattr(_lib, name)(
        _ffi.new(c_params, arguments) if arguments else _ffi.NULL, result, failure
    )
    if status != _lib.PROBE_OK:
        raise ProbeError(
            name,
            _STATUS_WORDS[status],
            _text(failure.call),
            _errno_name(failure.errno_value),
            _text(failure.file),
            failure.line,
        )
    measured: dict[str, Any] = _value(c_result.item, result[0])
    return measured


def keep_counters() -> str | None:
    """Makes the windows of this process and its later children open fast and see TLB flushes.

    Call it once, in the warm parent: it holds one stopped event of each kind, without which a
    window pays for the first of its kind every time. Returns None, or the name of the errno
    that tlb_remote_sent will show (counting it needs root).
    """
    failed = _lib.probe_counters_keep(_lib.probe_tlb_flush_id())
    return _errno_name(failed) if failed else None


def _index(name: str) -> int:
    if name not in _INDEX:
        raise ValueError(f"no probe {name!r}: the compiled probes are {', '.join(_INDEX)}")
    return _INDEX[name]


def _errno_name(value: int) -> str:
    return errno.errorcode.get(value, str(value))


def _signature(name: str) -> tuple[Any, Any, Any]:
    """The pointer types of a probe's entry: params, result, error."""
    _index(name)
    c_params, c_result, c_failure = _ffi.typeof(getattr(_lib, name)).args
    return c_params, c_result, c_failure


def _fields(name: str) -> list[tuple[str, Any]]:
    """(field name, cffi field) of a probe's params; none where its entry takes a void pointer."""
    c_struct = _signature(name)[0].item
    return [] if c_struct.kind == "void" else c_struct.fields


def _levels(enum: Any) -> dict[str, int]:
    """Level to value: PREFIX_LEVEL of `enum prefix` is named by its last part, in lower case."""
    prefix = len(enum.cname.removeprefix("enum ")) + 1
    return {constant[prefix:].lower(): value for value, constant in sorted(enum.elements.items())}


def _kind(c_type: Any) -> str | tuple[str, ...]:
    if c_type.kind == "enum":
        return tuple(_levels(c_type))
    if c_type.kind == "pointer":
        return "str"
    return "bool" if c_type.cname == "_Bool" else "int"


def _arguments(name: str, params: Mapping[str, Any], kept: list[Any]) -> dict[str, Any]:
    """The params as cffi takes them. C strings are appended to kept, which must outlive them."""
    fields = _fields(name)
    expected = [field for field, _ in fields]
    for field in params:
        if field not in expected:
            raise TypeError(f"probe {name}: no param {field!r}, it takes {', '.join(expected)}")
    for field in expected:
        if field not in params:
            raise TypeError(f"probe {name}: param {field!r} is missing")
    return {
        field: _argument(f"probe {name}: param {field!r}", c_field.type, params[field], kept)
        for field, c_field in fields
    }


def _argument(where: str, c_type: Any, value: Any, kept: list[Any]) -> Any:
    kind = _kind(c_type)
    if isinstance(kind, tuple):
        if value not in kind:
            raise ValueError(f"{where} is {value!r}, expected one of {', '.join(kind)}")
        return _levels(c_type)[value]
    if kind == "str":
        if not isinstance(value, (str, os.PathLike)):
            raise TypeError(f"{where} is {value!r}, expected a path")
        kept.append(_ffi.new("char[]", os.fsencode(value)))
        return kept[-1]
    if not isinstance(value, bool if kind == "bool" else int) or (
        kind == "int" and isinstance(value, bool)
    ):
        raise TypeError(f"{where} is {value!r}, expected {kind}")
    try:
        return _ffi.new(f"{c_type.cname} *", value)[0]
    except OverflowError:
        raise ValueError(f"{where} is {value!r}, which {c_type.cname} does not hold") from None


def _value(c_type: Any, value: Any) -> Any:
    """A field of a result as a Python value."""
    if c_type.kind == "struct":
        if c_type.cname == "struct probe_counter":
            return _counter(value)
        if c_type.cname == "struct probe_histogram":
            return _histogram(value)
        if c_type.cname == "struct probe_series":
            return _series(value)
        if c_type.cname == "struct probe_attribution":
            return _attribution(value) if value.traced else None
        return {
            field: _value(c_field.type, getattr(value, field)) for field, c_field in c_type.fields
        }
    if c_type.kind == "array":
        if c_type.item.cname == "char":
            return _text(value)
        return [_value(c_type.item, item) for item in value]
    return value


def _counter(counter: Any) -> dict[str, int | str | None]:
    if counter.error:
        return {"count": None, "error": _errno_name(counter.error)}
    return {"count": counter.count, "error": None}


def _histogram(histogram: Any) -> dict[str, Any]:
    """Only the buckets that hold something: a point's latencies span a few dozen of them."""
    counts = _ffi.unpack(histogram.bucket_counts, _lib.PROBE_HISTOGRAM_BUCKET_COUNT)
    return {
        "total": histogram.total_count,
        "min_ns": histogram.min_ns,
        "max_ns": histogram.max_ns,
        "buckets": [[index, count] for index, count in enumerate(counts) if count],
    }


def _series(series: Any) -> dict[str, Any]:
    """Only what was added."""
    return {
        "at_ns": _ffi.unpack(series.at_ns, series.count),
        "values": _ffi.unpack(series.values, series.count),
        "lost": series.lost_count,
    }


_CAUSES = [
    cause
    for cause, value in sorted(
        _levels(_ffi.typeof("enum probe_cause")).items(), key=lambda pair: pair[1]
    )
    if value < _lib.PROBE_CAUSE_COUNT
]


def _attribution(found: Any) -> dict[str, Any]:
    """Causes by name; of an operation only those that it met."""
    return {
        "operations": found.operation_count,
        "records": found.record_count,
        "lost": _counter(found.lost_count),
        "events": dict(zip(_CAUSES, map(_counter, found.events), strict=True)),
        "tails": [_tail(tail) for tail in found.tails],
        "examples": [_example(found.examples[i]) for i in range(found.example_count)],
    }


def _tail(tail: Any) -> dict[str, Any]:
    told = {
        field: getattr(tail, field) for field, _ in _ffi.typeof(tail).fields if field != "causes"
    }
    return told | {
        "causes": {
            cause: _value(_ffi.typeof(met), met)
            for cause, met in zip(_CAUSES, tail.causes, strict=True)
            if met.met_count
        }
    }


def _example(example: Any) -> dict[str, Any]:
    inside_ns = zip(_CAUSES, example.inside_ns, strict=True)
    return {
        "held_ns": example.held_ns,
        "latency_ns": example.latency_ns,
        "cpu": example.cpu,
        "inside_ns": {cause: time_ns for cause, time_ns in inside_ns if time_ns},
    }

"""Calls a probe: a dict of params in, a dict of what it measured out.

The only importer of the compiled module. The fork server holds little more than this module, so it
imports no more than it must; a Python probe is imported by the worker that runs it.
"""

from __future__ import annotations

import errno
import os
import sys

from memlab import _probes
from memlab._built import COMPILER, ENUMS, FLAGS, HASHES
from memlab.files import python_probes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_ffi = _probes.ffi
_lib = _probes.lib

_STATUS_WORDS = {_lib.PROBE_ERROR: "error", _lib.PROBE_UNAVAILABLE: "unavailable"}


class ProbeError(Exception):
    """A probe did not measure: which call failed, with which errno, at which line of its file.

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


_PYTHON = python_probes.paths()


class Failed(OSError):
    """Raised by a Python probe: what failed, with which errno; `status` is as in ProbeError."""

    def __init__(self, call: str, number: int, status: str = "error") -> None:
        super().__init__(number, call)
        self.call, self.status = call, status


class Window:
    """The window of a Python probe: a context, and afterwards `measured`, as a C probe has it."""

    def __enter__(self) -> Window:
        self.started_ns: int = _lib.probe_window_open()
        return self

    def __exit__(self, *_: object) -> None:
        closed = _ffi.new("struct probe_window *")
        _lib.probe_window_close(closed)
        self.measured: dict[str, Any] = _value(_ffi.typeof("struct probe_window"), closed[0])


def names() -> tuple[str, ...]:
    """The probes, in alphabetical order."""
    return tuple(sorted([*HASHES, *_PYTHON]))


def hash(name: str) -> str:
    """SHA-256 (hex) of all C that the probe is made of, the compiler and its flags; of a Python
    probe its modules and the interpreter."""
    if name not in _PYTHON:
        return HASHES[_known(name)]
    from hashlib import sha256

    text = sha256()
    for path in python_probes.sources(_PYTHON[name]):
        with open(path, "rb") as source:
            text.update(source.read())
    text.update(sys.version.encode())
    return text.hexdigest()


def build() -> dict[str, str]:
    """The compiler and the flags that made the probes."""
    return {"compiler": COMPILER, "flags": FLAGS}


def params(name: str) -> dict[str, Any]:
    """What a probe takes: field name to "int", "bool" or "str", or to an enum's levels.

    A struct is a dict of its fields, and an array a list of its one kind of item.
    """
    if name in _PYTHON:
        return dict(_python(name).Params.__annotations__)
    return {field: _kind(c_field.type) for field, c_field in _fields(name)}


def call(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Runs the probe and returns its result struct as nested dicts, in the struct's own units.

    A counter is {"count": int, "error": None}, or {"count": None, "error": errno name} where
    the machine does not have it. A histogram is what memlab.analysis.histogram reads. A series is
    {"at_ns": [...], "values": [...], "lost": int}. Raises ProbeError
    where the probe did not measure, TypeError and ValueError where params do not fit the
    probe's struct.
    """
    if name in _PYTHON:
        return _call_python(name, params)
    buffers: list[Any] = []
    arguments = _arguments(name, params, buffers)
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


def _module(name: str) -> str:
    """The name of a Python probe's module."""
    return _PYTHON[name].removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _python(name: str) -> Any:
    """A Python probe's module."""
    from importlib import import_module

    return import_module(_module(name))


def _call_python(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    module, kinds = _python(name), params(name)
    _check_names(name, values, list(kinds))
    for field, kind in kinds.items():
        _check_type(f"probe {name}: param {field!r}", kind, values[field])
    try:
        measured: dict[str, Any] = module.measure(module.Params(**values))
    except OSError as failed:
        from traceback import extract_tb

        frame = [at for at in extract_tb(failed.__traceback__) if at.filename == module.__file__][
            -1
        ]
        raise ProbeError(
            name,
            getattr(failed, "status", "error"),
            getattr(failed, "call", frame.line or ""),
            _errno_name(failed.errno or 0),
            _PYTHON[name],
            frame.lineno or 0,
        ) from None
    return measured


class Relay:
    """Processes of this one that take turns: see probes/support/relay.h."""

    def __init__(self, count: int, seed: int) -> None:
        """Open it, before the runners are forked; OSError where that fails."""
        self._relay = _lib.probe_relay_open(count, seed)
        if self._relay == _ffi.NULL:
            raise OSError(_ffi.errno, f"a relay of {count}: {os.strerror(_ffi.errno)}")

    def join(self, index: int, news: int, *, shares_file: bool) -> None:
        """This process is the runner `index`, which writes a byte to `news` when it is parked. The
        last one whose turns are over writes another. It goes over a file that all share again and
        again, or over one of its own once."""
        _lib.probe_relay_join(self._relay, index, news, shares_file)

    def start(self) -> bool:
        """Begin; whether all turns are over: no runner is left."""
        over: bool = _lib.probe_relay_start(self._relay)
        return over

    def drop(self, index: int) -> bool:
        """A runner has died, or never parked; whether all turns are over."""
        over: bool = _lib.probe_relay_drop(self._relay, index)
        return over

    def release(self, index: int) -> None:
        """Let a runner whose turns are over go on."""
        _lib.probe_relay_release(self._relay, index)

    def close(self) -> None:
        _lib.probe_relay_close(self._relay)


def bind(name: str) -> None:
    """Makes the types of a probe's params and result, which cffi else makes at its first call."""
    kinds = params(name)  # of a Python probe this imports the module
    if name not in _PYTHON and kinds is not None:
        for c_type in _signature(name):
            if c_type.item.kind != "void":
                _ffi.new(c_type)


def prewarm_perf() -> str | None:
    """Makes the windows of this process and its later children open fast and see TLB flushes.

    Call it once, in the fork server: it holds one stopped event of each kind, without which a
    window pays for the first of its kind every time. Returns None, or the name of the errno
    that tlb_remote_sent will show (counting it needs root).
    """
    failed = _lib.probe_perf_prewarm()
    return _errno_name(failed) if failed else None


def _known(name: str) -> str:
    if name not in HASHES:
        raise ValueError(f"no probe {name!r}: the probes are {', '.join(names())}")
    return name


def _errno_name(value: int) -> str:
    return errno.errorcode.get(value, str(value))


def _signature(name: str) -> tuple[Any, Any, Any]:
    """The pointer types of a probe's entry: params, result, error."""
    c_params, c_result, c_failure = _ffi.typeof(getattr(_lib, _known(name))).args
    return c_params, c_result, c_failure


def _fields(name: str) -> list[tuple[str, Any]]:
    """(field name, cffi field) of a probe's params; none where its entry takes a void pointer."""
    c_struct = _signature(name)[0].item
    return [] if c_struct.kind == "void" else c_struct.fields


def _levels(enum: Any) -> dict[str, int]:
    """Level to value."""
    return ENUMS[enum.cname.removeprefix("enum ")]


def _kind(c_type: Any) -> Any:
    if c_type.kind == "array":
        return [_kind(c_type.item)]
    if c_type.kind == "struct":
        return {field: _kind(c_field.type) for field, c_field in c_type.fields}
    if c_type.kind == "enum":
        return tuple(_levels(c_type))
    if c_type.kind == "pointer":
        return "str"
    return "bool" if c_type.cname == "_Bool" else "int"


def _arguments(name: str, params: Mapping[str, Any], buffers: list[Any]) -> dict[str, Any]:
    """The params as cffi takes them. C strings are appended to kept, which must outlive them."""
    fields = _fields(name)
    _check_names(name, params, [field for field, _ in fields])
    return {
        field: _argument(f"probe {name}: param {field!r}", c_field.type, params[field], buffers)
        for field, c_field in fields
    }


def _check_names(name: str, params: Mapping[str, Any], expected: list[str]) -> None:
    for field in params:
        if field not in expected:
            raise TypeError(f"probe {name}: no param {field!r}, it takes {', '.join(expected)}")
    for field in expected:
        if field not in params:
            raise TypeError(f"probe {name}: param {field!r} is missing")


def _check_type(where: str, kind: str | tuple[str, ...], value: Any) -> None:
    if kind == "str" and not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{where} is {value!r}, expected a path")
    if (kind == "bool" and not isinstance(value, bool)) or (
        kind == "int" and (isinstance(value, bool) or not isinstance(value, int))
    ):
        raise TypeError(f"{where} is {value!r}, expected {kind}")


def _argument(where: str, c_type: Any, value: Any, buffers: list[Any]) -> Any:
    """A param as cffi takes it. What an array or a struct does not name is zero, as in C."""
    kind = _kind(c_type)
    if isinstance(kind, list):
        if not isinstance(value, list) or len(value) > c_type.length:
            raise ValueError(f"{where} is {value!r}, expected a list of up to {c_type.length}")
        return [
            _argument(f"{where}[{i}]", c_type.item, item, buffers) for i, item in enumerate(value)
        ]
    if isinstance(kind, dict):
        if not isinstance(value, dict) or not value.keys() <= kind.keys():
            raise TypeError(f"{where} is {value!r}, expected a dict of {', '.join(kind)}")
        types = dict(c_type.fields)
        return {
            field: _argument(f"{where}.{field}", types[field].type, item, buffers)
            for field, item in value.items()
        }
    if isinstance(kind, tuple):
        if value not in kind:
            raise ValueError(f"{where} is {value!r}, expected one of {', '.join(kind)}")
        return _levels(c_type)[value]
    _check_type(where, kind, value)
    if kind == "str":
        buffers.append(_ffi.new("char[]", os.fsencode(value)))
        return buffers[-1]
    try:
        return _ffi.new(f"{c_type.cname} *", value)[0]
    except OverflowError:
        raise ValueError(f"{where} is {value!r}, which {c_type.cname} does not hold") from None


def _value(c_type: Any, value: Any) -> Any:
    """A field of a result as a Python value."""
    if c_type.cname in _SHORTENED:
        return _SHORTENED[c_type.cname](value)
    if c_type.kind == "struct":
        return {
            field: _value(c_field.type, getattr(value, field)) for field, c_field in c_type.fields
        }
    if c_type.kind == "array":
        if c_type.item.cname == "char":
            return _text(value)
        return [_value(c_type.item, item) for item in value]
    if c_type.kind == "enum":
        return next(level for level, number in _levels(c_type).items() if number == value)
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


def _turns(turns: Any) -> dict[str, Any] | None:
    """None of a window that was not divided."""
    if turns.count == 0:
        return None
    arrays = ("from_ns", "elapsed_ns", "call_count")
    return {name: _ffi.unpack(getattr(turns, name), turns.count) for name in arrays} | {
        "lead_ns": turns.lead_ns,
        "lead_call_count": turns.lead_call_count,
    }


def _attribution(trace: Any) -> dict[str, Any] | None:
    """As memlab.analysis.attribution reads it."""
    if not trace.traced:
        return None
    causes = ENUMS["trace_cause"]
    met = trace.met[0 : trace.met_count]
    return {
        "operations": trace.operation_count,
        "records": trace.record_count,
        "lost": _counter(trace.lost_count),
        "events": dict(zip(causes, map(_counter, trace.events), strict=True)),
        "cpus": _columns(trace.cpus[0 : trace.cpu_count], "cpu", "full_ns"),
        "slow": _columns(
            trace.slow[0 : trace.slow_count], "thread", "cpu", "from_ns", "held_ns", "latency_ns"
        ),
        "met": {
            cause: _columns(rows, "thread", "from_ns", "length_ns")
            for cause, value in causes.items()
            if (rows := [row for row in met if row.cause == value])
        },
    }


def _columns(rows: Any, *names: str) -> dict[str, list[int]]:
    return {name: [getattr(row, name) for row in rows] for name in names}


_SHORTENED = {  # the structs that are stored in fewer words than they have in C
    "struct probe_counter": _counter,
    "struct probe_histogram": _histogram,
    "struct probe_series": _series,
    "struct probe_turns": _turns,
    "struct probe_attribution": _attribution,
}

"""Records that a tool makes of lines: JSON of any nesting, the journal's export and verbose form,
CSV, HTML. Each record becomes its message behind its time.

Formats: systemd's JOURNAL_EXPORT_FORMATS and src/shared/logs-show.c; `dmesg --json`; docker's
json-file; answers of Loki, Elasticsearch, CloudWatch and Google Cloud; Ansible.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

from memlab.diagnose.kernel_log import layout

RECORD_MAX = 1 << 20  # of a line that may be a JSON object
MESSAGE_KEYS = (  # "stdout" is before "msg", with which Ansible names an error
    "stdout", "MESSAGE", "message", "log", "msg", "textPayload", "Message", "body", "line", "_raw",
    "@message", "short_message",
)  # fmt: skip
_BOOT_KEYS = ("_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP")
_TIME_KEYS = (
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "Timestamp",
    "_time",
    "date",
    "timeUnixNano",
    "lastTimestamp",
)
_DEPTH_MAX = 32
_BREAK = re.compile(r"#012|\\n|\r|\n")
_RECORD_BREAK = re.compile(r"#012|\r|\n")
_BREAKS = 3  # in a text that also names a group, whose path may hold a backslash and an n
_EXPORT_BEGIN = re.compile(rb"^__(?:CURSOR|REALTIME_TIMESTAMP|MONOTONIC_TIMESTAMP)=", re.M)
_EXPORT_FIELD = re.compile(rb"[A-Z_][A-Z0-9_]{0,63}")
_VERBOSE = re.compile(
    r"[\s>|]{0,20}\S{1,8} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? \S{1,8}) \[s=\w"
)
_VERBOSE_FIELD = re.compile(r"[\s>|]{0,40}([A-Z_][A-Z0-9_]{0,63})=(.*)")
_CONTINUED = re.compile(r"[\s>|]{5,99}\S")
_YAML_MESSAGE = re.compile(
    rf"""^ {{0,8}}(?:{"|".join(MESSAGE_KEYS)}): (?:'((?:[^']|''){{1,4096}})'|"([^"]{{1,4096}})\""""
    r"""|([^\n]{1,4096}))""",
    re.M,
)
_YAML_LINE = re.compile(r"\s|[\w'\"@./-]{1,64}:(?:\s|$)|- |#|$")
_YAML_TIME = re.compile(r"^ {0,8}'?@?time(?:stamp)?'?: ['\"]?([^'\"\n]{10,40})", re.M)
_BLANK = re.compile(r"[\s,\ufeff]*")
_VALUE = re.compile(r"^[ \t]*[{\[]", re.M)
_FAILURES_MAX, _WASTED_MAX = 64, 4 << 20
_QUOTED = re.compile(r'(?:^|,)"', re.M)
_OBJECT = re.compile(r'\{"[^"]')  # of JSON; CSV doubles the quote
_HEADINGS = {key.lower().lstrip("@") for key in MESSAGE_KEYS}
_ROWS_LEAST = 3
_SAMPLE = 1 << 16
_NANOSECONDS_MAX = 10**19
Lines = Iterator[str]
_MARK = re.compile(r"invoked oom-killer|oom-kill:|[Kk]ill(?:ed)? process|[Oo]ut of [Mm]emory")


def read(text: str) -> list[str] | None:
    """Return the lines of all records; None of a text that is lines already, or whose records leave
    out the only marks of a kill."""
    begin = text[:200].lstrip("\ufeff \t\r\n")[:1]
    lines = _documents(text) if begin and begin in '{["' else None
    if lines is not None:
        return lines  # `messages` leaves out only what a record has beside its own message
    if " [s=" in text:
        lines = _verbose(text)
    if lines is None and "\n---\n" in text:
        lines = _yaml(text)
    if lines is None and len(_QUOTED.findall(text, 0, _SAMPLE)) >= _ROWS_LEAST:
        lines = _table(text)
    return None if lines is not None and lacks_marks(lines, text) else lines


def lacks_marks(lines: Sequence[str], text: str) -> bool:
    """Whether a text has marks of a kill by the kernel, and the lines that were taken from it have
    none."""
    return not any(map(_MARK.search, lines)) and _MARK.search(text) is not None


def is_export(content: bytes) -> bool:
    """Whether it is the journal's export format."""
    return _EXPORT_BEGIN.search(content, 0, 1 << 16) is not None


def export(content: bytes) -> Iterator[str]:
    """`journalctl -o export`: binary fields have a size. What is not a field is a line."""
    record: dict[str, Any] = {}
    position, end = 0, len(content)
    while position < end:
        stop = content.find(b"\n", position)
        stop = end if stop < 0 else stop
        line, position = content[position:stop], stop + 1
        name, equals, value = line.partition(b"=")
        if not line:
            yield from messages(record)
            record = {}
        elif equals and _EXPORT_FIELD.fullmatch(name):
            record[name.decode("ascii", "replace")] = value.decode("utf-8", "replace")
        elif _EXPORT_FIELD.fullmatch(line) and (size := _size(content, position)) is not None:
            value = content[position + 8 : position + 8 + min(size, RECORD_MAX)]
            record[line.decode("ascii")] = value.decode("utf-8", "replace")
            position += 8 + size + 1
        else:
            yield line[:RECORD_MAX].decode("utf-8", "replace")
    yield from messages(record)


def _size(content: bytes, position: int) -> int | None:
    """Of a binary field, unless it would end behind the content."""
    size = int.from_bytes(content[position : position + 8], "little")
    return size if position + 8 + size <= len(content) else None


def messages(value: Any, stamp: str = "", depth: int = 0, *, is_beside: bool = False) -> Lines:
    """Yield the lines of a decoded JSON value, each behind the time of its record. What stands
    beside a record's own message is a copy or an example, unless it is a list of records."""
    if depth > _DEPTH_MAX:
        yield from _deep(value, stamp)
    elif isinstance(value, str):
        yield from split(value, stamp)
    elif isinstance(value, list):
        if len(value) == 2 and all(isinstance(one, str) for one in value) and value[0].isdigit():
            yield from split(value[1], time_of(value[0]))  # Loki's pair of a time and a line
            return
        if value and all(
            isinstance(one, dict) and {"field", "value"} <= one.keys() for one in value
        ):
            value = [{str(one["field"]): one["value"] for one in value}]  # of CloudWatch's queries
        for one in value:
            if not (is_beside and isinstance(one, str)):
                yield from messages(one, stamp, depth + 1)
    elif isinstance(value, dict):
        if isinstance(value.get("_source"), dict):  # of Elasticsearch, whose "fields" repeat it
            value = value["_source"]
        stamp = _prefix(value) or stamp
        message = None if is_beside else _message(value)
        if message is not None:
            yield from split(message, stamp)
        is_beside |= bool(message)
        for one in value.values():
            if isinstance(one, dict | list) and not _is_bytes(one):
                yield from messages(one, stamp, depth + 1, is_beside=is_beside)


def _deep(value: Any, stamp: str) -> Lines:
    """The marks of a kill in a value of any depth."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            waiting.extend(one.values() if isinstance(one, dict) else one)
        elif isinstance(one, str) and _MARK.search(one):
            yield from split(one, stamp)


def split(text: str, prefix: str) -> Iterator[str]:
    """Yield the lines of a message: line breaks may be escaped."""
    is_path = "memcg=" in text and text.count("\\n") < _BREAKS
    if is_path:
        parts: Sequence[str] = _RECORD_BREAK.split(text)
    elif "\\" in text or "#" in text or "\n" in text or "\r" in text:
        parts = _BREAK.split(text)
    else:
        parts = (text,)
    for part in parts:
        yield f"{prefix}{part[: layout.LINE_MAX].rstrip()}"


def time_of(number: float | str) -> str:
    """Return a time as lines begin with it: seconds since boot, or since 1970 in any unit of a
    second."""
    try:
        value = Decimal(str(number))
    except InvalidOperation:
        return ""
    if not value.is_finite() or not 0 <= value < _NANOSECONDS_MAX:
        return ""
    if value < 10**9:
        return f"[{value:.6f}] "
    while value >= 10**10:
        value /= 1000
    seconds, part = divmod(int(value * 10**9), 10**9)
    digits = f"{part:09}".removesuffix("000")
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{digits}Z "


def _message(record: dict[str, Any]) -> str | None:
    """Its text: the first that is not empty, or if it has none, what has marks of a kill."""
    text = None
    for key in MESSAGE_KEYS:
        value = record.get(key)
        if isinstance(value, dict):
            value = value.get("stringValue")  # of OpenTelemetry
        if isinstance(value, list) and value and _is_bytes(value):
            value = bytes(value).decode("utf-8", "replace")  # not UTF-8, or control characters
        if isinstance(value, str):
            if value:
                return value
            text = value
    others = (value for value in record.values() if isinstance(value, str))
    return next(filter(_MARK.search, others), text)


def _is_bytes(value: Any) -> bool:
    return isinstance(value, list) and all(type(b) is int and 0 <= b < 256 for b in value)


def _prefix(record: dict[str, Any]) -> str:
    """The times, and as in a syslog the host and the program."""
    tag, host = record.get("SYSLOG_IDENTIFIER"), record.get("_HOSTNAME")
    name, boot = "", ""
    if isinstance(tag, str) and 0 < len(tag) <= 64:
        front = f"{host} " if isinstance(host, str) and re.fullmatch(r"\S{1,64}", host) else ""
        name = f"{front}{tag}: " if tag == "kernel" else f"{front}{tag}[0]: "
    for key in _BOOT_KEYS:
        if isinstance(micro := record.get(key), str) and re.fullmatch(r"[0-9]{1,18}", micro):
            boot = f"[{int(micro) / 1e6:.6f}] "
            break
    return f"{_time(record)}{boot}{name}"


def _time(record: dict[str, Any]) -> str:
    if isinstance(micro := record.get("__REALTIME_TIMESTAMP"), str) and micro.isdigit():
        return time_of(micro)
    for key in _TIME_KEYS:
        time = record.get(key)
        if isinstance(time, int | float):
            return time_of(time)
        if isinstance(time, str) and len(time) <= 40:
            return written(time)
    return ""


def written(time: str) -> str:
    """Return a time as it is written; in brackets unless a line may begin with it."""
    if time.isascii() and time.isdigit():
        return time_of(time)
    return f"{time} " if re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:", time) else f"[{time}] "


def _documents(text: str) -> list[str] | None:
    """JSON values one behind the other, of several lines each, or one of one line; lines beside
    them, as of a value that is cut, stay as they are."""
    decoder, position, lines = json.JSONDecoder(), 0, list[str]()
    end, failures, wasted, is_decoded = len(text.rstrip()), 0, 0, False
    while position < end:
        begin = _BLANK.match(text, position).end()  # type: ignore[union-attr]
        value = None
        try:
            value, position = decoder.raw_decode(text, begin)
        except json.JSONDecodeError as error:
            wasted += error.pos - begin
        except (ValueError, RecursionError):  # of a number of thousands of digits
            wasted += RECORD_MAX
        if isinstance(value, dict | list) and (position >= end or "\n" in text[begin:position]):
            lines += messages(value)
            is_decoded = True
            continue
        if isinstance(value, str) and position >= end and not is_decoded:
            return list(messages(value))
        failures += 1
        if isinstance(value, dict | list) or failures > _FAILURES_MAX or wasted > _WASTED_MAX:
            return None  # a record in each line, or none
        following = _VALUE.search(text, begin + 1)
        position = following.start() if following else end
        lines += text[begin:position].split("\n")
    return lines if is_decoded else None


def _verbose(text: str) -> list[str] | None:
    """`journalctl -o verbose`: a time, then fields; a message of several lines is indented."""
    lines, message = list[str](), list[str]()
    record: dict[str, Any] = {}
    is_verbose = is_message = False

    def flush() -> None:
        lines.extend(messages(record | {"MESSAGE": "\n".join(message)} if message else {}))
        record.clear()
        message.clear()

    for line in text.split("\n"):
        if begin := _VERBOSE.match(line):
            flush()
            record["time"] = begin[1]
            is_verbose, is_message = True, False
        elif field := _VERBOSE_FIELD.match(line):
            is_message = field[1] == "MESSAGE"
            if is_message and message:
                flush()
            if is_message:
                message.append(field[2].rstrip("\r"))
            else:
                record[field[1]] = field[2].rstrip("\r")
        elif is_message and _CONTINUED.match(line):
            message.append(line.strip())
        else:
            is_message = False
            lines.append(line)
    flush()
    return lines if is_verbose else None


def _yaml(text: str) -> list[str] | None:
    """`gcloud logging read`: a document each, in which a long message lies in several lines."""
    lines, is_yaml = list[str](), False
    for document in text.split("\n---\n"):
        matches, time = list(_YAML_MESSAGE.finditer(document)), _YAML_TIME.search(document)
        if len(matches) == 1 and time and _is_whole(document, matches[0]):
            value = next(filter(None, matches[0].groups()))
            value = re.sub(r"\\?\n\s{1,40}\\?", " ", value).replace("''", "'")
            lines += split(value, written(time[1]))
            is_yaml = True
        else:
            lines += document.split("\n")
    return lines if is_yaml else None


def _is_whole(document: str, message: re.Match[str]) -> bool:
    """Whether a document is YAML, and no kill stands beside its message."""
    rest = f"{document[: message.start()]}{document[message.end() :]}"
    return not _MARK.search(rest) and all(map(_YAML_LINE.match, rest.split("\n")))


def _table(text: str) -> list[str] | None:
    """CSV: the message is the column with most marks of a kill, or with a known name, or the
    longest."""
    try:
        head = text[:_SAMPLE].splitlines(keepends=True)
        sample = [row for row in csv.reader(head if len(text) <= _SAMPLE else head[:-1]) if row]
        ((width, count),) = Counter(map(len, sample)).most_common(1) or ((0, 0),)
        is_json = 2 * sum(map(bool, map(_OBJECT.search, head))) > len(head)
        if width < 2 or len(sample) < _ROWS_LEAST or 10 * count < 9 * len(sample) or is_json:
            return None
        rows = list(filter(None, csv.reader(text.splitlines(keepends=True))))
    except csv.Error:
        return None
    columns = list(zip(*(row for row in rows if len(row) == width), strict=True))
    message = max(range(width), key=lambda i: _likeness(columns[i]))
    times = [i for i, column in enumerate(columns) if i != message and _are_times(column)]
    lines = list[str]()
    for row in rows:
        is_whole = len(row) == width
        stamp = written(row[times[0]]) if times and is_whole else ""
        lines += split(row[message] if is_whole else ",".join(row), stamp)
    return lines


def _likeness(column: Sequence[str]) -> tuple[int, bool, int]:
    """How much a column is like the message."""
    marks = sum(map(bool, map(_MARK.search, column)))
    return marks, column[0].lower().lstrip("@ ") in _HEADINGS, sum(map(len, column))


def _are_times(column: Sequence[str]) -> bool:
    values = list(islice(column, 1, 50))
    return all(re.search(r"\d:\d\d|^\d{10,19}$", value) and len(value) <= 40 for value in values)

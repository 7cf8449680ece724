"""The lines of a kernel log in any form: dmesg, journal (text, JSON, export), syslog, /dev/kmsg,
container logs, quoted mail. Each line is another's text: every pattern is bounded."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

_LINE_MAX = 4096  # characters; the kernel's records are shorter (LOG_LINE_MAX)
_RECORD_MAX = 1 << 20  # of a line that may be a JSON object
_MESSAGE_KEYS = ("MESSAGE", "message", "log", "msg", "textPayload", "Message", "body", "line")
_NESTED_KEYS = ("jsonPayload", "_source", "fields", "attributes")
_TIME_KEYS = ("time", "timestamp", "@timestamp", "ts")
_ENTITIES = (("&gt;", ">"), ("&lt;", "<"), ("&quot;", '"'), ("&#39;", "'"), ("&amp;", "&"))
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_COLOUR = re.compile(r"(?:\x1b|\^\[)\[[0-9;]{0,20}[mK]")
_KMSG = re.compile(r"\d{1,4},\d{1,20},(?P<micro>\d{1,18}),[^;]{1,64};")
_PRETTY = re.compile(r'[\s"]{0,20}(?:MESSAGE|message|log|textPayload|msg)" ?: ?(".*)')
_BYTES = re.compile(rb"\\x([0-9a-fA-F]{2})")
_BREAK = re.compile(r"#012|\\n|\r|\n")
_RECORD_BREAK = re.compile(r"#012|\r|\n")
_EXPORT_FIELD = re.compile(rb"[A-Z_][A-Z0-9_]{0,63}")

_BOOT = re.compile(r" {0,12}(\d{1,12}\.\d{1,9})")
_CLOCK = re.compile(r"\d{1,2}:\d\d")
_NO_STAMP = re.compile(r" {0,12}(?:\d{1,10}|pid) {0,12}")  # of the table of tasks
# What may stand before the kernel's words, in any order and number.
_PIECES = (
    re.compile(r"[\s>|]{1,200}"),
    re.compile(r"<\d{1,3}>|MESSAGE="),
    _KMSG,
    re.compile(r"[a-z]{3,8} {0,3}: {0,4}[a-z]{3,8} {0,3}: {0,2}"),  # dmesg -x
    re.compile(r"\[(?P<inside>[^\[\]]{1,48})\]:? ?"),
    re.compile(
        r"(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
        r"(?: ?Z| ?[+-]\d\d:?\d\d| [A-Z]{3,5})?:? "
    ),
    re.compile(r"\w{2,4} (?=\d{4}-\d\d-\d\d )"),  # journalctl -o short-full
    re.compile(
        r"(?P<syslog>\S{2,12} {1,2}\d{1,2}(?: \d{4})?,? \d\d:\d\d:\d\d(?:\.\d{1,9})?)(?: \d{4})? "
    ),
    re.compile(r"\d{10}\.\d{1,9} "),  # journalctl -o short-unix
    re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} {1,6}\d{1,7} {1,6}\d{1,7} [VDIWEF] "),  # logcat
    re.compile(r"std(?:out|err) [FP] "),  # containerd
    re.compile(r"(?:\S{1,64} )?kernel(?:\[\d{1,10}\])?: ?"),
    re.compile(r"(?:\S{1,64} )?[\w.@/-]{1,64}\[\d{1,10}\]: "),
)


def lines_of(content: bytes) -> Iterator[str]:
    """Yield each line of a file with one prefix at most; a record of several lines is split."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):  # as PowerShell redirects
        content = content.decode("utf-16", "replace").encode("utf-8", "replace")
    if content.startswith(b"__CURSOR=") or b"\n__CURSOR=" in content[: 1 << 16]:
        yield from _export(content)
        return
    if content.count(b"=3D") > 2:  # a mail's quoted-printable
        content = quopri.decodestring(content)
    text = content.decode("utf-8-sig", "replace").removesuffix("\n")
    yield from _in_order(text.split("\n") if text else [])


def _in_order(lines: list[str]) -> Iterator[str]:
    """Yield the oldest line first: `journalctl -r` and `dmesg | tac` print the newest first."""
    step = max(1, len(lines) // 200)
    times = [stamp for line in lines[::step] if (stamp := parted(line[:512])[0])]
    keys = [_sortable(stamp) for stamp in times]
    is_reversed = len(set(keys)) > 2 and keys == sorted(keys, reverse=True)
    if not is_reversed:
        for line in lines:
            yield from logical(line)
        return
    record: list[str] = []
    for line in reversed(lines):
        record.append(line)
        if parted(line[:512])[0]:  # what follows it without a stamp belongs to it
            for part in reversed(record):
                yield from logical(part)
            record = []


def _sortable(stamp: str) -> tuple[int, float, str]:
    """A stamp as it sorts: seconds since boot, ISO, or a month, a day and a time."""
    digits = stamp.replace(".", "", 1)
    if digits.isascii() and digits.isdigit():
        return 0, float(stamp), ""
    words = stamp.split()
    if len(words) == 3 and words[0][:3] in _MONTHS and words[1].isdigit():
        return 1, _MONTHS.index(words[0][:3]) * 100 + int(words[1]), words[2]
    return 2, 0, stamp


def logical(line: str) -> Iterator[str]:
    """Yield the lines of one physical line: a JSON record or an escaped text may hold several."""
    begin = line.lstrip(" \t,[\x1e").removeprefix("data: ")
    if begin.startswith('{"') and len(begin) <= _RECORD_MAX:
        record = _decoded(begin.rstrip(" \t\r,]"))
        if isinstance(record, dict) and (message := _message(record)) is not None:
            yield from _split(message, _json_prefix(record))
            return
    if pretty := _PRETTY.match(line[:_RECORD_MAX]):
        message = _decoded(pretty[1].rstrip(" \t\r,"))
        yield from _split(message if isinstance(message, str) else pretty[1], "")
        return
    text = line
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    if "\x1b" in text or "^[" in text:
        text = _COLOUR.sub("", text[:_RECORD_MAX])
    if stamp := _KMSG.match(text):
        text = stamp[0] + unescaped(text[stamp.end() : stamp.end() + _RECORD_MAX])
    yield from _split(text, "")


def unescaped(text: str) -> str:
    r"""Return a record of /dev/kmsg with its `\x0a` as characters (Documentation/ABI/testing)."""
    if "\\x" not in text:
        return text
    return _BYTES.sub(lambda code: bytes([int(code[1], 16)]), text.encode()).decode(
        "utf-8", "replace"
    )


def _split(text: str, prefix: str) -> Iterator[str]:
    if "memcg=" in text:  # a path may hold a backslash and an n
        parts: Iterable[str] = _RECORD_BREAK.split(text)
    elif "\\" in text or "#" in text or "\n" in text or "\r" in text:
        parts = _BREAK.split(text)
    else:
        parts = (text,)
    for part in parts:
        yield f"{prefix}{part[:_LINE_MAX].rstrip()}"


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _message(record: dict[str, Any]) -> str | None:
    for key in _MESSAGE_KEYS:
        value = record.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(type(b) is int and 0 <= b < 256 for b in value):
            return bytes(value).decode("utf-8", "replace")  # not UTF-8, or control characters
    for key in _NESTED_KEYS:
        if isinstance(inner := record.get(key), dict):
            nested = {name: value for name, value in inner.items() if name not in _NESTED_KEYS}
            return _message(nested)
    return None


def _json_prefix(record: dict[str, Any]) -> str:
    micro = record.get("_SOURCE_MONOTONIC_TIMESTAMP") or record.get("__MONOTONIC_TIMESTAMP")
    stamp = ""
    if isinstance(micro, str) and micro.isascii() and micro.isdigit() and len(micro) < 19:
        stamp = f"[{int(micro) / 1e6:.6f}] "
    else:
        for key in _TIME_KEYS:
            if isinstance(time := record.get(key), str) and len(time) <= 40:
                stamp = f"{time} "
                break
    tag = record.get("SYSLOG_IDENTIFIER")
    return f"{stamp}{tag}[0]: " if isinstance(tag, str) and len(tag) <= 64 else stamp


def _export(content: bytes) -> Iterator[str]:
    """`journalctl -o export` (systemd's JOURNAL_EXPORT_FORMATS): binary fields have a size."""
    record: dict[str, Any] = {}
    position, end = 0, len(content)
    while position < end:
        stop = content.find(b"\n", position)
        stop = end if stop < 0 else stop
        line, position = content[position:stop], stop + 1
        name, equals, value = line.partition(b"=")
        if not line:
            yield from _record(record)
            record = {}
        elif equals:
            record[name.decode("ascii", "replace")] = value.decode("utf-8", "replace")
        elif _EXPORT_FIELD.fullmatch(line):
            size = int.from_bytes(content[position : position + 8], "little")
            value = content[position + 8 : position + 8 + min(size, _RECORD_MAX)]
            record[line.decode("ascii")] = value.decode("utf-8", "replace")
            position += 8 + min(size, end) + 1
    yield from _record(record)


def _record(record: dict[str, Any]) -> Iterator[str]:
    if (message := _message(record)) is not None:
        yield from _split(message, _json_prefix(record))


def parted(line: str) -> tuple[str, str]:
    """Return the stamp of a line and what follows every prefix of it. The stamp is in seconds since
    boot if the line has them ("581.376828"), else the clock time as it is written."""
    position, boot, clock = 0, "", ""
    for _ in range(16):
        for piece in _PIECES:
            if not (match := piece.match(line, position)):
                continue
            groups = match.groupdict()
            if inside := groups.get("inside"):
                if _NO_STAMP.fullmatch(inside):
                    continue
                if seconds := _BOOT.match(inside):
                    boot = boot or seconds[1]
                elif _CLOCK.search(inside):
                    clock = clock or inside.strip()
            elif micro := groups.get("micro"):
                boot = boot or f"{int(micro) / 1e6:.6f}"
            clock = clock or groups.get("iso") or groups.get("syslog") or ""
            position = match.end()
            break
        else:
            break
    return boot or clock, line[position:]

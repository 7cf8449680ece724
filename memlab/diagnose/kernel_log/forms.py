"""The lines of a kernel log in any form: dmesg, journal (text, JSON, export), syslog, /dev/kmsg,
container logs, quoted mail. Each line is another's text: every pattern is bounded."""

from __future__ import annotations

import html
import quopri
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, NamedTuple

import msgspec

from memlab.diagnose.kernel_log import layout, near, records

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_COLOUR = re.compile(  # also with its first character as text, or without it
    r"(?:\x1b|\^\[|\\x1b|\\u001b|\\033|\\e|\u241b)(?:\[[0-9;?]{0,20}[A-Za-z]|\([A-Z0-9])"
    r"|\[\d{1,3}(?:;\d{1,3}){0,8}m"
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
_KMSG = re.compile(  # netconsole may put the kernel's version before it
    r"(?:\d[\w.+~-]{1,64},)?\d{1,4},\d{1,20},(?P<micro>\d{1,18}),[^;]{1,64};"
)
_KEYED = re.compile(  # of logfmt, YAML, Ruby, or JSON that is cut
    rf"""(?:^|[\s"',{{])(?:{"|".join(records.MESSAGE_KEYS)})["']?\s?(?::|=>|=)\s?"""
    r"""(?:"((?:[^"\\]|\\.){1,4096})|'((?:[^']|''){1,4096}))"""
)
_BEGIN_BYTES = 1000  # by which UTF-16 without a mark is recognised
_OBJECT_AT_MOST = 200  # characters before a JSON object in a line
_BYTES = re.compile(rb"\\x([0-9a-fA-F]{2})")

_BOOT = re.compile(r" {0,12}(\d{1,12}\.\d{1,9})")
_CALLER = re.compile(r" {0,9}[TC]\d{1,10}")
_CLOCKS = ("iso", "syslog", "logcat", "time", "date")
_CLOCK = re.compile(r"\d{1,2}:\d\d")
_NO_STAMP = re.compile(r" {0,12}(?:\d{1,10}|pid) {0,12}")  # of the table of tasks
# What may stand before the kernel's words, in any order and number.
_PIECES = (
    re.compile(r"[\s>|`\u00ab\u2018\u201c\u200b-\u200f\ufeff]{1,200}"),
    re.compile(r"[-*+\u2022] {1,8}(?=\S)"),
    re.compile(r"(?P<time>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?):?\s"),
    re.compile(r"\d{1,7}(?:[:)]\s{0,8}|\.\s{1,8})(?=\S)"),  # grep -n, a list
    re.compile(r"\d{1,7}-(?!\d{1,2}[-\s]\d)\s{0,8}(?=\S)"),  # grep -n -C
    re.compile(r"^[\d.:]{1,20}(?: \d{4})?\] ?"),  # a stamp that is cut
    re.compile(r"<\d{1,3}>|MESSAGE="),
    _KMSG,
    re.compile(  # dmesg -x, whose levels have names; others are a program's and a subsystem's
        r"[a-z]{3,8}\d? {0,3}: {0,4}(?:emerg|alert|crit|err(?:or)?|warn(?:ing)?|notice|info|debug)"
        r" {0,3}: {0,2}"
    ),
    re.compile(r"\[(?P<inside>[^\[\]]{1,48})\]:? ?"),
    re.compile(
        r"(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
        r"(?: ?Z| ?[+-]\d\d:?\d\d| UTC| [A-Z]{1,3}[SD]?T\b)?)(?: [A-Z]{3,5})?:?\s"
    ),
    re.compile(r"\w{2,4} (?=\d{4}-\d\d-\d\d )"),  # journalctl -o short-full
    re.compile(
        r"(?P<syslog>[^\s:/-]{2,12} {1,2}\d{1,2}(?: \d{4})?,? \d\d:\d\d:\d\d(?:\.\d{1,9})?)"
        r"(?: \d{4})? "
    ),
    re.compile(  # of tools and browsers: 10/2/2026, 2:14:07 PM; 2026/10/02 14:14:07
        r"(?P<date>\d{1,4}[./-]\w{1,3}[./-]\d{1,4}[,:T]? ?\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
        r"(?: [AP]M)?)(?: [+-]\d{4})?\s"
    ),
    re.compile(r"(?P<unix>\d{10}\.\d{1,9}|\d{13}|\d{16}|\d{19})\s"),
    re.compile(  # logcat -v threadtime, long ago with a user
        r"(?P<logcat>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) {1,6}(?:\w{1,16} {1,6})?"
        r"\d{1,7} {1,6}\d{1,7} [VDIWEF] (?:\w{1,32} {0,9}: )?"
    ),
    re.compile(  # logcat -v time, and brief
        r"(?:(?P<time>\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) {1,4})?"
        r"[VDIWEF]/\w{0,32} {0,9}(?:\( {0,6}\d{1,7}\))?: "
    ),
    re.compile(r"\d{1,3} (?=\d{4}-\d\d-\d\dT)"),  # RFC 5424
    re.compile(r"(?P<sender>\S{1,64}) kernel - \S{1,32} (?:-|\[[^\]]{1,120}\]) ?"),
    re.compile(r"\(\d{1,2}\)(?=\[)"),  # MediaTek's CPU
    re.compile(r"\w{3} (?=[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:)"),  # logread of OpenWrt
    re.compile(r"(?:kern|user|daemon)\.\w{3,8} "),
    re.compile(r"\S{1,64} login: "),  # of a serial console
    re.compile(r"std(?:out|err) [FP] "),  # containerd
    re.compile(r"(?:(?P<sender>\S{1,64}) )?(?:\w{3,8}\.\w{3,8} )?kernel(?:\[[\d-]{1,10}\])?: ?"),
    re.compile(r"(?:(?P<sender>\S{1,64}) )?[\w.@/-]{1,64}\[\d{1,10}\]: "),
    re.compile(r"(?P<sender>[\w.-]{1,64})(?::| {1,40}\|) (?=\[ {0,12}[\d\w])"),  # of several hosts
)
_PIECE_NAMES = tuple(tuple(piece.groupindex) for piece in _PIECES)
# All of them in one pattern, which takes a third of the time: each is a group, and its own groups
# have its number.
_ANY_PIECE = re.compile(
    "|".join(
        f"(?P<of{i}>{re.sub(r'[(][?]P<([a-z]+)>', rf'(?P<{chr(92)}g<1>{i}>', piece.pattern)})"
        for i, piece in enumerate(_PIECES)
    )
)
_USUAL_STAMP = re.compile(  # with which most lines begin; the pieces take far longer
    rf"(?:<\d{{1,3}}>)?(?:\[ {{0,12}}\d{{1,12}}\.\d{{3,9}}[\] ]|\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
    rf"|(?:{'|'.join(_MONTHS)}) [ \d]\d \d\d:\d\d:\d\d )"
)
# A program's line of syslog: behind it stand two words, of which none is a piece.
_USUAL_LINE = re.compile(
    rf"((?:{'|'.join(_MONTHS)}) [ \d]\d \d\d:\d\d:\d\d) "
    r"(?!(?:kern|user|daemon)\.)([A-Za-z][\w.-]{0,63})"
    r" [\w.@/-]{1,64}\[\d{1,10}\]: (?=[a-z]{2,16} (?!kernel|login)[A-Za-z]{2,12}!? (?![\d ]))"
)
_STAMP = re.compile(  # behind words of any form
    rf"\[ {{0,12}}\d{{1,12}}\.\d{{3,9}}(?=[\] <])|\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
    r"|\d{10}\.\d{3,9}(?=[, ])|(?<![\w.,])\d{1,4},\d{1,20},\d{1,18},[^;\s]{1,64};"
    rf"|\[?(?:\b[A-Z]\w{{1,3}},? )?(?:{'|'.join(_MONTHS)}) {{1,2}}\d{{1,2}}(?: \d{{4}})?,? "
    r"\d\d:\d\d:\d\d"
)
_STAMP_AT_MOST = 160
_SAMPLE_LINES = 500


def lines_of(content: bytes) -> Iterator[str]:
    """Yield each line of a file with one prefix at most; a record of several lines is split."""
    content = narrow(content)
    is_open = content[-1:].isdigit()
    if records.is_export(content):
        lines = list(records.export(content))
        if records.lacks_marks(lines, content.decode("utf-8", "replace")):
            lines = _lines_of_text(content.replace(b"\0", b""))
    else:
        parts, content = [content.replace(b"\0", b"")], b""  # as a crash leaves at a file's end
        lines = _lines_of_text(parts.pop())  # which drops it, once it is text
    is_first = is_stamped if _has_stamps(lines) else layout.is_begun
    whole = layout.refilled(layout.unwrapped(lines, is_first), is_first)
    yield from _in_order(layout.in_parts(layout.marked(whole, is_open)))


def narrow(content: bytes) -> bytes:
    """Return UTF-16 as UTF-8, and what is not UTF-16 as it is."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):  # as PowerShell redirects
        return content.decode("utf-16", "replace").encode("utf-8", "replace")
    if _is_wide(content[:_BEGIN_BYTES]):
        return content.decode("utf-16-le", "replace").encode("utf-8", "replace")
    return content


def _lines_of_text(content: bytes) -> list[str]:
    quoted = content.count(b"=3D")
    if quoted and quoted + content.count(b"=\n") + content.count(b"=\r\n") > 2:  # of a mail
        content = quopri.decodestring(content)
    content = content.removesuffix(b"\n")
    text = content.decode("utf-8-sig", "replace")
    del content
    lines = records.read(text)
    if lines is None:
        text = layout.without_spans(layout.without_tags(text))
        lines = layout.in_one_piece(layout.without_ends(text.split("\n"))) if text else []
    return lines


def _is_wide(begin: bytes) -> bool:
    """Whether it is UTF-16 without a mark."""
    return begin[1::2].count(0) > 0.9 * len(begin) / 2 > begin[::2].count(0)


def is_stamped(line: str) -> bool:
    """By what it begins with: a stamp behind other words may be a program's."""
    if _USUAL_STAMP.match(line):
        return True
    prefix, _ = _prefix_at(line[:512], 0)
    return bool(prefix.boot or prefix.clock)


def _has_stamps(lines: Sequence[str]) -> bool:
    """Whether lines of a log have stamps, by those at its begin that are looked at."""
    sample = [line for line in islice(lines, _SAMPLE_LINES) if line.strip()]
    return 20 * sum(map(is_stamped, sample)) >= len(sample)


def _in_order(lines: list[str]) -> Iterator[str]:
    """Yield the oldest line first: `journalctl -r` and `dmesg | tac` print the newest first, and
    `cat kern.log kern.log.1` the newer file."""
    step = max(1, len(lines) // 200)
    marks = [(i, key) for i in range(0, len(lines), step) if (key := _key(lines[i]))]
    marks = [(i, key) for i, key in marks if key[0] == marks[0][1][0]]
    keys = [key for _, key in marks]
    if len(set(keys)) > 2 and keys == sorted(keys, reverse=True):
        yield from _reversed(lines)
        return
    for part in _parts(lines, marks):
        for begin, end, is_near in near.ranges(part):
            if not is_near:
                yield from part[begin:end]
                continue
            for line in part[begin:end]:
                yield from logical(line)


def _reversed(lines: list[str]) -> Iterator[str]:
    record: list[str] = []
    for line in reversed(lines):
        record.append(line)
        if is_stamped(line):  # what follows it without a stamp belongs to it
            for part in reversed(record):
                yield from logical(part)
            record = []


Key = tuple[int, int]
"""The kind of a stamp, and nanoseconds."""


def _has_new_year(keys: list[Key]) -> bool:
    """Whether a log without years may go from December to January: then its parts have no
    certain order."""
    if keys[0][0] != _WITHOUT_YEAR:
        return False
    return any(before[1] - after[1] > _QUARTER for before, after in pairwise(keys))


def _parts(lines: list[str], marks: list[tuple[int, Key]]) -> list[list[str]]:
    """The files that were joined, the oldest first. Where stamps go back, a new file begins only if
    it ends before the file above it begins. Seconds since boot start at 0 after each boot; a clock
    without a zone may go back an hour."""
    if not marks or marks[0][1][0] == _SINCE_BOOT or _has_new_year([key for _, key in marks]):
        return [lines]
    begins, spans = [0], [[marks[0][1], marks[0][1]]]
    for (low, before), (high, after) in pairwise(marks):
        if _is_back(before, after):
            begins.append(_turn(lines, low, high, before))
            spans.append([after, after])
        spans[-1][1] = after
    if any(older[1] > newer[0] for newer, older in pairwise(spans)):
        return [lines]
    ends = [*begins[1:], len(lines)]
    return [lines[begin:end] for begin, end in zip(begins, ends, strict=True)][::-1]


def _turn(lines: list[str], low: int, high: int, before: Key) -> int:
    """The first line behind `low` that is older than it."""
    for i in range(low + 1, high + 1):
        key = _key(lines[i])
        if key and key[0] == before[0] and _is_back(before, key):
            return i
    return high


def _is_back(before: Key, after: Key) -> bool:
    """Whether time went back from one line to another."""
    return before[1] - after[1] > (0 if before[0] == _ZONED else _HOUR)


_SINCE_BOOT, _ZONED, _WITHOUT_ZONE, _WITHOUT_YEAR = range(4)
_LEAP_YEAR = "2000"
_HOUR = 3600 * 10**9
_DAY_LONG, _LEAP_DAY = 24 * _HOUR, 11_016 * 24 * _HOUR  # 29 February 2000
_QUARTER = 92 * 24 * _HOUR
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
    r"(?: ?(Z|UTC|[+-]\d\d:?\d\d))?"
)
_DAY = re.compile(
    r"(\w{3})\w{0,7} {1,2}(\d{1,2})(?: (\d{4}))?,? (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
    r"(?: (\d{4}))?"
)


def _key(line: str) -> Key | None:
    """A stamp as it sorts, by its kind; None without one that has an order."""
    return key_of(_prefix_at(line[:512], 0)[0])


def key_of(prefix: Prefix) -> Key | None:
    """The same of a prefix."""
    if iso := _ISO.match(prefix.clock):
        *date, part, zone = iso.groups()
        time = _nanoseconds(date, part)
        if zone and zone[0] in "+-" and time is not None:
            offset = (int(zone[1:3]) * 60 + int(zone[-2:])) * 60 * 10**9
            time += -offset if zone[0] == "+" else offset
        kind = _ZONED if zone else _WITHOUT_ZONE
    elif (day := _DAY.search(prefix.clock)) and day[1] in _MONTHS:
        year = day[3] or day[8]
        month = str(_MONTHS.index(day[1]) + 1)
        time = _nanoseconds([year or _LEAP_YEAR, month, *day.group(2, 4, 5, 6)], day[7])
        kind = _WITHOUT_ZONE if year else _WITHOUT_YEAR
    elif prefix.boot:
        whole, _, part = prefix.boot.partition(".")
        return _SINCE_BOOT, int(whole) * 10**9 + int(f"{part:<09}")
    else:
        return None
    return (kind, time) if time is not None else None


def nanoseconds_between(first: Key, second: Key) -> int:
    """Of two of a kind: as near as can be, if the year is not known."""
    begin, end = sorted((first[1], second[1]))
    between = end - begin
    if first[0] == _WITHOUT_YEAR:
        is_over = begin < _LEAP_DAY and end >= _LEAP_DAY + _DAY_LONG
        without = abs(between - _DAY_LONG) if is_over else between
        between = min(between, without, 366 * _DAY_LONG - between)
    return between


def _nanoseconds(date: Sequence[str], part: str | None) -> int | None:
    """Since 1970, of a date in UTC; None if there is no such date."""
    try:
        seconds = int(datetime(*map(int, date), tzinfo=UTC).timestamp())  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    return seconds * 10**9 + int(f"{part or 0:<09}")


def logical(line: str) -> Iterator[str]:
    """Yield the lines of one physical line: a JSON record or an escaped text may hold several."""
    line = line.replace("\u00a0", " ")  # as browsers copy
    begin = line.find('{"', 0, _OBJECT_AT_MOST)
    if begin >= 0 and len(line) <= records.RECORD_MAX:
        record = _decoded(line[begin:].rstrip(" \t\r,]"))
        if isinstance(record, dict) and (inner := list(records.messages(record))):
            front = _stamp_of(line[:begin])
            for part in inner:
                yield front + part
            return
    text = _unwrapped(line)
    if "&" in text:
        for _ in range(2):  # a ticket may escape what was escaped
            text = _ENTITY.sub(lambda one: html.unescape(one[0]), text[: records.RECORD_MAX])
        text = text.replace("\u00a0", " ")
    if "\x1b" in text or "\\" in text or "^[" in text or "\u241b" in text or "[0m" in text:
        text = _COLOUR.sub("", text[: records.RECORD_MAX])
    if stamp := _KMSG.match(text):
        text = stamp[0] + unescaped(text[stamp.end() : stamp.end() + records.RECORD_MAX])
    yield from records.split(text, "")


def _stamp_of(front: str) -> str:
    """The times that stand before a record."""
    prefix = prefix_of(front)
    clock = f"{prefix.clock} " if prefix.clock else ""
    return f"{clock}[{prefix.boot}] " if prefix.boot else clock


def _unwrapped(line: str) -> str:
    """A line of a list of strings (JSON, YAML, CSV), or the message of one of logfmt."""
    if ('"' in line or "'" in line) and (field := _KEYED.search(line[: layout.LINE_MAX])):
        value = field[1].replace('\\"', '"') if field[1] else field[2].replace("''", "'")
        return _stamp_of(line[: field.start() + 1]) + value
    text = line.rstrip(" \t\r")
    text = text[:-1] if text.endswith((",", "]")) else text
    quote = text[-1:]
    begin = text.find(quote) if quote in ("'", '"') else -1
    if begin < 0 or begin == len(text) - 1 or text[:begin].strip(" \t[-,("):
        if text.endswith(">") and "<" not in text:  # journalctl in a pager cuts a line so
            return text[:-1]
        return line
    inner = text[begin + 1 : -1]
    if quote == '"' and '","' in inner:  # CSV that is not whole
        inner = max(inner.split('","'), key=len)
    if quote == "'" and "-" in text[:begin]:
        inner = inner.replace("''", quote)  # of YAML
    return text[:begin] + inner.replace(f"\\{quote}", quote)


def unescaped(text: str) -> str:
    r"""Return a record of /dev/kmsg with its `\x0a` as characters (Documentation/ABI/testing)."""
    if "\\x" not in text:
        return text
    return _BYTES.sub(lambda code: bytes([int(code[1], 16)]), text.encode()).decode(
        "utf-8", "replace"
    )


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


class Prefix(NamedTuple):
    """What stands before the kernel's words."""

    boot: str
    """Seconds since boot."""
    clock: str
    """The time as it is written."""
    sender: str
    """The host."""
    caller: str
    """The thread or CPU that prints, if the kernel says it (CONFIG_PRINTK_CALLER)."""
    body: str
    """What follows."""


def parted(line: str) -> tuple[str, str]:
    """Return the stamp of a line and what follows every prefix of it. The stamp is in seconds since
    boot if the line has them ("581.376828"), else the clock time as it is written."""
    prefix = prefix_of(line)
    return prefix.boot or prefix.clock, prefix.body


@lru_cache(maxsize=8)  # of one line, several ask
def prefix_of(line: str) -> Prefix:
    """Take every prefix off a line, also one behind words of another form that end in a stamp."""
    prefix, position = _prefix_at(line, 0)
    if prefix.boot or prefix.clock:
        return prefix
    stamp = _STAMP.search(line, position, position + _STAMP_AT_MOST)
    if stamp is None:
        return prefix
    behind, _ = _prefix_at(line, stamp.start())
    if not behind.boot and not behind.clock:
        clock = records.time_of(stamp[0]).strip() or stamp[0].strip("[")
        behind = behind._replace(clock=clock, body=line[stamp.end() :])
    return behind._replace(sender=behind.sender or prefix.sender)


def _prefix_at(line: str, position: int) -> tuple[Prefix, int]:
    """What stands there, and where it ends."""
    if usual := _USUAL_LINE.match(line, position):
        return Prefix("", usual[1], usual[2], "", line[usual.end() :]), usual.end()
    boot, clock, sender, caller = "", "", "", ""
    for _ in range(16):
        first = _ANY_PIECE.match(line, position)
        if first is None:
            break
        begin = int(first.lastgroup[2:])  # type: ignore[index]
        for number in range(begin, len(_PIECES)):
            if not (match := first if number == begin else _PIECES[number].match(line, position)):
                continue
            mark = number if number == begin else ""
            if not _PIECE_NAMES[number]:
                position = match.end()
                break
            groups = {name: match[f"{name}{mark}"] for name in _PIECE_NAMES[number]}
            if inside := groups.get("inside"):
                if _NO_STAMP.fullmatch(inside):
                    continue
                if seconds := _BOOT.match(inside):
                    boot = boot or seconds[1]
                elif _CLOCK.search(inside):
                    clock = clock or inside.strip()
                elif _CALLER.fullmatch(inside):
                    caller = caller or inside.strip()
            elif micro := groups.get("micro"):
                boot = boot or f"{int(micro) / 1e6:.6f}"
            elif unix := groups.get("unix"):
                clock = clock or records.time_of(unix).strip()
            clock = clock or next((text for name in _CLOCKS if (text := groups.get(name))), "")
            sender = sender or groups.get("sender") or ""
            position = match.end()
            break
        else:
            break
    return Prefix(boot, clock, sender, caller, line[position:]), position

"""How the lines of a file lie: wrapped by a console at its width, or in parts, the newest first."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence

_WIDTH_LEAST, _WIDTH_MAX = 60, 250
_FULL_LINES, _BROKEN_LEAST = 3, 2
_FILLED_LEAST, _FILLED_MAX, _FILLED_LINES = 45, 130, 20_000
CUT = "\u2026"
_CUT_LEAST, _CUT_LINES, _CUT_ENDS = 40, 5, 3
_OPEN_END = re.compile(r"(?:[a-z_)][: ]\d{1,20}|limit of /\S{0,250})$")
_DIGITS = re.compile(r"\d{1,8}")
_QUOTE = re.compile(r"(?:> ?){0,20}")
_SECOND = re.compile(r"(?<=\S) (?=[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,64} kernel: )")
_DAY = re.compile(r"\S [A-Z][a-z]{2} [ \d]\d$")  # the beginning of a stamp, at a line's end
_FULL_MAX = 20_000
LINE_MAX = 4096  # characters; the kernel's records are shorter (LOG_LINE_MAX)
_BREAKING_TAG = re.compile(r"<(?:br|/p|/div|/tr|/li|/pre)\b[^<>]{0,100}>", re.I)
_TAG = re.compile(
    r"</?(?:a|b|body|code|div|em|font|h[1-6]|html|i|li|ol|p|pre|samp|span|strong|table|tbody|td|th"
    r"|tr|tt|ul)(?:\s[^<>]{0,500})?>",
    re.I,
)
_END = re.compile(r"(?:\^M|[^\w\s():\]\[{}\"',.>\\]){1,8}$")
_SPANS = "`` ``"
_SAMPLE, _ENDS_MAX = 1000, 4
_PIECE = re.compile(r"(\S{20,40} std(?:out|err)) ([FP]) ")
# How a line of a report begins, by the kernel's formats.
_BEGINNINGS = (
    r"[^\n]{1,40} invoked oom-killer|[^\n]{1,40}: page allocation failure|[^\n]{1,40} cpuset=\S",
    r"CPU: \d|Pid: \d|Hardware name:|Workqueue:|Call [Tt]race|</?(?:TASK|IRQ|NMI)>|Stack :|Code: ",
    r"\[<[0-9a-f]{8,16}>\]|(?:\? {0,2})?[A-Za-z_][\w.]{0,80}\+0x|R[A-Z0-9]{2}: |Mem-[Ii]nfo:",
    r"lowmem_reserve|(?:Node \d{1,4} )?(?:DMA32|DMA|Normal|HighMem|Movable)(?: |: )|Node \d",
    r"CPU {1,4}\d{1,4}: hi|(?:in)?active(?:_anon|_file)?:\d{1,15} |Active:\d|free:\d{1,15} |slab",
    r"(?:unevictable|mapped):\d{1,15} |\d{1,15} (?:total pagecache |reserved )?pages|Swap c",
    r"(?:Free|Total) swap|(?:memory(?:\+swap)?|swap|kmem): usage |Memory cgroup |Tasks? in ",
    r"\[ {0,4}pid {0,4}\]|\[ {0,9}\d{1,10}\] |oom-kill:|oom_reaper: |oom_kill_process: |SLUB:",
    r"Out of memory|Kill(?:ed)? process |Kernel panic|[a-z_]{2,40} \d{1,20}$|Unreclaimable slab",
)
_BEGINNING = re.compile(rf"[\s>|]{{0,40}}(?:{'|'.join(_BEGINNINGS)})")
_ROW = re.compile(r"\[ {0,9}(?:\d{1,10}|pid {0,4})\] ")
_PART = re.compile(r"(?:Panic|Oops|Emergency|Shutdown|Unknown)#\d{1,9} Part(\d{1,6})\r?")


def without_tags(text: str) -> str:
    """Take HTML's tags off, if it is HTML: the kernel prints no closing tag."""
    if text.count("</") + text.count("<br") < _FULL_LINES:
        return text
    return _TAG.sub("", _BREAKING_TAG.sub("\n", text))


def without_spans(text: str) -> str:
    """Take an editor's marks of code off, that stand for the ends of lines; the kernel has none."""
    if text.count(_SPANS) < _FULL_LINES:
        return text
    return text.replace(_SPANS, "\n").replace("``", "")


def without_ends(lines: Sequence[str]) -> list[str]:
    """Take off what nearly all lines end with, such as the `$` of cat -A or a table's border."""
    result = list(lines)
    for _ in range(_ENDS_MAX):
        sample = [one.rstrip()[-16:] for one in result[:_SAMPLE] if one.strip()]
        ends = Counter(match[0] for one in sample if (match := _END.search(one)))
        ((end, count),) = ends.most_common(1) or (("", 0),)
        if count < _FULL_LINES or 4 * count < 3 * len(sample):
            break
        result = [line.rstrip().removesuffix(end) for line in result]
    return result


def in_one_piece(lines: list[str]) -> list[str]:
    """Put together what containerd wrote in pieces: each but the last is marked with a P."""
    if not any(" P " in line for line in lines):
        return lines
    result: list[str] = []
    is_open = False
    for line in lines:
        piece = _PIECE.match(line)
        if is_open and piece and len(result[-1]) < LINE_MAX:
            result[-1] += line[piece.end() :]
        else:
            result.append(line)
        is_open = piece is not None and piece[2] == "P"
    return result


def is_begun(line: str) -> bool:
    """Whether a line begins as a line of the kernel's reports does."""
    return _BEGINNING.match(line) is not None


def unwrapped(lines: Sequence[str], is_stamped: Callable[[str], bool]) -> list[str]:
    """Put lines together that a console of a fixed width broke: none is longer, and what follows a
    line of this width has no stamp. Only what begins with a stamp is put together."""
    bare = [line.rstrip("\r") for line in lines]
    width = max(map(len, bare), default=0)
    full = [line for line in bare if len(line) == width]
    ends_blank = sum(line.endswith(" ") for line in full)
    if 10 * len(full) >= 9 * len(bare) and 2 * ends_blank > len(full):  # as a terminal copies
        bare = [line.rstrip() for line in bare]
        width = max(map(len, bare), default=0)
    if not _WIDTH_LEAST <= width <= _WIDTH_MAX:
        return list(lines)
    if sum(len(line) == width for line in bare) < _BROKEN_LEAST:
        return list(lines)
    if not _has_broken(bare, is_stamped, width):
        return list(lines)
    stamped = [is_stamped(line) for line in bare]
    stamped[0] |= len(bare[0]) == width and any(stamped[1:_FULL_LINES])  # its stamp may be cut
    is_log = stamped[0] or is_stamped is is_begun  # which may stand below other text
    if not is_log or not _is_broken(bare, stamped, width):
        return list(lines)
    result: list[str] = []
    parts: list[str] = []  # of the line that is open
    for line, begins in zip(bare, stamped, strict=True):
        if parts and (begins or len(parts) * width >= LINE_MAX):
            result.append("".join(parts))
            parts = []
        if not parts and not begins:
            result.append(line)
            continue
        parts.append(line)
        if len(line) < width:
            result.append("".join(parts))
            parts = []
    return [*result, "".join(parts)] if parts else result


def _has_broken(lines: Sequence[str], is_stamped: Callable[[str], bool], width: int) -> bool:
    """Whether a line of full width is followed by one without a stamp, of those looked at."""
    full = (i for i in range(len(lines) - 1) if len(lines[i]) == width)
    return any(not is_stamped(lines[i + 1]) for i in itertools.islice(full, _FULL_MAX))


def _is_broken(lines: Sequence[str], stamped: Sequence[bool], width: int) -> bool:
    """Whether several stamped lines are broken: of those before text without a stamp, which a
    program may have printed, most are as long as the width. A ruler is not text."""
    before = {
        lines[i]
        for i in range(len(lines) - 1)
        if stamped[i] and not stamped[i + 1] and any(map(str.isalnum, lines[i + 1]))
    }
    full = sum(len(line) == width for line in before)
    return full >= _BROKEN_LEAST and 2 * full >= len(before)


def refilled(lines: list[str], is_stamped: Callable[[str], bool]) -> list[str]:
    """Put lines together that a mail broke between words: the first word of the next line would not
    have fitted, and it has no stamp. A record may begin within a line that was filled again."""
    if not 2 * _FULL_LINES < len(lines) <= _FILLED_LINES:
        return lines
    quotes = [_QUOTE.match(line)[0] for line in lines]  # type: ignore[index]
    inner = [line[len(quote) :] for line, quote in zip(lines, quotes, strict=True)]
    bare = [line.strip() for line in inner]
    stamped = [is_stamped(line) for line in inner]
    follows = [False] * len(lines)
    for i in range(1, len(lines)):
        stamped[i] = stamped[i] and not _DAY.search(bare[i - 1])
        begins = stamped[i] or inner[i][:2].isspace() or quotes[i] != quotes[i - 1]
        follows[i] = not begins and bool(bare[i]) and (stamped[i - 1] or follows[i - 1])
    breaks = [i for i in range(1, len(lines)) if follows[i]]
    width = max((len(bare[i - 1]) for i in breaks if " " in bare[i - 1]), default=0)
    fits = {i for i in breaks if len(bare[i - 1]) + 1 + len(bare[i].split()[0]) > width}
    is_filled = _FILLED_LEAST <= width <= _FILLED_MAX and 2 * len(fits) >= len(breaks)
    if not is_filled or len(fits) < _FULL_LINES:
        return lines
    # A console cuts within words, at its width. Rows of a table are as long as each other anyway.
    texts = {inner[i - 1] for i in fits if not _ROW.search(bare[i - 1])}
    whole = max(map(len, texts), default=0)
    full = sum(len(text) == whole for text in texts)
    is_cut = full >= _FULL_LINES and 4 * full >= 3 * len(texts)
    result: list[str] = []
    for i, line in enumerate(lines):
        is_rest = i > 0 and bare[i] and not stamped[i] and len(inner[i - 1]) == whole
        is_rest = is_rest if is_cut else i in fits
        if not is_rest or len(result[-1]) >= LINE_MAX:
            result.append(line)
        elif is_cut:
            result[-1] += inner[i]
        else:
            result[-1] = f"{result[-1].rstrip()} {bare[i]}"
    return [part for line in result for part in _SECOND.split(line)]


def in_parts(lines: list[str]) -> list[str]:
    """Records of pstore are cut to parts, the last lines in part 1 (fs/pstore/platform.c)."""
    places = (i for i, line in enumerate(lines) if " Part" in line)
    heads = [(i, int(part[1])) for i in places if (part := _PART.fullmatch(lines[i]))]
    if len(heads) < 2 or heads[0][1] > heads[1][1]:  # the oldest part is first
        return lines
    ends = [*(i for i, _ in heads[1:]), len(lines)]
    result, event = lines[: heads[0][0]], list[list[str]]()
    for (i, number), end in zip(heads, ends, strict=True):
        if number == 1:
            result += itertools.chain.from_iterable(reversed(event))
            event = []
        event.append(lines[i + 1 : end])
    return [*result, *itertools.chain.from_iterable(reversed(event))]


def marked(lines: list[str], is_open: bool) -> list[str]:
    """Mark what may go on where lines are cut at a width, and the kernel prints nothing behind; and
    at the end of a file that ends within a line."""
    width = max(map(len, lines), default=0)
    full = [line for line in lines if len(line) == width]
    ends = {_DIGITS.sub("0", line[-8:]) for line in full}
    is_cut = len(full) >= _CUT_LINES and len(ends) >= _CUT_ENDS
    if is_cut and _CUT_LEAST <= width <= _WIDTH_MAX:
        lines = [_marked(line) if len(line) == width else line for line in lines]
    return [*lines[:-1], _marked(lines[-1])] if is_open and lines else lines


def _marked(line: str) -> str:
    return f"{line}{CUT}" if _OPEN_END.search(line) else line

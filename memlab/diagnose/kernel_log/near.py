"""Which lines of a log may be about want of memory: the others are only counted, which is what
makes a log of many MiB a matter of seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from memlab.diagnose.kernel_log import lost

MEMORY = (
    "Mem-Info:", "Mem-info:", "active_anon:", "slab_reclaimable:", "kB min:", "slab info:",
    "Free swap ",
)  # fmt: skip
"""What opens a report that begins in its midst."""
_WORDS = (
    "oom", "OOM", "emory", "ill", "SIG", "total_vm", "badness", "allocation failure",
    "allocation stalls",
    "vmalloc error: ", "vmap allocation for size ",
    "  cache: ", "SLUB", "evict", "is below limit", "on behalf of", "atchdog",
    "fork rejected by pids", "__alloc_pages_slow", "lmkd", "victim processes", "_threshold_",
    *MEMORY, *lost.MARKS,
)  # fmt: skip
_MANY = 20_000  # lines of a log whose far lines are not taken apart
_BEFORE, AFTER = 12_000, 50_000  # lines of a report before and behind a line with such a word
CHUNK = 1000  # lines that are searched at once, which is far quicker than each of them
_ENDS = 64  # lines at both ends, of which the stamps are read


def has_word(line: str) -> bool:
    """Whether a line has a word without which no sentence about memory is written."""
    for word in _WORDS:  # noqa: SIM110  a generator takes half as long again
        if word in line:
            return True
    return False


def chunks(lines: Iterable[str]) -> Iterator[tuple[list[str], str]]:
    """Yield some lines at a time, and as one text."""
    iterator = iter(lines)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk, "\n".join(chunk)


def _places(lines: Sequence[str]) -> Iterator[int]:
    """Where a line has such a word, and the last lines."""
    end = len(lines) - _ENDS
    for begin in range(0, end, CHUNK):
        chunk = lines[begin : min(end, begin + CHUNK)]
        if has_word("\n".join(chunk)):
            yield from (begin + i for i, line in enumerate(chunk) if has_word(line))
    yield from range(end, len(lines))


def ranges(lines: Sequence[str]) -> Iterator[tuple[int, int, bool]]:
    """Yield a begin and an end, and whether the lines between are near one with such a word."""
    count = len(lines)
    if count <= _MANY:
        yield 0, count, True
        return
    begin, end = 0, _ENDS  # of the near lines
    for i in _places(lines):
        if i - _BEFORE > end:
            yield begin, end, True
            yield end, i - _BEFORE, False
            begin = i - _BEFORE
        end = min(count, i + AFTER)
    yield begin, end, True

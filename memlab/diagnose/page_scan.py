"""What lies in an address space, from PAGEMAP_SCAN (ioctl, Linux 6.7) in short pieces.

Of a large process pieces of its mappings are scanned, drawn by chance, the same ones each time.
Sources: the kernel's admin-guide/mm/pagemap.rst; include/uapi/linux/fs.h.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import math
import os
import random
import struct
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memlab.observe import process

PAGE = os.sysconf("SC_PAGE_SIZE")
FILE, PRESENT, SWAPPED, ZERO, HUGE = 4, 8, 16, 32, 64
CHUNK = 2 << 20
PIECE_PAGES = 2048  # 8 MiB: some 0.1 ms under the lock, 0.2 at most
_SCAN = 0xC060_6610  # _IOWR('f', 16, struct pm_scan_arg)
_ARGUMENTS = struct.Struct("=12Q")
_REGIONS = 512
_SPAN_BYTES, _SPANS, _SPAN_MAPPINGS = 64 << 20, 1024, 1000
"""A scan also passes what holds no page: 0.2 us for a mapping, as much as for a page where page
tables are left. Of 64 GiB or more of address space a range is longer."""
PAUSE_S = 50e-6
"""Between two pieces: a reader that comes back at once keeps a writer of the lock waiting."""
WHOLE_BYTES_MAX = 512 << 20
"""A process that holds more is scanned in part: to scan so much twice takes some 15 ms."""
_SAMPLED_BYTES, _PARTS_MAX = 256 << 20, 2000
"""Of a larger one at most, and in how many parts: each takes 10 us."""
_SMALL_BYTES_MAX = 64 << 20  # of its smallest mappings, which are scanned whole
_PART_LEAST = 64 << 10
_MIXING = 0x9E3779B97F4A7C15
"""An odd number (2**64 by the golden ratio): a place by chance for a fifteenth of what `random`
takes to begin."""


class PageRun(NamedTuple):
    """Pages of one kind in one mapping, or in none; between them pages may lack."""

    start: int
    end: int
    kind: int
    size_bytes: int
    """Of its pages."""


class Unsupported(Exception):
    """Why the kernel does not scan."""


def parts(
    mappings: Sequence[process.Mapping], held_bytes: int
) -> tuple[Sequence[process.Mapping], dict[int, float]]:
    """What is scanned, and how often each mapping counts that is scanned in part, by its start. The
    smallest mappings are scanned whole, and at least 64 KiB of each other one."""
    if held_bytes <= WHOLE_BYTES_MAX or not mappings:  # no mapping: it ended, or is in execve(2)
        return mappings, {}
    virtual = sum(one.size_bytes for one in mappings)
    most = min(_SAMPLED_BYTES / held_bytes, _PARTS_MAX * CHUNK / virtual)
    share = float(2.0 ** math.floor(math.log2(most)))  # what grows a little has the same parts
    whole = _whole_below([one.size_bytes for one in mappings])
    result: list[process.Mapping] = []
    weights: dict[int, float] = {}
    for mapping in mappings:
        if mapping.size_bytes <= whole or mapping.path == "[vsyscall]":
            result.append(mapping)
            continue
        drawn = list(_drawn(mapping, share))
        weights[mapping.start] = mapping.size_bytes / sum(one.size_bytes for one in drawn)
        result += drawn
    return result, weights


def _whole_below(sizes: Sequence[int]) -> int:
    """The size up to which all mappings are scanned whole."""
    total = reached = 0
    for size, count in sorted(Counter(sizes).items()):
        total += size * count
        if total > _SMALL_BYTES_MAX:
            break
        reached = size
    return max(reached, _PART_LEAST)


def _drawn(mapping: process.Mapping, share: float) -> Iterator[process.Mapping]:
    """Some chunks of a large mapping, or a part of one chunk of a smaller one."""
    wanted = mapping.size_bytes * share
    if wanted >= CHUNK:
        draw = random.Random(mapping.start)
        first, last = mapping.start // CHUNK, -(-mapping.end // CHUNK)
        for i in sorted(draw.sample(range(first, last), round(wanted / CHUNK))):
            yield mapping._replace(
                start=max(mapping.start, i * CHUNK), end=min(mapping.end, (i + 1) * CHUNK)
            )
        return
    size = max(_PART_LEAST, round(wanted / PAGE) * PAGE)
    places = (mapping.size_bytes - size) // PAGE + 1
    at = mapping.start + (mapping.start * _MIXING >> 32) % places * PAGE
    yield mapping._replace(start=at, end=at + size)


def runs(
    fd: int,
    mappings: Sequence[process.Mapping],
    *,
    apart: bool = False,
    marks_huge: bool = True,
    without: int = 0,
) -> Iterator[PageRun]:
    """What is mapped or in swap, in ascending order; `apart`: what lies between the mappings is not
    scanned; `marks_huge`: huge pages are of another kind, and each is a run; `without`: what is of
    one of these kinds is left out. Raises `Unsupported`."""
    mappings = [m for m in mappings if m.path != "[vsyscall]"]
    edges = [edge for m in mappings for edge in (m.start, m.end)]
    vector = (ctypes.c_uint64 * (3 * _REGIONS))()
    wanted = PRESENT | SWAPPED
    kinds = wanted | FILE | ZERO | (HUGE if marks_huge else 0)
    passed = 0
    for at, end in _spans(mappings, apart=apart):
        while at < end:
            argument = bytearray(
                _ARGUMENTS.pack(
                    _ARGUMENTS.size, 0, at, end, 0, ctypes.addressof(vector), _REGIONS,
                    PIECE_PAGES, 0, 0, wanted, kinds,
                )
            )  # fmt: skip
            try:
                count = fcntl.ioctl(fd, _SCAN, argument)
            except OSError as error:
                if isinstance(error, ProcessLookupError):
                    raise
                raise Unsupported(_why(error)) from None
            yield from _joined(vector[: 3 * count], edges, without)
            reached = _ARGUMENTS.unpack(argument)[4]
            if reached <= at:
                break
            passed += reached - at
            at = reached
            if at < end or passed >= PIECE_PAGES * PAGE:
                time.sleep(PAUSE_S)
                passed = 0


def _why(error: OSError) -> str:
    """Of pagemap ENOTTY says that it has no such call."""
    if error.errno == errno.ENOTTY:
        return "this kernel has no PAGEMAP_SCAN (Linux 6.7)"
    return f"PAGEMAP_SCAN fails with {errno.errorcode.get(error.errno or 0, error.errno)}"


def _joined(words: list[int], edges: Sequence[int], without: int = 0) -> Iterator[PageRun]:
    """Neighbours of one kind as one: a program that touches every second page has a region for
    each. Huge pages stay apart, because their content is read, and reading a page that is not there
    would bring it in. `edges`: the starts and the ends of the mappings, in ascending order."""
    begins, ends, kinds = words[::3], words[1::3], words[2::3]
    if begins and len(set(kinds)) == 1 and not kinds[0] & (HUGE | without):
        inside = bisect_right(edges, begins[0])
        if inside == len(edges) or ends[-1] <= edges[inside]:
            yield PageRun(begins[0], ends[-1], _kind(kinds[0]), sum(ends) - sum(begins))
            return
    at = 0
    of_kind = [*map(_kind, kinds)]
    while at < len(begins):
        first, kind = at, of_kind[at]
        while at < len(begins) and of_kind[at] == kind:
            at += 1
        if kind & without:
            continue
        start, end = begins[first], ends[at - 1]
        inside = bisect_right(edges, start)
        if not kind & HUGE and (inside == len(edges) or end <= edges[inside]):
            yield PageRun(start, end, kind, sum(ends[first:at]) - sum(begins[first:at]))
            continue
        for start, end in zip(begins[first:at], ends[first:at], strict=True):
            inside = bisect_right(edges, start)
            if inside == len(edges) or end <= edges[inside]:
                yield PageRun(start, end, kind, end - start)
            else:
                yield from _by_mapping(start, end, kind, edges)


def _kind(kind: int) -> int:
    return kind if kind & PRESENT else kind & ~ZERO


def _by_mapping(start: int, end: int, kind: int, edges: Sequence[int]) -> Iterator[PageRun]:
    """A region may lie in neighbouring mappings, or go on behind the last one that was listed."""
    while start < end:
        i = bisect_right(edges, start)
        stop = min(end, edges[i]) if i < len(edges) else end
        yield PageRun(start, stop, kind, stop - start)
        start = stop


def _spans(
    mappings: Sequence[process.Mapping], *, apart: bool = False
) -> Iterator[tuple[int, int]]:
    """Ranges to scan in turn, in ascending order. A scan holds the lock until it has found so many
    pages: a range is short, so that mappings and page tables that hold none are soon behind it."""
    if not mappings:
        return
    most = max(_SPAN_BYTES, sum(m.size_bytes for m in mappings) // _SPANS // PAGE * PAGE)
    start, end, mapped, count = mappings[0].start, mappings[0].start, 0, 0
    for mapping in mappings:
        at = mapping.start
        if apart and at > end > start:
            yield start, end
            start, end, mapped, count = at, at, 0, 0
        while at < mapping.end:
            if mapped >= most or count >= _SPAN_MAPPINGS:
                yield start, end
                start, mapped, count = at, 0, 0
            part = min(mapping.end - at, most - mapped)
            at, mapped = at + part, mapped + part
            end = at
        count += 1
    yield start, end

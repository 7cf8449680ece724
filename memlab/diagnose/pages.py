"""Which pages a process has, counted from its page tables in pieces.

smaps walks a whole mapping under the mmap_lock: some 15 ms per GiB, in which calls that map memory
wait. PAGEMAP_SCAN (page_scan.py) stops after so many pages, and a read of pagemap takes the lock
again for every 2 MiB, so that what waits gets it in between. Flags of pages (LazyFree, locked, KSM)
come from /proc/kpageflags for a random sample, which only root may read.

Sources: the kernel's admin-guide/mm/pagemap.rst; include/uapi/linux/kernel-page-flags.h.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from memlab.diagnose import page_scan, ticks
from memlab.diagnose.memory_files import MemoryFiles
from memlab.diagnose.page_scan import FILE, HUGE, PAGE, SWAPPED, ZERO, PageRun
from memlab.observe import files, proc, process
from memlab.observe.proc import ROOT

_PIECES_MAX, _PIECES_OF_LARGE = 2000, 500
"""Whose entries are read: small ones take as long as large ones. Fewer of a large process."""
_CHUNK = page_scan.CHUNK
_PIECES_AT_ONCE, _CLOSE_BYTES = 64, 128 << 10
_FLAGS_SAMPLED, _FLAGS_OF_LARGE = 3000, 1500
_HUGE_SAMPLED, _SMALL_OF_HUGE = 32, 16
# The highest byte of an entry of pagemap: present, swapped, file or shared, mapped once.
_BYTE_PRESENT, _BYTE_SWAPPED, _BYTE_FILE, _BYTE_ONCE = 0x80, 0x40, 0x20, 0x01
_WALKED_BYTES_MAX = 1 << 30  # of small pages: some 15 ms


@dataclass(frozen=True, slots=True)
class Sampled:
    """A share found in a random sample, with the 95 % interval of Wilson (1927)."""

    sampled: int
    found: float
    """No whole number if the sample counts as a smaller one."""

    @property
    def value(self) -> float:
        return self.found / self.sampled if self.sampled else 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        n, z = self.sampled, 1.96
        if not n:
            return 0.0, 1.0
        middle = (self.value + z * z / (2 * n)) / (1 + z * z / n)
        half = (
            z / (1 + z * z / n) * math.sqrt(self.value * (1 - self.value) / n + z * z / (4 * n * n))
        )
        return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True)
class Pages:
    """Bytes that are resident, by what the page tables say."""

    at_s: float
    anonymous_bytes: int
    """Private memory of the process, all sizes of pages."""
    shared_bytes: int | None
    """Of it mapped by another process too, since a fork."""
    merged_bytes: int | None
    """Of it one page with others of equal content (KSM); None where the kernel does not show it of
    a process, and has merged some."""
    read_share: float
    """The share of its memory whose entries were read: below 1 the parts of it are estimates."""
    file_bytes: int
    """Files, shared memory and tmpfs."""
    huge_bytes: int
    """Anonymous, in transparent huge pages that one entry maps."""
    swapped_bytes: int
    zeros_bytes: int
    """Read and never written: the one page of zeros, mapped as often; no memory is taken."""
    by_mapping: dict[int, int] = field(repr=False)
    """Resident bytes by the start of the mapping."""
    lazyfree: Sampled | None
    """Of the anonymous pages, also of those that were written since, and of MAP_DROPPABLE; None
    where page flags may not be read."""
    locked: Sampled | None
    """Of all resident pages, locked by mlock(2)."""
    unused: Sampled | None
    """Of the small pages in huge ones, those that hold only zeros; None without huge pages."""
    seconds: float
    """What reading took, in pieces of at most 8 MiB."""
    files_by_mapping: dict[int, int] = field(default_factory=dict, repr=False)
    """Of `by_mapping` pages of files, shared memory and tmpfs; the others are private."""
    unlisted_bytes: int = 0
    """Resident in no mapping of the list: what was mapped after the list was read."""
    lazyfree_bytes: int | None = None
    """What the kernel counts as such: not written since; None if that was not read."""

    @property
    def lazy_bytes(self) -> float:
        """As the kernel counts them, else at most."""
        if self.lazyfree_bytes is not None:
            return self.lazyfree_bytes
        return self.lazyfree.value * self.anonymous_bytes if self.lazyfree else 0.0


class NotSeen(Exception):
    """Why the page tables are not read."""


def read(
    pid: int, mappings: Sequence[process.Mapping], *, detailed: bool = True, is_sample: bool = False
) -> tuple[Pages, dict[str, str]]:
    """The pages, and /proc/PID/status of the moment at which they were counted. `detailed` adds the
    shares; `is_sample`: the mappings are a part of all. Of a sample, the sums are the kernel's
    (RssAnon) and the parts are shares of them. Raises `NotSeen`, and `OSError` where the process
    has ended."""
    began = time.monotonic()
    with _pagemap(pid) as fd:
        held = proc.status_bytes(proc.status(pid), "VmRSS") or 0
        parts, weights = page_scan.parts(mappings, held)
        runs = _runs(fd, parts, apart=is_sample or bool(weights))
        status = proc.status(pid)
        counted = _Weights(mappings, weights)
        draw = _Drawn(fd, runs, counted, detailed=detailed)
    in_part = is_sample or bool(weights)
    lazy, locked = _flags(draw.pieces, in_part=in_part) if detailed else (None, None)
    sums, by_mapping, of_files, share = _sums(runs, counted)
    if in_part:
        sums = _scaled(sums, status)
    merged = merged_bytes(pid)
    common = round(sums["anonymous"] * draw.shared_share)
    found = Pages(
        at_s=began,
        anonymous_bytes=round(sums["anonymous"]),
        shared_bytes=max(0, common - (merged or 0)),
        merged_bytes=merged if merged is None else min(merged, common),
        read_share=draw.share * share,
        file_bytes=round(sums["files"]),
        huge_bytes=round(sums["huge"]),
        swapped_bytes=round(sums["swapped"]),
        zeros_bytes=round(sums["zeros"]),
        by_mapping=by_mapping,
        files_by_mapping=of_files,
        unlisted_bytes=round(sums["unlisted"]),
        lazyfree=lazy,
        lazyfree_bytes=_lazyfree(pid, held) if lazy and lazy.found else None,
        locked=locked,
        unused=_unused(pid, runs, counted, in_part=in_part) if detailed else None,
        seconds=time.monotonic() - began,
    )
    return found, status


@contextmanager
def _pagemap(pid: int) -> Iterator[int]:
    try:
        fd = os.open(ROOT / f"proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise NotSeen("its page tables may not be read: run as root") from None
    try:
        yield fd
    finally:
        os.close(fd)


def _runs(
    fd: int,
    parts: Sequence[process.Mapping],
    *,
    apart: bool = False,
    marks_huge: bool = True,
    without: int = 0,
) -> list[PageRun]:
    scanned = page_scan.runs(fd, parts, apart=apart, marks_huge=marks_huge, without=without)
    try:
        return list(scanned)
    except page_scan.Unsupported as why:
        raise NotSeen(str(why)) from None


def shared_bytes(pid: int, mappings: Sequence[process.Mapping]) -> int:
    """Anonymous memory that another process maps too, since a fork. Raises as `read` does."""
    private = [one for one in mappings if one.permissions.endswith("p")]
    with _pagemap(pid) as fd:
        runs = _runs(fd, private, marks_huge=False, without=FILE | SWAPPED | ZERO)
        drawn = _Drawn(fd, runs, _Weights(private, {}), detailed=False)
    common = round(sum(one.size_bytes for one in runs) * drawn.shared_share)
    return max(0, common - (merged_bytes(pid) or 0))


def anonymous_bytes(pid: int, mappings: Sequence[process.Mapping]) -> int:
    """Private memory in these mappings or parts of such. Raises as `read` does."""
    parts, weights = page_scan.parts(mappings, sum(one.size_bytes for one in mappings))
    with _pagemap(pid) as fd:
        runs = _runs(fd, parts, apart=True, marks_huge=False)
    return round(_sums(runs, _Weights(mappings, weights))[0]["anonymous"])


def merged_bytes(pid: int) -> int | None:
    """Since Linux 5.19: pages that several map, and not since a fork (KSM); None if they are not
    shown of a process, and there are some."""
    merged = files.number(ROOT / f"proc/{pid}/ksm_merging_pages")
    if merged is None and files.number(ROOT / "sys/kernel/mm/ksm/pages_sharing"):
        return None
    return (merged or 0) * PAGE


def _sums(
    runs: Sequence[PageRun], weights: _Weights
) -> tuple[dict[str, float], dict[int, int], dict[int, int], float]:
    """Bytes by what they are, the resident ones by mapping, of these the ones of files, and the
    share that was scanned."""
    kinds = ("zeros", "swapped", "files", "anonymous", "huge", "unlisted")
    sums: dict[str, float] = dict.fromkeys(kinds, 0.0)
    by_mapping: Counter[int] = Counter()
    of_files: Counter[int] = Counter()
    scanned = total = 0.0
    for start, _, kind, part in runs:
        at = weights.mapping_at(start)
        size = part * weights.of(start)
        if kind & ZERO:
            sums["zeros"] += size
        elif kind & SWAPPED:
            sums["swapped"] += size
        else:
            if at is None:
                sums["unlisted"] += size
            else:
                by_mapping[at] += round(size)
            if kind & FILE:
                sums["files"] += size
                if at is not None:
                    of_files[at] += round(size)
            else:
                sums["anonymous"] += size
                sums["huge"] += size if kind & HUGE else 0
            scanned, total = scanned + part, total + size
    return sums, dict(by_mapping), dict(of_files), scanned / total if total else 1.0


def _scaled(sums: dict[str, float], status: dict[str, str]) -> dict[str, float]:
    """A sample's sums as shares of what the kernel counts."""
    anonymous, files, shmem, swapped = (
        proc.status_bytes(status, name) or 0
        for name in ("RssAnon", "RssFile", "RssShmem", "VmSwap")
    )
    share = sums["huge"] / sums["anonymous"] if sums["anonymous"] else 0.0
    return {
        **sums, "anonymous": anonymous, "files": files + shmem, "swapped": swapped,
        "huge": anonymous * share,
    }  # fmt: skip


def _chunks(run: PageRun, *, aligned: bool = False) -> Iterator[tuple[int, int]]:
    """Of a run ranges of 2 MiB; `aligned`: each in one huge page."""
    at = run.start
    while at < run.end:
        end = min(run.end, (at // _CHUNK + 1) * _CHUNK if aligned else at + _CHUNK)
        yield at, end
        at = end


class _Weights:
    """How often a region counts: by the mapping in which it begins."""

    def __init__(self, mappings: Sequence[process.Mapping], weights: dict[int, float]) -> None:
        self._mappings, self._weights = mappings, weights
        self._starts = [one.start for one in mappings]
        self.in_part = bool(weights)

    def of(self, start: int) -> float:
        if not self._weights:
            return 1.0
        at = self.mapping_at(start)
        return 1.0 if at is None else self._weights.get(at, 1.0)

    def mapping_at(self, address: int) -> int | None:
        """Its start; None where no mapping of the list is: a process maps memory while it is looked
        at."""
        i = bisect_right(self._starts, address) - 1
        return self._starts[i] if i >= 0 and address < self._mappings[i].end else None


class _Drawn:
    """Entries of the runs: how many anonymous pages others map too, and what is needed to draw a
    random sample of all pages."""

    def __init__(
        self, fd: int, runs: Sequence[PageRun], weights: _Weights, *, detailed: bool
    ) -> None:
        pieces = [
            (at, end, one.kind, one.size_bytes * (end - at) / (one.end - one.start))
            for one in runs
            if not one.kind & (SWAPPED | ZERO) and (detailed or not one.kind & FILE)
            for at, end in (
                _chunks(one) if one.end - one.start > _CHUNK else ((one.start, one.end),)
            )
        ]
        most = _PIECES_OF_LARGE if weights.in_part else _PIECES_MAX
        self.share = min(1.0, most / max(len(pieces), 1))
        """Of the runs, those whose entries are read."""
        if self.share < 1:
            pieces = random.Random(len(pieces)).sample(pieces, most)
        counted = sum(size * weights.of(start) for start, _, _, size in pieces) if detailed else 0.0
        flags = _FLAGS_OF_LARGE if weights.in_part else _FLAGS_SAMPLED
        each = flags * PAGE / max(PAGE, counted)
        self._seen = self._once = 0.0
        self.pieces: list[tuple[bytes, float]] = []
        """Entries, and how many are to be drawn for each page that is there."""
        if not detailed and not weights.in_part:  # each counts alike: all of them at once
            read = [entries[7::8] for (_, kind), entries in _entries(fd, pieces) if not kind & FILE]
            self._count(b"".join(read), 1.0)
            return
        for (start, kind), entries in _entries(fd, pieces):
            weight, tops = weights.of(start), entries[7::8]
            if not kind & FILE:
                self._count(tops, weight)
            if detailed:
                self.pieces.append((entries, each * weight))

    @property
    def shared_share(self) -> float:
        return 1 - self._once / self._seen if self._seen else 0.0

    def _count(self, tops: bytes, weight: float) -> None:
        # Byte by byte: 8 MiB of entries take 2 ms of Python this way, and 1 s one by one.
        for top in set(tops):
            if top & _BYTE_PRESENT and not top & _BYTE_FILE:
                count = tops.count(top) * weight
                self._seen += count
                self._once += count if top & _BYTE_ONCE else 0


def _entries(
    fd: int, pieces: Sequence[tuple[int, int, int, float]]
) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Of each piece its start and kind, and its entries of pagemap. Those that lie close together
    in 2 MiB are read at once: a call takes as long as 32 pages."""
    unpaused = begin = 0
    content = b""
    for i, (start, end, kind, _) in enumerate(pieces):
        if not begin <= start or end > begin + len(content) // 8 * PAGE:
            begin, reach = start, end
            for following, stop, _, _ in pieces[i + 1 : i + 1 + _PIECES_AT_ONCE]:
                if not 0 <= following - reach <= _CLOSE_BYTES or stop > begin + _CHUNK:
                    break
                reach = stop
            content = os.pread(fd, 8 * ((reach - begin) // PAGE), 8 * (begin // PAGE))
            unpaused += reach - begin
            if unpaused >= page_scan.PIECE_PAGES * PAGE:
                time.sleep(page_scan.PAUSE_S)
                unpaused = 0
        at = 8 * ((start - begin) // PAGE)
        yield (start, kind), content[at : at + 8 * ((end - start) // PAGE)]


def _lazyfree(pid: int, resident_bytes: int) -> int | None:
    """A flag of a page does not say that it was written after MADV_FREE; its entry does, which the
    kernel reads for all pages."""
    if resident_bytes > _WALKED_BYTES_MAX:
        return None
    return (files.known(process.rollup, pid) or {}).get("LazyFree")


class _Page(ctypes.Structure):
    """A page of a piece: struct page of page_flags.c."""

    _fields_ = (
        ("frame", ctypes.c_uint64), ("flags", ctypes.c_uint64), ("state", ctypes.c_longlong),
    )  # fmt: skip


def _flags(
    pieces: Sequence[tuple[bytes, float]], *, in_part: bool
) -> tuple[Sampled | None, Sampled | None]:
    """Of anonymous pages those that are LazyFree, which are in no swap; of all, those locked.
    `in_part`: other pieces were not looked at."""
    try:
        fd = os.open(ROOT / "proc/kpageflags", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None, None
    try:
        sums = _sums_of_flags(fd, pieces)
    finally:
        os.close(fd)
    if sums is None:
        return None, None
    lazy = _of_pieces(list(zip(sums[2::4], sums[3::4], strict=True)), in_part=in_part)
    return lazy, _of_pieces(list(zip(sums[::4], sums[1::4], strict=True)), in_part=in_part)


def _sums_of_flags(fd: int, pieces: Sequence[tuple[bytes, float]]) -> list[int] | None:
    """Of each piece how many pages were drawn, how many of them are locked, how many anonymous, and
    how many of these LazyFree; None if the kernel shows no frames, as to an ordinary user."""
    number = len(pieces)
    entries = (ctypes.c_char_p * number)(*(content for content, _ in pieces))
    counts = (ctypes.c_int * number)(*(len(content) // 8 for content, _ in pieces))
    shares = (ctypes.c_double * number)(*(share for _, share in pieces))
    pages = (_Page * max(counts, default=0))()
    sums = (ctypes.c_longlong * (4 * number))()
    seed = ctypes.c_uint64(number)
    if not ticks.library().page_flags(fd, entries, counts, shares, number, seed, pages, sums):
        return None
    return sums[:]


def _of_pieces(pieces: Iterable[tuple[int, int]], *, in_part: bool) -> Sampled:
    """Of how many pages in each piece how many are so. Neighbours are alike: if other pieces were
    not looked at, the sample counts as the one of independent pages that is as sure."""
    counts = [(pages, those) for pages, those in pieces if pages]
    sampled, found = sum(pages for pages, _ in counts), sum(those for _, those in counts)
    if not in_part or not counts:
        return Sampled(sampled, found)
    share = found / sampled
    if len(counts) == 1:
        return Sampled(1, share)
    spread = sum((those - pages * share) ** 2 for pages, those in counts) / sampled**2
    spread *= len(counts) / (len(counts) - 1)
    worth = share * (1 - share) / spread if spread else float(len(counts))
    sure = max(1, min(sampled, round(worth)))
    return Sampled(sure, share * sure)


def _unused(
    pid: int, runs: Sequence[PageRun], weights: _Weights, *, in_part: bool
) -> Sampled | None:
    """Zeros in huge pages: what a program asked for in small pieces and never touched. Of a huge
    page that was scanned in part only that part is read: what lies behind it may not be there."""
    huge = [
        (start, end, weights.of(start))
        for one in runs
        if one.kind & HUGE and not one.kind & (FILE | SWAPPED | ZERO)
        for start, end in _chunks(one, aligned=True)
    ]
    if not huge:
        return None
    draw = random.Random(len(huge))
    counts = []
    with suppress(OSError), MemoryFiles(pid) as memory:
        for start, end, times in _spread(huge, draw):
            places = [draw.randrange(start, end, PAGE) for _ in range(times * _SMALL_OF_HUGE)]
            contents = [content for at in places if len(content := memory.content(at)) == PAGE]
            counts.append((len(contents), sum(content.count(0) == PAGE for content in contents)))
    zeros = _of_pieces(counts, in_part=in_part or len(huge) > _HUGE_SAMPLED)
    return zeros if zeros.sampled else None


def _spread(
    ranges: Sequence[tuple[int, int, float]], draw: random.Random
) -> Iterator[tuple[int, int, int]]:
    """At most so many of the ranges, in order, and how often each is drawn: by its size and its
    weight, at equal distances from a place by chance."""
    step = sum((end - start) * weight for start, end, weight in ranges)
    step /= min(len(ranges), _HUGE_SAMPLED)
    rest = draw.random() * step
    for start, end, weight in ranges:
        size = (end - start) * weight
        times = max(0, math.ceil((size - rest) / step))
        rest += times * step - size
        if times:
            yield start, end, times

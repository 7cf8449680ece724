"""Which pages a process has, counted from its page tables in pieces.

smaps walks a whole mapping under the mmap_lock: some 15 ms per GiB, in which calls that map memory
wait. PAGEMAP_SCAN (ioctl, Linux 6.7) stops after so many pages, and a read of pagemap takes the
lock again for every 2 MiB, so that what waits gets it in between. Flags of pages (LazyFree, locked,
KSM) come from /proc/kpageflags for a random sample, which root alone may read.

Sources: the kernel's admin-guide/mm/pagemap.rst; include/uapi/linux/fs.h,
include/uapi/linux/kernel-page-flags.h.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import math
import os
import random
import struct
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from memlab.observe import proc, process
from memlab.observe.proc import ROOT

PAGE = os.sysconf("SC_PAGE_SIZE")
_SCAN = 0xC060_6610  # _IOWR('f', 16, struct pm_scan_arg)
_ARGUMENTS = struct.Struct("=12Q")
_REGIONS = 512
_PIECE_PAGES = 2048  # 8 MiB: some 0.1 ms under the lock, 0.2 at most
_SPAN_BYTES, _SPANS, _SPAN_MAPPINGS = 64 << 20, 1024, 1000
"""A scan also passes what holds no page: 0.2 us for a mapping, as much as for a page where page
tables are left. Of 64 GiB or more of address space a range is longer."""
_PAUSE_S = 50e-6
"""Between two pieces: a reader that comes back at once keeps a writer of the lock waiting."""
_FILE, _PRESENT, _SWAPPED, _ZERO, _HUGE = 4, 8, 16, 32, 64
_READ_BYTES_MAX = 512 << 20
"""Of memory that is scanned and whose entries are read: some 15 ms of this program."""
_PIECES_MAX = 2000  # whose entries are read: small ones take as long as large ones
_CHUNK = 2 << 20
_FLAGS_SAMPLED = 3000
_HUGE_SAMPLED, _SMALL_OF_HUGE = 32, 16
# The highest byte of an entry of pagemap: present, swapped, file or shared, mapped once.
_BYTE_PRESENT, _BYTE_SWAPPED, _BYTE_FILE, _BYTE_ONCE = 0x80, 0x40, 0x20, 0x01
# KPF_ numbers
_ANON, _SWAPBACKED, _UNEVICTABLE, _KSM, _MLOCKED = 12, 14, 18, 21, 33


@dataclass(frozen=True, slots=True)
class Sampled:
    """A share found in a random sample, with the 95 % interval of Wilson (1927)."""

    sampled: int
    found: int

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
    read_share: float
    """The share of the anonymous memory whose entries were read for `shared_bytes`."""
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
    """Of the anonymous pages; None where page flags may not be read."""
    locked: Sampled | None
    """Of all resident pages, locked by mlock(2)."""
    unused: Sampled | None
    """Of the small pages in huge ones, those that hold zeros alone; None without huge pages."""
    seconds: float
    """What reading took, in pieces of at most 8 MiB."""


_Region = tuple[int, int, int]


class NotSeen(Exception):
    """Why the page tables are not read."""


def read(
    pid: int,
    mappings: Sequence[process.Mapping],
    *,
    detailed: bool = True,
    is_sample: bool = False,
) -> tuple[Pages, dict[str, str]]:
    """The pages, and /proc/PID/status of the moment at which they were counted. `detailed` adds the
    shares; `is_sample`: the mappings are a part of all. Of a sample, the sums are the kernel's
    (RssAnon) and the parts are shares of them. Raises `NotSeen`, and `OSError` where the process
    has ended."""
    began = time.monotonic()
    try:
        fd = os.open(ROOT / f"proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise NotSeen("its page tables may not be read: run as root") from None
    try:
        held = proc.status_bytes(proc.status(pid), "VmRSS") or 0
        parts, weights = _parts(mappings, held)
        regions = list(_regions(fd, parts, apart=is_sample or bool(weights)))
        status = proc.status(pid)
        draw = _Drawn(fd, regions, _Weights(mappings, weights), detailed=detailed)
        lazy, locked = _flags(draw.frames) if detailed else (None, None)
    finally:
        os.close(fd)
    sums, by_mapping = _sums(regions, mappings, weights)
    if is_sample or weights:
        sums = _scaled(sums, status)
    found = Pages(
        at_s=began,
        anonymous_bytes=round(sums["anonymous"]),
        shared_bytes=round(sums["anonymous"] * draw.shared_share),
        read_share=draw.share,
        file_bytes=round(sums["files"]),
        huge_bytes=round(sums["huge"]),
        swapped_bytes=round(sums["swapped"]),
        zeros_bytes=round(sums["zeros"]),
        by_mapping=by_mapping,
        lazyfree=lazy,
        locked=locked,
        unused=_unused(pid, regions) if detailed else None,
        seconds=time.monotonic() - began,
    )
    return found, status


def shared_bytes(pid: int, mappings: Sequence[process.Mapping]) -> int:
    """Anonymous memory that another process maps too, since a fork. Raises as `read` does."""
    private = [one for one in mappings if one.permissions.endswith("p")]
    try:
        fd = os.open(ROOT / f"proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise NotSeen("its page tables may not be read: run as root") from None
    try:
        regions = [one for one in _regions(fd, private) if not one[2] & (_FILE | _SWAPPED | _ZERO)]
        drawn = _Drawn(fd, regions, _Weights(private, {}), detailed=False)
    finally:
        os.close(fd)
    return round(sum(end - start for start, end, _ in regions) * drawn.shared_share)


def _parts(
    mappings: Sequence[process.Mapping], held_bytes: int
) -> tuple[Sequence[process.Mapping], dict[int, float]]:
    """What is scanned, and how often each mapping counts that is scanned in part: of a large
    process pieces drawn by chance, the same ones each time."""
    share = _READ_BYTES_MAX / max(held_bytes, 1)
    if share >= 1:
        return mappings, {}
    parts: list[process.Mapping] = []
    weights: dict[int, float] = {}
    for mapping in mappings:
        starts = range(mapping.start, mapping.end, _PIECE_PAGES * PAGE)
        if mapping.size_bytes < _SPAN_BYTES or mapping.path == "[vsyscall]":
            parts.append(mapping)
            continue
        draw = random.Random(mapping.start)
        drawn = [
            mapping._replace(start=at, end=min(at + _PIECE_PAGES * PAGE, mapping.end))
            for at in sorted(draw.sample(starts, max(1, round(len(starts) * share))))
        ]
        weights[mapping.start] = mapping.size_bytes / sum(one.size_bytes for one in drawn)
        parts += drawn
    return parts, weights


def _sums(
    regions: Sequence[_Region], mappings: Sequence[process.Mapping], weights: dict[int, float]
) -> tuple[dict[str, float], dict[int, int]]:
    """Bytes by what they are, and the resident ones by mapping."""
    starts = [mapping.start for mapping in mappings]
    sums: dict[str, float] = dict.fromkeys(("zeros", "swapped", "files", "anonymous", "huge"), 0.0)
    by_mapping: Counter[int] = Counter()
    for start, end, kind in regions:
        for at, part in _by_mapping(start, end, starts):
            size = part * weights[at] if at in weights else part
            if kind & _ZERO:
                sums["zeros"] += size
            elif kind & _SWAPPED:
                sums["swapped"] += size
            else:
                sums["files" if kind & _FILE else "anonymous"] += size
                if kind & _HUGE and not kind & _FILE:
                    sums["huge"] += size
                by_mapping[at] += round(size)
    return sums, dict(by_mapping)


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


def _regions(
    fd: int, mappings: Sequence[process.Mapping], *, apart: bool = False
) -> Iterator[_Region]:
    """Start, end and kind of what is mapped or in swap, in ascending order; `apart`: what lies
    between the mappings is not scanned."""
    mappings = [m for m in mappings if m.path != "[vsyscall]"]
    if not mappings:
        return
    vector = (ctypes.c_uint64 * (3 * _REGIONS))()
    wanted = _PRESENT | _SWAPPED
    kinds = wanted | _FILE | _ZERO | _HUGE
    for at, end in _spans(mappings, apart=apart):
        while at < end:
            argument = bytearray(
                _ARGUMENTS.pack(
                    _ARGUMENTS.size, 0, at, end, 0, ctypes.addressof(vector), _REGIONS,
                    _PIECE_PAGES, 0, 0, wanted, kinds,
                )
            )  # fmt: skip
            try:
                count = fcntl.ioctl(fd, _SCAN, argument)
            except OSError as error:
                if isinstance(error, ProcessLookupError):
                    raise
                raise NotSeen("this kernel has no PAGEMAP_SCAN (Linux 6.7)") from None
            for i in range(count):
                start, stop, kind = vector[3 * i : 3 * i + 3]
                yield start, stop, kind if kind & _PRESENT else kind & ~_ZERO
            reached = _ARGUMENTS.unpack(argument)[4]
            if reached <= at:
                break
            at = reached
            time.sleep(_PAUSE_S)


def _spans(
    mappings: Sequence[process.Mapping], *, apart: bool = False
) -> Iterator[tuple[int, int]]:
    """Ranges to scan in turn, in ascending order. A scan holds the lock until it has found so many
    pages: a range is short, so that mappings and page tables that hold none are soon behind it."""
    most = max(_SPAN_BYTES, sum(m.size_bytes for m in mappings) // _SPANS)
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


def _by_mapping(start: int, end: int, starts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """A region may lie in neighbouring mappings."""
    i = max(0, bisect_right(starts, start) - 1)
    while start < end:
        stop = min(end, starts[i + 1]) if i + 1 < len(starts) else end
        yield starts[i], stop - start
        start, i = stop, i + 1


class _Weights:
    """How often a region counts: by the mapping in which it begins."""

    def __init__(self, mappings: Sequence[process.Mapping], weights: dict[int, float]) -> None:
        self._starts, self._weights = [one.start for one in mappings], weights

    def of(self, start: int) -> float:
        if not self._weights:
            return 1.0
        at = self._starts[max(0, bisect_right(self._starts, start) - 1)]
        return self._weights.get(at, 1.0)


class _Drawn:
    """Entries of the regions: how many anonymous pages others map too, and page frames of a random
    sample of all pages."""

    def __init__(
        self, fd: int, regions: Sequence[_Region], weights: _Weights, *, detailed: bool
    ) -> None:
        pieces = [
            (at, min(at + _CHUNK, end), kind)
            for start, end, kind in regions
            if not kind & (_SWAPPED | _ZERO) and (detailed or not kind & _FILE)
            for at in range(start, end, _CHUNK)
        ]
        total = sum(end - start for start, end, _ in pieces)
        self._draw = random.Random(total)
        self.share = min(1.0, _READ_BYTES_MAX / max(total, 1), _PIECES_MAX / max(len(pieces), 1))
        """Of the memory whose entries are read."""
        if self.share < 1:
            pieces = self._draw.sample(pieces, max(1, int(len(pieces) * self.share)))
        counted = sum((end - start) * weights.of(start) for start, end, _ in pieces)
        self._each = _FLAGS_SAMPLED * PAGE / max(PAGE, counted) if detailed else 0.0
        self._seen = self._once = 0.0
        self.frames: list[int] = []
        unpaused = 0
        for start, end, kind in pieces:
            entries = os.pread(fd, 8 * ((end - start) // PAGE), 8 * (start // PAGE))
            unpaused += end - start
            if unpaused >= _PIECE_PAGES * PAGE:
                time.sleep(_PAUSE_S)
                unpaused = 0
            weight = weights.of(start)
            if not kind & _FILE:
                self._count(entries, weight)
            if detailed:
                self._sample(array.array("Q", entries), weight)

    @property
    def shared_share(self) -> float:
        return 1 - self._once / self._seen if self._seen else 0.0

    def _count(self, entries: bytes, weight: float) -> None:
        # Byte by byte: 8 MiB of entries take 2 ms of Python this way, and 1 s one by one.
        tops = entries[7::8]
        for top in set(tops):
            if top & _BYTE_PRESENT and not top & _BYTE_FILE:
                count = tops.count(top) * weight
                self._seen += count
                self._once += count if top & _BYTE_ONCE else 0

    def _sample(self, entries: array.array[int], weight: float) -> None:
        wanted = len(entries) * self._each * weight
        for _ in range(int(wanted) + (self._draw.random() < wanted % 1)):
            entry = entries[int(self._draw.random() * len(entries))] if entries else 0
            if entry >> 63:
                self.frames.append(entry & ((1 << 55) - 1))


def _flags(frames: Sequence[int]) -> tuple[Sampled | None, Sampled | None]:
    """Of anonymous pages those that are LazyFree, which are in no swap; of all, those locked."""
    if not any(frames):  # the kernel shows 0 for all to an ordinary user
        return None, None
    anonymous = lazy = locked = seen = 0
    try:
        fd = os.open(ROOT / "proc/kpageflags", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None, None
    try:
        held = (os.pread(fd, 8, 8 * frame) for frame in frames)
        words = array.array("Q", b"".join(one for one in held if len(one) == 8))
        for flags, count in Counter(words).items():  # few distinct ones
            seen += count
            locked += count * (flags >> _MLOCKED & 1)
            if flags >> _ANON & 1 and not flags >> _KSM & 1:
                anonymous += count
                lazy += count * (not flags >> _SWAPBACKED & 1)
    finally:
        os.close(fd)
    return Sampled(anonymous, lazy), Sampled(seen, locked)


def _unused(pid: int, regions: Sequence[_Region]) -> Sampled | None:
    """Zeros in huge pages: what a program asked for in small pieces and never touched."""
    huge = [
        at
        for start, end, kind in regions
        if kind & _HUGE and not kind & (_FILE | _SWAPPED | _ZERO)
        for at in range(start, end, _CHUNK)
    ]
    if not huge:
        return None
    draw = random.Random(len(huge))
    seen = zero = 0
    with suppress(OSError):
        fd = os.open(ROOT / f"proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            for at in draw.sample(huge, min(len(huge), _HUGE_SAMPLED)):
                for small in draw.sample(range(_CHUNK // PAGE), _SMALL_OF_HUGE):
                    held = os.pread(fd, PAGE, at + small * PAGE)
                    seen += 1
                    zero += held.count(0) == PAGE
        finally:
            os.close(fd)
    return Sampled(seen, zero) if seen else None

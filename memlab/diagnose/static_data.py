"""Private memory of files that a process maps: static data, and copies of a file's pages.

A program or library has its data (.data) in private mappings of its file, and behind them nameless
memory that begins as zeros (.bss). How long that is stands in the headers of its segments (elf(5)).
They belong to another: their numbers only choose among mappings that exist. A page of any other
private mapping of a file is a copy that a write made.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from memlab.diagnose import pages
from memlab.diagnose.memory_files import PAGE
from memlab.diagnose.pages import Pages
from memlab.observe import elf, files, process
from memlab.observe.elf import Segment
from memlab.observe.proc import ROOT

LEAST_BYTES = 1 << 20  # less of a file is left among the other mappings
_NAMED_BYTES = 16 << 20  # of so much the largest variable is named
_TABLE_BYTES_MAX = 512 << 10  # of symbols: some 5 ms
_FILES_MAX, _MAPPINGS_MAX, _PLACES_MAX = 64, 256, 16
_GAP_MAX = 2 << 20  # between segments: the largest alignment that linkers take
_ZEROS = "/dev/zero"

_File = tuple[str, int]
"""A path, and the number of its inode."""


@dataclass(frozen=True, slots=True)
class FileMemory:
    """What a process holds of one file, in pages of its own."""

    path: str
    resident_bytes: int
    variable: str = ""
    """The largest in it, if it is half of a large part; empty where the file does not name it."""
    variable_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PrivateOfFiles:
    """By file, the largest first; of each LEAST_BYTES or more."""

    static: tuple[FileMemory, ...] = ()
    copies: tuple[FileMemory, ...] = ()

    @property
    def resident_bytes(self) -> int:
        return sum(one.resident_bytes for one in (*self.static, *self.copies))


def read(
    pid: int, mappings: Sequence[process.Mapping], seen: Pages | None
) -> PrivateOfFiles | None:
    """Of all mappings, in ascending order; None where page tables were not read. Raises `OSError`
    where the process has ended."""
    if seen is None:
        return None
    held = _Held(pid, mappings, seen)
    try:
        all_static = [
            held.static_data(name) for name, _ in held.candidates().most_common(_FILES_MAX)
        ]
    except pages.NotSeen:  # it runs a program with other rights by now
        return None
    static = [one for one in all_static if one.resident_bytes >= LEAST_BYTES]
    return PrivateOfFiles(_largest(static), _largest(held.copies()))


def _largest(those: Sequence[FileMemory]) -> tuple[FileMemory, ...]:
    return tuple(sorted(those, key=lambda one: -one.resident_bytes))


@dataclass(slots=True)
class _Held:
    """The private pages of a process by mapping."""

    pid: int
    mappings: Sequence[process.Mapping]
    seen: Pages
    starts: list[int] = field(init=False)
    private: dict[int, int] = field(init=False)
    by_file: dict[_File, list[process.Mapping]] = field(init=False)
    taken: set[int] = field(default_factory=set)
    """Starts of mappings that are static data."""

    def __post_init__(self) -> None:
        self.starts = [one.start for one in self.mappings]
        of_files = self.seen.files_by_mapping
        self.private = {
            start: own
            for start, size in self.seen.by_mapping.items()
            if (own := size - of_files.get(start, 0)) > 0
        }
        self.by_file = {}
        for one in self.mappings:
            if one.path.startswith("/"):
                self.by_file.setdefault((one.path, one.inode), []).append(one)

    def candidates(self) -> Counter[_File]:
        """Files that are executed, with much private memory in their mappings or in nameless ones
        behind these. No other file is opened: it may lie on a file system that does not answer."""
        sizes: Counter[_File] = Counter()
        name, end = None, 0
        for one in self.mappings:
            if one.path.startswith("/"):
                name = one.path, one.inode
            elif name is None or one.start - end > _GAP_MAX or not _is_nameless(one):
                name = None
                continue
            sizes[name] += self.private.get(one.start, 0)
            end = one.end
        return Counter(
            {
                name: size
                for name, size in sizes.items()
                if size >= LEAST_BYTES and any("x" in m.permissions for m in self.by_file[name])
            }
        )

    def static_data(self, name: _File) -> FileMemory:
        """Of one file; 0 bytes where it may not be read."""
        of = self.by_file[name]
        for path in process.files_of(self.pid, of[0]):
            with suppress(OSError), files.opened(path) as file:
                fd = file.fileno()
                places = _places(elf.segments(fd), of[:_MAPPINGS_MAX])
                size = sum(sum(self._within(start, end, name[0])) for start, end in places)
                with suppress(ValueError, struct.error):
                    named = (
                        elf.largest_object(fd, _TABLE_BYTES_MAX) if size >= _NAMED_BYTES else None
                    )
                    if named and named[1] >= size / 2:
                        return FileMemory(name[0], size, *named)
                return FileMemory(name[0], size)
        return FileMemory(name[0], 0)

    def _within(self, start: int, end: int, path: str) -> Iterator[int]:
        """Private bytes of each mapping there that is of this file, or nameless; of a nameless one
        that goes on beyond, because the kernel joined it with a neighbour, those that lie there."""
        for i in range(max(0, bisect_right(self.starts, start) - 1), len(self.mappings)):
            one = self.mappings[i]
            if one.start >= end:
                return
            size = self.private.get(one.start, 0)
            if not size or one.start in self.taken or one.end <= start:
                continue
            is_inside = start <= one.start and one.end <= end
            if not _is_nameless(one) and not (one.path == path and is_inside):
                continue
            self.taken.add(one.start)
            if is_inside:
                yield size
            else:
                part = one._replace(start=max(start, one.start), end=min(end, one.end))
                yield min(size, pages.anonymous_bytes(self.pid, [part]))

    def copies(self) -> list[FileMemory]:
        """Of files, what of them is no static data."""
        result = []
        for (path, _), of in self.by_file.items():
            size = sum(self.private.get(m.start, 0) for m in of if m.start not in self.taken)
            if size >= LEAST_BYTES and path != _ZEROS and not _is_huge(self.pid, of[0]):
                result.append(FileMemory(path, size))
        return result


def _is_nameless(mapping: process.Mapping) -> bool:
    return mapping.path in ("", "[heap]") or mapping.path.startswith("[anon:")


def _places(
    segments: Sequence[Segment], of: Sequence[process.Mapping]
) -> Iterator[tuple[int, int]]:
    """Begins and ends of the writable segments in memory, at each place at which the file's code
    is loaded; neighbours as one."""
    moved = {
        one.start - one.offset_bytes + code.offset - code.address: None
        for one in of
        if "x" in one.permissions
        for code in segments
        if code.is_executable
        and _down(code.offset) <= one.offset_bytes
        and one.offset_bytes + one.size_bytes <= _up(code.offset + code.file_bytes)
    }
    ranges = sorted(
        (_down(by + one.address), _up(by + one.address + one.memory_bytes))
        for by in [*moved][:_PLACES_MAX]
        for one in segments
        if one.is_writable
    )
    reached = 0
    for start, end in ranges:
        if end > max(start, reached):
            yield max(start, reached), end
            reached = end


def _down(address: int) -> int:
    return address // PAGE * PAGE


def _up(address: int) -> int:
    return -(-address // PAGE) * PAGE


def _is_huge(pid: int, mapping: process.Mapping) -> bool:
    """Whether it is a file of a hugetlbfs, whose pages are no part of resident memory."""
    path = ROOT / f"proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"
    about = files.known(path.stat)
    sizes = files.names(ROOT / "sys/kernel/mm/hugepages")
    return about is not None and f"hugepages-{about.st_blksize >> 10}kB" in sizes

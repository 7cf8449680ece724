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
from memlab.observe import elf, files, proc, process
from memlab.observe.elf import Segment
from memlab.observe.proc import ROOT

LEAST_BYTES = 1 << 20  # less of a file is left among the other mappings
_SMALL_BYTES = 16 << 20  # so much of smaller ones together has a line
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
    """By file, the largest first; of each LEAST_BYTES or more. Copies of smaller ones together."""

    static: tuple[FileMemory, ...] = ()
    copies: tuple[FileMemory, ...] = ()

    @property
    def resident_bytes(self) -> int:
        return sum(file.resident_bytes for file in (*self.static, *self.copies))


def read(
    pid: int, mappings: Sequence[process.Mapping], scan: Pages | None
) -> PrivateOfFiles | None:
    """Of all mappings, in ascending order; None where page tables were not read. Raises `OSError`
    where the process has ended."""
    if scan is None:
        return None
    private = _Private(pid, mappings, scan)
    try:
        all_static = [
            private.static_data(name) for name, _ in private.candidates().most_common(_FILES_MAX)
        ]
    except pages.NotSeen:  # it runs a program with other rights by now
        return None
    static = [file for file in all_static if file.resident_bytes >= LEAST_BYTES]
    return PrivateOfFiles(_largest(static), _largest(private.copies()))


def _largest(those: Sequence[FileMemory]) -> tuple[FileMemory, ...]:
    return tuple(sorted(those, key=lambda file: -file.resident_bytes))


@dataclass(slots=True)
class _Private:
    """The private pages of a process by mapping."""

    pid: int
    mappings: Sequence[process.Mapping]
    scan: Pages
    starts: list[int] = field(init=False)
    private: dict[int, int] = field(init=False)
    by_file: dict[_File, list[process.Mapping]] = field(init=False)
    starts_of_data: set[int] = field(default_factory=set)
    """Starts of mappings that are static data."""

    def __post_init__(self) -> None:
        self.starts = [mapping.start for mapping in self.mappings]
        of_files = self.scan.files_by_mapping
        self.private = {
            start: rest
            for start, size in self.scan.by_mapping.items()
            if (rest := size - of_files.get(start, 0)) > 0
        }
        self.by_file = {}
        for mapping in self.mappings:
            if mapping.path.startswith("/"):
                self.by_file.setdefault((mapping.path, mapping.inode), []).append(mapping)

    def candidates(self) -> Counter[_File]:
        """Files that are executed, with much private memory in their mappings or in nameless ones
        behind these. No other file is opened: it may lie on a file system that does not answer."""
        sizes: Counter[_File] = Counter()
        name, end = None, 0
        for mapping in self.mappings:
            if mapping.path.startswith("/"):
                name = mapping.path, mapping.inode
            elif name is None or mapping.start - end > _GAP_MAX or not _is_nameless(mapping):
                name = None
                continue
            sizes[name] += self.private.get(mapping.start, 0)
            end = mapping.end
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
            mapping = self.mappings[i]
            if mapping.start >= end:
                return
            size = self.private.get(mapping.start, 0)
            if not size or mapping.start in self.starts_of_data or mapping.end <= start:
                continue
            is_inside = start <= mapping.start and mapping.end <= end
            if not _is_nameless(mapping) and not (mapping.path == path and is_inside):
                continue
            self.starts_of_data.add(mapping.start)
            if is_inside:
                yield size
            else:
                part = mapping._replace(start=max(start, mapping.start), end=min(end, mapping.end))
                yield min(size, pages.anonymous_bytes(self.pid, [part]))

    def copies(self) -> list[FileMemory]:
        """Of files, what of them is not static data of a large one; small ones together."""
        result, small = [], list[FileMemory]()
        has_huge = bool(proc.status_bytes(proc.status(self.pid), "HugetlbPages"))
        for (path, _), of in self.by_file.items():
            size = sum(
                self.private.get(m.start, 0) for m in of if m.start not in self.starts_of_data
            )
            if 0 < size < LEAST_BYTES and path != _ZEROS:
                small.append(FileMemory(path, size))
            if size < LEAST_BYTES or path == _ZEROS or (has_huge and _is_huge(self.pid, of[0])):
                continue
            result.append(FileMemory(path, size))
        together = sum(file.resident_bytes for file in small)
        if together >= _SMALL_BYTES:
            first = max(small, key=lambda file: file.resident_bytes).path
            name = first.removesuffix(process.DELETED).rpartition("/")[2]
            result.append(FileMemory(f"{len(small):,} small files, as {name}", together))
        return result


def _is_nameless(mapping: process.Mapping) -> bool:
    return mapping.is_nameless or mapping.path == "[heap]"


def _places(
    segments: Sequence[Segment], of: Sequence[process.Mapping]
) -> Iterator[tuple[int, int]]:
    """Begins and ends of the writable segments in memory, at each place at which the file's code
    is loaded; neighbours as one."""
    moved = {
        mapping.start - mapping.offset_bytes + code.offset - code.address: None
        for mapping in of
        if "x" in mapping.permissions
        for code in segments
        if code.is_executable
        and _down(code.offset) <= mapping.offset_bytes
        and mapping.offset_bytes + mapping.size_bytes <= _up(code.offset + code.file_bytes)
    }
    ranges = sorted(
        (_down(by + data.address), _up(by + data.address + data.memory_bytes))
        for by in [*moved][:_PLACES_MAX]
        for data in segments
        if data.is_writable
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
    """Whether it is a file of a hugetlbfs, whose pages are not part of resident memory, or may be
    one: only root may ask. Without such pages no file is opened: it may lie on a file system that
    does not answer."""
    path = ROOT / f"proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"
    about = files.known(path.stat)
    sizes = files.names(ROOT / "sys/kernel/mm/hugepages")
    return about is None or f"hugepages-{about.st_blksize >> 10}kB" in sizes

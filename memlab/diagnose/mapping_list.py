"""The mappings of a process, or of one that has very many a sample of them.

The kernel takes 0.3 us to print a mapping, this program 3 us to read one and 30 us to look into it:
60,000 would take 2 s. Of more than MANY those are read that no look can do without (code, shared
memory, the heap, the main stack) and runs of neighbours, spread evenly. mapping_marks.c passes over
all of them.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field

from memlab.diagnose import ticks
from memlab.diagnose.unlooked import Unlooked
from memlab.observe import proc, process
from memlab.observe.proc import ROOT
from memlab.observe.process import Mapping

OFTEN = 16  # mappings of one file: a library has five
MANY = 5000
_RUNS, _RUN = 20, 50  # of mappings
_SEARCHED = 200  # of a run, as bytes
_ROOM = 1024  # marks, more of which are read by a second pass
_LOOK_S = 30e-6  # for one mapping
_OF_FILE = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) \S{4} ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+ [1-9]\d*) +(/.*)$", re.M
)


class _Marks(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_longlong)
        for name in ("count", "neighbours", "guarded", "needed", "with_slash")
    )


@dataclass(frozen=True, slots=True)
class FileMappings:
    """The mappings of one file, by device and inode."""

    path: str
    count: int
    starts: tuple[int, ...] = field(default=(), repr=False)
    distinct_bytes: int = 0
    """Of the file that they map, each part once; 0 as `starts` is empty where there are MANY."""


@dataclass(frozen=True, slots=True)
class MappingList:
    """The mappings of a process at one moment."""

    read: Sequence[Mapping]
    count: int
    """Of all, read or not."""
    text: bytes = field(default=b"", repr=False)
    neighbours: int = 0
    """Nameless private mappings with another one right above: they differ in protection, lock or
    advice, or would be one."""
    guarded: Sequence[int] = field(default=(), repr=False)
    """Where nameless writable mappings end that lie on a guard, as stacks of threads do; of MANY
    only if half of them do."""
    with_slash: int = 0
    """Those with a path."""

    @property
    def is_sample(self) -> bool:
        return len(self.read) < self.count

    def unlooked(self) -> tuple[Unlooked, ...]:
        """What the sample leaves out."""
        if not self.is_sample:
            return ()
        why = f"it has {self.count:,} mappings, of which {len(self.read):,} were read"
        what = "what each of its mappings holds: malloc's heap, other heaps, stacks"
        return (Unlooked(what, why, self.count * _LOOK_S, "--full"),)

    def files(self) -> Map[bytes, FileMappings]:
        """Those of all mappings, by device and inode; of MANY the files that are frequent."""
        lists: dict[bytes, list[tuple[int, int, int]]] = defaultdict(list)
        paths: dict[bytes, bytes] = {}
        for start, end, offset, file, path in _OF_FILE.findall(
            b"\n".join(self._lines_with_slash())
        ):
            at = int(start, 16)
            lists[file].append((at, int(offset, 16), int(end, 16) - at))
            paths[file] = path
        if self.count > MANY:
            are_all = self.with_slash <= MANY
            return {
                file: FileMappings(
                    os.fsdecode(paths[file]), len(mapped) if are_all else self.count_of(file)
                )
                for file, mapped in lists.items()
                if len(mapped) > 1
            }
        return {
            file: FileMappings(
                os.fsdecode(paths[file]),
                len(mapped),
                tuple(at for at, _, _ in mapped),
                _distinct({(offset, offset + size) for _, offset, size in mapped}),
            )
            for file, mapped in lists.items()
        }

    def count_of(self, file: bytes) -> int:
        """The mappings of a file, by device and inode."""
        return self.text.count(b" %s " % file)

    def _lines_with_slash(self) -> Iterator[bytes]:
        """Lines with a path; of MANY some."""
        text = self.text if self.with_slash <= MANY else self._runs()
        at = text.find(b"/")
        while at >= 0:
            begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
            yield text[begin:end]
            at = text.find(b"/", end)

    def _runs(self) -> bytes:
        """Runs of whole lines, spread evenly: to search all takes 0.1 s."""
        size, step = len(self.text) // self.count * _SEARCHED, len(self.text) // _RUNS
        begins = (self.text.rfind(b"\n", 0, step * i + 1) + 1 for i in range(_RUNS))
        return b"".join(
            self.text[begin : self.text.rfind(b"\n", begin, begin + size) + 1] for begin in begins
        )


def read(pid: int, *, thorough: bool = False) -> MappingList:
    """All mappings if there are few or if `thorough`. Raises `OSError` and `ValueError`."""
    text = proc.raw_long(ROOT / f"proc/{pid}/maps")  # to decode 4 MB takes as long as a search
    return of(text, thorough=thorough)


def of(text: bytes, *, thorough: bool = False) -> MappingList:
    """The same of a text of /proc/PID/maps."""
    marks, guarded, needed = _marks(text)
    count = marks.count
    if count > MANY and 4 * len(guarded) < count:
        guarded = []
    if thorough or count <= MANY:
        mappings = process.parse_maps(os.fsdecode(text))
        return MappingList(mappings, count, text, marks.neighbours, guarded, marks.with_slash)
    begins = {*needed}
    for i in range(_RUNS):
        at = text.rfind(b"\n", 0, len(text) * i // _RUNS + 1) + 1
        for _ in range(_RUN):
            begins.add(at)
            at = text.find(b"\n", at) + 1
    chosen = b"".join(text[begin : text.find(b"\n", begin) + 1] for begin in sorted(begins))
    mappings = process.parse_maps(os.fsdecode(chosen))
    return MappingList(mappings, count, text, marks.neighbours, guarded, marks.with_slash)


def _marks(text: bytes) -> tuple[_Marks, Sequence[int], Sequence[int]]:
    """The sums, the ends of those that are guarded, and where lines begin that no look can do
    without."""
    size, most = ctypes.c_size_t(len(text)), ctypes.c_longlong(process.GUARD_BYTES_MAX)
    sums, most_marks = _Marks(), 0
    while True:
        room = max(_ROOM, most_marks)
        guarded, needed = (ctypes.c_longlong * room)(), (ctypes.c_longlong * room)()
        ticks.library().mapping_marks(
            text, size, most, ctypes.c_longlong(room), guarded, needed, ctypes.byref(sums)
        )
        most_marks = max(sums.guarded, sums.needed)
        if most_marks <= room:
            return sums, guarded[: sums.guarded], needed[: sums.needed]


def _distinct(ranges: set[tuple[int, int]]) -> int:
    """Bytes in at least one of these."""
    size = past = 0
    for begin, end in sorted(ranges):
        size += max(0, end - max(begin, past))
        past = max(past, end)
    return size

"""The mappings of a process, or of one that has very many a sample of them.

The kernel takes 0.2 us to print a mapping, this program 3 us to read one and 30 us to look into it:
60,000 would take 2 s. Of more than MANY those are read that no look can do without (code, shared
memory, the heap, the main stack) and runs of neighbours, spread evenly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memlab.diagnose.unlooked import Unlooked
from memlab.observe import proc, process
from memlab.observe.proc import ROOT
from memlab.observe.process import Mapping

MANY = 5000
_RUNS, _RUN = 20, 50  # of mappings
_LOOK_S = 30e-6  # for one mapping
_NAMES = (
    b" r-xp ",
    b"/SYSV",
    b"/memfd:",
    b"/dev/zero",
    b"/dev/shm/",
    b"[heap]",
    b"[stack]",
    b"/hsperfdata_",
)


@dataclass(frozen=True, slots=True)
class MappingList:
    """The mappings of a process at one moment."""

    read: Sequence[Mapping]
    count: int
    """Of all, read or not."""

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


def read(pid: int, *, thorough: bool = False) -> MappingList:
    """All mappings if there are few or if `thorough`. Raises `OSError` and `ValueError`."""
    text = proc.raw_long(ROOT / f"proc/{pid}/maps")  # to decode 4 MB takes as long as a search
    count = text.count(b"\n")
    if thorough or count <= MANY:
        mappings = process.parse_maps(os.fsdecode(text))
        return MappingList(mappings, len(mappings))
    begins = {begin for character in (b"/", b"[") for begin in _needed(character, text)}
    for i in range(_RUNS):
        at = text.rfind(b"\n", 0, len(text) * i // _RUNS + 1) + 1
        for _ in range(_RUN):
            begins.add(at)
            at = text.find(b"\n", at) + 1
    chosen = b"".join(text[begin : text.find(b"\n", begin) + 1] for begin in sorted(begins))
    return MappingList(process.parse_maps(os.fsdecode(chosen)), count)


def _needed(character: bytes, text: bytes) -> Iterator[int]:
    """Where each line begins that no look can do without; its path begins with this character."""
    at = text.find(character)
    while at >= 0:
        begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
        line = text[begin:end]
        if any(name in line for name in _NAMES):
            yield begin
        at = text.find(character, end)

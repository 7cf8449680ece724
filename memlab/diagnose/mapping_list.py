"""The mappings of a process, or of one that has very many a sample of them.

The kernel takes 0.4 us to print a mapping, this program 3 us to read one and 30 us to look into it:
60,000 would take 2 s. Of more than MANY those are read that no look can do without (code, shared
memory, the heap, the main stack) and runs of neighbours, spread evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memlab.diagnose.unlooked import Unlooked
from memlab.observe import proc, process
from memlab.observe.proc import ROOT
from memlab.observe.process import Mapping

MANY = 5000
_RUNS, _RUN = 20, 50  # of mappings
_LOOK_S = 30e-6  # for one mapping
_PATH_COLUMN = 70  # of a line of maps, whose path begins later (fs/proc/task_mmu.c)
_NAMES = ("/SYSV", "/memfd:", "/dev/zero", "/dev/shm/", "[heap]", "[stack]", "/hsperfdata_")


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
    text = proc.read(ROOT / f"proc/{pid}/maps")
    lines = proc.lines(text)
    if thorough or len(lines) <= MANY:
        mappings = process.parse_maps(text)
        return MappingList(mappings, len(mappings))
    needed = {
        i
        for i, line in enumerate(lines)
        if len(line) > _PATH_COLUMN and (" r-xp " in line or any(name in line for name in _NAMES))
    }
    for start in range(0, len(lines) - _RUN + 1, (len(lines) - _RUN) // (_RUNS - 1)):
        needed.update(range(start, start + _RUN))
    chosen = "\n".join(lines[i] for i in sorted(needed))
    return MappingList(process.parse_maps(chosen), len(lines))

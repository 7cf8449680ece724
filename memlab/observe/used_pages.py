"""Memory that processes used since their accessed bits were cleared, anonymous and of files.

proc_pid_clear_refs(5) clears the bits, `Referenced` of proc_pid_smaps(5) counts the pages whose bit
was set since. Both walk the page tables. What a program reads by read(2) sets no bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memlab.observe import process
from memlab.observe.proc import ROOT

# Mappings of these have an inode, and their pages can only be swapped.
_SHARED = ("/memfd:", "/dev/shm/", "/SYSV", "/dev/zero", "/anon_hugepage")


@dataclass(frozen=True, slots=True)
class UsedMemory:
    """What is resident of a kind of memory, the process's part of it if pages are shared, and how
    much of that part was used."""

    resident_bytes: int = 0
    proportional_bytes: int = 0
    used_bytes: int = 0


def clear(pid: int, root: Path = ROOT) -> None:
    """Raises OSError if the process has ended or is another user's."""
    (root / f"proc/{pid}/clear_refs").write_text("1")


def read(pid: int, root: Path = ROOT) -> tuple[UsedMemory, UsedMemory]:
    """Anonymous memory, and that of files. Raises OSError if the process has ended."""
    sums = ([0, 0, 0], [0, 0, 0])
    for mapping in process.smaps(pid, root):
        resident, part, used = (
            mapping.bytes_by_field.get(name, 0) for name in ("Rss", "Pss", "Referenced")
        )
        kind = sums[_is_of_a_file(mapping)]
        for place, size in enumerate((resident, part, used * part // max(1, resident))):
            kind[place] += size
    return UsedMemory(*sums[0]), UsedMemory(*sums[1])


def _is_of_a_file(mapping: process.Mapping) -> bool:
    """Whether its pages can be read again: what is written to a private mapping is anonymous."""
    is_private = mapping.permissions.endswith("p")
    written = is_private and "w" in mapping.permissions
    return bool(mapping.inode) and not written and not mapping.path.startswith(_SHARED)

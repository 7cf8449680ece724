"""What a process holds: resident, locked, pinned, swapped, in huge pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memlab import units
from memlab.diagnose.snapshot import Snapshot
from memlab.observe import files, process
from memlab.observe.proc import ROOT

# The kernel walks every page table for smaps: some 5 ms a GiB of 4 KiB pages.
_WALKED_BYTES_MAX = 8 << 30
# Reading a mapping's block of smaps costs some 60 us.
_READ_MAPPINGS_MAX = 1000
_THP = ROOT / "sys/kernel/mm/transparent_hugepage/enabled"
_CAP_IPC_LOCK = 14  # linux/capability.h: its holder has no limit


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes; None where it is not seen."""

    virtual_bytes: int
    resident_bytes: int
    anonymous_bytes: int
    swapped_bytes: int
    locked_bytes: int
    """Of locked mappings, whether their pages are there or not (VmLck)."""
    lockable_bytes: int | None
    """RLIMIT_MEMLOCK; None for unlimited, as for a holder of CAP_IPC_LOCK."""
    locked_resident_bytes: int | None
    locked_stacks_bytes: int | None
    locked_stacks_count: int | None
    """Stacks of threads among the locked mappings."""
    pinned_bytes: int
    """Pinned for devices: RDMA, io_uring's buffers, VFIO (VmPin)."""
    huge_bytes: int | None
    """Anonymous memory in transparent huge pages."""
    hugetlb_bytes: int
    thp_machine: str | None
    """The machine's setting: always, madvise, never."""
    thp_process: bool
    """False where prctl(PR_SET_THP_DISABLE) turned them off for the process."""
    mappings: int
    machine_bytes: int | None


def read(
    pid: int, now: Snapshot, mappings: Sequence[process.Mapping]
) -> tuple[Memory, tuple[str, ...]]:
    """What it holds, and what is not seen of it."""
    resident, locked = now.bytes("VmRSS") or 0, now.bytes("VmLck") or 0
    sums, detailed, unseen = _walked(pid, resident, locked, len(mappings))
    stacks = process.thread_stacks(detailed) if detailed is not None else None
    locked_stacks = [s for s in stacks if "lo" in s.flags] if stacks is not None else None
    return Memory(
        virtual_bytes=now.bytes("VmSize") or 0,
        resident_bytes=resident,
        anonymous_bytes=now.bytes("RssAnon") or 0,
        swapped_bytes=now.bytes("VmSwap") or 0,
        locked_bytes=locked,
        lockable_bytes=_lockable(pid, now),
        locked_resident_bytes=None if sums is None else sums.get("Locked"),
        locked_stacks_bytes=_size(locked_stacks),
        locked_stacks_count=None if locked_stacks is None else len(locked_stacks),
        pinned_bytes=now.bytes("VmPin") or 0,
        huge_bytes=None if sums is None else sums.get("AnonHugePages"),
        hugetlb_bytes=now.bytes("HugetlbPages") or 0,
        thp_machine=files.choice(_THP),
        thp_process=now.status.get("THP_enabled", "1") == "1",
        mappings=len(mappings),
        machine_bytes=now.machine.get("MemTotal"),
    ), unseen


def _walked(
    pid: int, resident_bytes: int, locked_bytes: int, count: int
) -> tuple[dict[str, int] | None, list[process.Mapping] | None, tuple[str, ...]]:
    """The sums of smaps, its mappings where memory is locked, and what was left out for cost."""
    if resident_bytes > _WALKED_BYTES_MAX:
        limit = units.format_size(_WALKED_BYTES_MAX)
        return (
            None,
            None,
            (f"huge pages, locked stacks: over {limit} of page tables would have to be walked",),
        )
    if not locked_bytes:
        return files.known(lambda: process.rollup(pid)), [], ()
    if count > _READ_MAPPINGS_MAX:
        return (
            files.known(lambda: process.rollup(pid)),
            None,
            (f"locked stacks: reading {count} mappings one by one would cost too much",),
        )
    detailed = process.smaps(pid)
    sums: dict[str, int] = {}
    for mapping in detailed:
        for name, size_bytes in mapping.bytes_by_field.items():
            sums[name] = sums.get(name, 0) + size_bytes
    return sums, detailed, ()


def _lockable(pid: int, now: Snapshot) -> int | None:
    if int(now.status.get("CapEff", "0"), 16) >> _CAP_IPC_LOCK & 1:
        return None
    return files.known(lambda: process.lockable_bytes(pid))


def _size(mappings: Sequence[process.Mapping] | None) -> int | None:
    return None if mappings is None else sum(mapping.size_bytes for mapping in mappings)

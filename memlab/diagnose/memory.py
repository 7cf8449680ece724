"""What a process holds: resident, locked, pinned, swapped, in huge pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memlab.diagnose.mapping_list import MappingList
from memlab.diagnose.pages import Pages
from memlab.diagnose.snapshot import Snapshot
from memlab.diagnose.unlooked import Unlooked
from memlab.observe import files, process
from memlab.observe.proc import ROOT

# The kernel walks every page table for smaps, some 15 ms per GiB of 4 KiB pages, and calls of the
# process that map memory wait meanwhile: under 1 ms for so much.
_WALK_S_PER_BYTE = 15e-3 / (1 << 30)
_WALKED_BYTES_MAX = 64 << 20
_LOCKED_BYTES = 1 << 20  # of less no finding asks where it is
# Reading a mapping's block of smaps costs some 60 us.
_READ_MAPPINGS_MAX = 1000
_THP = ROOT / "sys/kernel/mm/transparent_hugepage/enabled"


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes; None where it is not seen."""

    virtual_bytes: int
    resident_bytes: int
    anonymous_bytes: int
    shmem_bytes: int
    """Of shared memory and tmpfs."""
    swapped_bytes: int
    locked_bytes: int
    """Of locked mappings, whether their pages are there or not (VmLck)."""
    locked_resident_bytes: int | None
    """All that is resident in locked mappings, whoever shares it. `Locked` in smaps is the
    process's proportional share of it."""
    locked_share_bytes: int | None
    """That share; None where smaps was not read, for its cost."""
    locked_stacks_bytes: int
    locked_stacks_count: int
    """Stacks of threads among the locked mappings; 0 where these are not known."""
    pinned_bytes: int
    """VmPin: for RDMA, VFIO, io_uring's buffers, and rings of perf events."""
    huge_bytes: int | None
    """Anonymous memory in transparent huge pages."""
    hugetlb_bytes: int
    thp_machine: str | None
    """The machine's setting: always, madvise, never."""
    mappings: int
    walked_s: float
    """How long its page tables were read, in pieces of at most 8 MiB."""
    machine_bytes: int | None
    peak_resident_bytes: int


def read(
    pid: int, now: Snapshot, listed: MappingList, seen: Pages | None, *, thorough: bool = False
) -> tuple[Memory, tuple[str, ...], tuple[Unlooked, ...]]:
    """What it holds, what is not seen of it, and what is not looked at unless `thorough`. Sums over
    a sample of its mappings count by its share of all virtual memory."""
    resident, swapped = now.bytes("VmRSS") or 0, now.bytes("VmSwap") or 0
    locked = now.bytes("VmLck") or 0
    detailed, unseen = _locked(pid, locked, resident + swapped, listed)
    stacks = process.thread_stacks(detailed) if detailed is not None else None
    locked_stacks = [s for s in stacks if "lo" in s.flags] if stacks is not None else None
    locked_resident, locked_share = _locked_resident(locked, resident, detailed, seen)
    huge, not_walked = _huge(pid, resident + swapped, seen, thorough=thorough)
    held = Memory(
        virtual_bytes=now.bytes("VmSize") or 0,
        resident_bytes=resident,
        anonymous_bytes=now.bytes("RssAnon") or 0,
        shmem_bytes=now.bytes("RssShmem") or 0,
        swapped_bytes=swapped,
        locked_bytes=locked,
        locked_resident_bytes=locked_resident,
        locked_share_bytes=locked_share,
        locked_stacks_bytes=sum(s.size_bytes for s in locked_stacks or ()),
        locked_stacks_count=len(locked_stacks or ()),
        pinned_bytes=now.bytes("VmPin") or 0,
        huge_bytes=huge,
        hugetlb_bytes=now.bytes("HugetlbPages") or 0,
        thp_machine=files.choice(_THP),
        mappings=listed.count,
        walked_s=seen.seconds if seen else 0.0,
        machine_bytes=now.machine.get("MemTotal"),
        peak_resident_bytes=now.bytes("VmHWM") or resident,
    )
    return held, unseen, not_walked


def _huge(
    pid: int, held_bytes: int, seen: Pages | None, *, thorough: bool
) -> tuple[int | None, tuple[Unlooked, ...]]:
    """Anonymous memory in huge pages; before Linux 6.7 by a walk of all page tables."""
    if seen:
        return seen.huge_bytes, ()
    what = "what is in huge pages"
    if not thorough and held_bytes > _WALKED_BYTES_MAX:
        why = "calls of the process that map memory would wait for a walk of its page tables"
        return None, (Unlooked(what, why, held_bytes * _WALK_S_PER_BYTE, "--full"),)
    sums = files.known(process.rollup, pid) or {}
    if "AnonHugePages" not in sums:
        return None, (Unlooked(what, "its smaps_rollup may not be read: run as root", None, None),)
    return sums["AnonHugePages"], ()


def _locked(
    pid: int, locked_bytes: int, held_bytes: int, listed: MappingList
) -> tuple[list[process.Mapping] | None, tuple[str, ...]]:
    """Its mappings with the flags of the locked ones; None, and why, where they are not known.
    Where as much is locked as may be written to, mlockall(2) has locked the stacks too."""
    if not locked_bytes:
        return [], ()
    if held_bytes <= _WALKED_BYTES_MAX and listed.count <= _READ_MAPPINGS_MAX:
        return process.smaps(pid), ()
    mappings = listed.read
    writable = sum(m.size_bytes for m in mappings if m.permissions.startswith("rw"))
    if not listed.is_sample and locked_bytes >= writable:
        return [mapping._replace(flags=frozenset({"lo"})) for mapping in mappings], ()
    if locked_bytes < _LOCKED_BYTES:
        return None, ()
    return None, ("which mappings are locked: smaps of so much would hold its mmap_lock over 1 ms",)


def _locked_resident(
    locked: int, resident: int, detailed: Sequence[process.Mapping] | None, seen: Pages | None
) -> tuple[int | None, int | None]:
    """What is resident in locked mappings, and the process's proportional share of it."""
    if not locked:
        return 0, 0
    of = [m for m in detailed or () if "lo" in m.flags and m.bytes_by_field]
    if of:
        resident, share = (
            sum(m.bytes_by_field.get(name, 0) for m in of) for name in ("Rss", "Pss")
        )
        return resident, share
    if seen is None or seen.locked is None or not seen.locked.value:  # too few for the sample
        return None, None
    return min(locked, round(seen.locked.value * resident)), None

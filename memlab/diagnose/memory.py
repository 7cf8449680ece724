"""What a process holds: resident, locked, pinned, swapped, in huge pages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memlab import units
from memlab.diagnose.snapshot import Snapshot
from memlab.observe import files, process
from memlab.observe.proc import ROOT

# The kernel walks every page table for smaps, some 13 ms per GiB of 4 KiB pages, and calls of the
# process that map memory wait meanwhile: under 1 ms, unless it is asked for.
_WALKED_BYTES_MAX = 64 << 20
# Reading a mapping's block of smaps costs some 60 us.
_READ_MAPPINGS_MAX = 1000
_THP = ROOT / "sys/kernel/mm/transparent_hugepage/enabled"
_MAPPINGS_MAX = ROOT / "proc/sys/vm/max_map_count"
_HUGE = 2 << 20  # bytes of a huge page
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
    mappings_max: int
    """vm.max_map_count."""
    walked_s: float
    """How long its page tables were read; its calls that map memory waited meanwhile."""
    machine_bytes: int | None
    peak_resident_bytes: int
    peak_virtual_bytes: int
    accessible_bytes: int
    """Of mappings that are not PROT_NONE: what mlockall(2) brings in."""
    writable_bytes: int
    """Of private mappings."""
    huge_fit_bytes: int
    """Of those, what fills whole huge pages."""


def few(now: Snapshot, *, walk: bool) -> bool:
    """Whether its page tables may be read: they are few, or it was asked for."""
    held = (now.bytes("VmRSS") or 0) + (now.bytes("VmSwap") or 0)
    return walk or held <= _WALKED_BYTES_MAX


def read(
    pid: int, now: Snapshot, mappings: Sequence[process.Mapping], *, walk: bool
) -> tuple[Memory, tuple[str, ...]]:
    """What it holds, and what is not seen of it. `walk`: its page tables are read, however many."""
    resident, swapped = now.bytes("VmRSS") or 0, now.bytes("VmSwap") or 0
    locked = now.bytes("VmLck") or 0
    before_s = time.monotonic()
    walked = few(now, walk=walk)
    sums, detailed, unseen = (
        _walked(pid, locked, len(mappings)) if walked else _not_walked(locked, mappings)
    )
    walked_s = time.monotonic() - before_s if walked else 0.0
    writable = [m for m in mappings if m.permissions in ("rw-p", "rwxp")]
    stacks = process.thread_stacks(detailed) if detailed is not None else None
    locked_stacks = [s for s in stacks if "lo" in s.flags] if stacks is not None else None
    return Memory(
        virtual_bytes=now.bytes("VmSize") or 0,
        resident_bytes=resident,
        anonymous_bytes=now.bytes("RssAnon") or 0,
        swapped_bytes=swapped,
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
        mappings_max=int(files.known(_MAPPINGS_MAX.read_text) or 65530),
        walked_s=walked_s,
        machine_bytes=now.machine.get("MemTotal"),
        peak_resident_bytes=now.bytes("VmHWM") or resident,
        peak_virtual_bytes=now.bytes("VmPeak") or 0,
        accessible_bytes=sum(m.size_bytes for m in mappings if m.permissions[:3] != "---"),
        writable_bytes=sum(m.size_bytes for m in writable),
        huge_fit_bytes=sum(max(0, m.end // _HUGE - -(-m.start // _HUGE)) * _HUGE for m in writable),
    ), unseen


_Walked = tuple[dict[str, int] | None, list[process.Mapping] | None, tuple[str, ...]]


def _not_walked(locked_bytes: int, mappings: Sequence[process.Mapping]) -> _Walked:
    """Where as much is locked as may be written to, mlockall(2) has locked the stacks too."""
    limit = units.format_size(_WALKED_BYTES_MAX)
    writable_bytes = sum(m.size_bytes for m in mappings if m.permissions.startswith("rw"))
    said = "huge pages, which locked memory is resident"
    locked: list[process.Mapping] | None = None
    if not locked_bytes:
        locked = []
    elif locked_bytes >= writable_bytes:
        locked = [replace(mapping, flags={"lo"}) for mapping in mappings]
    else:
        said += ", locked stacks"
    why = f"to read the page tables of over {limit} would stop it for over 1 ms; --walk does"
    return None, locked, (f"{said}: {why}",)


def _walked(pid: int, locked_bytes: int, count: int) -> _Walked:
    """The sums of smaps, its mappings where memory is locked, and what was left out for cost."""
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

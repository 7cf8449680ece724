"""What is worth saying of shared memory: when it goes, by kind, and whose it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from memlab.diagnose import shared
from memlab.diagnose.finding import NOTE, Fact, Finding, FindingRow, facts, size
from memlab.diagnose.look import Look
from memlab.diagnose.shared import SharedUse
from memlab.observe import files, proc, process
from memlab.text import units

_WORTH_BYTES = 16 << 20
_WORTH_SHARE = 0.25
_SEVERAL = 1.1  # of what there is: more is resident only because it is mapped several times
_LEAST_MET_BYTES = 16 * 4096  # in the look, as of a growth

# By kind: when it goes, and what to try.
KINDS = {
    shared.ANONYMOUS: ("go when the last process that maps them ends", "munmap what is no longer "
                       "used; MADV_REMOVE gives back a part of it"),
    shared.SYSTEM_V: ("stay when this process ends, until shmctl(IPC_RMID)", "shmctl(IPC_RMID) "
                      "once all have attached; ipcs -m, ipcrm -m ID"),
    shared.SYSTEM_V_REMOVED: ("go when the last process that attaches them detaches or ends",
                              "shmdt when one is no longer used; ipcs -m shows them as dest"),
    shared.MEMFD: ("go when the last process that maps them or holds them open ends", "munmap and "
                   "close, or fallocate(FALLOC_FL_PUNCH_HOLE) what is no longer used"),
    shared.DELETED: ("go when the last process that maps them or holds them open ends", "munmap "
                     "and close what is no longer used"),
    shared.NAMED: ("stay when this process ends, and a kill does not free them", "unlink what is "
                   "no longer used; a size= for the mount"),
}  # fmt: skip


_SUMS_OF, _SUMS_BYTES_MAX = 16, 2 << 30  # processes, and of all of them: 30 ms of page tables


@dataclass(frozen=True, slots=True)
class Sums:
    """The resident memory of several processes: what they share counts in each of them."""

    processes: int
    resident_bytes: int
    proportional_bytes: int
    """The same with what is shared in parts (PSS)."""

    @property
    def again_bytes(self) -> int:
        return self.resident_bytes - self.proportional_bytes


def sums(pids: Sequence[int]) -> Sums | None:
    """Of the first of these processes; None of fewer than two that may be read."""
    left, read = _SUMS_BYTES_MAX, list[tuple[int, int]]()
    for pid in pids[:_SUMS_OF]:
        status = files.known(proc.status, pid) or {}
        resident = proc.status_bytes(status, "VmRSS") or 0
        if not resident or resident > left:
            continue
        left -= resident
        parts = files.known(process.rollup, pid) or {}
        if "Rss" in parts and "Pss" in parts:
            read.append((parts["Rss"], parts["Pss"]))
    return Sums(len(read), *map(sum, zip(*read, strict=True))) if len(read) > 1 else None


def counted_again(found: Iterable[Finding], seen: Sums | None, processes: int) -> Iterator[Finding]:
    """With the sum of its processes' resident memory, where that is far above what they hold."""
    for one in found:
        if seen is None or one.name != "group-tmpfs" or seen.again_bytes < _WORTH_BYTES:
            yield one
            continue
        which = f"its {units.counted(processes, 'process')}"
        if seen.processes < processes:
            which = f"{seen.processes} of {which}"
        title = (
            f"{one.title}; the resident memory of {which} adds up to {size(seen.resident_bytes)}, "
            f"and to {size(seen.proportional_bytes)} if what is shared counts in parts (PSS)"
        )
        yield replace(one, title=title)


def findings(look: Look) -> Iterator[Finding]:
    """Of the largest kind, of removed segments, and of pages that were there before."""
    yield from _largest(look)
    yield from _removed(look)
    yield from _met(look)


_SHARED_MEMORY = FindingRow(
    "shared-memory", "stock", "shared memory, tmpfs", "B",
    "16 MiB and a quarter of resident memory are shared memory",
    experiments=("memcg-accounting",),
)  # fmt: skip


def _largest(look: Look) -> Iterator[Finding]:
    shmem = look.memory.shmem_bytes
    if shmem < _WORTH_BYTES or shmem < _WORTH_SHARE * look.memory.resident_bytes:
        return
    if look.attached and look.attached.destroyed_bytes >= max(_WORTH_BYTES, shmem / 2):
        return  # removed segments have a finding of their own
    use = max(look.shared, key=lambda one: one.resident_bytes, default=None)
    if use is None or use.resident_bytes < shmem / 2:
        goes, setting, what = "when they go was not read", "", "shared memory or tmpfs"
    else:
        goes, setting = KINDS[use.kind]
        what = use.kind if not use.name else f"shared memory ({use.kind}: {use.name})"
    yield _SHARED_MEMORY.found(
        NOTE,
        f"{size(shmem)} are {what}: they {goes}{_several(use)}"
        if use and setting
        else f"{size(shmem)} are {what}: {goes}",
        shmem,
        _facts(use),
        setting=setting,
    )


def _several(use: SharedUse) -> str:
    """Each mapping of a page counts in resident memory."""
    allocated = use.allocated_bytes
    if not allocated or use.mappings <= use.count or use.resident_bytes < _SEVERAL * allocated:
        return ""
    return (
        f"; {size(allocated)} are there, which it maps {use.resident_bytes / allocated:.3g} times: "
        f"{size(use.resident_bytes - allocated)} of its resident memory are counted again"
    )


def not_resident_bytes(look: Look) -> int:
    """Of nameless objects that it maps, what others touched, a process that has ended, or itself
    before MADV_DONTNEED or in a private mapping: there as long as one maps them."""
    return sum(
        max(0, (use.allocated_bytes or 0) - use.resident_bytes)
        for use in look.shared
        if use.kind in (shared.ANONYMOUS, shared.MEMFD, shared.DELETED)
    )


def has_copies(look: Look) -> bool:
    """Pages of such objects that it wrote in private mappings: the kernel fills the object's page,
    then copies it."""
    copies = look.of_files.copies if look.of_files else ()
    return any(shared.kind_of(file.path) for file in copies)


def _facts(use: SharedUse | None) -> tuple[Fact, ...]:
    if use is None:
        return ()
    return facts(
        Fact("objects", use.count, "count"),
        None
        if use.allocated_bytes is None
        else Fact("in all of them, whoever touched it", use.allocated_bytes, "B"),
    )


_SEGMENTS_HELD_ELSEWHERE = FindingRow(
    "segments-held-elsewhere", "stock", "System V segments, attached by others", "B",
    "16 MiB in removed segments that others attach",
    experiments=("memcg-accounting",),
)  # fmt: skip
_SEGMENTS_REMOVED = FindingRow(
    "segments-removed", "stock", "System V segments, removed", "B",
    "16 MiB in removed segments that it attaches",
    "shmdt (of an X server: XShmDetach in its client) when one is no longer used; ipcs -m shows "
    "them as dest",
    experiments=("memcg-accounting",),
)  # fmt: skip


def _removed(look: Look) -> Iterator[Finding]:
    seen = look.attached
    if seen is None:
        return
    if seen.destroyed_bytes >= _WORTH_BYTES:
        count = units.counted(seen.destroyed_count, "segment")
        more = look.removed_growth_bytes / look.seconds
        grows = f", {size(more)} more per s" if more > 0 else ""
        yield _SEGMENTS_REMOVED.found(
            NOTE,
            f"{size(seen.destroyed_bytes)} lie in {count} of System V shared memory that were "
            f"removed (IPC_RMID) and that it still attaches{grows}: they go when the last process "
            "that attaches them detaches or ends",
            seen.destroyed_bytes,
            facts(Fact("attached by it in all", seen.count, "count")),
            grows=bool(grows),
        )
    if seen.elsewhere_bytes >= _WORTH_BYTES:
        count = units.counted(len(seen.elsewhere), "segment")
        who = ", ".join(map(str, look.attached_by[:3]))
        by = "not its own children"
        if who:
            by = f"process {who}" if len(look.attached_by) == 1 else f"processes {who}"
        yield _SEGMENTS_HELD_ELSEWHERE.found(
            NOTE,
            f"{size(seen.elsewhere_bytes)} lie in {count} of System V shared memory that it made "
            f"and removed (IPC_RMID), and that others still attach: {by}",
            seen.elsewhere_bytes,
            setting=f"memlab diagnose {look.attached_by[0]}" if who else "ipcs -m, ipcs -pm",
        )


_TOUCHES_SHARED = FindingRow(
    "touches-shared", "stock", "shared memory, tmpfs", "B/s",
    "it touches 64 KiB of older shared memory",
    "PSS, or RSS without RssShmem, in the monitoring; huge pages make fewer faults and page tables",
    experiments=("page-fault",),
)  # fmt: skip


def _met(look: Look) -> Iterator[Finding]:
    met = look.met_shared_bytes
    if met < _LEAST_MET_BYTES:
        return
    whole = sum(use.allocated_bytes or 0 for use in look.shared)
    mine = sum(use.resident_bytes for use in look.shared)
    yield _TOUCHES_SHARED.found(
        NOTE,
        f"its resident memory grows by {size(met / look.seconds)}/s of shared memory that is there "
        f"already ({size(mine)} of {size(whole)} touched): nothing is used up, no leak",
        met / look.seconds,
    )

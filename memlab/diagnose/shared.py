"""Shared memory that a process maps, by kind: how much of it there is, whoever touched it.

What is allocated to such an object is in its inode (st_blocks), which /proc/PID/map_files opens
also where no name is left. System V segments are in /proc/sysvipc/shm, where 01000 in the
permissions is a segment that was removed and goes with its last attachment (SHM_DEST).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memlab.diagnose import statuses, sysvipc
from memlab.observe import files, proc, process
from memlab.observe.proc import ROOT

ANONYMOUS, SYSTEM_V, MEMFD, DELETED, NAMED = (
    "anonymous shared memory", "System V segments", "memfd files", "files already deleted",
    "files of tmpfs",
)  # fmt: skip
SYSTEM_V_REMOVED = "removed System V segments"
"""Only of `kinds`: a mapping does not show it."""
_OBJECTS_MAX = 1000
_DESTROYED = 0o1000
_BEGINNINGS = frozenset(("/SYSV", "/memf", "/dev/", "[anon"))
_ELSEWHERE_BYTES = 1 << 20  # of so much the mounts of the process are read


@dataclass(frozen=True, slots=True)
class SharedUse:
    """The objects of one kind that a process maps."""

    kind: str
    count: int
    """Of objects; of mappings if the objects could not be read."""
    name: str
    """The largest; empty where it has none."""
    resident_bytes: int
    """In this process, of each mapping."""
    allocated_bytes: int | None
    """Of the objects, whoever touched them; None where not seen."""
    mappings: int = 1


@dataclass(frozen=True, slots=True)
class Attached:
    """System V segments of a process."""

    count: int
    bytes: int
    """Attached by it: what is resident of them, whoever touched it."""
    destroyed_count: int
    destroyed_bytes: int
    """Of these removed already: they go when the last process detaches."""
    elsewhere: tuple[int, ...]
    """Numbers of those that it made, that were removed, and that only others attach."""
    elsewhere_bytes: int
    destroyed_resident_bytes: int = 0
    """Of those that are removed, in its resident memory."""


def kind(mapping: process.Mapping) -> str | None:
    """None of a mapping that is not shared memory."""
    return kind_of(mapping.path)


def kind_of(path: str) -> str | None:
    """The same, of a mapping's path."""
    if path[:5] not in _BEGINNINGS:
        return None
    if path.startswith("/SYSV"):
        return SYSTEM_V
    if path.startswith("/memfd:"):
        return MEMFD
    if path == "/dev/zero (deleted)" or path.startswith("[anon_shmem:"):
        return ANONYMOUS
    if path.startswith("/dev/shm/"):
        return DELETED if path.endswith(process.DELETED) else NAMED
    return None


def uses(
    pid: int, mappings: Sequence[process.Mapping], resident: Mapping[int, int], shmem_bytes: int = 0
) -> tuple[SharedUse, ...]:
    """By kind, the largest first; `resident`: pages of files by the start of the mapping. If these
    kinds do not explain `shmem_bytes`, files of other mounts of tmpfs are looked for."""
    by_kind: dict[str, list[process.Mapping]] = {}
    for one in mappings:
        if (found := kind(one)) is not None:
            by_kind.setdefault(found, []).append(one)
    explained = sum(resident.get(one.start, 0) for those in by_kind.values() for one in those)
    if shmem_bytes - explained >= _ELSEWHERE_BYTES:
        for name, one in _elsewhere(pid, mappings, resident):
            by_kind.setdefault(name, []).append(one)
    made = []
    for name, those in by_kind.items():
        behind = _behind(pid, [(name, one) for one in those])
        sizes = None if behind is None else sum(size for _, size in behind.values())
        held = sum(resident.get(one.start, 0) for one in those)
        first = max(those, key=lambda one: resident.get(one.start, 0))
        said = "" if name == ANONYMOUS else first.path
        count = len(those if behind is None else behind)
        made.append(SharedUse(name, count, said, held, sizes, len(those)))
    return tuple(sorted(made, key=lambda one: -max(one.resident_bytes, one.allocated_bytes or 0)))


def _elsewhere(
    pid: int, mappings: Sequence[process.Mapping], resident: Mapping[int, int]
) -> Iterator[tuple[str, process.Mapping]]:
    """Mappings of files on a tmpfs that is mounted elsewhere than at /dev/shm."""
    mounts = files.known(process.mounts, pid, ROOT) or []
    kinds = {mount.mount_point: mount.filesystem for mount in mounts}
    for one in mappings:
        if not one.path.startswith("/") or kind(one) or not resident.get(one.start):
            continue
        folder = one.path
        while folder := folder.rpartition("/")[0]:
            if folder in kinds:
                break
        if kinds.get(folder or "/") == "tmpfs":
            yield DELETED if one.path.endswith(process.DELETED) else NAMED, one


def allocated(pid: int, mappings: Sequence[process.Mapping]) -> int | None:
    """What the objects behind these mappings hold, each once; None where not seen."""
    found = objects(pid, mappings)
    return None if found is None else sum(size for _, size in found.values())


def objects(
    pid: int, mappings: Sequence[process.Mapping]
) -> dict[tuple[int, int], tuple[str, int]] | None:
    """The kind of each object behind these mappings and what it holds, by device and inode."""
    return _behind(pid, [(name, one) for one in mappings if (name := kind(one)) is not None])


def _behind(
    pid: int, those: Sequence[tuple[str, process.Mapping]]
) -> dict[tuple[int, int], tuple[str, int]] | None:
    found: dict[tuple[int, int], tuple[str, int]] = {}
    if len(those) > _OBJECTS_MAX:
        return None
    for name, one in those:
        path = ROOT / f"proc/{pid}/map_files/{one.start:x}-{one.end:x}"
        about = files.known(path.stat)
        if about is None:
            return None
        found[about.st_dev, about.st_ino] = name, about.st_blocks * 512
    return found


def kinds(pids: Sequence[int]) -> dict[str, int]:
    """What these processes map of shared memory by kind, each object once."""
    found: dict[tuple[int, int], tuple[str, int]] = {}
    for pid in pids:
        mappings = files.known(process.maps, pid) or []
        behind = objects(pid, mappings) or {}
        has_segments = any(name == SYSTEM_V for name, _ in behind.values())
        removed_ids = _removed_segments(pid) if has_segments else frozenset()
        for key, (name, size) in behind.items():
            is_removed = name == SYSTEM_V and key[1] in removed_ids
            found[key] = SYSTEM_V_REMOVED if is_removed else name, size
    sums: dict[str, int] = {}
    for name, size in found.values():
        sums[name] = sums.get(name, 0) + size
    return sums


def _removed_segments(pid: int) -> frozenset[int]:
    """Numbers of the segments in its IPC namespace that were removed and that someone attaches."""
    rows = sysvipc.rows(pid, "shm") or []
    return frozenset(
        int(words[1]) for words in rows if len(words) > 2 and int(words[2], 8) & _DESTROYED
    )


def mapped_once(pid: int) -> int:
    """What it maps of tmpfs and shared memory and is resident; 0 if that may be less, because a
    part of a file is mapped twice, and counts twice."""
    status = files.known(proc.status, pid) or {}
    resident = proc.status_bytes(status, "RssShmem") or 0
    reached: dict[tuple[str, int], int] = {}
    mappings = (files.known(process.maps, pid) or []) if resident else []
    for one in sorted(mappings, key=lambda one: one.offset_bytes):
        if not one.permissions.endswith("s") and kind(one) is None:
            continue  # parts of a program's file share a page at their ends
        name = one.path, one.inode
        if one.offset_bytes < reached.get(name, 0):
            return 0
        reached[name] = one.offset_bytes + one.size_bytes
    return resident


def most_mapped_once(pids: Sequence[int]) -> int:
    """The most of what one of these processes maps, as `mapped_once` says it."""
    (sizes,) = statuses.columns(pids, (b"RssShmem",), ROOT)
    return max(
        (mapped_once(pid) for pid, size in zip(pids, sizes, strict=True) if size > 0), default=0
    )


def attached(
    pid: int, mappings: Sequence[process.Mapping], resident: Mapping[int, int]
) -> Attached | None:
    """The segments that it attaches, and those that it made and others hold; None if its IPC
    namespace may not be entered. `resident` is by the start of the mapping."""
    rows = sysvipc.rows(pid, "shm")
    if rows is None:
        return None
    here: dict[int, int] = {}
    for one in mappings:
        if kind(one) == SYSTEM_V:
            here[one.inode] = here.get(one.inode, 0) + resident.get(one.start, 0)
    held: list[int] = []
    destroyed: list[int] = []
    destroyed_resident = 0
    elsewhere: dict[int, int] = {}
    for words in rows:
        if len(words) < 15:
            continue
        number, mode, size = int(words[1]), int(words[2], 8), int(words[14])
        if number in here:
            held.append(size)
            if mode & _DESTROYED:
                destroyed.append(size)
                destroyed_resident += here[number]
        elif mode & _DESTROYED and words[4] == str(pid) and words[6] != "0":
            elsewhere[number] = size
    return Attached(
        len(held), sum(held), len(destroyed), sum(destroyed),
        tuple(elsewhere), sum(elsewhere.values()), destroyed_resident,
    )  # fmt: skip


def removed_bytes(seen: Attached | None) -> int:
    """Of removed segments that it attaches; 0 where not seen."""
    return seen.destroyed_bytes if seen else 0


def attaching(numbers: Sequence[int], pids: Sequence[int]) -> list[int]:
    """Which of these processes attach one of the segments."""
    wanted = set(numbers)
    return [
        pid
        for pid in pids
        if any(
            one.inode in wanted and kind(one) == SYSTEM_V
            for one in files.known(process.maps, pid) or []
        )
    ]

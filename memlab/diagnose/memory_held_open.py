"""Files in memory that a process holds open: memfds, files of any tmpfs, deleted ones too.

What such a file has allocated is in its inode, whoever wrote it. What of it the process does not
map is in no resident memory of the process.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memlab.diagnose.call_places import REMOTE
from memlab.diagnose.room import open_files
from memlab.observe import files, process
from memlab.observe.proc import ROOT

_MEMFD = "/memfd:"
_WAITS = ("fuse", *REMOTE)
_IN_MEMORY = ("tmpfs", "ramfs")
DESCRIPTORS_MAX = 1000
"""Of a process with more they are read only at the end of a look: each takes some 7 us."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One file, however often it is open."""

    path: str
    inode: int
    number: int
    """Of a descriptor that has it open."""
    bytes: int

    @property
    def is_nameless(self) -> bool:
        """Whether no folder names it."""
        return self.path.startswith(_MEMFD) or self.path.endswith(process.DELETED)


MemoryFiles = Mapping[tuple[int, int], MemoryFile]
Sizes = Mapping[tuple[int, int], int]


def read(pid: int, links: Mapping[int, str]) -> MemoryFiles:
    """The files in memory among the descriptors of a process, by device and inode."""
    places = mounts(pid) if any(link.startswith("/") for link in links.values()) else {}
    devices = {device: kind for device, kind in places.values() if kind in _IN_MEMORY}
    result: dict[tuple[int, int], MemoryFile] = {}
    for number, link in links.items():
        is_deleted = link.endswith(process.DELETED)
        is_memfd = link.startswith(_MEMFD) and is_deleted
        kind = _kind(link, places) if link.startswith("/") and not is_memfd else ""
        if not is_memfd and kind not in _IN_MEMORY and (not is_deleted or kind.startswith(_WAITS)):
            continue
        about = files.known((ROOT / f"proc/{pid}/fd/{number}").stat)
        if about is None or not stat.S_ISREG(about.st_mode):
            continue
        if is_memfd or about.st_dev in devices:
            key = about.st_dev, about.st_ino
            # A ramfs does not count what its files have.
            is_ramfs = devices.get(about.st_dev) == "ramfs"
            size = about.st_size if is_ramfs else about.st_blocks * 512
            result[key] = MemoryFile(link, about.st_ino, number, size)
    return result


def mounts(pid: int) -> dict[str, tuple[int, str]]:
    """The device and the file system of each mount that a process sees, by its path."""
    places = {}
    for mount in files.known(process.mounts, pid, ROOT) or []:
        major, _, minor = mount.device.partition(":")
        places[mount.mount_point] = os.makedev(int(major), int(minor)), mount.filesystem
    return places


def may_wait(path: str, places: Mapping[str, tuple[int, str]]) -> bool:
    """Whether it lies on a file system that may not answer."""
    return _kind(path, places).startswith(_WAITS)


def _kind(path: str, places: Mapping[str, tuple[int, str]]) -> str:
    """The file system that a path lies on."""
    folder = path
    while folder := folder.rpartition("/")[0]:
        if folder in places:
            return places[folder][1]
    return places.get("/", (0, ""))[1]


def unmapped(memory_files: MemoryFiles, mappings: Sequence[process.Mapping]) -> Sizes:
    """Of each file what the mappings have no room for. A private mapping shows the file's own pages
    until they are written."""
    inodes = {one.inode for one in memory_files.values()}
    room: Counter[tuple[str, int]] = Counter()
    for mapping in mappings:
        if mapping.inode in inodes:
            room[mapping.path, mapping.inode] += mapping.size_bytes
    return {key: max(0, one.bytes - room[one.path, one.inode]) for key, one in memory_files.items()}


def descriptors(pid: int) -> Mapping[int, str] | None:
    """Those at the beginning of a look; None of a process with many, by their number if the kernel
    gives it without a list."""
    if (open_files(pid, listed=False) or 0) > DESCRIPTORS_MAX:
        return None
    links = files.known(process.descriptors, pid, DESCRIPTORS_MAX + 1) or {}
    return links if len(links) <= DESCRIPTORS_MAX else None


def unmapped_now(
    pid: int, links: Mapping[int, str] | None, mappings: Sequence[process.Mapping]
) -> Sizes | None:
    """The same at the beginning of a look; None if they were not read."""
    return None if links is None else unmapped(read(pid, links), mappings)


@dataclass(frozen=True, slots=True)
class Growth:
    """By how much it held more at the end of a look than at its beginning."""

    bytes: int = 0
    opened_bytes: int = 0
    """Of it in files that were opened since, and may have had it before."""
    room_bytes: int | None = None
    """What is left of the tmpfs of the file that grew most; None without such a bound."""


def growth(pid: int, memory_files: MemoryFiles, before: Sizes | None, after: Sizes) -> Growth:
    """Of all of them together, if they were read at the beginning; it has closed some since."""
    if before is None:
        return Growth()
    grown = {key: size - before.get(key, 0) for key, size in after.items()}
    more = sum(after.values()) - sum(before.values())
    opened = sum(size for key, size in after.items() if key not in before)
    result = Growth(more, max(0, min(opened, more)))
    most = max(grown, key=lambda key: grown[key], default=None)
    if most is None or grown[most] <= 0:
        return result
    path = ROOT / f"proc/{pid}/fd/{memory_files[most].number}"
    use = files.known(os.statvfs, path)
    bound = use.f_bavail * use.f_frsize if use and use.f_blocks else None
    return replace(result, room_bytes=bound)


def nameless(memory_files: MemoryFiles) -> Sizes:
    """Of those that no folder names what each holds."""
    return {key: one.bytes for key, one in memory_files.items() if one.is_nameless}

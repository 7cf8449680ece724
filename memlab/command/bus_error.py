"""What was read when a program had ended by SIGBUS: where a page could be refused."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from memlab.observe import files, proc
from memlab.text import units
from memlab.text.printable import printable

_FULL, _NEARLY, _SMALL = 0.999, 0.99, 0.9
_LITTLE_BYTES = 16 << 20
_POOLS = proc.ROOT / "sys/kernel/mm/hugepages"


@dataclass(frozen=True, slots=True)
class FileSystem:
    """One that can be written, as df(1) counts it: what is kept back, as for root, is not free."""

    path: str
    kind: str
    used_bytes: int
    free_bytes: int
    kept_bytes: int = 0

    @property
    def share(self) -> float:
        return self.used_bytes / (self.used_bytes + self.free_bytes)

    @property
    def nearly_full(self) -> bool:
        is_little = self.free_bytes < _LITTLE_BYTES and self.share >= _SMALL
        return self.share >= _NEARLY or is_little

    def __str__(self) -> str:
        is_full, notes = self.share >= _FULL, []
        if not is_full:
            notes.append(f"{units.format_size(self.free_bytes)} free")
        if self.kept_bytes:
            notes.append(f"{units.format_size(self.kept_bytes)} kept back")
        state = "full" if is_full else f"{100 * self.share:.1f} % full"
        noted = f" ({', '.join(notes)})" if notes else ""
        return f"{self.path} ({self.kind}) is {state}{noted}"


def read() -> str:
    """The fullest file system and free huge pages of each pool, now: which of them can be the
    cause, and which is excluded. The address that was touched is gone with the program."""
    by_fullness = sorted(_file_systems(), key=lambda one: (-one.share, len(one.path)))
    pools = [pool for name in files.names(_POOLS) if (pool := _pool(name))]
    can, cannot = [], []
    for one in by_fullness[:1]:
        if one.nearly_full:
            can.append(f"{one}, if it maps a file there")
        else:
            cannot.append(f"the fullest file system, {one.path}, is {100 * one.share:.0f} % full")
    for size, free in pools:
        if free:
            cannot.append(f"huge pages of {size} are free ({free:,})")
        else:
            can.append(f"no huge page of {size} is free, if it maps such")
    if not pools:
        cannot.append("whether it maps huge pages, of which there is no pool, was not read")
    can.append(f"{'else ' if can else ''}a file ended before the mapping, or its I/O failed")
    return f"a page that it mapped could not be had: {'; '.join([*can, *cannot])}"


def _pool(name: str) -> tuple[str, int] | None:
    """The size of its pages in words, and how many are free; None of a pool that has no page and
    may have none."""
    counts = ("nr_hugepages", "nr_overcommit_hugepages", "free_hugepages")
    most, beyond, free = (files.number(_POOLS / name / count) or 0 for count in counts)
    kib = int(re.sub(r"\D", "", name) or 0)
    return (units.format_size(kib << 10), free) if most or beyond else None


def _file_systems() -> list[FileSystem]:
    """Those in memory and on disks of this machine: another one may not answer. Of two mounts in
    one place the later hides the earlier."""
    mounts = {mount.mount_point: mount for mount in files.known(proc.mounts) or []}
    results = []
    for mount in mounts.values():
        if not _is_local(mount) or not {"rw"} <= mount.options & mount.super_options:
            continue
        use = files.known(os.statvfs, mount.mount_point)
        if use is None or use.f_blocks - use.f_bfree + use.f_bavail <= 0:
            continue
        used, free, kept = (
            blocks * use.f_frsize
            for blocks in (use.f_blocks - use.f_bfree, use.f_bavail, use.f_bfree - use.f_bavail)
        )
        path = printable(mount.mount_point)
        results.append(FileSystem(path, mount.filesystem, used, free, kept))
    return results


def _is_local(mount: proc.Mount) -> bool:
    is_of_disk = mount.source.startswith("/dev/") and not mount.filesystem.startswith("fuse")
    return mount.filesystem in ("tmpfs", "overlay", "zfs") or (
        is_of_disk and mount.filesystem not in ("9p", "devtmpfs", "virtiofs")
    )

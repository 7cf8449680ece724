"""What was read when a program had ended by SIGBUS: where a page could be refused."""

from __future__ import annotations

import os
import re

from memlab.observe import files, proc
from memlab.text import units

_FULL = 0.99
_POOLS = proc.ROOT / "sys/kernel/mm/hugepages"


def read() -> str:
    """Free huge pages of each pool and the fullest tmpfs, now: which of them can be the cause, and
    which is excluded. The address that was touched is gone with the program."""
    pools = [_pool(name) for name in files.names(_POOLS)]
    counted = ", ".join(f"of {size}: {free:,}" for size, free in pools)
    fullest = max(_tmpfs(), default=None)
    can, cannot = [], []
    if pools and not any(free for _, free in pools):
        can.append(f"no huge page is free (pool {counted}), if it maps huge pages")
    elif pools:
        cannot.append(f"huge pages are free ({counted})")
    if fullest is not None and fullest[0] >= _FULL:
        can.append(f"{fullest[1]} (tmpfs) is full")
    elif fullest is not None:
        cannot.append(f"the fullest tmpfs, {fullest[1]}, is {100 * fullest[0]:.0f} % full")
    can.append(f"{'else ' if can else ''}a file or its disk ended before the mapping")
    return f"a page that it mapped could not be had: {'; '.join([*can, *cannot])}"


def _pool(name: str) -> tuple[str, int]:
    """The size of its pages in words, and how many are free."""
    kib = int(re.sub(r"\D", "", name) or 0)
    return units.format_size(kib << 10), files.number(_POOLS / name / "free_hugepages") or 0


def _tmpfs() -> list[tuple[float, str]]:
    mounts = [mount for mount in files.known(proc.mounts) or [] if mount.filesystem == "tmpfs"]
    results = []
    for mount in mounts:
        use = files.known(lambda mount=mount: os.statvfs(mount.mount_point))  # type: ignore[misc]
        if use is not None and use.f_blocks:
            results.append((1 - use.f_bfree / use.f_blocks, mount.mount_point))
    return results

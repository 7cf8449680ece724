"""What was read when a program had ended by SIGBUS: where a page could be refused."""

from __future__ import annotations

import os

from memlab.observe import files, proc


def read() -> str:
    """Free huge pages and the fullest tmpfs, now; which of them it was is not known."""
    machine = files.known(proc.meminfo) or {}
    total, free = machine.get("HugePages_Total", 0), machine.get("HugePages_Free", 0)
    said = [f"{free:,} of {total:,} huge pages are free"]
    fullest = max(_tmpfs(), default=None)
    if fullest:
        said.append(f"the fullest tmpfs, {fullest[1]}, is {100 * fullest[0]:.0f} % full")
    return f"a page that it mapped could not be had; {', '.join(said)}"


def _tmpfs() -> list[tuple[float, str]]:
    mounts = [one for one in files.known(proc.mounts) or [] if one.filesystem == "tmpfs"]
    found = []
    for one in mounts:
        use = files.known(lambda one=one: os.statvfs(one.mount_point))  # type: ignore[misc]
        if use is not None and use.f_blocks:
            found.append((1 - use.f_bfree / use.f_blocks, one.mount_point))
    return found

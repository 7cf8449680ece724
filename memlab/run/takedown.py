"""How a memory cgroup, a swap area and a zram device of a run are taken down.

What the journal calls, in the guardian too: standard library only. A journal may be damaged, so
each function first makes sure that what it was given is memlab's, and refuses it if it is not.
What is gone already is no failure.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

from memlab.observe import proc

PREFIX = "memlab-"  # everything that a run owns is called so: folders, groups, swap labels
LABEL_AT = 1024 + 12 + 16  # of volume_name in union swap_header, include/linux/swap.h
ZRAM_CONTROL = Path("/sys/class/zram-control")
_PATIENCE_S = 10.0  # for killed processes, perhaps large, to leave a group and the swap


class Refused(OSError):
    """Not memlab's, whatever the journal says."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, why)


def remove_group(path: Path) -> None:
    """Kill what is inside of a group and those below it, then remove them."""
    if not path.name.startswith(PREFIX):
        raise Refused("not a group that memlab made")
    if not path.exists():
        return
    if path.is_symlink() or proc.mount_of(path).filesystem not in ("cgroup", "cgroup2"):
        raise Refused("not a cgroup")
    empty_group(path)
    remove_groups_below(path)
    with suppress(FileNotFoundError):
        path.rmdir()


def remove_groups_below(path: Path) -> None:
    """Remove the groups inside of one; all must be empty."""
    for above, groups, _ in os.walk(path, topdown=False):
        for group in groups:
            with suppress(FileNotFoundError):
                os.rmdir(os.path.join(above, group))  # noqa: PTH106, PTH118


def empty_group(path: Path) -> None:
    """Kill what is inside, until nothing is; OSError (EBUSY) where it will not end."""
    deadline = time.monotonic() + _PATIENCE_S
    while path.exists() and _kill(path):
        if time.monotonic() > deadline:
            raise OSError(errno.EBUSY, "processes inside do not end")
        time.sleep(0.002)


def _kill(path: Path) -> bool:
    """SIGKILL all inside; whether there was anyone. v2 has cgroup.kill since Linux 5.14; else
    what forks meanwhile is met by the next look."""
    pids = []
    for below, _, _ in os.walk(path):
        with suppress(FileNotFoundError, ProcessLookupError):
            pids += [int(pid) for pid in Path(below, "cgroup.procs").read_text().split()]
    if pids and (path / "cgroup.kill").exists():
        (path / "cgroup.kill").write_text("1")
        return True
    for pid in pids:
        if pid > 0:  # 0 is a process outside of our PID namespace (cgroups(7)), and kill(2)'s self
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return bool(pids)


def remove_swap_file(path: Path) -> None:
    """Swap off; the file goes with its folder."""
    if not path.parent.name.startswith(PREFIX):
        raise Refused("not a swap file that memlab made")
    swap_off(path)


def swap_off(path: Path) -> None:
    """swapoff(2); an area that is not on (EINVAL) or not there is left alone.

    ENOMEM is met while a worker ends: it has left its group's list of processes, but its pages
    are still out, and there is no room to read them back into its limit. They go with it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    deadline = time.monotonic() + _PATIENCE_S
    while libc.swapoff(os.fsencode(path)) == -1:
        number = ctypes.get_errno()
        if number in (errno.EINVAL, errno.ENOENT):
            return
        if number != errno.ENOMEM or time.monotonic() > deadline:
            raise OSError(number, os.strerror(number))
        time.sleep(0.002)


def remove_zram(path: Path, node: Path) -> None:
    """Swap off, reset and remove /sys/block/zramN, whose device file is `node`."""
    if not re.fullmatch(r"/sys/block/zram[0-9]+", str(path)):
        raise Refused("not a zram device")
    if not path.exists():
        return
    if int((path / "disksize").read_text()) > 0:
        if node.stat().st_rdev != os.makedev(*map(int, (path / "dev").read_text().split(":"))):
            raise Refused(f"{node} is another device")
        if not _blank_or_ours(node):
            raise Refused("another program's zram device")
        swap_off(node)
        (path / "reset").write_text("1")
    (ZRAM_CONTROL / "hot_remove").write_text(path.name.removeprefix("zram"))


def _blank_or_ours(node: Path) -> bool:
    """A number may have gone to another's device since: its swap label says whose it is."""
    with node.open("rb", buffering=0) as device:
        page = device.read(mmap.PAGESIZE)
    return page[LABEL_AT:].startswith(PREFIX.encode()) or not any(page)

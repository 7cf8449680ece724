"""Causes that the arguments of a failing call tell, of files: what is read-only, and what a file of
the kernel does not take.

Sources: mnt_want_write() of fs/namespace.c, mem_cgroup_resize_max() of mm/memcontrol-v1.c of Linux
6.18; cgroups(7), proc_sys(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from memlab.diagnose import call_places
from memlab.diagnose.call_facts import Cause, EarlierFacts, Facts, Reader, shown
from memlab.diagnose.finding import size
from memlab.diagnose.refusals import is_want

_NAMED = 3
_TEXT_MAX = 40
_LIMITS = {
    "memory.limit_in_bytes": "memory.usage_in_bytes",
    "memory.memsw.limit_in_bytes": "memory.memsw.usage_in_bytes",
}
"""Of cgroup v1, which refuses them where reclaim does not help; v2 kills instead."""
_WRITABLE = (
    "mount -o remount,rw; of a container a volume without :ro, or no --read-only; of a unit "
    "ReadWritePaths=; a file on another mount; if it was writable before, the kernel's log "
    "(errors=remount-ro)"
)


def _read_only(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EROFS, which says by itself that it is: which one, if that is read."""
    mount = None
    if not isinstance(facts, EarlierFacts):
        mount = call_places.mount_of_change(
            facts.pid, call, arguments, facts.memory, facts.mounts
        )  # fmt: skip
    if mount is not None and "ro" in mount.options | mount.super_options:
        where = f"{shown(mount.mount_point)} ({mount.filesystem})"
        what = "the mount" if "ro" in mount.options else "the file system of the mount"
        return Cause(
            f"{what} {where} is read-only (ro)", f"ro of {where}", _WRITABLE, harmless=True
        )
    place = None
    if mount is None and not isinstance(facts, EarlierFacts):
        place = call_places.folder_of_change(facts.pid, call, arguments, facts.mounts)
    if place is not None and "ro" in place[2].options | place[2].super_options:
        number, path, mount = place
        where = f"{shown(mount.mount_point)} ({mount.filesystem})"
        return Cause(
            f"the file system is read-only: the path was not read; descriptor {number}, in which "
            f"it begins if it is relative, is now {shown(path)} on the mount {where}, which is "
            "read-only (ro)",
            f"ro of {where}", _WRITABLE, harmless=True,
        )  # fmt: skip
    points = [shown(m.mount_point) for m in facts.mounts.values() if "ro" in m.options]
    which = f" ({', '.join(points)})" if len(points) <= _NAMED else ""
    its = f"; mounts of it that are read-only: {len(points)}{which}" if points else ""
    return Cause(
        f"the file system is read-only, and which one it is was not read{its}",
        "a file system that is read-only", _WRITABLE, harmless=True,
    )  # fmt: skip


def _busy(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    return _kernel_file(facts, call, arguments, harmless=not is_want(call, "EBUSY"))


def _invalid(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    return _kernel_file(facts, call, arguments, harmless=True)


def _kernel_file(
    facts: Facts, call: str, arguments: Sequence[int], *, harmless: bool
) -> Cause | None:
    """Of a file of the kernel, which the descriptor may have become since."""
    number, file = arguments[0] & 0xFFFF_FFFF, facts.file(arguments[0])
    if file is None or file[1].filesystem not in call_places.OF_THE_KERNEL:
        return None
    path, mount, how = file
    raw = b"" if call == "writev" else facts.memory(arguments[1], min(arguments[2], _TEXT_MAX))
    text = shown(raw.decode("utf-8", "replace").strip(" \0\n"))
    folder, name = os.path.split(path)
    in_use = None
    if name in _LIMITS and mount.filesystem == "cgroup":
        in_use = call_places.of_group(facts.pid, folder, _LIMITS[name], facts.mounts)
    limit = _bytes(text)
    if in_use is not None and limit is not None and in_use > limit:
        return Cause(
            f"the limit of the group {shown(folder)} is to be {size(limit)} ({name}, which "
            f"descriptor {number} {how}), and it has {size(in_use)} in use, which reclaim does not "
            "bring below it",
            f"{name} of {shown(folder)}",
            "a limit above what is in use, or first less of it: a restart, swap, "
            "memory.force_empty",
            harmless=harmless,
        )  # fmt: skip
    now = f" (where it wrote from now lies {text!r})" if text else ""
    return Cause(
        f"descriptor {number} {how} {shown(path)}, a file of the kernel ({mount.filesystem}), "
        f"which does not take what is written{now}",
        shown(path), "the value; what the file takes is in the kernel's documentation",
        harmless=harmless,
    )  # fmt: skip


def _bytes(text: str) -> int | None:
    """As memparse() reads it."""
    number = re.fullmatch(r"(\d{1,18})([kKmMgG]?)", text)
    return (
        int(number[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[number[2].lower()] if number else None
    )


READERS: tuple[tuple[str, str, Reader], ...] = (
    (call_places.CHANGES, "EROFS", _read_only),
    ("write pwrite64 writev", "EBUSY", _busy),
    ("write pwrite64 writev", "EINVAL ERANGE", _invalid),
)

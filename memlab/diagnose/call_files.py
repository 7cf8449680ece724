"""Causes that the arguments of a failing call tell, of files: what is read-only, what a file of
the kernel does not take, and whom the modes of folders and files do not allow.

Sources: mnt_want_write() of fs/namespace.c, may_create_in_sticky() and acl_permission_check() of
fs/namei.c, exe_file_deny_write_access() of include/linux/fs.h, mem_cgroup_resize_max() of
mm/memcontrol-v1.c of Linux 6.18; cgroups(7), proc_sys(5), proc_sys_fs(5).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence

from memlab.diagnose import call_places
from memlab.diagnose.call_facts import Cause, EarlierFacts, Facts, Reader, shown
from memlab.diagnose.call_places import Passed
from memlab.diagnose.finding import size
from memlab.diagnose.kernel_numbers import sysctl, target_of
from memlab.diagnose.refusals import is_want
from memlab.observe import process
from memlab.observe.proc import ROOT

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


_OVERRIDES = 0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_MAY = {1: "searched", 2: "written to", 4: "read", 6: "read and written to"}
_PROCESSES_MAX = 20_000


def _flags(call: str, arguments: Sequence[int]) -> int | None:
    """Of an open; openat2 has them behind a pointer."""
    if call == "creat":
        return os.O_CREAT | os.O_WRONLY | os.O_TRUNC
    return {"open": 1, "openat": 2}.get(call) and arguments[1 if call == "open" else 2]


def _denied(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EACCES of an open."""
    flags = _flags(call, arguments)
    if flags is None or isinstance(facts, EarlierFacts):
        return None
    folders, file = call_places.on_the_way(facts.pid, call, arguments, facts.memory, facts.mounts)
    overrides = bool(int(facts.status.get("CapEff", "0"), 16) & _OVERRIDES)
    if not folders or not facts.is_alike:
        return None
    if flags & os.O_PATH:  # with which the kernel reads no other of these flags
        flags = os.O_PATH
    wants = 0 if flags & os.O_PATH else (4, 2, 6, 6)[flags & 3]
    steps = [(place, 1) for place in folders if not overrides]
    cause = _by_mode(facts, steps)
    if cause is None and file and flags & os.O_CREAT:
        cause = _in_sticky(facts, folders[-1], file)
    if cause is not None or overrides:
        return cause
    if file is not None:
        steps.append((file, wants | (2 if flags & os.O_TRUNC else 0)))
    elif flags & os.O_CREAT:
        steps.append((folders[-1], 2))
    return _by_mode(facts, steps)


def _by_mode(facts: Facts, steps: Sequence[tuple[Passed, int]]) -> Cause | None:
    """The first of these that its mode does not allow."""
    for (path, about, has_list), bits in steps:
        if has_list or stat.S_ISLNK(about.st_mode):
            return None
        if bits & ~_allowed(facts, about):
            mode = f"mode {stat.S_IMODE(about.st_mode):04o}, UID {about.st_uid}, GID {about.st_gid}"
            return Cause(
                f"{shown(path)} ({mode}) may not be {_MAY[bits]} by UID {_fs_user(facts)}",
                f"mode of {shown(path)}", "chmod or chown of it; another user or group",
                harmless=True,
            )  # fmt: skip
    return None


def _fs_user(facts: Facts) -> int:
    return int(facts.status.get("Uid", "").split()[3])


def _allowed(facts: Facts, about: os.stat_result) -> int:
    """What the mode allows the process: 4 to read, 2 to write, 1 to search."""
    groups = [*facts.status.get("Groups", "").split(), *facts.status.get("Gid", "").split()[3:]]
    if about.st_uid == _fs_user(facts):
        return about.st_mode >> 6 & 7
    return (about.st_mode >> 3 if str(about.st_gid) in groups else about.st_mode) & 7


def _in_sticky(facts: Facts, folder: Passed, file: Passed) -> Cause | None:
    """Of a file that is there already: whoever asks, root too."""
    kinds = {stat.S_IFREG: "fs/protected_regular", stat.S_IFIFO: "fs/protected_fifos"}
    name = kinds.get(stat.S_IFMT(file[1].st_mode), "")
    value = next(iter(sysctl(name)), 0) if name else 0
    mode, owner = folder[1].st_mode, file[1].st_uid
    others = 0o002 if value == 1 else 0o022
    if (
        not value or not mode & stat.S_ISVTX or not mode & others
        or owner in (folder[1].st_uid, _fs_user(facts))
    ):  # fmt: skip
        return None
    setting = name.replace("/", ".")
    return Cause(
        f"{shown(file[0])} is there already, of UID {owner}: in a sticky folder that others may "
        f"write to, {setting} ({value}) refuses O_CREAT of another user's file, to root too (this "
        f"process has UID {_fs_user(facts)})",
        setting,
        f"open it without O_CREAT if it is there; make it as the same user; sysctl {setting}",
        harmless=True,
    )


def _busy_text(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ETXTBSY, which says by itself that it is: which file, and by whom, if that is read."""
    file = None
    if not isinstance(facts, EarlierFacts):
        how = facts.pid, call, arguments, facts.memory, facts.mounts
        file = call_places.on_the_way(*how)[1]
    path = shown(file[0]) if file else "the file"
    if call.startswith("exec"):
        return Cause(
            f"{path}, or its interpreter, is open for writing in a process, as in a child that was "
            "forked while it was written; in which was not read",
            f"a writer of {path}", "close it first; try again", harmless=True,
        )  # fmt: skip
    by = _executing(facts, file) if file else ""
    return Cause(
        f"{path} is being executed{by or ', or is in use as swap; by which process was not read'}",
        f"who executes {path}",
        "write another file and rename it onto this one (install, mv, cp --remove-destination)",
        harmless=True,
    )


def _executing(facts: Facts, file: Passed) -> str:
    """The first process whose program has this name and is this file."""
    name = "/" + file[0].rpartition("/")[2]
    for pid in process.ids(ROOT)[:_PROCESSES_MAX]:
        if not (target_of(ROOT / f"proc/{pid}/exe") or "").endswith(name):
            continue
        about = call_places.program(pid, facts.mounts)
        if about and (about.st_dev, about.st_ino) == (file[1].st_dev, file[1].st_ino):
            return f" by process {pid} ({shown(process.command(pid, ROOT))})"
    return ""


READERS: tuple[tuple[str, str, Reader], ...] = (
    (call_places.CHANGES, "EROFS", _read_only),
    ("open openat creat", "EACCES", _denied),
    ("open openat creat truncate execve execveat", "ETXTBSY", _busy_text),
    ("write pwrite64 writev", "EBUSY", _busy),
    ("write pwrite64 writev", "EINVAL ERANGE", _invalid),
)

"""Which file system a failing call is about, and how full that is.

A descriptor says its mount (proc_pid_fdinfo(5)). A path is followed from folder to folder without a
symbolic link and without a folder that may be remote, which would wait for its server.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from memlab.diagnose.finding import size
from memlab.diagnose.kernel_numbers import target_of
from memlab.observe import files, proc, process
from memlab.observe.proc import ROOT
from memlab.text.printable import printable

OF_THE_KERNEL = (
    "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "securityfs", "debugfs", "tracefs",
    "configfs", "pstore", "bpf", "efivarfs", "fusectl", "binfmt_misc", "rpc_pipefs", "nsfs",
)  # fmt: skip
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "autofs", "virtiofs")
_FILES_MAX = 4096
_FOLDERS_MAX = 40
_PAGE = 4096
_CURRENT = 0xFFFF_FF9C  # AT_FDCWD
# Which argument is the descriptor.
_BY_DESCRIPTOR = {
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2", "fallocate", "ftruncate",
                     "fsync", "fdatasync", "sendfile"), 0),
    "splice": 2, "copy_file_range": 2,
}  # fmt: skip
# Which arguments are the folder, None for the working directory, and the path.
_BY_PATH: Mapping[str, tuple[int | None, int]] = {
    **dict.fromkeys(("open", "creat", "mkdir", "mknod", "truncate"), (None, 0)),
    **dict.fromkeys(("rename", "link", "symlink"), (None, 1)),
    **dict.fromkeys(("openat", "openat2", "mkdirat", "mknodat"), (0, 1)),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), (2, 3)), "symlinkat": (1, 2),
}  # fmt: skip
CALLS = " ".join((*_BY_DESCRIPTOR, *_BY_PATH))
_MOUNT = re.compile(r"^mnt_id:\s*(\d{1,10})$", re.MULTILINE)

Told = tuple[str, str, str]
"""The cause, what it is about, and what to try."""


def of_descriptor(pid: int, number: int) -> proc.Mount | None:
    """The mount that a file lies on; None of one that no folder of the process shows."""
    return _mounted(pid, ROOT / f"proc/{pid}/fdinfo/{number & 0xFFFF_FFFF}")


def of_call(
    pid: int, call: str, arguments: Sequence[int], memory: Callable[[int, int], bytes]
) -> Told | None:
    """What says ENOSPC to this call."""
    if call in _BY_DESCRIPTOR:
        number = arguments[_BY_DESCRIPTOR[call]]
        path = target_of(ROOT / f"proc/{pid}/fd/{number & 0xFFFF_FFFF}") or ""
        if path == "/dev/full":
            return f"it writes to {path}, which is always full", path, ""
        mount = of_descriptor(pid, number)
        if mount is None or mount.filesystem.startswith(("fuse", *REMOTE)):
            return None
        if mount.filesystem in ("cgroup", "cgroup2"):
            return _of_group(pid, path)
        about = files.known(lambda: os.statvfs(ROOT / f"proc/{pid}/fd/{number & 0xFFFF_FFFF}"))
        return _of_mount(mount, about, _length(call, arguments), path)
    at, of_path = _BY_PATH[call]
    path = memory(arguments[of_path], 4096).partition(b"\0")[0].decode("utf-8", "surrogateescape")
    if not path or path.endswith("ptmx"):
        return None
    begin = "root" if path.startswith("/") else "cwd"
    if begin == "cwd" and at is not None and arguments[at] & 0xFFFF_FFFF != _CURRENT:
        begin = f"fd/{arguments[at] & 0xFFFF_FFFF}"
    with suppress(OSError):
        return _of_path(pid, begin, path)
    return None


def _length(call: str, arguments: Sequence[int]) -> int:
    return arguments[{"write": 2, "pwrite64": 2, "fallocate": 3}[call]] if call in (
        "write", "pwrite64", "fallocate") else 0  # fmt: skip


def _mounted(pid: int, fdinfo: Path) -> proc.Mount | None:
    number = _MOUNT.search(files.text(fdinfo) or "")
    mounts = files.known(lambda: process.mounts(pid, ROOT)) or []
    return next((mount for mount in mounts if number and mount.mount_id == int(number[1])), None)


def _local(pid: int, fd: int) -> proc.Mount | None:
    """The mount of an own descriptor, if it waits for no server."""
    mount = _mounted(pid, ROOT / f"proc/self/fdinfo/{fd}")
    return None if mount is None or mount.filesystem.startswith(("fuse", *REMOTE)) else mount


def _of_path(pid: int, begin: str, path: str) -> Told | None:
    folders = [part for part in path.split("/")[:-1] if part not in ("", ".")]
    if ".." in folders or len(folders) > _FOLDERS_MAX:
        return None
    how = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    fd = os.open(ROOT / f"proc/{pid}/{begin}", how)
    try:
        for part in folders:
            if _local(pid, fd) is None:
                return None
            former, fd = fd, os.open(part, how | os.O_NOFOLLOW, dir_fd=fd)
            os.close(former)
        if (mount := _local(pid, fd)) is None or mount.filesystem in OF_THE_KERNEL:
            return None
        told = _of_mount(mount, os.fstatvfs(fd), 0, path)
        return None if told is None or not told[2] else told  # the path may be another one by now
    finally:
        os.close(fd)


def _of_mount(
    mount: proc.Mount, about: os.statvfs_result | None, wanted: int, path: str
) -> Told | None:
    if about is None:
        return None
    name = f"{_shown(mount.mount_point)} ({mount.filesystem})"
    if mount.filesystem in OF_THE_KERNEL:
        words = f"{_shown(path)} is a file of the kernel ({mount.filesystem}), and no disk is full"
        return words, _shown(path), ""
    if about.f_files and not about.f_favail:
        words = f"{about.f_files:,} of {about.f_files:,} inodes are used of the file system {name}"
        setting = "remove files (df -i); nr_inodes= of a tmpfs"
        return words, f"inodes of the file system {name}", setting
    usable = (about.f_blocks - about.f_bfree + about.f_bavail) * about.f_frsize
    room = about.f_bavail * about.f_frsize
    line = f"the file system {name}"
    used = f"{size(usable - room)} of {size(usable)} ({line})"
    if room < (wanted or max(_PAGE, usable // 100)):
        if room >= _PAGE:
            used = f"{size(wanted)} are written at once, and {used} are used" if wanted else used
        return used, line, "remove files (df), or a larger file system; size= of a tmpfs"
    words = f"it is about the file system {name}, which has room: {size(room)} of {size(usable)}"
    more = "a quota, and what it keeps for its own records, were not read"
    return f"{words}; {more}", line, ""


_MEMBERS = ("tasks", "cgroup.procs", "cgroup.threads")


def _of_group(pid: int, path: str) -> Told | None:
    """A task may not enter a cpuset without CPUs or without nodes (cpuset_can_attach())."""
    folder, name = os.path.split(path)
    words = f"{_shown(path)} is a file of a cgroup, and no disk is full"
    if name in _MEMBERS:
        place = ROOT / f"proc/{pid}/root" / folder.lstrip("/")
        empty = [
            file for file in ("cpuset.cpus", "cpuset.mems") if files.text(place / file) == ""
        ]  # fmt: skip
        if empty:
            both, are = " and ".join(empty), "is" if len(empty) == 1 else "are"
            words = f"the cgroup {_shown(folder)} takes no process: {both} {are} empty"
            return words, f"{empty[0]} of {_shown(folder)}", f"write {both} first"
    return words, _shown(path), ""


def huge_files(pid: int, page: int) -> tuple[int, str]:
    """What files of a mount of hugetlbfs with pages of this size hold, whoever maps them, and where
    most lie."""
    sizes = {f"pagesize={page >> 10}K", f"pagesize={page >> 20}M"}  # hugetlbfs_show_options()
    mounts = files.known(lambda: process.mounts(pid, ROOT)) or []
    holdings = [
        (allocated(ROOT / f"proc/{pid}/root" / mount.mount_point.lstrip("/")), mount.mount_point)
        for mount in mounts
        if mount.filesystem == "hugetlbfs" and mount.super_options & sizes
    ]
    return max(holdings, default=(0, ""))


def allocated(folder: Path) -> int:
    """What the files in a folder hold."""
    about = (files.known((folder / name).lstat) for name in files.names(folder)[:_FILES_MAX])
    return sum(file.st_blocks * 512 for file in about if file and stat.S_ISREG(file.st_mode))


def _shown(text: str) -> str:
    """A name that another process chose."""
    return printable(text)[:80]

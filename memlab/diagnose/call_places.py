"""Which file system a failing call is about, and how full that is.

A descriptor says its mount (proc_pid_fdinfo(5)). A path is followed from folder to folder without a
symbolic link and without a folder that may be remote, which would wait for its server.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from memlab.diagnose.finding import size
from memlab.diagnose.kernel_numbers import target_of
from memlab.observe import files, proc
from memlab.observe.proc import ROOT
from memlab.text.printable import printable

OF_THE_KERNEL = (
    "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "securityfs", "debugfs", "tracefs",
    "configfs", "pstore", "bpf", "efivarfs", "fusectl", "binfmt_misc", "rpc_pipefs", "nsfs",
)  # fmt: skip
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "autofs", "virtiofs")
_FILES_MAX = 4096
_FOLDERS_MAX = 40
_MOUNTS_MAX = 20_000
_OF_DESCRIPTOR, _DIRECT_UNITS = 0x1000, 0x2000  # AT_EMPTY_PATH; STATX_DIOALIGN
_ON_DISKS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")
_PAGE = 4096
_CURRENT = 0xFFFF_FF9C  # AT_FDCWD
# Which argument is the descriptor.
_BY_DESCRIPTOR = {
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2", "fallocate", "ftruncate",
                     "fsync", "fdatasync", "sendfile", "fsetxattr"), 0),
    "splice": 2, "copy_file_range": 2,
}  # fmt: skip
# Which arguments are the folder, None for the working directory, and the path.
_BY_PATH: Mapping[str, tuple[int | None, int]] = {
    **dict.fromkeys(("open", "creat", "mkdir", "mknod", "truncate", "setxattr", "lsetxattr"),
                    (None, 0)),
    **dict.fromkeys(("rename", "link", "symlink"), (None, 1)),
    **dict.fromkeys(("openat", "openat2", "mkdirat", "mknodat"), (0, 1)),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), (2, 3)), "symlinkat": (1, 2),
}  # fmt: skip
CALLS = " ".join((*_BY_DESCRIPTOR, *_BY_PATH))
# Of calls that change what no room is needed for.
_CHANGED_BY_DESCRIPTOR = {
    **_BY_DESCRIPTOR, **dict.fromkeys(("fchmod", "fchown", "fremovexattr", "ioctl"), 0),
}  # fmt: skip
_CHANGED_BY_PATH: Mapping[str, tuple[int | None, int]] = {
    **_BY_PATH,
    **dict.fromkeys(("unlink", "rmdir", "chmod", "chown", "lchown", "utime", "utimes",
                     "removexattr", "lremovexattr"), (None, 0)),
    **dict.fromkeys(("unlinkat", "fchmodat", "fchmodat2", "fchownat", "utimensat", "futimesat"),
                    (0, 1)),
}  # fmt: skip
CHANGES = " ".join((*_CHANGED_BY_DESCRIPTOR, *_CHANGED_BY_PATH))
_EXECUTED_BY_PATH: Mapping[str, tuple[int | None, int]] = {"execve": (None, 0), "execveat": (0, 1)}
_OF_NAMES = re.compile(r"(mkdir|rmdir|mknod|unlink|rename|link|symlink)(at2?)?|l\w+")
"""They are about a name in a folder, and follow no link."""
_MOUNT = re.compile(r"^mnt_id:\s*(\d{1,10})$", re.MULTILINE)

Passed = tuple[str, os.stat_result, bool]
"""A path, what is there now, and whether a list (ACL) may allow more than its mode."""

Told = tuple[str, str, str]
"""The cause, what it is about, and what to try."""


Mounts = Mapping[int, proc.Mount]
"""Of a process, by the number of each."""


def mounts(pid: int) -> Mounts:
    """Empty of so many that to read them takes long."""
    text = files.known(lambda: proc.read(ROOT / f"proc/{pid}/mountinfo")) or ""
    if text.count("\n") > _MOUNTS_MAX:
        return {}
    return {
        mount.mount_id: mount for mount in files.known(partial(proc.parse_mountinfo, text)) or ()
    }


def of_descriptor(pid: int, number: int, known: Mounts) -> tuple[str, proc.Mount] | None:
    """The path of a file and its mount; None of one that no folder of the process shows."""
    with suppress(OSError), _opened(pid, number, known) as (fd, mount):
        return target_of(_link(fd)) or "", mount
    return None


def of_path(
    pid: int, place: Sequence[int], memory: Callable[[int, int], bytes], known: Mounts
) -> tuple[str, proc.Mount] | None:
    """The same of a folder's descriptor and the address of a path."""
    with suppress(OSError), _by_path(pid, place, (0, 1), memory, known) as (fd, name, mount):
        return f"{target_of(_link(fd)) or ''}/{name}", mount
    return None


def of_call(
    pid: int,
    call: str,
    arguments: Sequence[int],
    memory: Callable[[int, int], bytes],
    known: Mounts,
) -> Told | None:
    """What says ENOSPC to this call."""
    if call in _BY_DESCRIPTOR:
        number = arguments[_BY_DESCRIPTOR[call]] & 0xFFFF_FFFF
        with suppress(OSError), _opened(pid, number, known) as (fd, mount):
            return _of_file(pid, number, fd, mount, _length(call, arguments), known)
        return None
    with (
        suppress(OSError),
        _by_path(pid, arguments, _BY_PATH[call], memory, known) as (fd, name, mount),
    ):
        if mount.filesystem not in OF_THE_KERNEL and name != "ptmx":
            return _of_mount(mount, os.fstatvfs(fd), 0, creates="xattr" not in call)
    return None


def mount_of_call(
    pid: int,
    call: str,
    arguments: Sequence[int],
    memory: Callable[[int, int], bytes],
    known: Mounts,
) -> tuple[proc.Mount, int] | None:
    """The mount that a call is about, and the size of its blocks."""
    with suppress(OSError):
        if call in _BY_DESCRIPTOR:
            with _opened(pid, arguments[_BY_DESCRIPTOR[call]], known) as (fd, mount):
                return mount, os.fstatvfs(fd).f_frsize
        with _by_path(pid, arguments, _BY_PATH[call], memory, known) as (fd, _, mount):
            return mount, os.fstatvfs(fd).f_frsize
    return None


def mount_of_change(
    pid: int,
    call: str,
    arguments: Sequence[int],
    memory: Callable[[int, int], bytes],
    known: Mounts,
) -> proc.Mount | None:
    """The mount of what a call is to change, which a file may have of its own; None where it is not
    read."""
    with suppress(OSError):
        if call in _CHANGED_BY_DESCRIPTOR:
            with _opened(pid, arguments[_CHANGED_BY_DESCRIPTOR[call]], known) as (_, mount):
                return mount
        places = _CHANGED_BY_PATH[call]
        with _by_path(pid, arguments, places, memory, known) as (folder, name, mount):
            if _OF_NAMES.fullmatch(call):
                return mount
            try:
                with _named(folder, name, known) as (fd, of_file):
                    return None if stat.S_ISLNK(os.fstat(fd).st_mode) else of_file
            except FileNotFoundError:
                return mount
    return None


def on_the_way(
    pid: int,
    call: str,
    arguments: Sequence[int],
    memory: Callable[[int, int], bytes],
    known: Mounts,
) -> tuple[list[Passed], Passed | None]:
    """The folders that lead to what a call opens or executes, and that file if it is there; no
    folder of a path that is not read."""
    folders: list[Passed] = []
    places = _EXECUTED_BY_PATH.get(call) or _BY_PATH[call]
    with (
        suppress(OSError),
        _by_path(pid, arguments, places, memory, known, folders) as (folder, name, _),
    ):
        try:
            with _named(folder, name, known) as (fd, _):
                return folders, _passed(fd)
        except FileNotFoundError:
            return folders, None
    return [], None


def program(pid: int, known: Mounts) -> os.stat_result | None:
    """What a process executes; None if that is on none of these mounts, or may be remote."""
    with suppress(OSError):
        fd = os.open(ROOT / f"proc/{pid}/exe", os.O_PATH | os.O_CLOEXEC)
        try:
            _local(ROOT / f"proc/self/fdinfo/{fd}", known)
            return os.fstat(fd)
        finally:
            os.close(fd)
    return None


def folder_of_change(
    pid: int, call: str, arguments: Sequence[int], known: Mounts
) -> tuple[int, str, proc.Mount] | None:
    """The descriptor from whose folder a path that is not read begins, if it is not absolute."""
    at, _ = _CHANGED_BY_PATH.get(call, (None, 0))
    if at is None or (number := arguments[at] & 0xFFFF_FFFF) == _CURRENT:
        return None
    place = of_descriptor(pid, number, known)
    return (number, *place) if place else None


def direct_units(pid: int, number: int, known: Mounts) -> tuple[int, int] | None:
    """The alignment in bytes of a buffer's address, and that of its length and position, for a
    descriptor with O_DIRECT: STATX_DIOALIGN of Linux 6.1 (statx(2)), else 1 and 512, the smallest
    sector. None if the file does not support direct I/O."""
    with suppress(OSError), _opened(pid, number, known) as (fd, mount):
        about = (ctypes.c_char * 256)()
        read = getattr(ctypes.CDLL(None), "statx", None)  # glibc 2.28, musl 1.2.5
        if read and read(fd, b"", _OF_DESCRIPTOR, _DIRECT_UNITS, about) == 0:
            mask, memory, place = (struct.unpack_from("=I", about, at)[0] for at in (0, 152, 156))
            if mask & _DIRECT_UNITS:
                return (memory, place) if memory and place else None
        kind = stat.S_IFMT(os.fstat(fd).st_mode)
        is_file = kind == stat.S_IFBLK or (kind == stat.S_IFREG and mount.filesystem in _ON_DISKS)
        return (1, 512) if is_file else None
    return None


def links_of_call(
    pid: int,
    call: str,
    arguments: Sequence[int],
    memory: Callable[[int, int], bytes],
    known: Mounts,
) -> tuple[int, str, bool] | None:
    """How many links the file has that a call makes a link to, its file system, and whether it is a
    folder, to which each folder in it is a link."""
    is_folder = call in ("mkdir", "mkdirat")
    places = {"link": (None, 0), "linkat": (0, 1)}
    with (
        suppress(OSError),
        _by_path(pid, arguments, places.get(call, _BY_PATH[call]), memory, known) as place,
    ):
        fd, name, mount = place
        about = os.fstat(fd) if is_folder else os.stat(name, dir_fd=fd, follow_symlinks=False)
        return about.st_nlink, mount.filesystem, is_folder
    return None


@contextmanager
def _by_path(
    pid: int,
    arguments: Sequence[int],
    places: tuple[int | None, int],
    memory: Callable[[int, int], bytes],
    known: Mounts,
    passed: list[Passed] | None = None,
) -> Iterator[tuple[int, str, proc.Mount]]:
    """The folder of a path by an own descriptor, the last name, and the mount. Raises `OSError` of
    a path that is not read."""
    at, of_path = places
    raw, end, _ = memory(arguments[of_path], 4096).partition(b"\0")
    path = raw.decode("utf-8", "surrogateescape")
    if not path or not end:
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
    begin = "root" if path.startswith("/") else "cwd"
    if begin == "cwd" and at is not None and arguments[at] & 0xFFFF_FFFF != _CURRENT:
        begin = f"fd/{arguments[at] & 0xFFFF_FFFF}"
    *folders, name = path.split("/")
    with _folder(pid, begin, folders, known, passed) as (fd, mount):
        yield fd, name, mount


@contextmanager
def _named(folder: int, name: str, known: Mounts) -> Iterator[tuple[int, proc.Mount]]:
    """An own descriptor of what a folder has by this name, a link too, and its mount."""
    how = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    _check_below(name, _local(ROOT / f"proc/self/fdinfo/{folder}", known), known)
    fd = os.open(name or ".", how, dir_fd=folder)
    try:
        yield fd, _local(ROOT / f"proc/self/fdinfo/{fd}", known)
    finally:
        os.close(fd)


def _passed(fd: int) -> Passed:
    has_list = False
    with suppress(OSError):
        has_list = "system.posix_acl_access" in os.listxattr(_link(fd))
    return target_of(_link(fd)) or "", os.fstat(fd), has_list


def _length(call: str, arguments: Sequence[int]) -> int:
    return arguments[{"write": 2, "pwrite64": 2, "fallocate": 3}[call]] if call in (
        "write", "pwrite64", "fallocate") else 0  # fmt: skip


def _link(fd: int) -> Path:
    return ROOT / f"proc/self/fd/{fd}"


@contextmanager
def _opened(pid: int, number: int, known: Mounts) -> Iterator[tuple[int, proc.Mount]]:
    """An own descriptor of what another process has open, which may be another file at each look
    at it, and its mount. Raises `OSError` where that may be remote."""
    number &= 0xFFFF_FFFF
    _local(ROOT / f"proc/{pid}/fdinfo/{number}", known)  # before it is opened, and again after it
    fd = os.open(ROOT / f"proc/{pid}/fd/{number}", os.O_PATH | os.O_CLOEXEC)
    try:
        yield fd, _local(ROOT / f"proc/self/fdinfo/{fd}", known)
    finally:
        os.close(fd)


def mount_number(fdinfo: Path) -> int | None:
    """None where it is not read."""
    number = _MOUNT.search(files.text(fdinfo) or "")
    return int(number[1]) if number else None


def _local(fdinfo: Path, known: Mounts) -> proc.Mount:
    """The mount of a descriptor. Raises `OSError` if it may wait for a server, or is not known."""
    number = mount_number(fdinfo)
    mount = known.get(number) if number is not None else None
    if mount is None or _is_remote(mount):
        raise _remote(str(fdinfo))
    return mount


def _is_remote(mount: proc.Mount) -> bool:
    return mount.filesystem.startswith(("fuse", *REMOTE))


def _remote(path: str) -> OSError:
    return OSError(errno.EREMOTE, os.strerror(errno.EREMOTE), path)


def _check_below(name: str, mount: proc.Mount, known: Mounts) -> None:
    """Raises `OSError` if this name in a folder of a mount may be where a remote one lies: to open
    that waits for its server (d_weak_revalidate of NFS and 9p), or has it mounted (autofs)."""
    for below in known.values():
        is_here = below.parent_id == mount.mount_id and below.mount_point.rpartition("/")[2] == name
        if is_here and _is_remote(below):
            raise _remote(below.mount_point)


def _check_begin(pid: int, begin: str, known: Mounts) -> None:
    """The same of the descriptor, or the root or working directory, from which a path begins."""
    if begin.startswith("fd/"):
        _local(ROOT / f"proc/{pid}/fdinfo/{begin[3:]}", known)
        return
    root, path = (target_of(ROOT / f"proc/{pid}/{one}") or "" for one in ("root", begin))
    here = [
        one for one in known.values()
        if f"{path}/".startswith(f"{root.rstrip('/')}{one.mount_point.rstrip('/')}/")
    ]  # fmt: skip
    most = max((len(one.mount_point) for one in here), default=0)
    if any(_is_remote(one) for one in here if len(one.mount_point) == most):
        raise _remote(path)


@contextmanager
def _folder(
    pid: int, begin: str, parts: Sequence[str], known: Mounts, passed: list[Passed] | None = None
) -> Iterator[tuple[int, proc.Mount]]:
    """A folder that no link leads to, but the kernel's in sysfs, by an own descriptor, and its
    mount. Raises `OSError` where it may be remote."""
    folders = [part for part in parts if part not in ("", ".")]
    if ".." in folders or len(folders) > _FOLDERS_MAX:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), "/".join(parts))
    how = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    _check_begin(pid, begin, known)
    fd = os.open(ROOT / f"proc/{pid}/{begin}", how)
    try:
        for part in folders:
            mount = _local(ROOT / f"proc/self/fdinfo/{fd}", known)
            _check_below(part, mount, known)
            if passed is not None:
                passed.append(_passed(fd))
            # The links of sysfs are the kernel's. Of a path that is judged, no link is followed.
            follows = 0 if mount.filesystem == "sysfs" and passed is None else os.O_NOFOLLOW
            former, fd = fd, os.open(part, how | follows, dir_fd=fd)
            os.close(former)
        mount = _local(ROOT / f"proc/self/fdinfo/{fd}", known)
        if passed is not None:
            passed.append(_passed(fd))
        yield fd, mount
    finally:
        os.close(fd)


def _of_file(
    pid: int, number: int, fd: int, mount: proc.Mount, wanted: int, known: Mounts
) -> Told | None:
    """Since the call the number may have come to mean another file: only a full file system is the
    cause, and of other files it is said what the descriptor is now."""
    path = target_of(_link(fd)) or ""
    about = os.fstat(fd)
    if stat.S_ISCHR(about.st_mode) and about.st_rdev == os.makedev(1, 7):
        return f"descriptor {number} is now /dev/full, which is always full", "/dev/full", ""
    if mount.filesystem in _GROUPS:
        return _of_group(pid, number, path, mount, known)
    if mount.filesystem in OF_THE_KERNEL:
        return _of_kernel(number, path, mount), _shown(path), ""
    return _of_mount(mount, os.fstatvfs(fd), wanted, creates=False)


def _of_kernel(number: int, path: str, mount: proc.Mount) -> str:
    return (
        f"descriptor {number} is now {_shown(path)}, a file of the kernel ({mount.filesystem}), "
        "which is on no disk"
    )


def _of_mount(
    mount: proc.Mount, about: os.statvfs_result, wanted: int, *, creates: bool
) -> Told | None:
    """None of one that has room now."""
    name = f"{_shown(mount.mount_point)} ({mount.filesystem})"
    if creates and about.f_files and not about.f_favail:
        words = f"{about.f_files:,} of {about.f_files:,} inodes are used of the file system {name}"
        setting = "remove files (df -i); nr_inodes= of a tmpfs"
        return words, f"inodes of the file system {name}", setting
    usable = (about.f_blocks - about.f_bfree + about.f_bavail) * about.f_frsize
    room = about.f_bavail * about.f_frsize
    least = max(_PAGE, about.f_frsize)
    if not about.f_blocks or room >= max(wanted, least):
        return None  # without blocks it has no bound of its own
    line = f"the file system {name}"
    used = f"{size(usable - room)} of {size(usable)} ({line})"
    if room >= least:
        used = f"{size(wanted)} are written at once, and {used} are used"
    return used, line, "remove files (df), or a larger file system; size= of a tmpfs"


_GROUPS = ("cgroup", "cgroup2")
_MEMBERS = ("tasks", "cgroup.procs", "cgroup.threads")


def _of_group(pid: int, number: int, path: str, mount: proc.Mount, known: Mounts) -> Told:
    """A task may not enter a cpuset without CPUs or without nodes (cpuset_can_attach())."""
    folder, name = os.path.split(path)
    empty: list[str] = []
    with suppress(OSError), _folder(pid, "root", folder.split("/"), known) as (fd, of_folder):
        if name in _MEMBERS and of_folder.filesystem in _GROUPS:
            empty = [file for file in ("cpuset.cpus", "cpuset.mems") if _is_empty(fd, file)]
    if not empty:
        return _of_kernel(number, path, mount), _shown(path), ""
    both, are = " and ".join(empty), "is" if len(empty) == 1 else "are"
    words = (
        f"descriptor {number} is now {name} of the cgroup {_shown(folder)}, which takes no "
        f"process: {both} {are} empty"
    )
    return words, f"{empty[0]} of {_shown(folder)}", f"write {both} first"


def _is_empty(folder: int, name: str) -> bool:
    """Whether a file of this folder has no words; False of a file that may not be read."""
    text = _text(folder, name)
    return text is not None and not text.strip()


def _text(folder: int, name: str) -> bytes | None:
    """What a regular file of this folder begins with; None where it may not be read."""
    how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError):
        fd = os.open(name, how, dir_fd=folder)
        try:
            return os.read(fd, 4096) if stat.S_ISREG(os.fstat(fd).st_mode) else None
        finally:
            os.close(fd)
    return None


def of_group(pid: int, folder: str, name: str, known: Mounts) -> int | None:
    """The number that a file of a group holds; None where it is not read."""
    with suppress(OSError, ValueError), _folder(pid, "root", folder.split("/"), known) as place:
        if place[1].filesystem in _GROUPS:
            return int(_text(place[0], name) or b"")
    return None


def huge_files(pid: int, page: int, known: Iterable[proc.Mount]) -> tuple[int, str]:
    """What files of a mount of hugetlbfs with pages of this size hold, whoever maps them, and where
    most lie."""
    sizes = {f"pagesize={page >> 10}K", f"pagesize={page >> 20}M"}  # hugetlbfs_show_options()
    holdings = [
        (allocated(ROOT / f"proc/{pid}/root" / mount.mount_point.lstrip("/")), mount.mount_point)
        for mount in known
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

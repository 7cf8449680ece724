"""Limits that explain one kind of failing call: read only where such a call fails."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from memlab.diagnose.call_table import row
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.room import Room, pinned_of_user
from memlab.observe import files, proc, process
from memlab.observe.proc import ROOT

_PROCESSES_MAX = 2000  # of a user, whose open files are counted
_FULL = 0.9  # a larger write than is left may be refused before
_FILES_MAX = 4096  # open files of a process, whose file systems are asked
# A file system whose server is gone answers nobody who asks how full it is.
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "autofs", "virtiofs")

Reader = Callable[[int, Mapping[str, str]], Iterator[Room]]


def _sysctl(name: str) -> list[int]:
    """The numbers of a file below /proc/sys; empty where there is none."""
    text = files.text(ROOT / f"proc/sys/{name}") or ""
    return [int(word) for word in text.split() if word.lstrip("-").isdigit()]


def _link(path: Path) -> str | None:
    found = files.known(path.readlink)
    return None if found is None else str(found)


def _same(pid: int, kind: str) -> bool:
    """Whether it is in this program's namespace of this kind: /proc/sys shows that alone."""
    own, other = (_link(ROOT / f"proc/{one}/ns/{kind}") for one in ("self", pid))
    return own is not None and own == other


def _open_files(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    numbers = _sysctl("fs/file-nr")
    if len(numbers) == 3:
        yield Room("fs.file-max", numbers[0], numbers[2], "count", "open fails with ENFILE")


def _aio(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    used, most = _sysctl("fs/aio-nr"), _sysctl("fs/aio-max-nr")
    if used and most:
        yield Room("fs.aio-max-nr", used[0], most[0], "count", "io_setup fails with EAGAIN")


def _watches(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    yield from _inotify(pid, status, "watches", "inotify_add_watch fails with ENOSPC")


def _instances(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    yield from _inotify(pid, status, "instances", "inotify_init fails with EMFILE")


def _inotify(pid: int, status: Mapping[str, str], kind: str, fails: str) -> Iterator[Room]:
    uid = (status.get("Uid") or "0 0").split()[1]
    instances, watches = _inotify_use(pid, uid)
    used = watches if kind == "watches" else instances
    yield from _of_user(pid, "inotify", kind, used, fails)


def _of_user(pid: int, what: str, kind: str, used: int, fails: str) -> Iterator[Room]:
    """The limits of a user: in the process's user namespace, if that is another, and of all."""
    if not _same(pid, "user"):
        inside = _of_user_namespace(pid, f"max_{what}_{kind}")
        if inside is not None:
            name = f"user.max_{what}_{kind} of its user namespace"
            yield Room(name, used, inside, "count", fails)
    if most := _sysctl(f"fs/{what}/max_user_{kind}"):
        yield Room(f"fs.{what}.max_user_{kind}", used, most[0], "count", fails)


def _inotify_use(pid: int, uid: str) -> tuple[int, int]:
    """Instances and watches of a user in one user namespace, of processes that may be read."""
    space = _link(ROOT / f"proc/{pid}/ns/user")
    instances = watches = 0
    others = [int(name) for name in files.names(ROOT / "proc") if name.isdecimal()]
    for one in [pid, *(other for other in others if other != pid)][:_PROCESSES_MAX]:
        known = files.known(lambda one=one: proc.status(one))  # type: ignore[misc]
        if known is None or (known.get("Uid") or "").split()[1:2] != [uid]:
            continue
        if _link(ROOT / f"proc/{one}/ns/user") != space:
            continue
        held = files.known(lambda one=one: process.descriptors(one)) or {}  # type: ignore[misc]
        for number in (number for number, link in held.items() if link == "anon_inode:inotify"):
            instances += 1
            text = files.text(ROOT / f"proc/{one}/fdinfo/{number}") or ""
            watches += text.count("inotify wd:")
    return instances, watches


def _of_user_namespace(pid: int, name: str) -> int | None:
    """A file of /proc/sys/user, as a process in that user namespace reads it; None where it cannot
    be entered. A child enters it: a process with threads may not."""
    import ctypes

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            space = os.open(ROOT / f"proc/{pid}/ns/user", os.O_RDONLY)
            if ctypes.CDLL(None).setns(space, 0x10000000) == 0:  # CLONE_NEWUSER
                os.write(writing, Path(ROOT / f"proc/sys/user/{name}").read_bytes())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        word = pipe.read(64).decode().strip()
    os.waitpid(child, 0)
    return int(word) if word.isdigit() else None


def _fanotify(pid: int, kind: str, fails: str) -> Iterator[Room]:
    """Groups and marks of a user, of processes that may be read."""
    status = files.known(lambda: proc.status(pid)) or {}
    uid = (status.get("Uid") or "0 0").split()[1]
    groups = marks = 0
    others = [int(name) for name in files.names(ROOT / "proc") if name.isdecimal()]
    for one in others[:_PROCESSES_MAX]:
        known = files.known(lambda one=one: proc.status(one))  # type: ignore[misc]
        if known is None or (known.get("Uid") or "").split()[1:2] != [uid]:
            continue
        held = files.known(lambda one=one: process.descriptors(one)) or {}  # type: ignore[misc]
        for number in (number for number, link in held.items() if link == "anon_inode:[fanotify]"):
            groups += 1
            text = files.text(ROOT / f"proc/{one}/fdinfo/{number}") or ""
            marks += len(re.findall(r"^fanotify (?:ino|mnt_id|sdev):", text, re.M))
    used = groups if kind == "groups" else marks
    yield from _of_user(pid, "fanotify", kind, used, fails)


def _groups(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    yield from _fanotify(pid, "groups", "fanotify_init fails with EMFILE")


def _marks(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    yield from _fanotify(pid, "marks", "fanotify_mark fails with ENOSPC")


_NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "time")


def _namespaces(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """Limits that are 0; the kernel does not show how many namespaces a user has."""
    for kind in _NAMESPACES:
        name = f"max_{kind}_namespaces"
        if _same(pid, "user"):
            most = next(iter(_sysctl(f"user/{name}")), None)
        else:
            most = _of_user_namespace(pid, name)
        if most == 0:
            yield Room(f"user.{name}", 0, 0, "count", "unshare and clone fail with ENOSPC")


def _mounts(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    text = files.known(lambda: proc.read(ROOT / f"proc/{pid}/mountinfo")) or ""
    if most := _sysctl("fs/mount-max"):
        yield Room("fs.mount-max", text.count("\n"), most[0], "count", "mount fails with ENOSPC")


def _epoll(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    if most := _sysctl("fs/epoll/max_user_watches"):
        held = files.known(lambda: process.descriptors(pid)) or {}
        used = sum(
            (files.text(ROOT / f"proc/{pid}/fdinfo/{number}") or "").count("tfd:")
            for number, link in held.items()
            if link == "anon_inode:[eventpoll]"
        )
        yield Room("fs.epoll.max_user_watches", used, most[0], "count",
                   "epoll_ctl fails with ENOSPC")  # fmt: skip


def _system_v(kind: str) -> list[list[str]]:
    lines = proc.lines(files.text(ROOT / f"proc/sysvipc/{kind}") or "")[1:]
    return [line.split() for line in lines]


def _semaphores(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    most = _sysctl("kernel/sem")
    if len(most) != 4 or not _same(pid, "ipc"):
        return
    sets = _system_v("sem")
    fails = "semget fails with ENOSPC"
    yield Room("kernel.sem, sets (SEMMNI)", len(sets), most[3], "count", fails)
    held = sum(int(words[3]) for words in sets if len(words) > 3)
    yield Room("kernel.sem, semaphores (SEMMNS)", held, most[1], "count", fails)


def _segments(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    if not _same(pid, "ipc"):
        return
    found = _system_v("shm")
    fails = "shmget fails with ENOSPC"
    if most := _sysctl("kernel/shmmni"):
        yield Room("kernel.shmmni", len(found), most[0], "count", fails)
    if most := _sysctl("kernel/shmall"):
        held = sum(-(-int(words[3]) // 4096) for words in found if len(words) > 3)
        yield Room("kernel.shmall", held * 4096, most[0] * 4096, "B", fails)


def _queues(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    if (most := _sysctl("kernel/msgmni")) and _same(pid, "ipc"):
        fails = "msgget fails with ENOSPC"
        yield Room("kernel.msgmni", len(_system_v("msg")), most[0], "count", fails)


def _signals(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    used, _, most = (status.get("SigQ") or "").partition("/")
    if used.isdigit() and most.isdigit():
        yield Room("RLIMIT_SIGPENDING", int(used), int(most), "count",
                   "timer_create and sigqueue fail with EAGAIN")  # fmt: skip


def _keys(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    uid = (status.get("Uid") or "0 0").split()[1]
    for line in (files.text(ROOT / "proc/key-users") or "").splitlines():
        found = re.match(r"\s*(\d+):\s+\d+ \d+/\d+ (\d+)/(\d+) (\d+)/(\d+)", line)
        if found and found[1] == uid:
            fails = "add_key fails with EDQUOT"
            yield Room("kernel.keys.maxkeys", int(found[2]), int(found[3]), "count", fails)
            yield Room("kernel.keys.maxbytes", int(found[4]), int(found[5]), "B", fails)


def _file_systems(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """Those that it has files open on, and that of its working directory."""
    text = files.known(lambda: proc.read(ROOT / f"proc/{pid}/mountinfo")) or ""
    mounts = files.known(lambda: proc.parse_mountinfo(text)) or []
    remote = [one.mount_point for one in mounts if one.filesystem.startswith(("fuse", *_REMOTE))]
    held = files.known(lambda: process.descriptors(pid)) or {}
    links = [(ROOT / f"proc/{pid}/fd/{n}", link) for n, link in held.items()][:_FILES_MAX]
    links.append((ROOT / f"proc/{pid}/cwd", _link(ROOT / f"proc/{pid}/cwd") or ""))
    seen: set[int] = set()
    for path, link in links:
        if not link.startswith("/") or link.startswith(("/dev/pts", "/proc", "/sys")):
            continue
        if any(link == point or link.startswith(f"{point}/") for point in remote):
            continue
        about = files.known(path.stat)
        if about is None or about.st_dev in seen:
            continue
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            continue
        seen.add(about.st_dev)
        yield from _fullness(path, link, mounts)
    yield from _full_elsewhere(pid, mounts, seen)


def _full_elsewhere(pid: int, mounts: list[proc.Mount], seen: set[int]) -> Iterator[Room]:
    """File systems in memory that are full: a file there may be closed after each refusal."""
    for one in mounts:
        path = ROOT / f"proc/{pid}/root" / one.mount_point.lstrip("/")
        about = files.known(path.stat) if one.filesystem == "tmpfs" else None
        if about is None or about.st_dev in seen:
            continue
        seen.add(about.st_dev)
        for room in _fullness(path, one.mount_point, mounts):
            if room.share >= _FULL:
                yield room


def _fullness(path: Path, link: str, mounts: list[proc.Mount]) -> Iterator[Room]:
    use = files.known(lambda: os.statvfs(path))
    if use is None or not use.f_blocks:
        return
    over = [m for m in mounts if f"{link}/".startswith(m.mount_point.rstrip("/") + "/")]
    mount = max(over, key=lambda m: len(m.mount_point), default=None)
    name = f"{mount.mount_point} ({mount.filesystem})" if mount else link
    usable = use.f_blocks - use.f_bfree + use.f_bavail
    fails = "write fails with ENOSPC"
    yield Room(f"the file system {name}", (usable - use.f_bavail) * use.f_frsize,
               usable * use.f_frsize, "B", fails)  # fmt: skip
    if use.f_files:
        yield Room(f"inodes of the file system {name}", use.f_files - use.f_ffree, use.f_files,
                   "count", fails)  # fmt: skip


READERS: Mapping[str, Reader] = {
    "open files": _open_files, "aio": _aio, "inotify watches": _watches,
    "inotify instances": _instances, "epoll": _epoll, "semaphores": _semaphores,
    "segments": _segments, "queues": _queues, "signals": _signals, "keys": _keys,
    "file systems": _file_systems, "pins": pinned_of_user, "fanotify groups": _groups,
    "fanotify marks": _marks, "namespaces": _namespaces, "mounts": _mounts,
}  # fmt: skip


def read(pid: int, status: Mapping[str, str], names: set[str]) -> list[Room]:
    """The limits of these kinds, where they can be read."""
    return [
        one
        for name in sorted(names & READERS.keys())
        for one in files.known(lambda name=name: list(READERS[name](pid, status))) or []  # type: ignore[misc]
    ]


def of(pid: int, status: Mapping[str, str], refused: Sequence[Refusal]) -> list[Room]:
    """The limits that these failing calls need beside those that each look reads."""
    rows = [row(one.call, one.errno) for one in refused]
    return read(pid, status, {one.reads for one in rows if one and one.reads})

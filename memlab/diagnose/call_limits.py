"""Limits that explain one kind of failing call: read only where such a call fails."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from memlab.diagnose import call_commit, ipc_limits, kernel_held
from memlab.diagnose.call_places import OF_THE_KERNEL, REMOTE
from memlab.diagnose.call_table import MACHINE, NOEXEC, row
from memlab.diagnose.finding import size
from memlab.diagnose.kernel_numbers import descriptors, release, rights, sysctl, target_of
from memlab.diagnose.refusals import Refusal, is_narrow
from memlab.diagnose.room import Room, pinned_of_user
from memlab.observe import cgroup, files, namespaces, proc, process
from memlab.observe.proc import ROOT

_PROCESSES_MAX = 2000  # of a user, whose open files are counted
_NAMESPACES_MAX = 20_000  # processes whose PID namespace is read, some 5 us each
_FULL = 0.9  # a larger write than is left may be refused before
_MEMORY_GROUPS_MAX = 65_535
_LEAST_ADDRESS = 1 << 16  # vm.mmap_min_addr, as it is mostly
_FILES_MAX = 4096  # open files of a process, whose file systems are asked

Reader = Callable[[int, Mapping[str, str]], Iterator[Room]]


def _open_files(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    numbers = sysctl("fs/file-nr")
    if len(numbers) == 3:
        yield Room("fs.file-max", numbers[0], numbers[2], "count", "open fails with ENFILE")


def _aio(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    used, most = sysctl("fs/aio-nr"), sysctl("fs/aio-max-nr")
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
    if not namespaces.is_shared(pid, "user"):
        inside = _of_user_namespace(pid, f"max_{what}_{kind}")
        if inside is not None:
            name = f"user.max_{what}_{kind} of its user namespace"
            yield Room(name, used, inside, "count", fails)
    if most := sysctl(f"fs/{what}/max_user_{kind}"):
        yield Room(f"fs.{what}.max_user_{kind}", used, most[0], "count", fails)


def _inotify_use(pid: int, uid: str) -> tuple[int, int]:
    """Instances and watches of a user in one user namespace, of processes that may be read."""
    space = target_of(ROOT / f"proc/{pid}/ns/user")
    others = [pid, *(other for other in _processes() if other != pid)][:_PROCESSES_MAX]
    inside = (one for one in others if target_of(ROOT / f"proc/{one}/ns/user") == space)
    of_each = [
        text.count("inotify wd:") for text in _descriptors(inside, uid, "anon_inode:inotify")
    ]
    return len(of_each), sum(of_each)


def _processes() -> list[int]:
    return [int(name) for name in files.names(ROOT / "proc") if name.isdecimal()]


def _descriptors(pids: Iterable[int], uid: str, link: str) -> Iterator[str]:
    """What fdinfo says of each descriptor with that link of a user's processes."""
    for pid in pids:
        known = files.known(partial(proc.status, pid))
        if known is None or (known.get("Uid") or "").split()[1:2] != [uid]:
            continue
        for number, target in (files.known(partial(process.descriptors, pid)) or {}).items():
            if target == link:
                yield files.text(ROOT / f"proc/{pid}/fdinfo/{number}") or ""


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
    texts = _descriptors(_processes()[:_PROCESSES_MAX], uid, "anon_inode:[fanotify]")
    mark = re.compile(r"^fanotify (?:ino|mnt_id|sdev):", re.MULTILINE)
    of_each = [len(mark.findall(text)) for text in texts]
    used = len(of_each) if kind == "groups" else sum(of_each)
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
        if namespaces.is_shared(pid, "user"):
            most = next(iter(sysctl(f"user/{name}")), None)
        else:
            most = _of_user_namespace(pid, name)
        if most == 0:
            fails = "unshare and clone fail with ENOSPC"
            yield Room(f"user.{name}", 0, 0, "count", fails, fills=False)


def _mounts(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    text = files.known(lambda: proc.read(ROOT / f"proc/{pid}/mountinfo")) or ""
    if most := sysctl("fs/mount-max"):
        yield Room("fs.mount-max", text.count("\n"), most[0], "count", "mount fails with ENOSPC")


def _epoll(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    if most := sysctl("fs/epoll/max_user_watches"):
        used = sum(
            (files.text(ROOT / f"proc/{pid}/fdinfo/{number}") or "").count("tfd:")
            for number, link in descriptors(pid).items()
            if link == "anon_inode:[eventpoll]"
        )
        yield Room("fs.epoll.max_user_watches", used, most[0], "count",
                   "epoll_ctl fails with ENOSPC", is_part=True)  # fmt: skip


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


def _pipes(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """Of its own pipes: the kernel does not show those of all programs of its user."""
    if (most := sysctl("fs/pipe-user-pages-hard")) and most[0]:
        in_kernel = kernel_held.read(pid, descriptors(pid))
        used = in_kernel.pipe_room_bytes if in_kernel else 0
        fails = "pipe fails with ENFILE"
        name = "fs.pipe-user-pages-hard"
        yield Room(name, used, most[0] * 4096, "B", fails, is_part=True)
    yield from _open_files(pid, status)


def _in_flight(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """Of its own sockets (net/unix/garbage.c, too_many_unix_fds())."""
    if most := _soft_limit(pid, "Max open files"):
        flying = kernel_held.in_flight(pid, descriptors(pid))
        fails = "sendmsg of a file fails with ETOOMANYREFS"
        name = "files in flight of RLIMIT_NOFILE"
        yield Room(name, flying, most, "count", fails, is_part=True)


def _file_size(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """The largest file that it holds open."""
    if (most := _soft_limit(pid, "Max file size")) is None:
        return
    links = descriptors(pid)
    paths = [ROOT / f"proc/{pid}/fd/{n}" for n, link in links.items() if link.startswith("/")]
    sizes = [files.known(path.stat) for path in paths[:_FILES_MAX]]
    largest = max((one.st_size for one in sizes if one and stat.S_ISREG(one.st_mode)), default=0)
    yield Room("RLIMIT_FSIZE", largest, most, "B", "write fails with EFBIG, after SIGXFSZ")


def _soft_limit(pid: int, name: str) -> int | None:
    text = files.text(ROOT / f"proc/{pid}/limits") or ""
    return files.known(lambda: process.parse_limit(text, name)) if text else None


def _file_systems(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """Those that it has files open on, and that of its working directory."""
    mounts = files.known(lambda: process.mounts(pid, ROOT)) or []
    remote = [one.mount_point for one in mounts if one.filesystem.startswith(("fuse", *REMOTE))]
    open_files = [*descriptors(pid).items()][:_FILES_MAX]
    links = [(ROOT / f"proc/{pid}/fd/{number}", link) for number, link in open_files]
    links.append((ROOT / f"proc/{pid}/cwd", target_of(ROOT / f"proc/{pid}/cwd") or ""))
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
    yield from _terminals(pid, mounts)
    yield from _memory_groups()


def _terminals(pid: int, mounts: Sequence[proc.Mount]) -> Iterator[Room]:
    """Of the machine, of which a part is kept for the first mount of devpts, and of each mount with
    a bound of its own."""
    numbers = [sysctl(f"kernel/pty/{name}") for name in ("nr", "max", "reserve")]
    if all(numbers):
        used, most, reserve = (number[0] for number in numbers)
        most = most - 1 if used > most - reserve - 1 else most - reserve - 1
        fails = "open of /dev/ptmx fails with ENOSPC"
        yield Room("kernel.pty.max", used, max(most, 1), "count", fails)
    for mount in mounts:
        bound = next((word[4:] for word in mount.super_options if word.startswith("max=")), "")
        if mount.filesystem == "devpts" and bound.isdigit():
            names = files.names(ROOT / f"proc/{pid}/root" / mount.mount_point.lstrip("/"))
            used = sum(name.isdecimal() for name in names)
            fails = "open of its ptmx fails with ENOSPC"
            name = f"max= of {mount.mount_point} (devpts)"
            yield Room(name, used, int(bound), "count", fails)


def _memory_groups() -> Iterator[Room]:
    """Those that were removed and are still charged too (mm/memcontrol.c, MEM_CGROUP_ID_MAX)."""
    for line in proc.lines(files.text(ROOT / "proc/cgroups") or ""):
        words = line.split()
        if words[:1] == ["memory"] and len(words) > 2 and words[2].isdigit():
            fails = "mkdir of a memory cgroup fails with ENOSPC"
            yield Room("memory cgroups", int(words[2]), _MEMORY_GROUPS_MAX, "count", fails)


def _groups_below(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """Of the groups above it whose bounds on those below them are set (cgroup v2)."""
    for folder in cgroup.chain("", ROOT, pid)[1]:
        most = files.text(folder / "cgroup.max.descendants") or ""
        counts = dict(line.split() for line in proc.lines(files.text(folder / "cgroup.stat") or ""))
        if most.isdigit() and (used := counts.get("nr_descendants", "")).isdigit():
            fails = "mkdir of a cgroup fails with EAGAIN"
            yield Room("cgroup.max.descendants", int(used), int(most), "count", fails)


def _children(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """The PID namespace that it makes processes in has no process: its first one has ended."""
    names = "pid", "pid_for_children"
    here, below = (target_of(ROOT / f"proc/{pid}/ns/{name}") for name in names)
    if below is None or below == here:
        return
    processes = [name for name in files.names(ROOT / "proc") if name.isdecimal()]
    if len(processes) > _NAMESPACES_MAX:
        return
    if all(target_of(ROOT / f"proc/{name}/ns/pid") != below for name in processes):
        name = "PID namespace for its children, whose first process has ended"
        yield Room(name, 1, 1, "count", "fork fails with ENOMEM", fills=False)


def _mappings(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """Of a ring of perf events, if it has such events; and mounts whose files none may execute."""
    if "anon_inode:[perf_event]" in descriptors(pid).values():
        yield from pinned_of_user(pid, status)
    for mount in files.known(lambda: process.mounts(pid, ROOT)) or []:
        if "noexec" in mount.options and mount.filesystem not in OF_THE_KERNEL:
            name = f"{NOEXEC} {mount.mount_point} ({mount.filesystem})"
            fails = "mmap with PROT_EXEC fails with EPERM"
            yield Room(name, 0, 1, "count", fails, fills=False)


def _userfaultfd(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """A filter of system calls (seccomp(2)) may say the same errno: then no cause is known."""
    if status.get("Seccomp", "").strip() != "0":
        return
    is_capable = rights(pid, status) >> 19 & 1  # CAP_SYS_PTRACE
    if sysctl("vm/unprivileged_userfaultfd") == [0] and not is_capable:
        fails = "userfaultfd fails with EPERM"
        yield Room("vm.unprivileged_userfaultfd", 0, 0, "count", fails, fills=False)


def _machine_space(machine: Mapping[str, int]) -> Iterator[Room]:
    """__vm_enough_memory() of mm/util.c: what one call may ask for."""
    if sysctl("vm/overcommit_memory") == [0] and "MemTotal" in machine:
        total = machine["MemTotal"] + machine.get("SwapTotal", 0)
        yield Room(MACHINE, 0, total, "B", "mmap of more fails with ENOMEM", fills=False)


def _huge_pages(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """The pool, if it holds a file of huge pages open: such a file's blocks are that large."""
    machine = files.known(proc.meminfo) or {}
    yield from _machine_space(machine)
    is_capable = bool(rights(pid, status) >> 21 & 1)  # CAP_SYS_ADMIN
    yield from call_commit.commit_rooms(machine, status, is_capable=is_capable)
    if is_narrow(pid):
        used, fails = proc.status_bytes(status, "VmSize") or 0, "mmap fails with ENOMEM"
        yield Room("addresses of a 32-bit program", used, 4 << 30, "B", fails,
                   unread=_widest_gap(pid))  # fmt: skip
    links = [*descriptors(pid).items()][:_FILES_MAX]
    paths = [ROOT / f"proc/{pid}/fd/{number}" for number, link in links
             if link.startswith("/memfd:") or "huge" in link]  # fmt: skip
    about = (files.known(path.stat) for path in paths)
    if any(one and stat.S_ISREG(one.st_mode) and one.st_blksize >= 1 << 20 for one in about):
        total, free = machine.get("HugePages_Total", 0), machine.get("HugePages_Free", 0)
        used = total - free + machine.get("HugePages_Rsvd", 0)
        yield Room("huge pages (hugetlb), of a file that it holds open", used, total, "count",
                   "mmap of it fails with ENOMEM")  # fmt: skip


def _widest_gap(pid: int) -> str:
    """What a 32-bit program may map at most in one piece; its calls' arguments are not read."""
    spans = [
        line.split(" ", 1)[0] for line in proc.lines(files.text(ROOT / f"proc/{pid}/maps") or "")
    ]
    bounds = [tuple(int(part, 16) for part in span.split("-")) for span in spans]
    gaps = [after[0] - before[-1] for before, after in pairwise([(_LEAST_ADDRESS,), *bounds])]
    if not gaps:
        return ""
    return f"how much it asks for: the widest gap in its addresses is {size(max(gaps))}"


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
    if use.f_flag & os.ST_RDONLY:
        return  # an image is always full, and a write to it fails with EROFS
    name = f"{mount.mount_point} ({mount.filesystem})" if mount else link
    usable = use.f_blocks - use.f_bfree + use.f_bavail
    fails = "write fails with ENOSPC"
    yield Room(f"the file system {name}", (usable - use.f_bavail) * use.f_frsize,
               usable * use.f_frsize, "B", fails)  # fmt: skip
    if use.f_files:
        yield Room(f"inodes of the file system {name}", use.f_files - use.f_ffree, use.f_files,
                   "count", fails)  # fmt: skip


def _ring_pins(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """Rings of io_uring count so before Linux 5.12, and since 6.14 (io_create_region())."""
    if not (5, 12) <= release() < (6, 14):
        yield from pinned_of_user(pid, status)


def _map_pins(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """BPF maps count so before Linux 5.11; now their group is charged."""
    if release() < (5, 11):
        yield from pinned_of_user(pid, status)


READERS: Mapping[str, Reader] = {
    "open files": _open_files, "aio": _aio, "inotify watches": _watches,
    "inotify instances": _instances, "epoll": _epoll, **ipc_limits.READERS,
    "signals": _signals, "keys": _keys,
    "file systems": _file_systems, "pins": pinned_of_user, "mappings": _mappings,
    "userfaultfd": _userfaultfd, "ring pins": _ring_pins, "map pins": _map_pins,
    "fanotify groups": _groups,
    "pipes": _pipes, "in flight": _in_flight, "file size": _file_size,
    "children": _children, "groups": _groups_below, "huge pages": _huge_pages,
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

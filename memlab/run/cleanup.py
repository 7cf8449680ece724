"""Takes back what a run did to its host: processes, cgroups, swap, settings, folders.

The journal calls these functions, also in the guardian: standard library only. A journal may be
damaged or planted, so each function checks first that the resource is memlab's, and raises Refused
otherwise. Each returns whether there was something to undo; what is missing is not.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import select
import shutil
import signal
import stat
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from memlab.observe import proc

MARK = r"MEMLAB_CONTAINED=[0-9a-f]{32}"  # in the environment of what a recorded command starts
PREFIX = "memlab-"  # names of all folders, groups and swap labels of a run begin with it
LABEL_AT = 1024 + 12 + 16  # of volume_name in union swap_header, include/linux/swap.h
ZRAM_MARK_KIB = 16 << 10  # of readahead, at least: ours; the kernel's own is 128
ZRAM_CONTROL = Path("/sys/class/zram-control")
_ADDED_WITHIN_NS = 1_000_000_000  # of its note, a device that the driver added
PATIENCE_S = 10.0  # until killed processes, which may be large, have left a group and the swap
# The settings that an experiment may change are these files and those below these folders.
SETTINGS = ("/proc/sys/vm/", "/sys/kernel/mm/", "/sys/module/zswap/parameters/enabled")
# Of each pair the kernel sets one to 0 when the other is written, and refuses bytes of 0
# (Documentation/admin-guide/sysctl/vm.rst): what restores a 0 is the other's value. A ratio may be
# 0 as well, with bytes of 0 beside it.
PAIRS = {
    f"/proc/sys/vm/dirty_{first}": f"/proc/sys/vm/dirty_{other}"
    for name in ("", "background_")
    for first, other in ((f"{name}bytes", f"{name}ratio"), (f"{name}ratio", f"{name}bytes"))
}
_READAHEAD = re.compile(r"/sys/devices/virtual/bdi/\d+:\d+/read_ahead_kb")


class NotOurs(OSError):
    """The resource is not memlab's, whatever the journal says."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, why)


def value_of(path: Path) -> str:
    """The value of a setting. Of a file that marks its choice with brackets, like THP's, the marked
    word."""
    text = path.read_text().strip()
    return text.partition("[")[2].partition("]")[0] or text


def restored_by(path: Path, value: str) -> tuple[Path, str]:
    """The setting that gives `path` its value back, and that one's own. Where a pair is 0 and 0,
    that is the ratio."""
    other = PAIRS.get(str(path))
    if other is None or value != "0":
        return path, value
    current = value_of(Path(other))
    return (
        (path, value) if current == "0" and path.name.endswith("ratio") else (Path(other), current)
    )


def has_value(path: Path, value: str) -> bool:
    """A ratio of 0 counts where no bytes are set beside it. Fields of a sysctl are written with
    blanks and read with tabs."""
    other = PAIRS.get(str(path))
    alone = other is None or value != "0" or value_of(Path(other)) == "0"
    return alone and value_of(path).split() == value.split()


def set_value(path: Path, value: str) -> None:
    if value == "0" and str(path) in PAIRS and path.name.endswith("ratio"):
        # vm.dirty_ratio ends the bytes where it changes, and it was 0 all the while.
        path.write_text("1")
    path.write_text(value)


def check_setting(path: Path, value: str) -> None:
    """Refused unless this is a setting that memlab changes, so that a planted journal sets no
    other."""
    if os.path.normpath(path) == str(path) and not path.is_symlink():
        if str(path).startswith(SETTINGS) or _READAHEAD.fullmatch(str(path)):
            return
        passed_on = (path.name, value) == ("cgroup.subtree_control", "-memory")
        if passed_on and proc.filesystem_of(path) == "cgroup2":
            return
    raise NotOurs("not a setting that memlab changes")


def restore(path: Path, value: str) -> bool:
    """Give a setting its value back. One whose file is gone, like a logged-out session's cgroup,
    needs none."""
    with suppress(FileNotFoundError):
        check_setting(path, value)
        # Else it was never changed, and may not be writable.
        if has_value(path, value) or (
            value == "-memory" and "memory" not in value_of(path).split()
        ):
            return False
        set_value(path, value)
        return True
    return False


def remove_folder(path: Path) -> bool:
    """Remove a folder of this user's, by its name in the folder that it lies in now."""
    if not path.name.startswith(PREFIX):
        raise NotOurs("not a folder that memlab made")
    try:
        parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        result = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(result.st_mode) or result.st_uid != os.geteuid():
            raise NotOurs("not a folder that memlab made")
        shutil.rmtree(path.name, dir_fd=parent)  # follows no link, whatever is put in its way
    except FileNotFoundError:
        return False
    finally:
        os.close(parent)
    return True


def end_session(leader: Path, start_ticks: int, mark: str, deadline: float | None = None) -> bool:
    """Kill the processes of the session that /proc/PID leads, and wait for their ends.

    Its number is used again once all of its processes have ended, so that the leader must have
    started then; where it has ended before the others, they must have `mark` on their command line.
    OSError (EBUSY) if some do not end.
    """
    if not re.fullmatch(r"/proc/[0-9]+", str(leader)) or not mark:
        raise NotOurs("not a session that memlab began")
    killed = []
    try:
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(FileNotFoundError, ProcessLookupError, ValueError):
                killed += _killed(folder, int(leader.name), start_ticks, mark)
        until = deadline or time.monotonic() + PATIENCE_S
        for ended in killed:
            if not select.select([ended], [], [], max(0.0, until - time.monotonic()))[0]:
                raise OSError(errno.EBUSY, "processes of it do not end")
    finally:
        for ended in killed:
            os.close(ended)
    return bool(killed)


def _killed(folder: Path, session: int, start_ticks: int, mark: str) -> list[int]:
    """The pidfd of a process that was the session's and is killed."""
    if folder.stat().st_uid != os.geteuid() or proc.life(folder.name).session != session:
        return []
    pidfd = os.pidfd_open(int(folder.name))
    with ExitStack() as stack:
        stack.callback(os.close, pidfd)
        life = proc.life(folder.name)  # of the process that the descriptor is now bound to
        if life.session != session or life.ended or not _ours(folder, session, start_ticks, mark):
            return []
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        stack.pop_all()
    return [pidfd]


def _ours(folder: Path, session: int, start_ticks: int, mark: str) -> bool:
    """Whether a process of a session is of the one whose leader started then."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return proc.life(session).start_ticks == start_ticks
    return mark.encode() in (folder / "cmdline").read_bytes()


def end_marked(mark: str, deadline: float | None = None) -> bool:
    """Kill the processes that have a mark in their environment, as all have that were started by
    one that has it, and wait for their ends. OSError (EBUSY) if some do not end."""
    if not re.fullmatch(MARK, mark):
        raise NotOurs("not a mark that memlab gives")
    until, had_any = deadline or time.monotonic() + PATIENCE_S, False
    while killed := _kill_marked(mark.encode()):
        had_any = True
        try:
            for ended in killed:
                left_s = until - time.monotonic()
                if left_s < 0 or not select.select([ended], [], [], left_s)[0]:
                    raise OSError(errno.EBUSY, "processes of it do not end")
        finally:
            for ended in killed:
                os.close(ended)
    return had_any


def _kill_marked(mark: bytes) -> list[int]:
    """The pidfds of those that were killed."""
    killed = []
    for folder in os.listdir("/proc"):  # noqa: PTH208
        with suppress(OSError, ValueError):
            if not folder.isdecimal() or not _is_marked(folder, mark):
                continue
            pidfd = os.pidfd_open(int(folder))
            with ExitStack() as stack:
                stack.callback(os.close, pidfd)
                if not _is_marked(folder, mark):  # of the process that the descriptor is bound to
                    continue
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                stack.pop_all()
            killed.append(pidfd)
    return killed


def _is_marked(pid: str, mark: bytes) -> bool:
    """One that has ended has no environment any more, and neither has a thread of the kernel."""
    return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def remove_group(path: Path, deadline: float | None = None) -> bool:
    """Kill the processes in a group and in the groups below it, then remove the groups."""
    if not path.name.startswith(PREFIX):
        raise NotOurs("not a group that memlab made")
    if not path.exists():
        return False
    if path.is_symlink() or proc.filesystem_of(path) not in ("cgroup", "cgroup2"):
        raise NotOurs("not a cgroup")
    empty_group(path, deadline)
    remove_groups_below(path)
    with suppress(FileNotFoundError):
        path.rmdir()
    return True


def remove_groups_below(path: Path) -> None:
    """Remove the groups inside a group; all must be empty."""
    for above, groups, _ in os.walk(path, topdown=False):
        for group in groups:
            with suppress(FileNotFoundError):
                os.rmdir(os.path.join(above, group))  # noqa: PTH106, PTH118


def empty_group(path: Path, deadline: float | None = None) -> None:
    """Kill the processes inside until none is left. OSError (EBUSY) if some do not end: if by the
    deadline, or without one for `PATIENCE_S`, their number has not fallen. Thousands need a while.
    """
    until, least = deadline or time.monotonic() + PATIENCE_S, 0
    while path.exists():
        began = time.monotonic()
        rest = _kill(path)
        now = time.monotonic()
        if not rest:
            return
        if deadline is None and (rest < least or not least):
            until, least = now + PATIENCE_S, rest
        if now > until:
            raise OSError(errno.EBUSY, "processes inside do not end")
        time.sleep(max(0.002, now - began))  # they need the CPU to end


def _kill(path: Path) -> int:
    """SIGKILL all processes inside; returns how many there were. v2 has cgroup.kill since Linux
    5.14; elsewhere the next call kills what was forked meanwhile."""
    pids = []
    for below, _, _ in os.walk(path):
        with suppress(FileNotFoundError, ProcessLookupError):
            pids += [int(pid) for pid in Path(below, "cgroup.procs").read_text().split()]
    if pids and (path / "pids.max").exists():
        (path / "pids.max").write_text("0")  # or those that fork for ever would never be all killed
    if pids and (path / "cgroup.kill").exists():
        (path / "cgroup.kill").write_text("1")
        return len(pids)
    for pid in pids:
        if pid > 0:  # 0 is a process outside of our PID namespace (cgroups(7)), and kill(2)'s self
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return len(pids)


def remove_swap_file(path: Path, deadline: float | None = None) -> bool:
    """Turn the swap file off; it is removed with its folder."""
    if not path.parent.name.startswith(PREFIX):
        raise NotOurs("not a swap file that memlab made")
    return swap_off(path, deadline)


def swap_off(path: Path, deadline: float | None = None) -> bool:
    """swapoff(2). An area that is off (EINVAL) or missing is ignored.

    ENOMEM is met while a worker ends: it has left its group's list of processes, but its pages
    are still out, and there is no room to read them back into its limit. They go with it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    until = deadline or time.monotonic() + PATIENCE_S
    while libc.swapoff(os.fsencode(path)) == -1:
        number = ctypes.get_errno()
        if number in (errno.EINVAL, errno.ENOENT):
            return False
        if number != errno.ENOMEM or time.monotonic() > until:
            raise OSError(number, os.strerror(number))
        time.sleep(0.002)
    return True


def remove_zram(
    path: Path, node: Path, deadline: float | None = None, mark: str = "", noted_ns: int = 0
) -> bool:
    """Turn off, reset and remove /sys/block/zramN, whose device file is `node`. The number may have
    been reused since: `mark` is the readahead that ours has, whose swap label may not be written
    yet. Where the driver died before it could mark the device, this was noted at `noted_ns`."""
    if not re.fullmatch(r"/sys/block/zram[0-9]+", str(path)):
        raise NotOurs("not a zram device")
    if not path.exists():
        return False
    ours = bool(mark) and value_of(path / "queue/read_ahead_kb") == mark
    ours = ours and int(mark) >= ZRAM_MARK_KIB
    if int((path / "disksize").read_text()) == 0:
        if not (ours or _added_then(node, noted_ns)):
            raise NotOurs("another program's zram device")
    else:
        if node.stat().st_rdev != os.makedev(*map(int, (path / "dev").read_text().split(":"))):
            raise NotOurs(f"{node} is another device")
        if not (ours or _is_labelled(node)):
            raise NotOurs("another program's zram device")
        swap_off(node, deadline)
        (path / "reset").write_text("1")
    (ZRAM_CONTROL / "hot_remove").write_text(path.name.removeprefix("zram"))
    return True


def _added_then(node: Path, noted_ns: int) -> bool:
    """Whether a device's file appeared as it was noted that one would be added. Of two files' times
    one may be of the last tick, 10 ms at most (current_time, fs/inode.c)."""
    with suppress(FileNotFoundError):
        return -10_000_000 <= node.stat().st_ctime_ns - noted_ns <= _ADDED_WITHIN_NS
    return False


def _is_labelled(node: Path) -> bool:
    """Whether a swap area's label is of memlab's."""
    with node.open("rb", buffering=0) as device:
        return device.read(mmap.PAGESIZE)[LABEL_AT:].startswith(PREFIX.encode())

"""The last kill for want of memory, from the kernel's own report: /dev/kmsg, or a file of it.

The report is dump_header() and __oom_kill_process() of mm/oom_kill.c, with the group's statistics
of mem_cgroup_print_oom_meminfo(), Linux 5.0 to 6.18. Every text of it may be another's: a process
names itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memlab.errors import CannotLook
from memlab.observe import files
from memlab.observe.proc import ROOT
from memlab.text import units

_PAGE = os.sysconf("SC_PAGE_SIZE")
_BYTES_MAX = 64 << 20
_SHOWN = 5
_LINE_MAX = 4096  # characters; the kernel's are shorter (LOG_LINE_MAX), and a search is quadratic
# The stamp of dmesg ("[  12.3] "), of a journal ("Nov 25 13:00:00 host kernel: ") or of kmsg.
_STAMP = re.compile(
    r"^(?:.*?kernel: )?(?:\d+,\d+,\d+,[^;]*;)?(?:<\d+>)?(?:\[\s*(\d{1,12}\.\d{1,9})\]\s)?"
)
_INVOKED = re.compile(r"^(.{1,15}) invoked oom-killer: gfp_mask=(\S+?)[,(].*order=(-?\d+)")
_CHOSEN = re.compile(
    r"^oom-kill:constraint=(\w+),.*?(?:oom_memcg=([^,]*),task_memcg=([^,]*),|global_oom,).*"
    r"task=(.*),pid=\d+,uid=\d+$"
)
_KILLED = re.compile(
    r"Killed process (\d{1,10}) \((.*)\) total-vm:\d+kB, anon-rss:(\d{1,16})kB, "
    r"file-rss:(\d{1,16})kB, shmem-rss:(\d{1,16})kB.*?oom_score_adj:(-?\d{1,5})"
)
_USAGE = re.compile(r"^memory: usage (\d{1,16})kB, limit (\d{1,16})kB, failcnt (\d{1,20})")
_TASK = re.compile(r"^\[\s*(\d{1,10})\]((?:\s+-?\d{1,16}){7,12}) (.+)$")


@dataclass(frozen=True, slots=True)
class Task:
    """A process at the moment of the kill."""

    pid: int
    name: str
    resident_bytes: int
    score_adjustment: int


@dataclass(frozen=True, slots=True)
class Kill:
    """What the kernel said of one kill."""

    at: str
    """The stamp of the last line, in seconds since boot; empty where there is none."""
    asked: str | None
    """Who asked for the memory that was not there."""
    group: str | None
    """The group whose limit it was; None: the whole machine."""
    limit_bytes: int | None
    usage_bytes: int | None
    failures: int | None
    statistics: dict[str, int]
    """Of the group, in bytes."""
    tasks: tuple[Task, ...]
    """Those that hold most first; empty where the report names none."""
    pid: int
    name: str
    anonymous_bytes: int
    file_bytes: int
    shmem_bytes: int
    score_adjustment: int


def read(path: Path | None) -> list[Kill]:
    """The kills of a file, or of the kernel's log. Raises `CannotLook`."""
    if path is None:
        return kills(_kernels_log())
    content = files.content(path, _BYTES_MAX)
    if content is None:
        size = units.format_size(_BYTES_MAX)
        raise CannotLook(f"{path}: no regular file of at most {size} that may be read")
    return kills(content.decode("utf-8", "replace").split("\n"))


def _kernels_log() -> list[str]:
    """Record by record: a read of /dev/kmsg is one line (Documentation/ABI/testing/dev-kmsg)."""
    try:
        fd = os.open(ROOT / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CannotLook(
            f"/dev/kmsg: {error.strerror}: run as root, or give a file: journalctl -k > k.txt; "
            "memlab diagnose --last-kill=k.txt"
        ) from None
    found: list[str] = []
    try:
        while True:
            try:
                record = os.read(fd, 8192).decode("utf-8", "replace")
            except BrokenPipeError:  # overwritten meanwhile: the next read goes on
                continue
            except BlockingIOError:
                return found
            head, _, text = record.partition(";")
            fields = head.split(",")
            seconds = int(fields[2]) / 1e6 if len(fields) > 2 and fields[2].isdigit() else 0.0
            found.append(f"[{seconds:.6f}] {text.split(chr(10))[0]}")
    finally:
        os.close(fd)


def kills(lines: Sequence[str]) -> list[Kill]:
    """In the order of the log. A report that is cut gives what is left of it."""
    return list(_kills(lines))


def _kills(lines: Sequence[str]) -> Iterator[Kill]:
    asked: str | None = None
    group: str | None = None
    usage = limit = failures = None
    statistics: dict[str, int] = {}
    tasks: list[Task] = []
    for whole in lines:
        line = whole[:_LINE_MAX]
        stamp = _STAMP.match(line)
        text = line[stamp.end() :].rstrip() if stamp else line
        if found := _INVOKED.match(text):
            asked, group, usage, limit, failures = found[1], None, None, None, None
            statistics, tasks = {}, []
        elif found := _USAGE.match(text):
            usage, limit, failures = int(found[1]) << 10, int(found[2]) << 10, int(found[3])
        elif found := _CHOSEN.match(text):
            group = found[2]
        elif found := _TASK.match(text):
            numbers = [int(word) for word in found[2].split()]
            tasks.append(Task(int(found[1]), found[3], numbers[3] * _PAGE, numbers[-1]))
        elif found := re.fullmatch(r"([a-z_]{3,40}) (\d{1,20})", text):
            if asked is not None and len(statistics) < 200:
                statistics[found[1]] = int(found[2])
        elif found := _KILLED.search(text):
            yield Kill(
                (stamp[1] or "") if stamp else "", asked, group, limit, usage, failures, statistics,
                tuple(sorted(tasks, key=lambda task: -task.resident_bytes)),
                int(found[1]), found[2], int(found[3]) << 10, int(found[4]) << 10,
                int(found[5]) << 10, int(found[6]),
            )  # fmt: skip
            asked = None
            statistics, tasks = {}, []


def lines(kill: Kill, earlier: int) -> Iterator[str]:
    """Who was chosen and why, who held the memory, what could be dropped, which limit it was."""
    held = kill.anonymous_bytes + kill.file_bytes + kill.shmem_bytes
    when = f" at {float(kill.at):,.0f} s after boot" if kill.at else ""
    where = f"the limit of the group {kill.group}" if kill.group else "the whole machine's memory"
    yield (
        f"killed{when}: process {kill.pid} ({kill.name}), {_size(held)} resident: "
        f"{_size(kill.anonymous_bytes)} anonymous, {_size(kill.file_bytes)} of files, "
        f"{_size(kill.shmem_bytes)} shared memory"
    )
    reached = ""
    if kill.limit_bytes is not None and kill.usage_bytes is not None:
        used, limit = _size(kill.usage_bytes), _size(kill.limit_bytes)
        reached = f": {used} of {limit}, met {kill.failures} times"
    yield f"it was {where}{reached}"
    if kill.asked:
        yield f"{kill.asked} asked for the memory that was not there"
    known = [t for t in kill.tasks if t.pid == kill.pid]
    if kill.tasks:
        most = kill.tasks[0]
        if most.pid == kill.pid:
            yield f"chosen as the largest of {len(kill.tasks)} processes"
        elif known:
            yield (
                f"chosen by its oom_score_adj of {kill.score_adjustment}: {most.pid} ({most.name}) "
                f"holds more, {_size(most.resident_bytes)}, at {most.score_adjustment}"
            )
    droppable = _droppable(kill.statistics)
    if droppable is not None:
        yield (
            f"could still be dropped: {_size(droppable)} of page cache and reclaimable slab"
            if droppable >= 1 << 20
            else "nothing was left to drop: no page cache, no reclaimable slab"
        )
    shmem = kill.statistics.get("total_shmem", kill.statistics.get("shmem", 0))
    if shmem >= 1 << 20:
        yield f"{_size(shmem)} were tmpfs or shared memory, which a kill does not free"
    for task in kill.tasks[:_SHOWN]:
        yield f"  {task.pid:>8}  {_size(task.resident_bytes):>9}  {task.name}"
    if earlier:
        yield f"{units.counted(earlier, 'earlier kill')} in the same log"


def _size(value: float) -> str:
    return units.format_quantity(value, "B")


def _droppable(statistics: dict[str, int]) -> int | None:
    if not statistics:
        return None
    if "total_cache" in statistics:
        return max(0, statistics["total_cache"] - statistics.get("total_shmem", 0))
    files_bytes = max(0, statistics.get("file", 0) - statistics.get("shmem", 0))
    return files_bytes + statistics.get("slab_reclaimable", 0)

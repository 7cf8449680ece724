"""What threads wait for: the function of the kernel that each sleeps in, sampled.

/proc/PID/task/TID/wchan names it, at a read of some microseconds and without a stop. A thread that
runs, or could, sleeps in none. It names no function of the scheduler's section, where semaphores
sleep (in_sched_functions()): a thread that waits for the mmap_lock is in what takes it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from memlab.diagnose import call_places, kernel_numbers
from memlab.diagnose.kernel_numbers import target_of
from memlab.diagnose.ticks import Ticks
from memlab.observe import files, process
from memlab.observe.proc import ROOT
from memlab.text.printable import printable

_THREADS_MAX = 16
_SAMPLED, _SAMPLES = 8, 800
"""At most so many threads each time, and in all: the cost is bounded, and a share of 5 % of 800 is
known to 1.5 %. The next time takes the next ones."""

_LISTED_EVERY = 8  # samples: threads are made and end more slowly
_HELD_OPEN = 64  # files
_LINKS_MAX = 20_000  # some 60 ms
LEAST_SAMPLES = 3  # of a wait that is a finding
MAPPINGS = "a kernel semaphore, as the mmap_lock"
RECEIVER = "a receiver that takes what was sent"
# Linux 6.1 to 6.18. A prefix is enough: compilers add .isra and .constprop.
_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("userfaultfd", ("handle_userfault",)),
    ("reclaim", ("reclaim_throttle", "try_to_free", "shrink_", "mem_cgroup_handle_over_high",
                 "__mem_cgroup_handle_over_high", "throttle_direct_reclaim", "congestion_wait",
                 "mem_cgroup_oom", "out_of_memory")),
    ("swap", ("swap_", "__swap", "read_swap", "swapin", "do_swap_page")),
    ("compaction", ("compact_", "migrate_", "migration_entry_wait")),
    ("writeback", ("balance_dirty_pages", "folio_wait_writeback", "wait_on_page_writeback",
                   "writeback_", "wb_wait", "rq_qos_wait")),
    ("fsync", ("jbd2_", "log_wait_commit", "xlog_", "xfs_log", "file_write_and_wait",
               "__filemap_fdatawait", "__sync_dirty_buffer", "blkdev_issue_flush",
               "submit_bio_wait", "btrfs_sync", "btrfs_wait")),
    ("a page of a file", ("folio_wait_bit", "__folio_lock", "__lock_page", "wait_on_page_bit",
                          "filemap_", "io_schedule", "read_pages", "do_read_cache")),
    ("room in a message queue", ("do_msgsnd",)),
    (RECEIVER, ("unix_wait_for_peer", "unix_dgram_sendmsg", "unix_stream_connect",
                "sock_alloc_send_pskb", "sock_wait_for_wmem", "sk_stream_wait_memory")),
    (MAPPINGS, (
        "rwsem_", "down_read", "down_write", "__down_", "vm_mmap_pgoff", "__vm_munmap", "vm_munmap",
        "do_mprotect_pkey", "__do_sys_brk", "__do_sys_mremap", "__x64_sys_brk", "__x64_sys_mremap",
        "__arm64_sys_brk", "__arm64_sys_mremap", "do_madvise", "madvise_lock", "do_mlock",
        "__mm_populate", "lock_mm_and_find_vma", "do_user_addr_fault")),
)  # fmt: skip
PAGE_FAULTS = "page faults"
_BY_CALL: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("mmap", ("vm_mmap_pgoff",)),
    ("munmap", ("__vm_munmap", "vm_munmap")),
    ("mprotect", ("do_mprotect_pkey",)),
    ("brk", ("__do_sys_brk", "__x64_sys_brk", "__arm64_sys_brk")),
    ("mremap", ("__do_sys_mremap", "__x64_sys_mremap", "__arm64_sys_mremap")),
    ("madvise", ("do_madvise", "madvise_lock")),
    ("mlock", ("do_mlock",)),
    ("the filling of memory (MAP_POPULATE, mlock)", ("__mm_populate",)),
    (PAGE_FAULTS, ("lock_mm_and_find_vma", "do_user_addr_fault")),
)  # fmt: skip
# A page of a file that fsync waits for is being written; /proc/PID/task/TID/syscall has the number.
# arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h: msync, fsync,
# fdatasync, sync, sync_file_range, syncfs.
_SYNCS = {
    "x86_64": {"26", "74", "75", "162", "277", "306"},
    "aarch64": {"227", "82", "83", "81", "84", "267"},
}.get(os.uname().machine, set())
# write, pwrite64, writev, pwritev, pwritev2: of a file opened with O_SYNC or O_DSYNC they wait too.
_WRITES = {
    "x86_64": {"1", "18", "20", "296", "328"},
    "aarch64": {"64", "68", "66", "70", "287"},
}.get(os.uname().machine, set())
# A thread that waits for TCP, or for a terminal, sleeps in wait_woken(): one that sends waits for
# room in the send buffer (sk_stream_wait_memory()). The numbers of sendto, sendmsg and sendmmsg;
# and of write, writev and sendfile, which send if the descriptor is a socket.
_WOKEN = "wait_woken"
_SENDS = {"x86_64": {"44", "46", "307"}, "aarch64": {"206", "211", "269"}}.get(
    os.uname().machine, set()
)
_MAY_SEND = {"x86_64": {"1", "20", "40"}, "aarch64": {"64", "66", "71"}}.get(
    os.uname().machine, set()
)
_OF_FSYNC, _OF_WRITE, OF_SEND = " of fsync", " of write", " of send"
_RUNNING = "0"  # what wchan says of a thread that sleeps in no function


@dataclass(frozen=True, slots=True)
class Waits:
    """Samples of threads, by what they waited for."""

    samples: int
    running: int
    """On a CPU or waiting for one."""
    by_kind: Mapping[str, int]
    """Waits for memory, and for room in a queue of the kernel."""
    idle: int
    """All other sleeps: timers, sockets, locks of the program's own."""
    functions: Mapping[str, int]
    threads: float
    """How many threads there were to sample, on average."""
    queued_s: float | None
    """Time that its threads could run and no CPU was free, over the look."""


class WaitSampler:
    """Reads where threads sleep, each of so many times that it is asked to."""

    def __init__(self, pids: list[int], times: int, ticks: Ticks | None = None) -> None:
        self._pids, self._ticks = pids, ticks or Ticks()
        self._at_once = max(1, min(_SAMPLED, _SAMPLES // times))
        self._functions: Counter[str] = Counter()
        self._samples = self._at = self._asked = self._tasks = 0
        self._listed: list[tuple[int, int]] = []
        self._wchans: dict[tuple[int, int], int] = {}
        """Held open: to open one takes ten times as long as to read it."""
        self._queued = _queued_s(pids)

    def sample(self, times: int = 1, wait_s: float = 0.0) -> bool:
        """So many times, each after a wait; False if the process ends whose end the ticks know."""
        while times:
            left = _LISTED_EVERY - self._asked % _LISTED_EVERY
            if left == _LISTED_EVERY:
                self._listed = [
                    (pid, task)
                    for pid in self._pids[:_THREADS_MAX]
                    for task in (files.known(process.tasks, pid) or [])
                ]
            count = min(times, left)
            if not self._several(count, wait_s):
                return False
            times -= count
        return True

    def _several(self, count: int, wait_s: float) -> bool:
        """Of the threads that are listed."""
        tasks, step = self._listed, self._at_once
        turn = [
            tasks[(self._at + tick * step + i) % len(tasks)]
            for tick in range(count)
            for i in range(min(step, len(tasks)))
        ]

        def ask(place: int, text: bytes) -> bool:
            function, may_be_of_a_call = _read(text)
            if may_be_of_a_call:
                function = _of_a_call(*turn[place], function)
            self._functions[function] += 1
            self._samples += 1
            return not may_be_of_a_call

        self._asked += count
        self._tasks += count * len(tasks)
        self._at += count * step
        return self._ticks.run(count, wait_s, self._opened(turn), ask)

    def close(self) -> None:
        for fd in self._wchans.values():
            os.close(fd)
        self._wchans.clear()

    def _opened(self, turn: Sequence[tuple[int, int]]) -> list[int]:
        """The wchan of each; -1 of a thread that has ended."""
        if len(self._wchans.keys() | set(turn)) > _HELD_OPEN:
            for thread in self._wchans.keys() - set(turn):
                os.close(self._wchans.pop(thread))
        for thread in turn:
            if thread not in self._wchans:
                with suppress(OSError):  # a Path for each costs more than the read
                    path = f"{ROOT}/proc/{thread[0]}/task/{thread[1]}/wchan"
                    self._wchans[thread] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return [self._wchans.get(thread, -1) for thread in turn]

    def result(self) -> Waits:
        by_kind: Counter[str] = Counter()
        functions: Counter[str] = Counter()
        for text, count in self._ticks.counted():
            self._functions[_read(text)[0]] += count
            self._samples += count
        for name, count in self._functions.items():
            kind = kind_of(name)
            if kind:
                by_kind[kind] += count
                functions[name] += count
        running = sum(self._functions[name] for name in (_RUNNING, ""))
        after = _queued_s(self._pids)
        queued = None if after is None or self._queued is None else after - self._queued
        return Waits(
            samples=self._samples,
            running=running,
            by_kind=dict(by_kind),
            idle=self._samples - running - sum(by_kind.values()),
            functions=dict(functions),
            threads=self._tasks / max(1, self._asked),
            queued_s=None if queued is None else max(0.0, queued),
        )


@cache
def kind_of(function: str) -> str | None:
    """What a thread that sleeps in this function waits for, if it is memory."""
    if function.endswith(_OF_FSYNC):
        return "fsync"
    if function.endswith(_OF_WRITE):
        return "writeback"
    if function.endswith(OF_SEND):
        return RECEIVER
    for kind, prefixes in _KINDS:
        if function.startswith(prefixes):
            return kind
    return None


def calls(functions: Mapping[str, int]) -> list[str]:
    """Which calls wait for the lock of mappings, the most often met first; none that a function of
    the semaphore itself hides."""
    counts: Counter[str] = Counter()
    for function, count in functions.items():
        for call, prefixes in _BY_CALL:
            if function.startswith(prefixes):
                counts[call] += count
    return sorted(counts, key=lambda call: (-counts[call], call))


@cache
def _read(text: bytes) -> tuple[str, bool]:
    """The function of a wchan, and whether its wait may be for what a call writes."""
    function = text.decode(errors="replace").strip()
    is_open = kind_of(function) in ("a page of a file", "writeback")
    return function, is_open or function.startswith(_WOKEN)


_READ_UNDER_LOCK = ("maps", "smaps", "smaps_rollup", "numa_maps", "pagemap", "clear_refs")
_MAPS_WITHOUT = (6, 17)  # the release of Linux: maps is read by the locks of mappings


def reader(pid: int) -> str:
    """A process that has a file of /proc open, reads of which hold the lock of mappings."""
    names = _READ_UNDER_LOCK[kernel_numbers.release() >= _MAPS_WITHOUT :]
    for _ in range(3):  # one that opens it again each time is met between two reads
        for other, fd in islice(_open_elsewhere(pid), _LINKS_MAX):
            path = target_of(fd) or ""
            if not path.startswith(f"/proc/{pid}/") or path.rpartition("/")[2] not in names:
                continue
            if _is_of_this_proc(other, fd):
                return (
                    f"process {other} ({printable(process.command(other, ROOT))}) has {path} open"
                )
    return ""


def _is_of_this_proc(pid: int, fd: Path) -> bool:
    """Whether a descriptor is of a file of the same /proc, and of no other PID namespace's. Only of
    a /proc at all it is read: another file of such a path may wait for a server."""
    number = call_places.mount_number(fd.parents[1] / "fdinfo" / fd.name)
    mount = call_places.mounts(pid).get(number or 0)
    if mount is None or mount.filesystem != "proc":
        return False
    of_this, about = files.known((ROOT / "proc").stat), files.known(fd.stat)
    return bool(of_this and about and of_this.st_dev == about.st_dev)


def _open_elsewhere(pid: int) -> Iterator[tuple[int, Path]]:
    for other in process.ids(ROOT):
        if other not in (pid, os.getpid()):
            for number in files.names(ROOT / f"proc/{other}/fd"):
                yield other, ROOT / f"proc/{other}/fd/{number}"


def _of_a_call(pid: int, task: int, function: str) -> str:
    """Marks a wait for a page of a file that a call such as fsync(2) or write(2) writes, and one of
    a call that sends. A thread that runs again when its call is asked for waits for nothing: the
    sample is of that moment."""
    words = (files.text(ROOT / f"proc/{pid}/task/{task}/syscall") or "").split()
    call = words[0] if words else ""
    if call == "running":  # proc_pid_syscall() in fs/proc/base.c
        return _RUNNING
    if function.startswith(_WOKEN):
        is_send = call in _SENDS
        if call in _MAY_SEND:
            link = target_of(ROOT / f"proc/{pid}/fd/{int(words[1], 16)}")
            is_send = (link or "").startswith("socket:")
        return function + (OF_SEND if is_send else "")
    return function + (_OF_FSYNC if call in _SYNCS else _OF_WRITE if call in _WRITES else "")


def _queued_s(pids: list[int]) -> float | None:
    """Of the first threads of each process (/proc/PID/schedstat, nanoseconds)."""
    total = None
    for pid in pids[:_THREADS_MAX]:
        for task in (files.known(process.tasks, pid) or [])[:_THREADS_MAX]:
            words = (files.text(f"{ROOT}/proc/{pid}/task/{task}/schedstat") or "").split()
            if len(words) == 3:
                total = (total or 0.0) + int(words[1]) / 1e9
    return total


def userfaultfds(held: Mapping[int, str]) -> int:
    """How many of a process's file descriptors are userfaultfds. A handler may be another one."""
    return [*held.values()].count("anon_inode:[userfaultfd]")

"""Limits on System V IPC and POSIX queues, of the IPC namespace of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memlab.diagnose import message_queues, sysvipc
from memlab.diagnose.kernel_numbers import descriptors, sysctl
from memlab.diagnose.room import Room
from memlab.observe import files, process
from memlab.observe.proc import ROOT

_QUEUES_MAX = 1000


def _semaphores(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    most, sets = sysctl("kernel/sem", pid), sysvipc.rows(pid, "sem")
    if len(most) != 4 or sets is None:
        return
    fails = "semget fails with ENOSPC"
    yield Room("kernel.sem, sets (SEMMNI)", len(sets), most[3], "count", fails)
    count = sum(int(words[3]) for words in sets if len(words) > 3)
    yield Room("kernel.sem, semaphores (SEMMNS)", count, most[1], "count", fails)


def _segments(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    if (rows := sysvipc.rows(pid, "shm")) is None:
        return
    fails = "shmget fails with ENOSPC"
    if most := sysctl("kernel/shmmni", pid):
        yield Room("kernel.shmmni", len(rows), most[0], "count", fails)
    if most := sysctl("kernel/shmall", pid):
        pages = sum(-(-int(words[3]) // 4096) for words in rows if len(words) > 3)
        yield Room("kernel.shmall", pages * 4096, most[0] * 4096, "B", fails)


def _segment(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    if most := sysctl("kernel/shmmax", pid):
        yield Room("kernel.shmmax", 0, most[0], "B", "shmget of more fails with EINVAL",
                   fills=False)  # fmt: skip


def _queues(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    rows = sysvipc.rows(pid, "msg")
    if rows is not None and (most := sysctl("kernel/msgmni", pid)):
        fails = "msgget fails with ENOSPC"
        yield Room("kernel.msgmni", len(rows), most[0], "count", fails)


def _messages(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """The fullest queue of System V to which it sent last; its bound is set when it is made."""
    queues = [queue for queue in message_queues.system_v(pid) or () if queue.sender == pid]
    bounds = [(queue, message_queues.bound_of(pid, queue.number)) for queue in queues[:_QUEUES_MAX]]
    known = [(queue.bytes / most, queue.bytes, most) for queue, most in bounds if most]
    if known:
        _, used, most = max(known)
        is_usual = [most] == sysctl("kernel/msgmnb", pid)
        name = "kernel.msgmnb, of a queue" if is_usual else "msg_qbytes of a queue"
        yield Room(name, used, most, "B", "msgsnd waits, or fails with EAGAIN")


def _posix_messages(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """The fullest POSIX queue that it holds open."""
    rooms = [
        Room(
            f"mq_maxmsg of {name[:64]}", used, most, "count", "mq_send waits, or fails with EAGAIN"
        )
        for name, used, most in message_queues.posix_rooms(pid, descriptors(pid))
    ]
    yield from sorted(rooms, key=lambda room: -room.share)[:1]


def _message_queues(pid: int, status: Mapping[str, str]) -> Iterator[Room]:
    """Of its IPC namespace; the kernel shows how many there are only in a mount of them."""
    mounts = files.known(process.mounts, pid, ROOT) or []
    most = sysctl("fs/mqueue/queues_max", pid)
    for mount in mounts:
        if mount.filesystem == "mqueue" and most:
            path = ROOT / f"proc/{pid}/root" / mount.mount_point.lstrip("/")
            fails = "mq_open fails with ENOSPC"
            count = len(files.names(path))
            yield Room("fs.mqueue.queues_max", count, most[0], "count", fails)
            return


READERS: Mapping[str, Callable[[int, Mapping[str, str]], Iterator[Room]]] = {
    "semaphores": _semaphores, "segments": _segments, "segment": _segment, "queues": _queues,
    "messages": _messages, "posix messages": _posix_messages, "message queues": _message_queues,
}  # fmt: skip

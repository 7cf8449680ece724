"""Messages that nobody has received, in queues: System V's (sysvipc(7)) and POSIX (mq_overview(7)).

The kernel says of a queue of System V who sent and received last, and not who made it. A POSIX
queue is a file of the file system mqueue, which says how much it holds (ipc/mqueue.c, QSIZE); how
many messages it may hold is read by a descriptor of our own (mq_getattr(3)). Slab takes more than
the text: each message has 48 bytes beside it, and is rounded up.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from memlab.diagnose import mqueue_files, statuses, sysvipc
from memlab.observe import files, namespaces, proc, process
from memlab.observe.proc import ROOT

_IPC_STAT = 2
_QBYTES_AT, _DS_BYTES = 88, 256  # of msqid64_ds on machines of 64 bits
_QSIZE = re.compile(r"QSIZE:(\d{1,19})")
_POSIX_MAX, _SPACES_MAX = 1000, 16


@dataclass(frozen=True, slots=True)
class SystemV:
    """A queue of System V."""

    number: int
    bytes: int
    """Of the text of its messages."""
    count: int
    """Of messages."""
    sender: int
    receiver: int
    """The processes that sent and received last; 0: none has yet."""


@dataclass(frozen=True, slots=True)
class Messages:
    """What queues of a process hold."""

    queues: int = 0
    bytes: int = 0
    system_v_bytes: int = 0
    """Of it in queues of System V, which stay when the process ends."""
    unread: int = 0
    """Files that may be POSIX queues, whose file system could not be looked at."""


def system_v(pid: int) -> list[SystemV] | None:
    """All of its IPC namespace; None if they may not be read."""
    rows = sysvipc.rows(pid, "msg")
    if rows is None:
        return None
    numbers = [[int(word) for word in row[1:7]] for row in rows if len(row) >= 14]
    return [SystemV(n[0], n[2], n[3], n[4], n[5]) for n in numbers]


def sent_by(pids: Collection[int]) -> int:
    """Bytes of the text in the queues of System V to which one of these processes sent last."""
    numbers = statuses.namespaces([*pids], "ipc", ROOT)
    spaces = {number: pid for number, pid in zip(numbers, pids, strict=True) if number is not None}
    each = [system_v(pid) for pid in list(spaces.values())[:_SPACES_MAX]]
    senders = set(pids)
    return sum(one.bytes for queues in each for one in queues or () if one.sender in senders)


def of_machine() -> int:
    """Bytes of the text in all queues of System V, and in POSIX queues if mqueue is mounted."""
    total = sum(queue.bytes for queue in system_v(os.getpid()) or ())
    for mount in files.known(proc.mounts) or []:
        if mount.filesystem == "mqueue":
            folder = ROOT / mount.mount_point.lstrip("/")
            texts = (files.text(folder / name) or "" for name in files.names(folder)[:_POSIX_MAX])
            total += sum(int(size[1]) for text in texts if (size := _QSIZE.match(text)))
            break
    return total


def read(pid: int, links: Mapping[int, str]) -> Messages:
    """In queues of System V that a process used last, and in POSIX queues that it holds open."""
    queues = [queue for queue in system_v(pid) or () if queue.bytes]
    last = [queue for queue in queues if pid in (queue.sender, queue.receiver)]
    staying = sum(queue.bytes for queue in last)
    numbers, unread = mqueue_files.read(pid, links, _POSIX_MAX)
    posix = dict(_posix(pid, numbers))
    return Messages(len(last) + len(posix), staying + sum(posix.values()), staying, unread)


def _posix(pid: int, numbers: Collection[int]) -> Iterator[tuple[int, int]]:
    """What each queue holds, by its inode."""
    for number in numbers:
        text = files.text(ROOT / f"proc/{pid}/fd/{number}") or ""
        about = files.known((ROOT / f"proc/{pid}/fd/{number}").stat)
        if about is not None and (size := _QSIZE.match(text)):
            yield about.st_ino, int(size[1])


def bound_of(pid: int, number: int) -> int | None:
    """What a queue of System V may hold in bytes (msg_qbytes); None if it may not be read."""

    def ask() -> int:
        buffer = ctypes.create_string_buffer(_DS_BYTES)
        if ctypes.CDLL(None, use_errno=True).msgctl(number, _IPC_STAT, buffer):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return ctypes.c_ulong.from_buffer(buffer, _QBYTES_AT).value

    return files.known(namespaces.inside, pid, "ipc", ask)


def posix_rooms(pid: int, links: Mapping[int, str]) -> Iterator[tuple[str, int, int]]:
    """The name of each POSIX queue that it holds open, its messages, and how many it may hold."""
    with suppress(OSError, AttributeError), process.handle(pid) as pidfd:
        get = ctypes.CDLL(None, use_errno=True).mq_getattr  # which a libc may lack
        for number in mqueue_files.read(pid, links, _POSIX_MAX)[0]:
            fd = process.take_descriptor(pidfd, number)
            try:
                words = (ctypes.c_long * 8)()  # mq_flags, mq_maxmsg, mq_msgsize, mq_curmsgs
                if get(fd, words) == 0:
                    yield links[number], words[3], words[1]
            finally:
                os.close(fd)

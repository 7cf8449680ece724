"""What the kernel keeps for a process and shows no size of: counted, to say that it was not looked
at where it may be large.

What one of each takes is an estimate from a kernel of 64 bits (6.18): the object, and what it pins.
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from memlab.diagnose import sysvipc
from memlab.observe import files, process
from memlab.observe.proc import ROOT
from memlab.text import units

_WORTH_BYTES = 16 << 20
_TEXT_BYTES, _OF_A_KIND = 1 << 20, 16  # of fdinfo, and descriptors of a kind that are read
# The link of a descriptor, what marks one entry of its fdinfo, its size, and its name.
_LISTS = (
    ("anon_inode:[eventpoll]", b"tfd:", 200, "watches of epoll"),
    ("anon_inode:[fanotify]", b"fanotify ino:", 1024, "marks of fanotify"),
)
_FILE_BYTES = 512
SOCKET_BYTES = _FILE_BYTES + (3 << 10)
"""An open file with its directory entry, and of a socket with its inode."""
# 64 KiB that were not read in each direction (drivers/tty/tty_buffer.c).
_TERMINAL_BYTES = 128 << 10
_TIMER_BYTES, _LOCK_BYTES, _SEMAPHORE_BYTES = 400, 200, 64
_TERMINALS = ("/dev/ptmx", "/dev/pts/")


def read(
    pid: int,
    descriptors: Mapping[int, str],
    status: Mapping[str, str],
    age_s: float,
    mapped_secret_bytes: int = 0,
) -> Iterator[str]:
    """What it is and why it was not looked at, with a colon between them; secret memory without
    what is mapped of it, which is resident."""
    for count, each, name, is_least in _counted(pid, descriptors, status):
        if count * each >= (_WORTH_BYTES / 8 if is_least else _WORTH_BYTES):
            more = " or more" if is_least else ""
            why = f"/proc does not show it; some {_amount(count * each)}{more}"
            yield f"what {count:,}{more} {name} keep in the kernel: {why}"
    uid = (status.get("Uid") or "?").split()[0]
    yield from _semaphores(pid, uid, time.time() - age_s)
    yield from _keys(uid)
    secret = sum(_secret(pid, descriptors)) - mapped_secret_bytes
    if secret >= _WORTH_BYTES:
        what = "secret memory (memfd_secret) that it does not map"
        yield f"{what}: /proc does not show it; at most {_amount(secret)}"


def _counted(
    pid: int, descriptors: Mapping[int, str], status: Mapping[str, str]
) -> Iterator[tuple[int, int, str, bool]]:
    """How many, what each takes, its name, and whether there may be more."""
    for kind, mark, each, name in _LISTS:
        counts = list(_entries(pid, descriptors, kind, mark))
        yield sum(count for count, _ in counts), each, name, any(cut for _, cut in counts)
    links, is_cut = descriptors.values(), len(descriptors) >= process.DESCRIPTORS_READ
    sockets = sum(link.startswith("socket:") for link in links)
    yield sockets, SOCKET_BYTES, "sockets", is_cut
    yield len(descriptors) - sockets, _FILE_BYTES, "open files", is_cut
    terminals = sum(link.startswith(_TERMINALS) for link in links)
    yield terminals, _TERMINAL_BYTES, "terminals", is_cut
    # Each timer has a signal that is reserved for it (timer_create(2)).
    signals = (status.get("SigQ") or "0").partition("/")[0]
    if signals.isdigit() and int(signals) * _TIMER_BYTES >= _WORTH_BYTES:
        text, cut = _head(f"proc/{pid}/timers")
        yield text.count(b"ID: "), _TIMER_BYTES, "POSIX timers", cut
    text, cut = _head("proc/locks")
    locks = len(re.findall(rb"(?:READ|WRITE) +%d " % pid, text))
    yield locks, _LOCK_BYTES, "locks of files", cut


def _entries(
    pid: int, descriptors: Mapping[int, str], kind: str, mark: bytes
) -> Iterator[tuple[int, bool]]:
    for number in [number for number, link in descriptors.items() if link == kind][:_OF_A_KIND]:
        text, cut = _head(f"proc/{pid}/fdinfo/{number}")
        yield text.count(mark), cut


def _head(path: str) -> tuple[bytes, bool]:
    """The beginning of a text, and whether it goes on."""
    with suppress(OSError), (ROOT / path).open("rb") as file:
        text = file.read(_TEXT_BYTES)
        return text, len(text) == _TEXT_BYTES
    return b"", False


def _semaphores(pid: int, uid: str, began_s: float) -> Iterator[str]:
    """Those that its user made since it began: /proc does not say which process did."""
    count = 0
    for words in sysvipc.rows(pid, "sem") or ():
        sizes = [int(word) for word in words if word.lstrip("-").isdigit()]
        if len(words) == len(sizes) == 10 and words[6] == uid and sizes[9] >= began_s:
            count += sizes[3]
    if count * _SEMAPHORE_BYTES >= _WORTH_BYTES:
        why = f"/proc does not show whose; some {_amount(count * _SEMAPHORE_BYTES)}"
        yield f"what {count:,} semaphores of System V keep in the kernel: {why}"


def _keys(uid: str) -> Iterator[str]:
    for words in files.rows(ROOT / "proc/key-users"):
        size = words[-1].partition("/")[0] if len(words) >= 5 else ""
        if words[:1] == [f"{uid}:"] and size.isdigit() and int(size) >= _WORTH_BYTES:
            why = f"/proc does not show whose; {_amount(int(size))} are its user's"
            yield f"what its keys keep in the kernel: {why}"


def _amount(size: float) -> str:
    return units.format_quantity(size, "B")


def _secret(pid: int, descriptors: Mapping[int, str]) -> Iterator[int]:
    """The sizes of its files of memfd_secret(2), which are of no file system that is mounted."""
    seen: set[int] = set()
    for number, link in descriptors.items():
        if link in ("/secretmem", "/secretmem (deleted)"):
            about = files.known((ROOT / f"proc/{pid}/fd/{number}").stat)
            if about and stat.S_ISREG(about.st_mode) and not about.st_blocks:
                if about.st_ino not in seen:
                    yield about.st_size
                seen.add(about.st_ino)

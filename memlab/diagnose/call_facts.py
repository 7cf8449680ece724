"""What is read of a process to explain its failing calls, and a cause as it is said."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from memlab.diagnose import call_places, sockets
from memlab.diagnose.kernel_numbers import descriptors, is_contained, target_of
from memlab.diagnose.memory_files import MemoryFiles
from memlab.observe import files, proc, process
from memlab.observe.proc import ROOT
from memlab.text.printable import printable

PAGE = os.sysconf("SC_PAGE_SIZE")
_WALKED_MAX_BYTES = 4 << 30
_THREADS_MAX = 1000
FSIZE, DATA, NOFILE, MEMLOCK, AS, NICE, RTPRIO = 1, 2, 7, 8, 9, 13, 14
_LINES = ("cpu time", "file size", "data size", "stack size", "core file size", "resident set",
          "processes", "open files", "locked memory", "address space", "file locks",
          "pending signals", "msgqueue size", "nice priority", "realtime priority",
          "realtime timeout")  # fmt: skip


# Names of arguments in tracepoints of calls.
_DESCRIPTORS = ("fd", "dfd", "olddfd", "newdfd", "fildes")
_PATHS = ("filename", "pathname", "oldname", "newname", "path")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a call fails, as it was read."""

    words: str
    line: str
    """What it is about."""
    setting: str = ""
    harmless: bool = False
    """The call fails for no want of anything."""


ORDINARY = Cause("as ordinary", "", harmless=True)
"""The arguments tell that it only asks: it is no finding."""


class Facts:
    """What is read of a process, once, for the causes of all its calls."""

    def __init__(self, pid: int, status: Mapping[str, str]) -> None:
        self.pid, self.status = pid, status
        self.opened: Mapping[int, tuple[int, int]] = {}
        """By descriptor the folder and the address of the path that it was last opened with."""

    @cached_property
    def mappings(self) -> Sequence[process.Mapping]:
        return files.known(lambda: process.maps(self.pid)) or ()

    @cached_property
    def committed(self) -> Sequence[process.Mapping]:
        """Those that a fork commits again (VM_ACCOUNT without VM_DONTCOPY of mm.h); of much memory
        all that are private and may be written, because to read their flags takes long."""
        read: Sequence[process.Mapping] | None = None
        if self.size_of("VmRSS") <= _WALKED_MAX_BYTES:
            read = files.known(lambda: process.smaps(self.pid))
        if read is not None:
            return [one for one in read if "ac" in one.flags and "dc" not in one.flags]
        return [one for one in self.mappings if one.permissions[1:4:2] == "wp"]

    @cached_property
    def limits(self) -> str:
        return files.text(ROOT / f"proc/{self.pid}/limits") or ""

    @cached_property
    def unix(self) -> Sequence[sockets.UnixSocket]:
        return files.known(lambda: sockets.unix(self.pid)) or ()

    @cached_property
    def mounts(self) -> call_places.Mounts:
        return call_places.mounts(self.pid)

    def limit(self, number: int, *, is_hard: bool = False) -> int | None:
        """The soft or hard limit of a resource; None without one."""
        line = re.search(rf"^Max {_LINES[number]} +(\S+) +(\S+)", self.limits, re.MULTILINE)
        word = line[2 if is_hard else 1] if line else ""
        return int(word) if word.isdigit() else None

    @cached_property
    def is_contained(self) -> bool:
        """Whether it is in a user namespace whose capabilities the kernel's own limits do not
        count."""
        return is_contained(self.pid)

    def is_capable(self, *numbers: int) -> bool:
        """In the first user namespace (capable() of kernel/capability.c)."""
        if self.is_contained:
            return False
        capabilities = int(self.status.get("CapEff", "0"), 16)
        return any(capabilities >> number & 1 for number in numbers)

    def lacks(self, capability: str) -> str:
        return f"{capability}{' of the first user namespace' if self.is_contained else ''}"

    def memory(self, at: int, count: int) -> bytes:
        """What lies there now, as far as it is resident: since the call it may have changed."""
        with suppress(OSError, OverflowError), MemoryFiles(self.pid) as memory:
            pages = range(at // PAGE * PAGE, at + count, PAGE)
            end = next((page for page in pages if not memory.is_present(page)), at + count)
            return memory.read(at, end - at) if end > at else b""
        return b""

    @cached_property
    def is_alike(self) -> bool:
        """Whether all its threads have one user, its groups and its capabilities: each has its own
        (credentials(7))."""
        tasks = files.known(process.tasks, self.pid) or []
        each = (files.known(proc.status, task) or {} for task in tasks[:_THREADS_MAX])
        names = ("Uid", "Gid", "Groups", "CapEff")
        return len(tasks) <= _THREADS_MAX and len({(*map(s.get, names),) for s in each}) < 2

    def is_thread(self, number: int) -> bool:
        return (ROOT / f"proc/{self.pid}/task/{number}").exists()

    def link(self, number: int) -> str:
        """What a descriptor is."""
        return target_of(ROOT / f"proc/{self.pid}/fd/{number & 0xFFFF_FFFF}") or ""

    def file(self, number: int) -> tuple[str, proc.Mount, str] | None:
        """The path of a file, its mount, and how the descriptor is it: as it was last opened, by a
        path that lies there now, else as it is now. None if neither is read."""
        number &= 0xFFFF_FFFF
        if number in self.opened:
            place = call_places.of_path(self.pid, self.opened[number], self.memory, self.mounts)
            if place:
                return *place, "was last opened by a path that now reads"
        place = call_places.of_descriptor(self.pid, number, self.mounts)
        return (*place, "is now") if place else None

    def meaning(self, name: str, value: int) -> str:
        """` (/var/log/x)`: what a descriptor of this name is now; ` (now /var/log/x)` of a path."""
        text = ""
        if name in _DESCRIPTORS:
            text = self.link(value)
            if not text and self._is_closed(value):
                _, at = self.opened.get(value & 0xFFFF_FFFF, (0, 0))
                path = self._path(at)
                text = (
                    f"closed by now, last opened by what now reads {path}"
                    if path
                    else "closed by now"
                )
        elif name in _PATHS:
            path = self._path(value)
            text = f"now {path}" if path else ""  # a program may write each path there
        return f" ({shown(text)})" if text else ""

    def _path(self, at: int) -> str:
        raw, end, _ = self.memory(at, PAGE).partition(b"\0")
        return raw.decode("utf-8", "replace") if end else ""

    def _is_closed(self, number: int) -> bool:
        """False where that was not read."""
        listed = descriptors(self.pid)
        is_number = number & 0xFFFF_FFFF < 1 << 31  # AT_FDCWD is larger
        whole = 0 < len(listed) < process.DESCRIPTORS_READ
        return whole and is_number and number & 0xFFFF_FFFF not in listed

    def field(self, number: int, name: str) -> str | None:
        """Digits of a descriptor's fdinfo (proc_pid_fdinfo(5)); None without such a line."""
        text = files.text(ROOT / f"proc/{self.pid}/fdinfo/{number & 0xFFFF_FFFF}") or ""
        line = re.search(rf"^{name}:\s*(\d{{1,20}})$", text, re.MULTILINE)
        return line and line[1]

    def size_of(self, name: str) -> int:
        return proc.status_bytes(self.status, name) or 0


class EarlierFacts(Facts):
    """For calls of some time ago: their descriptors and what their pointers point to may be others
    by now, and are not read."""

    def memory(self, at: int, count: int) -> bytes:
        return b""

    def link(self, number: int) -> str:
        return ""

    def file(self, number: int) -> None:
        return None

    def meaning(self, name: str, value: int) -> str:
        return ""

    def field(self, number: int, name: str) -> str | None:
        return None


Reader = Callable[[Facts, str, Sequence[int]], Cause | None]


def shown(text: str) -> str:
    """A name that another process chose."""
    return printable(text)[:80]

"""Traces made up record by record, and the records of one that was recorded (format.h)."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pids_group import pids_group

from memlab.files import packed
from memlab.trace import file

PAGE = 4096
(TIME, READ, WRITE, MAP, UNMAP, REMAP, PROTECT, ADVISE, LOCK, UNLOCK, LOCK_ALL, UNLOCK_ALL, TASK,
 EXEC, EXIT, START, STATE_END) = range(1, 18)  # fmt: skip
ALLOCATE, FREE, RESIZE, THP_DISABLE, AGAIN, LOOKED = range(18, 24)
HAS_ALLOCATIONS = 4  # of the flags
HAS_AGAIN, WATCHED_HUGE, LOOKED_AT_HUGE, LOOKED_AT_LIMIT, WAS_ALWAYS, WAS_MADVISE, WATCHED_LIMIT = (
    256 << bit for bit in range(7)
)
HAS_HUGETLB, HAS_DEVICES = 32768, 65536
WATCHED = WATCHED_HUGE | WATCHED_LIMIT
WAS_CACHED, IS_DEVICE = 2, 4  # of a file's flags
FORK, THREAD, VFORK = range(3)
HEAP = 2  # of MAP and UNMAP: enum trace_what
RW = mmap.PROT_READ | mmap.PROT_WRITE
PRIVATE, SHARED, ANONYMOUS = 2, 1, 0x20
AT = 0x10_0000_0000  # where a made up program maps
HEADER = struct.Struct("<8sII9QIIIIQQQ8I")
GAPS = ("cut", "cut_by", "unfollowed", "unfollowed_task", "running", "running_task", "running_pid")
MACHINE = {"x86_64": 62, "aarch64": 183}.get(os.uname().machine, 0)


def summed(records: bytes) -> int:
    total = 0
    for (word,) in struct.iter_unpack("<Q", records):
        total = ((total ^ word) * 0x100000001B3) & (1 << 64) - 1
    return total


@dataclass
class Made:
    """A trace in the making. Addresses and sizes are in bytes."""

    records: list[bytes] = field(default_factory=list)
    files: list[tuple[int, int, bytes]] = field(default_factory=list)  # bytes, flags, name
    tasks: int = 1
    lost: int = 0
    version: int = 4
    flags: int = 0

    def add(
        self, kind: int, address: int = 0, *operands: int, task: int = 0, what: int = 0
    ) -> Made:
        more = (len(operands) + 1) // 2
        word = address | kind | more << 6 | what << 8
        self.records.append(struct.pack("<QII", word, 1000, task))
        filled = [*operands, *([0] * (2 * more - len(operands)))]
        self.records += [struct.pack("<QQ", *filled[2 * i : 2 * i + 2]) for i in range(more)]
        return self

    def map(
        self,
        address: int,
        pages: int,
        *,
        flags: int = PRIVATE | ANONYMOUS,
        rights: int = RW,
        file: int = 0,
        offset: int = 0,
        task: int = 0,
    ) -> Made:
        return self.add(MAP, address, pages * PAGE, rights | flags << 32, file, offset, task=task)

    def touch(
        self, address: int, pages: int, kind: int = WRITE, *, task: int = 0, step: int = 1
    ) -> Made:
        for i in range(pages):
            self.add(kind, address + i * step * PAGE, task=task)
        return self

    def number(self, kind: int, number: int, *, task: int = 0, what: int = 0) -> Made:
        return self.add(kind, number << 12, task=task, what=what)

    def bytes(self, **changed: int) -> bytes:
        body = b"".join(self.records)
        head = {
            "records": len(body) // 16,
            "sum": summed(body),
            "tasks": self.tasks,
            "files": len(self.files),
            "machine": MACHINE,
            "version": self.version,
            "flags": self.flags,
            "lost": self.lost,
            "blocks": 0,
            "recorded_s": 0,
            "faults": 0,
            **dict.fromkeys(GAPS, 0),
        } | changed
        header = HEADER.pack(
            b"memlabTR", head["version"], PAGE, head["records"], head["sum"], 10**6, head["lost"],
            0, 0, 0, 0, 0, head["tasks"], head["files"], head["flags"], head["machine"],
            head["blocks"], head["recorded_s"], head["faults"], *(head[name] for name in GAPS), 0,
        )  # fmt: skip
        names = b"made".ljust(16, b"\0") * self.tasks
        files = b"".join(
            struct.pack("<QII", size, memory, len(name)) + name + b"\0" * (-len(name) % 8)
            for size, memory, name in self.files
        )
        return header + body + names + files

    def write(self, path: Path) -> Path:
        path.write_bytes(self.bytes())
        return path


@dataclass
class Replayed:
    """What the replayer says, as in its line."""

    status: int
    touches: int
    calls: int
    refused: int
    passed: int
    faults: int
    said: str


def _without_huge_pages() -> None:
    """Whatever the host's setting is (PR_SET_THP_DISABLE, prctl(2); inherited)."""
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)


def replay(path: Path, *words: str, lock: str = "off", huge: bool = False) -> Replayed:
    """The one with the fewest faults of three: the kernel's compaction moves pages, and a touch of
    one that is being moved is a fault more (sysctl/vm.rst, compact_unevictable_allowed)."""
    ended: list[Replayed] = []
    for _ in range(3):
        ended.append(_replay(path, *words, lock=lock, huge=huge))
        if ended[-1].status:  # what is refused is so at once
            return ended[-1]
    return min(ended, key=lambda one: one.faults)


def _replay(path: Path, *words: str, lock: str, huge: bool) -> Replayed:
    environ = {**os.environ, "MEMLAB_LOCK": lock}
    with path.open("rb") as opened, packed.plain(opened) as source:
        done = subprocess.run(
            [file.tool("replay"), *words, source],
            env=environ,
            preexec_fn=None if huge else _without_huge_pages,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    numbers = [
        int(word.strip(";,)")) for word in done.stdout.split() if word.strip(";,)").isdecimal()
    ]
    if done.returncode:
        return Replayed(done.returncode, 0, 0, 0, 0, 0, done.stderr)
    touches, calls, refused, _, passed, _, faults, *_ = numbers
    return Replayed(0, touches, calls, refused, passed, faults, done.stdout)


@dataclass
class Record:
    kind: int
    task: int
    address: int
    what: int
    operands: tuple[int, ...]
    after_ns: int


def records(path: Path) -> Iterator[Record]:
    """Those of a file."""
    with path.open("rb") as opened, packed.plain(opened) as source:
        data = source.read_bytes()
    count, at = HEADER.unpack_from(data)[3], HEADER.size
    end = at + 16 * count
    while at < end:
        word, after_ns, task = struct.unpack_from("<QII", data, at)
        more = word >> 6 & 3
        operands = struct.unpack_from(f"<{2 * more}Q", data, at + 16)
        yield Record(word & 63, task, word >> 12 << 12, word >> 8 & 15, operands, after_ns)
        at += 16 * (1 + more)


def await_followers(memlab: subprocess.Popen[str]) -> bool:
    """Until the recorder below it has read the state, its files closed again, and waits for the
    process by a pidfd. False where it has ended without."""
    deadline, children = time.monotonic() + 300, f"/proc/{memlab.pid}/task/{memlab.pid}/children"
    while time.monotonic() < deadline:
        if memlab.poll() is not None:
            return False
        for child in Path(children).read_text().split():
            links = _links(Path(f"/proc/{child}/fd"))
            reading = any(link.endswith(("/smaps", "/pagemap")) for link in links)
            follows = all(any(kind in link for link in links) for kind in ("perf_event", "pidfd"))
            if follows and not reading:
                return True
        time.sleep(0.01)
    raise AssertionError("the recorder follows nothing")


def _links(folder: Path) -> list[str]:
    found = []
    with suppress(FileNotFoundError):  # ended, or closed meanwhile
        for link in folder.iterdir():
            with suppress(FileNotFoundError):
                found.append(str(link.readlink()))
    return found


@contextmanager
def limited_processes(most: int) -> Iterator[list[str]]:
    """The words before a command that has so many at a time. When it is left all have ended."""
    with pids_group(most) as group:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]

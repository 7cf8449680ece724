"""What /proc tells of one process: its tasks, mappings, environment and limits.

Pure parsers, and thin readers that raise `OSError` where the process has gone or may not be
read. Formats: proc_pid_stat(5), proc_pid_maps(5), proc_pid_smaps(5), and the kernel's
Documentation/filesystems/proc.rst.
"""

import ctypes
import itertools
import os
import platform
import re
from collections import abc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from memlab.observe import files, proc

_PIDFD_GETFD = 438  # the same on every architecture
_KCMP, _KCMP_VM = {"x86_64": 312, "aarch64": 272}, 1
_KERNEL_THREAD = 0x0020_0000  # PF_KTHREAD, include/linux/sched.h
DELETED = " (deleted)"  # what a path of maps ends in where it leads to its file no more
_FIELDS = ("Rss", "Pss", "Referenced", "Locked")  # of smaps; it has 20 more, which would take time
_HEADER = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+)\b(?: \S+ (\d+)(?: +(.*))?)?", re.M
)
# By interpreter the letters of options that give it its program, or after which it runs none; that
# take a value; and with which it reads standard input, whatever follows. As bash(1), dash(1),
# python(1), perlrun(1), ruby(1), node(1), php(1) and lua(1) name them.
_SHELLS = "bash|dash|ksh|sh|zsh"
_INTERPRETERS = {
    _SHELLS: ("c", "oO", "s"),
    "pypy|python": ("cmhV?", "XW", ""),
    "perl": ("eEhvV", "I", ""),
    "ruby": ("ehv", "CEIr", ""),
    "node": ("ephv", "r", ""),
    "php": ("rfBREFShimv", "dcz", ""),
    "lua": ("ev", "l", ""),
}
_PRIVATE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ...p ", re.M)
_USERS_END = 1 << 63  # addresses above are the kernel's
_NO_FIELDS: abc.Mapping[str, int] = MappingProxyType({})
_NO_FLAGS: frozenset[str] = frozenset()
# A guard is a page by default (pthread_attr_setguardsize(3)). glibc's arenas end in an
# inaccessible rest of up to 64 MiB, which is not a guard.
GUARD_BYTES_MAX = 64 << 10


def mounts(pid: int, root: Path = proc.ROOT) -> list[proc.Mount]:
    """The mounts that a process sees."""
    return proc.parse_mountinfo(proc.read(root / f"proc/{pid}/mountinfo"))


def reads_program(words: Sequence[str]) -> bool:
    """Whether a command is an interpreter that reads its program from standard input: `python3 -`,
    `sh -s`. False if that is not sure."""
    name = Path(words[0]).name.rstrip("0123456789.") if words else ""
    letters = next((of for names, of in _INTERPRETERS.items() if name in names.split("|")), None)
    if letters is None:
        return False
    gives, takes_value, reads = letters
    rest = iter(words[1:])
    for word in rest:
        if word == "-" and name in _SHELLS.split("|"):  # the end of the options
            return next(rest, None) is None
        if word in ("-", "/dev/stdin"):
            return True
        if not word.startswith("-") or word.startswith("--"):
            return False
        for place, letter in enumerate(word[1:], 2):
            if letter in gives or letter in reads:
                return letter in reads
            if letter in takes_value:
                if place == len(word):
                    next(rest, "")
                break
    return True


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat, or of a task's, that are read here."""

    command: str
    state: str
    kernel_thread: bool
    minor_faults: int
    major_faults: int
    cpu_ticks: int
    """User and system time together."""
    system_ticks: int
    start_ticks: int
    waited_minor_faults: int = 0
    """Of the children that it has waited for, in their lives, and of theirs."""
    waited_cpu_ticks: int = 0
    """The same of user and system time."""


class Mapping(NamedTuple):
    """One mapping; `bytes_by_field` and `flags` are there where it was read from smaps. A tuple,
    because a process may have tens of thousands: an object takes three times as long to make."""

    start: int
    end: int
    permissions: str
    path: str
    bytes_by_field: abc.Mapping[str, int] = _NO_FIELDS
    flags: frozenset[str] = _NO_FLAGS
    """In the two letters of smaps: ``lo`` is locked."""
    offset_bytes: int = 0
    """Of its first byte in its file."""
    inode: int = 0
    """Of the file; of a System V segment its number."""

    @property
    def size_bytes(self) -> int:
        return self.end - self.start

    @property
    def is_nameless(self) -> bool:
        """Whether it is of no file; PR_SET_VMA_ANON_NAME names such memory (prctl(2))."""
        return not self.path or self.path.startswith("[anon:")


def parse_stat(text: str) -> Stat:
    command, fields = proc.stat_fields(text)
    return Stat(
        command=command,
        state=fields[0],
        kernel_thread=bool(int(fields[6]) & _KERNEL_THREAD),
        minor_faults=int(fields[7]),
        major_faults=int(fields[9]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        system_ticks=int(fields[12]),
        start_ticks=int(fields[19]),
        waited_minor_faults=int(fields[8]),
        waited_cpu_ticks=int(fields[13]) + int(fields[14]),
    )


def parse_maps(text: str) -> list[Mapping]:
    """The mappings in ascending order, from maps or from smaps."""
    lines = proc.lines(text)
    if "\nRss:" not in text and len(headers := _HEADER.findall(text)) == len(lines):
        return [_mapping(*header) for header in headers]  # in two thirds of the time
    mappings: list[Mapping] = []
    for line in lines:
        header = _HEADER.match(line)
        if header is None:
            if not mappings or not line[:1].isupper():  # a header begins with its address
                raise ValueError(
                    f"maps: expected 'START-END PERMISSIONS OFFSET', found {line[:40]!r}"
                )
            _add(mappings, line)
            continue
        mappings.append(_mapping(*header.groups()))
    return mappings


def _mapping(
    start: str, end: str, permissions: str, offset: str, inode: str | None, path: str | None
) -> Mapping:
    return Mapping(
        int(start, 16), int(end, 16), permissions, path or "", _NO_FIELDS, _NO_FLAGS,
        int(offset, 16), int(inode or 0),
    )  # fmt: skip


def parse_rollup(text: str) -> dict[str, int]:
    """The sums of smaps_rollup in bytes by name."""
    _, _, sums = text.partition("\n")
    return proc.parse_meminfo(sums)


def parse_environ(text: str) -> dict[str, str]:
    """The environment that the process was started with; what it changed since is not there.

    glibc before 2.39 cuts GLIBC_TUNABLES in place (elf/dl-tunables.c): each further tunable is then
    seen as a variable of its own, and is put back.
    """
    pairs = (entry.partition("=") for entry in text.split("\0") if "=" in entry)
    values = {name: value for name, _, value in pairs}
    if "GLIBC_TUNABLES" in values:
        cut = [f"{name}={values.pop(name)}" for name in [*values] if name.startswith("glibc.")]
        values["GLIBC_TUNABLES"] = ":".join([values["GLIBC_TUNABLES"], *cut])
    return values


def parse_limit(text: str, name: str) -> int | None:
    """The soft limit of a line of /proc/PID/limits in its own unit; None for unlimited."""
    for line in proc.lines(text):
        words = line.removeprefix(name).split()
        if line.startswith(f"{name} ") and words:
            return None if words[0] == "unlimited" else int(words[0])
    raise ValueError(f"limits: no line {name!r}")


def parse_interrupts_by_cpu(text: str, label: str) -> dict[int, int] | None:
    """Counts of one row of /proc/interrupts by CPU: those offline have no column."""
    cpus = [int(word.removeprefix("CPU")) for word in text.partition("\n")[0].split()]
    counts = proc.parse_interrupts(text, label)
    return None if counts is None else dict(zip(cpus, counts, strict=True))


def thread_stacks(mappings: list[Mapping]) -> list[Mapping]:
    """The stacks of threads: nameless writable memory that lies on an inaccessible guard.

    A guess from the layout that pthread_create(3) makes: the kernel keeps no name for them
    (since 4.5), and a program may map the like for itself.
    """
    return [
        above
        for below, above in itertools.pairwise(mappings)
        if below.permissions.startswith("---")
        and below.end == above.start
        and below.size_bytes <= GUARD_BYTES_MAX
        and above.permissions.startswith("rw")
        and above.is_nameless
        and below.is_nameless
    ]


def ids(root: Path = proc.ROOT) -> list[int]:
    """Of all processes that this one may see."""
    return [int(name) for name in files.names(root / "proc") if name.isdecimal()]


def stat(pid: int, task: int | None = None, root: Path = proc.ROOT) -> Stat:
    """/proc/PID/stat, or a task's of it."""
    inside = f"task/{task}/stat" if task is not None else "stat"
    return parse_stat(proc.read(f"{root}/proc/{pid}/{inside}"))  # a Path takes as long as the read


def tasks(pid: int, root: Path = proc.ROOT) -> list[int]:
    """The ids of its threads, in the order of their making."""
    return sorted(map(int, os.listdir(f"{root}/proc/{pid}/task")))  # noqa: PTH208 - a Path takes longer


def check_readable(pid: int) -> None:
    """Raises `PermissionError` where this process may not look into that one (ptrace(2), read)."""
    os.close(os.open(f"/proc/{pid}/maps", os.O_RDONLY | os.O_CLOEXEC))


def maps(pid: int, root: Path = proc.ROOT) -> list[Mapping]:
    """/proc/PID/maps: no page table is walked."""
    return parse_maps(proc.read(root / f"proc/{pid}/maps"))


def private_maps(pid: int, root: Path = proc.ROOT) -> list[Mapping]:
    """Of the same only where the private mappings lie, in a third of the time; without [vsyscall],
    which is no memory of its own."""
    listed = _PRIVATE.findall(proc.raw(root / f"proc/{pid}/maps"))
    spans = ((int(start, 16), int(end, 16)) for start, end in listed)
    return [Mapping(start, end, "---p", "") for start, end in spans if start < _USERS_END]


def files_of(pid: int, mapping: Mapping, root: Path = proc.ROOT) -> Iterator[Path]:
    """Where the file that is mapped may be opened, be it deleted or replaced since. Only root may
    open what lies under map_files (proc(5)); others take the path, where that was not deleted."""
    yield root / f"proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"
    if not mapping.path.endswith(DELETED):
        yield root / f"proc/{pid}/root" / mapping.path.lstrip("/")
        # The kernel gives the path from the root of who reads maps, if that reaches the file: a
        # chroot's process has another one.
        here = root / mapping.path.lstrip("/")
        if mapping.inode and _inode(here) == mapping.inode:
            yield here


def _inode(path: Path) -> int:
    """0 if it is not there."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def smaps(pid: int, root: Path = proc.ROOT) -> list[Mapping]:
    """/proc/PID/smaps: the kernel walks every page table."""
    return parse_maps(proc.read(root / f"proc/{pid}/smaps"))


def rollup(pid: int, root: Path = proc.ROOT) -> dict[str, int]:
    """/proc/PID/smaps_rollup: the kernel walks every page table."""
    return parse_rollup(proc.read(root / f"proc/{pid}/smaps_rollup"))


def environ(pid: int, root: Path = proc.ROOT) -> dict[str, str]:
    """/proc/PID/environ."""
    return parse_environ(proc.read(root / f"proc/{pid}/environ"))


def lockable_bytes(pid: int, root: Path = proc.ROOT) -> int | None:
    """Its RLIMIT_MEMLOCK; None for unlimited."""
    return parse_limit(proc.read(root / f"proc/{pid}/limits"), "Max locked memory")


def stack_limit_bytes(pid: int, root: Path = proc.ROOT) -> int | None:
    """Its RLIMIT_STACK, the default size of its threads' stacks too; None for unlimited."""
    return parse_limit(proc.read(root / f"proc/{pid}/limits"), "Max stack size")


@contextmanager
def handle(pid: int) -> Iterator[int]:
    """A pidfd. OSError where it has ended."""
    pidfd = os.pidfd_open(pid)
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def take_descriptor(pidfd: int, number: int) -> int:
    """A descriptor of this process for what another one has open by that number (pidfd_getfd(2)).
    OSError if it is closed, or may not be taken."""
    fd: int = _libc().syscall(*(ctypes.c_long(word) for word in (_PIDFD_GETFD, pidfd, number, 0)))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return fd


def shares_memory(pid: int, other: int) -> bool:
    """Whether both have one address space, as a child of vfork(2) until it runs another program
    (kcmp(2)). False if that may not be compared."""
    number = _KCMP.get(platform.machine())
    if number is None:
        return False
    words = (ctypes.c_long(word) for word in (number, pid, other, _KCMP_VM, 0, 0))
    return bool(_libc().syscall(*words) == 0)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)  # to make one takes longer than a call


DESCRIPTORS_READ = 10_000  # of a process at most


def descriptors(pid: int, most: int = DESCRIPTORS_READ, root: Path = proc.ROOT) -> dict[int, str]:
    """What its file descriptors are, by number: paths, ``socket:[7]``,
    ``anon_inode:[userfaultfd]``; at most so many."""
    links = {}
    with os.scandir(root / f"proc/{pid}/fd") as entries:
        for entry in itertools.islice(entries, most):
            with suppress(OSError):  # closed since it was listed
                links[int(entry.name)] = os.readlink(entry.path)  # noqa: PTH115
    return links


def command(pid: int, root: Path = proc.ROOT) -> str:
    """Its name; empty where it has ended."""
    return files.text(f"{root}/proc/{pid}/comm") or ""


def task_command(pid: int, task: int, root: Path = proc.ROOT) -> str | None:
    """The name of a thread; None where it has ended."""
    return files.text(f"{root}/proc/{pid}/task/{task}/comm")


def arguments(pid: int, root: Path = proc.ROOT) -> list[str]:
    """Its arguments, as it has them now: a program may write over them."""
    text = proc.read(root / f"proc/{pid}/cmdline")
    return text.removesuffix("\0").split("\0") if text else []


def command_line(pid: int, root: Path = proc.ROOT) -> str:
    """Its arguments with spaces between them."""
    text = files.text(root / f"proc/{pid}/cmdline") or ""
    return " ".join(text.split("\0"))


def _add(mappings: list[Mapping], line: str) -> None:
    """A line of smaps, to the last mapping."""
    name, _, value = line.partition(":")
    if name in _FIELDS:
        fields = {**mappings[-1].bytes_by_field, name: int(value.removesuffix(" kB")) * 1024}
        mappings[-1] = mappings[-1]._replace(bytes_by_field=fields)
    elif name == "VmFlags":
        mappings[-1] = mappings[-1]._replace(flags=frozenset(value.split()))

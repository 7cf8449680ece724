"""Exact readers of /proc: a pure parser for each file, and a thin reader that feeds it.

Parsers take the file's text and raise `ValueError` on a text that is not that file. Readers take
the root of the file tree and raise `OSError`. Formats: proc(5) and the kernel's
Documentation/filesystems/proc.rst.
"""

import ctypes
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path("/")

# A file that seq_file makes from a single record (meminfo, status, stat, vmstat) is of one moment,
# however many reads take it. For a file of /proc/sys the kernel clears memory of the size that is
# asked for: of 1 MiB that takes 0.14 ms.
_READ_BYTES = 1 << 14
_NAMED = re.compile(r"^([^:\n]*):(.*)$", re.M)  # one call for 60 lines: 5 times as fast as lines

_PF_EXITING = 0x4  # include/linux/sched.h

# linux/magic.h
_STATFS_TYPES = {
    0xEF53: "ext2/3/4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x01021994: "tmpfs",
    0x794C7630: "overlay", 0x9FA0: "proc", 0x27E0EB: "cgroup", 0x63677270: "cgroup2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo; paths are unescaped."""

    mount_id: int
    root: str
    """The part of the filesystem that is mounted, ``/`` for all of it."""
    mount_point: str
    options: frozenset[str]
    filesystem: str
    source: str
    super_options: frozenset[str]
    device: str = ""
    """The numbers of the file system: ``0:23``."""
    parent_id: int = 0
    """Of the mount in a folder of which it lies."""


@dataclass(frozen=True, slots=True)
class Life:
    """What /proc/PID/stat says of a process's life."""

    state: str
    parent: int
    session: int
    start_ticks: int
    """When it started, in clock ticks since boot."""
    exiting: bool
    """It is on its way through exit(2)."""

    @property
    def ended(self) -> bool:
        """It is dead, and at most waits for its parent to ask."""
        return self.state in "ZX"


def read(path: Path | str) -> str:
    """The whole text of a /proc or /sys file, in the fewest reads that the kernel allows."""
    return os.fsdecode(raw(path))


def raw(path: Path | str) -> bytes:
    """The same, as it is."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(fd, _READ_BYTES):
            pieces.append(piece)
    finally:
        os.close(fd)
    return b"".join(pieces)


def raw_long(path: Path) -> bytes:
    """The same of a file that may have tens of thousands of lines, of which the kernel hands out a
    page at a time: into one buffer that grows, which takes half as long."""
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def read_small(path: str) -> bytes:
    """A small file, in one read if it is of less than a page; empty if it may not be read or is
    gone. Of each of 1,000 processes one is read: to decode it would take as long as to read it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        text = os.read(fd, 4096)
        while len(text) % 4096 == 0 and (more := os.read(fd, 4096)):  # a process of 800 groups
            text += more
        return text
    except OSError:
        return b""
    finally:
        os.close(fd)


def lines(text: str) -> list[str]:
    """The lines of a kernel's text. Names in it may hold any other character at which
    `str.splitlines` divides: a carriage return, U+2028."""
    return text.removesuffix("\n").split("\n") if text else []


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes by name; the four HugePages_* lines carry no unit and are counts of pages."""
    return {name: _value(value) for name, value in _named_lines(text, "meminfo")}


def parse_status(text: str) -> dict[str, str]:
    """The fields of /proc/PID/status as written."""
    return dict(_named_lines(text, "status"))


def status_bytes(status: Mapping[str, str], field: str) -> int | None:
    """A ``Vm...`` or ``Rss...`` field in bytes; None where the kernel or the task has none."""
    return _value(status[field]) if field in status else None


def parse_vmstat(text: str) -> dict[str, int]:
    """Event counts and page counts by name."""
    pairs = (line.split() for line in lines(text))
    try:
        return {name: int(value) for name, value in pairs}
    except ValueError:
        raise ValueError("vmstat: expected lines of a name and a number") from None


def parse_interrupts(text: str, label: str) -> tuple[int, ...] | None:
    """Counts of one row of /proc/interrupts (``TLB``, ``RES``), one an online CPU, or None.

    An architecture that sends no such interrupt (arm64 broadcasts TLB invalidation) has no row.
    """
    header, _, rows = text.partition("\n")
    cpu_count = len(header.split())
    for row in lines(rows):
        name, _, counts = row.partition(":")
        if name.strip() == label:
            return tuple(int(count) for count in counts.split()[:cpu_count])
    return None


def stat_fields(text: str) -> tuple[str, list[str]]:
    """The command of /proc/PID/stat, and the fields behind it. The command may hold spaces and
    parentheses, so that it ends at the last parenthesis, after which none can come."""
    before, parenthesis, rest = text.rpartition(")")
    fields = rest.split()
    if not parenthesis or len(fields) < 20:
        raise ValueError("stat: expected 'PID (COMMAND) STATE' and at least 22 fields")
    return before.partition("(")[2], fields


def parse_life(text: str) -> Life:
    """/proc/PID/stat."""
    _, fields = stat_fields(text)
    exiting = bool(int(fields[6]) & _PF_EXITING)
    return Life(fields[0], int(fields[1]), int(fields[3]), int(fields[19]), exiting)


def parse_mountinfo(text: str) -> list[Mount]:
    """The mounts that a process sees, in the order of /proc/PID/mountinfo."""
    return [*_mounts(text)]


@lru_cache(maxsize=4)
def _mounts(text: str) -> tuple[Mount, ...]:
    """A look at a process asks for its mounts and for those of this program some eight times."""
    return tuple(_mount(line) for line in lines(text))


def parse_swaps(text: str) -> list[dict[str, str | int]]:
    """The swap areas in use, from /proc/swaps: path, type, size_bytes, used_bytes, priority."""
    areas: list[dict[str, str | int]] = []
    for line in lines(text)[1:]:
        try:
            path, kind, size, used, priority = re.split(r"[ \t]+", line.strip(" \t"))
        except ValueError:
            raise ValueError(f"swaps: expected five fields in {line!r}") from None
        areas.append(
            {
                "path": _unescape(path),
                "type": kind,
                "size_bytes": int(size) * 1024,
                "used_bytes": int(used) * 1024,
                "priority": int(priority),
            }
        )
    return areas


def meminfo(root: Path = ROOT) -> dict[str, int]:
    """/proc/meminfo in bytes."""
    return parse_meminfo(read(root / "proc/meminfo"))


def status(pid: int | str = "self", root: Path = ROOT) -> dict[str, str]:
    """/proc/PID/status."""
    return parse_status(read(root / f"proc/{pid}/status"))


def vmstat(root: Path = ROOT) -> dict[str, int]:
    """/proc/vmstat."""
    return parse_vmstat(read(root / "proc/vmstat"))


def life(pid: int | str = "self", root: Path = ROOT) -> Life:
    """/proc/PID/stat. OSError where there is no such process."""
    return parse_life(read(root / f"proc/{pid}/stat"))


def start_ticks(pid: int | str = "self", root: Path = ROOT) -> int:
    """When a process started: with its PID and the boot's id it names a process for good."""
    return life(pid, root).start_ticks


def boot_id(root: Path = ROOT) -> str:
    """The random id of this boot."""
    return read(root / "proc/sys/kernel/random/boot_id").strip()


def mounts(root: Path = ROOT) -> list[Mount]:
    """The mounts that this process sees."""
    return parse_mountinfo(read(root / "proc/self/mountinfo"))


def filesystem_of(path: Path) -> str:
    """The type of the filesystem that `path` lies on.

    The kernel is asked for the mount's id (proc_pid_fdinfo(5)), since the longest mount point
    that begins the path is wrong where a later mount covers an earlier one. In a chroot whose root
    is not a mount point, the mount is in none of our lines: then statfs(2) says the type.
    """
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        fields = dict(_named_lines(read(ROOT / f"proc/self/fdinfo/{fd}"), "fdinfo"))
        mount_id = int(fields["mnt_id"])
        for mount in mounts():
            if mount.mount_id == mount_id:
                return mount.filesystem
        return _statfs_type(fd)
    finally:
        os.close(fd)


def _statfs_type(fd: int) -> str:
    """f_type of statfs(2), by name where it is one that memlab treats in a way of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = (ctypes.c_long * 32)()  # f_type is the first field, of 120 bytes
    if libc.fstatfs(fd, result) == -1:
        raise OSError(ctypes.get_errno(), "fstatfs")
    return _STATFS_TYPES.get(result[0], f"type {result[0]:#x}")


def _named_lines(text: str, file: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = _NAMED.findall(text)
    if len(pairs) != len(lines(text)):
        bad = next(line for line in lines(text) if ":" not in line)
        raise ValueError(f"{file}: expected 'name: value', found {bad!r}")
    return [(name, value.strip()) for name, value in pairs]


def _value(text: str) -> int:
    """``12 kB`` is 12288: the kernel's kB are 1024 B. A bare number is itself."""
    number, _, unit = text.partition(" ")
    return int(number) * (1024 if unit.strip() == "kB" else 1)


def _mount(line: str) -> Mount:
    # Optional fields stand before a lone hyphen, so the two halves are split there.
    mount, _, filesystem = line.partition(" - ")
    try:
        mount_id, parent_id, device, root, point, options, *_ = mount.split(" ")
        kind, source, super_options = filesystem.split(" ")
    except ValueError:
        raise ValueError(f"mountinfo: expected ten fields and ' - ' in {line!r}") from None
    return Mount(
        mount_id=int(mount_id),
        root=_unescape(root),
        mount_point=_unescape(point),
        options=frozenset(options.split(",")),
        filesystem=_unescape(kind),
        source=_unescape(source),
        super_options=frozenset(super_options.split(",")),
        device=device,
        parent_id=int(parent_id),
    )


def _unescape(field: str) -> str:
    r"""Space, tab, newline, backslash and # are written in octal: ``\040`` is a space."""
    if "\\" not in field:
        return field
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)

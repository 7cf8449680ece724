"""Physical memory that was reserved from the kernel. Only this module opens /dev/mem.

A store to a wrong address overwrites the kernel or a device. So a range is opened only if all of
these hold, and no flag overrides them:

- it is whole pages, at least one, from 1 MiB on: below that are the firmware's data, which x86
  marks Reserved where the firmware says System RAM (trim_bios_range, arch/x86/kernel/setup.c);
- it lies inside one System RAM entry of /sys/firmware/memmap, and overlaps no other kind;
- it overlaps nothing in /proc/iomem, at any depth, but Reserved and Persistent Memory (legacy),
  which is memmap=nn!ss;
- mem= or memmap= of /proc/cmdline excludes it. Reserved alone is not proof: the kernel reserves RAM
  that it still uses, such as EFI's tables (efi_arch_mem_reserve) and the edges of SEV-SNP's map of
  pages (snp_fixup_e820_tables).

A map that is hidden, cut or not as a kernel writes it permits nothing. The worker imports this:
standard library only.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

NONE = {"reserved_fd": -1, "range_start_bytes": 0, "range_bytes": 0}
"""The params of a probe at a point that needs none."""
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
LOWEST, HIGHEST = 2**20, 2**63 - 1  # mmap(2) takes an off_t
_LIMIT_BYTES = 4 * 2**20  # of a map
_RESOURCE = re.compile(r" *([0-9a-fA-F]{1,16})-([0-9a-fA-F]{1,16}) : ([^\x00-\x1f\x7f]+)")
_ADDRESS = re.compile(r"0x([0-9a-fA-F]{1,16})")
_RANGE = re.compile(r"0x([0-9a-fA-F]{1,16})\+0x([0-9a-fA-F]{1,16})")
_SIZE = re.compile(r"(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)([kmgtpeKMGTPE]?)")
_FIT = ("Reserved", "Persistent Memory (legacy)")  # of /proc/iomem


class RangeRefused(OSError):
    """Why a range is not opened; `errno` says whose fault that is."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(number, why)
        self.why = why

    def __str__(self) -> str:
        return self.why


class Entry(NamedTuple):
    """A part of a map, in bytes; `last` is inclusive, as the kernel prints it."""

    first: int
    last: int
    fit: bool  # only fit memory may be opened
    name: str

    def overlaps(self, first: int, last: int) -> bool:
        return self.first <= last and self.last >= first


class Maps(NamedTuple):
    """The firmware's map, the kernel's, and what the kernel's command line excludes from use."""

    firmware: list[Entry]
    iomem: list[Entry]
    excluded: list[Entry]


def opened(range: str, size_bytes: int, uncached: bool) -> Mapping[str, int]:
    """/dev/mem for `size_bytes` of a range, or of the largest one if that is "": a probe's params,
    its descriptor and the start and length in bytes of the permitted range. `uncached` opens with
    O_SYNC. Raises Refused."""
    start, length = parse(range) if range else largest("")
    judge("", start, length)  # immediately before the open, however it was chosen
    if length < size_bytes:
        words = f"0x{start:x}+0x{length:x} is reserved, and the copy needs 0x{size_bytes:x}"
        raise RangeRefused(errno.ENOSPC, words)
    try:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_SYNC if uncached else 0)
        fd = os.open("/dev/mem", flags)
    except OSError as error:
        raise RangeRefused(error.errno or 0, f'open("/dev/mem"): {error.strerror}') from None
    return {"reserved_fd": fd, "range_start_bytes": start, "range_bytes": length}


def parse(text: str) -> tuple[int, int]:
    """Start and length of a range: 0x40000000+0x4000000."""
    spelled = _RANGE.fullmatch(text)
    if not spelled:
        words = f"{text:.40} is not a range; write one such as 0x40000000+0x4000000"
        raise RangeRefused(errno.EINVAL, words)
    return int(spelled[1], 16), int(spelled[2], 16)


def judge(root: str, start: int, length: int) -> None:
    """Raises Refused unless the range may be opened, by the present maps of the file tree at root;
    "" is this host."""
    maps, last = read(root), start + length - 1
    why = _why_not(maps, start, last)
    if why:
        raise RangeRefused(errno.EPERM, f"0x{start:x}+0x{length:x} {why}")


def _why_not(maps: Maps, first: int, last: int) -> str:
    if last < first:
        return "is empty"
    if first % PAGE_BYTES or (last + 1) % PAGE_BYTES:
        return "is not whole pages"
    if first < LOWEST:
        return "begins below 1 MiB, which is the firmware's"
    if last > HIGHEST:
        return "ends beyond what mmap(2) can be asked for"
    for entry in maps.iomem:
        if not entry.fit and entry.overlaps(first, last):
            return f"is in use, by /proc/iomem: {entry.name:.31}"
    for entry in maps.firmware:
        if not entry.fit and entry.overlaps(first, last):
            return f"is not RAM, by /sys/firmware/memmap: {entry.name:.31}"
    if not _lies_in_one(maps.firmware, first, last):
        return "lies in no System RAM of /sys/firmware/memmap"
    if not _lies_in_one(maps.excluded, first, last):
        return "is not what mem= or memmap= told the kernel to leave"
    return ""


def _lies_in_one(entries: Iterable[Entry], first: int, last: int) -> bool:
    return any(entry.fit and entry.first <= first and last <= entry.last for entry in entries)


def largest(root: str) -> tuple[int, int]:
    """Start and length of the largest range that may be opened, the lowest of equals."""
    maps = read(root)
    unfit = sorted(e[:2] for e in (*maps.iomem, *maps.firmware) if not e.fit)
    gaps = []
    for excluded in maps.excluded:
        for ram in (entry for entry in maps.firmware if entry.fit):
            first, end = max(excluded.first, ram.first, LOWEST), min(excluded.last, ram.last)
            end = min(end, HIGHEST) + 1
            for unfit_first, unfit_last in (*unfit, (end, end)):
                gaps.append((first, min(unfit_first, end)))
                first = max(first, unfit_last + 1)
    whole = ((-(-first // PAGE_BYTES), end // PAGE_BYTES) for first, end in gaps)
    pages = max(((end - start, -start) for start, end in whole if start < end), default=None)
    if pages is None:
        raise RangeRefused(
            errno.ENODEV,
            "no RAM is reserved from this kernel; boot it with mem=, or take a guest that is: "
            "--in guest,append=mem=512M",
        )
    return -pages[1] * PAGE_BYTES, pages[0] * PAGE_BYTES


def read(root: str) -> Maps:
    """The maps of a file tree. Raises Refused where one is hidden, missing or no kernel's."""
    return Maps(iomem=_iomem(root), firmware=_firmware(root), excluded=_excluded(root))


def _whole(path: str) -> str:
    """A small text file of the kernel, read strictly: its last line has an end."""
    with open(path, "rb") as file:
        text = file.read(_LIMIT_BYTES)
    if len(text) == _LIMIT_BYTES:
        raise OSError(errno.EFBIG, "too long")
    if not text.endswith(b"\n") or b"\0" in text:
        raise OSError(errno.EBADMSG, "cut")
    return text.decode("latin-1")


def _map(root: str, path: str) -> str:
    try:
        return _whole(f"{root}{path}")
    except OSError as error:
        raise RangeRefused(error.errno or 0, f"{path} cannot be read whole") from None


def _iomem(root: str) -> list[Entry]:
    """ "  00100000-bfffffff : System RAM". The depth of the indent does not matter, because a range
    must be fit at every depth."""
    entries = []
    for number, line in enumerate(_map(root, "/proc/iomem").split("\n")[:-1], 1):
        match = _RESOURCE.fullmatch(line)
        first, last = (int(match[1], 16), int(match[2], 16)) if match else (1, 0)
        if not match or first > last:
            raise RangeRefused(errno.EBADMSG, f"line {number} of /proc/iomem is not the kernel's")
        if last == 0:
            raise RangeRefused(
                errno.EPERM, "/proc/iomem hides its addresses from whoever is not root"
            )
        entries.append(Entry(first, last, match[3] in _FIT, match[3]))
    if not any(entry.name == "System RAM" for entry in entries):
        raise RangeRefused(errno.EBADMSG, "/proc/iomem shows no System RAM")
    return entries


def _firmware(root: str) -> list[Entry]:
    folder = f"{root}/sys/firmware/memmap"
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError as error:
        why = "this kernel has no /sys/firmware/memmap, so that what is RAM is not known"
        raise RangeRefused(error.errno or 0, why) from None
    return [_firmware_entry(f"{folder}/{name}", name) for name in names]


def _firmware_entry(folder: str, name: str) -> Entry:
    try:
        first, last, kind = (_whole(f"{folder}/{part}")[:-1] for part in ("start", "end", "type"))
        ends = _ADDRESS.fullmatch(first), _ADDRESS.fullmatch(last)
        start, end = (int(item[1], 16) if item else -1 for item in ends)
        if not 0 <= start <= end or "\n" in kind:
            raise OSError(errno.EBADMSG, "no kernel's")
    except OSError as error:
        why = f"entry {name:.32} of /sys/firmware/memmap is not the kernel's"
        raise RangeRefused(error.errno or 0, why) from None
    return Entry(start, end, kind == "System RAM", kind)


def _excluded(root: str) -> list[Entry]:
    """By mem=, from which on x86 leaves all RAM alone, and memmap=nn$ss or nn!ss
    (admin-guide/kernel-parameters.txt). A word that is not understood excludes nothing, so nothing
    is opened because of it."""
    results = []
    for word in re.split("[ \n]+", _map(root, "/proc/cmdline")):
        if word == "--":  # what follows is for init
            break
        if word.startswith("mem=") and (limit := _size(word[4:])):
            results.append(Entry(limit, 2**64 - 1, True, "mem="))
        for part in word[7:].split(",") if word.startswith("memmap=") else ():
            length, _, start = part.replace("!", "$").partition("$")
            size, at = _size(length), _size(start)
            if size and at is not None and at + size <= 2**64:
                results.append(Entry(at, at + size - 1, True, "memmap="))
    return results


def _size(text: str) -> int | None:
    """A size as the kernel's memparse() reads it: decimal, 0x or 0 for octal, then a suffix."""
    match = _SIZE.fullmatch(text)
    if not match:
        return None
    octal = match[1].startswith("0") and match[1].isdigit()
    value = int(match[1], 8 if octal else 0) << 10 * (" KMGTPE".index(match[2].upper() or " "))
    return value if value < 2**64 else None

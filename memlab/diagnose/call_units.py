"""Causes that the arguments of a failing call tell, of EINVAL: what must be a multiple of
something, and is not.

Sources: mm/{mmap,mprotect,madvise,msync,mremap,mincore,mempolicy}.c, ksys_mmap_pgoff(),
sched_setaffinity() of Linux 6.18; open(2) of O_DIRECT.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memlab.diagnose import call_places
from memlab.diagnose.call_facts import PAGE, Cause, Facts, Reader, shown
from memlab.observe import files
from memlab.observe.proc import ROOT
from memlab.text.units import enumerated

_FIXED, _MOVES_TO, _ROUNDS = 0x10 | 0x10_0000, 2, 0o20000  # MAP_, MREMAP_FIXED; SHM_RND
_PIECES, _WRONG_SHOWN = 64, 3
_CPUS_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Unit:
    """An argument that must be a multiple of the page."""

    calls: str
    """Names, with spaces between."""
    argument: int
    """Its place."""
    name: str
    flags: tuple[int, int, int] = (0, 0, 0)
    """Only where these bits of this argument are as the last says: any, or none of them."""


ROWS = (
    Unit("mmap", 5, "the offset"),
    Unit("mmap", 0, "the fixed address", (3, _FIXED, True)),
    Unit("mprotect pkey_mprotect madvise msync munmap mincore mbind mremap remap_file_pages", 0,
         "the address"),
    Unit("mremap", 4, "the new address", (3, _MOVES_TO, True)),
    Unit("shmat", 1, "the address", (2, _ROUNDS, False)),
)  # fmt: skip
_LENGTHS = {"mmap": 1, "munmap": 1, "mremap": 2}
"""Which may not be 0."""
# Of reads and writes: which argument is the position, None at the file's own, and whether they have
# a list of buffers.
_DIRECT = {
    "read": (None, False), "write": (None, False), "readv": (None, True), "writev": (None, True),
    "pread64": (3, False), "pwrite64": (3, False), "preadv": (3, True), "pwritev": (3, True),
    "preadv2": (3, True), "pwritev2": (3, True),
}  # fmt: skip


def _multiple(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    for row in ROWS:
        place, bits, is_set = row.flags
        if call not in row.calls.split() or (bits and bool(arguments[place] & bits) != is_set):
            continue
        if rest := arguments[row.argument] % PAGE:
            value = arguments[row.argument]
            number = f"{value:#x}" if "address" in row.name else f"{value:,}"
            return Cause(
                f"{row.name} must be a multiple of the page ({PAGE:,} bytes), and is {number}: "
                f"{rest:,} too many",
                f"{row.name} of {call}",
                f"round it down to the page, and the length is to be {rest:,} more",
                harmless=True,
            )  # fmt: skip
    if call in _LENGTHS and not arguments[_LENGTHS[call]]:
        words = "no bytes are requested (a length of 0), as of a file that is empty"
        return Cause(words, f"the length of {call}", "no such call for 0 bytes", harmless=True)
    return None


def _direct(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """Of a descriptor that is now open with O_DIRECT."""
    number = arguments[0] & 0xFFFF_FFFF
    flags = facts.field(number, "flags")
    if flags is None or not int(flags, 8) & os.O_DIRECT:
        return None
    units = call_places.direct_units(facts.pid, number, facts.mounts)
    if units is None:
        return None
    at, is_list = _DIRECT[call]
    place = arguments[at] if at is not None else None
    if place is None or place >= 1 << 63:  # preadv2(2): at the file's own place
        appends = int(flags, 8) & os.O_APPEND and "write" in call
        place = 0 if appends else int(facts.field(number, "pos") or 0)
    wrong = [
        f"{name} is {value:,}" if name != "a buffer" else f"{name} is at {value:#x}"
        for name, value, unit in (
            *_buffers(facts, arguments, units, is_list=is_list),
            ("the position", place, units[1]),
        )
        if value % unit
    ]
    if not wrong:
        return None
    words = enumerated([*dict.fromkeys(wrong)][:_WRONG_SHOWN])
    memory = f", the address of a buffer of {units[0]:,}" if units[0] > 1 else ""
    return Cause(
        f"descriptor {number}, now {shown(facts.link(number))}, is open with O_DIRECT: length and "
        f"position must be multiples of {units[1]:,}{memory}, and {words}",
        "O_DIRECT", "aligned buffers (posix_memalign(3)), lengths and positions; no O_DIRECT",
        harmless=True,
    )  # fmt: skip


def _buffers(
    facts: Facts, arguments: Sequence[int], units: tuple[int, int], *, is_list: bool
) -> Iterator[tuple[str, int, int]]:
    pairs = [(arguments[1], arguments[2])]
    if is_list:
        raw = facts.memory(arguments[1], 16 * min(arguments[2], _PIECES))
        pairs = [*struct.iter_unpack("=QQ", raw[: len(raw) // 16 * 16])]
    for address, length in pairs:
        yield "the length", length, units[1]
        yield "a buffer", address, units[0]


def _processors(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """sched_setaffinity to none that there is."""
    count = min(arguments[1] & 0xFFFF_FFFF, _CPUS_BYTES)
    raw = facts.memory(arguments[2], count)
    text = (files.text(ROOT / "sys/devices/system/cpu/online") or "").strip()
    if len(raw) < count:
        return None
    mask = int.from_bytes(raw, "little")
    online = 0
    for part in text.split(",") if text else ():
        low, _, high = part.partition("-")
        online |= (2 << int(high or low)) - (1 << int(low))
    if mask and (not online or mask & online):
        return None
    what = "no CPU" if not mask else f"CPUs that are not online (online are {shown(text)})"
    return Cause(
        f"it is to run on {what}, by the mask that lies there now", "the mask of CPUs",
        "a mask with a CPU that it may use (cpuset.cpus.effective of its group; nproc(1))",
        harmless=True,
    )  # fmt: skip


READERS: tuple[tuple[str, str, Reader], ...] = (
    (" ".join({call: 0 for row in ROWS for call in row.calls.split()}), "EINVAL", _multiple),
    (" ".join(_DIRECT), "EINVAL", _direct),
    ("sched_setaffinity", "EINVAL", _processors),
)

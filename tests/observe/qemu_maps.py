"""QEMU's machine of 1 GiB as the maps of physical memory that its kernel would show."""

from .physical_maps import RAM, RESERVED, Entry, Maps

MIB = 2**20
TOP = 2**64 - 1


def span(start: int, length: int, name: str) -> Entry:
    return (start, start + length - 1, name)


# QEMU's machine with 1 GiB, as its firmware says.
QEMU: list[Entry] = [
    (0x0, 0x9FBFF, RAM),
    (0x9FC00, 0x9FFFF, RESERVED),
    (0xF0000, 0xFFFFF, RESERVED),
    (0x100000, 0x3FFDFFFF, RAM),
    (0x3FFE0000, 0x3FFFFFFF, RESERVED),
    (0xFFFC0000, 0xFFFFFFFF, RESERVED),
]
QEMU_LOW: list[Entry] = [
    (0x0, 0xFFF, RESERVED),
    (0x1000, 0x9FBFF, RAM),
    (0x9FC00, 0x9FFFF, RESERVED),
    (0xF0000, 0xFFFFF, RESERVED),
    (0xF0000, 0xFFFFF, "System ROM"),
]
QEMU_HIGH: list[Entry] = [
    (0x3FFE0000, 0x3FFFFFFF, RESERVED),
    (0x40000000, 0xFEBFFFFF, "PCI Bus 0000:00"),
    (0xFD000000, 0xFDFFFFFF, "0000:00:02.0"),
    (0xFEC00000, 0xFEC003FF, "IOAPIC 0"),
]
HALF = (512 * MIB, TOP)
MAPPED = (256 * MIB, 256 * MIB + 64 * MIB - 1)
KEPT = span(256 * MIB, 64 * MIB, RESERVED)


def split(at: Entry) -> list[Entry]:
    """QEMU's RAM with something else in it."""
    return [(0x100000, at[0] - 1, RAM), at, (at[1] + 1, 0x3FFDFFFF, RAM)]


def with_memmap(inside: list[Entry]) -> Maps:
    iomem = [*QEMU_LOW, *split(KEPT), *inside, *QEMU_HIGH]
    return Maps(QEMU, iomem, "memmap=64M$256M", [MAPPED])

"""The guard before /dev/mem on the maps of machines: what it finds, and what it refuses and why."""

import errno
from pathlib import Path

import pytest

from . import physical_maps
from .physical_maps import LEGACY, LOWEST, PAGE, RAM, RESERVED, Entry, Maps, asked, write
from .qemu_maps import HALF, MAPPED, MIB, QEMU, QEMU_HIGH, QEMU_LOW, TOP, split, with_memmap

GIB = 2**30

# As the kernels write them; and the largest range that may be mapped.
MACHINES: dict[str, tuple[Maps, tuple[int, int] | None]] = {
    "a firecracker with all of its memory": (
        Maps(
            [(0x0, 0x9FBFF, RAM), (0x9FC00, 0xFFFFF, RESERVED), (0x100000, 0xBFFFFFFF, RAM)],
            [
                (0x0, 0xFFF, RESERVED),
                (0x1000, 0x9FBFF, RAM),
                (0x9FC00, 0xFFFFF, RESERVED),
                (0xF0000, 0xFFFFF, "System ROM"),
                (0x100000, 0xBFFFFFFF, RAM),
                (0x1000000, 0x22090C7, "Kernel code"),
            ],
        ),
        None,
    ),
    "mem=512M": (
        Maps(
            QEMU,
            [
                *QEMU_LOW,
                (0x100000, 0x1FFFFFFF, RAM),
                (0x1000000, 0x1E00FFF, "Kernel code"),
                *QEMU_HIGH,
            ],
            "quiet mem=512M",
            [HALF],
        ),
        (512 * MIB, 0x3FFE0000 - 512 * MIB),
    ),
    "mem=500M, whose rounding up is a RAM buffer": (
        Maps(
            QEMU,
            [
                *QEMU_LOW,
                (0x100000, 500 * MIB - 1, RAM),
                (500 * MIB, 512 * MIB - 1, "RAM buffer"),
                *QEMU_HIGH,
            ],
            "mem=500M",
            [(500 * MIB, TOP)],
        ),
        (512 * MIB, 0x3FFE0000 - 512 * MIB),
    ),
    "memmap=64M$256M": (with_memmap([]), (256 * MIB, 64 * MIB)),
    "memmap=64M!256M": (
        Maps(
            QEMU,
            [*QEMU_LOW, *split((*MAPPED, LEGACY)), *QEMU_HIGH],
            "memmap=64M!256M",
            [MAPPED],
        ),
        (256 * MIB, 64 * MIB),
    ),
    "memmap=64M!256M, with a file system on it": (
        Maps(
            QEMU,
            [*QEMU_LOW, *split((*MAPPED, LEGACY)), (*MAPPED, "namespace0.0"), *QEMU_HIGH],
            "memmap=64M!256M",
            [MAPPED],
        ),
        None,
    ),
    "two of memmap=": (
        Maps(
            QEMU,
            [*QEMU_LOW, *split((0x10000000, 0x12FFFFFF, RESERVED)), *QEMU_HIGH],
            "memmap=16M$256M,32M$272M",
            [(0x10000000, 0x10FFFFFF), (0x11000000, 0x12FFFFFF)],
        ),
        (0x11000000, 32 * MIB),
    ),
    "a Reserved that the kernel made for itself": (
        Maps(QEMU, with_memmap([]).iomem, "quiet"),
        None,
    ),
    "an EFI laptop": (
        Maps(
            [
                (0x0, 0x9EFFF, RAM),
                (0x9F000, 0xFFFFF, RESERVED),
                (0x100000, 0x6B3E2FFF, RAM),
                (0x6B3E3000, 0x6C3E2FFF, RESERVED),
                (0x6C3E3000, 0x6C4A9FFF, "ACPI Non-volatile Storage"),
                (0x6C4AA000, 0x6C52EFFF, "ACPI Tables"),
                (0x6C52F000, 0x6C52FFFF, RAM),
                (0x100000000, 0x47E7FFFFF, RAM),
            ],
            [
                (0x0, 0xFFF, RESERVED),
                (0x1000, 0x9EFFF, RAM),
                (0x9F000, 0xFFFFF, RESERVED),
                (0x100000, 0x5E2A1017, RAM),
                (0x5E2A2000, 0x5E2A2FFF, RESERVED),  # EFI's table of what may be updated
                (0x5E2A3000, 0x6B3E2FFF, RAM),
                (0x6B3E3000, 0x6C3E2FFF, RESERVED),
                (0x6C3E3000, 0x6C4A9FFF, "ACPI Non-volatile Storage"),
                (0x6C4AA000, 0x6C52EFFF, "ACPI Tables"),
                (0x6C52F000, 0x6C52FFFF, RAM),
                (0x100000000, 0x47E7FFFFF, RAM),
                (0x47E800000, 0x47FFFFFFF, "RAM buffer"),
            ],
            "BOOT_IMAGE=/boot/vmlinuz root=UUID=1 ro quiet",
        ),
        None,
    ),
    "an EFI laptop with mem=4G": (
        Maps(
            [(0x100000, 0x6B3E2FFF, RAM), (0x100000000, 0x47E7FFFFF, RAM)],
            [(0x100000, 0x6B3E2FFF, RAM), (0x400000000, 0x4FFFFFFFF, "PCI Bus 0000:00")],
            "mem=4G",
            [(4 * GIB, TOP)],
        ),
        (4 * GIB, 12 * GIB),
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_machines(name: str, tmp_path: Path) -> None:
    maps, expected = MACHINES[name]
    root = maps.write(tmp_path)
    assert physical_maps.largest(root) == expected
    for first, last, _ in [*maps.iomem, *maps.firmware]:
        start = first // PAGE * PAGE
        for length in (PAGE, (last - start) // PAGE * PAGE + PAGE):
            for at in (start, start - PAGE, start + PAGE):
                if at >= 0:
                    assert asked(root, at, length)["permitted"] == maps.may(at, length)


@pytest.mark.parametrize("name", [name for name, (_, range_) in MACHINES.items() if range_])
def test_one_page_more_on_either_side_is_refused(name: str, tmp_path: Path) -> None:
    maps, expected = MACHINES[name]
    assert expected is not None
    start, length = expected
    root = maps.write(tmp_path)
    assert asked(root, start, length)["permitted"]
    assert asked(root, start + length - PAGE, PAGE)["permitted"]
    assert not asked(root, start - PAGE, length)["permitted"]
    assert not asked(root, start, length + PAGE)["permitted"]
    assert not asked(root, start + length, PAGE)["permitted"]


@pytest.mark.parametrize(
    ("start", "length", "why"),
    [
        (MAPPED[0], 0, "is empty"),
        (MAPPED[0], 1, "is not whole pages"),
        (MAPPED[0] + 1, PAGE, "is not whole pages"),
        (0, PAGE, "begins below 1 MiB"),
        (LOWEST - PAGE, 2 * PAGE, "begins below 1 MiB"),
        (2**64 - PAGE, 2 * PAGE, "ends beyond"),
        (2**63, PAGE, "ends beyond"),
        (2**63 - PAGE, 2 * PAGE, "ends beyond"),
        (MAPPED[0], 2**64 - PAGE, "ends beyond"),
        (MAPPED[0] - PAGE, 2 * PAGE, "is in use, by /proc/iomem: System RAM"),
        (LOWEST, PAGE, "is in use, by /proc/iomem: System RAM"),
        (0x3FFE0000, PAGE, "is not RAM, by /sys/firmware/memmap: Reserved"),
        (0x3FFD0000, 0x20000, "is in use, by /proc/iomem: System RAM"),
        (4 * GIB, PAGE, "lies in no System RAM"),
    ],
)
def test_refusals_say_why(start: int, length: int, why: str, tmp_path: Path) -> None:
    answer = asked(with_memmap([]).write(tmp_path), start, length)
    assert (answer["permitted"], answer["refusal_errno"]) == (False, errno.EPERM)
    assert why in answer["refusal"]


@pytest.mark.parametrize(
    "child",
    ["System RAM", "Crash kernel", "Kernel code", "reserved", "Reserved ", "RESERVED", "Reserve"],
)
def test_what_lies_in_the_reserved_counts(child: str, tmp_path: Path) -> None:
    lines = with_memmap([(MAPPED[0] + 8 * MIB, MAPPED[0] + 9 * MIB - 1, child)]).iomem
    text = "".join(
        f"{'    ' * (name == child)}{first:08x}-{last:08x} : {name}\n"
        for first, last, name in lines
    )
    root = write(tmp_path, text, QEMU, "memmap=64M$256M")
    assert not asked(root, MAPPED[0], 64 * MIB)["permitted"]
    assert not asked(root, MAPPED[0] + 8 * MIB, PAGE)["permitted"]
    assert physical_maps.largest(root) == (MAPPED[0] + 9 * MIB, 55 * MIB)


def test_a_range_over_two_entries_of_the_firmware_is_refused(tmp_path: Path) -> None:
    """Though they touch, and both are RAM: where one ends the firmware had a reason."""
    firmware = [(0x100000, 0x107FFFFF, RAM), (0x10800000, 0x3FFDFFFF, RAM)]
    root = Maps(firmware, with_memmap([]).iomem, "memmap=64M$256M").write(tmp_path)
    assert asked(root, 0x10000000, 8 * MIB)["permitted"]
    assert asked(root, 0x10800000, 56 * MIB)["permitted"]
    assert not asked(root, 0x10000000, 64 * MIB)["permitted"]
    assert physical_maps.largest(root) == (0x10800000, 56 * MIB)


@pytest.mark.parametrize(
    "over", ["Reserved", "ACPI Tables", "ACPI Non-volatile Storage", "Unusable memory", "Soft"]
)
def test_ram_that_another_entry_of_the_firmware_overlaps_is_refused(
    over: str, tmp_path: Path
) -> None:
    firmware = [*QEMU, (MAPPED[0] + PAGE, MAPPED[0] + 2 * PAGE - 1, over)]
    root = Maps(firmware, with_memmap([]).iomem, "memmap=64M$256M").write(tmp_path)
    assert not asked(root, MAPPED[0], 64 * MIB)["permitted"]
    assert asked(root, MAPPED[0], PAGE)["permitted"]
    assert not asked(root, MAPPED[0] + PAGE, PAGE)["permitted"]


def test_an_entry_that_ends_at_the_last_address(tmp_path: Path) -> None:
    firmware: list[Entry] = [(0x100000, TOP, RAM)]
    iomem: list[Entry] = [(0x100000, GIB - 1, RAM), (2 * GIB, TOP, "PCI Bus 0000:00")]
    root = Maps(firmware, iomem, "mem=1G").write(tmp_path / "one")
    assert physical_maps.largest(root) == (GIB, GIB)
    assert not asked(root, TOP - PAGE + 1, PAGE)["permitted"]
    root = Maps(firmware, iomem[:1], "mem=1G").write(tmp_path / "other")
    assert physical_maps.largest(root) == (GIB, 2**63 - GIB)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("mem=256M", True),
        ("mem=0x10000000", True),
        ("mem=262144k", True),
        ("mem=02000000000", True),
        ("mem=320M mem=256M", True),
        ("memmap=1M$1M,64M$256M", True),
        ("memmap=junk,64M!256M", True),
        ("memmap=67108864$0x10000000", True),
        ("mem=nopentium", False),
        ("mem=0", False),
        ("mem=-1", False),
        ("mem=257M", False),
        ("mem=256Mx", False),
        ("mem=256MB", False),
        ("mem=99999999999999999999", False),
        ("mem=16E", False),
        ("xmem=256M", False),
        ("-- mem=256M", False),
        ("memmap=64M@256M", False),
        ("memmap=64M#256M", False),
        ("memmap=63M$256M", False),
        ("memmap=64M$257M", False),
        ("memmap=64M$", False),
        ("memmap=0$256M", False),
        ("memmap=0xffffffffffffffff$256M", False),
        ("memmap=exactmap", False),
        ("", False),
    ],
)
def test_what_the_command_line_tells(words: str, told: bool, tmp_path: Path) -> None:
    root = Maps(QEMU, with_memmap([]).iomem, words).write(tmp_path)
    answer = asked(root, MAPPED[0], 64 * MIB)
    assert answer["permitted"] == told
    if not told:
        assert "is not what mem= or memmap= told the kernel to leave" in answer["refusal"]

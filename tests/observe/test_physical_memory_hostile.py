"""The guard before /dev/mem on maps that are hidden, cut or no kernel's: nothing is permitted."""

import errno
from pathlib import Path

import pytest

from . import physical_maps
from .physical_maps import PAGE, asked, found, write
from .qemu_maps import MAPPED, MIB, QEMU, with_memmap

GIB = 2**30


GOOD = "00100000-0fffffff : System RAM\n10000000-13ffffff : Reserved\n"


@pytest.mark.parametrize(
    ("iomem", "number", "why"),
    [
        ("", errno.EBADMSG, "cannot be read whole"),
        (GOOD[:-1], errno.EBADMSG, "cannot be read whole"),
        (GOOD + "00", errno.EBADMSG, "cannot be read whole"),
        (GOOD + "\0\n", errno.EBADMSG, "cannot be read whole"),
        (GOOD + "x" * (5 * MIB), errno.EFBIG, "cannot be read whole"),
        (GOOD + "\n", errno.EBADMSG, "line 3 of /proc/iomem is not the kernel's"),
        (GOOD.replace("\n", "\r\n"), errno.EBADMSG, "line 1 of"),
        (GOOD.replace(" : ", ": "), errno.EBADMSG, "line 1 of"),
        (GOOD + "20000000-1fffffff : Reserved\n", errno.EBADMSG, "line 3 of"),
        (GOOD + "20000000-2fffffff : \n", errno.EBADMSG, "line 3 of"),
        (GOOD + "20000000-2fffffff : a\tb\n", errno.EBADMSG, "line 3 of"),
        (GOOD + "0x20000000-0x2fffffff : a\n", errno.EBADMSG, "line 3 of"),
        (GOOD + "\t20000000-2fffffff : a\n", errno.EBADMSG, "line 3 of"),
        (GOOD + "-2fffffff : a\n", errno.EBADMSG, "line 3 of"),
        (GOOD + "20000000 : a\n", errno.EBADMSG, "line 3 of"),
        (GOOD + f"{'0' * 17}-{'f' * 17} : a\n", errno.EBADMSG, "line 3 of"),
        (GOOD + f"{'9' * 5000}-{'9' * 5000} : a\n", errno.EBADMSG, "line 3 of"),
        ("00000000-00000000 : System RAM\n" * 2, errno.EPERM, "hides its addresses"),
        (GOOD + "00000000-00000000 : System RAM\n", errno.EPERM, "hides its addresses"),
        ("10000000-13ffffff : Reserved\n", errno.EBADMSG, "shows no System RAM"),
    ],
)
def test_an_iomem_that_is_hidden_or_no_kernels_permits_nothing(
    iomem: str, number: int, why: str, tmp_path: Path
) -> None:
    root = write(tmp_path, iomem, QEMU, "memmap=64M$256M")
    for answer in (asked(root, MAPPED[0], PAGE), found(root)):
        assert (answer["permitted"], answer["refusal_errno"]) == (False, number)
        assert why in answer["refusal"]


def test_a_long_name_is_a_name(tmp_path: Path) -> None:
    text = GOOD + f"{' ' * 40}10000000-10000fff : Reserved {'x' * 9000}\n"
    root = write(tmp_path, text, QEMU, "memmap=64M$256M")
    assert not asked(root, MAPPED[0], PAGE)["permitted"]
    assert asked(root, MAPPED[0] + PAGE, PAGE)["permitted"]


@pytest.mark.parametrize(
    ("start", "end", "kind"),
    [
        ("0x20000000\n", "0x1fffffff\n", "System RAM\n"),
        ("0x20000000", "0x2fffffff\n", "System RAM\n"),
        ("20000000\n", "0x2fffffff\n", "System RAM\n"),
        ("0x20000000\n", "0x2fffffff\r\n", "System RAM\n"),
        ("0x20000000\n", "0x2fffffff\n", "System RAM"),
        ("0x20000000\n", "0x2fffffff\n", ""),
        ("0x20000000\n", "0x2fffffff\n", "System RAM\nReserved\n"),
        ("0x20000000\n0x0\n", "0x2fffffff\n", "System RAM\n"),
        ("", "0x2fffffff\n", "System RAM\n"),
        ("0x\n", "0x2fffffff\n", "System RAM\n"),
        ("0x20000000\n", f"0x{'f' * 17}\n", "System RAM\n"),
        ("-0x1\n", "0x2fffffff\n", "System RAM\n"),
    ],
)
def test_an_entry_of_the_firmware_that_is_no_kernels_permits_nothing(
    start: str, end: str, kind: str, tmp_path: Path
) -> None:
    root = with_memmap([]).write(tmp_path)
    assert asked(root, MAPPED[0], PAGE)["permitted"]
    physical_maps.write_entry(root, "99", start, end, kind)
    for answer in (asked(root, MAPPED[0], PAGE), found(root)):
        assert (answer["permitted"], answer["refusal_errno"]) == (False, errno.EBADMSG)
        assert "entry 99 of /sys/firmware/memmap is not the kernel's" in answer["refusal"]


@pytest.mark.parametrize("missing", ["start", "end", "type"])
def test_an_entry_without_one_of_its_files_permits_nothing(missing: str, tmp_path: Path) -> None:
    root = with_memmap([]).write(tmp_path)
    (root / "sys/firmware/memmap/0" / missing).unlink()
    answer = asked(root, MAPPED[0], PAGE)
    assert (answer["permitted"], answer["refusal_errno"]) == (False, errno.ENOENT)


def test_a_type_with_a_carriage_return_is_no_ram(tmp_path: Path) -> None:
    root = with_memmap([]).write(tmp_path)
    (root / "sys/firmware/memmap/3/type").write_text("System RAM\r\n", newline="")
    assert not asked(root, MAPPED[0], PAGE)["permitted"]


@pytest.mark.parametrize("kind", ["64-bit Arm", "x86 without CONFIG_FIRMWARE_MEMMAP"])
def test_without_a_map_of_the_firmware_nothing_is_permitted(kind: str, tmp_path: Path) -> None:
    """arm64 gives no map, and its mem= is an amount and no address."""
    iomem = (
        "40000000-5fffffff : System RAM\n  40210000-4178ffff : Kernel code\n"
        "  417f0000-41c8ffff : Kernel data\n  5c000000-5dffffff : reserved\n"
        if kind == "64-bit Arm"
        else GOOD
    )
    root = write(tmp_path, iomem, [], "mem=512M")
    for answer in (asked(root, 0x60000000, 64 * MIB), found(root)):
        assert (answer["permitted"], answer["refusal_errno"]) == (False, errno.ENOENT)
        assert "no /sys/firmware/memmap" in answer["refusal"]


@pytest.mark.parametrize("gone", ["proc/iomem", "proc/cmdline"])
def test_without_one_of_the_files_nothing_is_permitted(gone: str, tmp_path: Path) -> None:
    root = with_memmap([]).write(tmp_path)
    (root / gone).unlink()
    answer = asked(root, MAPPED[0], PAGE)
    assert (answer["permitted"], answer["refusal_errno"]) == (False, errno.ENOENT)
    assert gone in answer["refusal"]


@pytest.mark.parametrize(
    "text",
    [
        *("5", "0x10000000", "0x10000000+", "+0x1000", "10000000+1000", "0x10000000+0x1000 "),
        *("0x+0x1000", "0x10000000-0x10000fff", "0x10000000+0x1000+0x1000", "0x10000000+0x"),
        *(f"0x{'1' * 17}+0x1000", " 0x10000000+0x1000", "0x10000000 +0x1000"),
        *("-0x10000000+0x1000", "0X10000000+0x1000"),
    ],
)
def test_a_range_in_other_words_is_refused(text: str, tmp_path: Path) -> None:
    root = with_memmap([]).write(tmp_path)
    answer = physical_maps.answer(root, text)
    assert (answer["permitted"], answer["refusal_errno"]) == (False, errno.EINVAL)

"""The /proc parsers, on texts as kernels write them, and the readers on this very process."""

import os
from pathlib import Path

import pytest

from memlab.observe import proc

MEMINFO = "MemTotal:       24684096 kB\nHugePages_Total:       4\nActive(anon):       1528 kB\n"

STATUS = (
    "Name:\tweird: (name) x\nUmask:\t0022\nVmLck:\t       8 kB\nGroups:\t \n"
    "CapEff:\t000001fffeffffff\nCpus_allowed_list:\t0-1\n"
)

INTERRUPTS = (
    "            CPU0       CPU1       \n"
    "   0:         12          0   IO-APIC   2-edge      timer\n"
    " RES:       3887       3332   Rescheduling interrupts\n"
    " TLB:       1005        904   TLB shootdowns\n"
    " ERR:          0\n"
)


MOUNTINFO = (
    "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
    "28 27 0:25 /sub /mnt/a\\040b\\134c ro shared:1 master:2 - fuse.s\\043x no\\011ne ro\n"
)

SWAPS = (
    "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    "/swap\\040file                           file\t\t65532\t\t4\t\t-2\n"
)


def stat_of(command: str) -> str:
    return f"77 ({command}) S 1 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654321 4096 12 0\n"


def test_meminfo_is_in_bytes_and_page_counts_are_counts() -> None:
    assert proc.parse_meminfo(MEMINFO) == {
        "MemTotal": 24684096 * 1024,
        "HugePages_Total": 4,
        "Active(anon)": 1528 * 1024,
    }


def test_meminfo_refuses_another_file() -> None:
    with pytest.raises(ValueError, match="meminfo: expected 'name: value', found 'cpu 1 2'"):
        proc.parse_meminfo("cpu 1 2\n")


def test_status_keeps_values_as_written_and_sizes_are_read_when_asked() -> None:
    status = proc.parse_status(STATUS)
    assert status["Name"] == "weird: (name) x"
    assert status["Groups"] == ""
    assert proc.status_bytes(status, "VmLck") == 8192
    assert proc.status_bytes(status, "VmPin") is None


def test_vmstat() -> None:
    assert proc.parse_vmstat("nr_free_pages 12\npgfault 0\n") == {"nr_free_pages": 12, "pgfault": 0}
    with pytest.raises(ValueError, match="vmstat"):
        proc.parse_vmstat("nr_free_pages: 12 kB\n")


@pytest.mark.parametrize(
    ("label", "counts"),
    [("TLB", (1005, 904)), ("RES", (3887, 3332)), ("0", (12, 0)), ("ERR", (0,)), ("LOC", None)],
)
def test_an_interrupt_row_has_a_count_a_cpu(label: str, counts: tuple[int, ...] | None) -> None:
    assert proc.parse_interrupts(INTERRUPTS, label) == counts


@pytest.mark.parametrize("command", ["sh", "a b", "x) S 1 (y", "((", "))", ""])
def test_the_start_time_survives_any_command_name(command: str) -> None:
    assert proc.parse_life(stat_of(command)).start_ticks == 987654321


@pytest.mark.parametrize("text", ["", "77 (sh", "77 (sh) S 1 2 3"])
def test_a_cut_stat_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at least 22 fields"):
        proc.parse_life(text)


def test_mounts_are_unescaped_and_optional_fields_skipped() -> None:
    root, odd = proc.parse_mountinfo(MOUNTINFO)
    assert (root.mount_id, root.mount_point, root.filesystem) == (27, "/", "ext4")
    assert root.super_options == {"rw", "discard"}
    assert (odd.root, odd.mount_point) == ("/sub", "/mnt/a b\\c")
    assert (odd.filesystem, odd.source, odd.options) == ("fuse.s#x", "no\tne", {"ro"})


def test_a_cut_mount_line_is_refused() -> None:
    with pytest.raises(ValueError, match="mountinfo"):
        proc.parse_mountinfo("27 1 254:0 / /\n")


def test_swaps_in_bytes() -> None:
    assert proc.parse_swaps(SWAPS) == [
        {
            "path": "/swap file",
            "type": "file",
            "size_bytes": 65532 * 1024,
            "used_bytes": 4096,
            "priority": -2,
        }
    ]
    assert proc.parse_swaps("Filename Type Size Used Priority\n") == []
    with pytest.raises(ValueError, match="swaps"):
        proc.parse_swaps("Filename\n/dev/sda1 partition\n")


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        proc.meminfo(tmp_path)


def test_a_long_file_is_read_whole(tmp_path: Path) -> None:
    long = tmp_path / "long"
    long.write_text("x" * (3 << 20))
    assert len(proc.read(long)) == 3 << 20


def test_this_process_is_read_from_the_running_kernel() -> None:
    status = proc.status()
    assert int(status["Pid"]) == os.getpid()
    assert proc.status_bytes(status, "VmRSS") > 0  # type: ignore[operator]
    assert proc.start_ticks() == proc.start_ticks(os.getpid()) > 0
    assert proc.start_ticks(os.getppid()) <= proc.start_ticks()
    assert proc.meminfo()["MemTotal"] >= proc.meminfo()["MemFree"]
    assert proc.vmstat()["pgfault"] > 0
    assert len(proc.boot_id()) == 36


def test_the_filesystem_of_a_path_is_the_kernels_own() -> None:
    assert proc.filesystem_of(Path("/proc/self/status")) == "proc"
    with pytest.raises(FileNotFoundError):
        proc.filesystem_of(Path("/no/such/path"))


def test_the_filesystem_is_known_in_a_chroot_that_is_no_mount_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = proc.filesystem_of(tmp_path)
    monkeypatch.setattr(proc, "mounts", list)  # none of ours is the root's
    assert proc.filesystem_of(Path("/proc/self/status")) == "proc"
    assert proc.filesystem_of(tmp_path) in (usual, "ext2/3/4")


def test_looking_up_a_mount_leaks_no_descriptor(tmp_path: Path) -> None:
    before = {fd.name for fd in Path("/proc/self/fd").iterdir()}
    proc.filesystem_of(tmp_path)
    assert {fd.name for fd in Path("/proc/self/fd").iterdir()} == before

"""What /proc tells of a process: on texts as kernels write them, and on this very process."""

import mmap
import os
from pathlib import Path

import pytest

from memlab.observe import cgroup, process

from .trees import HYBRID, V2, grow

STAT = (
    "4711 (a (b) c) S 1 4711 4711 0 -1 {flags} 11 12 13 14 150 50 0 0 20 0 3 0 987654 "
    "1000 10 18446744073709551615\n"
)
MAPS = (
    "00400000-00401000 r-xp 00000000 fe:00 1   /bin/a program (deleted)\n"
    "7f00-8f00 ---p 00000000 00:00 0 \n"
    "8f00-9f00 rw-p 00000000 00:00 0 \n"
)
SMAPS = (
    "1000-2000 ---p 00000000 00:00 0 \nSize: 4 kB\nLocked:  0 kB\nVmFlags: mr mw me lo \n"
    "2000-4000 rw-p 00000000 00:00 0 \nSize: 8 kB\nLocked:  8 kB\nVmFlags: rd wr lo \n"
    "5000-6000 rw-p 00000000 00:00 0   [heap]\nPss: 2048 kB\nVmFlags: rd wr \n"
)
ROLLUP = "1000-2000 ---p 00000000 00:00 0    [rollup]\nRss:  8 kB\nLocked:   4 kB\n"
LIMITS = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  8388608  unlimited  bytes\n"


def test_stat_counts_its_fields_from_the_last_parenthesis() -> None:
    stat = process.parse_stat(STAT.format(flags=0x40_0040))
    assert stat == process.Stat("a (b) c", "S", False, 11, 13, 200, 50, 987654, 12, 0)


def test_stat_of_a_kernel_thread() -> None:
    assert process.parse_stat(STAT.format(flags=0x20_8040)).kernel_thread


def test_maps() -> None:
    found = process.parse_maps(MAPS)
    assert [(m.size_bytes, m.permissions, m.path) for m in found] == [
        (4096, "r-xp", "/bin/a program (deleted)"),
        (4096, "---p", ""),
        (4096, "rw-p", ""),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python3 -", True),
        ("/usr/bin/python3.11 -u -X dev - data.txt", True),
        ("python3 -Ximporttime", True),
        ("sh", True),
        ("bash -euo pipefail", True),
        ("bash -es file", True),
        ("node /dev/stdin", True),
        ("perl -w", True),
        ("sh -", True),
        ("bash - script.sh", False),
        ("php -m", False),
        ("lua -v", False),
        ("python3 app.py -", False),
        ("python3 -uc text", False),
        ("python3 -mtimeit", False),
        ("python3 -V", False),
        ("python3 --version", False),
        ("bash -ec text", False),
        ("sh -x app.sh", False),
        ("perl -ne text", False),
        ("tar xf -", False),
        ("shellcheck -", False),
        ("", False),
    ],
)
def test_which_commands_read_their_program_from_standard_input(line: str, expected: bool) -> None:
    assert process.reads_program(line.split()) == expected


def test_smaps_has_sizes_and_flags() -> None:
    guard, stack, heap = process.parse_maps(SMAPS)
    assert guard.flags == {"mr", "mw", "me", "lo"}
    assert stack.bytes_by_field == {"Locked": 8192}
    assert heap.bytes_by_field == {"Pss": 2 << 20}


@pytest.mark.parametrize("text", ["rubbish\n", "7f00 rw-p\n"])
def test_what_is_not_a_map_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="maps: expected"):
        process.parse_maps(text)


def test_a_stack_lies_on_a_small_guard_and_has_no_name() -> None:
    assert [m.start for m in process.thread_stacks(process.parse_maps(SMAPS))] == [0x2000]
    arena = SMAPS.replace("1000-2000", "1000-2000").replace("2000-4000", "3000-4000")
    assert process.thread_stacks(process.parse_maps(arena)) == []
    large = "10000-90000 ---p 0 0:0 0\n90000-91000 rw-p 0 0:0 0\n"  # the rest of an arena
    assert process.thread_stacks(process.parse_maps(large)) == []


def test_rollup() -> None:
    assert process.parse_rollup(ROLLUP) == {"Rss": 8192, "Locked": 4096}


def test_environ_and_limits() -> None:
    assert process.parse_environ("A=1\0B=x=y\0no\0") == {"A": "1", "B": "x=y"}
    cut = "GLIBC_TUNABLES=glibc.malloc.top_pad=1\0B=2\0glibc.malloc.arena_max=3\0"
    assert process.parse_environ(cut) == {
        "GLIBC_TUNABLES": "glibc.malloc.top_pad=1:glibc.malloc.arena_max=3",
        "B": "2",
    }
    assert process.parse_limit(LIMITS, "Max locked memory") == 8 << 20
    unlimited = LIMITS.replace("8388608", "unlimited")
    assert process.parse_limit(unlimited, "Max locked memory") is None


def test_interrupts_by_cpu_name_the_cpus_that_are_online() -> None:
    text = "      CPU0  CPU2\nTLB:  10  20  TLB shootdowns\n"
    assert process.parse_interrupts_by_cpu(text, "TLB") == {0: 10, 2: 20}
    assert process.parse_interrupts_by_cpu(text, "RES") is None


def test_the_readers_on_this_process() -> None:
    pid = os.getpid()
    with mmap.mmap(-1, 4 << 20) as held:
        mappings = process.maps(pid)
        assert any(m.size_bytes >= len(held) for m in mappings)
    assert process.stat(pid).command == Path("/proc/self/comm").read_text().strip()
    assert process.task_command(pid, pid) == process.stat(pid, pid).command
    assert pid in process.tasks(pid)
    assert process.rollup(pid)["Rss"] > 0
    assert {m.path for m in process.smaps(pid)} >= {"[stack]"}
    assert process.environ(pid)["PATH"] == os.environ["PATH"]
    assert process.command_line(pid)


@pytest.mark.parametrize("tree", [HYBRID, V2])
def test_the_group_of_another_process(tmp_path: Path, tree: dict[str, str]) -> None:
    other = {"proc/4711/cgroup": tree["proc/self/cgroup"], "proc/self/cgroup": "0::/other\n"}
    root = grow(tmp_path, tree | other)
    found = cgroup.locate(root, 4711)
    assert found.memory_dir is not None
    assert found.memory_dir.name in ("job", "app.scope")


def test_a_file_is_opened_by_its_path_from_here_if_it_is_the_one(tmp_path: Path) -> None:
    """As of a chroot's process: the kernel gives the path from the root of who reads maps."""
    file = tmp_path / "jail/lib/x.so"
    file.parent.mkdir(parents=True)
    file.write_text("")
    path, inode = "/jail/lib/x.so", file.stat().st_ino
    mapping = process.Mapping(0x1000, 0x2000, "r-xp", path, inode=inode)
    of_process = [tmp_path / f"proc/7/{it}" for it in ("map_files/1000-2000", "root" + path)]
    assert list(process.files_of(7, mapping, tmp_path)) == [*of_process, file]
    other = mapping._replace(inode=inode + 1)
    assert list(process.files_of(7, other, tmp_path)) == of_process
    deleted = mapping._replace(path=path + process.DELETED)
    assert list(process.files_of(7, deleted, tmp_path)) == of_process[:1]

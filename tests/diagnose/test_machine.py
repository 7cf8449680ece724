"""The whole machine: what all of its memory is, and what a program adds to a line of it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import needs
import pytest
from command import memlab

import memlab as api
from memlab.diagnose import (
    diagnosis,
    machine,
    machine_account,
    removed_groups,
    room,
    sockets,
)
from memlab.diagnose.account import Part
from memlab.diagnose.documents import Diagnose
from memlab.diagnose.finding import Finding, size
from memlab.diagnose.machine import MachineLook, MachineProcess
from memlab.diagnose.removed_groups import RemovedGroups
from memlab.diagnose.room import TmpfsUse
from memlab.errors import CannotLook
from memlab.machines.guest.image import CGROUP_V1
from memlab.observe import proc, process
from memlab.observe.cgroup import Cgroups
from memlab.observe.proc import Mount

from .live import running

MiB, GiB = 1 << 20, 1 << 30

COUNTERS = {
    "MemTotal": 16 * GiB, "MemFree": 9 * GiB, "MemAvailable": 11 * GiB, "Buffers": 128 * MiB,
    "Cached": 2 * GiB + 256 * MiB, "Shmem": 256 * MiB, "Dirty": 32 * MiB, "AnonPages": 3 * GiB,
    "Active(anon)": 3 * GiB, "Inactive(anon)": 256 * MiB, "SReclaimable": 512 * MiB,
    "KReclaimable": 512 * MiB, "SUnreclaim": 256 * MiB, "KernelStack": 16 * MiB,
    "PageTables": 48 * MiB, "Percpu": 16 * MiB, "Hugetlb": 0, "HugePages_Total": 0,
    "HugePages_Free": 0, "HugePages_Rsvd": 0, "Hugepagesize": 2 * MiB, "VmallocUsed": 32 * MiB,
}  # fmt: skip


def seen(**changes: int) -> MachineLook:
    """A machine of 16 GiB; the counters that are given are other ones."""
    counters = COUNTERS | changes
    first = MachineProcess(7, "big", 3 * GiB, 2 * GiB, 2 * GiB)
    return MachineLook(
        seconds=10.0, total_bytes=counters["MemTotal"], available_bytes=counters["MemAvailable"],
        counters=counters, growth_bytes={}, cpu_lists_bytes=96 * MiB, zram_bytes=0,
        balloon_bytes=0, vmalloc_bytes=16 * MiB, socket_bytes=0, processes=40,
        resident_sum_bytes=5 * GiB, proportional_sum_bytes=4 * GiB, anonymous_sum_bytes=3 * GiB,
        members=(first,), slab=(Part("dentry", 400 * MiB),),
        fixed_slab=(Part("kmalloc-1k", 200 * MiB), Part("pid", 1 * MiB)), vmalloc=(),
        tmpfs=(TmpfsUse("/dev/shm", 200 * MiB, 8 * GiB),), shared=(), not_looked_at=(),
    )  # fmt: skip


def said(look: MachineLook) -> dict[str, Finding]:
    return {one.name: one for one in machine_account.findings(look)}


def test_the_lines_add_up_to_the_total_and_what_no_counter_has_is_the_rest() -> None:
    whole = machine_account.of(seen())
    known = 9216 + 96 + 3072 + (2304 + 128 - 256 - 32) + 32 + 256 + 512 + 256 + 16 + 48 + 16 + 16
    assert whole.rest == 16 * GiB - known * MiB
    (more,) = [one for one in machine_account.of(seen(SUnreclaim=512 * MiB)).lines
               if one.name == machine_account.FIXED_SLAB]  # fmt: skip
    assert more.value == 512 * MiB
    assert machine_account.of(seen(SUnreclaim=512 * MiB)).rest == whole.rest - 256 * MiB


def test_what_is_used_is_said_by_its_parts_and_beside_the_sum_of_resident_memory() -> None:
    title = said(seen())["machine-used"].title
    assert title.startswith("5 GiB are used, as free(1) has it")
    assert "3 GiB anonymous" in title
    assert "the resident memory of 40 processes adds up to 5 GiB, at most 4" in title
    title = said(replace(seen(), processes=1))["machine-used"].title
    assert "adds up to 5 GiB, 4 GiB if what they share counts once" in title
    unread = replace(seen().members[0], proportional_bytes=None)
    finding = said(replace(seen(), processes=1, members=(unread,)))["machine-used"]
    assert "adds up to 5 GiB, at most 4 GiB if what they share counts once" in finding.title
    names = [fact.name for fact in finding.evidence]
    assert "of it found in processes" not in names
    assert "in processes, where what those share that were not read counts in each" in names
    assert "of it found in processes" in [
        fact.name for fact in said(seen())["machine-used"].evidence
    ]


def test_a_reserve_is_said_with_its_setting_and_advice_is_for_one_that_somebody_raised() -> None:
    look = replace(seen(MemFree=9 * GiB), available_bytes=4 * GiB, min_free_bytes=2 * GiB)
    raised = said(look)["machine-used"]
    assert "kept in reserve by the kernel (vm.min_free_kbytes is 2 GiB)" in raised.title
    assert "sysctl vm.min_free_kbytes" in raised.setting
    for min_free in (64 * MiB, 0):
        finding = said(replace(look, min_free_bytes=min_free))["machine-used"]
        assert finding.setting == "", "the reserve is large by another setting"
        assert ("vm.min_free_kbytes is 64 MiB" in finding.title) == bool(min_free)
    finding = said(replace(seen(), min_free_bytes=64 * MiB))["machine-used"]
    assert finding.setting == ""


def test_only_caches_that_the_kernel_cannot_drop_are_named_as_such() -> None:
    title = said(seen(SUnreclaim=1 * GiB))["machine-slab"].title
    assert "kmalloc-1k 200 MiB" in title
    assert "dentry" not in title


@pytest.mark.parametrize("name", ["ext4_inode_cache", "radix_tree_node", "buffer_head"])
def test_what_can_be_dropped_is_named_by_its_largest_caches(name: str) -> None:
    """It is not only directory entries; an ordinary user may not read which it is."""
    look = replace(seen(SReclaimable=6 * GiB), slab=(Part(name, 4 * GiB), Part("dentry", 1 * GiB)))
    named = f"{name} 4 GiB, dentry 1 GiB"
    assert named in said(look)["machine-droppable"].title
    for one, note in ((look, named), (replace(look, slab=()), "")):
        lines = {line.name: line.note for line in machine_account.of(one).lines}
        assert lines[machine_account.SLAB] == note


def test_of_compressed_pages_it_is_said_what_they_take_and_for_how_much() -> None:
    pages = {"Zswap": 2 * GiB, "Zswapped": 6 * GiB}
    look = replace(seen(**pages), zram_bytes=1 * GiB, zram_holds_bytes=3 * GiB)
    (line,) = [one for one in machine_account.of(look).lines if one.name == "zswap and zram"]
    assert (line.value, line.note) == (3 * GiB, "zswap 2 GiB for 6 GiB, zram 1 GiB for 3 GiB")
    assert line.note in said(look)["machine-compressed"].title
    # Before Linux 5.19 it is not known what lies in zswap.
    assert "(zswap 2 GiB)" in said(seen(Zswap=2 * GiB))["machine-compressed"].title


VMALLOC = """0x0-0x1    20480 kernel_clone+0x94/0x3e0 pages=4 vmalloc N0=4
0x1-0x2    20480 copy_process.part.0+0x94/0x3e0 pages=4 vmalloc N0=4
0x2-0x3    12288 bpf_prog_alloc_no_stats+0x39/0x230 pages=2 vmalloc N0=2
0x3-0x4    12288 a_driver+0x39/0x230 pages=3 vmap phys=0x0
"""
ZRAM = "262148096 137600073 149811200 0 149811200 0 0 0 0\n"


def test_stacks_of_threads_are_no_caller_of_vmalloc_and_zram_has_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zrams = [(f"sys/block/{name}/mm_stat", ZRAM) for name in ("zram0", "zram1", "vda")]
    for path, text in (("proc/vmallocinfo", VMALLOC), *zrams):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    counted = {"VmallocUsed": 40 << 10, "KernelStack": 32 << 10}
    assert machine._vmalloc(counted) == ([Part("bpf_prog_alloc_no_stats", 8192)], 8 << 10)
    assert machine._zram() == (2 * 149811200, 2 * 262148096)


def test_what_pipes_hold_is_a_line_and_what_sockets_hold_is_in_the_rest() -> None:
    full = replace(seen(), pipe_bytes=1 * GiB, pipes_of="7 (big)", socket_bytes=1 * GiB)
    assert machine_account.of(full).rest == machine_account.of(seen()).rest - 1 * GiB
    assert said(full)["machine-pipes"].title.endswith(
        "data in pipes, of no process (most: 7 (big))"
    )
    rest = replace(seen(MemFree=8 * GiB), pipes_whole=False, sockets_whole=False)
    title = said(rest)["machine-unexplained"].title
    assert "balloon), pipes, rings of perf events, sockets; which" in title
    assert "pipes" not in said(seen(MemFree=8 * GiB))["machine-unexplained"].title


def test_what_sockets_hold_beside_slab_is_as_much_as_no_other_line_has() -> None:
    plain = machine_account.of(seen())
    assert plain.rest == 704 * MiB
    for charged, pages in ((200 * MiB, 200 * MiB), (1 * GiB, 704 * MiB), (8 * MiB, 0)):
        whole = machine_account.of(replace(seen(), socket_bytes=charged))
        lines = {one.name: one for one in whole.lines}
        assert lines[machine_account.QUEUES].value == charged
        assert whole.rest == 704 * MiB - pages
        if pages:
            line = lines[machine_account.QUEUE_PAGES]
            assert (line.value, line.low, line.high) == (pages, 0, charged)
        assert (machine_account.QUEUE_PAGES in lines) == (pages > 0)
    ring = replace(seen(), ring_bytes=300 * MiB)
    assert machine_account.of(ring).rest == 404 * MiB


def test_page_cache_that_is_not_dropped_is_a_line_and_is_not_clean() -> None:
    cache = 2304 + 128 - 256
    lists = {"Active(file)": 1 * GiB, "Inactive(file)": (cache - 1024 - 300) * MiB}
    for unevictable, stays in ((1 * GiB, 300), (100 * MiB, 100), (0, 0)):
        whole = machine_account.of(seen(**lists, Unevictable=unevictable))
        lines = {one.name: one.value for one in whole.lines}
        assert lines.get(machine_account.STAYS, 0) == stays * MiB
        assert lines[machine_account.CLEAN] == (cache - 32 - stays) * MiB
        assert whole.rest == machine_account.of(seen()).rest


@pytest.mark.parametrize("locked", [0, 256 * MiB, 3 * GiB])
def test_pages_in_swap_cache_only_are_counted_beside_locked_memory(locked: int) -> None:
    """Locked pages, which are anonymous here, are on none of the two lists."""
    lists = {"Active(anon)": 3 * GiB - locked, "Inactive(anon)": (256 + 400) * MiB}
    whole = machine_account.of(seen(SwapCached=600 * MiB, Unevictable=locked, **lists))
    lines = {one.name: one for one in whole.lines}
    line = lines[machine_account.SWAP_CACHE]
    assert (line.value, line.low, line.high) == (400 * MiB, 0, 600 * MiB)
    assert machine_account.STAYS not in lines


def test_shared_memory_that_nothing_names_is_a_part_too() -> None:
    name = "in no mount or file that was read"
    notes = {one.name: one.note for one in machine_account.of(seen(Shmem=1 * GiB)).lines}
    assert notes[machine_account.SHMEM] == f"{name} 824 MiB, /dev/shm 200 MiB"
    assert Part(name, 56 * MiB) in machine_account.holdings(seen())[machine_account.SHMEM]
    assert name not in str(machine_account.holdings(seen(Shmem=200 * MiB)))


def test_a_mount_that_lies_over_a_tmpfs_is_not_read_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has the numbers of its file system; a path gives those of what lies above."""
    none: frozenset[str] = frozenset()
    about = Path("/").stat()
    above = f"{os.major(about.st_dev)}:{os.minor(about.st_dev)}"

    def shown(kind: str, device: str) -> list[str]:
        mounts = [Mount(1, "/", "/", none, kind, kind, none, device)]
        monkeypatch.setattr(process, "mounts", lambda *_: mounts)
        return [one.path for one in room.tmpfs(os.getpid())]

    assert shown("tmpfs", above) == shown("devtmpfs", above) == ["/"]
    assert shown("tmpfs", "0:0") == shown("ext4", above) == []


def test_huge_pages_that_nobody_uses_and_a_rest_are_findings() -> None:
    pool = {"Hugetlb": 2 * GiB, "HugePages_Total": 1024, "HugePages_Free": 768}
    assert said(seen(**pool))["machine-huge-pages"].measured == 768 * 2 * MiB
    assert "machine-huge-pages" not in said(seen(**pool, HugePages_Rsvd=760))
    assert "was not read" in said(seen(MemFree=8 * GiB))["machine-unexplained"].title
    assert "machine-unexplained" not in said(seen(MemFree=9 * GiB + 512 * MiB))
    twice = said(seen(MemFree=11 * GiB))["machine-counted-twice"].title
    assert "some pages are in two of them, or they changed" in twice
    spliced = replace(seen(MemFree=11 * GiB), pipe_bytes=1 * GiB)
    twice = said(spliced)["machine-counted-twice"].title
    assert "(of 1 GiB in pipes what is spliced from files is page cache too)" in twice


def test_a_containers_own_meminfo_is_not_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    none: frozenset[str] = frozenset()
    lxcfs = Mount(1, "/proc/meminfo", "/proc/meminfo", none, "fuse.lxcfs", "lxcfs", none)
    monkeypatch.setattr(proc, "mounts", lambda *_: [lxcfs])
    with pytest.raises(CannotLook, match="lxcfs"):
        machine.at(0.01)


def test_a_read_that_never_ends_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a process of another user that holds its mmap_lock while a folder does not answer."""
    stuck = threading.Event()
    monkeypatch.setattr(machine, "_READ_S", 0.2)
    monkeypatch.setattr(process, "rollup", lambda *_: stuck.wait() and {})
    look = machine.at(0.01)
    stuck.set()
    assert "what all processes share" in [one.name for one in look.not_looked_at]
    assert {one.proportional_bytes for one in look.members} == {None}
    assert look.proportional_sum_bytes <= look.resident_sum_bytes


def test_what_a_read_says_that_was_left_behind_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was added while the account was made: as a mount that was not looked at, or an error."""
    late, before = threading.Event(), threading.enumerate()
    late_use = TmpfsUse("/late", GiB, 2 * GiB)
    in_pipes = machine.kernel_held.in_pipes

    def answers(descriptors: Mapping[int, Mapping[int, str]]) -> tuple[dict[int, int], bool]:
        late.set()
        for thread in set(threading.enumerate()) - set(before):
            thread.join()
        return in_pipes(descriptors)

    monkeypatch.setattr(machine, "_READ_S", 0.01)
    monkeypatch.setattr(machine, "_tmpfs", lambda _: late.wait() and {1: (1, late_use)})
    monkeypatch.setattr(machine.kernel_held, "in_pipes", answers)
    look = machine.at(0.01)
    assert "which mounts of tmpfs hold it" in [one.name for one in look.not_looked_at]
    assert look.tmpfs == ()


def test_a_process_too_large_to_read_does_not_keep_others_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "rollup", lambda pid: {"Pss": pid})
    sizes = {1: 10 * GiB, 2: 3 * GiB, 3: 2 * GiB, 4: 1 * GiB}
    held = [MachineProcess(pid, "", size, None, size) for pid, size in sizes.items()]
    read: list[MachineProcess] = []
    machine._members(held, read)
    assert [(one.pid, one.proportional_bytes) for one in read] == [(2, 2), (4, 4)]
    assert [one.resident_bytes for one in read] == [3 * GiB, 1 * GiB]


def test_what_is_resident_is_what_the_page_tables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's counter is behind, by up to 64 pages of each CPU or thread."""
    monkeypatch.setattr(process, "rollup", lambda _: {"Rss": 3 * MiB, "Pss": 2 * MiB})
    read: list[MachineProcess] = []
    machine._members([MachineProcess(1, "", 4096, None, 4096)], read)
    assert read[0].resident_bytes == 3 * MiB


@contextmanager
def holding(code: str) -> Iterator[int]:
    with running(sys.executable, "-c", f"{code}\nimport sys; print('ready', flush=True)\n"
                 "sys.stdin.read()") as program:  # fmt: skip
        yield program.pid


def test_sockets_are_counted_once_for_each_network_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel charges what one of Unix has sent and the other has not read to the sender."""
    listed = [sockets.Queue(0, 3 * MiB, 0, kind="Unix"), sockets.Queue(1 * MiB, 0, 0),
              sockets.Queue(0, 0, 0, kind="packet", ring_bytes=64 * MiB)]  # fmt: skip
    monkeypatch.setattr(sockets, "ROOT", tmp_path)
    monkeypatch.setattr(sockets, "_uncounted", lambda: listed)
    monkeypatch.setattr(sockets.namespaces, "inside", lambda _, __, work: work())
    for pid, space, count in ((1, "net:[1]", 3), (2, "net:[1]", 3), (3, "net:[2]", 30_000)):
        folder = tmp_path / f"proc/{pid}"
        (folder / "ns").mkdir(parents=True)
        (folder / "ns/net").symlink_to(space)
        (folder / "net").mkdir()
        (folder / "net/sockstat").write_text(f"sockets: used {count}\n")
    assert sockets.of_machine([1, 2]) == sockets.OfMachine(4 * MiB, 64 * MiB)
    many = sockets.OfMachine(4 * MiB, 64 * MiB, "to list 30,000 sockets takes long")
    assert sockets.of_machine([1, 2, 3]) == many
    assert sockets.of_machine([1, 4]) == sockets.OfMachine(4 * MiB, 64 * MiB), "4 has ended"

    def refused(link: Path) -> Path:
        raise PermissionError(13, "Permission denied", str(link))

    monkeypatch.setattr(Path, "readlink", refused)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    why = "the network namespaces of some processes may not be read: run as root"
    assert sockets.of_machine([1]) == sockets.OfMachine(why=why)


def memfds(look: MachineLook) -> int:
    return sum(one.bytes for one in look.shared if "memfd" in one.name)


def test_what_a_program_holds_is_in_its_line_and_twice_as_much_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file in memory that nobody maps, and memory of its own; what other programs hold comes and
    goes."""
    every, pids = machine._processes, list[int]()
    monkeypatch.setattr(machine, "_processes", lambda: [one for one in every() if one.pid in pids])
    code = (
        "import os; f = os.memfd_create('held'); b = bytearray({0} << 20)\n"
        "for _ in range({0}): os.write(f, b'x' * (1 << 20))\n"
    )
    held, own = [], []
    for mib in (64, 128, 192):
        with holding(code.format(mib)) as pid:
            pids[:] = [pid]
            look = machine.at(0.01)
            held.append(memfds(look))
            found = next((one for one in look.members if one.pid == pid), None)
            assert found
            own.append(found.anonymous_bytes)
    for grown in (held, own):
        assert grown[1] - grown[0] == pytest.approx(64 * MiB, rel=0.02)
        assert grown[2] - grown[0] == pytest.approx(128 * MiB, rel=0.02)


def test_the_screen_fits_and_the_document_has_its_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = memlab("diagnose", "--machine", "--seconds", "0.1", COLUMNS="80")
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("this machine: ")
    assert [line for line in lines[:24] if len(line) > 80] == []
    text = msgspec.json.encode(Diagnose.made_of(diagnosis.of_machine(0.01)))
    assert msgspec.json.decode(text)["machine"]["total_bytes"] == proc.meminfo()["MemTotal"]


def test_it_is_one_subject_and_is_looked_at_once() -> None:
    for words in ("1", "--watch end", "--full", "--used 1s", "--every 2"):
        refused = memlab("diagnose", "--machine", *words.split())
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1


def cgroups(folder: Path, **files: str) -> None:
    """A folder of the hierarchy with these files; `_` stands for a point."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where memory cgroups are mounted, of v1."""
    mount = tmp_path / "mount"
    groups = Cgroups("1", "1", mount, mount)
    monkeypatch.setattr(removed_groups.cgroup, "locate", lambda: groups)
    monkeypatch.setattr(removed_groups.group, "has_host_paths", lambda: True)
    monkeypatch.setattr(removed_groups, "ROOT", tmp_path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cgroups").write_text(
        "#subsys_name hierarchy num_cgroups enabled\ncpu 1 9000 1\nmemory 4 1503 1\n"
    )
    (tmp_path / "proc/slabinfo").write_text(
        "slabinfo - version: 2.1\n# name ...\nmem_cgroup_per_node 3 3 640 12 2 : \n"
        "mem_cgroup 1503 1554 2240 14 8 : tunables 0 0 0 : slabdata 111 111 0\n"
    )
    return mount


def counted(**numbers: int) -> str:
    return "".join(f"{name} {value}\n" for name, value in numbers.items())


def test_removed_groups_of_v1_are_those_without_a_folder(hierarchy: Path) -> None:
    """What is charged to them is what a total_ counter has beside the group's own and those of the
    groups that exist."""
    of_leaf = counted(cache=7 * MiB, total_cache=7 * MiB, rss=0, total_rss=0)
    cgroups(hierarchy, memory_stat=counted(cache=MiB, total_cache=40 * MiB, rss=0, total_rss=0))
    cgroups(hierarchy / "a", memory_stat=counted(
        cache=2 * MiB, total_cache=39 * MiB, rss=MiB, total_rss=4 * MiB))  # fmt: skip
    cgroups(hierarchy / "a/b", memory_stat=of_leaf)
    groups, why = removed_groups.read()
    assert (groups, why) == (RemovedGroups(1500, 3, "1", 33 * MiB, "a", 2240), "")
    look = replace(seen(), removed_groups=groups)
    finding = said(look)["machine-removed-groups"]
    assert finding.measured == 1500
    assert finding.title == (
        "1,500 memory cgroups that were removed (most below a) are still in the kernel, beside 3 "
        "that exist: each takes 2.19 KiB of slab at least and 10.9 KiB of per-CPU memory at most, "
        "on average; 33 MiB of page cache, shared or anonymous memory are charged to them: each "
        "page keeps its group"
    )
    assert "memory.force_empty" in finding.setting
    named = replace(look, removed_groups=replace(groups, most_below=40 * "a\x1b[2J"))
    title = said(named)["machine-removed-groups"].title
    assert "\x1b" not in title
    assert len(title) < 400
    assert "machine-removed-groups" not in said(
        replace(look, removed_groups=replace(groups, count=999))
    )


def test_what_groups_drop_while_they_are_read_is_not_of_removed_ones(
    hierarchy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups(hierarchy, memory_stat=counted(cache=0, total_cache=90 * MiB))
    cgroups(hierarchy / "a", memory_stat=counted(cache=90 * MiB, total_cache=90 * MiB))
    pairs = removed_groups.group.pairs

    def read(path: Path) -> dict[str, int]:
        seen = pairs(path)
        for folder in (hierarchy, hierarchy / "a"):
            (folder / "memory.stat").write_text(counted(cache=0, total_cache=0))
        return seen

    monkeypatch.setattr(removed_groups.group, "pairs", read)
    groups, _ = removed_groups.read()
    assert groups is not None
    assert groups.charged_bytes == 0


def test_groups_that_a_user_may_not_list_are_not_removed_ones(
    hierarchy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups(hierarchy / "a/b")
    scandir = os.scandir

    def listed(path: str) -> Iterator[os.DirEntry[str]]:
        if str(path) == str(hierarchy / "a"):
            raise PermissionError
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listed)
    assert removed_groups.read() == (None, "this user may not list all memory cgroups")


def test_removed_groups_of_v2_are_counted_by_the_kernel(
    hierarchy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group without a controller below it has processes, to which its memory may be charged."""
    monkeypatch.setattr(
        removed_groups.cgroup, "locate", lambda: Cgroups("2", "2", hierarchy, hierarchy)
    )
    both = {"cgroup_stat": counted(nr_dying_descendants=1600, nr_dying_subsys_memory=1550)}
    own = {"memory_stat": counted(file=9 * MiB, anon=3 * MiB)}
    cgroups(hierarchy, **both, cgroup_subtree_control="memory",
            memory_stat=counted(file=90 * MiB, anon=90 * MiB))  # fmt: skip
    cgroups(hierarchy / "a", **both, cgroup_subtree_control="memory pids",
            memory_stat=counted(file=20 * MiB, anon=5 * MiB))  # fmt: skip
    cgroups(hierarchy / "a/b", **own, cgroup_subtree_control="")
    assert removed_groups.read() == (RemovedGroups(1550, 3, "2", 13 * MiB, "a", 2240), "")
    for folder in (hierarchy, hierarchy / "a"):
        (folder / "cgroup.stat").write_text(counted(nr_dying_descendants=1600))
    (hierarchy.parent / "proc/slabinfo").unlink()
    groups, _ = removed_groups.read()
    assert groups == RemovedGroups(1600, 3, "2", 13 * MiB, "a")
    without = {name: value for name, value in COUNTERS.items() if name != "Percpu"}
    look = replace(seen(), removed_groups=groups, counters=without)
    finding = said(look)["machine-removed-groups"]
    assert "what each takes was not read; at most 13 MiB of" in finding.title
    assert "are charged to them, or to groups above them: each" in finding.title
    assert "memory.reclaim" in finding.setting
    (hierarchy / "cgroup.stat").unlink()
    assert removed_groups.read() == (None, "this kernel does not count them")


def test_removed_groups_that_cannot_be_counted_are_not_looked_at(
    hierarchy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups(hierarchy)
    (hierarchy.parent / "proc/cgroups").write_text("memory 4 30 1\n")
    assert removed_groups.read() == (RemovedGroups(29, 1, "1"), "")
    for number in range(3):
        cgroups(hierarchy / str(number))
    monkeypatch.setattr(removed_groups, "_FOLDERS_MAX", 2)
    why = "there are over 2 memory cgroups"
    assert removed_groups.read() == (None, why)
    assert [one.reason for one in machine.at(0.01).not_looked_at
            if one.name == "removed memory cgroups"] == [why]  # fmt: skip
    monkeypatch.setattr(removed_groups.group, "has_host_paths", lambda: False)
    assert removed_groups.read()[1] == "this program sees a part of the cgroups"
    monkeypatch.setattr(removed_groups.cgroup, "locate", lambda: Cgroups(None, None, None, None))
    assert removed_groups.read() == (None, "")


@pytest.mark.slow
@pytest.mark.needs("qemu", "busybox", "modprobe", "guest kernel")
@pytest.mark.parametrize("append", ["", CGROUP_V1], ids=["v2", "v1"])
def test_the_lines_of_a_guest_leave_less_than_a_hundredth_of_it(
    append: str, store_path: Path
) -> None:
    run = api.trial(
        [sys.executable, str(Path(__file__).parent / "machine_in_guest.py")],
        blocks=1,
        store=store_path,
        guest=api.Guest(needs.guest_kernel() or "", memory=1024 * MiB, append=append),
    )
    (sample,) = run.samples
    output = (sample.raw or {}).get("output", "")
    assert sample.outcome == "ok", (sample.detail, output)
    looks = json.loads(output.partition("seen: ")[2].splitlines()[0])
    assert [one["rest"] / one["total"] < 0.01 for one in looks] == [True] * 7
    assert [one["rest"] > -0.001 * one["total"] for one in looks] == [True] * 7
    plain, pool, shared, zswap, zram, _, _ = (one["lines"] for one in looks)
    assert pool["huge pages (hugetlb)"] == 64 * 2 * MiB
    assert plain["free"] - pool["free"] == pytest.approx(128 * MiB, abs=16 * MiB)
    name = "tmpfs, shared memory"
    assert shared[name] - pool[name] == pytest.approx(200 * MiB, rel=0.02)
    assert "machine-huge-pages" in looks[1]["findings"]
    assert "machine-tmpfs" in looks[2]["findings"]
    for lines, about, kind in ((zswap, looks[3], "zswap"), (zram, looks[4], "zram")):
        assert about["swap"] >= 200 * MiB
        title = about["findings"]["machine-compressed"]
        assert f"({kind} {size(lines['zswap and zram'])} for " in title
        assert 100 * MiB < lines["zswap and zram"] < 210 * MiB
    groups, later = looks[5:]
    assert groups["removed"]["count"] == pytest.approx(300, abs=20)
    assert groups["removed"]["charged_bytes"] == pytest.approx(300 * 4 * 4096, rel=0.5)
    assert groups["removed"]["most_below"] == "above"
    assert "machine-removed-groups" in groups["findings"]
    assert "machine-removed-groups" not in looks[4]["findings"]
    assert "machine-removed-groups" not in later["findings"]

"""The account of a memory cgroup from made-up files: known answers, v1 and v2, lines doubled."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memlab.diagnose import (
    account,
    diagnosis,
    group,
    group_limits,
    held,
    kernel_held,
    look,
    output,
    pages,
    sockets,
)
from memlab.diagnose.account import Line
from memlab.diagnose.diagnosis import Diagnosis
from memlab.diagnose.family import Member
from memlab.diagnose.finding import CRITICAL, NOTE
from memlab.diagnose.group import Charge
from memlab.diagnose.kernel_held import KernelHeld, PipeData
from memlab.diagnose.memory_files import PAGE
from memlab.diagnose.sockets import Queue, QueuesOfProcesses
from memlab.errors import BadSubject, CannotLook
from memlab.observe import cgroup, process

from . import looks
from .test_when import _of_group

MiB = 1 << 20
# What of a group is in no other line, in MiB; the lines add up to the charge, but for 3 MiB.
STAT_2 = {
    "anon": 40, "file": 60, "shmem": 8, "file_dirty": 6, "file_writeback": 2, "kernel": 30,
    "kernel_stack": 1, "pagetables": 2, "sec_pagetables": 1, "slab_reclaimable": 20,
    "slab_unreclaimable": 4, "percpu": 1, "vmalloc": 1, "sock": 5, "zswap": 7,
    "active_file": 30, "inactive_file": 34,
}  # fmt: skip
LINES_2 = {
    "anonymous": 40, "LazyFree": 12, "tmpfs, shared memory": 8, "page cache, clean": 44,
    "page cache, dirty": 6, "page cache, in writeback": 2, "slab, reclaimable": 20,
    "other memory of the kernel": 6, "kernel stacks": 1, "page tables": 3, "sockets": 5,
    "zswap": 7,
}  # fmt: skip
USED = sum(value for name, value in LINES_2.items() if name != "LazyFree")


def made(directory: Path, stat: dict[str, int], used: int, **other: str) -> Path:
    words = "".join(f"{name} {value * MiB}\n" for name, value in stat.items())
    (directory / "memory.stat").write_text(f"{words}pgfault 77\n")
    (directory / "memory.current").write_text(f"{used * MiB}\n")
    for name, text in other.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


@pytest.mark.parametrize("times", [1, 2])
def test_every_line_of_v2_is_the_kernels_and_twice_is_twice(tmp_path: Path, times: int) -> None:
    stat = {name: value * times for name, value in STAT_2.items()}
    made(
        tmp_path, stat, USED * times + 3, memory__peak=f"{500 * MiB}\n",
        memory__events="low 0\nhigh 3\nmax 5\noom 1\noom_kill 2\n",
    )  # fmt: skip
    found = group.charge(tmp_path, "2")
    account = held.stock(found)
    assert {line.name: line.value / MiB for line in account.lines} == {
        name: value * times for name, value in LINES_2.items()
    }
    assert account.rest == 3 * MiB  # charged ahead: named, and not spread over the lines
    assert (found.reached_count, found.oom_kill_count, found.fault_count) == (5, 2, 77)
    assert group.charge(tmp_path, "2", limit_name="memory.high").reached_count == 3
    assert found.needed_bytes == account.total - sum(
        value * times * MiB
        for name, value in LINES_2.items()
        if name in ("LazyFree", "page cache, clean", "slab, reclaimable")
    )


@pytest.mark.parametrize(
    ("stat", "count"),
    [
        ({"workingset_refault_anon": 4, "workingset_refault_file": 7}, 7),
        ({"workingset_refault": 7}, 7),  # before Linux 5.9
        ({"workingset_refault_anon": 4}, 0),
    ],
)
def test_files_that_are_read_again_are_counted_by_either_name(
    tmp_path: Path, stat: dict[str, int], count: int
) -> None:
    text = "".join(f"{name} {value}\n" for name, value in stat.items())
    directory = made(tmp_path, {}, USED)
    (directory / "memory.stat").write_text(text)
    before = group.charge(directory, "2")
    assert before.reread_count == count
    (directory / "memory.stat").write_text(text.replace(" 7", " 17"))
    limit = cgroup.MemoryLimit(directory, "2", "memory.max", 64 * MiB)
    room = look.room_of(limit, before, group.charge(directory, "2"), 10.0, [], 0, directory)
    assert room.reread_bytes_per_s == (PAGE if count else 0)


def test_what_no_kernel_writes_is_no_number_of_a_group() -> None:
    text = f"anon 7\nfile -1\nslab \u00b2\nshmem {'9' * 5000}\nkernel 8 9\n\nmost {2**64 - 1}\n"
    assert group.pairs_of(text) == {"anon": 7, "most": 2**64 - 1}


def test_before_5_18_the_kernels_memory_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    stat = {name: value for name, value in STAT_2.items() if name != "kernel"}
    found = group.charge(made(tmp_path, stat, USED), "2")
    assert found.kernel_bytes == 6 * MiB


@pytest.mark.parametrize(
    ("stat", "line", "value"),
    [
        ({"file": 10, "shmem": 12}, "page cache, clean", 0),  # counted in batches: shmem is ahead
        ({"file": 10, "file_dirty": 14}, "page cache, dirty", 10),
        ({"file": 10, "file_dirty": 8, "file_writeback": 8}, "page cache, in writeback", 2),
        ({"anon": 5, "active_file": 9}, "LazyFree", 5),
        ({"anon": 5, "inactive_file": 1}, "LazyFree", 0),  # within what is counted in batches
    ],
)
def test_counts_that_run_ahead_of_each_other_make_no_line_negative(
    tmp_path: Path, stat: dict[str, int], line: str, value: int
) -> None:
    account = held.stock(group.charge(made(tmp_path, stat, 20), "2"))
    assert {one.name: one.value / MiB for one in account.lines}.get(line, 0) == value
    assert all(one.value >= 0 for one in account.lines)


@pytest.mark.parametrize(
    ("unevictable", "listed", "locked"), [(44, 20, 40), (44, 60, 0), (0, 20, 0), (5, 20, 5)]
)
def test_page_cache_that_is_locked_is_not_what_is_dropped(
    tmp_path: Path, unevictable: int, listed: int, locked: int
) -> None:
    """It is on no list of files, and counted as what cannot be evicted."""
    stat = {"anon": 4, "file": 60, "unevictable": unevictable, "active_file": listed}
    charge = group.charge(made(tmp_path, stat, 64), "2")
    assert charge.file_locked_bytes == locked * MiB
    assert charge.file_clean_bytes == (60 - locked) * MiB
    assert charge.needed_bytes == (4 + locked) * MiB
    lines = {one.name: one.value / MiB for one in held.stock(charge).lines}
    assert lines.get("page cache, locked", 0) == locked


KERNEL_1 = looks.charge(
    used_bytes=58 * MiB, anonymous_bytes=7 * MiB, file_clean_bytes=0,
    slab_reclaimable_bytes=51 * MiB, slab_bounds_bytes=(0, 51 * MiB),
)  # fmt: skip


def test_kernel_memory_that_v1_does_not_split_is_not_called_droppable() -> None:
    """As 51 MiB in pipes."""
    room = looks.group(charge=KERNEL_1)
    (found,) = group_limits.of_group(room)
    assert found.name == "group-nearly-full"
    assert found.title.endswith(
        "of which cgroup v1 does not say what it is: how much of it is directory entries and "
        "inodes, which are dropped before anyone is killed, is not known"
    )
    assert "no action" not in found.setting
    filled = KernelHeld(51, 50 * MiB, 50 * MiB, 0, 0, 0, filled_count=50)
    pipes = looks.look(group=room, kernel_held=filled)
    (found,) = group_limits.of_group(room, pipes)
    assert "0 B to 1 MiB of it directory entries" in found.title, "pipes leave no more"
    assert "50 MiB lie in the 50 pipes of this process, and stay" in found.title
    low = replace(KERNEL_1, used_bytes=50 * MiB, anonymous_bytes=0)
    (found,) = group_limits.of_group(looks.group(charge=low))
    assert found.name == "group-slab", "it is not near its limit"
    assert found.line == "kernel memory, of any kind"
    assert not any(word in found.setting for word in ("no action", "names", "pipes"))
    # Names were made meanwhile, and the kernel's memory of the group grew.
    grew = replace(room, machine_slab_growth_bytes=2 * MiB, kernel_growth_bytes_per_s=1.0 * MiB)
    (found,) = group_limits.of_group(grew)
    assert found.name == "group-full-of-droppable"
    (found,) = group_limits.of_group(grew, pipes=PipeData(50 * MiB, "pipes"))
    assert found.name == "group-nearly-full", "what lies in pipes is no slab"
    counted = replace(KERNEL_1, slab_bounds_bytes=(51 * MiB, 51 * MiB))
    (found,) = group_limits.of_group(looks.group(charge=counted))
    assert found.name == "group-full-of-droppable"


def unsplit(times: int) -> Charge:
    """Of v1: 69 MiB of the kernel, of which the machine's slab bounds what may be reclaimable."""
    return looks.charge(
        used_bytes=80 * MiB * times, anonymous_bytes=11 * MiB * times, file_clean_bytes=0,
        slab_reclaimable_bytes=61 * MiB * times, kernel_bytes=8 * MiB * times,
        slab_bounds_bytes=(0, 61 * MiB * times),
    )  # fmt: skip


@pytest.mark.parametrize("times", [1, 2])
def test_kernel_memory_of_v1_is_one_line_of_any_kind_and_pipes_are_a_part_of_it(times: int) -> None:
    """69 MiB, of which the machine's slab bounds what may be reclaimable to 61 MiB."""
    charge = unsplit(times)
    pipes = PipeData(60 * MiB * times, "pipes of its processes, most of 7 (p)")
    account = held.stock(charge, pipes=pipes)
    assert account.rest == 0
    lines = {one.name: one for one in account.lines}
    assert lines.keys() == {"anonymous", "kernel memory, of any kind", "data in pipes"}
    line = lines["kernel memory, of any kind"]
    assert line.value == 69 * MiB * times
    assert f"0 B to {9 * times} MiB of it directory entries" in line.note
    assert lines["data in pipes"].value == 60 * MiB * times
    assert lines["data in pipes"].part_of == "kernel memory, of any kind"
    assert "most of 7 (p)" in lines["data in pipes"].note
    lines = {one.name: one for one in held.stock(charge, pipes=replace(pipes, bytes=1)).lines}
    assert "data in pipes" not in lines
    seen = _of_group(charge=charge, pipes=pipes)
    (found,) = [one for one in held.findings(seen) if one.name == "group-slab"]
    assert (found.measured, found.line) == (69 * MiB * times, "kernel memory, of any kind")
    assert f"{60 * times} MiB lie in pipes of its processes, most of 7 (p)" in found.title
    assert "a reader that keeps up with the pipes" in found.setting


@pytest.mark.parametrize(("sockets", "is_said"), [(18_000, True), (1_000, False)])
def test_sockets_of_a_group_of_v1_are_named_in_its_kernel_memory(
    sockets: int, *, is_said: bool
) -> None:
    """They are slab that the machine calls reclaimable, and nobody drops them."""
    words = "; 18,000 sockets are open in its processes, each keeps some 3.5 KiB (an estimate)"
    sentence = group_limits.unsplit(KERNEL_1, PipeData(sockets=sockets))
    assert (words in sentence) == is_said
    assert ("sockets" in sentence) == is_said
    more = group_limits.unsplit(KERNEL_1, PipeData(sockets=sockets, has_more=True))
    assert ("; at least 18,000 sockets" in more) == is_said


def test_sockets_of_several_processes_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    links = {7: {3: "socket:[1]", 4: "socket:[2]"}, 8: {3: "socket:[1]", 5: "/tmp/a"}}
    of_group = kernel_held.of_group(links)
    assert (of_group.sockets, of_group.has_more) == (2, False)
    monkeypatch.setattr(process, "DESCRIPTORS_READ", 2)
    assert kernel_held.of_group(links).has_more


def test_pipes_that_hold_more_than_a_group_is_charged_are_of_others_too() -> None:
    pipes = PipeData(60 * MiB, "pipes of its processes, most of 7 (p)")
    charge = replace(KERNEL_1, slab_reclaimable_bytes=20 * MiB, slab_bounds_bytes=(0, 20 * MiB))
    sentence = group_limits.unsplit(charge, pipes)
    assert "how much of it is directory entries" in sentence
    assert "60 MiB lie in pipes" in sentence
    assert "are charged to other groups" in sentence
    for one in (charge, looks.charge(kernel_bytes=59 * MiB)):
        (line,) = [x for x in held.stock(one, pipes=pipes).lines if x.name == "data in pipes"]
        assert line.part_of == "none"
    of_v2 = held.stock(looks.charge(kernel_bytes=60 * MiB), pipes=pipes)
    assert of_v2.lines[-1].part_of == "other memory of the kernel"


@pytest.mark.parametrize("times", [1, 2])
def test_bpf_maps_of_a_group_are_no_directory_entries(times: int) -> None:
    """They stay, as data in pipes do, and are a part of the kernel's memory if they fit there."""
    charge = unsplit(times)
    maps = PipeData(bpf_bytes=60 * MiB * times)
    (found,) = [one for one in held.findings(_of_group(charge=charge, pipes=maps))
                if one.name == "group-slab"]  # fmt: skip
    assert f"0 B to {12 * times} MiB of it directory entries" in found.title
    assert f"; {60 * times} MiB are BPF maps and programs, and stay" in found.title
    assert found.setting.startswith("smaller or fewer BPF maps (bpftool map); slabtop")
    lines = {one.name: one for one in held.stock(charge, pipes=maps).lines}
    of_maps = lines["BPF maps and programs"]
    assert (of_maps.value, of_maps.part_of) == (60 * MiB * times, "kernel memory, of any kind")
    both = replace(maps, bytes=20 * MiB * times, place="pipes of 7")
    lines = {one.name: one for one in held.stock(charge, pipes=both).lines}
    assert lines["BPF maps and programs"].part_of == "none"
    assert group_limits.unsplit(charge, both).count("are charged to other groups") == 2
    assert "BPF" not in group_limits.unsplit(charge, PipeData(bpf_bytes=MiB - 1))
    estimate = PipeData(bpf_bytes=70 * MiB * times)
    assert "MiB are BPF maps and programs, and stay" in group_limits.unsplit(charge, estimate)


@pytest.mark.parametrize(
    ("processes", "is_whole", "kernel_bytes", "names"),
    [
        (32, True, 60 * MiB, []),
        (33, True, 60 * MiB, ["data in pipes of 1 process"]),
        (1, False, 60 * MiB, ["data in pipes of its processes"]),
        (33, False, 26 * MiB - 1, []),
    ],
)
def test_pipes_of_a_group_that_were_not_read_are_named_if_they_can_hold_much(
    processes: int, *, is_whole: bool, kernel_bytes: int, names: list[str]
) -> None:
    pipes = PipeData(10 * MiB, "pipes of its processes", is_whole)
    charge = looks.charge(kernel_bytes=kernel_bytes)
    seen = _of_group(charge=charge, processes=processes, pipes=pipes)
    assert [name for name, _ in held.unread_pipes(seen)] == names


@pytest.mark.parametrize(("uncounted", "is_named"), [(16 * MiB, True), (16 * MiB - 1, False)])
def test_pages_of_pipes_and_sockets_that_no_counter_has_can_be_in_the_rest(
    uncounted: int, *, is_named: bool
) -> None:
    """Before Linux 5.18."""
    charge = looks.charge(used_bytes=32 * MiB + uncounted)
    seen = _of_group(charge=charge, processes=33)
    names = ["data in pipes of 1 process"] if is_named else []
    assert [name for name, _ in held.unread_pipes(seen)] == names
    names = ["queues of sockets of 1 process"] if is_named else []
    assert [name for name, _ in held.unread_sockets(seen)] == names


@pytest.mark.parametrize(
    ("charge", "nothing"),
    [
        ({"anonymous_bytes": 59 * MiB}, False),
        ({"shmem_bytes": 59 * MiB}, False),
        ({"kernel_bytes": 59 * MiB}, False),
        ({"file_locked_bytes": 59 * MiB}, False),
        ({"slab_reclaimable_bytes": 59 * MiB, "slab_bounds_bytes": (0, 59 * MiB)}, False),
        ({"slab_reclaimable_bytes": 59 * MiB, "slab_bounds_bytes": (59 * MiB,) * 2}, True),
        ({"file_clean_bytes": 59 * MiB}, True),
        ({"anonymous_bytes": 59 * MiB, "lazyfree_bytes": 50 * MiB}, True),
    ],
)
def test_above_a_group_at_its_limit_nothing_to_worry_is_said_of_what_can_be_dropped(
    charge: dict[str, Any], *, nothing: bool
) -> None:
    """59 of 64 MiB, of one kind each."""
    empty = {"anonymous_bytes": 0, "file_clean_bytes": 0, "used_bytes": 59 * MiB}
    found = tuple(group_limits.of_group(looks.group(charge=looks.charge(**empty | charge))))
    assert max(one.severity for one in found) == NOTE
    cost = diagnosis._cost(0.0, 1.0, 0.0, 0.0)
    seen = Diagnosis(looks.look(), None, (), found, (), cost)
    assert (output.NOTHING in output._verdict(seen, verbose=False)) == nothing


def test_v1_gives_the_bounds_of_what_it_does_not_split(tmp_path: Path) -> None:
    names = ("cache", "rss", "shmem", "dirty", "writeback", "swap", "active_file", "inactive_file")
    values = (60, 40, 8, 6, 2, 9, 30, 22)
    stat = {f"total_{name}": value for name, value in zip(names, values, strict=True)}
    directory = tmp_path / "group"
    directory.mkdir()
    made(
        directory, stat, 131, memory__usage_in_bytes=f"{131 * MiB}\n",
        memory__kmem__usage_in_bytes=f"{30 * MiB}\n", memory__failcnt="4\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    )  # fmt: skip
    (tmp_path / "proc").mkdir()
    meminfo = f"SReclaimable: {26 * 1024} kB\nSUnreclaim: {20 * 1024} kB\n"
    (tmp_path / "proc/meminfo").write_text(meminfo)
    found = group.charge(directory, "1", root=tmp_path)
    assert found.slab_bounds_bytes == (10 * MiB, 26 * MiB)
    assert (found.anonymous_bytes, found.shmem_bytes) == (40 * MiB, 8 * MiB)
    assert (found.file_clean_bytes, found.file_dirty_bytes) == (44 * MiB, 6 * MiB)
    assert (found.kernel_bytes, found.swapped_bytes) == (4 * MiB, 9 * MiB)
    assert (found.reached_count, found.oom_kill_count, found.stuck) == (4, 1, False)
    for text, stuck in (("oom_kill_disable 1\nunder_oom 1\noom_kill 1\n", True),
                        ("oom_kill_disable 0\nunder_oom 1\noom_kill 1\n", False)):  # fmt: skip
        (directory / "memory.oom_control").write_text(text)
        assert group.charge(directory, "1", root=tmp_path).stuck is stuck


def test_what_no_line_names_may_be_of_the_group_and_is_not_called_reclaimable(
    tmp_path: Path,
) -> None:
    """Pipes, for one: 12 MiB of the machine that are neither free, cached, anonymous nor slab."""
    (tmp_path / "proc").mkdir()
    meminfo = {"MemTotal": 100, "MemFree": 42, "Slab": 46, "SReclaimable": 26, "SUnreclaim": 20}
    text = "".join(f"{name}: {value * 1024} kB\n" for name, value in meminfo.items())
    (tmp_path / "proc/meminfo").write_text(text)
    directory = tmp_path / "group"
    directory.mkdir()
    made(
        directory, {}, 30, memory__usage_in_bytes=f"{30 * MiB}\n",
        memory__kmem__usage_in_bytes=f"{40 * MiB}\n",
    )  # fmt: skip
    found = group.charge(directory, "1", root=tmp_path)
    assert found.slab_bounds_bytes == (8 * MiB, 26 * MiB)


def test_a_group_that_is_stuck_is_critical_and_not_about_to_be_killed() -> None:
    room = looks.group(charge=looks.charge(used_bytes=64 * MiB, stuck=True))
    (found,) = [one for one in group_limits.of_group(room) if one.severity is CRITICAL]
    assert found.name == "group-out-of-memory"
    assert "kills nobody" in found.title
    assert "group-nearly-full" not in [one.name for one in group_limits.of_group(room)]


def test_a_group_outside_of_this_cgroup_namespace_is_named_as_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A debugging container sees the processes of a pod, and none of its groups."""
    mount = Path("/sys/fs/cgroup")
    for seen, hides in (
        (cgroup.Cgroups("2", "2", mount, None), True),
        (cgroup.Cgroups("2", "2", mount, mount), False),
        (cgroup.NONE, False),
    ):
        monkeypatch.setattr(cgroup, "locate", lambda pid="self", seen=seen: seen)
        assert bool(group.hidden(1)) == hides
    monkeypatch.setattr(cgroup, "locate", lambda pid="self": cgroup.Cgroups("2", "2", mount, None))
    with pytest.raises(BadSubject, match="process 1 cannot be read: it is outside of this cgroup"):
        group.named("of:1")


@pytest.mark.parametrize(
    ("files", "said"),
    [(["memory.stat"], "is the root of cgroup v2"), ([], "no memory controller"), (None, "gone")],
)
def test_a_group_without_a_charge_says_why(
    tmp_path: Path, files: list[str] | None, said: str
) -> None:
    """Of the root group the kernel has memory.stat and no memory.current."""
    group = tmp_path / "group"
    for name in files or []:
        (tmp_path / name).write_text("anon 0\n")
    if files is not None:
        group = tmp_path
    with pytest.raises(CannotLook, match=said):
        held.at(group, "2", 0.1)


@pytest.mark.parametrize("verbose", [True, False])
def test_a_part_of_an_account_stands_under_its_whole(*, verbose: bool) -> None:
    """A part of the sum, and what is beside it, come after the sum."""
    lines = [
        Line("queues of sockets", 2 * MiB, part_of="all"),
        Line("messages", MiB, part_of="kernel"),
        Line("in Python", 2 * MiB, part_of="beside malloc"),
        Line("in malloc", 3 * MiB, part_of="anonymous"),
        Line("beside malloc", 3 * MiB, part_of="anonymous"),
        Line("anonymous, private", 8 * MiB),
        Line("anonymous, shared", 7 * MiB),
        Line("kernel", 6 * MiB),
        Line("shared memory, tmpfs", 5 * MiB),
        Line("memfd", 4 * MiB, part_of="shared"),
        Line("data in its pipes", 9 * MiB, part_of="none"),
        Line("huge pages", 5 * MiB),
    ]
    one = account.made("stock", "what it is", "B", 31 * MiB, lines, whole=True)
    rows = [row.split("  ")[1:] for row in output._account(one, verbose=verbose) if row[:2] == "  "]
    names = ["".join(words[:3]).strip() for words in rows]
    assert names == [
        "anonymous, private", "anonymous, shared", "of anonymous: in malloc",
        "of anonymous: beside malloc", "of beside malloc: in Python", "kernel",
        "of kernel: messages", "shared memory, tmpfs", "of shared: memfd", "huge pages", "rest",
        "in all", "of it: queues of sockets", "beside it: data in its pipes",
    ]  # fmt: skip
    # A whole that is among the other lines.
    many = [Line(f"kind {i}", (20 + i) * MiB) for i in range(9)]
    one = account.made("stock", "what it is", "B", 0, [*many, *lines], whole=True)
    rows = [row.split("  ")[1:] for row in output._account(one, verbose=False) if row[:2] == "  "]
    names = ["".join(words[:2]).strip() for words in rows]
    assert names.index("other lines") < names.index("of kernel: messages") < names.index("in all")


@pytest.mark.parametrize(
    ("version", "counts"), [("1", "v1 charges it nothing"), ("2", "charged with")]
)
@pytest.mark.parametrize("times", [1, 2])
def test_queues_of_the_sockets_of_a_group_are_a_finding_and_a_line(
    times: int, version: str, counts: str
) -> None:
    """Data that nobody reads, of which the group is charged with a part or with nothing."""
    queues = QueuesOfProcesses(20 * MiB * times, 40, "7 (a)")
    seen = replace(_of_group(charge=looks.charge(), sockets=queues), version=version)
    (found,) = [one for one in held.findings(seen) if one.name == "sockets-hold"]
    assert found.title.startswith(f"{20 * times} MiB lie in the queues of 40 sockets of its proc")
    assert "most of 7 (a)" in found.title
    assert counts in found.title
    assert found.title.endswith("; those of Unix are among its other memory of the kernel")
    lines = {one.name: one for one in held.accounts(seen)[0].lines}
    line = lines[found.line]
    assert (line.value, line.part_of) == (20 * MiB * times, "none")
    for few in (
        replace(seen, sockets=replace(queues, bytes=MiB)),
        replace(seen, charge=looks.charge(sockets_bytes=20 * MiB * times)),
    ):
        assert "sockets-hold" not in {one.name for one in held.findings(few)}


@pytest.mark.parametrize(
    ("version", "counted", "unix", "of_machine", "bound"),
    [
        ("2", 16 * MiB, 0, None, "; it is at most 16 MiB"),
        ("2", 8 * MiB, 8 * MiB, None, "; it is at most 16 MiB"),
        ("2", 16 * MiB - 1, 0, 1024 * MiB, None),
        ("1", 0, 0, 16 * MiB, "; it is at most 16 MiB"),
        ("1", 0, 8 * MiB, 8 * MiB, "; it is at most 16 MiB"),
        ("1", 0, 0, None, ""),
        ("1", 0, 8 * MiB, 8 * MiB - 1, None),
    ],
)
def test_queues_of_sockets_that_were_not_read_are_named_if_they_can_hold_much(
    version: str, counted: int, unix: int, of_machine: int | None, bound: str | None
) -> None:
    """At most what the kernel counts of TCP and UDP, and the other memory of the kernel."""
    charge = looks.charge(sockets_bytes=counted, kernel_bytes=unix + 4 * MiB)
    seen = replace(
        _of_group(charge=charge, processes=33, pipes=PipeData(4 * MiB, "pipes")),
        version=version,
        machine_sockets_bytes=of_machine,
        sockets=QueuesOfProcesses(why="no right"),
    )
    assert [*held.unread_sockets(seen)] == ([] if bound is None else [
        ("queues of sockets of 1 process", f"smaller than the 32 largest{bound}"),
        ("queues of some sockets of its processes", f"no right{bound}"),
    ])  # fmt: skip
    larger = replace(charge, used_bytes=161 * MiB, anonymous_bytes=157 * MiB)
    tenfold = replace(seen, charge=larger)
    assert bound == "" or not [*held.unread_sockets(tenfold)]
    few = replace(seen, processes=32, sockets=QueuesOfProcesses())
    assert not [*held.unread_sockets(few)]


@pytest.mark.parametrize(("each", "is_named"), [(4 * MiB, True), (4 * MiB - 1, False)])
def test_what_processes_share_that_was_not_read_is_named_if_it_can_be_much(
    each: int, *, is_named: bool
) -> None:
    """It is part of the anonymous memory of the four that are smaller."""
    read = [Member(pid, "a", 5 * MiB, 0, 0, 0, 0) for pid in range(16)]
    smaller = [Member(pid, "a", each, 0, None, None, 0) for pid in range(16, 20)]
    seen = _of_group(charge=looks.charge(), members=(*read, *smaller))
    named = [("what 4 processes share since a fork", "smaller than the 16 largest")]
    assert [*held.unread_shared(seen)] == (named if is_named else [])
    assert not [*held.unread_shared(replace(seen, members=(*read, *read)))]
    few = replace(seen, members=(*read[:2], *smaller))  # too large, or of another user
    named = [("what 4 processes share since a fork",
              "read of 16 at most, of 4 GiB together, if it may be read")]  # fmt: skip
    assert [*held.unread_shared(few)] == (named if is_named else [])
    large = Member(1, "a", 64 * MiB, 0, None, None, 0)
    assert not [*held.unread_shared(replace(seen, members=(large,)))]


def test_processes_that_are_not_shown_can_hold_as_much() -> None:
    """As equal workers of which one fewer is shown than there are."""
    count = output._MEMBERS_SHOWN + 1
    members = tuple(Member(pid, "a", 5 * MiB, 0, 0, 0, 0) for pid in range(count))
    cost = diagnosis._cost(0.0, 1.0, 0.0, 0.0)
    workers = _of_group(charge=looks.charge(), members=members, processes=count)
    seen = Diagnosis(looks.look(), workers, (), (), (), cost)
    assert "  and 1 process that holds no more" in output._members(seen)


def test_a_socket_that_two_processes_hold_counts_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Processes 7 and 8 of one network namespace, and 9 of another one that may not be entered."""
    for pid, space in ((7, 1), (8, 1), (9, 2)):
        (tmp_path / f"proc/{pid}/ns").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/ns/net").symlink_to(f"net:[{space}]")
        (tmp_path / f"proc/{pid}/comm").write_text("a\n")

    def inside(pid: int, kind: str, work: object) -> AbstractContextManager[None]:
        if pid == 9:
            raise PermissionError(1, "its net namespace may not be entered")
        return nullcontext()

    queues = [(n, Queue(n * MiB, 1, 2)) for n in (1, 2, 3, 4)]
    monkeypatch.setattr(sockets, "ROOT", tmp_path)
    monkeypatch.setattr(sockets.namespaces, "inside", inside)
    monkeypatch.setattr(sockets, "_listed", lambda _: queues)
    links = {n: f"socket:[{n}]" for n in (1, 2)}
    held_by = {7: links, 8: {**links, 5: "socket:[3]", 6: "/dev/null"}}
    assert sockets.of_processes(held_by) == QueuesOfProcesses(6 * MiB + 9, 3, "7 (a)")
    hidden = sockets.of_processes({**held_by, 9: links})
    assert (hidden.count, hidden.why) == (3, "its net namespace may not be entered")
    assert sockets.of_processes({7: {}}) == QueuesOfProcesses()
    assert sockets.of_processes({7: None, 6: None}).why == "/proc/7/fd may not be read"
    assert sockets.of_processes({6: None}).why == "", "it has ended"
    with monkeypatch.context() as cut:
        cut.setattr(process, "DESCRIPTORS_READ", 2)
        assert "only the first 2 descriptors" in sockets.of_processes({7: links}).why
    at, any_address = b"\0\x50" + bytes(15) + b"\1", b"\0\x51" + sockets._ANY
    queues += [
        (5, Queue(0, 0, 0, place=at)), (0, Queue(60 * MiB, 0, 0, place=at)),
        (6, Queue(0, 0, 0, place=any_address)),
        (0, Queue(70 * MiB, 0, 0, place=any_address[:2] + at[2:])),
    ]  # fmt: skip
    waits = sockets.of_processes({7: links, 8: {1: "socket:[5]"}})
    assert (waits.bytes, waits.most_of) == (63 * MiB + 6, "8 (a)"), "not accepted by who listens"
    waits = sockets.of_processes({7: links, 8: {1: "socket:[6]"}})
    assert (waits.bytes, waits.most_of) == (73 * MiB + 6, "8 (a)")


def test_memory_that_is_merged_or_new_is_charged_to_no_other_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pages of equal content count in each process and are charged once; and the charge is read
    before the processes are."""
    one = Member(7, "one", 100 * MiB, 0, 0, 0, 0)
    seen = _of_group(charge=looks.charge(anonymous_bytes=MiB), members=(one,))

    def is_elsewhere(seen: held.GroupLook) -> bool:
        return "charged-elsewhere" in {found.name for found in held.findings(seen)}

    assert is_elsewhere(seen)
    assert not is_elsewhere(replace(seen, merged_bytes=95 * MiB))
    assert not is_elsewhere(replace(seen, merged_bytes=None))
    new = replace(one, growth_bytes=95 * MiB)
    assert not is_elsewhere(replace(seen, members=(new,)))
    gone = replace(one, growth_bytes=-95 * MiB)
    assert is_elsewhere(replace(seen, members=(gone,)))
    monkeypatch.setattr(pages, "merged_bytes", {7: 3 * MiB, 8: None}.__getitem__)
    assert held._merged([one, one]) == 6 * MiB
    assert held._merged([one, replace(one, pid=8)]) is None
    assert held._merged([replace(one, pid=8, anonymous_bytes=0)]) == 0

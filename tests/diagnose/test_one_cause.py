"""What a sentence may not say: a cause not read, days of a start, advice that is refuted."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

import memlab
from memlab.command import bus_error, fault_log
from memlab.command.fault_log import FaultLog
from memlab.diagnose import flow, group_limits, held, held_shared, limits, shared, stock
from memlab.diagnose.family import Member
from memlab.diagnose.finding import COSTLY, NOTE, Finding
from memlab.diagnose.heap import Heap
from memlab.diagnose.held import GroupLook
from memlab.diagnose.look import Look
from memlab.diagnose.room import TmpfsUse
from memlab.diagnose.waits import Waits
from memlab.observe import proc, process

from .live import Compiled
from .looks import GiB, MiB, charge, group, look, memory, rates


def one_of(found: Look, name: str) -> Finding | None:
    return next((one for one in stock.findings(found) if one.name == name), None)


def growing(**changes: object) -> Finding:
    found = one_of(
        look(**{"growth_bytes_per_s": 1.0 * MiB, "grows_steadily": True, "mapped_growth_bytes": MiB,
                "available_bytes": 8 * GiB, "age_s": 3600.0} | changes),
        "growing",
    )  # fmt: skip
    assert found is not None
    return found


def test_a_growth_is_told_by_the_day_only_of_a_program_that_has_settled() -> None:
    assert "GB per day" in growing().title
    assert "per day" not in growing(age_s=4.0).title
    bounded = growing(mapped_growth_bytes=0, unfilled_bytes=300 * MiB)
    assert "per day" not in bounded.title
    assert "its mappings have room for 300 MiB more" in bounded.title


def test_a_growth_costs_if_the_room_lasts_for_a_hundred_looks() -> None:
    assert growing(available_bytes=999 * MiB).severity == COSTLY
    assert growing(available_bytes=1999 * MiB).severity == NOTE


def test_shared_memory_that_is_unmapped_is_not_given_back() -> None:
    swing = {"lowest_bytes": 1 * MiB, "highest_bytes": 41 * MiB, "fell_bytes": 80 * MiB}
    own = one_of(look(**swing, private_swing_bytes=40 * MiB), "swings")
    mapped = one_of(look(**swing, private_swing_bytes=0), "swings")
    assert own is not None
    assert mapped is not None
    assert "gives back" in own.title
    assert "that it unmaps some gives none of it back by itself" in mapped.title


def test_new_shared_memory_that_is_unmapped_is_not_touched_again() -> None:
    """Segments that are written and unmapped stay: their pages are charged to the group."""
    calls = look(per_s=rates(munmap=3.0, minor_faults=8000.0, present_faults_user=0.0))
    grows = group(shared_growth_bytes_per_s=8000 * 4096.0)
    for of_group, count in ((group(), 1), (grows, 0)):
        found = [one.name for one in flow.findings(replace(calls, group=of_group))]
        assert found.count("gives-back-large-pieces") == count
    parts = flow.split(replace(calls, group=grows))
    assert (parts.unmapped, parts.again, parts.rest) == (8000.0, 0.0, 0.0)
    kept = look(
        per_s=rates(
            madvise_dontneed=300.0, munmap=0.0, minor_faults=8000.0, present_faults_user=0.0
        ),
        group=grows,
    )
    assert "gives-back-large-pieces" in {one.name for one in flow.findings(kept)}
    assert flow.split(kept).unmapped == 0, "another process of the group made it grow"
    mapped = flow.split(replace(calls, group=grows, growth_bytes_per_s=8000 * 4096.0))
    assert (mapped.first, mapped.unmapped) == (8000.0, 0.0), "what it maps is its growth"


@pytest.mark.parametrize(
    ("changes", "whose"),
    [
        ({}, "(most is not this process's)"),
        ({"shared_growth_bytes_per_s": 0.6 * MiB}, "(most is tmpfs, shared memory or memfd: who"),
        ({"kernel_growth_bytes_per_s": 0.6 * MiB}, "(most is the kernel's memory: who"),
        ({"shared_growth_bytes_per_s": 0.4 * MiB}, "(most is not this process's)"),
    ],
)
def test_whose_the_growth_of_a_group_is_was_read_or_is_not_said(
    changes: dict[str, float], whose: str
) -> None:
    filling = group(growth_bytes_per_s=MiB, grows_steadily=True, seconds_left=900.0, **changes)
    found = [one for one in limits.findings(look(group=filling)) if one.name == "group-limit-nears"]
    assert [whose in one.title for one in found] == [True]


@pytest.mark.parametrize(("faults", "is_there"), [(12.0, True), (749.0, True), (750.0, False)])
def test_threads_without_page_faults_map_no_stack(faults: float, *, is_there: bool) -> None:
    """The C library uses the stacks of ended threads again: smaller ones would change nothing."""
    seen = look(per_s=rates(threads_created=1500.0, minor_faults=faults))
    (found,) = [one for one in flow.findings(seen) if one.name == "makes-threads"]
    assert ("most use a stack that is there" in found.title) == is_there
    assert ("a stack to map and to fault in" in found.title) != is_there
    assert ("smaller stacks" in found.setting) != is_there
    assert bool(found.policies) != is_there


def test_a_setting_of_malloc_is_advised_where_malloc_holds_the_memory() -> None:
    calls = rates(minor_faults=30_000.0, madvise_dontneed=300.0, munmap=0.0, brk=0.0)
    held_by = memory(resident_bytes=64 * MiB, anonymous_bytes=60 * MiB)
    small, large = Heap(1, 4 * MiB, 0, 0, 0), Heap(1, 50 * MiB, 0, 0, 0)
    for heap, advised in ((small, False), (large, True)):
        seen = look(per_s=calls, memory=held_by, heap=heap, fell_bytes=400 * MiB)
        (found,) = [one for one in flow.findings(seen) if one.name == "gives-back-large-pieces"]
        assert ("GLIBC_TUNABLES" in found.setting) == advised
        assert bool(found.policies) == advised


def test_anonymous_shared_memory_of_a_group_is_no_file_to_remove() -> None:
    full = charge(used_bytes=200 * MiB, shmem_bytes=100 * MiB)
    (unread,) = group_limits.of_files(full, (), (), None, {})
    assert "or the end of all who hold them" in unread.title
    (own,) = group_limits.of_files(
        full, (), (), None, {shared.ANONYMOUS: 100 * MiB, shared.NAMED: MiB}
    )
    assert "they go when the last process that maps them ends" in own.title
    assert "remove" not in own.setting
    (files,) = group_limits.of_files(full, (), (), None, {shared.NAMED: 100 * MiB})
    assert "stay when this process ends" in files.title
    mounts = (TmpfsUse("/dev/shm", 400 * MiB, GiB),)
    for kinds, says in (
        ({}, True), ({shared.NAMED: 100 * MiB}, True), ({shared.ANONYMOUS: 80 * MiB}, True),
        ({shared.ANONYMOUS: 100 * MiB}, False),
    ):  # fmt: skip
        (one,) = group_limits.of_files(full, (), mounts, None, kinds)
        assert ("/dev/shm holds 400 MiB" in one.title) == says


@pytest.mark.parametrize("limit", [None, 4 << 30])
def test_what_several_processes_share_of_a_group_is_counted_in_each(limit: int | None) -> None:
    full = charge(used_bytes=200 * MiB, shmem_bytes=100 * MiB)
    room = None if limit is None else group(charge=full, limit_bytes=limit)
    seen = GroupLook(
        "/sys/fs/cgroup/job", "2", 1.0, full, 0.0, 0.0, room, 5, (), 0, (),
        Waits(0, 0, {}, 0, {}, 0.0, None), None, grows_steadily=False,
        shared_kinds={shared.SYSTEM_V: 100 * MiB},
        sums=held_shared.Sums(5, 520 * MiB, 110 * MiB),
    )  # fmt: skip

    def said(**changes: object) -> str:
        (one,) = (one for one in held.findings(replace(seen, **changes)) if "tmpfs" in one.name)
        return one.title

    assert said().endswith(
        "; the resident memory of its 5 processes adds up to 520 MiB, and to 110 MiB if "
        "what is shared counts in parts (PSS)"
    )
    assert "memory of 5 of its 7 processes adds up" in said(processes=7)
    for sums in (None, held_shared.Sums(5, 125 * MiB, 110 * MiB)):
        assert "adds up" not in said(sums=sums)
    notes = {line.name: line.note for line in held.accounts(seen)[0].lines}
    assert notes["tmpfs, shared memory"] == "its processes map 100 MiB of such memory"
    unmapped = held.accounts(replace(seen, shared_kinds={}))[0].lines
    assert "of no process, unless one maps it" in [line.note for line in unmapped]


def test_the_sums_of_processes_are_of_those_that_may_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """7 is a kernel thread, 8 is too large to walk, 9 may not be read."""
    resident = {7: 0, 8: 3 << 30, 9: 10 * MiB, 10: 20 * MiB, 11: 20 * MiB}
    parts = {10: {"Rss": 20 * MiB, "Pss": 11 * MiB}, 11: {"Rss": 21 * MiB, "Pss": 12 * MiB}}
    monkeypatch.setattr(proc, "status", lambda pid: {"VmRSS": f"{resident[pid] >> 10} kB"})
    monkeypatch.setattr(process, "rollup", lambda pid: parts.get(pid, {}))
    assert held_shared.sums([7, 8, 9, 10, 11]) == held_shared.Sums(2, 41 * MiB, 23 * MiB)
    assert held_shared.sums([7, 8, 9, 10]) is None


def test_memory_of_a_process_that_is_not_seen_belongs_to_no_other() -> None:
    member = Member(7, "seen", 20 * MiB, 0, 0, 0, 0)
    waits = Waits(0, 0, {}, 0, {}, 0.0, None)
    whole = GroupLook(
        "/sys/fs/cgroup/job", "2", 1.0, charge(anonymous_bytes=120 * MiB), 0.0, 0.0, None, 1,
        (member,), 0, (), waits, None, grows_steadily=False,
    )  # fmt: skip
    names = [one.name for one in held.findings(whole)]
    assert "held-elsewhere" in names
    hidden = [one.name for one in held.findings(replace(whole, processes=2))]
    assert "held-elsewhere" not in hidden


_EARLIER = "a file ended before the mapping, or its I/O failed"


@pytest.mark.parametrize(
    ("pools", "systems", "words"),
    [
        ({}, [("/", "ext4", 60, 40)],
         f"{_EARLIER}; the fullest file system, /, is 60 % full; whether it maps huge pages, of "
         "which there is no pool, was not read"),
        ({}, [("/", "ext4", 60, 40), ("/srv/index", "ext4", 190, 0)],
         f"/srv/index (ext4) is full, if it maps a file there; else {_EARLIER}; whether it maps "
         "huge pages, of which there is no pool, was not read"),
        ({"hugepages-2048kB": (8, 0, 0)}, [("/", "xfs", 98_900, 1_100)],
         f"no huge page of 2 MiB is free, if it maps such; else {_EARLIER}; the fullest file "
         "system, /, is 99 % full"),
        ({"hugepages-2048kB": (8, 0, 5), "hugepages-1048576kB": (0, 0, 0)},
         [("/dev/shm", "tmpfs", 99_100, 900)],
         f"/dev/shm (tmpfs) is 99.1 % full (900 MiB free), if it maps a file there; else "
         f"{_EARLIER}; huge pages of 2 MiB are free (5)"),
        ({"hugepages-2048kB": (0, 4, 0), "hugepages-1048576kB": (2, 0, 1)},
         [("/boot", "ext4", 200, 15), ("/run/lock", "tmpfs", 0, 5)],
         f"/boot (ext4) is 93.0 % full (15 MiB free), if it maps a file there; no huge page of 2 "
         f"MiB is free, if it maps such; else {_EARLIER}; huge pages of 1 GiB are free (1)"),
        ({"hugepages-2048kB": (1, 0, 1)}, [],
         f"{_EARLIER}; huge pages of 2 MiB are free (1)"),
    ],
)  # fmt: skip
def test_a_bus_error_says_what_was_read_and_no_cause(
    pools: dict[str, tuple[int, int, int]],
    systems: list[tuple[str, str, int, int]],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name, counts in pools.items():
        (tmp_path / name).mkdir()
        for file, count in zip(("nr", "nr_overcommit", "free"), counts, strict=True):
            (tmp_path / name / f"{file}_hugepages").write_text(f"{count}\n")
    mounts = [
        bus_error.FileSystem(path, kind, used * MiB, free * MiB)
        for path, kind, used, free in systems
    ]
    monkeypatch.setattr(bus_error, "_POOLS", tmp_path)
    monkeypatch.setattr(bus_error, "_file_systems", lambda: mounts)
    assert bus_error.read() == f"a page that it mapped could not be had: {words}"


def test_only_local_file_systems_that_can_be_written_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of a network may not answer; the last mount of a place hides the others."""
    table = [
        ("/", "rw", "ext4", "/dev/vda", "rw"), ("/iso", "ro", "iso9660", "/dev/sr0", "ro"),
        ("/bound", "ro", "ext4", "/dev/vda", "rw"), ("/net", "rw", "nfs4", "srv:/x", "rw"),
        ("/ntfs", "rw", "fuseblk", "/dev/sdb1", "rw"), ("/dev", "rw", "devtmpfs", "devtmpfs", "rw"),
        ("/host", "rw", "9p", "/dev/root", "rw"), ("/twice", "rw", "tmpfs", "tmpfs", "rw"),
        ("/twice", "rw", "nfs4", "srv:/y", "rw"), ("/dev/shm", "rw", "tmpfs", "tmpfs", "rw"),
    ]  # fmt: skip
    mounts = [
        proc.Mount(n, "/", path, frozenset({options}), kind, source, frozenset({super_options}))
        for n, (path, options, kind, source, super_options) in enumerate(table)
    ]
    asked: list[str] = []

    def statvfs(path: str) -> os.statvfs_result:
        asked.append(path)
        return os.statvfs_result((4096, 4096, 1000, 60, 10, 0, 0, 0, 0, 255))

    monkeypatch.setattr(proc, "mounts", lambda: mounts)
    monkeypatch.setattr(bus_error.os, "statvfs", statvfs)
    both = bus_error._file_systems()
    assert asked == ["/", "/dev/shm"]
    assert str(both[0]) == "/ (ext4) is 98.9 % full (40 KiB free, 200 KiB kept back)"
    assert both[0].nearly_full


FAULTS = {
    "n": ("at 8 ip 55e0 sp 7ffc33f0b8e0 error 6 in dies[55e000+1000]",
          "it writes to address 0x8: a pointer that is null or nearly so, in code of dies"),
    "l": ("at 402010 ip 401136 sp 7ffc33f0b8e0 error 7 in dies[401000+1000]",
          "it writes to 0x402010: a page is there, and does not allow that, in code of dies"),
    "s": ("at 7ffc33bbfff8 ip 401136 sp 7ffc33bc0000 error 6 in dies[401000+1000]",
          "it writes to 0x7ffc33bbfff8, where its stack pointer is and no page may be: its stack "
          "is full (RLIMIT_STACK: 8 MiB; of a thread by its own size), or that pointer is damaged, "
          "in code of dies"),
    "w": ("at 123456789000 ip 401136 sp 7ffc33f0b8e0 error 4",
          "it reads 0x123456789000, where no page of it is: whether a mapping without that right "
          "lies there was not read"),
    "x": ("at 7ffc33f0b8e0 ip 7ffc33f0b8e0 sp 7ffc33f0b8e8 error 15",
          "it executes 0x7ffc33f0b8e0: a page is there, and does not allow that"),
    "m": ("at ffffffffffffffff ip 401136 sp 7ffc33f0b8e0 error 7 in dies[401000+1000]",
          "it writes to 0xffffffffffffffff, where no program has memory: a pointer that is -1, as "
          "of a mmap(2) that failed, or damaged, in code of dies"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "words"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_by_the_kernels_line_of_that_process(
    line: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "6,9,9,-;dies[70]: segfault at 0 ip 0 sp 0 error 4"
    logged = [other, f"6,8,8,-;dies[7]: segfault {line}", other]
    monkeypatch.setattr(FaultLog, "_lines", lambda _: logged)
    log = FaultLog()
    launch = ("launch", "stack=8388608")
    assert log.why(7, signal.SIGSEGV, launch) == words
    locked = log.why(7, signal.SIGSEGV, launch, (5 << 19, 4 << 20))
    grows = ", or may not grow: 2.5 MiB were locked, and RLIMIT_MEMLOCK is 4 MiB"
    assert locked.replace(grows, "") == words
    assert (grows in locked) == ("its stack is full" in words)
    assert log.why(8, signal.SIGSEGV, launch).startswith("which address it touched was not read: ")
    assert log.why(7, signal.SIGABRT, launch) == ""
    log.close()


END = 0x7FFC33BBFFF8 + (8 << 20) - 24  # of a stack that is full to 8 MiB


@pytest.mark.parametrize(
    ("end", "limit_mib", "locked", "words"),
    [
        (END, 8, None, "its stack is full, 8 MiB long (RLIMIT_STACK: 8 MiB)"),
        (END, 8, (1 << 20, 4 << 20), "its stack is full, 8 MiB long (RLIMIT_STACK: 8 MiB)"),
        (END, 16, (5 << 19, 4 << 20), "its stack, 8 MiB long, may not grow, below RLIMIT_STACK "
         "(16 MiB): 2.5 MiB were locked, and RLIMIT_MEMLOCK is 4 MiB"),
        (END, 16, None, "its stack, 8 MiB long, may not grow, below RLIMIT_STACK (16 MiB)"),
        (END, -1, None, "its stack, 8 MiB long, may not grow, below RLIMIT_STACK (unlimited)"),
        (END << 1, 16, None, "its stack is full (RLIMIT_STACK: 16 MiB; of a thread by its own"),
        (0, 16, None, "its stack is full (RLIMIT_STACK: 16 MiB; of a thread by its own size)"),
    ],
)  # fmt: skip
def test_a_stack_is_full_or_may_not_grow_by_what_was_read(
    end: int, limit_mib: int, locked: tuple[int, int] | None, words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    logged = [f"6,8,8,-;dies[7]: segfault {FAULTS['s'][0]}"]
    monkeypatch.setattr(FaultLog, "_lines", lambda _: logged)
    log = FaultLog()
    limit = limit_mib if limit_mib < 0 else limit_mib << 20
    said = log.why(7, signal.SIGSEGV, ("launch",), locked, fault_log.Stack(end, limit))
    assert f"no page may be: {words}" in said
    log.close()


@pytest.mark.parametrize(
    ("address", "behind"),
    [("fff", "4 KiB"), ("7", "8 B"), ("fffff", "1 MiB"), ("8", ""), ("ffff8", ""), ("0", ""),
     ("123456789fff", "")],
)  # fmt: skip
def test_an_address_a_little_behind_a_mapping_that_failed_is_said_as_that(
    address: str, behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(char *)MAP_FAILED + 4096 is 0xfff."""
    logged = [f"6,8,8,-;dies[7]: segfault at {address} ip 55e0 sp 7ffc33f0b8e0 error 6"]
    monkeypatch.setattr(FaultLog, "_lines", lambda _: logged)
    log = FaultLog()
    words = f", or {behind} behind a pointer that is -1, as of a mmap(2) that failed"
    said = log.why(7, signal.SIGSEGV, ())
    assert (words in said) if behind else ("behind" not in said)
    log.close()


@pytest.mark.parametrize(
    ("logged", "is_named"),
    [((4194305,), True), ((4194305, 4194306), False), ((os.getpid(),), False), ((), False)],
)
def test_a_fault_of_another_thread_is_only_named_as_that(
    logged: tuple[int, ...], is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number above the largest PID there may be has no process."""
    end = "segfault at 8 ip 1 sp 7f00 error 6"
    lines = [f"6,8,8,-;pool w[{number}]: {end}" for number in logged]
    monkeypatch.setattr(FaultLog, "_lines", lambda _: lines)
    log = FaultLog()
    said = log.why(7, signal.SIGSEGV, ())
    words = "if thread 4194305 (pool w), which has ended too, was of this process, it writes to "
    assert said.startswith(words if is_named else "which address it touched was not read: ")
    log.close()


def test_a_kill_for_want_of_memory_and_a_general_fault_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged = [
        "4,1,1,-;traps: dies[7] general protection fault ip:401136 sp:7ffc error:0 in dies[4+1]",
        "3,2,2,-;Memory cgroup out of memory: Killed process 9 (dies) total-vm:1kB, anon-rss:1kB",
    ]
    monkeypatch.setattr(FaultLog, "_lines", lambda _: logged)
    log = FaultLog()
    assert "general protection fault" in log.why(7, signal.SIGSEGV, ())
    assert log.why(9, signal.SIGKILL, ()).startswith("by the kernel, for want of memory")
    assert log.why(7, signal.SIGKILL, ()) == ""
    log.close()


def test_a_log_that_may_not_be_read_is_said_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = "6,8,8,-;dies[7]: segfault at 8 ip 1 sp 1 error 6\n"
    (tmp_path / "dev").mkdir()
    monkeypatch.setattr(fault_log.proc, "ROOT", tmp_path)
    for begin in ("", line):  # no such file; one that is not the kernel's
        if begin:
            (tmp_path / "dev/kmsg").write_text(begin)
        log = FaultLog()
        assert "(/dev/kmsg) may not be read here" in log.why(7, signal.SIGSEGV, ())
        assert log.why(7, signal.SIGKILL, ()) == ""
        log.close()


def test_the_log_is_not_read_where_its_numbers_are_of_other_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fault_log, "_has_its_pids", lambda: False)
    log = FaultLog()
    assert log._fd < 0
    assert "has other PIDs (container)" in log.why(7, signal.SIGSEGV, ())
    log.close()


@pytest.mark.parametrize(
    ("what", "words"),
    [("stack", "where its stack pointer is and no page may be: its stack is full"),
     ("null", "writes to address 0x8: a pointer that is null or nearly so"),
     ("thread", "which has ended too, was of this process, it writes to address 0x8: "),
     ("literal", "it writes to 0x"),
     ("failed", "it writes to 0xffffffffffffffff, where no program has memory: "),
     ("", "")],
)  # fmt: skip
def test_a_death_by_a_fault_has_its_address_or_says_why_not(
    what: str, words: str, binary: Compiled, store_path: Path
) -> None:
    """How many faults are logged is limited for all programs of the machine."""
    program = [str(binary("dies")), what] if what else ["sh", "-c", "kill -11 $$"]
    run = memlab.trial(program, blocks=1, store=store_path)
    (sample,) = run.samples
    assert sample.outcome == "sigsegv"
    said = sample.detail or ""
    unread = "ended by SIGSEGV: which address it touched was not read: "
    unnamed = "ended by SIGSEGV: if thread "  # another program had a fault meanwhile
    assert said.startswith((unread, unnamed)) or (words and words in said)

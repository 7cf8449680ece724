"""What a sentence may not say: a cause not read, days of a start, advice that is refuted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memlab.command import bus_error
from memlab.diagnose import family, flow, group_limits, group_rows, held, limits, shared, stock
from memlab.diagnose.family import Member
from memlab.diagnose.finding import COSTLY, NOTE, Finding, LineRow
from memlab.diagnose.heap import Heap
from memlab.diagnose.held import GroupLook
from memlab.diagnose.look import Look
from memlab.diagnose.room import Room
from memlab.diagnose.waits import Waits
from memlab.observe import files

from .looks import GiB, MiB, charge, look, memory, rates


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


def test_a_setting_of_malloc_is_advised_where_malloc_holds_the_memory() -> None:
    calls = rates(minor_faults=30_000.0, madvise_dontneed=300.0, munmap=0.0, brk=0.0)
    held_by = memory(resident_bytes=64 * MiB, anonymous_bytes=60 * MiB)
    small, large = Heap(1, 4 * MiB, 0, 0, 0), Heap(1, 50 * MiB, 0, 0, 0)
    for heap, advised in ((small, False), (large, True)):
        seen = look(per_s=calls, memory=held_by, heap=heap, fell_bytes=400 * MiB)
        (found,) = [one for one in flow.findings(seen) if one.name == "gives-back-large-pieces"]
        assert ("GLIBC_TUNABLES" in found.setting) == advised
        assert bool(found.policies) == advised


@pytest.mark.parametrize("row", group_rows.ROWS, ids=lambda row: row.name)
def test_each_line_of_a_group_is_said_from_its_bound_on(row: LineRow) -> None:
    used = 400 * MiB
    bound = round(row.least_share * used)
    (found,) = group_rows.findings(charge(used_bytes=used, **{row.field: bound}))
    assert (found.name, found.measured) == (row.name, bound)
    assert list(group_rows.findings(charge(used_bytes=used, **{row.field: bound // 2}))) == []


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


def test_memory_of_a_process_that_is_not_seen_belongs_to_no_other() -> None:
    member = Member(7, "seen", 20 * MiB, 0, 0, 0, 0)
    waits = Waits(0, 0, {}, 0, {}, 0.0, None)
    whole = GroupLook(
        "/sys/fs/cgroup/job", "2", 1.0, charge(anonymous_bytes=120 * MiB), 0.0, 0.0, None, 1,
        (member,), 0, 0, (), waits, None, grows_steadily=False,
    )  # fmt: skip
    names = [one.name for one in held.findings(whole)]
    assert "held-elsewhere" in names
    hidden = [one.name for one in held.findings(replace(whole, processes=2))]
    assert "held-elsewhere" not in hidden


def test_open_files_name_what_most_of_them_are() -> None:
    one_file = dict.fromkeys(range(90), "/dev/shm/format (deleted)")
    most = family.most_open(one_file | {100: "socket:[7]", 101: "pipe:[8]"})
    files = Room("RLIMIT_NOFILE", 92, 100, "count", "open fails with EMFILE", 10.0)
    (found,) = limits.findings(look(rooms=(files,), most_open=most))
    assert "90 of 92 are one file, /dev/shm/format (deleted)" in found.title
    sockets = family.most_open({number: f"socket:[{number}]" for number in range(90)})
    (found,) = limits.findings(look(rooms=(files,), most_open=sockets))
    assert "90 of 90 are of the kind socket" in found.title
    assert family.most_open({number: f"/tmp/{number}" for number in range(90)}) is None


def test_a_bus_error_says_what_was_read_and_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(free: int, full: float) -> str:
        monkeypatch.setattr(bus_error, "_tmpfs", lambda: [(full, "/dev/shm")])
        monkeypatch.setattr(
            bus_error, "_pool", lambda name: ("2 MiB", free if "2048kB" in name else 0)
        )
        return bus_error.read()

    monkeypatch.setattr(files, "names", lambda _: ["hugepages-2048kB"])
    none = said(0, 0.2)
    assert "no huge page is free (pool of 2 MiB: 0), if it maps huge pages" in none
    assert "/dev/shm, is 20 % full" in none
    full = said(5, 1.0)
    assert "/dev/shm (tmpfs) is full" in full
    assert "huge pages are free (of 2 MiB: 5)" in full
    assert "no huge page" not in full
    neither = said(5, 0.2)
    assert "else" not in neither
    assert "a file or its disk ended before the mapping" in neither
    assert "because" not in none + full + neither

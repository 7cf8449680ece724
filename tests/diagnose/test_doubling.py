"""Twice as much is twice the number: what live programs hold, and each rate of made-up looks."""

from __future__ import annotations

import os

import needs
import pytest

from memlab.diagnose import diagnosis, flow, limits, stock, timing
from memlab.diagnose.diagnosis import Diagnosis
from memlab.diagnose.waits import Waits

from .live import Compiled
from .looks import GLIBC, JEMALLOC, MiB, look, memory, rates
from .test_asked import Case, started

# The kernel sums resident pages per CPU, each of which holds back up to 32 of a kind (Linux 6.2,
# f1a7941243c1); of two kinds in two looks.
UNSEEN = 2 * 2 * 32 * 4096 * (os.cpu_count() or 1)
HELD = (
    ("lazyfree", ("-", "1"), ("-", "2"), "LazyFree"),
    ("shm", ("-", "mapped", "1"), ("-", "mapped", "2"), "shared memory, tmpfs"),
    ("shm", ("-", "unmapped", "1"), ("-", "unmapped", "2"), "in memfd and shm files, not mapped"),
    ("left_behind", ("-", "sysv", "1"), ("-", "sysv", "2"), "System V segments, not attached"),
    ("meets_shared", ("-", "sysv", "1"), ("-", "sysv", "2"), "System V segments, removed"),
    ("sparse", ("-", "sparse", "1"), ("-", "sparse", "2"), "page tables"),
    ("pin", ("-", "0", "1"), ("-", "0", "2"), "locked"),
    ("children", ("-", "idle", "1"), ("-", "idle", "2"), "its children"),
    ("arenas", ("-", "1"), ("-", "2"), "free in malloc"),
    ("mappings", ("-", "300"), ("-", "600"), "vm.max_map_count"),
)


def of_line(found: Diagnosis, name: str) -> float | None:
    return next(
        (line.value for one in found.accounts for line in one.lines if line.name == name), None
    )


@pytest.mark.slow
@pytest.mark.parametrize(("program", "once", "twice", "name"), HELD)
def test_a_program_that_holds_twice_as_much_has_twice_the_line(
    program: str, once: tuple[str, ...], twice: tuple[str, ...], name: str, binary: Compiled
) -> None:
    seen = []
    for arguments in (once, twice):
        with started(Case(program, arguments), binary) as pid:
            found = diagnosis.of(pid, 0.1)
        value = of_line(found, name)
        if value is None and needs.lacking("flags of pages"):
            pytest.skip(f"{name} is not seen here: {found.not_looked_at}")
        assert value is not None, name
        seen.append(value)
    # A sample of 3,000 pages says a share of 15 in 16 to 0.5 %; of two, four times that.
    share = 0.03 if name == "LazyFree" else 0.02
    most = 64 if name == "vm.max_map_count" else max(share * seen[1], UNSEEN)
    assert abs(seen[1] - 2 * seen[0]) <= most, seen


# The finding, what makes it, and the rates that are doubled; the numbers are of no program.
RATES = (
    ("malloc-gives-back", {"allocator": JEMALLOC}, {"madvise_dontneed": 4e3, "minor_faults": 6e4}),
    ("glibc-trims", {"allocator": GLIBC}, {"brk": 5e3, "minor_faults": 6e4}),
    ("gives-memory-back", {}, {"munmap": 3e3, "minor_faults": 4e3}),
    ("gives-back-large-pieces", {}, {"munmap": 4e1, "minor_faults": 4e4}),
    ("copies-after-fork", {"fork_s": 0.01},
     {"processes_forked": 4.0, "present_faults_user": 6e3, "minor_faults": 6e3}),
    ("reads-files", {}, {"major_faults": 60.0}),
    ("reads-swap", {"memory": memory(swapped_bytes=64 * MiB)}, {"major_faults": 60.0}),
    ("made-writable-again", {}, {"present_faults_user": 2e4, "minor_faults": 2e4}),
    ("page-faults", {}, {"minor_faults": 4e4}),
    ("changes-protection", {}, {"mprotect": 4e3}),
    ("makes-threads", {}, {"threads_created": 400.0}),
    ("shootdowns", {}, {"shootdowns_taken": 4e3}),
    ("bus-errors", {}, {"bus_errors": 4.0}),
    ("waits-for-mappings", {}, {"lock_sleeps": 4e3, "munmap": 4e3}),
    ("waits-for-compaction", {}, {"compactions": 4.0}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "made", "per_s"), RATES, ids=[one[0] for one in RATES])
def test_what_happens_twice_as_often_has_twice_the_number(
    name: str, made: dict[str, object], per_s: dict[str, float]
) -> None:
    def measured(times: int) -> float:
        seen = look(**made, per_s=rates(**{event: times * n for event, n in per_s.items()}))
        kinds = (limits, timing, flow, stock)
        found = [one for kind in kinds for one in kind.findings(seen) if one.name == name]
        return found[0].measured

    assert measured(2) == pytest.approx(2 * measured(1), rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("reclaim", "waits-for-reclaim"), ("swap", "waits-for-swap"), ("fsync", "waits-for-fsync"),
     ("writeback", "waits-for-writeback"), ("a page of a file", "waits-for-files"),
     ("compaction", "waits-for-compaction")],
)  # fmt: skip
def test_who_waits_in_twice_as_many_samples_waits_twice_as_much(kind: str, name: str) -> None:
    def measured(times: int) -> float:
        waits = Waits(400, 0, {kind: 40 * times}, 400 - 40 * times, {}, 1.0, None)
        return next(one.measured for one in timing.findings(look(waits=waits)) if one.name == name)

    assert measured(2) == pytest.approx(2 * measured(1))

"""Twice as much is twice the number, of what live programs hold; test_when.py has made-up looks."""

from __future__ import annotations

import os

import needs
import pytest

from memlab.diagnose import diagnosis
from memlab.diagnose.diagnosis import Diagnosis

from .live import Compiled
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

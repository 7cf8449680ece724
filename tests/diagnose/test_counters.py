"""Counted events, exactly: a program does each thing 23 times between two readings."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memlab.diagnose import counters

from .live import Compiled, running

TIMES = 23
Acting = Callable[[str], dict[str, int]]


@pytest.fixture
def acting(binary: Compiled) -> Iterator[Acting]:
    """What is counted while the program acts; its preparation lies before."""
    with running(binary("acts")) as program, counters.counting(program.pid) as counted:
        if "madvise" in counted.unseen:
            pytest.skip(counted.unseen["madvise"])

        def act(what: str) -> dict[str, int]:
            tell(program, what)
            before = counted.read()
            tell(program, what)
            after = counted.read()
            assert len({task for task, _ in after}) == 1
            return {name: after[task, name] - before[task, name] for task, name in after}

        yield act


def tell(program: subprocess.Popen[str], what: str) -> None:
    assert program.stdin
    assert program.stdout
    program.stdin.write(what)
    program.stdin.flush()
    assert program.stdout.readline() == "ready\n"


@pytest.mark.seconds(but="p-expected3")
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("d", {"madvise": TIMES, "madvise_dontneed": TIMES}),
        ("a", {"madvise": TIMES, "madvise_dontneed": 0}),
        ("u", {"munmap": TIMES, "madvise": 0}),
        ("p", {"mprotect": TIMES}),
        ("b", {"brk": TIMES, "munmap": 0}),
        ("f", {"minor_faults": TIMES, "major_faults": 0, "compactions": 0}),
        ("t", {"threads_created": TIMES}),
        ("n", {"munmap": TIMES, "threads_created": 1}),
    ],
)
def test_what_was_done_23_times_is_counted_23_times(
    acting: Acting, what: str, expected: dict[str, int]
) -> None:
    found = acting(what)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.needs("counts of page faults")
def test_an_event_that_cannot_be_counted_says_why(
    monkeypatch: pytest.MonkeyPatch, binary: Compiled
) -> None:
    unknown = counters.Event("unknown", "syscalls:sys_enter_nosuch")
    monkeypatch.setattr(counters, "EVENTS", (*counters.EVENTS[-2:], unknown))
    with running(binary("acts")) as program, counters.counting(program.pid) as counted:
        assert list(counted.unseen) == ["unknown"]
        assert "tracepoint" in counted.unseen["unknown"]
        assert {name for _, name in counted.read()} == {"minor_faults", "major_faults"}


@pytest.mark.needs("counts of page faults")
def test_an_event_whose_filter_is_refused_says_so(
    monkeypatch: pytest.MonkeyPatch, binary: Compiled
) -> None:
    unfit = counters.Event("unfit", "syscalls:sys_enter_madvise", "nosuch == 1")
    monkeypatch.setattr(counters, "EVENTS", (unfit, *counters.EVENTS[-2:]))
    with running(binary("steady"), "3") as program, counters.counting(program.pid) as counted:
        assert re.search("filter, nosuch == 1|tracepoint", counted.unseen["unfit"])
        counts = counted.read()
    assert [name for _, name in counts] == 3 * ["minor_faults", "major_faults"]
    assert len({task for task, _ in counts}) == 3


@pytest.mark.seconds
def test_no_descriptor_is_left(binary: Compiled) -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    with running(binary("acts")) as program, counters.counting(program.pid):
        pass
    assert sorted(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.seconds
def test_threads_that_are_made_too_often_are_not_followed(binary: Compiled) -> None:
    with running(binary("makes_threads")) as program, counters.counting(program.pid) as counted:
        if "threads_created" in counted.unseen:
            pytest.skip(counted.unseen["threads_created"])
        (limit,) = counted.limits
    assert re.fullmatch(
        r"what new threads do: [1-9]\d* were made in the 0.1 s before the look, and to follow each "
        "would slow them down",
        limit,
    )


@pytest.mark.needs("counts of page faults")
def test_of_too_many_threads_some_are_counted(
    monkeypatch: pytest.MonkeyPatch, binary: Compiled
) -> None:
    monkeypatch.setattr(counters, "THREADS_MAX", 2)
    with running(binary("steady"), "5") as program, counters.counting(program.pid) as counted:
        assert counted.limits[0] == "3 of 5 threads: those with most CPU time are counted"
        assert len({task for task, _ in counted.read()}) == 2

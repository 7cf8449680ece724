"""How bad each finding is, by what docs/diagnose.md says of the three words: critical is what is
refused or killed now, or before as much time is over as the look took; costly is what the subject
pays for now, or will if it goes on; a note is the rest. Each row is in one of the tables below."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memlab.diagnose import group_limits, refused
from memlab.diagnose.call_table import ROWS as CALLS
from memlab.diagnose.call_table import Row
from memlab.diagnose.finding import COSTLY, CRITICAL, NOTE, Severity
from memlab.diagnose.look import Look
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.waits import Waits
from memlab.observe import proc

from .looks import JEMALLOC, GiB, MiB, charge, group, look, memory, rates
from .test_evidence import NAMES
from .test_when import (
    CASES,
    FLOORS,
    WAITS,
    Made,
    Seen,
    _calls,
    _filling,
    _forked,
    _limited,
    _of_group,
    _of_rate,
    _of_room,
    _read_ahead,
    _soon,
    _unshared,
    example,
    of_line,
    said,
)

_SWAPS = group_limits._swaps  # before conftest.py has made up what it reads

# Memory that is held or paid for once, and counts that are far from their limits: much of it is
# worth as many words as little.
NOTES = {
    "lazyfree", "retained", "retained-inside", "in-malloc", "held-beside-malloc",
    "huge-pages-unused", "stacks", "sockets-hold", "kernel-holds", "segments-left",
    "segments-removed", "segments-held-elsewhere", "held-open", "shared-memory", "touches-shared",
    "swapped-out", "pinned", "main-stack-grows", "file-pages-grow", "children-hold",
    "children-grow", "first-touches", "reads-zeros", "files-grow", "mappings-grow", "threads-grow",
    "group-full-of-droppable", "group-slab", "group-dirty", "group-tmpfs", "group-messages",
    "charged-elsewhere", "held-elsewhere", "machine-used", "machine-unexplained",
    "machine-counted-twice",
    "machine-huge-pages", "machine-removed-groups", "machine-grows",
}  # fmt: skip
# It stands still, loses or is refused something, however little.
COSTS = {
    "bus-errors", "sockets-drop", "tmpfs-full", "machine-low", "group-has-killed", "group-stalls",
    "frozen", "stopped",
}  # fmt: skip
# The kernel kills, or everybody waits who asks for memory.
ALARMS = {"group-kills", "group-out-of-memory"}


def _fork(fork_s: float, forks: float) -> Look:
    return look(per_s=rates(processes_forked=forks), fork_s=fork_s)


def _slept(kind: str, share: float) -> Waits:
    """This share of a thread's time, of half a thread on average."""
    return Waits(10_000, 0, {kind: round(2 * share * 10_000)}, 0, {}, 0.5, None)


def _waiting(kind: str) -> Made:
    changes = rates(munmap=10.0, lock_sleeps=10.0)
    return lambda share: look(waits=_slept(kind, share), per_s=changes)


def _growing(per_s: float, seconds: float, lasts_s: float, **changes: object) -> Look:
    """The machine has room for so long a time of 1 MiB per second."""
    grows = {"grows_steadily": True, "mapped_growth_bytes": 1, "growth_bytes_per_s": per_s}
    return look(seconds=seconds, available_bytes=int(lasts_s * MiB), **grows | changes)


def _swinging(rises: float) -> Look:
    return look(
        highest_bytes=64 * MiB, lowest_bytes=10 * MiB, fell_bytes=200 * MiB,
        floor_growth_bytes_per_s=rises, available_bytes=86_400 * MiB,
    )  # fmt: skip


def _squeezed(rate: float, needed: float) -> Look:
    """A full group of 64 MiB, of which so much cannot be dropped."""
    full = charge(used_bytes=64 * MiB, file_clean_bytes=64 * MiB - int(needed))
    return look(group=group(charge=full, reread_bytes_per_s=rate))


def _nears(seconds_left: float, **changes: object) -> Look:
    """In a look of 10 s; the group's growth is the process's, which has memory mapped for it."""
    quiet = replace(look(), growth_bytes_per_s=1.0, unfilled_bytes=GiB, group=group(
        seconds_left=seconds_left, grows_steadily=True, growth_bytes_per_s=1.0,
        highest_bytes=32 * MiB))  # fmt: skip
    return replace(quiet, **changes)  # type: ignore[arg-type]


# What costs from an amount on: the words just below it and just above it.
COSTS_FROM: tuple[tuple[str, float, Made], ...] = (
    ("copies-after-fork", 5000, lambda n: look(per_s=rates(
        processes_forked=0.1, minor_faults=n, present_faults_user=n))),
    ("copies-after-fork", 5e-3, lambda n: _fork(n, 0.1)),
    ("copies-after-fork", 3e-3, lambda n: _fork(n, 10 / 3)),  # a hundredth of its time
    ("served-by-userfaultfd", 0.05, _waiting("userfaultfd")),
    ("malloc-set-to-give-back", 5000, lambda n: look(
        per_s=rates(minor_faults=n, munmap=None), allocator=JEMALLOC)),
    ("malloc-gives-back", 1000, lambda n: _calls(n, 900, 900, allocator=JEMALLOC)),
    ("malloc-gives-back", 20_000, lambda n: _calls(300, n, n, allocator=JEMALLOC)),
    ("glibc-trims", 1000, lambda n: look(per_s=rates(brk=n, minor_faults=1500.0))),
    ("gives-back-large-pieces", 20_000, lambda n: _calls(1, n, n)),
    ("gives-memory-back", 2000, lambda n: _calls(n, 0, 0)),
    ("made-writable-again", 20_000, lambda n: look(
        per_s=rates(minor_faults=n, present_faults_user=n))),
    ("page-faults", 20_000, _of_rate("minor_faults")),
    ("children-fault", 10_000, lambda n: look(waited_faults_per_s=n)),
    ("shootdowns", 2000, _of_rate("shootdowns_taken")),
    ("changes-protection", 20_000, _of_rate("mprotect")),
    ("makes-threads", 1000, _of_rate("threads_created")),
    ("threads-made-while-locked", 100, lambda n: look(
        per_s=rates(threads_created=n), memory=memory(locked_bytes=MiB))),
    ("reads-files", 50, _of_rate("major_faults")),
    ("reads-swap", 50, lambda n: look(
        per_s=rates(major_faults=n), memory=memory(swapped_bytes=MiB))),
    ("group-limit-drops-files", 50, lambda n: replace(
        _limited(62 * MiB, file_clean_bytes=60 * MiB), per_s=rates(major_faults=n))),
    ("reads-ahead-unused", 50, lambda n: _read_ahead(n, 0.5)),
    ("reads-ahead-unused", 0.1, lambda n: replace(
        _read_ahead(9.0, 0.5), waits=_slept("a page of a file", n))),
    # Its room lasts for 100 looks, and for a day at most.
    ("growing", MiB, lambda n: _growing(n, 10.0, 1000)),
    ("growing", MiB, lambda n: _growing(n, 10_000.0, 86_400)),
    ("swings", MiB, _swinging),
    ("unshared", MiB, lambda n: _unshared(n, 32 * MiB)),
    ("unshared", 256 * MiB, lambda n: _unshared(0.1 * MiB, n)),
    ("unshared", MiB, lambda n: _forked(n, 8 * MiB)),
    ("unshared", 256 * MiB, lambda n: _forked(0.1 * MiB, n)),
    ("page-tables", 64 * MiB, lambda n: look(
        page_table_bytes=int(n), memory=memory(resident_bytes=64 * MiB))),
    ("locked", 4 * GiB, lambda n: look(memory=memory(locked_bytes=int(n)))),
    ("locked-stacks", 64 * MiB, lambda n: look(memory=memory(
        locked_stacks_bytes=int(n), locked_bytes=512 * MiB, locked_stacks_count=8))),
    *((name, 0.1, _waiting(kind)) for name, kind in WAITS),
    ("waits-for-mappings", 2000, lambda n: look(
        per_s=rates(lock_sleeps=n, munmap=1000.0))),
    ("waits-for-compaction", 10, _of_rate("compactions")),
    ("mappings-limit-nears", 0.8, _of_room("vm.max_map_count")),
    ("files-limit-nears", 0.95, _of_room("RLIMIT_NOFILE")),
    ("threads-limit-nears", 0.95, _of_room("pids.max")),
    ("limit-nears", 0.95, _of_room("RLIMIT_DATA")),
    ("group-nearly-full", 0.95, lambda n: _limited(64 * MiB * n)),
    ("group-limit-met", 100, lambda n: look(group=group(reached_per_s=n))),
    ("group-reads-again", 16 * MiB, lambda n: _squeezed(n, 34 * MiB)),
    ("group-limit-nears", 1 / 1000, lambda n: _nears(1 / n)),
)  # fmt: skip
ALARMS_FROM: tuple[tuple[str, float, Made], ...] = (
    ("mappings-limit-nears", 0.99, _of_room("vm.max_map_count")),
    ("group-limit-nears", 1 / 10, lambda n: _nears(1 / n)),
)
RISES = (
    *((name, bound, made, NOTE, COSTLY) for name, bound, made in COSTS_FROM),
    *((name, bound, made, COSTLY, CRITICAL) for name, bound, made in ALARMS_FROM),
)
_MET = {"lock-limit-nears": "RLIMIT_MEMLOCK", "pin-limit-nears": "pinned of RLIMIT_MEMLOCK"}
# What is so by something else than an amount.
AS_IT_IS: tuple[tuple[str, Severity, Seen], ...] = (
    # Memory is locked up to its limit by programs that ask what they may lock.
    *((name, NOTE, _of_room(room)(1.0)) for name, room in _MET.items()),
    *((name, COSTLY, _soon(room)(0.99)) for name, room in (
        *_MET.items(), ("mappings-limit-nears", "vm.max_map_count"),
        ("files-limit-nears", "RLIMIT_NOFILE"), ("threads-limit-nears", "pids.max"),
        ("limit-nears", "RLIMIT_DATA"))),
    ("growing", NOTE, _growing(9 * MiB, 10.0, 1000, peak_stands=True)),
    ("growing", NOTE, _growing(9 * MiB, 10.0, 1000, mapped_growth_bytes=0, unfilled_bytes=MiB)),
    ("growing", NOTE, _of_group(grows_steadily=True, growth_bytes_per_s=1.0 * GiB)),
    # By the calls or by the faults on what they gave back, whichever is worse.
    ("gives-back-large-pieces", COSTLY, _calls(600, 21_000, 21_000)),
    ("gives-memory-back", COSTLY, _calls(2500, 6000, 6000)),
    # Of shared memory that is mapped and unmapped nothing is kept.
    ("swings", NOTE, replace(_swinging(9.0 * MiB), private_swing_bytes=0)),
    ("locked", NOTE, look(memory=memory(locked_bytes=GiB, machine_bytes=0))),
    # Of files that are larger than the group's limit nothing is short.
    ("group-reads-again", NOTE, _squeezed(GiB, 30 * MiB)),
    ("group-limit-met", COSTLY, look(group=group(reached_per_s=1.0, limit_name="memory.high"))),
    # Nothing bounds the growth, or it is of other processes: whether it goes on is unknown.
    ("group-limit-nears", COSTLY, _nears(9.0, mapped_growth_bytes=1)),
    ("group-limit-nears", COSTLY, _nears(9.0, growth_bytes_per_s=0.0)),
    ("group-limit-nears", NOTE, _filling(0.99)),
)  # fmt: skip


def severities(seen: Seen, name: str) -> set[Severity]:
    return {one.severity for one in said(lambda _: seen, 0, name)}


def test_each_row_is_in_a_table() -> None:
    rising = {name for name, *_ in (*RISES, *AS_IT_IS)}
    lines = {row.name for row in FLOORS}
    tables = (NOTES, COSTS, ALARMS, rising, lines, {"calls-fail"})
    assert set().union(*tables) == NAMES
    assert sum(map(len, tables)) == len(NAMES)


@pytest.mark.parametrize("name", sorted({*NOTES, *COSTS, *ALARMS} - {"frozen", "stopped"}))
def test_what_is_so_at_any_amount(name: str) -> None:
    severity = COSTLY if name in COSTS else CRITICAL if name in ALARMS else NOTE
    value, made = example(name)
    amounts = [(made, value * times) for times in ((0.5, 1, 2) if name == "machine-low" else
                                                   (1, 1.9))]  # fmt: skip
    amounts += [
        (each, bound * times)
        for row, _, bound, each in CASES
        if row == name and bound > 0
        for times in (1.01, 3)
    ]
    found = [severities(each(amount), name) for each, amount in amounts]
    assert set().union(*found) == {severity}
    assert found[0]


@pytest.mark.parametrize("name", ["frozen", "stopped"])
def test_what_stands_still_is_costly(name: str) -> None:
    still = look(frozen=True) if name == "frozen" else look(state="T")
    assert severities(still, name) == {COSTLY}


@pytest.mark.parametrize("row", FLOORS, ids=lambda row: row.name)
def test_a_line_that_is_large_is_a_note(row: object) -> None:
    floor = FLOORS[row]  # type: ignore[index]
    for whole in (2 * floor, 100 * floor):
        assert severities(of_line(row, whole, whole), row.name) == {NOTE}  # type: ignore[arg-type,attr-defined]


@pytest.mark.parametrize(
    ("name", "bound", "made", "below", "above"), RISES,
    ids=[f"{name}-{bound:g}-{above.name}" for name, bound, _, _, above in RISES],
)  # fmt: skip
def test_what_costs_from_an_amount_on(
    name: str, bound: float, made: Made, below: Severity, above: Severity
) -> None:
    assert severities(made(0.99 * bound), name) == {below}
    assert severities(made(1.01 * bound), name) == {above}


@pytest.mark.parametrize(
    ("name", "severity", "seen"), AS_IT_IS,
    ids=[f"{place}-{name}" for place, (name, *_) in enumerate(AS_IT_IS)],
)  # fmt: skip
def test_what_is_so_by_what_else_is_seen(name: str, severity: Severity, seen: Seen) -> None:
    assert severities(seen, name) == {severity}


@pytest.mark.parametrize("free", [0, 4096])
def test_a_machine_swaps_while_some_is_free(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "meminfo", lambda: {"SwapTotal": MiB, "SwapFree": free})
    assert _SWAPS() == bool(free)


def test_what_is_swapped_out_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert severities(_nears(9.0), "group-limit-nears") == {CRITICAL}
    monkeypatch.setattr(group_limits, "_swaps", lambda: True)
    assert severities(_nears(9.0), "group-limit-nears") == {COSTLY}


# Nobody tries these to see whether they work: who is refused cannot go on as it should.
_CERTAIN = {"lock-limit-refuses", "threads-refused", "forks-refused"}


@pytest.mark.parametrize("row", CALLS, ids=[f"{row.name}-{row.errnos}" for row in CALLS])
def test_a_call_that_fails_is_costly_and_an_alarm_if_no_program_tries_it(row: Row) -> None:
    call, errno = row.calls.split()[-1].replace("*", "accept"), row.errnos.split()[0]
    often = CRITICAL if row.name in _CERTAIN else COSTLY
    failing = Refusal(call, errno, 1.0)
    for refusal, severity in (
        (failing, often),
        (replace(failing, per_s=0.99), COSTLY),
        (replace(failing, cause="it is so", line="a limit"), often),
        (replace(failing, cause="it is so", line="a limit", per_s=0.99), COSTLY),
        (replace(failing, cause="it asks", line="a limit", harmless=True), NOTE),
    ):
        (finding,) = refused.findings(look(refused=(refusal,)))
        assert (finding.name, finding.severity) == (row.name, severity)


def test_a_call_of_no_row_is_costly() -> None:
    unknown = Refusal("sigaltstack", "ENOMEM", 9.0)
    for refusal in (unknown, replace(unknown, cause="it is so", line="a limit")):
        (finding,) = refused.findings(look(refused=(refusal,)))
        assert (finding.name, finding.severity) == ("calls-fail", COSTLY)

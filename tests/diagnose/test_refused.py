"""Calls that fail: which, how often, and which limit is said to be the cause."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memlab.diagnose import (
    call_arguments,
    call_causes,
    call_limits,
    call_ordinary,
    call_places,
    counters,
    family,
    kernel_numbers,
    limits,
    refusals,
    refused,
    room,
)
from memlab.diagnose.call_arguments import Called
from memlab.diagnose.call_facts import EarlierFacts, Facts
from memlab.diagnose.call_rings import Share
from memlab.diagnose.call_table import MACHINE, MAKES, ROWS, Row, row
from memlab.diagnose.finding import COSTLY, NOTE, Finding, ranked
from memlab.diagnose.look import explained
from memlab.diagnose.memory_files import MemoryFiles
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.room import Room
from memlab.observe import proc, system_calls

from .live import Compiled, running
from .looks import look, rates
from .test_call_causes import LIBC
from .test_counters import TIMES, tell

GiB, MiB = 1 << 30, 1 << 20
HANDLERS = Path("/proc/sys/vm/unprivileged_userfaultfd")


@pytest.mark.needs("recording")
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("a", {("io_setup", "EAGAIN"): TIMES}),
        ("m", {("mmap", "ENOMEM"): TIMES}),
        ("w", {("write", "ENOSPC"): TIMES}),
        ("r", {("inotify_init1", "EMFILE"): TIMES}),
        ("k", {("mlock", "ENOMEM"): TIMES}),
        ("f", {("write", "EFBIG"): TIMES}),
        ("p", {("fcntl", "EPERM"): TIMES}),
        ("s", {("shmget", "EINVAL"): TIMES}),
        ("d", {("mmap", "ENODEV"): TIMES}),
        ("x", {("mmap", "EACCES"): TIMES}),
        ("g", {("mmap", "ENOMEM"): TIMES}),
        ("e", {("mmap", "EPERM"): TIMES}),
        ("n", {("mmap", "ENOMEM"): TIMES}),
        ("l", {("mmap", "ENOMEM"): TIMES}),
        ("h", {("mmap", "ENOMEM"): TIMES}),
        ("u", {("userfaultfd", "EPERM"): TIMES}),
        ("U", {("userfaultfd", "EPERM"): TIMES}),
        ("o", {}),  # fails, as is ordinary
        ("t", {("ftruncate", "EINVAL"): TIMES}),
        ("y", {("system call 900", "ENOSYS"): TIMES}),
        ("ot", {("ftruncate", "EINVAL"): TIMES}),
    ],
)
def test_each_failing_call_is_counted_by_its_number(
    binary: Compiled, what: str, expected: dict[tuple[str, str], int]
) -> None:
    if what == "U" and (os.getuid() or not HANDLERS.exists() or HANDLERS.read_text() != "0\n"):
        pytest.skip("this machine refuses no user a handler of faults")
    with (
        running(binary("refused_calls")) as program,
        refusals.recording(program.pid, [program.pid]) as seen,
    ):
        assert not seen.why
        for one in what:
            tell(program, one)
        found = seen.result(1.0)
    assert {(one.call, one.errno): round(one.per_s, 6) for one in found} == expected
    if what == "m":
        assert [(one.asked_bytes, one.reserved) for one in found] == [(1 << 47, True)]
    if what == "k":
        assert [one.asked_bytes for one in found] == [24 * MiB]
    if what == "s":
        assert [one.asked_bytes for one in found] == [(1 << 64) - 1]
    if what in "ge":  # what is large or to be executed is another call, which succeeds
        assert [(one.asked_bytes, one.executes) for one in found] == [(0, False)]
    if what in "nlh":
        assert [one.asked_bytes for one in found] == [1 << 47]
        kind = {"n": (True, True), "l": (True, False), "h": (False, False)}[what]
        assert [(one.data, one.noreserve) for one in found] == [kind]
    if what in "uU":  # a filter refuses a call before its arguments are recorded
        assert [one.of_kernel_faults for one in found] == [what == "U"]
    assert [one.executes for one in found] == [what == "x"] * len(found)


@pytest.mark.needs("recording")
@pytest.mark.parametrize(
    ("times", "expected", "estimated"),
    [
        ("a" * 90, {("io_setup", "EAGAIN"): 90}, {"io_setup"}),
        # Behind the calls that fill the ring, others are counted by their errno.
        ("m" * 80 + "w" * 20, {("mmap", "ENOMEM"): 80, ("another call", "ENOSPC"): 20}, {*()}),
        ("a" * 80 + "w" * 20, {("io_setup", "EAGAIN"): 80, ("another call", "ENOSPC"): 20},
         {"io_setup"}),
        ("mw" * 50, {("mmap", "ENOMEM"): 50, ("write", "ENOSPC"): 50}, {"write"}),
        ("wa" * 60, {("write", "ENOSPC"): 60, ("io_setup", "EAGAIN"): 60}, {"write", "io_setup"}),
        ("m" * 60, {("mmap", "ENOMEM"): 60}, {*()}),
        # What means no want leaves room for what does, and has counts of its own.
        ("t" * 90 + "w", {("ftruncate", "EINVAL"): 90, ("write", "ENOSPC"): 1}, {"ftruncate"}),
        ("t" * 90 + "p", {("ftruncate", "EINVAL"): 91}, {"ftruncate"}),
    ],
)  # fmt: skip
def test_each_call_counts_however_many_there_are_and_whenever_they_come(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch, times: str,
    expected: dict[tuple[str, str], int], estimated: set[str],
) -> None:  # fmt: skip
    """A ring has room for some 900, or 540 with arguments, and what came in none of its time is
    not more frequent, if all goes on as it began."""
    monkeypatch.setattr(Share, "is_steady", True)
    with (
        running(binary("refused_calls")) as program,
        counters.counting(program.pid) as counted,
        refusals.recording(program.pid, [program.pid]) as seen,
    ):
        assert not seen.why
        assert not counted.unseen.keys() & {"enomem", "enospc", "other_errnos", "mmap_enomem",
                                            "unusual_errnos", "failing_calls"}  # fmt: skip
        before = counted.read()
        for what in times:
            tell(program, what)
        recorded = seen.result(1.0)
        after = counted.read()
    in_all = {name: float(count - before[task, name]) for (task, name), count in after.items()}
    found = refusals.with_counts(recorded, in_all)
    assert {(one.call, one.errno): one.per_s for one in found} == pytest.approx(
        {pair: count * TIMES for pair, count in expected.items()}, rel=0.02
    )
    assert {one.call for one in found if one.is_estimate} == estimated
    assert sum(one.per_s for one in recorded) == pytest.approx(len(times) * TIMES)
    rest = refusals.ordinary_per_s({name: in_all.get(name, 0.0) for name in rates()})
    assert rest == pytest.approx(0.0, abs=2.0)  # of its reads and writes


@pytest.mark.needs("recording")
def test_no_kind_is_multiplied_by_what_another_does_after_a_ring_is_full(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came then is in the exact counts, and of no kind; a count of one pair still is its."""
    monkeypatch.setattr(Share, "is_steady", False)
    with (
        running(binary("refused_calls")) as program,
        counters.counting(program.pid) as counted,
        refusals.recording(program.pid, [program.pid]) as seen,
    ):
        before = counted.read()
        for what in "wm" * 10 + "m" * 80 + "tp" + "t" * 60:
            tell(program, what)
        recorded = seen.result(1.0)
        after = counted.read()
    in_all = {name: float(count - before[task, name]) for (task, name), count in after.items()}
    failing = {(each.call, each.errno): each for each in refusals.with_counts(recorded, in_all)}
    assert failing["write", "ENOSPC"].per_s == pytest.approx(10 * TIMES)
    assert failing["mmap", "ENOMEM"].per_s == pytest.approx(90 * TIMES)
    assert not failing["mmap", "ENOMEM"].is_least
    assert failing["fcntl", "EPERM"].per_s == pytest.approx(TIMES)
    truncated, rest = failing["ftruncate", "EINVAL"], failing["another call", refusals.ODD]
    assert truncated.is_least
    assert truncated.per_s + rest.per_s == pytest.approx(61 * TIMES)
    (line,) = seen.unrecorded
    assert re.fullmatch(
        r"which calls fail after its first \S+ \w+: of one thread [\d,]+ of 2,300 were recorded",
        line,
    )


@pytest.mark.parametrize(
    ("recorded_s", "count", "expected"),
    [
        (2.0, 500, (250.0, True)),  # all 500 per second, first and last
        (0.2, 500, (50.0, False)),  # a burst: what follows is less frequent
        (9.0, 500, (50.0, False)),  # another burst follows
        (2.0, 99, (9.9, False)),  # one of few, where another kind is frequent
        (2.0, 100, (50.0, True)),
    ],
)
def test_a_kind_is_its_share_of_all_only_if_all_went_on_as_it_began(
    recorded_s: float, count: int, expected: tuple[float, bool]
) -> None:
    assert Share(1000, 5000, recorded_s, 10.0).per_s(count) == pytest.approx(expected)
    assert Share(1000, 1000, recorded_s, 10.0).per_s(count) == (count / 10, True)


def test_only_a_part_that_was_told_apart_is_said_as_about() -> None:
    (found,) = said(Refusal("io_setup", "EAGAIN", 920.0, is_least=True))
    assert found.title.startswith("at least 920 calls per second of io_setup fail")
    (found,) = said(Refusal("io_setup", "EAGAIN", 920.0, is_estimate=True))
    assert found.title.startswith("about 920 calls per second of io_setup fail")
    (found,) = said(Refusal("io_setup", "EAGAIN", 920.0))
    assert found.title.startswith("920 calls")


@pytest.mark.needs("recording", "32-bit programs")
def test_calls_of_a_32_bit_program_have_the_names_of_its_numbers(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of its mmap2 is that of another call to other programs."""
    monkeypatch.setattr(refusals, "is_narrow", lambda pid: True)
    with (
        running(binary("refused_calls")) as program,
        refusals.recording(program.pid, [program.pid]) as seen,
    ):
        assert not seen.why
        tell(program, "i")
        (found,) = seen.result(1.0)
    assert (found.call, found.errno, round(found.per_s)) == ("mmap", "ENOMEM", TIMES)
    assert system_calls.name(192) != "mmap"


@pytest.mark.needs("recording", "32-bit programs")
@pytest.mark.parametrize(("is_read", "name"), [(True, "mmap"), (False, "system call 192")])
def test_a_call_of_the_other_table_has_its_name_or_none(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch, is_read: bool, name: str
) -> None:
    """A 64-bit program calls by `int $0x80`, which is read from its code; the number 192 is that of
    lgetxattr by `syscall`."""
    assert system_calls.name(192) == "lgetxattr"
    if not is_read:
        monkeypatch.setattr(MemoryFiles, "is_present", lambda *_: False)
    with (
        running(binary("refused_calls")) as program,
        refusals.recording(program.pid, [program.pid]) as seen,
    ):
        tell(program, "i")
        tell(program, "w")
        found = seen.result(1.0)
        called = call_arguments.read(
            seen.events, seen.failing, lambda *_: True, lambda _: tell(program, "w")
        )
    assert {(one.call, one.errno, round(one.per_s), one.of_other_table) for one in found} == {
        (name, "ENOMEM", TIMES, True), ("write", "ENOSPC", TIMES, False)
    }  # fmt: skip
    assert called.keys() == {("write", "ENOSPC")}


@pytest.mark.needs("recording")
def test_a_call_that_a_tracer_skips_is_counted_as_that(binary: Compiled) -> None:
    """Its number is -1. So is that of a return from a signal handler, which is not counted."""
    with running(binary("skips_calls")) as program:
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children")
        pid = int(children.read_text())
        with refusals.recording(pid, [pid]) as seen:
            tell(program, "x")
            skipped = [one for one in seen.result(1.0) if one.call == "a call without a number"]
    (found,) = skipped
    other = Refusal("read", "ENOSYS", 10.0, is_estimate=True)
    counted = refusals.with_counts([found, other], rates(unusual_errnos=10.0))
    assert counted == (found, other), "no count has it"
    assert (found.errno, found.per_s, found.harmless) == ("ENOSYS", TIMES, True)
    (note,) = said(found)
    assert note.severity is NOTE
    assert note.title == (
        f"23 calls per second of a call without a number fail with ENOSYS: skips_calls "
        f"({program.pid}), which traces it, skips it (or the program gives it none); which call "
        "it is and what the tracer makes its result was not read"
    )


def said(*failing: Refusal, rooms: tuple[Room, ...] = (), **per_s: float) -> list[Finding]:
    return list(refused.findings(look(refused=failing, rooms=rooms, per_s=rates(**per_s))))


WATCHES = Room("fs.inotify.max_user_watches", 8192, 8192, "count", "")


def test_a_limit_that_is_met_is_the_cause() -> None:
    (found,) = said(Refusal("inotify_add_watch", "ENOSPC", 40.0), rooms=(WATCHES,))
    assert found.name == "inotify-refused"
    assert "8,192 of 8,192 (fs.inotify.max_user_watches)" in found.title
    (twice,) = said(Refusal("inotify_add_watch", "ENOSPC", 80.0), rooms=(WATCHES,))
    assert twice.measured == 2 * found.measured


def test_a_limit_that_is_not_met_is_not() -> None:
    files = Room("RLIMIT_NOFILE", 131, 20_000, "count", "")
    instances = Room("fs.inotify.max_user_instances", 128, 128, "count", "")
    (found,) = said(Refusal("inotify_init1", "EMFILE", 10.0), rooms=(files, instances))
    assert (found.line, "RLIMIT" in found.title) == ("fs.inotify.max_user_instances", False)
    (found,) = said(Refusal("openat", "EMFILE", 10.0), rooms=(files,))
    assert found.title.endswith(
        "the cause is open: no limit that is read here is met, 131 of 20,000 (RLIMIT_NOFILE)"
    )
    assert found.setting.startswith("if it is RLIMIT_NOFILE: ulimit -n")


def test_what_is_asked_for_and_does_not_fit_is_the_cause() -> None:
    space = Room("RLIMIT_AS", 1 * GiB, 6 * GiB, "B", "")
    (found,) = said(Refusal("mmap", "ENOMEM", 10.0, 10 * GiB, reserved=True), rooms=(space,))
    assert "10 GiB are asked for (PROT_NONE, a reservation), and 1 GiB of 6 GiB" in found.title
    (found,) = said(Refusal("mmap", "ENOMEM", 10.0, 4 * GiB, reserved=True), rooms=(space,))
    assert "are asked for" not in found.title


@pytest.mark.parametrize(
    ("release", "ids", "here", "words"),
    [
        ("6.13.9", "7 1", "4026531836", "100 of 4000 (kernel.pid_max)"),
        ("6.14.0", "7", "4026531836", "100 of 4000 (kernel.pid_max)"),
        ("6.14.0", "7 1", "4026531836",
         "100 of 4000 (kernel.pid_max of memlab's PID namespace); not read: kernel.pid_max of its "
         "PID namespace"),
        ("6.18.44-x", "7", "4026532001", "5 of 4000 (kernel.pid_max)"),
        ("6.13.9", "7", "4026532001", "100 of 4000 (kernel.pid_max)"),
    ],
)  # fmt: skip
def test_pid_max_is_of_a_pid_namespace(
    release: str, ids: str, here: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another one than memlab's it is not read, and the threads of the machine are not all in
    one below the first."""
    for folder in ("2", "3", "self/ns", "sys/kernel"):
        (tmp_path / "proc" / folder).mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(f"pid:[{here}]")
    (tmp_path / "proc/loadavg").write_text("0 0 0 2/100 7\n")
    (tmp_path / "proc/sys/kernel/threads-max").write_text("5000\n")
    (tmp_path / "proc/sys/kernel/pid_max").write_text("4000\n")
    monkeypatch.setattr(room, "ROOT", tmp_path)
    monkeypatch.setattr(room.proc, "status", lambda name: {"Threads": name})
    monkeypatch.setattr(
        kernel_numbers.os, "uname", lambda: os.uname_result(("", "", release, "", ""))
    )
    (seen,) = [one for one in room.limits(7, {"NSpid": ids}, 1) if one.name == "kernel.pid_max"]
    unread = f"; not read: {seen.unread}" if seen.unread else ""
    assert f"{seen.used} of {seen.limit} ({seen.named}){unread}" == words
    (found,) = said(Refusal("fork", "EAGAIN", 5.0), rooms=(seen,))
    assert found.title.endswith(unread or f"({seen.named})")


def test_an_unknown_pair_is_said_without_a_cause() -> None:
    full = Room("the file system /tmp (tmpfs)", MiB, MiB, "B", "")
    (found,) = said(Refusal("swapon", "ENOSPC", 3.0), rooms=(WATCHES, full))
    assert (found.name, found.title) == (
        "calls-fail",
        "3 calls per second fail: swapon with ENOSPC; the cause was not read",
    )
    assert said(Refusal("swapon", "ENOSPC", 0.9)) == []
    assert found.setting == "man 2 swapon says what ENOSPC means to it"
    for call in ("sendto", "recvmmsg", "setsockopt"):
        assert "of a socket" in said(Refusal(call, "ENOSPC", 3.0))[0].setting
    recorded = Refusal("write", "EPERM", 3.0, arguments="fd 5, count 4096")
    (found,) = said(recorded, Refusal("swapon", "ENOSPC", 2.0))
    assert found.title == (
        "5 calls per second fail: write with EPERM (3 per second) and swapon with ENOSPC (2 per "
        "second); the cause was not read (a call: fd 5, count 4096)"
    )


def test_each_pair_has_its_own_rate_and_none_more_than_was_recorded() -> None:
    full = Room("RLIMIT_NOFILE", 64, 64, "count", "")
    opened = Refusal("openat", "EMFILE", 9.0, is_least=True)
    (found,) = said(opened, Refusal("socket", "EMFILE", 2.0), rooms=(full,))
    assert found.title.startswith(
        "at least 11 calls per second fail, openat with EMFILE (at least 9 per second) and socket "
        "with EMFILE (2 per second): "
    )
    causes = [replace(one, cause="why") for one in (opened, Refusal("dup", "EMFILE", 1.0))]
    assert said(*causes)[0].title == (
        "at least 10 calls per second fail, openat with EMFILE (at least 9 per second) and dup "
        "with EMFILE (1 per second): a new file descriptor is refused: why"
    )
    # Of mlock the kernel counts those with ENOMEM.
    each = [Refusal("mlock", "EPERM", 3.0), Refusal("mlock", "ENOMEM", 1.0, is_least=True)]
    locked = refusals.with_counts(each, {"mlock_enomem": 9.0})
    assert {(one.errno, one.per_s, one.is_least) for one in locked} == {
        ("EPERM", 3.0, False), ("ENOMEM", 9.0, False)
    }  # fmt: skip
    many = [Refusal("read", f"errno {number}", 40.0, is_least=True) for number in range(600, 631)]
    more = next(one for one in refusals.with_counts(many, {}) if one.errno == refusals.ODD)
    assert more.is_least


def test_calls_that_want_nothing_are_one_note() -> None:
    """Beside what means a want, which is said for itself."""
    odd = [
        Refusal("openat", "EACCES", 5.0),
        Refusal("ftruncate", "EINVAL", 7.0, arguments="fd 5, length 4096"),
        Refusal("fsync", "EROFS", 3.0),
        Refusal("system call 900", "ENOSYS", 1.0),
    ]
    note, costly = sorted(said(*odd, Refusal("swapon", "ENOSPC", 2.0)), key=lambda f: f.severity)
    assert (note.name, note.severity, note.measured) == ("calls-fail", NOTE, 16.0)
    assert note.title == (
        "16 calls per second fail: ftruncate with EINVAL (7 per second), openat with EACCES (5 per "
        "second), fsync with EROFS (3 per second) and system call 900 with ENOSYS (1 per second); "
        "the cause was not read (a call: fd 5, length 4096)"
    )
    assert (costly.severity, "swapon" in costly.title) == (COSTLY, True)
    assert {(one.name, one.kind) for one in ranked([note, costly])} == {
        ("calls-fail", "no want"), ("calls-fail", "")
    }  # fmt: skip
    assert said(Refusal("openat", "EACCES", 0.9)) == []


def test_a_file_system_is_full_only_where_that_was_read() -> None:
    write = Refusal("write", "ENOSPC", 3.0)
    full = Room("the file system /tmp (tmpfs)", MiB, MiB, "B", "")
    half = Room("the file system / (ext4)", MiB / 2, MiB, "B", "")
    title = said(write, rooms=(full, half))[0].title
    assert "1 MiB of 1 MiB (the file system /tmp" in title
    assert title.endswith("which file system the call is about was not read")
    (found,) = said(write, rooms=(half,))
    assert "the cause is open" in found.title
    assert found.title.endswith("not read: the file system that the call is about")


def test_what_a_cause_says_is_not_said_again_as_near() -> None:
    seen = look(refused=(Refusal("openat", "EMFILE", 9.0),),
                rooms=(Room("RLIMIT_NOFILE", 64, 64, "count", ""),))  # fmt: skip
    assert [one.name for one in limits.findings(seen)] == ["files-refused"]


def test_counts_of_threads_that_came_later_complete_the_recorded() -> None:
    recorded = [Refusal("mmap", "ENOMEM", 10.0, 3 * GiB)]
    found = refusals.with_counts(recorded, {"mmap_enomem": 10.2, "enomem": 10.2})
    assert found == tuple(recorded)  # two readings, a moment apart
    found = refusals.with_counts([], {"clone_eagain": 4.0, "enospc": 7.0})
    assert {(one.call, one.errno, one.per_s) for one in found} == {
        ("another call", "ENOSPC", 7.0), ("clone", "EAGAIN", 4.0)
    }  # fmt: skip
    recorded = [Refusal("mlock", "ENOMEM", 19.5, asked_bytes=1 << 20)]
    (found,) = refusals.with_counts(recorded, {"mlock_enomem": 21.4})
    assert (found.per_s, found.asked_bytes) == (pytest.approx(21.4), 1 << 20)


def test_an_errno_without_a_count_of_its_own_is_said_of_threads_that_came_later() -> None:
    """What is recorded is counted too, and what means no want is counted for itself."""
    recorded = [Refusal("openat", "ENFILE", 20.0), Refusal("poll", "EINVAL", 50.0)]
    counted = rates(other_errnos=60.0, unusual_errnos=50.0, threads_created=0.5)
    (more, *_) = (one for one in refusals.with_counts(recorded, counted) if "another" in one.call)
    assert (more.errno, more.per_s) == ("another errno", 40.0)
    (said,) = refused.findings(look(refused=(more,)))
    assert said.title == (
        "40 calls per second fail: another call with another errno; the cause was not read"
    )
    for less in (rates(other_errnos=60.0), rates(other_errnos=20.4, threads_created=0.5)):
        assert set(refusals.with_counts(recorded, less)) == {*recorded}
    assert "ret == -12 " not in refusals.filter_of("other_errnos")
    counted = rates(other_errnos=20.0, unusual_errnos=81.0, threads_created=0.5)
    (more,) = (one for one in refusals.with_counts(recorded, counted) if "another" in one.call)
    (note,) = refused.findings(look(refused=(more,)))
    assert note.title == (
        "31 calls per second fail: another call with an errno that means no want; the cause was "
        "not read"
    )
    assert note.severity is NOTE


def test_each_row_names_calls_that_have_a_number_and_limits_that_are_read() -> None:
    named = {call for one in ROWS for call in one.calls.split()} - {"*"}
    assert not system_calls.NUMBERS or named <= system_calls.NUMBERS.keys()
    assert {one.reads for one in ROWS} - {""} <= call_limits.READERS.keys()
    assert row("inotify_add_watch", "EINTR") is None


def test_limits_are_read_from_their_places(binary: Compiled) -> None:
    with running(binary("refused_calls")) as program:
        status = proc.status(program.pid)
        found = call_limits.read(program.pid, status, set(call_limits.READERS))
    names = {one.name for one in found}
    assert {"fs.file-max", "fs.inotify.max_user_watches", "RLIMIT_SIGPENDING"} <= names
    # One of 0 allows none at all: it explains a call, and cannot be filled.
    assert all((room.limit > 0 or not room.fills) and room.used >= 0 for room in found)


@pytest.mark.needs("root")
def test_a_limit_of_a_user_namespace_is_read_inside_it() -> None:
    script = "echo 50 > /proc/sys/user/max_inotify_watches && echo ready && exec sleep 60"
    with running("unshare", "-Ur", "sh", "-c", script) as program:
        status = proc.status(program.pid)
        found = call_limits.read(program.pid, status, {"inotify watches"})
    inside = "user.max_inotify_watches of its user namespace"
    assert [one.limit for one in found if one.name == inside] == [50]


@pytest.mark.parametrize("known", ROWS, ids=lambda known: f"{known.name}-{known.calls.split()[0]}")
def test_each_row_twice_as_often_has_twice_the_number(known: Row) -> None:
    call = "openat" if known.calls == "*" else known.calls.split()[0]
    errno = known.errnos.split()[0]
    (once,), (twice,) = (said(Refusal(call, errno, per_s)) for per_s in (4.0, 8.0))
    assert (once.name, once.measured, twice.measured) == (known.name, 4.0, 8.0)
    assert "no limit that is read here explains it" in once.title


def test_the_advice_is_for_the_limit_that_is_met() -> None:
    """A limit of a user namespace is not that of the machine, and RLIMIT_NOFILE is neither."""
    inside = Room("user.max_inotify_watches of its user namespace", 50, 50, "count", "")
    (found,) = said(Refusal("inotify_add_watch", "ENOSPC", 40.0), rooms=(inside,))
    assert "sysctl user.max_inotify_watches" in found.setting
    assert "fs.inotify" not in found.setting
    (outside,) = said(Refusal("inotify_add_watch", "ENOSPC", 40.0), rooms=(WATCHES,))
    assert "sysctl fs.inotify.max_user_watches" in outside.setting
    files = Room("RLIMIT_NOFILE", 1024, 1024, "count", "")
    (found,) = said(Refusal("fanotify_init", "EMFILE", 4.0), rooms=(files,))
    assert "ulimit -n" in found.setting


def test_what_is_pinned_says_how_much_the_call_asks_for() -> None:
    pinned = Room("pinned of RLIMIT_MEMLOCK", 0, 8 * MiB, "B", "")
    locked = Room("RLIMIT_MEMLOCK", 8 * MiB, 8 * MiB, "B", "")  # a count of its own
    asks = Refusal("io_uring_register", "ENOMEM", 10.0, 16 * MiB, reserved=False)
    (found,) = said(asks, rooms=(pinned, locked))
    assert "16 MiB are asked for, and 0 B of 8 MiB are used" in found.title
    assert found.line == pinned.name


def test_a_message_queue_is_refused_by_one_of_two_limits() -> None:
    """EMFILE of mq_open is RLIMIT_NOFILE or RLIMIT_MSGQUEUE, whose use the kernel does not show."""
    refusal = Refusal("mq_open", "EMFILE", 30.0)

    def said(used: int) -> str:
        files = Room("RLIMIT_NOFILE", used, 100, "count", "open fails")
        (one,) = limits.findings(look(refused=(refusal,), rooms=(files,)))
        assert one.name == "messages-refused"
        return f"{one.title} {one.setting}"

    assert "13 of 100 (RLIMIT_NOFILE) are open: it is RLIMIT_MSGQUEUE then" in said(13)
    assert "RLIMIT_MSGQUEUE" not in said(100)
    full = Room("fs.mqueue.queues_max", 256, 256, "count", "mq_open fails")
    refusal = Refusal("mq_open", "ENOSPC", 30.0)
    (one,) = limits.findings(look(refused=(refusal,), rooms=(full,)))
    assert "256 of 256 (fs.mqueue.queues_max)" in one.title


def test_a_locked_mapping_that_is_refused_is_not_said_to_be_of_mlockall() -> None:
    refusal = Refusal("mmap", "EAGAIN", 30.0)
    room = Room("RLIMIT_MEMLOCK", 6 * MiB, 8 * MiB, "B", "mlock fails")
    seen = look(refused=(refusal,), rooms=(room,), stack_limit_bytes=8 * MiB)
    (one,) = limits.findings(seen)
    assert "a new mapping that is locked (MAP_LOCKED, MCL_FUTURE) counts whole" in one.title
    assert "if it calls mlockall" in one.setting


def test_a_call_without_a_name_is_not_looked_up_by_one() -> None:
    """A full queue of a device says ENOBUFS to a sender."""
    for call, words in (("sendto", "man 2 sendto"), ("system call 467", "the call's page")):
        (one,) = limits.findings(look(refused=(Refusal(call, "ENOBUFS", 15.0),)))
        assert (one.name, call in one.title) == ("calls-fail", True)
        assert words in one.setting
        assert "man 2 system" not in one.setting
    (one,) = limits.findings(look(refused=(Refusal("bpf", "errno 524", 15.0),)))
    assert one.setting.startswith("no page of manual has errno 524: ")


def test_a_fork_fails_if_the_first_process_of_its_namespace_has_ended() -> None:
    """As after unshare(CLONE_NEWPID) without a fork that lives on."""
    script = (
        "import ctypes, os, time; libc = ctypes.CDLL(None)\n"
        "if libc.unshare(0x20000000): raise SystemExit('may not')\n"
        "first = os.fork()\n"
        "if first == 0: os._exit(0)\n"
        "os.waitpid(first, 0); print('ready', flush=True); time.sleep(60)"
    )
    with running(sys.executable, "-c", script) as program:
        rooms = call_limits.read(program.pid, proc.status(program.pid), {"children"})
        alive = call_limits.read(os.getpid(), proc.status(os.getpid()), {"children"})
    assert [(one.used, one.limit) for one in rooms] == [(1, 1)]
    assert alive == []
    (one,) = said(Refusal("clone", "ENOMEM", 5.0), rooms=tuple(rooms))
    assert one.name == "forks-refused"
    assert one.title.endswith(
        "refused: PID namespace for its children, whose first process has ended"
    )
    assert "--fork --pid" in one.setting
    (one,) = said(Refusal("clone", "ENOMEM", 5.0), rooms=(Room("CommitLimit", 9.5, 10, "B", ""),))
    assert "(CommitLimit)" in one.title
    assert "overcommit" in one.setting
    (one,) = said(Refusal("clone", "ENOMEM", 5.0))
    assert "overcommit" not in one.setting


def test_no_space_for_a_terminal_or_a_group_is_not_that_of_a_file_system() -> None:
    half = Room("the file system / (ext4)", MiB / 2, MiB, "B", "")
    terminals = Room("kernel.pty.max", 3071, 3071, "count", "")
    groups = Room("memory cgroups", 65_400, 65_535, "count", "")
    (one,) = said(Refusal("openat", "ENOSPC", 5.0), rooms=(half, terminals))
    assert "3,071 of 3,071 (kernel.pty.max)" in one.title
    assert "/dev/pts" in one.setting
    (one,) = said(Refusal("mkdir", "ENOSPC", 5.0), rooms=(half, groups))
    assert "65,400 of 65,535 (memory cgroups)" in one.title
    read = {
        one.name
        for one in call_limits.read(os.getpid(), proc.status(os.getpid()), {"file systems"})
    }
    assert Path("/proc/sys/kernel/pty/max").exists() == ("kernel.pty.max" in read)


@pytest.mark.needs("huge pages")
def test_a_file_of_huge_pages_is_refused_by_their_pool() -> None:
    """mmap of such a file has no flag that says so."""
    free = {
        int(line.split()[1])
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("HugePages_Free")
    }
    fd = os.memfd_create("huge", os.MFD_HUGETLB)
    try:
        rooms = call_limits.read(os.getpid(), proc.status(os.getpid()), {"huge pages"})
    finally:
        os.close(fd)
    without = call_limits.read(os.getpid(), proc.status(os.getpid()), {"huge pages"})
    assert {one.name for one in without} <= {MACHINE}
    (pool,) = (one for one in rooms if one.name != MACHINE)
    assert {pool.limit - pool.used} == free or pool.used > 0
    empty = replace(pool, used=0, limit=0)
    (one,) = said(Refusal("mmap", "ENOMEM", 5.0), rooms=(empty,))
    assert "0 of 0 (huge pages (hugetlb), of a file that it holds open)" in one.title


@pytest.mark.needs("root", "a mount namespace")
def test_terminals_of_a_mount_have_a_bound_of_their_own() -> None:
    """As in a container."""
    script = (
        "mount -t devpts -o newinstance,max=4,ptmxmode=666 x /mnt && exec 7<>/mnt/ptmx && "
        "echo ready && exec sleep 60"
    )
    with running("unshare", "-m", "sh", "-c", script) as program:
        rooms = call_limits.read(program.pid, proc.status(program.pid), {"file systems"})
    of_mount = [(one.used, one.limit) for one in rooms if one.name == "max= of /mnt (devpts)"]
    assert of_mount == [(1, 4)]
    full = Room("max= of /mnt (devpts)", 4, 4, "count", "")
    (one,) = said(Refusal("openat", "ENOSPC", 5.0), rooms=(full,))
    assert "there is no room: 4 of 4 (max= of /mnt (devpts))" in one.title
    assert "/dev/pts" in one.setting


MOUNT = Room("noexec of /tmp (tmpfs)", 0, 1, "count", "")


def test_a_mount_without_execution_is_the_cause_only_of_what_is_to_be_executed() -> None:
    pins = Room("pinned of RLIMIT_MEMLOCK", 8 * MiB, 8 * MiB, "B", "")
    library = Refusal("mmap", "EPERM", 20.0, executes=True)
    (one,) = said(library, rooms=(MOUNT, pins))
    assert "on a mount that is noexec: /tmp (tmpfs)" in one.title
    assert "perf" not in f"{one.title} {one.setting}"
    (one,) = said(library)
    assert one.title.endswith("and none of its mounts is noexec")
    ring = Refusal("mmap", "EPERM", 20.0)
    (one,) = said(ring, rooms=(MOUNT, pins))
    assert "8 MiB of 8 MiB (pinned of RLIMIT_MEMLOCK)" in one.title
    assert "perf_event_mlock_kb" in one.setting
    (one,) = said(ring, rooms=(MOUNT,))  # as of an address below vm.mmap_min_addr
    assert "no limit that is read here explains it; not read: a sealed file" in one.title
    assert "noexec" not in f"{one.title} {one.setting}"
    assert one.setting.startswith("man 2 mmap")


@pytest.mark.needs("root", "a mount namespace")
def test_mounts_and_rings_of_perf_events_are_read_from_the_process() -> None:
    script = "mount -t tmpfs -o noexec x /mnt && echo ready && exec sleep 60"
    with running("unshare", "-m", "sh", "-c", script) as program:
        rooms = call_limits.read(program.pid, proc.status(program.pid), {"mappings"})
    names = [one.name for one in rooms]
    assert "noexec of /mnt (tmpfs)" in names
    assert not [name for name in names if name.startswith(("pinned", "noexec of /proc"))]


def test_one_mapping_larger_than_memory_and_swap() -> None:
    machine = Room(MACHINE, 0, 24 * GiB, "B", "")
    count = Room("vm.max_map_count", 23, 65_530, "count", "")
    large = Refusal("mmap", "ENOMEM", 20.0, 100 * GiB, data=True)
    (one,) = said(large, rooms=(count, machine))
    assert "100 GiB are asked for in one call, and at most 24 GiB may be" in one.title
    assert "vm.overcommit_memory" in one.setting
    for other in (
        replace(large, reserved=True, data=False),
        replace(large, data=False),  # only read, or shared
        replace(large, noreserve=True),
        replace(large, asked_bytes=200 << 40),  # more than the address space
        replace(large, asked_bytes=20 * GiB),
    ):
        (one,) = said(other, rooms=(count, machine))
        assert "24 GiB" not in one.title
        assert "no limit that is read here is met" in one.title
        assert "max_map_count" not in one.setting


def test_arguments_of_a_32_bit_program_are_said_not_to_be_read() -> None:
    """What they point to has another layout."""
    seen = look(refused=(Refusal("mmap", "ENOMEM", 9.0),))
    of_program = {"is_narrow": True, "is_open": True, "arguments": {}}
    recorded: Any = SimpleNamespace(failing={7: {(192, -12): 9.0}}, **of_program)
    found = explained(seen, -1, recorded)
    assert found.refused == seen.refused
    assert found.unseen[-1] == (
        "arguments of its failing calls: those of a 32-bit program are not read"
    )
    recorded = SimpleNamespace(failing={}, **of_program)
    assert explained(seen, -1, recorded).unseen == seen.unseen


@pytest.mark.needs("recording", "arguments of calls that end")
def test_of_a_burst_the_arguments_of_the_look_tell_the_cause() -> None:
    """None of them fails when the look is over."""
    number = 1 << 30  # more than any RLIMIT_NOFILE that a system has by default
    thread = threading.get_native_id()
    with refusals.recording(os.getpid(), [thread]) as recorded:
        for _ in range(TIMES):
            LIBC.dup2(0, number)
        failed = recorded.result(1.0)
    of_look = call_arguments.earlier(recorded.arguments)
    (said,) = call_causes.explained(os.getpid(), {}, failed, {}, of_look)
    assert (said.call, said.errno, said.per_s) == ("dup2", "EBADF", TIMES)
    assert said.cause.startswith(f"descriptor {number:,} is requested")
    (unexplained,) = call_causes.explained(os.getpid(), {}, failed, {})
    assert unexplained.cause == ""
    assert call_causes.unrecorded(failed, [said], {}) == []
    assert [line.partition(":")[0] for line in call_causes.unrecorded(failed, (), {})] == [
        "why dup2 fails with EBADF"
    ]
    rare = [replace(one, per_s=0.99) for one in failed]
    assert call_causes.unrecorded(rare, (), {}) == []
    ended = {("dup2", "EBADF"): Called(ends=1)}
    assert call_causes.unrecorded(failed, (), ended) == []


def test_descriptors_and_pointers_of_earlier_calls_are_not_read() -> None:
    for facts, is_read in ((Facts(os.getpid(), {}), True), (EarlierFacts(os.getpid(), {}), False)):
        with Path("/proc/self/stat").open() as file:
            assert bool(facts.link(file.fileno())) == is_read
            assert bool(facts.field(file.fileno(), "mnt_id")) == is_read
        text = ctypes.create_string_buffer(b"text")
        assert facts.memory(ctypes.addressof(text), 4) == (b"text" if is_read else b"")


def test_a_32_bit_program_has_4_gib_of_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    for module in (refusals, call_limits, kernel_numbers, proc):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    name = "addresses of a 32-bit program"
    for headers, virtual_mib, is_cause in ((32, 4070, True), (32, 3900, False), (56, 4070, None)):
        pairs = (4, headers, 0, 0) if headers == 32 else (4, 0, headers, 0)
        (tmp_path / "proc/7/auxv").write_bytes(struct.pack("=4I", *pairs))
        read = call_limits.of(
            7, {"VmSize": f"{virtual_mib << 10} kB"}, [Refusal("mmap", "ENOMEM", 9.0)]
        )
        assert [one.name for one in read] == ([] if is_cause is None else [name])
        (found,) = said(Refusal("mmap", "ENOMEM", 9.0), rooms=tuple(read))
        assert (f"3.97 GiB of 4 GiB ({name})" in found.title) == bool(is_cause)
    (tmp_path / "proc/7/auxv").write_bytes(struct.pack("=4I", 4, 32, 0, 0))
    spans = ("08010000-10000000", "90000000-f7000000", "f7000000-f8000000")
    for few, gap in ((1, "128 MiB"), (3, "2 GiB")):
        lines = "".join(f"{span} r--p 00000000 00:00 0\n" for span in spans[:few])
        (tmp_path / "proc/7/maps").write_text(lines)
        (room,) = call_limits.of(7, {"VmSize": "1 kB"}, [Refusal("mmap", "ENOMEM", 9.0)])
        (found,) = said(Refusal("mmap", "ENOMEM", 9.0), rooms=(room,))
        assert found.title.endswith(
            f"how much it asks for: the widest gap in its addresses is {gap}"
        )
        assert found.setting.startswith("a 64-bit build") == bool(is_cause)


def test_a_limit_on_data_explains_no_mapping_that_is_no_data() -> None:
    for name in ("RLIMIT_DATA", "CommitLimit"):
        room = Room(name, 1 * GiB, 6 * GiB, "B", "")
        for data in (True, False):
            (one,) = said(Refusal("mmap", "ENOMEM", 9.0, 9 * GiB, data=data), rooms=(room,))
            assert ("9 GiB are asked for" in one.title) == data


def test_of_several_limits_that_are_far_none_is_advised() -> None:
    far = (Room("vm.max_map_count", 23, 65_530, "count", ""),
           Room("RLIMIT_AS", 1 * GiB, 6 * GiB, "B", ""))  # fmt: skip
    (one,) = said(Refusal("mremap", "ENOMEM", 20.0), rooms=far)
    assert "is met, 1 GiB of 6 GiB (RLIMIT_AS), 23 of 65,530 (vm.max_map_count)" in one.title
    assert one.setting.startswith("man 2 mremap")
    # PHP's allocator asks so before it copies: what was not read is whether it may move.
    assert "a mapping does not grow: the cause is open" in one.title
    assert "not read: whether it may move (if not, what lies behind it refuses it" in one.title
    near = (replace(far[0], used=40_000), far[1])
    (one,) = said(Refusal("mremap", "ENOMEM", 20.0), rooms=near)
    assert "the cause is open" in one.title
    assert one.title.index("40,000 of 65,530 (vm.max_map_count)") < one.title.index("RLIMIT_AS")


def test_a_segment_is_refused_by_its_size_or_by_another_one() -> None:
    largest = Room("kernel.shmmax", 0, 32 * MiB, "B", "")
    for asked, is_size in ((59 * MiB, True), (118 * MiB, True), (16 * MiB, False)):
        (one,) = said(Refusal("shmget", "EINVAL", 20.0, asked), rooms=(largest,))
        assert ("at most 32 MiB may be (kernel.shmmax)" in one.title) == is_size
        assert ("no limit that is read here explains it" in one.title) == (not is_size)
        assert "ipcs -m" in one.setting


def test_a_handler_of_faults_is_refused_to_who_has_no_right() -> None:
    setting = HANDLERS.read_text().strip() if HANDLERS.exists() else ""
    status = dict(proc.status(os.getpid())) | {"Seccomp": "0"}
    for capable in ("0" * 16, f"{1 << 19:016x}"):
        status["CapEff"] = capable
        rooms = call_limits.read(os.getpid(), status, {"userfaultfd"})
        assert len(rooms) == (setting == "0" and not int(capable, 16))
    off = Room("vm.unprivileged_userfaultfd", 0, 0, "count", "")
    refusal = Refusal("userfaultfd", "EPERM", 20.0, of_kernel_faults=True)
    (one,) = said(refusal, rooms=(off,))
    assert (one.name, "(vm.unprivileged_userfaultfd)" in one.title) == ("handler-refused", True)
    (one,) = said(replace(refusal, of_kernel_faults=False), rooms=(off,))
    assert "(vm.unprivileged_userfaultfd)" not in one.title
    filtered = status | {"Seccomp": "2", "CapEff": "0" * 16}
    assert call_limits.read(os.getpid(), filtered, {"userfaultfd"}) == []


def test_what_only_explains_a_call_that_fails_is_never_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = dict(proc.status(os.getpid())) | {"Seccomp": "0", "CapEff": "0" * 16}
    for name, value in (("unprivileged_userfaultfd", "0"), ("overcommit_memory", "0")):
        path = tmp_path / "proc/sys/vm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)
    (tmp_path / "proc/sys/kernel").mkdir()
    (tmp_path / "proc/sys/kernel/shmmax").write_text("1000")
    monkeypatch.setattr(kernel_numbers, "ROOT", tmp_path)
    kinds = {"userfaultfd", "huge pages", "mappings", "segment"}
    rooms = [one for one in call_limits.read(os.getpid(), status, kinds) if "pin" not in one.name]
    assert "vm.unprivileged_userfaultfd" in {one.name for one in rooms}
    rare = Refusal("userfaultfd", "EPERM", 0.1)
    seen = look(refused=(rare,), rooms=tuple(one for one in rooms if "huge" not in one.name))
    assert list(limits.findings(seen)) == []
    assert [line.name for line in limits.of(seen).lines] == ["userfaultfd (EPERM) fails"]


@pytest.mark.parametrize(
    ("call", "errno"),
    [("mmap", "EINVAL"), ("mmap", "ENODEV"), ("mmap", "EACCES"), ("mprotect", "EACCES")],
)
def test_what_no_limit_refuses_is_a_note(call: str, errno: str) -> None:
    """A program that tries each file, and reads the one that cannot be mapped."""
    (one,) = said(Refusal(call, errno, 20.0))
    assert (one.name, one.severity) == ("calls-fail", NOTE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"file_addresses_bytes": 60 * MiB}, "60 MiB of them are mappings of files"),
        ({"closed_addresses_bytes": 60 * MiB}, "60 MiB of them are reserved (PROT_NONE)"),
        ({"file_addresses_bytes": 30 * MiB, "closed_addresses_bytes": 30 * MiB}, ""),
    ],
)
def test_a_limit_of_addresses_says_what_fills_it(changes: Mapping[str, int], words: str) -> None:
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        full = Room(name, 64 * MiB, 64 * MiB, "B", "")
        refusal = Refusal("mmap", "ENOMEM", 9.0, MiB, data=True)
        (one,) = refused.findings(look(rooms=(full,), refused=(refusal,), **changes))
        end = f"; {words}, 32 MiB are resident" if words and name == "RLIMIT_AS" else ""
        assert one.title.endswith(f"64 MiB of 64 MiB ({name}){end}")


def test_bytes_that_fit_below_a_limit_are_not_refused_by_it() -> None:
    """A mapping whose length was not recorded is smaller than 64 MiB."""
    large = Room("RLIMIT_AS", 95 * GiB, 100 * GiB, "B", "")
    (one,) = said(Refusal("mmap", "ENOMEM", 9.0), rooms=(large,))
    assert "the cause is open" in one.title
    small = Room("RLIMIT_AS", 95 * MiB, 100 * MiB, "B", "")
    (one,) = said(Refusal("mmap", "ENOMEM", 9.0), rooms=(small,))
    assert one.title.endswith("mapping memory is refused: 95 MiB of 100 MiB (RLIMIT_AS)")
    (one,) = said(Refusal("mmap", "ENOMEM", 9.0, MiB, data=True), rooms=(small,))
    assert "the cause is open" in one.title


def test_what_other_programs_use_too_is_said_as_not_read() -> None:
    part = Room("fs.epoll.max_user_watches", 100, 1000, "count", "", is_part=True)
    (one,) = said(Refusal("epoll_ctl", "ENOSPC", 9.0), rooms=(part,))
    assert "at least 100 of 1,000 (fs.epoll.max_user_watches); what other programs" in one.title


def test_a_call_that_asks_for_several_is_refused_by_the_only_limit_there_is() -> None:
    events = Room("fs.aio-max-nr", 60_000, 65_536, "count", "")
    (one,) = said(Refusal("io_setup", "EAGAIN", 9.0), rooms=(events,))
    assert one.title.endswith("(fs.aio-max-nr) are used, and the call asks for more than is left")


@pytest.mark.parametrize("errno", ["EPERM", "EACCES"])
@pytest.mark.parametrize("call", MAKES)
def test_a_call_that_makes_a_thing_is_named_if_it_is_not_allowed(call: str, errno: str) -> None:
    """As clone3 is refused by a filter that is older than the call."""
    assert refusals.is_want(call, errno)
    assert not call_ordinary.is_ordinary(call, errno)
    (one,) = said(Refusal(call, errno, 5.0))
    assert one.name == "right-refused"
    assert f"of {call} fail with {errno}: it is not allowed" in one.title


@pytest.mark.parametrize("call", ["io_uring_setup", "perf_event_open", "bpf"])
def test_a_right_that_is_missing_is_no_pinned_memory(call: str) -> None:
    full = Room("pinned of RLIMIT_MEMLOCK", 8 * MiB, 8 * MiB, "B", "")
    (one,) = said(Refusal(call, "EPERM", 20.0), rooms=(full,))
    assert one.name == "right-refused"
    assert "MEMLOCK" not in f"{one.title} {one.setting}"


@pytest.mark.parametrize(
    ("release", "rings", "maps"),
    [("5.10.0-8", True, True), ("5.11.1", True, False), ("6.1.0", False, False),
     ("6.14.0-rc1", True, False), ("6.18.44-v", True, False)],
)  # fmt: skip
def test_what_counts_against_a_limit_is_by_the_kernel(
    monkeypatch: pytest.MonkeyPatch, release: str, rings: bool, maps: bool
) -> None:
    pinned = Room("pinned of RLIMIT_MEMLOCK", 0, MiB, "B", "")
    monkeypatch.setattr(call_limits, "pinned_of_user", lambda pid, status: iter([pinned]))
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "a", release, "1", "x")))
    for reader, expected in (("ring pins", rings), ("map pins", maps)):
        assert [*call_limits.READERS[reader](1, {})] == [pinned] * expected


def test_an_image_is_always_full_and_refuses_no_write() -> None:
    """As /snap/core/1, a squashfs."""
    read_only = os.statvfs_result((4096, 4096, 100, 0, 0, 10, 0, 0, os.ST_RDONLY, 255))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: read_only)
        assert list(call_limits._fullness(Path("/snap"), "/snap", [])) == []


def test_calls_of_one_name_are_explained_each_by_its_limit() -> None:
    full = Room("kernel.shmmni", 4096, 4096, "count", "")
    largest = Room("kernel.shmmax", 0, 32 * MiB, "B", "", fills=False)
    wide, many = (Refusal("shmget", errno, 20.0, MiB) for errno in ("EINVAL", "ENOSPC"))
    for both in ((wide, many), (many, wide)):
        titles = [one.title for one in said(*both, rooms=(full, largest))]
        assert ["shmmni" in title for title in titles] == [one == many for one in both]


def processes(root: Path, *rows: tuple[int, str, int, int, str]) -> None:
    """The PID, state, parent, user and group of each."""
    for pid, state, parent, uid, group in rows:
        folder = root / f"proc/{pid}"
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} (a) b) {state} {parent} 0 0")
        (folder / "status").write_text(f"Name:\ta\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (folder / "cgroup").write_text(f"0::{group}\n")
        (folder / "comm").write_text(f"p{pid}\n")


def test_processes_that_nobody_waits_for_are_said_of_a_limit_on_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a PID until then: of its group for pids.max, of its user for RLIMIT_NPROC."""
    processes(
        tmp_path, (10, "S", 1, 7, "/a"), (11, "S", 1, 0, "/a"), (12, "S", 1, 7, "/b"),
        *((100 + n, "Z", 11, 0, "/a") for n in range(9)),
        *((200 + n, "Z", 12, 7, "/b") for n in range(8)),
        *((300 + n, "Z", 1, 0, "/c") for n in range(30)),
        *((400 + n, "S", 12, 7, "/b") for n in range(30)),
    )  # fmt: skip
    monkeypatch.setattr(family, "ROOT", tmp_path)
    monkeypatch.setattr(proc.status, "__defaults__", ("self", tmp_path))
    for name, limit, whose in (
        ("pids.max", 60, (9, 11)), ("pids.max", 100, None),
        ("RLIMIT_NPROC", 60, (8, 12)), ("RLIMIT_NPROC", 100, None),
    ):  # fmt: skip
        full = Room(name, limit, limit, "count", "")
        seen = look(refused=(Refusal("clone", "EAGAIN", 20.0),), rooms=(full,))
        seen = replace(seen, subject=replace(seen.subject, pid=10))
        (one,) = refused.findings(seen)
        if whose is None:
            assert "zombies" not in one.title
            assert "wait(2)" not in one.setting
            continue
        count, parent = whose
        words = f"of which {count} have ended (zombies): their parent {parent} (p{parent})"
        assert words in one.title
        assert "wait(2)" in one.setting


def test_a_limit_of_a_group_above_is_named_where_it_is_met_and_where_it_nears() -> None:
    place = "/sys/fs/cgroup/pod, above its own group, which has 6 of them"
    for used, of in ((40, "40 of 40"), (38, "38 of 40")):
        full = Room("pids.max", used, 40, "count", "fork fails", place=place)
        fails = (Refusal("clone3", "EAGAIN", 20.0),) if used == 40 else ()
        titles = [one.title for one in limits.findings(look(refused=fails, rooms=(full,)))]
        assert [f"{of} (pids.max of {place}" in one for one in titles] == [True]


MOUNTS = """\
30 20 0:40 / /huge rw - hugetlbfs x rw,pagesize=2M
31 20 0:41 / /mnt1g rw - hugetlbfs x rw,pagesize=1024M
"""


def test_files_of_huge_pages_that_stay_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pages of the pool's size: a mount of another size has another pool."""
    (tmp_path / "proc/9").mkdir(parents=True)
    (tmp_path / "proc/9/mountinfo").write_text(MOUNTS)
    held = {"huge": 6 * MiB, "mnt1g": 2 * GiB}
    monkeypatch.setattr(call_places, "ROOT", tmp_path)
    monkeypatch.setattr(call_places, "allocated", lambda path: held[path.name])
    pool = {"HugePages_Total": 8, "HugePages_Free": 0, "Hugepagesize": 2 * MiB}
    monkeypatch.setattr(proc, "meminfo", lambda: pool)
    refusal = Refusal("mmap", "ENOMEM", 5.0)
    seen = look(refused=(refusal,), per_s=rates(mmap_hugetlb=5.0))
    seen = replace(seen, subject=replace(seen.subject, pid=9))
    (one,) = refused.findings(seen)
    assert one.title.endswith(
        "the pool has 8 (2 MiB each), 0 of them free, and 3 in files of /huge"
    )


def test_what_files_in_a_folder_hold(tmp_path: Path) -> None:
    (tmp_path / "left").write_bytes(b"x" * 8192)
    assert call_places.allocated(tmp_path) >= 8192
    assert call_places.allocated(tmp_path / "none") == 0


def test_of_many_mounts_without_execution_none_is_singled_out() -> None:
    mounts = tuple(replace(MOUNT, name=f"noexec of /{n} (tmpfs)") for n in range(5))
    (one,) = said(Refusal("mmap", "EPERM", 20.0, executes=True), rooms=mounts)
    assert one.title.endswith("refused on a mount that is noexec: as 5 are (findmnt -O noexec)")

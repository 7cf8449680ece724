"""Calls that fail as they ordinarily do are counted and are no finding; all others are named, and a
filter of system calls is read as the cause of any errno."""

from __future__ import annotations

import ctypes
import errno as errnos
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from memlab.diagnose import (
    call_arguments,
    call_causes,
    call_ordinary,
    counters,
    limits,
    refusals,
    refused,
    subject,
)
from memlab.diagnose import look as looking
from memlab.diagnose.finding import COSTLY, NOTE
from memlab.diagnose.refusals import ODD, Refusal
from memlab.observe import process, system_calls

from .live import Compiled, running
from .looks import look, rates
from .test_counters import TIMES, tell


def test_each_row_is_of_calls_and_errnos_that_there_are() -> None:
    """No row hides a pair that means a want, or whose arguments may reveal a limit."""
    pairs = [
        (call, errno)
        for row in call_ordinary.ROWS
        for errno in row.errnos.split()
        for call in row.calls.split()
    ]
    assert len({*pairs}) == len(pairs)
    assert {errno for _, errno in pairs} <= {*refusals.ERRNOS.values()}
    named = {call for call, _ in pairs} - {"*"}
    assert not system_calls.NUMBERS or named <= system_calls.NUMBERS.keys()
    assert not call_ordinary.OF_ANY_CALL & call_ordinary.OF_CALLS.keys()
    explained = {pair for pair in call_causes._READERS_OF if pair[0] not in call_ordinary.SENDS}
    explained |= {(call, errno) for errno, calls in refusals._OF_SOME.items() for call in calls}
    assert {one for one in explained if call_ordinary.is_ordinary(*one)} == {
        (call, "EAGAIN") for call, errno in explained if errno == "EAGAIN"
    }  # fmt: skip
    assert {call for call, errno in explained if errno == "EAGAIN"} <= {*refusals._EAGAIN}


@pytest.mark.parametrize("is_narrow", [False, True])
def test_a_filter_fits_a_page(is_narrow: bool) -> None:
    """The kernel refuses a longer one."""
    texts = [
        *refusals.of_groups(),
        *(refusals._odd(refusals._sends(one), is_narrow=is_narrow) for one in (False, True)),
        refusals.filter_of("other_errnos", is_narrow=is_narrow),
        refusals.filter_of("unusual_errnos", is_narrow=is_narrow),
    ]
    assert max(map(len, texts)) < 4096 - 1
    if is_narrow and system_calls.numbers("access", is_narrow=True):
        assert " != 33 " in texts[-1]  # access(2) has 21 of 64 bits


def test_without_known_numbers_an_errno_of_ordinary_calls_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(system_calls, "_NARROW", ())
    text = refusals.filter_of("unusual_errnos", is_narrow=True)
    assert text.count("id ") == 1
    assert " ret != -22" in text  # EINVAL, of readlink
    assert " ret != -38" not in text  # ENOSYS


def interrupted() -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        select.select([], [], [], 0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ordinary(folder: Path) -> None:
    """What programs do all the time."""
    reading, writing = os.pipe2(os.O_NONBLOCK)
    with suppress(BlockingIOError):
        os.read(reading, 1)
    with suppress(FileNotFoundError):
        (folder / "none").stat()
    with suppress(NotADirectoryError):
        os.open(f"{__file__}/none", os.O_RDONLY)
    with suppress(FileExistsError):
        folder.mkdir()
    with suppress(OSError):
        (folder / ".").readlink()
    with suppress(ChildProcessError):
        os.waitpid(os.getpid(), 0)
    with suppress(ProcessLookupError):
        os.kill(1 << 30, 0)
    with suppress(OSError):
        os.lseek(reading, 0, os.SEEK_CUR)
    os.isatty(reading)
    with suppress(OSError):
        os.getxattr(folder, "user.none")
    with suppress(OSError):
        os.close(1 << 20)
    with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
        client.connect(str(folder / "none"))
    with socket.socket() as client, suppress(OSError):
        client.getpeername()
    interrupted()
    os.close(reading)
    with suppress(BrokenPipeError):
        os.write(writing, b"x")
    os.close(writing)


@pytest.mark.needs("recording")
def test_what_programs_meet_as_they_ask_or_wait_is_not_recorded(tmp_path: Path) -> None:
    with refusals.recording(os.getpid(), [threading.get_native_id()], datagrams=True) as seen:
        assert not seen.why
        for _ in range(3):
            ordinary(tmp_path)
        assert seen.result(1.0) == []


@pytest.mark.needs("recording")
def test_the_end_of_a_signals_handler_is_no_call() -> None:
    """It has the result of the call that the signal came to, here of one that unblocks it."""
    handled = []
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
    libc, mask = ctypes.CDLL(None), ctypes.c_ulong(1 << (signal.SIGUSR1 - 1))
    unblocks = ctypes.c_long(system_calls.NUMBERS["rt_sigprocmask"])
    try:
        with refusals.recording(os.getpid(), [threading.get_native_id()]) as seen:
            for _ in range(7):
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
                signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
                result = libc.syscall(
                    unblocks, signal.SIG_UNBLOCK, ctypes.byref(mask), ctypes.c_void_p(1), 8
                )
                assert result == -1  # EFAULT
            assert seen.result(1.0) == []
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(handled) == 7


@pytest.mark.needs("recording")
@pytest.mark.parametrize("times", [1, 2])
def test_ordinary_calls_are_counted_and_named(binary: Compiled, times: int) -> None:
    """In an account that is printed with -v, and not as a finding."""
    with (
        running(binary("refused_calls")) as program,
        counters.counting(program.pid) as counted,
        refusals.recording(program.pid, [program.pid]) as recorded,
    ):
        before = counted.read()
        for what in "ot" * times:
            tell(program, what)
        after = counted.read()
        now = call_arguments.ordinary(
            recorded.events, [program.pid], lambda _: tell(program, "o"), is_narrow=False
        )
        names = call_arguments.most_ordinary(now.values(), is_narrow=False)
        failing = recorded.result(1.0)
    per_s = rates(**{name: float(after[key] - before[key]) for key in after for name in [key[1]]})
    assert refusals.ordinary_per_s(per_s) == TIMES * times
    assert per_s["unusual_errnos"] == TIMES * times
    assert names == ("openat (ENOENT)",)
    found = look(refused=tuple(failing), per_s=per_s, ordinary=names)
    (line,) = (one for one in limits.of(found).lines if one.name == "other calls that fail")
    assert (line.value, line.note) == (TIMES * times, "as is ordinary: openat (ENOENT)")
    (said,) = refused.findings(found)
    assert (said.measured, "openat" in said.title) == (TIMES * times, False)


@pytest.mark.needs("recording", "io_uring")
@pytest.mark.parametrize("times", [1, 2])
def test_operations_of_io_uring_that_fail_are_counted(binary: Compiled, times: int) -> None:
    """Not those whose end comes as it was asked for."""
    with running(binary("ring_operations")) as program, counters.counting(program.pid) as counted:
        before = counted.read()
        for what in "fc" * times:
            tell(program, what)
        after = counted.read()
    (key,) = (key for key in after if key[1] == "failing_operations")
    assert after[key] - before[key] == TIMES * times


def test_what_was_not_counted_is_not_said() -> None:
    assert refusals.ordinary_per_s(rates(failing_calls=9.0, unusual_errnos=None)) is None
    assert refusals.ordinary_per_s({}) is None
    assert refusals.ordinary_per_s(rates(failing_calls=9.0, unusual_errnos=2.0, enomem=3.0)) == 4.0


def test_a_program_that_fails_in_every_way_has_few_lines() -> None:
    every = [Refusal(f"system call {n}", "ENOSYS", 100.0 - n) for n in range(90)]
    wants = [Refusal("write", "ENOSPC", 0.3)]
    found = refusals.with_counts([*every, *wants], rates(enospc=0.3))
    assert len(found) == 32
    assert sum(one.per_s for one in found) == pytest.approx(sum(one.per_s for one in every) + 0.3)
    assert next(one for one in found if one.errno == ODD).per_s == sum(range(11, 71))
    assert wants[0] in found


FILTERED = """
import ctypes, os, struct, sys, threading
libc = ctypes.CDLL(None)
number, errno, is_filtered, of_thread = map(int, sys.argv[1:])
rows = ((0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x50000 | errno), (6, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
program = ctypes.create_string_buffer(struct.pack("@HP", len(rows), ctypes.addressof(code)))
def run():
    libc.prctl(38, 1, 0, 0, 0)
    if is_filtered and libc.prctl(22, 2, program, 0, 0):
        sys.exit(1)
    print("ready", flush=True)
    while sys.stdin.read(1):
        for _ in range(23):
            libc.syscall(ctypes.c_long(number), 1 << 20, 0, 0)
        print("ready", flush=True)
if of_thread:
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
else:
    run()
"""


@contextmanager
def filtering(
    call: str, errno: int, *, is_filtered: bool, of_thread: bool
) -> Iterator[subprocess.Popen[str]]:
    """A program that does the call, which fails so by a filter, or that has no filter."""
    numbers = (system_calls.NUMBERS[call], errno, int(is_filtered), int(of_thread))
    words = map(str, numbers)
    with running(sys.executable, "-c", FILTERED, *words) as program:
        yield program


@pytest.mark.needs("recording")
@pytest.mark.parametrize(
    ("is_filtered", "of_thread"), [(True, False), (True, True), (False, False)]
)
@pytest.mark.parametrize(
    ("call", "errno", "severity"),
    [
        ("fsync", errnos.EBADF, NOTE),
        ("fsync", errnos.ENOSYS, NOTE),
        ("fsync", errnos.EINVAL, NOTE),
        ("ftruncate", errnos.EACCES, NOTE),
        ("fchmod", errnos.EPERM, NOTE),
        ("fsync", 524, NOTE),
        ("fsync", 4095, NOTE),
        ("memfd_create", errnos.EPERM, COSTLY),
        ("write", errnos.ENOSPC, COSTLY),
    ],
)
def test_a_filter_is_the_cause_of_any_errno(
    call: str,
    errno: int,
    severity: int,
    is_filtered: bool,
    of_thread: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of a thread that is not the first. Without it the call fails in its own way."""
    if call == "write":  # by which the program says that it is ready
        call = "pwrite64"
    with filtering(call, errno, is_filtered=is_filtered, of_thread=of_thread) as program:
        with refusals.recording(program.pid, process.tasks(program.pid)) as recorded:
            tell(program, "x")
            failing = recorded.result(1.0)

        def again(_: int, seconds: float) -> bool:
            if seconds:
                tell(program, "x")
            return False

        monkeypatch.setattr(subject, "ended", again)
        seen = look(refused=tuple(failing))
        seen = replace(seen, subject=replace(seen.subject, pid=program.pid))
        seen = looking.explained(seen, -1, recorded)
    name = refusals.ERRNOS.get(errno, f"errno {errno}")
    if is_filtered:
        (one,) = seen.refused
        assert (one.call, one.errno, one.per_s) == (call, name, TIMES)
        whose = r" of thread \d+ \(python\S*\)" if of_thread else ""
        words = f"a filter of system calls{whose} refuses it \\(seccomp\\), not a limit"
        assert re.fullmatch(words, one.cause)
        (said,) = refused.findings(seen)
        assert said.severity is severity
        assert said.line == "seccomp"
    else:
        assert not any(one.cause.startswith("a filter") for one in seen.refused)
        assert {one.errno for one in seen.refused} <= {"EBADF", "EFAULT"}
    assert seen.unseen == ()


@pytest.mark.needs("recording")
@pytest.mark.parametrize("errno", [errnos.ENOENT, errnos.EAGAIN])
def test_an_ordinary_errno_that_a_filter_returns_is_not_ordinary(
    errno: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filtering("fsync", errno, is_filtered=True, of_thread=False) as program:

        def again(_: int, seconds: float) -> bool:
            if seconds:
                tell(program, "x")
            return False

        monkeypatch.setattr(subject, "ended", again)
        seen = look(
            per_s=rates(failing_calls=23.0),
            threads=(looking.Thread(program.pid, "", {"failing_calls": 23.0}),),
        )
        seen = replace(seen, subject=replace(seen.subject, pid=program.pid))
        with refusals.recording(program.pid, [program.pid]) as recorded:
            seen = looking.explained(seen, -1, recorded)
    (one,) = seen.refused
    assert (one.call, one.errno) == ("fsync", errnos.errorcode[errno])
    assert (one.is_estimate, one.harmless, seen.ordinary) == (True, True, ())
    assert one.cause == "a filter of system calls refuses it (seccomp), not a limit"


@pytest.mark.needs("recording")
def test_begins_that_a_ring_has_no_room_for_are_no_proof_of_a_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One page has room for some 45 of them."""
    monkeypatch.setattr(call_arguments, "_PAGES", 1)
    libc, task = ctypes.CDLL(None), threading.get_native_id()
    numbers = {name: system_calls.NUMBERS[name] for name in ("dup3", "fsync")}
    with refusals.recording(os.getpid(), [task]) as recorded:
        events = recorded.events

    def fail(_: float) -> None:
        for name, times in (("dup3", 60), ("fsync", 3)):
            for _ in range(times):
                libc.syscall(ctypes.c_long(numbers[name]), -1, -1, 0)

    failing = {task: {(numbers["dup3"], -errnos.EINVAL): 60.0, (numbers["fsync"], -9): 3.0}}
    called = call_arguments.read(events, failing, lambda *_: True, fail)
    assert called["fsync", "EBADF"].ends == 3
    assert not called["fsync", "EBADF"].unbegun


@pytest.mark.needs("recording")
@pytest.mark.parametrize("errno", refusals.RESTARTS)
def test_a_call_that_the_kernel_starts_again_is_ordinary(errno: int) -> None:
    with (
        filtering("fsync", errno, is_filtered=True, of_thread=False) as program,
        refusals.recording(program.pid, [program.pid]) as recorded,
    ):
        now = call_arguments.ordinary(
            recorded.events, [program.pid], lambda _: tell(program, "x"), is_narrow=False
        )
        names = call_arguments.most_ordinary(now.values(), is_narrow=False)
        assert recorded.result(1.0) == []
    assert names == ("fsync (interrupted)",)


def test_a_send_that_is_a_finding_is_not_counted_as_ordinary_too() -> None:
    sends = Refusal("sendto", "EAGAIN", 700.0, cause="its buffer is full", line="SO_SNDBUF")
    per_s = rates(failing_calls=730.0)
    names = ("sendto (EAGAIN)", "openat (ENOENT)")
    account = limits.of(look(refused=(sends,), per_s=per_s, ordinary=names))
    (line,) = (one for one in account.lines if one.name == "other calls that fail")
    assert (line.value, line.note) == (30.0, "as is ordinary: openat (ENOENT)")


def test_calls_of_the_look_itself_are_no_proof_of_a_filter() -> None:
    """Of these only the ends were recorded."""
    earlier = call_arguments.earlier({(1, -22): [(5, 0), (5, 0)]})
    assert next(iter(earlier.values())).unbegun == {}


def test_one_filter_that_refuses_many_calls_is_one_note() -> None:
    names = ("fsync", "fchmod", "ftruncate", "unlink", "rename")
    those = [
        Refusal(name, "EPERM", 9.0 - n, cause="a filter", line="seccomp", harmless=True)
        for n, name in enumerate(names)
    ]
    (said,) = refused.findings(look(refused=tuple(those)))
    assert said.title == (
        "35 calls per second fail, fsync with EPERM (9 per second), fchmod with EPERM (8 per "
        "second), ftruncate with EPERM (7 per second) and 2 more: a filter"
    )

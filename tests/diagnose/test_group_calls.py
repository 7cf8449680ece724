"""Calls of a group's processes that fail."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import threading
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import needs
import pytest

from memlab.diagnose import call_rings, group_calls, refusals
from memlab.diagnose.call_rings import FailedCall, Way
from memlab.diagnose.finding import COSTLY, CRITICAL, NOTE
from memlab.diagnose.group_calls import GroupCalls, GroupRefusals
from memlab.diagnose.refusals import Refusal
from memlab.observe import system_calls

from .live import Compiled, running
from .test_call_causes import LIBC, PID, unmapped
from .test_counters import tell

TIMES = 7


def only_here() -> str:
    """A filter for this thread alone, so that the same test of another session fills no ring of
    this one; in another PID namespace the kernel's number of it is not known."""
    is_known = str(Path("/proc/self/ns/pid").readlink()) == "pid:[4026531836]"
    return f"common_pid == {threading.get_native_id()} && " if is_known else ""


@pytest.mark.needs("recording")
def test_each_failing_call_of_a_process_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails as is ordinary is not."""
    calls = " || ".join(
        f"id == {system_calls.NUMBERS[name]}" for name in ("msync", "fcntl", "msgget", "dup2")
    )
    filters = tuple(f"{only_here()}({calls}) && ({one})" for one in refusals.of_groups())
    monkeypatch.setattr(refusals, "of_groups", lambda: filters)
    at = ctypes.c_void_p(unmapped())
    with closing(GroupRefusals(Path("/"), "1")) as recorded:
        for _ in range(TIMES):
            assert LIBC.msync(at, 4096, 1) == -1
            assert LIBC.fcntl(1 << 30, 1) == -1
            assert LIBC.dup2(0, 1 << 30) == LIBC.dup2(0, 1 << 30) == -1
            assert LIBC.msgget(-1, 0) == -1
        outside = recorded.result(1.0, [])
        calls = recorded.result(1.0, [PID])
    assert outside.by_process == {}
    ((one, other),) = calls.by_process.values()
    assert (one.call, one.errno, round(one.per_s)) == ("msync", "ENOMEM", TIMES)
    assert (other.call, other.errno, round(other.per_s)) == ("dup2", "EBADF", 2 * TIMES)
    assert calls.unlooked == ()
    said, note = group_calls.findings(calls)
    name = Path("/proc/self/comm").read_text().strip()
    assert said.title == f"7 calls per second of process {PID} ({name}) fail: msync with ENOMEM"
    assert said.setting == note.setting == f"memlab diagnose {PID}"
    assert note.severity is NOTE
    assert note.title == (
        f"14 calls per second fail: dup2 with EBADF of process {PID} ({name}); the cause was not "
        "read"
    )


def test_calls_of_a_group_that_want_nothing_are_one_note() -> None:
    """Whatever their number is, and beside those that do."""
    refused = {
        pid: [Refusal("fsync", "EINVAL", 2.0 * pid), Refusal("write", "ENOSPC", 3.0)]
        for pid in range(1, 6)
    }
    *costly, note = group_calls.findings(GroupCalls(refused, (), {5: "app"}))
    assert [one.severity for one in costly] == [COSTLY] * 3
    assert note.severity is NOTE
    assert note.title == (
        "30 calls per second fail: fsync with EINVAL of process 5 (app) (10 per second), fsync "
        "with EINVAL of process 4 (?) (8 per second), fsync with EINVAL of process 3 (?) (6 per "
        "second) and 2 more; the cause was not read"
    )
    rare = {1: [Refusal("fsync", "EINVAL", 0.9)]}
    assert [*group_calls.findings(GroupCalls(rare, (), {}))] == []


@pytest.mark.needs("recording", "events of cgroups")
def test_of_a_group_of_v2_a_process_that_has_ended_is_counted() -> None:
    at = unmapped()
    with needs.cgroup_of_events() as folder, closing(GroupRefusals(folder, "2")) as recorded:
        if not (pid := os.fork()):
            with suppress(BaseException):
                (folder / "cgroup.procs").write_text(str(os.getpid()))
                for _ in range(TIMES):
                    LIBC.msync(ctypes.c_void_p(at), 4096, 1)
            os._exit(0)
        os.waitpid(pid, 0)
        calls = recorded.result(1.0, [])
    assert [(one.call, round(one.per_s)) for one in calls.by_process[pid]] == [("msync", TIMES)]
    (said,) = group_calls.findings(calls)
    assert said.title == f"7 calls per second of process {pid} (?) fail: msync with ENOMEM"


class Rings(list[tuple[int, tuple[int, int]]]):
    """What a CPU's ring recorded, and how many calls more there were."""

    more: int = 0
    until_s: float = 1.0
    is_narrow: bool | None = None

    def stop(self) -> None:
        pass

    def stopped(self) -> list[FailedCall]:
        return [FailedCall(*one, Way(self.is_narrow)) for one in self]

    def recorded_s(self) -> float:
        return self.until_s

    def count(self) -> int:
        return len(self) + self.more

    def close(self) -> None:
        pass


def recorded_by(
    monkeypatch: pytest.MonkeyPatch, *rings: Rings, version: str = "1"
) -> GroupRefusals:
    monkeypatch.setattr(group_calls.system_calls, "NUMBERS", {"write": 1})
    names = {1: "write", 2: "mmap"}
    monkeypatch.setattr(group_calls.system_calls, "name", lambda number, is_narrow: names[number])
    events = SimpleNamespace(exit=7, ended=lambda raw: raw)
    monkeypatch.setattr(call_rings, "events", lambda: events)
    opened = iter((rings, ()))  # of want, and others
    monkeypatch.setattr(call_rings, "record_all", lambda *_: next(opened))
    return GroupRefusals(Path("/"), version)


def test_processes_of_other_groups_and_what_is_no_finding_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring = Rings([(5, (1, -28)), (5, (1, -28)), (6, (1, -28)), (0, (1, -28)), (5, (1, -2))])
    calls = recorded_by(monkeypatch, ring, Rings([(5, (1, -28))])).result(2.0, [5])
    assert calls.by_process == {5: [Refusal("write", "ENOSPC", 1.5)]}
    calls = recorded_by(monkeypatch, ring, version="2").result(2.0, [5])
    assert calls.by_process.keys() == {5, 6}  # the kernel wrote no others


@pytest.mark.parametrize(("version", "whose"), [("1", " of all processes"), ("2", "")])
def test_of_a_full_ring_the_kernel_still_counts(
    version: str, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its share of the calls that were recorded is taken to be its share of all, if all went on as
    it began."""
    full = Rings([(5, (1, -28)), (6, (1, -28))] * 2)
    full.more, full.until_s = 12, 0.5
    calls = recorded_by(monkeypatch, full, Rings([(7, (1, -28))]), version=version)
    looked = calls.result(2.0, [5, 6, 7])
    assert looked.by_process == {
        5: [Refusal("write", "ENOSPC", 4.0, is_estimate=True)],
        6: [Refusal("write", "ENOSPC", 4.0, is_estimate=True)],
        7: [Refusal("write", "ENOSPC", 0.5)],
    }
    titles = [one.title for one in group_calls.findings(looked)]
    assert titles[0].startswith("about 4 calls per second of process 5 (")
    (said,) = looked.unlooked
    assert said.name == "which calls fail after its first 500 ms"
    assert said.reason == f"5 of 17 that failed{whose} were recorded"


def test_no_process_is_multiplied_by_what_another_does_after_a_ring_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that fails four times per second, and then a burst of another."""
    full = Rings([(6, (2, -12))] * 12 + [(5, (1, -28))] * 988)
    full.more, full.until_s = 100_000, 3.0
    looked = recorded_by(monkeypatch, full).result(10.0, [5, 6])
    assert looked.by_process == {
        5: [Refusal("write", "ENOSPC", 98.8, is_least=True)],
        6: [Refusal("mmap", "ENOMEM", 1.2, is_least=True)],
    }
    titles = [one.title for one in group_calls.findings(looked)]
    assert [one.partition(" of ")[0] for one in titles] == [
        "at least 98.8 calls per second", "at least 1.2 calls per second",
    ]  # fmt: skip


@pytest.mark.needs("recording")
def test_a_burst_that_no_ring_has_room_for_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    filtered = f"{only_here()}id == {system_calls.NUMBERS['msync']} && ret == -12"
    monkeypatch.setattr(refusals, "of_groups", lambda: (filtered,))
    at, count = ctypes.c_void_p(unmapped()), 20_011
    with closing(GroupRefusals(Path("/"), "1")) as recorded:
        for _ in range(count):
            LIBC.msync(at, 4096, 1)
        looked = recorded.result(10.0, [PID])
    ((one,),) = looked.by_process.values()
    assert one.is_estimate or one.is_least
    assert 20 <= one.per_s <= 1.01 * count / 10
    (said,) = looked.unlooked
    assert said.name.startswith("which calls fail after its first ")


@pytest.mark.needs("recording")
def test_what_fails_while_a_ring_is_opened_is_not_said_to_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filtered = f"{only_here()}id == {system_calls.NUMBERS['dup2']} && ret == -9"
    monkeypatch.setattr(refusals, "of_groups", lambda: (filtered,))
    mapped = call_rings.mmap.mmap

    def fails_meanwhile(*arguments: int) -> mmap.mmap:
        LIBC.dup2(0, 1 << 30)
        return mapped(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(call_rings.mmap, "mmap", fails_meanwhile)
        recorded = GroupRefusals(Path("/"), "1")
    with closing(recorded):
        assert recorded.result(1.0, [PID]).unlooked == ()


def test_calls_of_32_bit_programs_have_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "is_narrow", lambda pid: pid > 3)
    monkeypatch.setattr(group_calls, "_name", {4: "app"}.get)
    ring = Rings([(3, (1, -28)), (50, (1, -28)), (4, (3, -28))])
    recorded = recorded_by(monkeypatch, ring)
    narrow = {1: "exit", 3: "read"}
    monkeypatch.setattr(
        group_calls.system_calls, "name",
        lambda number, is_narrow: narrow[number] if is_narrow else "write",
    )  # fmt: skip
    calls = recorded.result(1.0, [4, 3, *range(10, 60)])
    assert {pid: one.call for pid, (one,) in calls.by_process.items()} == {
        3: "write", 4: "read", 50: "exit",
    }  # fmt: skip
    assert [one.name for one in calls.unlooked] == [
        "which other calls of process 4 (app) fail", "which other calls of process 10 (?) fail",
        "which other calls of process 11 (?) fail", "which other calls of 29 more processes fail",
    ]  # fmt: skip


def test_a_program_that_has_ended_is_of_the_class_that_the_kernel_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process may also start a program of the other class in the look."""
    monkeypatch.setattr(refusals, "is_narrow", lambda pid: False)
    monkeypatch.setattr(group_calls, "_name", lambda pid: "")
    narrow = Rings([(4, (1, -28)), (4, (1, -1)), (6, (1, -28))])
    wide = Rings([(5, (1, -28)), (5, (1, -1)), (6, (1, -28))])
    narrow.is_narrow, wide.is_narrow = True, False
    recorded = recorded_by(monkeypatch, narrow, wide, version="2")
    monkeypatch.setattr(
        group_calls.system_calls, "name",
        lambda number, is_narrow: "exit" if is_narrow else "write",
    )  # fmt: skip
    calls = recorded.result(1.0, [])
    made = {pid: [(one.call, one.errno) for one in those]
            for pid, those in calls.by_process.items()}  # fmt: skip
    assert made == {
        4: [("exit", "ENOSPC")],  # of other errnos only calls by 64-bit numbers are recorded
        5: [("write", "ENOSPC"), ("write", "EPERM")],
        6: [("exit", "ENOSPC"), ("write", "ENOSPC")],
    }
    assert [one.name for one in calls.unlooked] == [
        f"which other calls of process {pid} (?) fail" for pid in (4, 6)
    ]


# In 32 bits: seven times mlock(0x1000, 0x1000) by int $0x80, then exit(0).
MLOCKS = bytes.fromhex("bf07000000" "b896000000bb00100000b900100000cd80" "4f75ec"
                       "b80100000031dbcd80")  # fmt: skip


@pytest.mark.needs("recording", "32-bit programs")
def test_calls_of_a_32_bit_program_that_has_ended_have_their_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """To a 64-bit program the same number is of munlock."""
    assert system_calls.name(150) == "munlock"
    monkeypatch.setattr(refusals, "of_groups", lambda: ("id == 150 && ret == -12",))
    (program := tmp_path / "a").write_bytes(needs.narrow_program(MLOCKS))
    program.chmod(0o755)
    with closing(GroupRefusals(Path("/"), "1")) as recorded:
        with subprocess.Popen([program]) as started:
            assert started.wait() == 0
        calls = recorded.result(1.0, [started.pid])
    assert [(one.call, one.errno, round(one.per_s)) for one in calls.by_process[started.pid]] == [
        ("mlock", "ENOMEM", TIMES)
    ]


@pytest.mark.needs("recording", "32-bit programs")
def test_a_64_bit_program_may_call_by_the_other_table(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `int $0x80`; 192 is lgetxattr by `syscall`."""
    monkeypatch.setattr(refusals, "of_groups", lambda: ("id == 192 && ret == -12",))
    with (
        running(binary("refused_calls")) as program,
        closing(GroupRefusals(Path("/"), "1")) as recorded,
    ):
        tell(program, "i")
        ((one,),) = recorded.result(1.0, [program.pid]).by_process.values()
    assert (one.call, one.errno, round(one.per_s)) == ("mmap", "ENOMEM", 23)


def test_a_call_of_a_32_bit_program_that_has_the_number_of_another_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The filter is by the numbers of 64-bit programs."""
    monkeypatch.setattr(refusals, "is_narrow", lambda pid: pid == 4)
    ring = Rings([(pid, (1, code)) for pid in (3, 4) for code in (-1, -28)])
    calls = recorded_by(monkeypatch, ring).result(1.0, [3, 4])
    errnos = {pid: [one.errno for one in made] for pid, made in calls.by_process.items()}
    assert errnos == {3: ["EPERM", "ENOSPC"], 4: ["ENOSPC"]}


@pytest.mark.parametrize(("version", "said"), [("1", 1), ("2", 0)])
def test_that_a_list_of_processes_is_cut_is_said(
    version: str, said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "is_narrow", lambda _: False)
    for count, times in ((1999, 0), (2000, said)):
        calls = recorded_by(monkeypatch, Rings(), version=version).result(1.0, range(1, count + 1))
        names = [one.name for one in calls.unlooked]
        assert names == ["which calls of its other processes fail"] * times


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        ("events", "tracepoints may not be read: run as root"),
        ("record_all", "the failing calls of all processes may not be recorded: run as root, with "
         "CAP_PERFMON"),
    ],
)  # fmt: skip
def test_why_nothing_is_recorded_is_said(
    refused: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    recorded_by(monkeypatch)
    monkeypatch.setattr(call_rings, refused, refuse)
    calls = GroupRefusals(Path("/"), "1").result(1.0, [PID])
    assert [(one.name, one.reason) for one in calls.unlooked] == [("which calls fail", why)]


def test_what_fails_rarely_is_no_finding_and_what_nobody_tries_in_vain_is_an_alarm() -> None:
    def said(*refused: Refusal) -> list[tuple[str, object]]:
        found = group_calls.findings(GroupCalls({7: refused}, ()))
        return [(one.title, one.severity) for one in found]

    assert said(Refusal("write", "EDQUOT", 0.19)) == []
    assert [severity for _, severity in said(Refusal("open", "EMFILE", 0.33))] == [COSTLY]
    assert said(Refusal("memfd_secret", "EMLINK", 0.9)) == []  # no row has it: as of a process
    many = [Refusal(call, "EDQUOT", 2.0) for call in ("write", "mkdir", "link", "open")]
    (title, severity), *more = said(*many)
    assert title.endswith("link with EDQUOT (2 per second) and open with EDQUOT (2 per second)")
    assert (severity, more) == (COSTLY, [])
    asks = [Refusal(call, "ENOMEM", 50.0) for call in ("mincore", "msync")]
    assert [severity for _, severity in said(*asks)] == [NOTE]
    assert [severity for _, severity in said(*asks, Refusal("mmap", "ENOMEM", 1.0))] == [COSTLY]
    ((title, severity),) = said(Refusal("clone", "EAGAIN", 2.0))
    assert (title, severity) == ("2 calls per second of process 7 (?) fail: clone with EAGAIN",
                                 CRITICAL)  # fmt: skip

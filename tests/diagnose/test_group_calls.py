"""Calls of a group's processes that fail."""

from __future__ import annotations

import ctypes
import threading
from contextlib import closing

import pytest

from memlab.diagnose import counters, group_calls
from memlab.diagnose.finding import COSTLY, CRITICAL, NOTE
from memlab.diagnose.group_calls import GroupCalls, GroupRefusals
from memlab.diagnose.refusals import Refusal

from .test_call_causes import LIBC, PID, unmapped

TIMES = 7


@pytest.mark.needs("recording")
def test_each_failing_call_of_a_process_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no finding by itself is not."""
    monkeypatch.setattr(counters, "busiest_first", lambda _: [threading.get_native_id()])
    at = ctypes.c_void_p(unmapped())
    with closing(GroupRefusals([PID])) as recorded:
        for _ in range(TIMES):
            assert LIBC.msync(at, 4096, 1) == -1
            assert LIBC.dup2(0, 1 << 30) == -1
            assert LIBC.read(-1, at, 1) == -1
        calls = recorded.result(1.0)
    ((one,),) = calls.by_process.values()
    assert (one.call, one.errno, round(one.per_s)) == ("msync", "ENOMEM", TIMES)
    assert calls.unlooked == ()
    (said,) = group_calls.findings(calls, {PID: "app"})
    assert said.title == (f"7 calls per second of process {PID} (app) fail: msync with ENOMEM")
    assert said.setting == f"memlab diagnose {PID}"


def test_what_fails_rarely_is_no_finding_and_what_nobody_tries_in_vain_is_an_alarm() -> None:
    def said(*refused: Refusal) -> list[tuple[str, object]]:
        found = group_calls.findings(GroupCalls({7: refused}, ()), {})
        return [(one.title, one.severity) for one in found]

    assert said(Refusal("write", "ENOSPC", 0.9)) == []
    many = [Refusal(call, "EDQUOT", 2.0) for call in ("write", "mkdir", "link", "open")]
    (title, severity), *more = said(*many)
    assert title.endswith("fail: write with EDQUOT, mkdir with EDQUOT, link with EDQUOT and 1 more")
    assert (severity, more) == (COSTLY, [])
    asks = [Refusal(call, "ENOMEM", 50.0) for call in ("mincore", "msync")]
    assert [severity for _, severity in said(*asks)] == [NOTE]
    assert [severity for _, severity in said(*asks, Refusal("mmap", "ENOMEM", 1.0))] == [COSTLY]
    ((title, severity),) = said(Refusal("clone", "EAGAIN", 2.0))
    assert (title, severity) == ("2 calls per second of process 7 (?) fail: clone with EAGAIN",
                                 CRITICAL)  # fmt: skip


def test_processes_and_threads_that_are_left_out_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "busiest_first", lambda pid: [*range(40)])
    opened: list[int] = []

    class Rings:
        why = "tracepoints may not be read: run as root"

        def __init__(self, pid: int, tasks: list[int], *, sizes: bool, events: object) -> None:
            assert not sizes
            opened.append(len(tasks))

        def result(self, seconds: float) -> list[Refusal]:
            return []

        def close(self) -> None:
            pass

    monkeypatch.setattr(group_calls, "Refusals", Rings)
    with closing(GroupRefusals(range(1, 41))) as recorded:
        calls = recorded.result(1.0)
    assert sum(opened) == 64
    assert (len(opened), min(opened)) == (32, 1)
    assert [(one.name, one.reason) for one in calls.unlooked] == [
        ("which calls fail", Rings.why),
        ("which calls of 8 processes fail", "smaller than the 32 largest"),
        ("which calls of 1216 threads fail", "not of the 64 busiest of the largest processes"),
    ]

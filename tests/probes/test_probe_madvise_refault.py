"""madvise_refault: every row of the checks, with every right and as an ordinary user; and its
steps against the same calls made by ctypes."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import plain_calls
import pytest
import rows
from plain_calls import IN_FILE, WRITTEN, Pages, View

from memlab import probe
from memlab.experiment import Check
from memlab.experiments.madvise_refault import CHECKS, EXPERIMENT, touch_ended
from memlab.run.fork_server import ForkServer

KIB = 1024
FATAL = "state_3_unhandled"  # the row whose touch ends the caller
HANDLED = [check for check in CHECKS if check.name != FATAL]


def params(name: str) -> dict[str, Any]:
    return EXPERIMENT.params({"check": name}, {})


@pytest.fixture(scope="module")
def ordinary() -> dict[str, Any]:
    """Every check's answer by a user without any capability."""
    return rows.ordinary(EXPERIMENT, *(check.name for check in HANDLED))


def call(name: str) -> dict[str, Any]:
    return probe.call("madvise_refault", params(name))


def assert_as_claimed(check: Check, raw: dict[str, Any]) -> None:
    assert [claim.text for claim in rows.wrong(EXPERIMENT, check, raw)] == []
    assert raw["other_count"] == 0
    assert raw["signal"] == (signal.SIGSEGV if raw["signal_count"] else 0)


@pytest.mark.parametrize("check", HANDLED, ids=lambda check: check.name)
def test_a_row_holds_for_an_ordinary_user(ordinary: dict[str, Any], check: Check) -> None:
    assert_as_claimed(check, ordinary[check.name])


@pytest.mark.parametrize("check", HANDLED, ids=lambda check: check.name)
def test_a_row_holds_with_every_right_that_the_tests_have(check: Check) -> None:
    assert_as_claimed(check, call(check.name))


def test_the_answer_is_the_same_every_time() -> None:
    """A batch of MADV_FREE that waits, or a page of code that is not in, would show here."""
    for check in HANDLED:
        if check.name in ("free", "dontneed", "state_2"):
            for _ in range(7):
                assert_as_claimed(check, call(check.name))


@pytest.mark.parametrize("check", HANDLED, ids=lambda check: check.name)
def test_steps_do_what_the_calls_do(check: Check) -> None:
    """A probe that played other calls than the steps name would show here. MADV_FREE's marks lag
    behind the call, and what is paged out comes back as the host has swap."""
    result = call(check.name)
    *steps, touch = check.steps
    after, touched = (
        plain_calls.seen(result[side], result["page_bytes"])._replace(lazy_free=0)
        for side in ("after", "touched")
    )
    failed, view = plain_calls.in_child(lambda at: (at.play(steps), at.view()))
    assert result["call_errno"] == failed
    assert check.name == "pageout" or after == view._replace(lazy_free=0)

    def touch_all(at: Pages) -> tuple[View, list[int]]:
        at.play(check.steps)
        return at.view(), at.second_bytes(touch["first"], touch["count"])

    ended = plain_calls.in_child(touch_all)
    if result["signal_count"]:
        assert ended == -signal.SIGSEGV
    else:
        view, held = ended
        assert touched == view._replace(lazy_free=0)
        counts = [result[f"{kind}_count"] for kind in ("zero", "kept", "file")]
        assert counts == [held.count(byte) for byte in (0, WRITTEN, IN_FILE)]


def test_a_touch_that_no_handler_catches_ends_the_caller_without_a_core(tmp_path: Path) -> None:
    command = rows.command(EXPERIMENT, [FATAL])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGSEGV
    assert {path.name for path in tmp_path.iterdir()} <= {"home"}


def test_the_row_of_such_a_touch_is_its_signal() -> None:
    parent = ForkServer()
    try:
        trial = {"probe": "madvise_refault", "params": params(FATAL)}
        cpus = [min(os.sched_getaffinity(0))]
        reply = parent.run(trial | {"file": None, "cpus": cpus, "limit_s": 60.0})
    finally:
        parent.stop()
    assert (reply["outcome"], reply["detail"]) == ("sigsegv", "ended by SIGSEGV")


def test_the_steps_the_touch_and_the_lines_of_smaps_are_told() -> None:
    result = call("free")
    told = EXPERIMENT.metrics[0].evidence
    assert told is not None
    calls = [line for line in told(result, {}).splitlines() if "VmFlags" not in line]
    assert calls == [
        "mmap(start + 0 pages, 23 pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS)",
        "fill each page of (start + 0 pages, 23 pages)",
        "madvise(start + 0 pages, 23 pages, MADV_FREE) = 0",
        f"read from each page of (start + 0 pages, 23 pages): {touch_ended(result)}",
    ]
    size = 23 * result["page_bytes"] // KIB
    (line,) = result["after"]["smaps"].splitlines()
    assert f"Rss: {size} kB  LazyFree: {size} kB  Locked: 0 kB" in line
    assert "LazyFree" not in result["before"]["smaps"]


def test_the_caller_keeps_its_cpus_its_handler_and_its_memory() -> None:
    cpus, handler, maps = os.sched_getaffinity(0), signal.getsignal(signal.SIGSEGV), vmas()
    for check in ("state_3", "mprotect_none", "dontneed_private_file"):
        call(check)
    assert (os.sched_getaffinity(0), signal.getsignal(signal.SIGSEGV)) == (cpus, handler)
    assert vmas() == maps


def vmas() -> list[str]:
    """The lines of /proc/self/maps that a check could have left behind."""
    with open("/proc/self/maps") as lines:
        return [line for line in lines if "memfd:memlab" in line or "---p" in line]

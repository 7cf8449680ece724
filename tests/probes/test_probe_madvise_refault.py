"""madvise_refault: every check's exact answer, with every right and as an ordinary user."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import unprivileged

from memlab import probe
from memlab.run.warm import Warm

CHECKS = probe.params("madvise_refault")["check"]
MAPERR, ACCERR = 1, 2  # si_code, sigaction(2)
KIB = 1024


class Seen(NamedTuple):
    """The range: VMAs, pages present, pages marked by MADV_FREE."""

    vmas: int
    rss: int = 0
    lazy: int = 0


class Touch(NamedTuple):
    """Faults; touched pages that are zero, as written, as in the file; signals and their code."""

    faults: int
    zero: int = 0
    kept: int = 0
    file: int = 0
    signals: int = 0
    code: int = 0


ALL, NOTHING = Seen(1, 23), Seen(0)
KEPT, SEGV = Touch(0, kept=23), Touch(0, signals=23, code=MAPERR)

# before the call, after it, its errno, the touch, after the touch
EXPECTED: dict[str, tuple[Seen, Seen, int, Touch, Seen]] = {
    "state_0": (Seen(1, 10), Seen(2, 10), 0, Touch(0, kept=10), Seen(2, 10)),
    "state_1": (Seen(1, 10), Seen(2, 10), 0, Touch(13, zero=13), Seen(2, 23)),
    "state_2": (Seen(2, 23), Seen(2, 12), 0, Touch(11, zero=11, kept=12), Seen(2, 23)),
    "state_3": (Seen(2, 23), Seen(1), 0, SEGV, Seen(1)),
    "dontneed": (ALL, Seen(1), 0, Touch(23, zero=23), Seen(1)),
    "dontneed_write": (ALL, Seen(1), 0, Touch(23, zero=23), ALL),
    "dontneed_private_file": (ALL, Seen(1), 0, Touch(23, file=23), ALL),
    "dontneed_shared_file": (ALL, Seen(1), 0, Touch(23, kept=23), ALL),
    "dontneed_of_locked": (Seen(1, 7), Seen(1, 7), errno.EINVAL, Touch(0, kept=7), Seen(1, 7)),
    "dontneed_locked": (Seen(1, 7), Seen(1), 0, Touch(7, zero=7), Seen(1, 7)),
    "free": (ALL, Seen(1, 23, 23), 0, KEPT, Seen(1, 23, 23)),
    "free_write": (ALL, Seen(1, 23, 23), 0, KEPT, ALL),
    "free_reclaimed": (Seen(1, 23, 23), Seen(1), 0, Touch(23, zero=23), Seen(1)),
    "free_private_file": (ALL, ALL, errno.EINVAL, KEPT, ALL),
    "free_shared_file": (ALL, ALL, errno.EINVAL, KEPT, ALL),
    "cold": (ALL, ALL, 0, KEPT, ALL),
    "munmap_private_file": (ALL, NOTHING, 0, SEGV, NOTHING),
    "munmap_shared_file": (ALL, NOTHING, 0, SEGV, NOTHING),
    # A VMA without any access is not counted, here or by smaps.h.
    "mprotect_none": (ALL, NOTHING, 0, Touch(0, signals=23, code=ACCERR), NOTHING),
    "mprotect_back": (NOTHING, ALL, 0, KEPT, ALL),
}
TOLD_APART = {"pageout", "state_3_unhandled"}  # as the host has swap, and dies of it

# Every check in one process, as JSON.
EACH = """
import json, sys
from memlab import probe
answers = {}
for check in sys.argv[1:]:
    try:
        answers[check] = probe.call("madvise_refault", {"check": check})
    except probe.ProbeError as error:
        answers[check] = str(error)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def ordinary() -> dict[str, Any]:
    """Every check's answer by a user without any capability."""
    done = unprivileged.powerless("-c", EACH, *EXPECTED, "pageout")
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def call(check: str) -> dict[str, Any]:
    return probe.call("madvise_refault", {"check": check})


def seen(view: dict[str, Any], page_bytes: int) -> Seen:
    return Seen(
        view["vma_count"],
        view["rss_bytes"] // page_bytes,
        view["lazy_free_bytes"] // page_bytes,
    )


def touch(result: dict[str, Any]) -> Touch:
    """What a signal costs in faults is not of the check: it counts none."""
    signals = result["signal_count"]
    assert result["other_count"] == 0
    assert result["signal"] == (signal.SIGSEGV if signals else 0)
    window = result["window"]
    trapped = window["counters"]["trapped"]
    if not signals and trapped["error"] is None:
        assert trapped["count"] == window["minor_fault_count"]
    return Touch(
        0 if signals else window["minor_fault_count"],
        result["zero_count"],
        result["kept_count"],
        result["file_count"],
        signals,
        result["signal_code"],
    )


def answer(result: dict[str, Any]) -> tuple[Seen, Seen, int, Touch, Seen]:
    before, after, touched = (
        seen(result[side], result["page_bytes"]) for side in ("before", "after", "touched")
    )
    return before, after, result["call_errno"], touch(result), touched


def test_every_check_has_its_answer_here() -> None:
    assert EXPECTED.keys() | TOLD_APART == set(CHECKS)


@pytest.mark.parametrize("check", EXPECTED)
def test_the_answer_is_exact_for_an_ordinary_user(ordinary: dict[str, Any], check: str) -> None:
    assert answer(ordinary[check]) == EXPECTED[check]


@pytest.mark.parametrize("check", EXPECTED)
def test_the_answer_is_exact_with_every_right_that_the_tests_have(check: str) -> None:
    assert answer(call(check)) == EXPECTED[check]


def test_the_answer_is_the_same_every_time() -> None:
    """A batch of MADV_FREE that waits, or a page of code that is not in, would show here."""
    for check in ("free", "dontneed", "state_2"):
        assert {answer(call(check)) for _ in range(23)} == {EXPECTED[check]}


def test_what_is_paged_out_keeps_its_bytes(ordinary: dict[str, Any]) -> None:
    for result in (call("pageout"), ordinary["pageout"]):
        assert (result["kept_count"], result["call_errno"]) == (23, 0)


def test_a_touch_that_no_handler_catches_ends_the_caller_without_a_core(tmp_path: Path) -> None:
    command = [sys.executable, "-c", EACH, "state_3_unhandled"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGSEGV
    assert {path.name for path in tmp_path.iterdir()} <= {"home"}


def test_the_row_of_such_a_touch_is_its_signal() -> None:
    parent = Warm()
    try:
        trial = {"probe": "madvise_refault", "params": {"check": "state_3_unhandled"}}
        cpus = [min(os.sched_getaffinity(0))]
        reply = parent.run(trial | {"file": None, "cpus": cpus, "limit_s": 10.0})
    finally:
        parent.stop()
    assert (reply["outcome"], reply["detail"]) == ("sigsegv", "ended by SIGSEGV")


def test_the_steps_the_touch_and_the_lines_of_smaps_are_told() -> None:
    result = call("free")
    assert result["steps"].splitlines() == [
        "mmap(start + 0 pages, 23 pages, PROT_READ | PROT_WRITE)",
        "fill each page of (start + 0 pages, 23 pages)",
        "madvise(start + 0 pages, 23 pages, MADV_FREE)",
    ]
    assert result["touch"] == "read from each page of (start + 0 pages, 23 pages)"
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

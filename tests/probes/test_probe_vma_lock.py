"""vma_lock: every check's exact answer, with every right and as an ordinary user."""

import errno
import json
import resource
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from memlab import probe

CHECKS = probe.params("vma_lock")["check"]
KIB = 1024


class Seen(NamedTuple):
    """The range: VMAs, those with lo, those with lf, pages present, pages present and locked."""

    vmas: int
    lo: int = 0
    lf: int = 0
    rss: int = 0
    locked: int = 0


FRESH, LOCKED, NOTHING = Seen(1), Seen(1, 1, 0, 7, 7), Seen(0)

# before, after, errno of the call
EXPECTED: dict[str, tuple[Seen, Seen, int]] = {
    "mlock": (FRESH, LOCKED, 0),
    "mlock_middle": (FRESH, Seen(3, 1, 0, 1, 1), 0),
    "mlock_neighbour": (Seen(2, 1, 0, 3, 3), LOCKED, 0),
    "mlock_overlap": (Seen(2, 1, 0, 5, 5), LOCKED, 0),
    # The zero page, which backs what may only be read, is in no count.
    "mlock_over_exec": (Seen(3, 1, 0, 2, 2), Seen(3, 2, 0, 3, 3), 0),
    "map_over_exec": (Seen(2, 1, 0, 2, 2), Seen(2, 1, 0, 5, 5), 0),
    "mlock_unaligned": (FRESH, Seen(3, 1, 0, 2, 2), 0),
    "mlock_hole": (Seen(2), Seen(2, 1), errno.ENOMEM),
    "mlock_onfault": (FRESH, Seen(1, 1, 1), 0),
    "touch_onfault": (Seen(1, 1, 1), Seen(1, 1, 1, 3, 3), 0),
    "munlock": (LOCKED, Seen(1, rss=7), 0),
    "munlock_middle": (LOCKED, Seen(3, 2, 0, 7, 4), 0),
    "munlock_twice_locked": (LOCKED, Seen(1, rss=7), 0),
    "munmap_middle": (LOCKED, Seen(2, 2, 0, 4, 4), 0),
    "current_present": (FRESH, LOCKED, 0),
    "current_later": (NOTHING, FRESH, 0),
    "future_present": (FRESH, FRESH, 0),
    "future_later": (NOTHING, LOCKED, 0),
    "both_present": (FRESH, LOCKED, 0),
    "both_later": (NOTHING, LOCKED, 0),
    "current_onfault": (FRESH, Seen(1, 1, 1), 0),
    "future_onfault": (NOTHING, Seen(1, 1, 1), 0),
    "onfault_alone": (FRESH, FRESH, errno.EINVAL),
    "munlockall": (LOCKED, Seen(1, rss=7), 0),
    "munlockall_later": (NOTHING, FRESH, 0),
    "fork_child": (LOCKED, Seen(1, rss=7), 0),
    "fork_parent": (LOCKED, LOCKED, 0),
    "fork_child_future": (NOTHING, FRESH, 0),
    "thread": (LOCKED, LOCKED, 0),
    "limit_zero": (FRESH, FRESH, errno.EPERM),
    "limit_reached": (FRESH, Seen(2, 1, 0, 5, 5), 0),
    "limit_exceeded": (FRESH, FRESH, errno.ENOMEM),
    "limit_overlap": (Seen(2, 1, 0, 3, 3), Seen(2, 1, 0, 5, 5), 0),
    "limit_current": (FRESH, FRESH, errno.ENOMEM),
    "limit_future_reached": (NOTHING, Seen(1, 1, 0, 5, 5), 0),
    "limit_future_exceeded": (NOTHING, NOTHING, errno.EAGAIN),
    "limit_mlockall": (FRESH, FRESH, 0),
    "limit_munlock": (LOCKED, Seen(1, rss=7), 0),
    "limit_munlockall": (LOCKED, Seen(1, rss=7), 0),
}
TOLD_APART = {"thread_stack", "max_map_count"}  # their sizes are the machine's

# As an ordinary user, whoever runs the tests: every check in one process, as JSON.
UNPRIVILEGED = """
import json, resource, sys
from memlab import probe
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
answers = {}
for check in sys.argv[2:]:
    try:
        answers[check] = probe.call("vma_lock", {"check": check})
    except probe.ProbeError as error:
        answers[check] = str(error)
print(json.dumps(answers))
"""
_NO_CAPABILITY = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]


def privileged() -> bool:
    """Whether this process may lock without limit."""
    with open("/proc/self/status") as status:
        effective = next(line.split()[1] for line in status if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> 14 & 1)  # CAP_IPC_LOCK, capabilities(7)


def unprivileged(limit_bytes: int, *checks: str) -> dict[str, Any]:
    drop = _NO_CAPABILITY if privileged() else []
    command = [*drop, sys.executable, "-c", UNPRIVILEGED, str(limit_bytes), *checks]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def default_limit() -> int:
    """The default of RLIMIT_MEMLOCK, 8 MiB (kernel 5.16), or less where the host grants less."""
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    granted = 8192 * KIB if hard == resource.RLIM_INFINITY or privileged() else hard
    if granted < 4096 * KIB:
        pytest.skip(f"RLIMIT_MEMLOCK is {granted // KIB} kB: too little for mlockall")
    return min(granted, 8192 * KIB)


@pytest.fixture(scope="module")
def ordinary(default_limit: int) -> dict[str, Any]:
    """Every check's answer without CAP_IPC_LOCK."""
    return unprivileged(default_limit, *CHECKS)


def call(check: str) -> dict[str, Any]:
    """By a fresh interpreter, as a worker is: see shed.h on what the tests' own may hold."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    command = [sys.executable, "-c", UNPRIVILEGED, str(limit), check]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    answered: dict[str, Any] = json.loads(done.stdout)[check]
    return answered


def seen(view: dict[str, Any], page_bytes: int) -> Seen:
    return Seen(
        view["vma_count"],
        view["locked_vma_count"],
        view["lockonfault_vma_count"],
        view["rss_bytes"] // page_bytes,
        view["locked_bytes"] // page_bytes,
    )


def answer(result: dict[str, Any]) -> tuple[Seen, Seen, int]:
    before, after = (seen(result[side], result["page_bytes"]) for side in ("before", "after"))
    return before, after, result["call_errno"]


def test_every_check_has_its_answer_here() -> None:
    assert EXPECTED.keys() | TOLD_APART == set(CHECKS)


@pytest.mark.parametrize("check", EXPECTED)
def test_the_answer_is_exact_for_an_ordinary_user(ordinary: dict[str, Any], check: str) -> None:
    assert answer(ordinary[check]) == EXPECTED[check]


@pytest.mark.parametrize("check", EXPECTED)
def test_the_answer_is_exact_with_every_right_that_the_tests_have(
    default_limit: int, check: str
) -> None:
    assert answer(call(check)) == EXPECTED[check]


def test_locking_takes_one_fault_a_page_and_no_exception(ordinary: dict[str, Any]) -> None:
    for result in (call("mlock"), ordinary["mlock"]):
        window = result["window"]
        assert window["minor_fault_count"] == 7
        assert window["counters"]["trapped"]["count"] in (0, None)
        assert window["counters"]["vm_locked_bytes"]["count"] == 7 * result["page_bytes"]


def test_vm_lck_is_what_is_locked_and_no_more(ordinary: dict[str, Any]) -> None:
    for check, pages in {"mlock": 7, "munmap_middle": 4, "munlock": 0, "fork_child": 0}.items():
        result = ordinary[check]
        assert result["after"]["vm_locked_bytes"] == pages * result["page_bytes"], check


def test_a_process_that_is_locked_as_a_whole_is_small(ordinary: dict[str, Any]) -> None:
    """Or an ordinary user could not lock it: Python alone is larger than the limit."""
    locked = ordinary["current_present"]["after"]["vm_locked_bytes"]
    assert 7 * ordinary["current_present"]["page_bytes"] < locked < 8192 * KIB


def test_page_flags_are_counted_or_say_why_not(ordinary: dict[str, Any]) -> None:
    assert ordinary["mlock"]["after"]["mlocked_pages"] in (
        {"count": None, "error": "EACCES"},
        {"count": None, "error": "EPERM"},
    )
    result = call("mlock")["after"]
    if result["mlocked_pages"]["error"]:
        assert result["mlocked_pages"]["error"] in {"EACCES", "EPERM", "ENOENT"}
    else:
        assert result["mlocked_pages"]["count"] == result["unevictable_pages"]["count"] == 7
        munlocked = call("munlock")["after"]
        assert munlocked["mlocked_pages"]["count"] == 0
        assert munlocked["unevictable_pages"]["count"] == 0


def test_a_new_threads_stack_is_locked_and_present(ordinary: dict[str, Any]) -> None:
    for result in (call("thread_stack"), ordinary["thread_stack"]):
        stack = result["after"]
        assert (stack["vma_count"], stack["locked_vma_count"]) == (1, 1)
        assert stack["rss_bytes"] == stack["locked_bytes"] >= 64 * KIB


def test_the_limit_of_vmas_is_exact(ordinary: dict[str, Any]) -> None:
    for result in (call("max_map_count"), ordinary["max_map_count"]):
        before, after, failed = answer(result)
        assert (before, failed) == (FRESH, errno.ENOMEM)
        assert (after.lo, after.rss, after.locked) == (7, 7, 7)
        assert result["process_vma_count"] == result["max_map_count"]


def test_the_steps_and_the_lines_of_proc_are_told() -> None:
    result = call("mlock_middle")
    assert result["steps"].splitlines() == [
        "mmap(start + 0 pages, 7 pages, PROT_READ | PROT_WRITE)",
        "mlock(start + 3 pages, 1 pages)",
    ]
    before, after = (result[side]["smaps"].splitlines() for side in ("before", "after"))
    assert (len(before), len(after)) == (1, 3)
    assert [" lo " in f"{line} " for line in after] == [False, True, False]
    page = result["page_bytes"] // KIB
    assert f"Rss: {page} kB Locked: {page} kB VmFlags: rd wr" in after[1].replace("  ", " ")


def test_lines_that_do_not_fit_are_counted() -> None:
    result = call("max_map_count")["after"]
    *lines, last = result["smaps"].splitlines()
    assert last == f"and {result['vma_count'] - len(lines)} more"


def test_a_limit_that_is_too_small_is_said_with_its_number() -> None:
    answers = unprivileged(64 * KIB, "mlock", "current_present")
    if isinstance(answers["mlock"], str):  # pages of 64 KiB
        assert "RLIMIT_MEMLOCK is 64 kB" in answers["mlock"]
    else:
        assert answer(answers["mlock"]) == EXPECTED["mlock"]
    assert (
        "unavailable: RLIMIT_MEMLOCK is 64 kB and this check locks up to"
        in (answers["current_present"])
    )


def test_no_limit_at_all_leaves_nothing_to_check() -> None:
    (said,) = unprivileged(0, "mlock").values()
    assert "unavailable: RLIMIT_MEMLOCK is 0 kB" in said


def test_the_caller_keeps_its_rights_its_limits_and_nothing_locked() -> None:
    before = status()
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    for check in ("future_later", "limit_zero", "limit_mlockall"):
        probe.call("vma_lock", {"check": check})
    assert status() == before
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK) == limit


def status() -> list[str]:
    with open("/proc/self/status") as lines:
        return [line for line in lines if line.startswith(("Cap", "VmLck:"))]

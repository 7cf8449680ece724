"""vma_lock: every row of the checks, with every right and as an ordinary user; and its steps
against the same calls made by ctypes."""

import errno
import os
import resource
from typing import Any

import needs
import plain_calls
import pytest
import rows
from quick import mostly_slow

from memlab import probe
from memlab.experiment import Check
from memlab.experiments import _vm_script
from memlab.experiments._vm_script import (
    ANONYMOUS,
    READ_WRITE,
    Madv,
    Map,
    Prot,
    madvise,
    mlock,
    mlock_unaligned,
    mmap,
    mprotect,
    munmap,
    store,
)
from memlab.experiments.vma_lock import CHECKS, EXPERIMENT, FIGURE_2, LRU, ROOT_ALONE

ROWS = {check.name: check for check in CHECKS}
KIB = 1024
LOCKED = ANONYMOUS | Map.LOCKED
# What the paper prints and no kernel does.
PRINTED_WRONG = {
    ("read_once", LRU),  # a shared mapping that is not locked is scanned
    ("mlock_over_exec", FIGURE_2),
    ("mlock", "Table 3, faults with mlock"),  # a fault for each page
    *((f"limit_{call}", ROOT_ALONE) for call in ("reached", "munlock", "mlockall", "munlockall")),
}

# Those whose calls the reference does not have: they lock by a limit, or look elsewhere.
APART = ("limit", "use_up_vmas", "fork", "in_child", "mmap_in_child", "in_thread", "thread_stack")
PLAIN = [check for check in CHECKS if not {*APART} & {step["call"] for step in check.steps}]
PLAIN += [
    Check("read_only", [mmap(0, 11), store(0, 11), mprotect(0, 7, Prot.READ), mlock(0, 11)], []),
    Check("read_only_file", [mmap(0, 11, Prot.READ, Map.PRIVATE), mlock(3, 5)], []),
    Check("given_back", [mmap(0, 11, READ_WRITE, LOCKED), madvise(2, 5, Madv.DONTNEED)], []),
]


@pytest.fixture(scope="module")
def default_limit() -> int:
    """The default of RLIMIT_MEMLOCK, 8 MiB (kernel 5.16), or less where the host grants less."""
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    granted = 8192 * KIB if hard == resource.RLIM_INFINITY or os.geteuid() == 0 else hard
    if granted < 4096 * KIB:
        pytest.skip(f"RLIMIT_MEMLOCK is {granted // KIB} kB: too little for mlockall")
    return min(granted, 8192 * KIB)


@pytest.fixture(scope="module")
def ordinary(default_limit: int) -> dict[str, Any]:
    """Every check's answer without CAP_IPC_LOCK."""
    return rows.ordinary(EXPERIMENT, *ROWS, limit_bytes=default_limit)


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """Every check's answer with every right that the tests have, by a fresh interpreter, as a
    worker is: see trim_address_space.h on what it may hold."""
    return rows.answers(EXPERIMENT, *ROWS)


# Debian's 6.12.117 and 7.3 leave memfd_secret's memory unlocked, others lock it.
BY_KERNEL = ("secret", "munlock_secret", "limit_secret")


def assert_as_claimed(check: Check, raw: dict[str, Any]) -> None:
    needs.of(*EXPERIMENT.host.needs({"check": check.name}))
    wrong = rows.wrong(EXPERIMENT, check, raw)
    if check.name in BY_KERNEL and raw["call_errno"] in (0, errno.EAGAIN):
        return
    answered = {(check.name, claim.published) for claim, _ in rows.answered(EXPERIMENT, check, raw)}
    assert {(check.name, claim.published) for claim in wrong} == PRINTED_WRONG & answered, [
        claim.text for claim in wrong
    ]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_row_holds_for_an_ordinary_user(ordinary: dict[str, Any], check: Check) -> None:
    assert_as_claimed(check, ordinary[check.name])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
@pytest.mark.usefixtures("default_limit")
def test_a_row_holds_with_every_right_that_the_tests_have(
    answers: dict[str, Any], check: Check
) -> None:
    assert_as_claimed(check, answers[check.name])


def locks_all(check: Check) -> bool:
    return any(step["call"] == "mlockall" for step in check.steps)


# Those that lock all of the tests' own process take a second.
AT_ONCE = [check for check in PLAIN if not locks_all(check) or check.name == "future_later"]


@pytest.mark.parametrize("check", mostly_slow(PLAIN, *AT_ONCE), ids=lambda check: check.name)
def test_steps_do_what_the_calls_do(answers: dict[str, Any], check: Check) -> None:
    """A probe that played other calls than the steps name would show here."""
    if locks_all(check) and os.geteuid() != 0:
        pytest.skip("the tests' own process is larger than RLIMIT_MEMLOCK")
    steps = {"check_steps": list(check.steps)}
    result = answers[check.name] if locks_all(check) else probe.call("vma_lock", steps)
    failed, view = plain_calls.in_child(lambda at: (at.play(check.steps), at.view()))
    assert result["call_errno"] == failed
    assert plain_calls.seen(result["after"], result["page_bytes"]) == view


def test_vm_lck_is_what_is_locked_and_no_more(ordinary: dict[str, Any]) -> None:
    for check, pages in {"mlock": 7, "munmap_middle": 4, "munlock": 0, "fork_child": 0}.items():
        result = ordinary[check]
        assert result["after"]["vm_locked_bytes"] == pages * result["page_bytes"], check


def test_a_process_that_is_locked_as_a_whole_is_small(ordinary: dict[str, Any]) -> None:
    """Or an ordinary user could not lock it: Python alone is larger than the limit."""
    locked = ordinary["current_present"]["after"]["vm_locked_bytes"]
    assert 7 * ordinary["current_present"]["page_bytes"] < locked < 8192 * KIB


def test_page_flags_say_why_they_are_not_counted(ordinary: dict[str, Any]) -> None:
    assert ordinary["mlock"]["after"]["mlocked_pages"] in (
        {"count": None, "error": "EACCES"},
        {"count": None, "error": "EPERM"},
    )


def test_the_steps_come_back_and_are_told_as_calls(answers: dict[str, Any]) -> None:
    result = answers["mlock_middle"]
    done = [step for step in result["steps"] if step["call"] != "end"]
    assert [(step["call"], step["first"], step["count"]) for step in done] == [
        ("mmap", 0, 7),
        ("mlock", 3, 1),
    ]
    told = EXPERIMENT.metrics[0].evidence
    assert told is not None
    assert told(result, {}).splitlines()[0] == (
        "mmap(start + 0 pages, 7 pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS)"
    )
    assert "mlock(start + 3 pages, 1 pages) = 0" in told(result, {})
    before, after = (result[side]["smaps"].splitlines() for side in ("before", "after"))
    assert (len(before), len(after)) == (1, 3)
    assert [" lo " in f"{line} " for line in after] == [False, True, False]
    page = result["page_bytes"] // KIB
    assert f"Rss: {page} kB Locked: {page} kB VmFlags: rd wr" in after[1].replace("  ", " ")


def test_every_call_has_its_words() -> None:
    assert {"end", *_vm_script.CALLS} == {*probe.params("vma_lock")["check_steps"][0]["call"]}


@pytest.mark.needs("VMA limit in reach")
def test_lines_that_do_not_fit_are_counted(answers: dict[str, Any]) -> None:
    result = answers["max_map_count"]["after"]
    *lines, last = result["smaps"].splitlines()
    assert last == f"and {result['vma_count'] - len(lines)} more"


def test_a_limit_that_is_too_small_is_said_with_its_number() -> None:
    limited = rows.ordinary(EXPERIMENT, "mlock", "current_present", limit_bytes=64 * KIB)
    if isinstance(limited["mlock"], str):  # pages of 64 KiB
        assert "RLIMIT_MEMLOCK is 64 kB" in limited["mlock"]
    else:
        assert_as_claimed(ROWS["mlock"], limited["mlock"])
    assert (
        "unavailable: RLIMIT_MEMLOCK is 64 kB and this check locks up to"
        in (limited["current_present"])
    )


def test_a_step_that_leads_up_and_fails_is_named_by_its_number() -> None:
    steps = [mmap(0, 7), munmap(3, 1), mlock(0, 7), mlock_unaligned(0, 1)]
    with pytest.raises(probe.ProbeError, match="error: step 3 of the check: ENOMEM"):
        probe.call("vma_lock", {"check_steps": steps})


def test_no_limit_at_all_leaves_nothing_to_check() -> None:
    (said,) = rows.ordinary(EXPERIMENT, "mlock", limit_bytes=0).values()
    assert "unavailable: RLIMIT_MEMLOCK is 0 kB" in said


def test_the_caller_keeps_its_rights_its_limits_and_nothing_locked() -> None:
    before = status()
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    for check in ("future_later", "limit_zero", "limit_mlockall"):
        probe.call("vma_lock", EXPERIMENT.params({"check": check}, {}))
    assert status() == before
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK) == limit


def status() -> list[str]:
    with open("/proc/self/status") as lines:
        return [line for line in lines if line.startswith(("Cap", "VmLck:"))]

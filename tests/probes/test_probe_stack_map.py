"""stack_map: which pages of a stack are there, and which are locked, to the page."""

import contextlib
import mmap
from typing import Any

import fresh_process
import in_child
import pytest
from faults import populated, trapped
from fewest import fewest

from memlab import probe

PAGE = mmap.PAGESIZE
PRIME = 23
STACK = 64 * PAGE  # 23 of them are within RLIMIT_MEMLOCK's usual 8 MiB
OWN_PAGES = 5  # of a thread's own, beside what it is told to touch, at most


def params(**change: Any) -> dict[str, Any]:
    asked = {"threads_count": PRIME, "stack_bytes": STACK, "touched_bytes": 7 * PAGE, "lock": "off"}
    return asked | change


def fill(**change: Any) -> dict[str, Any]:
    """In a fresh process, where every stack is new."""
    return fresh_process.call("stack_map", params(**change))


def locked_bytes(result: dict[str, Any]) -> int:
    return int(result["locked_after_bytes"] - result["locked_before_bytes"])


def test_a_locked_stack_is_populated_and_locked_whole() -> None:
    """VmLck counts the guard page below each stack as well."""
    result = fill(lock="future")
    assert result["thread_count"] == PRIME
    assert populated(result["window"]) == PRIME * (STACK // PAGE)
    assert locked_bytes(result) == PRIME * (STACK + PAGE)
    assert result["resident_bytes"] == PRIME * STACK


@pytest.mark.parametrize("lock", ["off", "current", "future_onfault"])
def test_without_populating_only_touched_pages_are_there(lock: str) -> None:
    result = fill(lock=lock)
    if "ENOMEM" in result.get("failure", ""):
        pytest.skip("RLIMIT_MEMLOCK is smaller than this process: raise it, or run as root")
    touched = PRIME * 7 * PAGE
    assert populated(result["window"]) == 0
    assert touched <= result["resident_bytes"] <= touched + PRIME * OWN_PAGES * PAGE
    locked = PRIME * (STACK + PAGE) if lock == "future_onfault" else 0
    assert locked_bytes(result) == locked


def test_touched_pages_fault_once_each() -> None:
    """What the process takes of its own, starting, comes on top and is not always the same."""
    fewer = min((fill() for _ in range(3)), key=lambda result: trapped(result["window"]))
    more = fewest(
        lambda: fill(touched_bytes=18 * PAGE),
        lambda result: trapped(result["window"]) - trapped(fewer["window"]),
        PRIME * (18 - 7),
    )
    assert more["resident_bytes"] - fewer["resident_bytes"] == PRIME * (18 - 7) * PAGE


def test_a_refused_thread_is_an_error_that_names_the_call() -> None:
    stack = 64 << 20
    result = fresh_process.call(
        "stack_map", params(stack_bytes=stack), headroom={"RLIMIT_AS": 7 * stack}
    )
    assert "pthread_create" in result["failure"]
    assert "EAGAIN at probes/stack_map.c" in result["failure"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threads_count": 0}, "threads_count must be from 1 to 100000: EINVAL"),
        ({"touched_bytes": STACK}, "touched_bytes must leave 16 KiB of the stack: EINVAL"),
        ({"stack_bytes": 1, "touched_bytes": 0}, "touched_bytes must leave 16 KiB"),
    ],
)
def test_params_that_make_no_sense(change: dict[str, int], message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        probe.call("stack_map", params(**change))


def test_nothing_stays() -> None:
    """In a child, which looks: glibc keeps the stacks, and other tests count on new ones."""
    for change in ({"lock": "future"}, {"threads_count": 0}, {"lock": "off"}):
        with contextlib.suppress(probe.ProbeError):
            in_child.call("stack_map", params(**change), huge_pages=True)


def test_a_locked_stack_and_its_guard_are_two_vmas() -> None:
    """Whatever the libc: the kernel refuses MADV_GUARD_INSTALL on locked memory."""
    result = fill(lock="future")
    assert result["vmas_after_count"] - result["vmas_before_count"] == 2 * PRIME

"""thread_create: how many threads, exactly, how many pages of stack, and what it leaves."""

import contextlib
import errno
import mmap
import os
import signal
import time
from pathlib import Path
from typing import Any

import fresh_process
import in_child
import pytest
from faults import populated, trapped
from fewest import fewest

from memlab import probe

PAGE = mmap.PAGESIZE
PRIME = 23
SMALL = 16 * PAGE  # 23 of them are within RLIMIT_MEMLOCK's usual 8 MiB
NO_CACHE = {"GLIBC_TUNABLES": "glibc.pthread.stack_cache_size=0"}


def params(**change: Any) -> dict[str, Any]:
    asked = {
        "processes_count": 1,
        "lock": "off",
        "live_threads_count": PRIME,
        "stack_bytes": SMALL,
        "stack_touched_bytes": 0,
        "thp": "never",
        "warm": False,
        "inherit_perf": True,
        "mmap_lock_probe": False,
        "threads_count": PRIME,
        "slice_ns": 0,
    }
    return asked | change


def create(**change: Any) -> dict[str, Any]:
    """In a fresh process, where every stack is new."""
    return fresh_process.call("thread_create", params(**change))


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("live", [1, 5, PRIME])
@pytest.mark.parametrize("threads", [PRIME, 2 * PRIME])
def test_threads_are_counted_exactly(processes: int, live: int, threads: int) -> None:
    asked = {"processes_count": processes, "live_threads_count": live, "threads_count": threads}
    result = create(**asked, inherit_perf=False)
    assert result["thread_counts"][: processes + 1] == [threads] * processes + [0]
    assert result["thread_count"] == processes * threads
    assert (result["process_count"], result["failed_count"]) == (processes, 0)
    assert result["alive_peak_count"] == live
    assert result["floor_thread_count"] == processes * threads
    assert all(result["elapsed_ns"][:processes])


@pytest.mark.parametrize("processes", [1, 3])
def test_a_locked_stack_is_populated_whole(processes: int) -> None:
    window = create(processes_count=processes, lock="future")["window"]
    assert populated(window) == processes * PRIME * (SMALL // PAGE)


@pytest.mark.parametrize("lock", ["off", "current", "future_onfault"])
def test_no_other_lock_populates_a_stack(lock: str) -> None:
    result = create(lock=lock)
    if "ENOMEM" in result.get("failure", ""):
        pytest.skip("RLIMIT_MEMLOCK is smaller than this process: raise it, or run as root")
    assert populated(result["window"]) == 0


def test_touched_pages_fault_once_each() -> None:
    """7 and 18 pages: what else a thread touches of its stack cancels. What the process takes of
    its own, starting, comes on top and is not always the same."""
    stack = 64 * PAGE
    fewer = min(
        trapped(create(stack_bytes=stack, stack_touched_bytes=7 * PAGE)["window"]) for _ in range(3)
    )
    more = fewest(
        lambda: create(stack_bytes=stack, stack_touched_bytes=18 * PAGE),
        lambda result: trapped(result["window"]) - fewer,
        PRIME * (18 - 7),
    )
    assert populated(more["window"]) == 0


def test_a_kept_stack_is_not_populated_again() -> None:
    assert populated(create(lock="future", warm=True)["window"]) == 0


def test_without_glibcs_cache_every_stack_is_new() -> None:
    result = fresh_process.call("thread_create", params(lock="future", warm=True), environ=NO_CACHE)
    assert populated(result["window"]) == PRIME * (SMALL // PAGE)


def test_without_inheritance_perf_has_no_count_of_the_threads() -> None:
    counters = create(inherit_perf=False)["window"]["counters"]
    assert counters["trapped"] == {"count": None, "error": "ENOTSUP"}
    assert counters["vm_locked_bytes"] == {"count": 0, "error": None}


def test_the_probe_of_mmap_lock_takes_one_fault_per_page() -> None:
    change = {"lock": "future", "warm": True, "threads_count": 40 * PRIME}
    alone, beside = (create(mmap_lock_probe=probed, **change) for probed in (False, True))
    assert alone["mmap_lock_latency"]["total"] == 0
    rounds = beside["mmap_lock_latency"]["total"]
    assert rounds > 0
    assert beside["thread_count"] == alone["thread_count"] == 40 * PRIME
    assert beside["window"]["minor_fault_count"] >= rounds


def test_a_refused_thread_is_counted_and_is_no_crash() -> None:
    """Address space for some of the stacks only: mmap fails, and pthread_create with EAGAIN."""
    stack = 64 << 20
    result = fresh_process.call(
        "thread_create", params(stack_bytes=stack), headroom={"RLIMIT_AS": 7 * stack}
    )
    assert 0 < result["thread_count"] < PRIME
    assert result["thread_count"] + result["failed_count"] == PRIME
    assert result["failed_errno"] == errno.EAGAIN
    assert result["alive_peak_count"] < 7


def test_where_no_thread_can_be_made_the_call_is_named() -> None:
    result = fresh_process.call(
        "thread_create", params(stack_bytes=1 << 30), headroom={"RLIMIT_AS": 64 << 20}
    )
    assert "pthread_create" in result["failure"]
    assert "EAGAIN at probes/thread_create.c" in result["failure"]


def test_the_slice_ends_the_loop() -> None:
    slice_ns = 5_000_000
    result = create(processes_count=3, live_threads_count=2, threads_count=0, slice_ns=slice_ns)
    assert all(count > 0 for count in result["thread_counts"][:3])
    assert all(elapsed >= slice_ns for elapsed in result["elapsed_ns"][:3])


def test_the_systems_stack_is_said() -> None:
    assert create(stack_bytes=0, threads_count=1)["stack_bytes"] >= 16384
    assert create()["stack_bytes"] == SMALL


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"processes_count": 0}, "processes_count must be from 1 to 64: EINVAL"),
        ({"processes_count": 65}, "processes_count must be from 1 to 64: EINVAL"),
        ({"live_threads_count": 0}, "live_threads_count must be from 1"),
        ({"stack_touched_bytes": SMALL}, "stack_touched_bytes must leave 16 KiB"),
        ({"threads_count": 0}, "threads_count or slice_ns must end the loop"),
        ({"stack_bytes": 1}, r"stack_attr\(.*\): EINVAL"),
    ],
)
def test_params_that_make_no_sense(change: dict[str, int], message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        probe.call("thread_create", params(**change))


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def test_nothing_stays() -> None:
    """In a child, which looks: glibc keeps the floor's stack, and other tests count on new ones."""
    for change in ({"processes_count": 3}, {"stack_bytes": 1}, {"processes_count": 0}):
        with contextlib.suppress(probe.ProbeError):
            in_child.call("thread_create", params(**change), huge_pages=True)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
def test_the_probe_dies_as_a_process_of_its_own_does(how: signal.Signals) -> None:
    """So that a trial whose process the OOM killer took is known as one."""
    asked = params(processes_count=2, threads_count=0, slice_ns=60 * 10**9)
    with fresh_process.start("thread_create", asked) as process:
        deadline = time.monotonic() + 120
        while len(members := children(process.pid)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(members[-1], how)
        assert process.wait(timeout=120) == -how
    deadline = time.monotonic() + 120
    while any(map(alive, members)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """A zombie waits for whoever adopted it, and runs no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

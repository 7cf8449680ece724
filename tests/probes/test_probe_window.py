"""The counter window against workloads whose counts are known."""

import ast
import os
import subprocess
import sys

import offers
import pytest
from faults import trapped
from fewest import fewest

from memlab import probe

PRIME = 23


def known_faults(page_count: int, way: str) -> dict:
    params = {"page_count": page_count, "way": way}
    return offers.offered(lambda: probe.call("known_faults", params), lacking=True)["window"]


def test_an_empty_window_counts_nothing() -> None:
    """But what the other threads of the tests' process do meanwhile."""
    window = fewest(
        lambda: probe.call("noop", {})["window"], lambda w: int(w["voluntary_switch_count"]), 0
    )
    assert window["minor_fault_count"] == 0
    assert window["major_fault_count"] == 0
    assert trapped(window) == 0


def test_windows_follow_each_other() -> None:
    first, second = (probe.call("noop", {})["window"] for _ in range(2))
    assert second["started_ns"] > first["started_ns"] + first["elapsed_ns"]


def test_every_counter_counts_or_says_why() -> None:
    for counter in probe.call("noop", {})["window"]["counters"].values():
        if isinstance(counter, dict):
            assert (counter["count"] is None) == (counter["error"] is not None)
            assert counter["error"] is None or counter["error"].startswith("E")


def test_cpu_is_the_one_pinned_to() -> None:
    before = os.sched_getaffinity(0)
    try:
        for cpu in before:
            os.sched_setaffinity(0, {cpu})
            window = probe.call("noop", {})["window"]
            assert (window["cpu_at_open"], window["cpu_at_close"]) == (cpu, cpu)
    finally:
        os.sched_setaffinity(0, before)


def test_touched_pages_are_trapped() -> None:
    window = known_faults(PRIME, "touch")
    assert window["minor_fault_count"] == PRIME
    assert trapped(window) == PRIME


def test_populated_pages_are_not_trapped() -> None:
    window = known_faults(4096, "populate")
    assert window["minor_fault_count"] == 4096
    assert trapped(window) == 0


@pytest.mark.parametrize("way", ["thread", "child"])
def test_threads_and_children_are_counted(way: str) -> None:
    """Starting one takes faults too: a forked child copies the interpreter's pages that it
    writes to, tens to hundreds by its version. What starting takes cancels in a difference."""
    few, many = known_faults(PRIME, way), known_faults(PRIME + 4099, way)
    assert abs(many["minor_fault_count"] - few["minor_fault_count"] - 4099) <= 16
    assert abs(trapped(many) - trapped(few) - 4099) <= 16


def test_peak_memory_is_of_the_window_alone() -> None:
    """A peak from before is forgotten; getrusage(2)'s ru_maxrss would keep it."""
    page = os.sysconf("SC_PAGE_SIZE")
    known_faults(16384, "touch")
    counters = known_faults(PRIME, "touch")["counters"]
    large = known_faults(16384, "touch")["counters"]
    for counter in (counters["rss_peak_bytes"], large["rss_peak_bytes"]):
        if counter["error"] is not None:
            pytest.skip(f"clear_refs: {counter['error']}")
    grown = large["rss_peak_bytes"]["count"] - counters["rss_peak_bytes"]["count"]
    assert grown >= 8192 * page  # a peak is not exact: see tests/unseen.py


IN_A_FORKED_CHILD = """
import os
from memlab import probe
probe.prewarm_perf()
if os.fork() == 0:
    print(probe.call("known_faults", {"page_count": 23, "way": "touch"})["window"], flush=True)
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_counts_hold_in_the_forked_child_of_a_parent_that_keeps_counters() -> None:
    """The way trials run: all code and stack of the child are mapped anew."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_FORKED_CHILD], capture_output=True, text=True, check=True
    )
    window = ast.literal_eval(done.stdout)
    assert window["minor_fault_count"] == PRIME
    assert trapped(window) == PRIME


def test_keeping_counters_agrees_with_the_window() -> None:
    """In a process of its own, which keeps what is opened."""
    code = (
        "from memlab import probe; print([probe.prewarm_perf(), probe.prewarm_perf(),"
        " probe.call('noop', {})['window']['counters']['tlb_remote_sent']])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    reason, again, counter = ast.literal_eval(done.stdout)
    assert again == reason
    assert counter == {"count": None if reason else 0, "error": reason}

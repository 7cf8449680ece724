"""tlb_shootdown: exact numbers of shootdowns and faults, by call and by who shares what."""

import mmap
import os

import offers
import pytest

from memlab import probe

PRIME = 23
PAGES = 5
ATTEMPTS = 20  # a reader that another program kept from its CPU has nothing to flush
ONE_A_CALL = ("dontneed", "free", "munmap", "mprotect", "cold")
RELEASES = probe.params("tlb_shootdown")["release"]


@pytest.fixture(autouse=True)
def _two_cpus() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: there is none for a reader")


@pytest.fixture(scope="session")
def _tracepoint() -> None:
    """Its perf events stay open until the process ends."""
    if reason := probe.prewarm_perf():
        pytest.skip(f"tlb:tlb_flush: {reason}, counting it needs root")


def shoot(**change) -> dict:
    """Runs the probe; a kernel without a call skips the test."""
    return offers.offered(lambda: call(**change), lacking=True)


def call(**change) -> dict:
    params = {
        "release": "dontneed",
        "pages_count": PAGES,
        "ranges_count": 1,
        "readers_count": 1,
        "sharing": "threads",
        "pinned": True,
        "interval_ns": 1000,
        "working_set_bytes": 64 * mmap.PAGESIZE,
        "operations_count": PRIME,
        "slice_ns": 0,
        "trace": False,
    }
    return probe.call("tlb_shootdown", params | change)


def sent(result: dict) -> int:
    return result["window"]["counters"]["tlb_remote_sent"]["count"]


def assert_sends(expected: int, **change) -> None:
    """Never more than expected, and within some attempts exactly so many."""
    for _ in range(ATTEMPTS):
        found = sent(shoot(**change))
        assert found <= expected
        if found == expected:
            return
    pytest.fail(f"{ATTEMPTS} attempts, {expected} shootdowns in none")


@pytest.mark.usefixtures("_tracepoint")
@pytest.mark.parametrize("release", ONE_A_CALL)
@pytest.mark.parametrize("pages", [1, 16, 33, 34, 64])
def test_a_release_is_one_shootdown_on_both_sides_of_a_full_flush(release: str, pages: int) -> None:
    assert_sends(PRIME, release=release, pages_count=pages)


@pytest.mark.usefixtures("_tracepoint")
@pytest.mark.parametrize("release", ["none", "touch"])
def test_what_is_not_released_is_no_shootdown(release: str) -> None:
    assert sent(shoot(release=release)) == 0


@pytest.mark.usefixtures("_tracepoint")
@pytest.mark.parametrize("release", ONE_A_CALL)
def test_other_processes_and_nobody_are_no_shootdown(release: str) -> None:
    assert sent(shoot(release=release, sharing="processes")) == 0
    assert sent(shoot(release=release, readers_count=0)) == 0


@pytest.mark.usefixtures("_tracepoint")
@pytest.mark.parametrize("release", ["dontneed", "munmap"])
def test_each_range_is_a_shootdown_of_its_own(release: str) -> None:
    assert_sends(3 * PRIME, release=release, ranges_count=3)


@pytest.mark.usefixtures("_tracepoint")
def test_ranges_of_one_call_are_flushed_together_or_each() -> None:
    """Together since 6.16; by how many shootdowns says which."""
    for _ in range(ATTEMPTS):
        found = sent(shoot(release="dontneed_batch", ranges_count=3))
        if found in (PRIME, 3 * PRIME):
            break
        assert found < 3 * PRIME
    else:
        pytest.fail(f"{found} shootdowns of {PRIME} or {3 * PRIME}")


@pytest.mark.usefixtures("_tracepoint")
def test_the_most_ranges_of_one_call_are_flushed() -> None:
    """It takes so long that a reader may lose its CPU in each attempt."""
    assert sent(shoot(release="dontneed_batch", ranges_count=1024)) <= 1024 * PRIME


@pytest.mark.usefixtures("_tracepoint")
def test_the_known_answer_is_a_prime() -> None:
    for _ in range(ATTEMPTS):
        known = shoot(operations_count=1)["known"]
        assert known["flush_count"] in (0, PRIME)  # none where other programs have the CPUs
        if known["flush_count"] and known["remote_sent"]["count"] == PRIME:
            break
    else:
        pytest.fail(f"the tracepoint counted {known['remote_sent']}")


def test_the_known_answer_says_what_interrupts_show() -> None:
    known = shoot(operations_count=1)["known"]
    assert known["flush_count"] in (0, PRIME)
    for counter in (known["interrupts"], known["remote_sent"]):
        assert (counter["count"] is None) == (counter["error"] is not None)


@pytest.mark.parametrize("release", ["dontneed", "munmap"])
@pytest.mark.parametrize("sharing", ["threads", "processes"])
@pytest.mark.parametrize("ranges", [1, 3])
def test_memory_given_back_faults_once_a_page(release: str, sharing: str, ranges: int) -> None:
    result = shoot(release=release, sharing=sharing, ranges_count=ranges)
    assert result["operation_count"] == PRIME
    assert result["window"]["minor_fault_count"] == PRIME * PAGES * ranges


@pytest.mark.parametrize("release", ["none", "touch", "free", "mprotect", "cold"])
def test_memory_that_is_kept_does_not_fault(release: str) -> None:
    result = shoot(release=release)
    assert result["operation_count"] == PRIME
    assert result["window"]["minor_fault_count"] == 0


@pytest.mark.parametrize("release", RELEASES)
def test_every_load_is_recorded(release: str) -> None:
    result = shoot(release=release)
    assert result["reader_count"] == 1
    assert sum(result["reader_load_counts"]) == result["latency"]["total"] > 0
    assert result["floor_latency"]["total"] > 0
    assert result["elapsed_ns"] <= result["window"]["elapsed_ns"]
    assert result["floor_operation_count"] > 0


@pytest.mark.parametrize("change", [{"pinned": False}, {"interval_ns": 0}, {"readers_count": 0}])
def test_it_runs_unpinned_and_unpaced_and_alone(change: dict) -> None:
    result = shoot(**change)
    assert result["operation_count"] == PRIME
    assert (result["latency"]["total"] > 0) == (result["reader_count"] > 0)


@pytest.mark.parametrize(("operations", "timed"), [(1, 1), (8, 1), (23, 3)])
def test_of_eight_releases_one_is_timed_alone(operations: int, timed: int) -> None:
    result = shoot(operations_count=operations, readers_count=0)
    assert result["operation_count"] == operations
    assert result["timed_release_count"] == timed
    assert 0 < result["timed_release_ns"] < result["elapsed_ns"]


def test_the_slice_ends_it() -> None:
    result = shoot(operations_count=0, slice_ns=2_000_000)
    assert result["window"]["elapsed_ns"] >= 2_000_000


def test_a_reader_needs_a_cpu() -> None:
    with pytest.raises(probe.ProbeError, match="less than the CPUs") as failure:
        call(readers_count=min(63, len(os.sched_getaffinity(0))))
    assert failure.value.status == "unavailable"


@pytest.mark.parametrize(
    "change",
    [
        {"pages_count": 0},
        {"ranges_count": 0},
        {"ranges_count": 1025},
        {"readers_count": 64},
        {"working_set_bytes": mmap.PAGESIZE},
        {"working_set_bytes": 10000},
        {"operations_count": 0, "slice_ns": 0},
    ],
)
def test_params_out_of_range_are_errors(change: dict) -> None:
    with pytest.raises(probe.ProbeError, match="must"):
        call(**change)


@pytest.mark.needs("tracing of a CPU")
@pytest.mark.parametrize("sharing", ["threads", "processes"])
def test_traced_readers_meet_shootdowns_where_they_share_the_address_space(sharing: str) -> None:
    """As many as were sent, and none without sharing, where another program neither kept the
    reader from its CPU nor sent some to that CPU, as Linux does since 6.13 (209954cbc7d0) where
    the program was before."""
    met = []
    for _ in range(ATTEMPTS):
        result = shoot(operations_count=PRIME, sharing=sharing, trace=True)
        found = result["attribution"]
        met.append(found["events"]["shootdown"]["count"])
        assert found["operations"] == result["latency"]["total"]
        assert found["slow"]["latency_ns"][0] == result["latency"]["max_ns"]
        if met[-1] == (PRIME if sharing == "threads" else 0):
            break
    else:
        pytest.fail(f"{met} shootdowns")


def test_untraced_readers_have_no_attribution() -> None:
    assert shoot()["attribution"] is None

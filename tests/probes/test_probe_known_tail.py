"""Attribution against slow operations whose cause and number are known."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import unprivileged
from fewest import fewest

from memlab import probe
from memlab.analysis.attribution import examples, tail

PRIME = 23
SENT = {"shootdown": "shootdown", "membarrier": "function_call"}
OWN = {"fault": "minor_fault", "sleep": "switch"}
CAUSES = SENT | OWN

pytestmark = pytest.mark.needs("tracing of a CPU")
needs_two = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="one thread interrupts another: needs two CPUs"
)


def known_tail(way: str, count: int = PRIME, between_ns: int = 100_000, trace: bool = True) -> Any:
    params = {"event_count": count, "way": way, "between_ns": between_ns, "trace": trace}
    return probe.call("known_tail", params)


def judged(way: str) -> tuple[dict[str, Any], int]:
    """The attribution of PRIME events, and how many operations there were."""
    measured = known_tail(way)
    found: dict[str, Any] = measured["attribution"]
    assert found["lost"]["count"] in (0, None)  # None: a kernel before 6.0 does not say
    assert found["operations"] == measured["operation_count"]
    return found, measured["operation_count"]


def adds_up(one: dict[str, Any]) -> bool:
    explained = sum(met["main_count"] for met in one["causes"].values())
    rest = one["nothing_count"] + one["brief_count"]
    return bool(explained + rest == one["operation_count"])


@needs_two
@pytest.mark.needs("a real-time policy")  # known_tail.c: nothing is sent to a preempted reader
@pytest.mark.parametrize(("way", "cause"), SENT.items())
def test_every_interrupt_that_was_sent_is_in_a_slow_operation(way: str, cause: str) -> None:
    """What another program sent to that CPU comes on top."""
    fewest(
        lambda: judged(way)[0],
        lambda found: tail(found, 100)["causes"][cause]["met_count"],
        PRIME,
    )


@needs_two
@pytest.mark.parametrize(("way", "other"), [SENT.values(), [*SENT.values()][::-1]])
def test_a_shootdown_is_told_from_other_calls(way: str, other: str) -> None:
    """Another program's calls may meet the reader's CPU too."""
    sent = next(name for name, cause in SENT.items() if cause == way)
    fewest(
        lambda: judged(sent)[0],
        lambda found: tail(found, 100)["causes"].get(other, {"met_count": 0})["met_count"],
        0,
    )


@pytest.mark.parametrize(("way", "cause"), OWN.items())
def test_what_the_reader_did_itself_is_in_its_slow_operations(way: str, cause: str) -> None:
    """Another program that takes the CPU is a switch on top."""
    found = fewest(
        lambda: judged(way)[0],
        lambda found: tail(found, 100)["causes"][cause]["met_count"],
        PRIME,
    )
    met = tail(found, 100)["causes"][cause]
    assert 0 < met["main_count"] <= PRIME
    assert met["inside_ns"] > 0


@pytest.mark.parametrize("way", OWN)
def test_the_tails_are_the_slowest_and_add_up(way: str) -> None:
    found, operations = judged(way)
    hundredth, thousandth = tail(found, 100), tail(found, 1000)
    for one in (hundredth, thousandth):
        assert one["operation_count"] == one["wanted_count"] == operations // one["one_in"]
        assert one["untraced_count"] == 0
        assert adds_up(one)
        assert one["latency_ns"] >= one["operation_count"] * one["shortest_ns"]
    assert thousandth["shortest_ns"] >= hundredth["shortest_ns"]
    slowest = examples(found)
    assert len({one["held_ns"] for one in slowest}) == 5
    assert [one["latency_ns"] for one in slowest] == sorted(
        found["slow"]["latency_ns"], reverse=True
    )[:5]
    assert all(
        time_ns <= one["latency_ns"] for one in slowest for time_ns in one["inside_ns"].values()
    )


def test_a_sleep_of_50_us_is_nearly_all_of_its_operation() -> None:
    """Exactly, since another thread of its CPU runs for as long."""
    found, _ = judged("sleep")
    asleep = tail(found, 100)["causes"]["switch"]
    assert asleep["inside_ns"] >= PRIME * 50_000


def test_without_a_trace_there_is_no_attribution() -> None:
    measured = known_tail("fault", trace=False)
    assert measured["attribution"] is None
    assert measured["operation_count"] == PRIME * 2000


@pytest.mark.slow
@needs_two
def test_a_full_trace_says_what_it_lost_and_judges_what_came_before() -> None:
    """A ring holds 262,144 records; each of these calls makes two, on the reader's CPU."""
    calls = 200_000  # those that are made while the reader is kept from its CPU do not reach it
    found = known_tail("membarrier", count=calls, between_ns=0)["attribution"]
    assert found["lost"]["error"] is not None or found["lost"]["count"] > 0
    assert 0 < found["events"]["function_call"]["count"] <= 2**17
    one = tail(found, 100)
    assert one["untraced_count"] > 0
    assert one["operation_count"] + one["untraced_count"] <= one["wanted_count"]
    assert adds_up(one)


def test_a_traced_sample_is_bounded() -> None:
    """2,000,000 operations: the slowest 4,096 are kept, and no more than 8,192 intervals."""
    found = known_tail("fault", count=1000)["attribution"]
    assert found["operations"] == 2_000_000
    assert len(found["slow"]["cpu"]) <= 4096 < found["operations"] // 100
    assert sum(len(rows["thread"]) for rows in found["met"].values()) <= 8192
    assert tail(found, 1000)["wanted_count"] == tail(found, 1000)["operation_count"] == 2000
    assert len(json.dumps(found)) < 250_000


def test_who_may_not_trace_is_told_why() -> None:
    code = (
        "from memlab import probe\n"
        "params = {'event_count': 23, 'way': 'fault', 'between_ns': 0, 'trace': True}\n"
        "try:\n"
        "    probe.call('known_tail', params)\n"
        "except probe.ProbeError as refused:\n"
        "    print(refused.status, refused)\n"
        "print(probe.call('known_tail', params | {'trace': False})['operation_count'])\n"
    )
    said = unprivileged.powerless("-c", code).stdout.splitlines()
    assert said[-1] == str(PRIME * 2000)
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 0:
        assert said[0].startswith("unavailable")
        assert "CAP_PERFMON or perf_event_paranoid 0: EACCES" in said[0]

"""The main causes of slow operations are those that were made, by number, within 2 %.

tests/present/test_known_causes.py has the same exactly, of simulated interruptions. Here real ones
are made: shootdowns from another thread, and sleeps, in which the CPU is another thread's. Beside
another program more switches come on top, so this wants a quiet machine.
"""

from __future__ import annotations

import os

import pytest

from memlab import probe
from memlab.analysis.attribution import tail

pytestmark = [pytest.mark.bench, pytest.mark.needs("tracing of a CPU")]

EVENTS = 499  # a prime
WITHIN = 0.02
CAUSES = {"shootdown": "shootdown", "sleep": "switch"}


@pytest.mark.parametrize(("way", "cause"), CAUSES.items())
def test_main_causes_are_those_that_were_made(way: str, cause: str) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one thread interrupts another: needs two CPUs")
    params = {"event_count": EVENTS, "way": way, "between_ns": 100_000, "trace": True}
    judged = tail(probe.call("known_tail", params)["attribution"], 100)
    main = {name: counts["main_count"] for name, counts in judged["causes"].items()}
    print(f"\n{EVENTS} of {cause}; main causes of {judged['operation_count']} operations: {main}")
    assert main[cause] == pytest.approx(EVENTS, rel=WITHIN)
    other = "switch" if cause == "shootdown" else "shootdown"
    assert main.get(other, 0) <= WITHIN * EVENTS

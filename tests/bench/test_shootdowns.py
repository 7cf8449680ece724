"""memlab's shootdowns beside will-it-scale's and stress-ng's; twice the operations, twice as long.

The peers' shootdowns are counted for the whole machine, so this wants a quiet one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memlab import experiments
from memlab.run.fork_server import ForkServer
from memlab.run.machine_lock import machine_lock

from .interleaved import Comparison, interleave, table
from .peers import Missing, debian
from .tlb_peers import Asked, TlbStressor, WillItScale

pytestmark = pytest.mark.bench

EXPERIMENT = experiments.load("tlb-shootdown")
PEER = os.environ.get("WILL_IT_SCALE_TLB_FLUSH", "")
PEER_ROUNDS = 7  # of seven seconds
STRESS_OPERATIONS = 2000
STRESS_ROUNDS = 7
CALLS = ("dontneed", "free", "munmap", "mprotect", "cold")
HALF_OPERATIONS = 2000
DOUBLE = (1.9, 2.1)
PRECISION = 0.02
LIMIT_S = 60.0


class Lab:
    """memlab's side: a trial at a point, everything else as in a quick sweep."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server

    def metrics(self, *names: str, **levels: Any) -> list[float]:
        at = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors} | levels
        raw = self.run(at)
        values = [EXPERIMENT.metric(name).of(raw, at) for name in names]
        return [float("nan") if value is None else value for value in values]

    def run(self, at: Mapping[str, Any]) -> Mapping[str, Any]:
        trial = {
            "probe": EXPERIMENT.probe,
            "params": EXPERIMENT.params(at, {}),
            "file": None,
            "cpus": sorted(os.sched_getaffinity(0)),
            "limit_s": LIMIT_S,
            "group": None,
        }
        reply = self._server.run(trial)
        assert reply["outcome"] == "ok", reply["detail"]
        result: Mapping[str, Any] = reply["result"]
        return result


@pytest.fixture(scope="module")
def shooter() -> Iterator[Lab]:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: there is none for a reader")
    with machine_lock():
        server = ForkServer()
        try:
            yield Lab(server)
        finally:
            server.stop()


def say(name: str, asked: list[Asked]) -> None:
    sent = [one.sent_per_op for one in asked if one.sent_per_op is not None]
    interrupts = np.median([one.interrupts_per_op for one in asked])
    print(f"{name}: sent {np.median(sent):.3f} an operation, " if sent else f"{name}: ", end="")
    print(f"interrupts {interrupts:.3f} an operation, {len(asked)} runs")


@pytest.mark.skipif(
    not PEER, reason="WILL_IT_SCALE_TLB_FLUSH names no folder with will-it-scale's tlb_flush*"
)
def test_shootdowns_an_operation_are_those_of_will_it_scale(shooter: Lab) -> None:
    peer = WillItScale(Path(PEER))
    asked: dict[int, list[Asked]] = {1: [], 2: []}
    counts: dict[int, list[float]] = {0: [], 1: []}

    def ours(readers: int) -> float:
        levels = {"release": "dontneed", "pages": 1, "readers": readers}
        rate, sent = shooter.metrics("ops_per_s", "shootdowns_per_op", **levels)
        counts[readers].append(sent)
        return rate

    def theirs(threads: int) -> float:
        asked[threads].append(peer.ask(2, threads))
        return asked[threads][-1].ops_per_s / threads

    measured = interleave(
        {
            "alone": lambda: ours(0),
            "beside": lambda: ours(1),
            "one thread": lambda: theirs(1),
            "two threads": lambda: theirs(2),
        },
        pairs=PEER_ROUNDS,
    )
    rows = [
        Comparison("nobody beside", measured["alone"], measured["one thread"]),
        Comparison("a thread beside", measured["beside"], measured["two threads"]),
    ]
    print("\n" + table("operations per second and thread", "memlab", "tlb_flush2", rows))
    for readers, sent in counts.items():
        print(f"memlab, {readers} readers: sent {np.median(sent):.3f} an operation")
    for threads, found in asked.items():
        say(f"tlb_flush2, {threads} threads", found)
    for test in (1, 3):
        say(f"tlb_flush{test}, 2 threads", [peer.ask(test, 2)])
    print(WillItScale.__doc__)
    assert np.median(counts[0]) == 0
    assert np.median(counts[1]) == pytest.approx(1, abs=0.05)
    theirs_sent = [one.sent_per_op for one in asked[2] if one.sent_per_op is not None]
    if theirs_sent:
        assert np.median(theirs_sent) == pytest.approx(1, abs=0.1)


def test_stress_ng_interrupts_nobody(shooter: Lab, tmp_path: Path) -> None:
    try:
        stressor = TlbStressor(debian("stress-ng"), tmp_path)
    except Missing as missing:
        pytest.skip(str(missing))
    asked: list[Asked] = []
    counts: dict[str, list[float]] = {"threads": [], "processes": []}

    def ours(sharing: str) -> float:
        levels = {"release": "mprotect", "pages": 512, "readers": 1, "sharing": sharing}
        rate, sent = shooter.metrics("ops_per_s", "shootdowns_per_op", **levels)
        counts[sharing].append(sent)
        return rate

    def theirs() -> float:
        asked.append(stressor.ask(STRESS_OPERATIONS))
        return asked[-1].ops_per_s

    measured = interleave(
        {
            "processes": lambda: ours("processes"),
            "threads": lambda: ours("threads"),
            "stress-ng": theirs,
        },
        pairs=STRESS_ROUNDS,
    )
    rows = [
        Comparison(f"mprotect, 512 pages, {name}", measured[name], measured["stress-ng"])
        for name in counts
    ]
    print("\n" + table("operations per second", "memlab", "stress-ng", rows))
    for sharing, sent in counts.items():
        print(f"memlab, {sharing}: sent {np.median(sent):.3f} an operation")
    say("stress-ng", asked)
    print(TlbStressor.__doc__)
    assert np.median([one.interrupts_per_op for one in asked]) < 0.5
    assert np.median(counts["processes"]) == 0
    assert np.median(counts["threads"]) > 0.5


def compare(release: str, shooter: Lab) -> Comparison:
    def elapsed_ms(operations: int) -> float:
        at = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors}
        at |= {"release": release, "pages": 16, "readers": 1}
        at |= {"operations": operations, "slice": 0.0}
        return float(shooter.run(at)["elapsed_ns"] * 1e-6)

    measured = interleave(
        {
            "single": lambda: elapsed_ms(HALF_OPERATIONS),
            "double": lambda: elapsed_ms(2 * HALF_OPERATIONS),
        },
        precision=PRECISION,
    )
    return Comparison(f"tlb-shootdown, {release}", measured["double"], measured["single"])


def test_twice_the_operations_take_twice_as_long(shooter: Lab) -> None:
    """Every release and every touch is done."""
    rows = [compare(release, shooter) for release in CALLS]
    single, double = f"{HALF_OPERATIONS} operations", f"{2 * HALF_OPERATIONS} operations"
    print("\n" + table("ms", double, single, rows))
    low, high = DOUBLE
    assert [row.label for row in rows if not low <= row.ratio.estimate <= high] == []

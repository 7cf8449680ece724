"""The shares of causes of a reader whose interruptions are known, by tlb-shootdown's own control.

A simulated reader loads at a fixed rate. Shootdowns of known cost interrupt it, and other threads
preempt it. The simulation keeps account of the time that each cause took from each load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from made_runs import made, ok

from memlab.experiment.attribution import CAUSES
from memlab.experiments.tlb_shootdown import EXPERIMENT
from memlab.judging import mechanism

INTERVAL_NS, LOAD_NS = 500, 60  # as the experiment's reader: one due every 500 ns
LOADS = 60_000
ONE_IN = 1000
WITHIN = 0.02
(CONTROL,) = (control for control in EXPERIMENT.controls if control.name == "traced")
(EXPLANATION,) = CONTROL.explanations


class Interruption(NamedTuple):
    from_ns: int
    length_ns: int
    cause: str


class Load(NamedTuple):
    due_ns: int
    end_ns: int
    held_from_ns: int  # since when its thread was late, as probes/tlb_shootdown/reader.c has it
    taken_ns: Mapping[str, int]  # from its thread since then, by cause

    @property
    def latency_ns(self) -> int:
        return self.end_ns - self.due_ns


def load_all(interruptions: Sequence[Interruption]) -> list[Load]:
    """What the reader's loop does on a CPU that is taken from it meanwhile."""
    waiting, loads = [*reversed(interruptions)], []
    now = due = held_from = 0
    taken: dict[str, int] = {}
    for _ in range(LOADS):
        start = max(now, due)
        now = start + LOAD_NS
        while waiting and waiting[-1].from_ns <= now:
            from_ns, length_ns, cause = waiting.pop()
            late_ns = min(length_ns, max(0, from_ns + length_ns - start))  # not while it waited
            now += late_ns
            taken[cause] = taken.get(cause, 0) + late_ns
        loads.append(Load(due, now, held_from, dict(taken)))
        due += INTERVAL_NS
        if due >= now:
            held_from, taken = due, {}
    return loads


def attributed(interruptions: Sequence[Interruption], every: list[Load]) -> dict[str, Any]:
    """The sample that the probe would return: its slowest loads and what its thread met."""
    loads = sorted(every, key=lambda load: -load.latency_ns)[: LOADS // 100]
    met = {cause: [i for i in interruptions if i.cause == cause] for cause in CAUSES}
    return {
        "operations": LOADS,
        "records": len(interruptions),
        "lost": {"count": 0, "error": None},
        "events": {cause: {"count": len(of), "error": None} for cause, of in met.items()},
        "cpus": {"cpu": [1], "full_ns": [0]},
        "slow": {
            "thread": [0] * len(loads),
            "cpu": [1] * len(loads),
            "from_ns": [load.held_from_ns for load in loads],
            "held_ns": [load.end_ns - load.held_from_ns for load in loads],
            "latency_ns": [load.latency_ns for load in loads],
        },
        "met": {
            cause: {
                "thread": [0] * len(of),
                "from_ns": [i.from_ns for i in of],
                "length_ns": [i.length_ns for i in of],
            }
            for cause, of in met.items()
            if of
        },
    }


def truth(loads: list[Load]) -> float:
    """The share of the slowest loads from which shootdowns took the most time."""
    slowest = sorted(loads, key=lambda load: -load.latency_ns)
    taken = [load.taken_ns for load in slowest[: LOADS // ONE_IN]]
    return sum(one.get("shootdown", 0) > one.get("switch", 0) for one in taken) / len(taken)


def spread(
    seed: int, cause: str, every_ns: int, length_ns: int, by: float = 0.5
) -> list[Interruption]:
    """Interruptions at random times, their lengths spread by that share."""
    draw, at, result = Random(seed), 0.0, []
    while (at := at + draw.expovariate(1 / every_ns)) < LOADS * INTERVAL_NS:
        length = int(length_ns * draw.uniform(1 - by, 1 + by))
        result.append(Interruption(int(at), length, cause))
    return result


def together(*parts: Sequence[Interruption]) -> list[Interruption]:
    """All in the order of time; one that begins inside the one before is not met."""
    every = sorted(item for part in parts for item in part)
    last, result = 0, []
    for item in every:
        if item.from_ns > last:
            result.append(item)
            last = item.from_ns + item.length_ns
    return result


def shot(seed: int) -> list[Interruption]:
    return together(spread(seed, "shootdown", 40_000, 4_000))


def preempted(seed: int) -> list[Interruption]:
    return together(spread(seed, "switch", 400_000, 60_000))


def both(seed: int) -> list[Interruption]:
    """As many of either, and as long."""
    return together(
        spread(seed, "shootdown", 100_000, 12_000, by=0.02),
        spread(seed + 100, "switch", 100_000, 12_000, by=0.02),
    )


def met_together(seed: int) -> list[Interruption]:
    """Each preemption begins with a shootdown of half a microsecond, which is no main cause."""
    return [
        part
        for item in preempted(seed)
        for part in (
            Interruption(item.from_ns, 500, "shootdown"),
            Interruption(item.from_ns + 501, item.length_ns, "switch"),
        )
    ]


SAYS = {"confirmed": EXPLANATION.confirmed, "refuted": EXPLANATION.refuted}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interrupt", "expected", "says"),
    [
        (shot, 1.0, "confirmed"),
        pytest.param(preempted, 0.0, "refuted", marks=pytest.mark.slow),
        (met_together, 0.0, "refuted"),
        (both, None, None),
    ],
)
def test_shares_of_causes_are_those_of_the_known_interruptions(
    interrupt: Callable[[int], list[Interruption]],
    expected: float | None,
    says: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = 6 if says else 3
    met = [interrupt(seed) for seed in range(blocks)]
    loads = [load_all(one) for one in met]
    samples = [attributed(one, each) for one, each in zip(met, loads, strict=True)]
    share = EXPERIMENT.metric("p999_by_shootdown").of
    shares = [share({"attribution": sample}, {}) for sample in samples]
    known = [truth(one) for one in loads]
    if expected is None:
        assert all(0.2 < one < 0.8 for one in known)
    else:
        assert known == pytest.approx([expected] * blocks, abs=WITHIN)
    assert shares == pytest.approx(known, abs=WITHIN)
    if says is None:
        return

    def world(at: Mapping[str, Any], block: int) -> dict[str, Any]:
        return ok(attribution=samples[block] if at["trace"] else None)

    run = made(tmp_path, monkeypatch, EXPERIMENT, world, blocks=blocks)
    (sentence,) = mechanism.answers(run, [EXPLANATION])
    assert sentence.endswith(SAYS[says])

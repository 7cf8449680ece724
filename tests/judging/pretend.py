"""Runs that no machine measured: an experiment with claims, and samples made to order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from synthetic import run_row, sample, window

from memlab.experiment import (
    BYTES,
    At,
    Claim,
    Control,
    Cost,
    Experiment,
    Factor,
    Level,
    Lines,
    Metric,
    Ratio,
    choice,
)
from memlab.experiment.points import Point
from memlab.judging.claims import Judged
from memlab.results import Run
from memlab.run import plan
from memlab.store import PointRow, SampleRow, Store

SIZES = [1, 64, 4096, 8192]
NOISE = (0.99, 1.01, 0.995, 1.005, 1.0, 0.985, 1.015, 1.002, 0.998, 1.008, 0.992, 1.003)

EXPERIMENT = Experiment(
    name="pretend",
    question="Is the slow one slower?",
    probe="noop",
    factors=[
        Factor("size", BYTES, quick=SIZES, help="bytes a call"),
        Factor("method", choice("slow", "fast", "third"), quick=["slow", "fast"], help="how"),
        Factor("place", choice("here", "there"), quick=["here", "there"], help="where"),
    ],
    controls=[
        Control("third", "A third way.", {"method": ["third"], "size": [4096]}),
    ],
    metrics=[
        Metric(
            "time",
            "s",
            "time a call",
            of=lambda raw, at: raw["window"]["elapsed_ns"] * 1e-9,
            baseline_loop=lambda raw, at: raw["floor_ns"] * 1e-9 if "floor_ns" in raw else None,
            extrapolated=lambda raw, at: bool(raw.get("extrapolated")),
        ),
        Metric(
            "faults",
            "faults",
            "faults a call",
            of=lambda raw, at: float(raw["fault_count"]) if "fault_count" in raw else None,
        ),
        Metric(
            "speed",
            "1/s",
            "calls a second",
            of=lambda raw, at: 1e9 / raw["window"]["elapsed_ns"],
            lower_is_better=False,
        ),
    ],
    cost=Cost(),
    figure=Lines("time", over="size", by=["method"], panels=["place"]),
)

Reply = Mapping[str, Any]
World = Callable[[At, int], Reply | None]  # a point and a block to the worker's reply
Measure = Callable[..., Run]


def experiment(*claims: Claim, **changes: Any) -> Experiment:
    return replace(EXPERIMENT, claims=claims, **changes)


def took(elapsed_s: float, **fields: Any) -> dict[str, Any]:
    """A worker's reply to a trial that took so long."""
    result = {"window": window(round(elapsed_s * 1e9)), **fields}
    return {"outcome": "ok", "result": result, "probe_hash": "5eed5eed"}


def costs(cost: Callable[[At], float], **fields: Any) -> World:
    """A world in which a point costs so many seconds, with noise that a block shares in part."""

    def world(at: At, block: int) -> Reply:
        own = NOISE[(block + SIZES.index(at["size"]) + 5 * (at["method"] == "slow")) % len(NOISE)]
        return took(cost(at) * NOISE[block % len(NOISE)] * own**0.5, **fields)

    return world


def exact(cost: Callable[[At], float], **fields: Any) -> World:
    """A world without noise."""
    return lambda at, block: took(cost(at), **fields)


def add(
    store: Store,
    declared: Experiment,
    world: World,
    *,
    blocks: int = 10,
    sessions: int = 1,
    levels: Mapping[str, list[Level]] | None = None,
    ended: str | None = "blocks",
    **row: Any,
) -> str:
    """Store a run of the experiment as this world answers, and return its id."""
    points = plan.build(declared, "quick", levels or {}).points
    run = run_row(
        **{
            "id": "0123abcd",
            "experiment": declared.name,
            "request": {"experiment": declared.name, "directory": "/var/tmp"},
        }
        | row
    )
    store.add_run(run, [PointRow(p.index, dict(p.at), p.control) for p in points])
    each = blocks // sessions
    for number in range(sessions):
        session = store.begin_session(run.id)
        for block in range(number * each, (number + 1) * each):
            for made in _block(points, world, block):
                store.add_sample(run.id, session, 1.0, made)
        if ended:
            store.end_session(run.id, session, 1.0, ended)
    return run.id


def _block(points: Sequence[Point], world: World, block: int) -> list[SampleRow]:
    replies = ((point, world(point.at, block)) for point in points)
    return [sample(p.index, block, reply) for p, reply in replies if reply is not None]


SLOW, FAST = {"method": "slow"}, {"method": "fast"}


def slope(at: At) -> float:
    """slow costs 1 µs and 1 ns a byte, fast 4 ns a byte: they cross at 341 B."""
    return 1e-6 + at["size"] * 1e-9 if at["method"] == "slow" else 4e-9 * at["size"]


def ratio(**bounds: float) -> Ratio:
    where = {"size": 4096}
    return Ratio(text="a ratio", metric="time", where=where, of=SLOW, to=FAST, **bounds)


def only(judged: list[Judged]) -> Judged:
    """The verdict that both places share."""
    first, second = judged
    assert first.word == second.word
    return first


def counting(faults: Callable[[At, int], int]) -> Callable[[At, int], Mapping[str, Any]]:
    return lambda at, block: took(1e-6, fault_count=faults(at, block))

"""What the slowest operations of a run's traced points met, counted over each point's samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memlab.analysis.intervals import Interval, ratio_interval
from memlab.experiment import At
from memlab.experiment.attribution import CAUSES, FIELD, TAILS, TRACE, tail
from memlab.experiment.points import Point
from memlab.results.run import Run


@dataclass(frozen=True, slots=True)
class Met:
    """How many operations of a tail met one cause."""

    met: int  # operations; one that met two causes counts for both
    main: int  # operations in which this cause took the longest
    inside_s: float


@dataclass(frozen=True, slots=True)
class Tail:
    """The slowest one in so many operations of a point, all samples together."""

    one_in: int
    judged: int
    wanted: int
    untraced: int  # after the trace was full
    shortest_s: float  # the shortest operation that a sample's tail still holds
    latency_s: float
    nothing: int
    brief: int
    causes: Mapping[str, Met]  # those that any operation met, most operations first

    @property
    def share(self) -> float:
        """The percentile that they lie beyond: 0.999."""
        return 1 - 1 / self.one_in

    @property
    def unexplained(self) -> int:
        return self.nothing + self.brief


@dataclass(frozen=True, slots=True)
class Traced:
    """One traced point."""

    at: At
    operations: int
    tails: Sequence[Tail]
    events: Mapping[str, int]  # by cause, of the threads that ran the operations
    unseen: Mapping[str, str]  # causes that could not be traced, and the errno that says why
    lost: int
    stolen_s: float  # taken from these windows by the hypervisor; no event shows it
    overhead: Mapping[str, Interval]  # metric -> traced / not, paired by block
    samples: tuple[int, ...]
    probe_hashes: tuple[str, ...]


def traced(run: Run, **rules: int) -> list[Traced]:
    """Every point with a sample that was traced, in the plan's order. The rules are those of
    memlab.analysis.attribution.tail."""
    return [found for point in run.points if (found := _traced(run, point, rules)) is not None]


def tried(run: Run) -> bool:
    """Whether any point was meant to be traced."""
    return any(point.at.get(TRACE.name) and run.by_point[point.index] for point in run.points)


def refused(run: Run) -> list[tuple[At, str]]:
    """The points that were meant to be traced and could not be, with what their samples said."""
    return [
        (summary.point.at, "; ".join(summary.details))
        for summary in run.summaries
        if summary.point.at.get(TRACE.name) and summary.outcomes and not summary.outcomes["ok"]
    ]


def _traced(run: Run, point: Point, rules: Mapping[str, int]) -> Traced | None:
    samples = [
        sample
        for sample in run.by_point[point.index]
        if sample.outcome == "ok" and sample.raw is not None and sample.raw.get(FIELD)
    ]
    if not samples:
        return None
    raws = [sample.raw or {} for sample in samples]
    found = [raw[FIELD] for raw in raws]
    return Traced(
        at=point.at,
        operations=sum(one["operations"] for one in found),
        tails=[_tail(raws, one_in, rules) for one_in in TAILS],
        events={c: sum(one["events"][c]["count"] or 0 for one in found) for c in CAUSES},
        unseen={
            c: error for c in CAUSES for one in found[:1] if (error := one["events"][c]["error"])
        },
        lost=sum(one["lost"]["count"] or 0 for one in found),
        stolen_s=sum(_stolen_ns(raw) for raw in raws) * 1e-9,
        overhead=dict(_overhead(run, point)),
        samples=tuple(sample.id for sample in samples if sample.id is not None),
        probe_hashes=tuple(dict.fromkeys(sample.probe_hash for sample in samples)),
    )


def _stolen_ns(raw: Mapping[str, Any]) -> int:
    return int(raw["window"]["counters"]["stolen_ns"]["count"] or 0)


def _tail(raws: Sequence[Mapping[str, Any]], one_in: int, rules: Mapping[str, int]) -> Tail:
    found = [tail(raw, one_in, **rules) for raw in raws]
    met, main, inside_ns = Counter[str](), Counter[str](), Counter[str]()
    for one in found:
        for cause, counts in one["causes"].items():
            met[cause] += counts["met_count"]
            main[cause] += counts["main_count"]
            inside_ns[cause] += counts["inside_ns"]
    return Tail(
        one_in=one_in,
        judged=sum(one["operation_count"] for one in found),
        wanted=sum(one["wanted_count"] for one in found),
        untraced=sum(one["untraced_count"] for one in found),
        shortest_s=min(one["shortest_ns"] for one in found) * 1e-9,
        latency_s=sum(one["latency_ns"] for one in found) * 1e-9,
        nothing=sum(one["nothing_count"] for one in found),
        brief=sum(one["brief_count"] for one in found),
        causes={
            cause: Met(count, main[cause], inside_ns[cause] * 1e-9)
            for cause, count in met.most_common()
        },
    )


def _overhead(run: Run, point: Point) -> Iterator[tuple[str, Interval]]:
    """Against the point that differs in nothing but the tracing."""
    declared = run.experiment.attribution
    alike = {**point.at, TRACE.name: False}
    twin = next((other for other in run.points if dict(other.at) == alike), None)
    if declared is None or twin is None:
        return
    for metric in declared.overhead:
        with_it, without = run.values(metric, point), run.values(metric, twin)
        if np.isfinite(with_it / without).any():
            yield metric, ratio_interval(with_it, without, sequential=run.sequential)

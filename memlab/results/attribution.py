"""What the slowest operations of a run's traced points met, counted over each point's samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memlab.analysis.intervals import Interval, ratio_if_any
from memlab.experiment import At
from memlab.experiment.attribution import CAUSES, FIELD, TAILS, TRACE, tail
from memlab.experiment.points import Point
from memlab.results.columns import measurement
from memlab.results.run import Run
from memlab.store import SampleRow


@dataclass(frozen=True, slots=True)
class Met:
    """How many operations of a tail met one cause."""

    met: int  # operations; one that met two causes counts for both
    main: int  # operations in which this cause took the longest
    inside_s: float


@dataclass(frozen=True, slots=True)
class SlowestOperations:
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
    tails: Sequence[SlowestOperations]
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
    return [result for point in run.points if (result := _traced(run, point, rules)) is not None]


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
    read = run.good(point).read(lambda sample: _of_sample(sample, rules), "what the slowest met")
    results = [item for item in read if item is not None]
    if not results:
        return None
    return Traced(
        at=point.at,
        operations=sum(item.operations for item in results),
        tails=[
            _tail([item.tails[n] for item in results], one_in) for n, one_in in enumerate(TAILS)
        ],
        events={c: sum(item.events[c] for item in results) for c in CAUSES},
        unseen=results[0].unseen,
        lost=sum(item.lost for item in results),
        stolen_s=sum(item.stolen_ns for item in results) * 1e-9,
        overhead=dict(_overhead(run, point)),
        samples=tuple(item.sample.id for item in results if item.sample.id is not None),
        probe_hashes=tuple(dict.fromkeys(item.sample.probe_hash for item in results)),
    )


@dataclass(frozen=True, slots=True)
class _One:
    """What a traced sample adds."""

    sample: SampleRow
    operations: int
    tails: Sequence[Mapping[str, Any]]  # by TAILS
    events: Mapping[str, int]
    unseen: Mapping[str, str]
    lost: int
    stolen_ns: int


def _of_sample(sample: SampleRow, rules: Mapping[str, int]) -> _One | None:
    """None where it was not traced. Raises what reading anything else than a probe's does."""
    raw = sample.raw or {}
    if not (result := raw.get(FIELD)):
        return None
    counts = {cause: result["events"][cause] for cause in CAUSES}
    return _One(
        sample,
        operations=measurement(result["operations"]),
        tails=[_numbers_of(tail(raw, one_in, **rules)) for one_in in TAILS],
        events={cause: measurement(item["count"] or 0) for cause, item in counts.items()},
        unseen={cause: str(item["error"]) for cause, item in counts.items() if item["error"]},
        lost=measurement(result["lost"]["count"] or 0),
        stolen_ns=measurement(raw["window"]["counters"]["stolen_ns"]["count"] or 0),
    )


def _numbers_of(lists: Mapping[str, Any]) -> Mapping[str, Any]:
    """A sample's tail, its numbers looked at: an older sample's comes from the probe itself."""
    causes = {
        cause: {
            name: measurement(counts[name]) for name in ("met_count", "main_count", "inside_ns")
        }
        for cause, counts in lists["causes"].items()
        if CAUSES[cause]
    }
    return {name: measurement(lists[name]) for name in _NUMBERS} | {"causes": causes}


_NUMBERS = (
    *("operation_count", "wanted_count", "untraced_count", "shortest_ns", "latency_ns"),
    *("nothing_count", "brief_count"),
)


def _tail(parts: Sequence[Mapping[str, Any]], one_in: int) -> SlowestOperations:
    met, main, inside_ns = Counter[str](), Counter[str](), Counter[str]()
    for item in parts:
        for cause, counts in item["causes"].items():
            met[cause] += counts["met_count"]
            main[cause] += counts["main_count"]
            inside_ns[cause] += counts["inside_ns"]
    return SlowestOperations(
        one_in=one_in,
        judged=sum(entry["operation_count"] for entry in parts),
        wanted=sum(item["wanted_count"] for item in parts),
        untraced=sum(entry["untraced_count"] for entry in parts),
        shortest_s=min(entry["shortest_ns"] for entry in parts) * 1e-9,
        latency_s=sum(entry["latency_ns"] for entry in parts) * 1e-9,
        nothing=sum(entry["nothing_count"] for entry in parts),
        brief=sum(entry["brief_count"] for entry in parts),
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
        values = run.values(metric, point), run.values(metric, twin)
        if ratio := ratio_if_any(*values, **run.sampling(metric)):
            yield metric, ratio

"""What a figure of nines shows, as data: a point's latencies merged, and percentiles of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memlab.analysis.histogram import percentile_interval
from memlab.experiment import At, Control, Nines
from memlab.histogram import LEAST_BEYOND, Histogram
from memlab.present import words
from memlab.present.figures.series import varied
from memlab.results import Run
from memlab.run.plan import Point
from memlab.store import SampleRow

SHARES = (0.5, *(1 - 10.0**-nines for nines in range(1, 10)))  # 50 %, 90 %, 99 %, ...
_STEPS = 50  # of the curve, a nine


@dataclass(frozen=True, slots=True)
class Percentile:
    """One percentile of all latencies of a point, with the interval over its blocks."""

    share: float
    value_s: float
    low_s: float | None
    high_s: float | None
    blocks: int  # that have latencies enough for this percentile


@dataclass(frozen=True, slots=True)
class Curve:
    """One point's latencies. `path` ends where too few lie beyond: there it is open."""

    label: str
    at: At
    control: str | None
    rank: int
    total: int
    path: Sequence[tuple[float, float]]  # share, seconds
    percentiles: Sequence[Percentile]
    longest_s: float
    samples: tuple[int, ...]
    probe_hashes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Untold:
    """A point without a curve, and why."""

    label: str
    at: At
    why: str


@dataclass(frozen=True, slots=True)
class Pane:
    """One pair of axes: the levels that hold there, and its curves."""

    at: At
    curves: Sequence[Curve]
    untold: Sequence[Untold]


def nines(share: float) -> float:
    """A share's place on the axis: 0.9 is 1, 0.99 is 2."""
    return -math.log10(1 - share)


def percent(share: float) -> str:
    """`99.9 %`, without the last bits of a share that is none in binary."""
    return f"{round(100 * share, 7):.10g} %"


def panes(run: Run, shown: Nines) -> list[Pane]:
    """Every panel; a factor that varies and is not named in the declaration gets panels too."""
    grid = [p for p in run.points if p.control is None and _has(p.at, shown.where)]
    own = [*shown.by, shown.over]
    names = [*shown.panels, *(n for n in varied(run) if n not in (*own, *shown.panels))]
    told = [name for name in own if name in varied(run)] or [shown.over]
    ranks = _combinations(grid, own)
    return [_pane(run, shown, at, told, ranks) for at in _combinations(grid, names)]


def _pane(run: Run, shown: Nines, at: At, told: Sequence[str], ranks: Sequence[At]) -> Pane:
    found: list[Curve | Untold | None] = []
    whole = {**shown.where, **at}
    for point in (p for p in run.points if p.control is None and _has(p.at, whole)):
        label = words.levels(run.experiment, point.at, told)
        found.append(_told(run, shown, point, label, next(_ranks(ranks, point))))
    for number, control in enumerate(run.experiment.controls):
        drawn = shown.controls is None or control.name in shown.controls
        for point, label in _controls(run, control, at, told) if drawn else ():
            found.append(_told(run, shown, point, label, number))
    return Pane(
        at,
        [one for one in found if isinstance(one, Curve)],
        [one for one in found if isinstance(one, Untold)],
    )


def _ranks(ranks: Sequence[At], point: Point) -> Iterator[int]:
    return (rank for rank, at in enumerate(ranks) if _has(point.at, at))


def _controls(
    run: Run, control: Control, at: At, told: Sequence[str]
) -> Iterator[tuple[Point, str]]:
    """A control's points, in the panels that agree with it on what it does not set itself."""
    left = {name: level for name, level in at.items() if name not in control.levels}
    inside = [point for point in run.control(control.name) if _has(point.at, left)]
    several = [name for name in told if len({point.at[name] for point in inside}) > 1]
    for point in inside:
        which = words.levels(run.experiment, point.at, several)
        yield point, f"control {control.name}" + (f": {which}" if which else "")


def _told(run: Run, shown: Nines, point: Point, label: str, rank: int) -> Curve | Untold | None:
    samples = run.by_point[point.index]
    behind = [s for s in samples if s.outcome == "ok" and s.raw is not None]
    blocks = [Histogram.of(s.raw[shown.histogram]) for s in behind if s.raw is not None]
    merged = Histogram.merged(blocks)
    if merged.supports(SHARES[0]):
        return _curve(point, label, rank, merged, blocks, behind)
    if not samples:
        return None
    failed = ", ".join(dict.fromkeys(s.outcome for s in samples if s.outcome != "ok"))
    few = f"{merged.total} latencies, too few for a median"
    return Untold(label, point.at, few if behind else failed)


def _curve(
    point: Point,
    label: str,
    rank: int,
    merged: Histogram,
    blocks: Sequence[Histogram],
    behind: Sequence[SampleRow],
) -> Curve:
    return Curve(
        label=label,
        at=point.at,
        control=point.control,
        rank=rank,
        total=merged.total,
        path=list(_path(merged)),
        percentiles=list(_percentiles(merged, blocks)),
        longest_s=merged.max_ns * 1e-9,
        samples=tuple(s.id for s in behind if s.id is not None),
        probe_hashes=tuple(dict.fromkeys(s.probe_hash for s in behind)),
    )


def _path(merged: Histogram) -> Iterator[tuple[float, float]]:
    """Percentiles in even steps of nines, and the last one that enough latencies lie beyond."""
    last = (merged.total - LEAST_BEYOND) / merged.total
    steps = int((nines(last) - nines(SHARES[0])) * _STEPS)
    even = (1 - 10.0 ** -(nines(SHARES[0]) + i / _STEPS) for i in range(steps + 1))
    for share in sorted({*even, *SHARES, last}):
        value_ns = merged.percentile_ns(share)
        if value_ns is not None and share <= last:
            yield share, value_ns * 1e-9


def _percentiles(merged: Histogram, blocks: Sequence[Histogram]) -> Iterator[Percentile]:
    for share in SHARES:
        value_ns = merged.percentile_ns(share)
        if value_ns is None:
            return
        own = percentile_interval(blocks, share)
        low, high = (own.low, own.high) if own else (None, None)
        yield Percentile(
            share,
            value_ns * 1e-9,
            None if low is None else low * 1e-9,
            None if high is None else high * 1e-9,
            own.n if own else 0,
        )


def _combinations(points: Sequence[Point], names: Sequence[str]) -> list[At]:
    found = (tuple((name, point.at[name]) for name in names) for point in points)
    return [dict(pairs) for pairs in dict.fromkeys(found)]


def _has(at: At, levels: At) -> bool:
    return all(at[name] == level for name, level in levels.items())


def as_data(run: Run, shown: Nines) -> list[dict[str, Any]]:
    """The sidecar's rows: every percentile that is marked, and the longest of each curve."""
    return [
        {
            "panel": dict(pane.at),
            "kind": "percentile" if curve.control is None else "control percentile",
            "series": curve.label,
            "levels": dict(curve.at),
            "histogram": shown.histogram,
            "unit": "s",
            "latencies": curve.total,
        }
        | number
        | {
            "samples": list(curve.samples),
            "probe": run.experiment.probe,
            "probe_hashes": list(curve.probe_hashes),
            "c_file": f"probes/{run.experiment.probe}.c",
        }
        for pane in panes(run, shown)
        for curve in pane.curves
        for number in _numbers(curve)
    ]


def _numbers(curve: Curve) -> Iterator[dict[str, Any]]:
    for one in curve.percentiles:
        yield {
            "share": one.share,
            "value": one.value_s,
            "low": one.low_s,
            "high": one.high_s,
            "n": one.blocks,
        }
    share, value_s = curve.path[-1]
    yield {"share": share, "value": value_s, "open_end": True}
    yield {"share": 1.0, "value": curve.longest_s}

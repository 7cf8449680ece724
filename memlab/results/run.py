"""A run out of the store. Metrics are derived here, from raw samples, and nowhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from memlab import experiments
from memlab.analysis.intervals import Interval, median_interval
from memlab.analysis.noise import outliers
from memlab.experiment import Against, Experiment, Figure, Metric
from memlab.experiment.window import WINDOW_METRICS, noise
from memlab.run import plan
from memlab.run.plan import Point
from memlab.store import RunRow, SampleRow, SessionRow, Store

if TYPE_CHECKING:
    import pandas as pd

FLOOR_SHARE = 0.2  # a value whose floor is more than this of it is not the operation's own


@dataclass(frozen=True, slots=True)
class PointSummary:
    """One point: its samples' outcomes, and for each metric the median with its interval."""

    point: Point
    outcomes: Counter[str]
    details: tuple[str, ...]  # what trials that were not ok said, each once
    medians: Mapping[str, Interval]
    floors: Mapping[str, float]  # medians, in the metric's unit
    extrapolated: frozenset[str]  # metrics whose value is more than what was measured
    noise: Counter[str]  # flag -> number of samples

    def floor_share(self, metric: str) -> float | None:
        """How much of the median is the loop itself; None where there is no floor."""
        if metric not in self.floors or metric not in self.medians:
            return None
        return self.floors[metric] / self.medians[metric].estimate


class Run:
    """A stored run. `frame` is tidy: one row a sample, a column a factor, metric and counter."""

    def __init__(self, row: RunRow, store_path: Path) -> None:
        self.row, self.store_path = row, store_path
        self.experiment: Experiment = experiments.load(row.experiment)
        self.metrics: Sequence[Metric] = (*self.experiment.metrics, *WINDOW_METRICS)
        with Store(store_path) as store:
            # A run that is older than a factor was measured at what is its first level now.
            first = {factor.name: factor.quick[0] for factor in self.experiment.factors}
            self.points = [
                Point(p.point, {**first, **p.levels}, p.control) for p in store.points(row.id)
            ]
            self.samples: Sequence[SampleRow] = tuple(store.samples(row.id))
            self.sessions: Sequence[SessionRow] = store.sessions(row.id)

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def environment(self) -> Mapping[str, Any]:
        return self.row.environment

    def showing(self, figure: Figure | Against) -> Run:
        """The same run, its experiment's figure another one of its figures.

        An `Against` has no axis of levels: what reads a run's axis keeps the first figure's.
        """
        if isinstance(figure, Against) or figure is self.experiment.figure:
            return self
        other = copy(self)
        other.experiment = replace(self.experiment, figure=figure)
        return other

    def metric(self, name: str) -> Metric:
        return next(m for m in self.metrics if m.name == name)

    @cached_property
    def varied(self) -> list[str]:
        """The factors that take more than one level in the grid, in declared order."""
        return plan.varied([point for point in self.points if point.control is None])

    @cached_property
    def by_point(self) -> Mapping[int, Sequence[SampleRow]]:
        found: dict[int, list[SampleRow]] = {p.index: [] for p in self.points}
        for sample in self.samples:
            found[sample.point].append(sample)
        return found

    def value(self, metric: Metric, sample: SampleRow, point: Point) -> float:
        """One sample's metric; nan where the sample has none."""
        if sample.outcome != "ok" or sample.raw is None:
            return float("nan")
        value = metric.of(sample.raw, point.at)
        return float("nan") if value is None else value

    def values(self, metric: str, point: Point) -> npt.NDArray[np.float64]:
        """A point's values by block, shape (blocks,), nan where a block has no sample."""
        found = np.full(self.blocks, np.nan)
        for sample in self.by_point[point.index]:
            found[sample.block] = self.value(self.metric(metric), sample, point)
        return found

    @cached_property
    def blocks(self) -> int:
        return max((sample.block for sample in self.samples), default=-1) + 1

    def floor(self, metric: Metric, point: Point) -> npt.NDArray[np.float64]:
        """The floor of a metric in a point's samples; empty where it has none."""
        if metric.floor is None:
            return np.empty(0)
        samples = (s for s in self.by_point[point.index] if s.outcome == "ok" and s.raw is not None)
        found = (metric.floor(sample.raw or {}, point.at) for sample in samples)
        return np.array([value for value in found if value is not None])

    @cached_property
    def summaries(self) -> Sequence[PointSummary]:
        """One summary a point, in the plan's order."""
        return tuple(self._summarise(point) for point in self.points)

    def _summarise(self, point: Point) -> PointSummary:
        samples = self.by_point[point.index]
        good = [s for s in samples if s.outcome == "ok" and s.raw is not None]
        medians, floors = {}, {}
        extrapolated = set()
        for metric in self.metrics:
            values = self.values(metric.name, point) if good else np.empty(0)
            if np.isfinite(values).any():
                medians[metric.name] = median_interval(values)
                floor = self.floor(metric, point)
                if floor.size:
                    floors[metric.name] = float(np.median(floor))
            if metric.extrapolated and any(
                metric.extrapolated(s.raw or {}, point.at) for s in good
            ):
                extrapolated.add(metric.name)
        flags = Counter(flag for s in good for flag in noise(s.raw or {}))
        apart = int(outliers(self.values(self.metrics[0].name, point)).sum()) if good else 0
        if apart:
            flags["outlier"] = apart
        return PointSummary(
            point=point,
            outcomes=Counter(s.outcome for s in samples),
            details=tuple(dict.fromkeys(s.detail for s in samples if s.detail)),
            medians=medians,
            floors=floors,
            extrapolated=frozenset(extrapolated),
            noise=flags,
        )

    def matching(self, at: Mapping[str, Any]) -> Iterator[Point]:
        """The points that have these levels."""
        for point in self.points:
            if all(point.at[name] == level for name, level in at.items()):
                yield point

    def control(self, name: str) -> list[Point]:
        return [point for point in self.points if point.control == name]

    def pooled_floor(self, metric: Metric, points: Iterable[Point]) -> float | None:
        """The median floor over several points: at one size the loop is the same for all."""
        floors = [self.floor(metric, point) for point in points]
        pooled = np.concatenate(floors) if floors else np.empty(0)
        return float(np.median(pooled)) if pooled.size else None

    @property
    def window_share(self) -> float | None:
        """The share of the run's wall time that was spent inside timed windows."""
        wall_s = sum(session.wall_s for session in self.sessions)
        inside_ns = sum(s.raw["window"]["elapsed_ns"] for s in self.samples if s.raw)
        return inside_ns * 1e-9 / wall_s if wall_s else None

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Tidy samples: run, point, block, outcome, a column a factor, then a column a metric."""
        import pandas as pd

        at = {point.index: point for point in self.points}
        return pd.DataFrame.from_records(
            [self.record(sample, at[sample.point]) for sample in self.samples]
        )

    def record(self, sample: SampleRow, point: Point) -> dict[str, Any]:
        """One sample as a flat row, metrics in base units, nan where there is none."""
        row: dict[str, Any] = {
            "run": self.id,
            "sample": sample.id,
            "point": sample.point,
            "control": point.control,
            "block": sample.block,
            "position": sample.position,
            "outcome": sample.outcome,
            "detail": sample.detail,
            "started_at": sample.started_at,
            "trial_s": sample.trial_s,
            "cpu": sample.cpu,
            "probe_hash": sample.probe_hash,
            "noise": ",".join(noise(sample.raw)) if sample.raw else "",
        }
        row |= point.at
        for metric in self.metrics:
            row[metric.name] = self.value(metric, sample, point)
        return row

    def summary(self) -> pd.DataFrame:
        """One row a point: its varied levels, samples, and each metric's median, low and high."""
        import pandas as pd

        rows = []
        for summary in self.summaries:
            row: dict[str, Any] = {name: summary.point.at[name] for name in self.varied}
            row |= {"control": summary.point.control, "samples": summary.outcomes.total()}
            row["ok"] = summary.outcomes["ok"]
            for name, interval in summary.medians.items():
                row[name] = interval.estimate
                row[f"{name}_low"], row[f"{name}_high"] = interval.low, interval.high
            rows.append(row)
        return pd.DataFrame.from_records(rows)

    def __repr__(self) -> str:
        return f"<memlab run {self.id}: {self.experiment.name}, {len(self.samples)} samples>"

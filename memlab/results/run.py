"""A run out of the store. Metrics are derived here, from raw samples, and nowhere else."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from memlab import experiments, recorded
from memlab.analysis.correlation import LEAST_BLOCKS, BlockCorrelations, SamplingScheme, of_blocks
from memlab.analysis.exact import most_correlated
from memlab.analysis.intervals import (
    Interval,
    median_interval,
    median_intervals,
    middles,
    next_unit_interval,
)
from memlab.analysis.noise import outlier_counts
from memlab.errors import BadRequest, StoreError, nearest
from memlab.experiment import (
    CostTerm,
    Experiment,
    F,
    Figure,
    Level,
    Metric,
    Raw,
    each,
    when,
)
from memlab.experiment.expressions import expression
from memlab.experiment.fields import FloatArray
from memlab.experiment.metric import Reads
from memlab.experiment.points import Point, varied_factors
from memlab.experiment.window import DISTURBANCES, WINDOW_METRICS
from memlab.results.samples import Derived, IntArray, Samples, SampleTable
from memlab.store import PointRow, RunRow, SessionRow, Store, default_path
from memlab.store.rows import CELLS_MAX

if TYPE_CHECKING:
    import pandas as pd

_AT_ONCE = 10_000  # records that are made together
# A value whose baseline loop is more than this of it is not the operation's own.
BASELINE_LOOP_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class PointSummary:
    """One point: its samples' outcomes, and for each metric the median with its interval; none if
    only how its trials ended says something (`Experiment.only_outcome`)."""

    point: Point
    outcomes: Counter[str]
    details: tuple[str, ...]  # what trials that were not ok said, each once
    medians: Mapping[str, Interval]
    baseline_loops: Mapping[str, float]  # medians, in the metric's unit
    extrapolated: Sequence[str]  # metrics whose value is more than what was measured
    noise: Counter[str]  # flag -> number of samples

    def baseline_loop_share(self, metric: str) -> float | None:
        """How much of the median is the loop itself; None where there is none, or the median
        is 0 and nothing can be a share of it."""
        result = self.medians.get(metric)
        if metric not in self.baseline_loops or result is None or result.estimate == 0:
            return None
        return self.baseline_loops[metric] / result.estimate


_NOISE, _INSIDE = "noise bits", "ns in windows"  # columns; no metric's name has a blank
_TICKS = ("other_cpus_ticks", "other_cpus_busy_ticks")


def count_of(term: CostTerm) -> str:
    """The column of how often a term of the cost is paid."""
    return f"count of {term.name}"


def _baseline_loop(metric: Metric) -> str:
    return f"baseline loop of {metric.name}"


def _extrapolated(metric: Metric) -> str:
    return f"extrapolated {metric.name}"


def _inside_ns(raw: Raw) -> float:
    """Of all its windows: a probe may have a second one, as memory_copy's `steady`. The load on a
    service is its window."""
    total = raw["window"]["elapsed_ns"]
    for name, part in raw.items():
        if type(part) is dict and "started_ns" in part and name not in ("window", "load"):
            total += part["elapsed_ns"]
    return float(total)


def _counted(count: Reads | float) -> Reads:
    return expression(count) if isinstance(count, int | float) else count


# What disturbed a sample, a bit for each of DISTURBANCES.
_NOISE_BITS = reduce(
    add, (when(is_so, 2.0**bit, 0) for bit, is_so in enumerate(DISTURBANCES.values()))
)


def _flags(bits: FloatArray) -> list[dict[str, int]]:
    """Of each row of samples how many each disturbance flags, in the order in which they first
    came."""
    numbers = np.nan_to_num(bits).astype(np.int64)
    results: list[list[tuple[int, int, str, int]]] = [[] for _ in numbers]
    for bit, word in enumerate(DISTURBANCES):
        is_flagged = numbers >> bit & 1
        first, counts = is_flagged.argmax(axis=1), is_flagged.sum(axis=1)
        for row in np.flatnonzero(counts).tolist():
            results[row].append((int(first[row]), bit, word, int(counts[row])))
    return [{word: count for _, _, word, count in sorted(flags)} for flags in results]


class Run:
    """A stored run. `frame` is tidy: one row a sample, a column a factor, metric and counter."""

    def __init__(self, row: RunRow, store_path: Path) -> None:
        self.row, self.store_path = row, store_path
        with row.naming_writer():
            loaded = experiments.load(row.experiment, row.request.get("subject"))
        self.experiment: Experiment = loaded
        names = {metric.name for metric in self.experiment.metrics}
        window = (metric for metric in WINDOW_METRICS if metric.name not in names)
        self.metrics: Sequence[Metric] = (*self.experiment.metrics, *window)
        with Store(store_path) as store:
            # A run that is older than a factor, as of a user's experiment, has its first level.
            first = {factor.name: factor.quick[0] for factor in self.experiment.factors}
            self.points = [
                Point(p.point, self._levels(first, p), p.control) for p in store.points(row.id)
            ]
            self.sessions: Sequence[SessionRow] = store.sessions(row.id)
            self.note: str | None = store.notes().get(row.id)  # a user's own words
        levels = {(point.control, *point.at.items()) for point in self.points}
        if len(levels) < len(self.points):
            raise StoreError(f"run {self.id} in {store_path}: two of its points are the same")
        at = {point.index: point.at for point in self.points}
        table = SampleTable(row, store_path, at, dict(self._derived()))
        self.samples = Samples(table, np.arange(len(table)))
        if len(self.points) * self.unit_count > CELLS_MAX:
            raise StoreError(
                f"run {self.id} in {self.store_path} has {len(self.points)} points by "
                f"{self.unit_count} "
                f"{self.unit}s: more than {CELLS_MAX:,} numbers are not held at once"
            )

    def _levels(self, first: Mapping[str, Level], point: PointRow) -> dict[str, Level]:
        """A stored point's levels; StoreError if one is not of the experiment's factors."""
        at = {**first, **point.levels}
        for name, level in at.items():
            if name not in first or not self._fits(name, level, first[name]):
                raise StoreError(
                    f"run {self.id} in {self.store_path}: point {point.point} has {name} "
                    f"{level!r:.60}, which is not a level of {self.experiment.name}"
                    f"{self.row.writer}"
                )
        return at

    def _fits(self, name: str, level: Level, first: Level) -> bool:
        """Whether a stored level can be one of the factor's: what its kind takes, or a word, which
        may have gone since."""
        if isinstance(level, str) and isinstance(first, str):
            return True
        (kind,) = (f.kind for f in self.experiment.factors if f.name == name)
        try:
            return kind.check(level) == level
        except Exception:  # a kind may be a user's own
            return False

    @property
    def id(self) -> str:
        """Eight hexadecimal digits, by which every command finds it."""
        return self.row.id

    def is_emulated_time(self, metric: str) -> bool:
        """Whether a metric is a time, or a rate, by an emulated guest's clock: no machine's."""
        emulated = bool(self.environment.get("emulated_time"))
        return emulated and "s" in self.metric(metric).unit.split("/")

    def command(self, words: str) -> str:
        """The command line of `memlab WORDS RUN` for this run: with the store, if that is not the
        user's own."""
        if recorded.ships(self.store_path):
            return f"memlab {words} {recorded.PREFIX}{recorded.name_of(self.store_path)}"
        other = self.store_path != default_path()
        store = f" --store {shlex.quote(str(self.store_path))}" if other else ""
        return f"memlab{store} {words} {self.id}"

    @property
    def stopped(self) -> bool:
        """Whether how many blocks there are was chosen by looking at what they held."""
        return self.row.request.get("blocks", 1) is None

    @property
    def sequential(self) -> bool:
        """The same of what counts once: how many sessions a run is spread over never is."""
        return self.stopped and not self.clustered

    @property
    def clustered(self) -> bool:
        """Whether the run is of several sessions or recordings, each of which then counts once:
        what a whole one shares is in no difference between its blocks."""
        return self.unit != "block"

    @property
    def unit(self) -> str:
        """What is repeated, and counts once: `block`, `session` or `recording`."""
        if len(self.experiment.copied) > 1:
            return "recording"
        return "session" if int(self.row.request.get("sessions", 1)) > 1 else "block"

    @property
    def unit_count(self) -> int:
        """How many of them the run has."""
        counts = {"recording": len(self.experiment.copied), "session": len(self.sessions)}
        return counts.get(self.unit, self.blocks)

    @property
    def turns(self) -> bool:
        """Whether the points of a block took turns; else each trial had a window of its own."""
        return bool(self.row.request.get("turns", False))

    @property
    def environment(self) -> Mapping[str, Any]:
        """The machine as the run found it: kernel, CPUs, memory, libc, settings, by name."""
        return self.row.environment

    @property
    def named(self) -> Experiment:
        """The experiment with its levels of a file system called by what lay under them: one name
        for a place in tables, verdicts and figures."""
        filesystems, file = self.environment.get("filesystems", {}), self.experiment.file
        if file is None or not filesystems:
            return self.experiment
        labels = {
            level: f"{result['type']} at {result['path']}" for level, result in filesystems.items()
        }
        factors = [
            replace(factor, level_labels={**factor.level_labels, **labels})
            if factor.name == file.filesystem
            else factor
            for factor in self.experiment.factors
        ]
        return replace(self.experiment, factors=factors)

    def showing(self, figure: Figure) -> Run:
        """The same run, its experiment's figure another one of its figures."""
        if figure is self.experiment.figure:
            return self
        other = copy(self)
        other.experiment = replace(self.experiment, figure=figure)
        return other

    def only(self, points: Sequence[Point]) -> Run:
        """The same run as if it had been planned with only these of its points."""
        other = self._fresh()
        indices = {point.index for point in points}
        if "summaries" in vars(self):  # each is only of its point's samples
            vars(other)["summaries"] = tuple(s for s in self.summaries if s.point.index in indices)
        # How blocks resemble each other is of the whole run: an interval is the same in each part.
        vars(other)["correlations"] = self.correlations
        other.points = list(points)
        other.samples = self.samples[np.isin(self.samples.taken("point"), list(indices))]
        return other

    def _fresh(self) -> Run:
        """A copy that has computed nothing."""
        other = copy(self)
        for name in [n for n in vars(self) if isinstance(vars(Run).get(n), cached_property)]:
            del vars(other)[name]
        return other

    def drawn(self, figure: Figure) -> Run:
        """The same run with this figure and no other, and without the claims that are made of
        points which may not be in it."""
        other = copy(self)
        other.experiment = replace(self.experiment, figure=figure, more_figures={}, claims=())
        return other

    def metric(self, name: str) -> Metric:
        """One of its experiment's metrics, or of the timed window's, by name. BadRequest names the
        nearest."""
        result = next((m for m in self.metrics if m.name == name), None)
        if result is None:
            hint = nearest(str(name), [m.name for m in self.metrics])
            raise BadRequest(f"{self.experiment.name} has no metric {name!r}; {hint}")
        return result

    @cached_property
    def varied(self) -> list[str]:
        """The factors that take more than one level in the grid, in declared order."""
        return varied_factors([point for point in self.points if point.control is None])

    def _derived(self) -> Iterator[tuple[str, Derived]]:
        """What is derived from a sample, by its column."""
        for metric in self.metrics:
            yield metric.name, Derived(metric.of, metric.name)
            if metric.baseline_loop is not None:
                yield (
                    _baseline_loop(metric),
                    Derived(metric.baseline_loop, f"the baseline of {metric.name}"),
                )
            if metric.extrapolated is not None:
                yield _extrapolated(metric), Derived(metric.extrapolated, metric.name)
        for term in self.experiment.costs.terms if self.experiment.costs else ():
            yield count_of(term), Derived(_counted(term.count), f"the cost of a {term.name}")
        yield _NOISE, Derived(_NOISE_BITS, "noise")
        yield _INSIDE, Derived(each("inside", _inside_ns, F), "the time in windows", "raw")
        for name in _TICKS:
            yield name, Derived(F.host[name].or_(0), "the work of others", "any")

    @cached_property
    def by_point(self) -> Mapping[int, Samples]:
        samples = self.samples.by_point()
        return {point.index: samples[point.index] for point in self.points}

    def by_block(self, metric: str, point: Point) -> npt.NDArray[np.float64]:
        """A point's values by block, shape (blocks,), nan where a block has no sample."""
        result = np.full(self.blocks, np.nan)
        samples = self.by_point[point.index]
        result[self._block(samples)] = samples.column(metric)
        return result

    def values(self, metric: str, point: Point) -> npt.NDArray[np.float64]:
        """A point's values by what counts once, nan where it has none: shape (blocks,), or of a
        run of several sessions or recordings shape (n,), each the median of its own."""
        if not self.clustered:
            return self.by_block(metric, point)
        samples = self.by_point[point.index]
        return self.per_unit(samples, samples.column(metric))

    def per_unit(self, samples: Samples, values: FloatArray) -> FloatArray:
        """These samples' values, nan where one has none; of a run of several sessions or recordings
        the median of each one's."""
        if not self.clustered:
            return values
        which = self.units(samples)
        parts = [values[which == number] for number in range(self.unit_count)]
        return np.array(
            [np.nan if np.isnan(part).all() else float(np.nanmedian(part)) for part in parts]
        )

    def session_index(self, samples: Samples) -> IntArray:
        """Which of the run's sessions took each of these samples, from 0."""
        ends = np.cumsum([session.samples for session in self.sessions[:-1]])
        return np.searchsorted(ends, samples.rows, side="right")  # a sweep may still be adding some

    def units(self, samples: Samples) -> IntArray:
        """Where in `values` each of these samples is."""
        if self.unit == "recording":  # blocks take turns with them
            return self._block(samples) % self.unit_count
        return self.session_index(samples) if self.clustered else self._block(samples)

    def interval(self, values: FloatArray, metric: str | None = None) -> Interval:
        """The median of a point's `values` with its interval, wider if blocks resemble the block
        before in that metric, else in these values; of a run of several sessions or recordings
        where the next one's median lies."""
        if self.clustered:
            return next_unit_interval(values, self.unit)
        of = self.correlations(metric) if metric else of_blocks(values[:, np.newaxis])
        n = int(np.count_nonzero(np.isfinite(values)))
        return median_interval(
            values, sequential=self.sequential, correlation=self._widening(of, n)
        )

    def _widening(self, of: BlockCorrelations, n: int) -> float:
        """A median has an interval if it has enough samples: at the widest their range."""
        return min(of.of_medians, most_correlated(n, 0.95, self.sequential))

    def correlations(self, metric: str) -> BlockCorrelations:
        """How much a block's values of a metric resemble those of the block before."""
        if metric not in self._correlations:
            result = BlockCorrelations(None, None)
            if not self.clustered and self.blocks >= LEAST_BLOCKS:
                result = of_blocks(np.column_stack([self.by_block(metric, p) for p in self.points]))
            self._correlations[metric] = result
        return self._correlations[metric]

    def sampling(self, metric: str) -> SamplingScheme:
        """What the intervals of ratios within a block, and their tests, have to know."""
        return {
            "sequential": self.sequential,
            "correlation": self.correlations(metric).of_ratios,
        }

    @cached_property
    def _correlations(self) -> dict[str, BlockCorrelations]:
        return {}

    @cached_property
    def measured(self) -> bool:
        """Whether any trial measured something."""
        return any(map(self.experiment.measures, self.samples.outcomes))

    @property
    def blocks(self) -> int:
        """How many blocks have samples: a row may name any number, and arrays are of this size."""
        return len(self._blocks)

    @cached_property
    def _blocks(self) -> IntArray:
        return np.unique(self.samples.taken("block"))

    def _block(self, samples: Samples) -> IntArray:
        """Which of the blocks that have samples each of these is of."""
        return np.searchsorted(self._blocks, samples.taken("block"))

    def baseline_loop(self, metric: Metric, point: Point) -> npt.NDArray[np.float64]:
        """The baseline loop of a metric in a point's samples; empty where it has none."""
        if metric.baseline_loop is None:
            return np.empty(0)
        return self.with_baseline_loop(metric, point).column(_baseline_loop(metric))

    def extrapolated(self, metric: Metric, samples: Samples) -> bool:
        """Whether a value of these samples is more than was measured."""
        if metric.extrapolated is None:
            return False
        return bool((samples.column(_extrapolated(metric)) > 0).any())

    def valued(self, metric: str, point: Point) -> Samples:
        """The samples of a point that have a value of a metric."""
        return self.by_point[point.index].having(metric)

    def with_baseline_loop(self, metric: Metric, point: Point) -> Samples:
        """The samples of a point that have a baseline loop of a metric."""
        return self.by_point[point.index].having(_baseline_loop(metric))

    def good(self, point: Point) -> Samples:
        """The samples of a point that ended ok and returned something."""
        return self.by_point[point.index].having(_NOISE)

    def disturbed(self, samples: Samples) -> npt.NDArray[np.bool_]:
        """Which of these samples have a flag of what the kernel counted meanwhile."""
        result: npt.NDArray[np.bool_] = np.nan_to_num(samples.column(_NOISE)) > 0
        return result

    @cached_property
    def summaries(self) -> Sequence[PointSummary]:
        """One summary a point, in the plan's order."""
        # Column by column, all points at once: point by point it takes ten times as long.
        medians: list[dict[str, Interval]] = [{} for _ in self.points]
        baseline_loops: list[dict[str, float]] = [{} for _ in self.points]
        extrapolated: list[set[str]] = [set() for _ in self.points]
        noise: list[dict[str, int]] = [{} for _ in self.points]
        for metric in self.metrics:
            for number, median in self._medians(metric.name):
                medians[number][metric.name] = median
            if metric.baseline_loop is not None:
                for numbers, ordered in self._ordered(_baseline_loop(metric)):
                    for number, baseline_loop in zip(
                        numbers, middles(ordered).tolist(), strict=True
                    ):
                        if metric.name in medians[number]:
                            baseline_loops[number][metric.name] = baseline_loop
            if metric.extrapolated is not None:
                for which, values in self._of_points(_extrapolated(metric)):
                    for number in which[(values > 0).any(axis=1)].tolist():
                        extrapolated[number].add(metric.name)
        for which, bits in self._of_points(_NOISE):
            for number, flags in zip(which.tolist(), _flags(bits), strict=True):
                noise[number] = flags
        for numbers, ordered in self._ordered(self.metrics[0].name):
            for number, count in zip(numbers, outlier_counts(ordered).tolist(), strict=True):
                noise[number] |= {"outlier": count} if count else {}
        return tuple(
            PointSummary(
                point=point,
                outcomes=self.by_point[point.index].outcomes,
                details=self.by_point[point.index].details,
                medians={} if only_outcome else medians[number],
                baseline_loops={} if only_outcome else baseline_loops[number],
                extrapolated=[] if only_outcome else sorted(extrapolated[number]),
                noise=Counter(noise[number]),
            )
            for number, point in enumerate(self.points)
            for only_outcome in [self.experiment.only_outcome(point.at)]
        )

    def _medians(self, metric: str) -> Iterator[tuple[int, Interval]]:
        """The number of each point that has a median, and the median."""
        if self.clustered:
            for number, point in enumerate(self.points):
                values = self.values(metric, point)
                if np.isfinite(values).any():
                    yield number, self.interval(values, metric)
            return
        for numbers, ordered in self._ordered(metric):
            widening = self._widening(self.correlations(metric), ordered.shape[1])
            medians = median_intervals(ordered, sequential=self.sequential, correlation=widening)
            yield from zip(numbers, medians, strict=True)

    def _ordered(self, name: str) -> Iterator[tuple[list[int], FloatArray]]:
        """The numbers in a column in rising order, shape (points, n), of points that have as many,
        and which points these are."""
        for numbers, values in self._of_points(name):
            values.sort(axis=1)  # nan comes last
            counts = np.count_nonzero(~np.isnan(values), axis=1)
            for count in np.unique(counts[counts > 0]).tolist():
                yield numbers[counts == count].tolist(), values[counts == count, :count]

    def _of_points(self, name: str) -> Iterator[tuple[IntArray, FloatArray]]:
        """A column, shape (points, samples), of points that have as many, and which these are."""
        for numbers, places in self._places:
            yield numbers, self.samples.table[name][places]

    @cached_property
    def _places(self) -> Sequence[tuple[IntArray, IntArray]]:
        """Points that have as many samples, and where in the table each one's are."""
        rows = [self.by_point[point.index].rows for point in self.points]
        sizes = np.array([*map(len, rows)], np.int64)
        results = []
        for size in np.unique(sizes[sizes > 0]):
            numbers = np.flatnonzero(sizes == size)
            results.append((numbers, np.stack([rows[number] for number in numbers])))
        return results

    def matching(self, at: Mapping[str, Any]) -> Iterator[Point]:
        """The points that have these levels."""
        for point in self.points:
            if all(point.at[name] == level for name, level in at.items()):
                yield point

    def control(self, name: str) -> list[Point]:
        return [point for point in self.points if point.control == name]

    def flagged(self, samples: Samples) -> Mapping[str, npt.NDArray[np.bool_]]:
        """By disturbance, which of the samples it flags."""
        bits = np.nan_to_num(samples.column(_NOISE)).astype(np.int64)
        return {word: (bits >> bit & 1).astype(bool) for bit, word in enumerate(DISTURBANCES)}

    def pooled_baseline_loop(self, metric: Metric, points: Iterable[Point]) -> float | None:
        """The median baseline loop of several points: at one size it is the same for all."""
        baseline_loops = [self.baseline_loop(metric, point) for point in points]
        pooled = np.concatenate(baseline_loops) if baseline_loops else np.empty(0)
        return float(np.median(pooled)) if pooled.size else None

    @property
    def wall_s(self) -> float:
        """How long its sessions lasted."""
        return sum(session.wall_s for session in self.sessions)

    @property
    def window_share(self) -> float | None:
        """The share of the run's wall time that was spent inside timed windows."""
        inside_s, trial_s = self.samples.column(_INSIDE) * 1e-9, self.samples.taken("trial_s")
        # The two of a duet have one window, and it lies within the trial of the first.
        inside_s = np.where(trial_s > 0, np.minimum(inside_s, trial_s), inside_s)
        return float(np.nansum(inside_s)) / self.wall_s if self.wall_s else None

    @cached_property
    def trials_share(self) -> float | None:
        """The share that trials took: their windows, and what is made ready and released beside."""
        return float(self.samples.taken("trial_s").sum()) / self.wall_s if self.wall_s else None

    @property
    def others_busy(self) -> float | None:
        """The share of their time that the CPUs which the run did not use were busy."""
        ticks, busy_ticks = (float(np.nansum(self.samples.column(name))) for name in _TICKS)
        return busy_ticks / ticks if ticks else None

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Tidy samples: run, point, block, outcome, a column a factor, then a column a metric."""
        import pandas as pd

        return pd.DataFrame(
            {
                name: pd.Series(cells[0]).take(cells[1]).array
                if isinstance(cells, tuple)
                else cells
                for name, cells in self._cells().items()
            }
        )

    def records(self) -> Iterator[dict[str, Any]]:
        """One sample as a flat row, metrics in base units, nan where there is none."""
        columns = self._cells()
        for start in range(0, len(self.samples), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            cells = [
                [of[0][i] for i in of[1][part]] if isinstance(of, tuple) else of[part].tolist()
                for of in columns.values()
            ]
            for row in zip(*cells, strict=True):
                yield dict(zip(columns, row, strict=True))

    def _cells(self) -> dict[str, npt.NDArray[Any] | tuple[list[Any], IntArray]]:
        """The columns of the frame: numbers, or the distinct values and which of them each sample
        has."""
        samples = self.samples
        by_index = {point.index: point for point in self.points}
        indices, of_point = np.unique(samples.taken("point"), return_inverse=True)
        points = [by_index[int(index)] for index in indices]
        bits, of_bits = np.unique(np.nan_to_num(samples.column(_NOISE)), return_inverse=True)
        noise = [",".join(flags) for flags in _flags(bits[:, None])]
        cpus, of_cpu = np.unique(samples.taken("cpu"), return_inverse=True)
        return {
            "run": ([self.id], np.zeros(len(samples), np.int64)),
            "sample": samples.taken("id"),
            "point": samples.taken("point").astype(np.int64),
            "control": ([point.control for point in points], of_point),
            "block": samples.taken("block").astype(np.int64),
            "position": samples.taken("position").astype(np.int64),
            "outcome": samples.coded("outcome"),
            "detail": samples.coded("detail"),
            "started_at": samples.taken("started_at"),
            "trial_s": samples.taken("trial_s"),
            **({self.unit: self.units(samples)} if self.clustered else {}),
            "cpu": ([None if np.isnan(cpu) else int(cpu) for cpu in cpus], of_cpu),
            "probe_hash": samples.coded("probe_hash"),
            "noise": (noise, of_bits),
            **{
                factor.name: ([point.at[factor.name] for point in points], of_point)
                for factor in self.experiment.factors
            },
            **{metric.name: samples.column(metric.name) for metric in self.metrics},
        }

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

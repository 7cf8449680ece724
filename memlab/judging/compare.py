"""Two runs compared, point by point: which points are slower, faster, the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from memlab.analysis.compare import Comparison, compare
from memlab.analysis.intervals import Interval, median_interval
from memlab.experiment import At, Experiment, Metric
from memlab.experiment.window import WINDOW_METRICS
from memlab.judging import exported
from memlab.observe import environment
from memlab.results import Run
from memlab.run import plan
from memlab.run.request import CannotRun

FAILS = {"regression": ("slower",), "difference": ("slower", "faster")}


class NotComparable(ValueError):
    """Two things that cannot be compared by mistake of the asker; one line says why."""


class Unlike(CannotRun):
    """Two runs of unlike machines; one line lists what differs, and `differs` holds it."""

    def __init__(self, base: str, new: str, differs: Sequence[str]) -> None:
        self.differs = "; ".join(differs)
        super().__init__(
            f"{base} and {new} are of unlike machines or settings: {self.differs}; "
            "--force compares them all the same"
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """One side of a comparison: its samples of the metric by point. No environment: unknown."""

    name: str
    values: Mapping[str, Sequence[float]]  # by plan.key of the levels
    at: Mapping[str, At]
    probe_hashes: frozenset[str]
    environment: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class PointComparison:
    """One point of both: medians in the metric's unit, and what the comparison says."""

    at: At
    base: float
    new: float
    new_interval: Interval
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs compared: the points that both hold, those that one lacks, what else differs."""

    experiment: Experiment
    metric: Metric
    base: str
    new: str
    threshold: float
    points: Sequence[PointComparison]
    only_base: Sequence[At]
    only_new: Sequence[At]
    remarks: Sequence[str]

    @property
    def counts(self) -> Counter[str]:
        return Counter(point.comparison.word for point in self.points)

    def fails(self, on: str) -> bool:
        """Whether a gate closes: `regression` on a slower point, `difference` on either way."""
        return any(self.counts[word] for word in FAILS[on])


def compare_runs(
    base: Run | Path,
    new: Run,
    *,
    metric: str | None = None,
    threshold: float = 0.05,
    force: bool = False,
) -> Compared:
    """Compare a run, or an exported file of one, with a newer run, over the points of both.

    `threshold` is the relative change that is too small to matter. Raises NotComparable,
    exported.BadExport, or Unlike where the machines differ and `force` is not given.
    """
    if threshold <= 0:
        raise NotComparable("the threshold is a share above 0, such as 5%")
    experiment = new.experiment
    chosen = metric_of(experiment, metric)
    after = _of_run(new, chosen)
    before, remarks = _base(base, experiment, chosen)
    remarks += _machines(before, after, force)
    remarks += _probes(before, after)
    shared = [key for key in after.values if key in before.values]
    if not shared:
        raise NotComparable(f"{before.name} and {after.name} share no point with samples")
    for side in (before, after):
        for key in shared:
            positive(side.values[key], chosen, side.name)
    found = compare(
        [(before.values[key], after.values[key]) for key in shared],
        threshold,
        chosen.lower_is_better,
    )
    return Compared(
        experiment=experiment,
        metric=chosen,
        base=before.name,
        new=after.name,
        threshold=threshold,
        points=[
            PointComparison(
                after.at[key],
                float(np.median(before.values[key])),
                float(np.median(after.values[key])),
                median_interval(after.values[key]),
                comparison,
            )
            for key, comparison in zip(shared, found, strict=True)
        ],
        only_base=[before.at[key] for key in before.values if key not in after.values],
        only_new=[after.at[key] for key in after.values if key not in before.values],
        remarks=remarks,
    )


def metric_of(experiment: Experiment, name: str | None) -> Metric:
    """The metric of that name, else the experiment's first; NotComparable names the nearest."""
    if name is None:
        return experiment.metrics[0]
    metrics = {m.name: m for m in (*experiment.metrics, *WINDOW_METRICS)}
    if name not in metrics:
        near = get_close_matches(name, metrics, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(metrics)}"
        raise NotComparable(f"{experiment.name} has no metric {name!r}; {hint}")
    return metrics[name]


def _base(base: Run | Path, experiment: Experiment, metric: Metric) -> tuple[Measured, list[str]]:
    if isinstance(base, Path):
        return _of_file(base, experiment, metric)
    if base.experiment.name != experiment.name:
        raise NotComparable(
            f"run {base.id} is of {base.experiment.name}, and the other of {experiment.name}"
        )
    return _of_run(base, metric), []


def _of_run(run: Run, metric: Metric) -> Measured:
    values, at = {}, {}
    for point in run.points:
        found = run.values(metric.name, point)
        found = found[np.isfinite(found)]
        if found.size:
            key = plan.key(point.at)
            values[key], at[key] = found.tolist(), point.at
    hashes = frozenset(s.probe_hash for s in run.samples if s.probe_hash)
    return Measured(f"run {run.id}", values, at, hashes, run.environment)


def _of_file(path: Path, experiment: Experiment, metric: Metric) -> tuple[Measured, list[str]]:
    found = exported.read(path, experiment, metric.name)
    values: dict[str, list[float]] = {}
    at: dict[str, At] = {}
    for row in found.rows:
        if row.value is not None:
            key = plan.key(row.at)
            values.setdefault(key, []).append(row.value)
            at[key] = row.at
    hashes = frozenset(row.probe_hash for row in found.rows if row.probe_hash)
    machine = exported.machine(path)
    remarks = []
    if machine is None:
        remarks.append(f"{path} says nothing of its machine: that it is this one is taken on trust")
    if found.unknown:
        remarks.append(f"columns of {path} that are not known here: {', '.join(found.unknown)}")
    return Measured(f"{path} (run {found.run})", values, at, hashes, machine), remarks


def positive(samples: Sequence[float], metric: Metric, where: str) -> None:
    """NotComparable where a sample has no ratio to anything."""
    if min(samples) <= 0:
        raise NotComparable(
            f"{metric.name} is 0 in samples of {where}: a ratio needs values above 0; "
            "choose another --metric"
        )


def _machines(base: Measured, new: Measured, force: bool) -> list[str]:
    """What differs between the machines, as remarks; Unlike where that is not to be overlooked."""
    if base.environment is None or new.environment is None:
        return []
    sides = (base.environment, new.environment)
    emulated = [environment.EMULATED] if any(side.get("emulated_time") for side in sides) else []
    differs = environment.unlike(base.environment, new.environment)
    if _guests_of_one_machine(base.environment, new.environment):
        return [*emulated, *(f"the guests differ: {line}" for line in differs)]
    if differs and not force:
        raise Unlike(base.name, new.name, differs)
    return [*emulated, *(f"unlike machines, compared by force: {line}" for line in differs)]


def _guests_of_one_machine(base: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Two guests on the same processor, as large as one another when they were asked for, differ
    in what they were asked to: their kernels. Each of those keeps another share of the memory."""
    same = ("machine_id_hash", "cpu_model", "emulated_time")
    asked = ("memory_bytes", "cpus")
    return (
        "guest" in base
        and "guest" in new
        and all(base.get(key) == new.get(key) for key in same)
        and all(base["guest"].get(key) == new["guest"].get(key) for key in asked)
    )


def _probes(base: Measured, new: Measured) -> list[str]:
    if base.probe_hashes == new.probe_hashes:
        return []
    before, after = (
        ", ".join(sorted(probe_hash[:8] for probe_hash in side.probe_hashes))
        for side in (base, new)
    )
    return [f"the probes differ, {before} and {after}: a difference may be theirs"]

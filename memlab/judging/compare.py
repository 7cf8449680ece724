"""Two runs compared, point by point: which points are slower, faster, the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memlab.analysis.compare import Comparison, compare, compare_exact
from memlab.analysis.intervals import Interval
from memlab.errors import NotComparable, Unlike, nearest
from memlab.experiment import At, Count, Experiment, Metric
from memlab.experiment.points import point_key, point_label
from memlab.experiment.window import OTHERS_BUSY_SHARE, WINDOW_METRICS
from memlab.judging import lock_coverage, user_faults
from memlab.judging.disturbed import Disturbed, is_timing
from memlab.observe import environment
from memlab.results import Run
from memlab.text import units

_NAMED = 4  # levels or points that a message names
DISTURBED_SHARE = 0.25  # of a side's samples, above which a comparison says so
_FORCED = "unlike machines, compared by force: "
FAILS = {"regression": ("slower",), "difference": ("slower", "faster")}


@dataclass(frozen=True, slots=True)
class Measured:
    """One side of a comparison: its samples of the metric by point."""

    name: str
    values: Mapping[str, Sequence[float]]  # by point_key of the levels
    at: Mapping[str, At]
    probe_hashes: frozenset[str]
    environment: Mapping[str, Any]
    others_busy: float | None  # the share of time that other CPUs were; None: unknown
    unit: str  # what counts once: `block`, `session` or `recording`
    sequential: bool  # whether how many there are was chosen by looking
    turns: bool  # whether points took turns, else had windows


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
    heads: tuple[str, str] = ("base", "new")  # of a table's columns
    disturbed: Sequence[Disturbed] = ()  # each run that it is of
    one_session_each: bool = False
    unlike: Sequence[str] = ()  # of the remarks, a line for each thing in which the machines differ

    @property
    def notes(self) -> list[str]:
        """The remarks, those on unlike machines in one line."""
        each = {_FORCED + line for line in self.unlike}
        rest = [line for line in self.remarks if line not in each]
        return [_FORCED + environment.in_short(self.unlike), *rest] if self.unlike else rest

    @property
    def too_few(self) -> int:
        """How many points have too few blocks for a verdict."""
        return sum(point.comparison.too_few for point in self.points)

    @property
    def unit(self) -> str:
        """What counts once: `block`, `session` or `recording`."""
        return self.points[0].comparison.unit

    @property
    def counts(self) -> Counter[str]:
        return Counter(point.comparison.word for point in self.points)

    @property
    def undecided(self) -> str:
        """Why a gate neither closes nor opens: others disturbed all samples of a side. Empty if
        it does either."""
        if not is_timing(self.metric):
            return ""
        return next((side.text for side in self.disturbed if side.is_all), "")

    def fails(self, on: str) -> bool:
        """Whether a gate closes: `regression` on a slower point, `difference` on either way."""
        return not self.undecided and any(self.counts[word] for word in FAILS[on])


def compare_runs(
    base: Run,
    new: Run,
    *,
    metric: str | None = None,
    threshold: float = 0.05,
    force: bool = False,
) -> Compared:
    """Compare a run with a newer run, over the points of both.

    `threshold` is the relative change that is too small to matter. Raises NotComparable,
    or Unlike where the machines differ and `force` is not given.
    """
    if threshold <= 0:
        raise NotComparable("the threshold is a share above 0, such as 5%")
    experiment = new.experiment
    chosen = metric_of(experiment, metric)
    if base.experiment.name != experiment.name:
        raise NotComparable(
            f"run {base.id} is of {base.experiment.name}, and the other of {experiment.name}"
        )
    if why := user_faults.unlike(chosen, base, new):
        raise NotComparable(why)
    before, after = _of_run(base, chosen), _of_run(new, chosen)
    remarks, unlike = _machines(experiment, before, after, force)
    remarks += _readahead(experiment, before, after)
    remarks += _turns(before, after, force)
    remarks += _probes(before, after)
    remarks += _disturbance(before, after)
    remarks += _flagged([base, new])
    remarks += replayed([base, new])
    remarks += uncovered([base, new], chosen)
    remarks += _sessions(before, after)
    shared = [key for key in after.values if key in before.values]
    if not shared:
        raise NotComparable(
            f"{before.name} and {after.name} share no point with samples"
            f"{_no_shared_level(experiment, before, after)}"
        )
    zero = [key for key in shared if min(*before.values[key], *after.values[key]) <= 0]
    if len(zero) == len(shared):
        raise no_ratio(chosen, after.name)
    shared = [key for key in shared if key not in zero]
    sides = [(after.at[key], before.values[key], after.values[key]) for key in zero]
    remarks += left_out(experiment, chosen, sides)
    correlation = max(run.correlations(chosen.name).of_medians for run in (base, new))
    comparisons = _compared(experiment, chosen, before, after, shared, threshold, correlation)
    return Compared(
        experiment=new.named,
        metric=chosen,
        base=before.name,
        new=after.name,
        threshold=threshold,
        points=[
            PointComparison(
                after.at[key],
                float(np.median(before.values[key])),
                float(np.median(after.values[key])),
                new.interval(np.asarray(after.values[key]), chosen.name),
                comparisons[key],
            )
            for key in shared
        ],
        only_base=[before.at[key] for key in before.values if key not in after.values],
        only_new=[after.at[key] for key in after.values if key not in before.values],
        remarks=remarks,
        disturbed=[Disturbed.of_run(run) for run in (base, new)],
        one_session_each=before.unit == after.unit == "block",
        unlike=unlike,
    )


def _compared(
    experiment: Experiment,
    metric: Metric,
    before: Measured,
    after: Measured,
    shared: Sequence[str],
    threshold: float,
    correlation: float,
) -> dict[str, Comparison]:
    """Each point by the test of its samples; a count that cannot vary by the first of them."""
    unit = before.unit if before.unit == after.unit else "block"
    sides = {key: (before.values[key], after.values[key]) for key in shared}
    counts = [claim for claim in experiment.claims if isinstance(claim, Count) and claim.exact]
    wheres = [claim.where for claim in counts if claim.metric == metric.name]
    exact = {
        key: compare_exact(
            old[0], new[0], threshold, metric.lower_is_better, min(len(old), len(new)), unit
        )
        for key, (old, new) in sides.items()
        if len({*old}) == len({*new}) == 1
        and any(where.items() <= after.at[key].items() for where in wheres)
    }
    varying = [key for key in shared if key not in exact]
    tested = compare(
        [sides[key] for key in varying],
        threshold,
        metric.lower_is_better,
        unit,
        (before.sequential, after.sequential),
        correlation,
    )
    return exact | dict(zip(varying, tested, strict=True))


def metric_of(experiment: Experiment, name: str | None) -> Metric:
    """The metric of that name, else the experiment's first; NotComparable names the nearest."""
    if name is None:
        return experiment.metrics[0]
    metrics = {m.name: m for m in experiment.metrics}
    metrics |= {m.name: m for m in WINDOW_METRICS if m.name not in metrics}
    if name not in metrics:
        raise NotComparable(f"{experiment.name} has no metric {name!r}; {nearest(name, metrics)}")
    return metrics[name]


def _of_run(run: Run, metric: Metric) -> Measured:
    values, at = {}, {}
    for point in run.points:
        result = run.values(metric.name, point)
        result = result[np.isfinite(result)]
        if result.size:
            key = point_key(point.at)
            values[key], at[key] = result.tolist(), point.at
    hashes = frozenset(run.samples.probe_hashes)
    name, busy = f"run {run.id}", run.others_busy
    return Measured(
        name, values, at, hashes, run.environment, busy, run.unit, run.sequential, run.turns
    )


def _sessions(base: Measured, new: Measured) -> list[str]:
    """A remark if only one side says how much a session differs from the next."""
    sides = {side.unit: side.name for side in (base, new)}
    if sides.keys() != {"block", "session"}:
        return []
    return [
        f"{sides['block']} is of one session: how far another one would lie is not in its samples; "
        "measure it with --design sessions=N too"
    ]


def _disturbance(base: Measured, new: Measured) -> list[str]:
    """A remark where one side was measured beside more work of others than the other was."""
    before, after = base.others_busy, new.others_busy
    if before is None or after is None or abs(before - after) <= OTHERS_BUSY_SHARE:
        return []
    return [
        f"unlike disturbance: the other CPUs were busy for {units.format_percent(before)} of the "
        f"time of {base.name} and {units.format_percent(after)} of {new.name}; as levels of one "
        "sweep both sides would share it"
    ]


def _flagged(sides: Sequence[Run]) -> list[str]:
    """A remark where so many samples of a side were disturbed that its medians may be."""
    counts = [(int(run.disturbed(run.samples).sum()), len(run.samples)) for run in sides]
    if not any(count > DISTURBED_SHARE * of for count, of in counts):
        return []
    parts = [
        f"{count} of {of} samples of run {run.id}"
        for run, (count, of) in zip(sides, counts, strict=True)
    ]
    return [
        f"flagged as disturbed: {', '.join(parts)}; measured one after the other, sides differ in "
        "what disturbs them; levels of one sweep share it"
    ]


def replayed(sides: Sequence[Run]) -> list[str]:
    """What is said of each trace that was replayed: what it does not show of its program."""
    return [
        f"run {run.id} is of {(run.experiment.declared_from or {})['trace']}"
        for run in sides
        if run.experiment.copied
    ]


def uncovered(sides: Sequence[Run], metric: Metric) -> list[str]:
    """What is said of each command: for how much of it a lock is not known to be in force, and of
    page faults how many are not counted."""
    faults = user_faults.uncounted if metric.name == user_faults.METRIC else lambda _: ()
    return [
        f"run {run.id}: {line}"
        for run in sides
        for line in (*lock_coverage.lines(run), *faults(run))
    ]


def no_ratio(metric: Metric, where: str) -> NotComparable:
    return NotComparable(
        f"{metric.name} is 0 in samples of {where}: a ratio needs values above 0; "
        "choose another --metric"
    )


def left_out(
    experiment: Experiment,
    metric: Metric,
    points: Sequence[tuple[At, Sequence[float], Sequence[float]]],
) -> list[str]:
    """A remark on (point, base's samples, new's) of which some are 0, and so have no ratio."""
    if not points:
        return []
    unlike = [
        f"{point_label(experiment, at, at)}: {np.median(base):.10g} and {np.median(new):.10g}"
        for at, base, new in points
        if {*base, *new} != {0.0}
    ]
    alike = len(points) - len(unlike)
    parts = [f"{alike} of them 0 on both sides"] if alike else []
    parts += unlike[:_NAMED] + ([f"and {len(unlike) - _NAMED} more"] if unlike[_NAMED:] else [])
    return [f"no ratio at {len(points)} points, where {metric.name} is 0: {'; '.join(parts)}"]


def _no_shared_level(experiment: Experiment, base: Measured, new: Measured) -> str:
    """The factors that only one side has, or whose levels differ entirely between the two."""
    apart = []
    for factor in experiment.factors:
        if any(factor.name not in at for at in base.at.values()):  # of another `try`
            apart.append(f"{factor.name} is a factor of only one run")
            continue
        sides = [list(dict.fromkeys(at[factor.name] for at in s.at.values())) for s in (base, new)]
        if all(sides) and not set(sides[0]) & set(sides[1]):
            levels = (", ".join(map(factor.kind.format, side[:_NAMED])) for side in sides)
            apart.append(f"{factor.name} is {' in one and '.join(levels)} in the other")
    return f": {'; '.join(apart)}" if apart else ""


def _machines(
    experiment: Experiment, base: Measured, new: Measured, force: bool
) -> tuple[list[str], list[str]]:
    """Remarks on the machines, and what differs between those that only force compares; Unlike
    without it."""
    sides = (base.environment, new.environment)
    emulated = [environment.EMULATED] if any(side.get("emulated_time") for side in sides) else []
    differs = environment.unlike(
        base.environment, new.environment, swap_counts=experiment.host.swap_counts
    )
    if _guests_of_one_machine(base.environment, new.environment):
        return [*emulated, *(f"the guests differ: {line}" for line in differs)], []
    if differs and not force:
        raise Unlike(base.name, new.name, differs, environment.in_short(differs))
    return [*emulated, *(_FORCED + line for line in differs)], differs


def _readahead(experiment: Experiment, base: Measured, new: Measured) -> list[str]:
    """Where the devices below their files read ahead by other amounts. No reason to refuse: two
    disks may be what is compared. Older runs do not say it."""
    file = experiment.file
    used = {at[file.filesystem] for at in new.at.values()} if file else set()
    places = [side.environment.get("filesystems", {}) for side in (base, new)]
    lines = []
    for level in sorted(map(str, used)):
        old, now = (place.get(level, {}).get("readahead_kib") for place in places)
        if None not in (old, now) and old != now:
            lines.append(
                f"the readahead below {level} is {old} KiB in {base.name} and {now} KiB in "
                f"{new.name}: it decides what page faults on files cost"
            )
    return lines


def _turns(base: Measured, new: Measured, force: bool) -> list[str]:
    """A window has the machine's stalls in it, and the middle half of the turns has not."""
    if base.turns == new.turns:
        return []
    turned, other = (base, new) if base.turns else (new, base)
    words = (
        f"{turned.name} was taken in turns, without the machine's stalls, {other.name} in windows"
    )
    if not force:
        text = f"{words} (sweep --design turns)"
        raise Unlike(base.name, new.name, [text], text)
    return [f"unlike settings, compared by force: {words}"]


def _guests_of_one_machine(base: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Two guests on the same processor, as large as one another when they were asked for, differ
    in what they were asked to: their kernels. Each of those keeps another share of the memory."""
    same = ("machine_id_hash", "cpu_model", "emulated_time")
    request = ("memory_bytes", "cpus")
    return (
        "guest" in base
        and "guest" in new
        and all(base.get(key) == new.get(key) for key in same)
        and all(base["guest"].get(key) == new["guest"].get(key) for key in request)
    )


def _probes(base: Measured, new: Measured) -> list[str]:
    if base.probe_hashes == new.probe_hashes:
        return []
    before, after = (
        ", ".join(sorted(probe_hash[:8] for probe_hash in side.probe_hashes))
        for side in (base, new)
    )
    return [f"the probes differ, {before} and {after}: a difference may be theirs"]

"""What a figure of members shows, as data: every member's value, and what they come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memlab.experiment import At, Members
from memlab.present import words
from memlab.present.figures.series import samples_behind, varied
from memlab.results import Run
from memlab.run.plan import Point
from memlab.store import SampleRow


@dataclass(frozen=True, slots=True)
class Strip:
    """One point: the members of the trial whose metric is the median, and of the others.

    `mean` and `spread`, one standard deviation of the members, are medians over the trials; the
    one that is `apart` is in neither.
    """

    at: At
    drawn: Sequence[float]
    behind: Sequence[Sequence[float]]
    apart: int | None
    mean: float
    spread: float
    drawn_sample: int | None
    samples: tuple[int, ...]
    probe_hashes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Untold:
    """A point without a value, and why."""

    at: At
    why: str
    details: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pane:
    """One pair of axes: the levels that hold there, and a strip for each level of over and by."""

    at: At
    strips: Sequence[Strip | Untold]


def panes(run: Run, shown: Members) -> list[Pane]:
    """Every panel; a factor that varies and is not named in the declaration gets panels too."""
    grid = [point for point in run.points if point.control is None]
    own = [shown.over, *shown.by]
    names = [*shown.panels, *(n for n in varied(run) if n not in (*own, *shown.panels))]
    found: dict[tuple[tuple[str, Any], ...], list[Strip | Untold]] = {}
    for point in grid:
        found.setdefault(tuple((name, point.at[name]) for name in names), []).append(
            _strip(run, shown, point)
        )
    return [Pane(dict(at), strips) for at, strips in found.items()]


def _strip(run: Run, shown: Members, point: Point) -> Strip | Untold:
    metric = run.metric(shown.metric)
    samples = samples_behind(run, point, metric.of)
    if not samples:
        every = run.by_point[point.index]
        why = ", ".join(dict.fromkeys(sample.outcome for sample in every)) or "not measured"
        return Untold(point.at, why, tuple(dict.fromkeys(s.detail for s in every if s.detail)))
    values = [run.value(metric, sample, point) for sample in samples]
    middle = float(np.median(values))
    chosen = min(range(len(values)), key=lambda i: abs(values[i] - middle))
    members = [list(shown.members(sample.raw or {}, point.at)) for sample in samples]
    apart = shown.apart(point.at)
    counted = [[v for i, v in enumerate(trial) if i != apart] for trial in members]
    return Strip(
        at=point.at,
        drawn=members[chosen],
        behind=[trial for i, trial in enumerate(members) if i != chosen],
        apart=apart,
        mean=float(np.median([np.mean(trial) for trial in counted])),
        spread=float(np.median([np.std(trial) for trial in counted])),
        drawn_sample=samples[chosen].id,
        samples=_ids(samples),
        probe_hashes=tuple(dict.fromkeys(sample.probe_hash for sample in samples)),
    )


def _ids(samples: Sequence[SampleRow]) -> tuple[int, ...]:
    return tuple(sample.id for sample in samples if sample.id is not None)


def label(run: Run, shown: Members, at: At) -> str:
    """A strip's levels, of the factors that vary; its first one where none does."""
    own = [shown.over, *shown.by]
    return words.levels(run.experiment, at, [n for n in own if n in varied(run)] or own[:1])


def as_data(run: Run, shown: Members) -> list[dict[str, Any]]:
    """The sidecar's rows: every strip with its dots and the samples behind it."""
    unit = run.metric(shown.metric).unit
    return [
        {
            "panel": dict(pane.at),
            "kind": "members",
            "series": label(run, shown, strip.at),
            "levels": dict(strip.at),
            "metric": shown.metric,
            "unit": unit,
            "members": [_finite(value) for value in strip.drawn],
            "apart": strip.apart,
            "mean": _finite(strip.mean),
            "spread": _finite(strip.spread),
            "drawn_sample": strip.drawn_sample,
            "samples": list(strip.samples),
            "probe": run.experiment.probe,
            "probe_hashes": list(strip.probe_hashes),
            "c_file": f"probes/{run.experiment.probe}.c",
        }
        if isinstance(strip, Strip)
        else {
            "panel": dict(pane.at),
            "kind": "members",
            "series": label(run, shown, strip.at),
            "levels": dict(strip.at),
            "why": strip.why,
            "details": list(strip.details),
        }
        for pane in panes(run, shown)
        for strip in pane.strips
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

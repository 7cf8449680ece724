"""What stands beside a run's figures: for every mark, its numbers, its samples, and the C file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlab.experiment import figures as declared
from memlab.present import words
from memlab.present.figures import (
    bar_marks,
    causes,
    checks,
    marks,
    matrix,
    pair_marks,
    percentiles,
    predictions,
    strips,
    timelines,
    tradeoffs,
)
from memlab.present.figures.series import Crossed, Panel, Series
from memlab.results import Run, attribution

# What each kind of declaration shows, as data.
_PANELS: Mapping[type, Callable[[Run, Any], list[Panel]]] = {
    declared.Lines: lambda run, _: marks.panels(run),
    declared.Bars: bar_marks.panels,
    declared.Against: pair_marks.panels,
}
# The rows of kinds that do not show a metric's medians.
_ROWS: Mapping[type, Callable[[Run, Any], list[dict[str, Any]]]] = {
    declared.Nines: percentiles.as_data,
    declared.Checks: checks.as_data,
    declared.Matrix: matrix.as_data,
    declared.Members: strips.as_data,
    declared.Timeline: timelines.as_data,
    declared.Tradeoff: tradeoffs.as_data,
    declared.Causes: causes.as_data,
}


def shown(run: Run) -> dict[str, declared.Figure | declared.Against]:
    """The figures that the run has something to show in; the experiment's first one is ""."""
    every = {"": run.experiment.figure, **run.experiment.more_figures}
    return {
        name: figure
        for name, figure in every.items()
        if not isinstance(figure, declared.Causes) or attribution.tried(run)
    }


def as_json(run: Run) -> str:
    """The sidecar as text, one mark a line."""
    fields = []
    for name, value in as_data(run).items():
        text = json.dumps(value, allow_nan=False)
        if isinstance(value, list) and value:
            rows = ",\n  ".join(json.dumps(row, allow_nan=False) for row in value)
            text = f"[\n  {rows}\n ]"
        fields.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def as_data(run: Run) -> dict[str, Any]:
    """The sidecar as plain data: base units, None where there is no number.

    `figure` is a figure's name as in `<stem>-<name>.png`; the experiment's first one has none.
    """
    first = run.experiment.figure
    figures = shown(run)
    drawn = [
        (name, seen, panel)
        for name, figure in figures.items()
        if type(figure) in _PANELS
        for seen in [run.showing(figure)]
        for panel in _PANELS[type(figure)](seen, figure)
    ]
    return {
        "run": run.id,
        "experiment": run.experiment.name,
        "store": str(run.store_path.absolute()),
        "memlab": run.row.memlab,
        "metric": first.metric,
        "over": first.over,
        "figures": [{"figure": n, "kind": type(figure).__name__} for n, figure in figures.items()],
        "marks": [
            {"figure": name} | mark
            for name, seen, panel in drawn
            for series in panel.series
            for mark in _marks(seen, panel, series)
        ]
        + [
            {"figure": name} | row
            for name, figure in figures.items()
            if type(figure) in _ROWS
            for row in _ROWS[type(figure)](run.showing(figure), figure)
        ],
        "crossings": [
            {"figure": name} | _crossing(seen, panel, crossed)
            for name, seen, panel in drawn
            for crossed in panel.crossed
        ],
        "missing": [
            {"figure": name} | mark
            for name, _, panel in drawn
            for series in panel.series
            for mark in _missing(panel, series)
        ],
        "models": [
            {"figure": name} | row
            for name, figure in figures.items()
            if isinstance(figure, declared.Lines)
            for seen in [run.showing(figure)]
            for row in predictions.as_data(seen, marks.panels(seen))
        ],
    }


def _marks(run: Run, panel: Panel, series: Series) -> Iterator[dict[str, Any]]:
    metric = run.metric(series.metric or run.experiment.figure.metric)
    for mark in series.marks:
        row: dict[str, Any] = {
            "panel": dict(panel.at),
            "kind": series.kind,
            "series": series.label,
            "levels": dict(mark.at),
            "x": mark.x,
            "metric": metric.name,
            "unit": "1" if mark.to is not None else metric.unit,
        }
        if mark.to is not None:
            row["to"] = dict(mark.to)
        if series.source:
            yield (
                row
                | {"value": mark.y, "printed": mark.printed, "bound": mark.bound}
                | {"source": series.source}
            )
            continue
        yield row | {
            "median": mark.y,
            "low": mark.low,
            "high": mark.high,
            "n": mark.n,
            "extrapolated": mark.extrapolated,
            "samples": list(mark.samples),
            "probe": run.experiment.probe,
            "probe_hashes": list(mark.probe_hashes),
            "c_file": f"probes/{run.experiment.probe}.c",
        }


def _crossing(run: Run, panel: Panel, crossed: Crossed) -> dict[str, Any]:
    found = crossed.crossing.found
    return {
        "panel": dict(panel.at),
        "control": crossed.control,
        "of": dict(crossed.crossing.of),
        "to": dict(crossed.crossing.to),
        "over": run.experiment.figure.over,
        "estimate": _finite(found.estimate),
        "low": _finite(found.low),
        "high": _finite(found.high),
        "n": found.n,
        "cost": _finite(crossed.crossing.cost),
        "words": words.crossing(run.experiment, crossed.crossing),
        "samples": list(crossed.samples),
    }


def _missing(panel: Panel, series: Series) -> Iterator[dict[str, Any]]:
    for missing in series.missing:
        yield {
            "panel": dict(panel.at),
            "kind": series.kind,
            "series": series.label,
            "levels": dict(missing.at),
            "why": missing.why,
            "outcomes": dict(missing.outcomes),
            "details": list(missing.details),
        }


def _finite(value: float | None) -> float | None:
    """JSON has no infinity: what lies outside the sizes measured is None, and `words` says so."""
    return value if value is not None and math.isfinite(value) else None

"""What stands beside a figure: for every mark, its numbers, its samples, and the C file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlab.experiment import figures as declared
from memlab.present import words
from memlab.present.figures import marks, percentiles, predictions
from memlab.present.figures.marks import Crossed, Panel, Series
from memlab.results import Run

# What the kinds that have no panels of marks put beside themselves.
_ROWS: Mapping[type, Callable[[Run, Any], list[dict[str, Any]]]] = {
    declared.Nines: percentiles.as_data,
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
    """The sidecar as plain data: base units, None where there is no number."""
    first = run.experiment.figure
    panels = marks.panels(run) if isinstance(first, declared.Lines) else []
    rows = [
        {"figure": name} | row
        for name, shown in {"": first, **run.experiment.more_figures}.items()
        if type(shown) in _ROWS
        for row in _ROWS[type(shown)](run, shown)
    ]
    return {
        "run": run.id,
        "experiment": run.experiment.name,
        "store": str(run.store_path.absolute()),
        "memlab": run.row.memlab,
        "metric": run.experiment.figure.metric,
        "over": run.experiment.figure.over,
        "marks": [mark for panel in panels for s in panel.series for mark in _marks(run, panel, s)]
        + rows,
        "crossings": [_crossing(run, panel, c) for panel in panels for c in panel.crossed],
        "missing": [mark for panel in panels for s in panel.series for mark in _missing(panel, s)],
        "models": predictions.as_data(run, panels),
    }


def _marks(run: Run, panel: Panel, series: Series) -> Iterator[dict[str, Any]]:
    metric = run.metric(run.experiment.figure.metric)
    for mark in series.marks:
        row = {
            "panel": dict(panel.at),
            "kind": series.kind,
            "series": series.label,
            "levels": dict(mark.at),
            "metric": metric.name,
            "unit": metric.unit,
        }
        if series.kind == "published":
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

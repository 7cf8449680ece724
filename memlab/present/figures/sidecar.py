"""What stands beside a run's figures: for every mark, its numbers, its samples, and the C file."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from memlab.experiment import figures as declared
from memlab.present.figures import (
    frame,
    kinds,
)
from memlab.results import Run, attribution
from memlab.results.samples import Samples

# Where a row of that kind stands, if not among the marks.
_LISTS = {"": "marks", "crossing": "crossings", "unavailable": "unavailable", "model": "models"}


def shown(run: Run) -> dict[str, declared.Figure]:
    """The figures that the run has something to show in; the experiment's first one is ""."""
    every = {"": run.experiment.figure, **run.experiment.more_figures}
    return {
        name: figure
        for name, figure in every.items()
        if (not isinstance(figure, declared.Causes) or attribution.tried(run))
        and not (name and isinstance(figure, declared.Timeline) and not _has(run, figure.metric))
    }


def _has(run: Run, metric: str) -> bool:
    return any(metric in summary.medians for summary in run.summaries)


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
    ids = run.samples.taken("id")
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in _LISTS.values()}
    for name, figure in figures.items():
        drawn = run.showing(figure)
        for row in frame.as_data(kinds.rows(drawn, figure)):
            behind = row.get("samples", ())
            place = "unavailable" if "why" in row else row.get("kind", "")
            results[_LISTS.get(place, "marks")].append(
                {"figure": name}
                | row
                | (_source(run, run.samples[np.searchsorted(ids, list(behind))]) if behind else {})
            )
    return {
        "run": run.id,
        "experiment": run.experiment.name,
        "store": str(run.store_path.absolute()),
        "memlab": run.row.memlab,
        "metric": first.metric,
        "over": first.over,
        "figures": [{"figure": n, "kind": type(figure).__name__} for n, figure in figures.items()],
        **results,
    }


def digest(*shown: Any) -> str:
    """16 hexadecimal digits of all that a figure shows, numbers to 6 digits: others where one of
    them is another."""
    text = json.dumps(_rounded(shown), allow_nan=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    """Of a processor's last digits no figure is another."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return f"{value:.6g}" if isinstance(value, float) else value


def _source(run: Run, behind: Samples) -> dict[str, Any]:
    """What measured the samples behind a mark."""
    return {
        "probe": run.experiment.probe,
        "probe_hashes": list(behind.probe_hashes),
        "c_file": run.experiment.probe_file,
    }

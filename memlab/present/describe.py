"""An experiment's declaration in words: what `memlab describe` prints."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memlab.experiment import PRESETS, Claim, Experiment, Factor

_WIDTH = 96


def probe_comment(experiment: Experiment) -> str:
    """The opening comment of the experiment's C file: what the timed window holds."""
    source = probe_source(experiment).read_text(encoding="utf-8")
    comment = source.partition("/*")[2].partition("*/")[0]
    return "\n".join(line.strip().removeprefix("*").strip() for line in comment.splitlines())


def probe_source(experiment: Experiment) -> Path:
    """The probe's C file: installed beside the compiled module, or in the checkout."""
    package = Path(__file__).parents[1]
    places = (package / "probe_sources", package.parent / "probes")
    return next(p for p in (d / f"{experiment.probe}.c" for d in places) if p.exists())


def as_text(experiment: Experiment) -> str:
    return "\n".join(_lines(experiment))


def _lines(experiment: Experiment) -> Iterator[str]:
    yield f"{experiment.name}: {experiment.question}"
    yield ""
    yield "FACTORS, set with -p name=levels"
    for factor in experiment.factors:
        yield from _factor(factor)
    for exclude in experiment.excludes:
        yield from _wrapped(f"left out: {exclude.why}", 2)
    yield ""
    yield f"THE TIMED WINDOW, probes/{experiment.probe}.c"
    yield from (f"  {line}".rstrip() for line in probe_comment(experiment).strip().splitlines())
    yield ""
    yield "METRICS, from each sample; the first decides when a point is done"
    width = max(len(metric.name) for metric in experiment.metrics)
    for metric in experiment.metrics:
        yield f"  {metric.name:<{width}}  {metric.help} ({metric.unit})"
    yield ""
    yield "CONTROLS, points beside the grid that test an explanation"
    for control in experiment.controls:
        where = "" if len(control.presets) == len(PRESETS) else f" ({', '.join(control.presets)})"
        yield from _wrapped(f"{control.name}{where}: {control.why}", 2)
    yield ""
    yield "CLAIMS of the published studies"
    for claim in experiment.claims:
        yield from _wrapped(f"{claim.text}{_basis(claim)}", 2)
    for published in experiment.published:
        yield from _wrapped(
            f"table: {published.source}, {published.table}. {published.note}".strip(), 2
        )
    yield ""
    yield "BUDGET  " + ", ".join(f"{p} {experiment.budget_s[p]:g} s" for p in PRESETS)


def _factor(factor: Factor) -> Iterator[str]:
    good = f": {', '.join(factor.kind.levels)}" if factor.kind.levels else ""
    good = good or (f", {factor.bounds}" if factor.bounds else "")
    yield from _wrapped(f"{factor.name} ({factor.kind.noun}{good}): {factor.help}", 2)
    shown: dict[str, str] = {}
    for preset in PRESETS:
        levels = ", ".join(factor.kind.format(level) for level in factor.levels(preset))
        if levels not in shown.values():
            shown[preset] = levels
    yield from _wrapped("; ".join(f"{preset} {levels}" for preset, levels in shown.items()), 6)


def _basis(claim: Claim) -> str:
    return f" [published: {claim.published}]" if claim.published else ""


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2)
    )


def as_data(experiment: Experiment) -> dict[str, Any]:
    """The declaration as plain data, for --json."""
    return {
        "name": experiment.name,
        "question": experiment.question,
        "probe": f"probes/{experiment.probe}.c",
        "window": probe_comment(experiment).strip(),
        "factors": [
            {
                "name": f.name,
                "kind": f.kind.noun,
                "help": f.help,
                "good": list(f.kind.levels) if f.kind.levels else None,
                "least": f.least,
                "most": f.most if math.isfinite(f.most) else None,
                "levels": {preset: list(f.levels(preset)) for preset in PRESETS},
            }
            for f in experiment.factors
        ],
        "excludes": [exclude.why for exclude in experiment.excludes],
        "metrics": [
            {
                "name": m.name,
                "unit": m.unit,
                "help": m.help,
                "lower_is_better": m.lower_is_better,
                "floor": m.floor is not None,
            }
            for m in experiment.metrics
        ],
        "controls": [
            {"name": c.name, "why": c.why, "levels": {k: list(v) for k, v in c.levels.items()}}
            for c in experiment.controls
        ],
        "claims": [{"kind": type(c).__name__.lower()} | asdict(c) for c in experiment.claims],
        "published": [
            {"source": p.source, "table": p.table, "metric": p.metric, "note": p.note}
            for p in experiment.published
        ],
        "budget_s": dict(experiment.budget_s),
    }

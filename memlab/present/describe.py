"""An experiment's declaration in words: what `memlab describe` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from memlab import published as studies
from memlab.experiment import PRESETS, Claim, Experiment, Factor
from memlab.published import load

_WIDTH = 96


def probe_comment(experiment: Experiment) -> str:
    """The opening comment of the probe's file: what the timed window holds."""
    path = probe_source(experiment)
    begin, end = ("/*", "*/") if path.suffix == ".c" else ('"""', '"""')
    comment = path.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    return "\n".join(line.strip().removeprefix("*").strip() for line in comment.splitlines())


def probe_source(experiment: Experiment) -> Path:
    """The probe's file: a C file is installed beside the compiled module, or in the checkout."""
    package = Path(__file__).parents[1]
    places = (
        package / "probe_sources" / f"{experiment.probe}.c",
        package.parent / experiment.probe_file,
    )
    return next(path for path in places if path.exists())


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
    yield f"THE TIMED WINDOW, {experiment.probe_file}"
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
        yield from _wrapped(f"{control.name}{where}: {control.description}", 2)
    yield ""
    yield "STUDIES whose claims it tests"
    for source in experiment.sources:
        yield from _wrapped(f"{source}: {studies.load(source).reference}", 2)
    yield ""
    yield "CLAIMS of the published studies"
    for claim in experiment.claims:
        yield from _wrapped(f"{claim.id}: {claim.text}{_basis(claim)}", 2)
    for published in experiment.published:
        yield from _wrapped(
            f"table: {published.source}, {published.table}. {published.note}".strip(), 2
        )
        unsure = load(published.source).tables[published.table].unsure
        if unsure:
            yield from _wrapped(f"unsure in the source: {'; '.join(unsure)}", 4)
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

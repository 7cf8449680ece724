"""An experiment's page in the documentation, in Markdown: what is declared, and what one recorded
run of it found."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module

from memlab.experiment import PRESETS, Experiment, Factor
from memlab.judging import reproduce, summary
from memlab.judging.reproduce import Reproduced
from memlab.present import describe, words
from memlab.present.figures import names
from memlab.results import Run


def page(experiment: Experiment, run: Run | None) -> str:
    """The page as text. Its figures are NAME.svg, and NAME-FIGURE.svg of the further ones."""
    return "\n".join([*_declared(experiment), *(_found(run) if run else _not_recorded())]) + "\n"


def _declared(experiment: Experiment) -> Iterator[str]:
    yield f"# {experiment.name}"
    yield ""
    yield f"**{experiment.question}**"
    if more := _more(experiment):
        yield ""
        yield more
    yield from _section("How it is measured")
    yield f"The probe is `probes/{experiment.probe}.c`, and this is its opening comment:"
    yield from ("", "```text", describe.probe_comment(experiment).strip(), "```")
    yield from _section("What is varied")
    yield from _table(
        ["factor", "what it is", *PRESETS], [_factor(one) for one in experiment.factors]
    )
    if experiment.excludes:
        yield from ("", "Left out:", "")
        yield from (f"- {_inline(exclude.why)}" for exclude in experiment.excludes)
    yield from _section("What is read from a sample")
    rows = [[f"`{one.name}`", _cell(one.help), one.unit] for one in experiment.metrics]
    yield from _table(["metric", "what it is", "unit"], rows)
    if experiment.controls:
        yield from _section("Controls: points that tell explanations apart")
        for control in experiment.controls:
            own = set(control.presets) != set(PRESETS)
            where = f" (in {', '.join(control.presets)})" if own else ""
            yield f"- **{control.name}**{where}: {_inline(control.why)}"


def _more(experiment: Experiment) -> str:
    """What the experiment's module says beyond its first line: background and limits."""
    module = import_module(f"memlab.experiments.{experiment.name.replace('-', '_')}")
    return _inline((inspect.getdoc(module) or "").partition("\n\n")[2])


def _factor(factor: Factor) -> list[str]:
    cells: list[str] = []
    before = ""
    for preset in PRESETS:
        levels = ", ".join(factor.kind.format(level) for level in factor.levels(preset))
        cells.append("same" if levels == before else levels)
        before = levels
    return [f"`{factor.name}`", _cell(factor.help), *map(_cell, cells)]


def _found(run: Run) -> Iterator[str]:
    found = reproduce.of_run(run)
    summaries = summary.by_claim(found.judged)
    yield from _section("What was found")
    cpu, count = run.environment.get("cpu_model"), run.environment.get("cpu_count")
    kernel = run.environment.get("kernel_release")
    yield (
        f"On one machine ({count} CPUs of {cpu}, Linux {kernel}), in the run that ships with "
        f"memlab: {len(run.samples)} samples, {run.blocks} blocks, {run.row.created_at[:10]}. "
        f"`memlab show --example {run.experiment.name}` has every point."
    )
    for name in names(run):
        stem = f"{run.experiment.name}-{name}" if name else run.experiment.name
        yield from ("", f"![{run.experiment.question}]({stem}.svg)")
    yield ""
    if summaries:
        yield from (f"- {_inline(line)}" for line in summary.sentence(summaries))
        yield from ("", *_claims(found))


def _claims(found: Reproduced) -> Iterator[str]:
    rows = []
    for claim in summary.by_claim(found.judged):
        said = []
        for group in summary.groups(claim, found.experiment.figure.over):
            where = words.where(found.experiment, group)
            place = f" ({where})" if where else ""
            said.append(f"**{group.closest.verdict.word}**{place}: {group.closest.evidence}")
        rows.append(
            [_cell(claim.claim.text), _cell(claim.claim.published), _cell("<br>".join(said))]
        )
    yield from _table(["claim", "published", "here"], rows)


def _not_recorded() -> Iterator[str]:
    yield from _section("What was found")
    yield "No run of it ships with memlab."


def _section(title: str) -> Iterator[str]:
    yield from ("", f"## {title}", "")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _inline(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")


def _cell(text: str) -> str:
    return (
        " ".join(text.split())
        .replace("|", "\\|")
        .replace("<br>", "\0")
        .replace("<", "&lt;")
        .replace("\0", "<br>")
    )

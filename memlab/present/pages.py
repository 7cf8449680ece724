"""An experiment's page in the documentation, in Markdown: what is declared, and what one recorded
run of it found."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module

from memlab.experiment import Checks, Experiment, Factor
from memlab.judging import reproduce
from memlab.present import describe, words
from memlab.present.figures import caption, names
from memlab.present.table import Column, Table, markdown
from memlab.present.verdicts import ClaimVerdicts, Verdict, verdicts
from memlab.results import Run

_SHOWN = "quick"  # the preset of the recorded runs
_MANY = 12  # levels that a reader looks through; the checks of a script are more


def page(experiment: Experiment, run: Run | None) -> str:
    """The page as text: the finding first. Its figures are NAME.svg, and NAME-FIGURE.svg of the
    further ones."""
    lines = [
        f"# {experiment.name}",
        "",
        f"**{experiment.question}**",
        "",
        *(_found(run) if run else ["No run of it ships with memlab."]),
        *_declared(experiment),
    ]
    return "\n".join(lines) + "\n"


def _declared(experiment: Experiment) -> Iterator[str]:
    yield from _section("How it is measured")
    yield _inline(_window(experiment)).partition(" Excluded: ")[0].replace("Window:", "**Window:**")
    if more := _more(experiment):
        yield from ("", more)
    yield ""
    yield (
        f"In full: `memlab describe {experiment.name}`, with what is excluded, every level, metric "
        f"and control; the C code: `{experiment.probe_file}`."
    )
    yield from _section("What is varied")
    varied = [one for one in experiment.factors if len(one.levels(_SHOWN)) > 1]
    rows = [[f"`{one.name}`", _what(one), _levels(experiment, one)] for one in varied]
    yield from _table(["factor", "what it is", "levels"], rows)
    if len(varied) < len(experiment.factors):
        yield from ("", "The other factors have one level each, at the foot of the figure.")
    if shown := [one for one in experiment.controls if _SHOWN in one.presets]:
        yield from _section("Controls: points that test an explanation")
        yield from (f"- **{one.name}**: {_inline(one.description)}" for one in shown)


def _window(experiment: Experiment) -> str:
    """What is timed and what is not: the second paragraph of the probe's opening comment."""
    return describe.probe_comment(experiment).strip().split("\n\n")[1]


def _what(factor: Factor) -> str:
    """What a number is, in full; of words the label alone, since the levels have theirs."""
    return factor.help if factor.kind.levels is None else factor.label


def _more(experiment: Experiment) -> str:
    """What the experiment's module says beyond its first line: background and limits."""
    module = import_module(f"memlab.experiments.{experiment.name.replace('-', '_')}")
    return _inline((inspect.getdoc(module) or "").partition("\n\n")[2])


def _levels(experiment: Experiment, factor: Factor) -> str:
    """`application evicts` (`notified`): a level as figures call it, and as -p takes it."""
    levels = factor.levels(_SHOWN)
    if len(levels) > _MANY:
        return f"{len(levels)} levels"
    said = [(words.label(experiment, factor.name, v), factor.kind.format(v)) for v in levels]
    return ", ".join(a if a == b else f"{a} (`{b}`)" for a, b in said)


def _found(run: Run) -> Iterator[str]:
    found = reproduce.of_run(run)
    if found.judged:
        headline, *wrong = words.headline([found])
        yield headline
        yield from ("", *(f"- {_inline(line)}" for line in wrong)) if wrong else ()
    for name in names(run):
        stem = f"{run.experiment.name}-{name}" if name else run.experiment.name
        yield from ("", f"[![{caption(run, name)}]({stem}.svg)]({stem}.svg)")  # a phone enlarges it
    cpu, count = run.environment.get("cpu_model"), run.environment.get("cpu_count")
    kernel = run.environment.get("kernel_release")
    yield ""
    yield (
        f"Recorded on {run.row.created_at[:10]}: {count} CPUs of {cpu}, Linux {kernel}, "
        f"{len(run.samples)} samples, {run.blocks} blocks. Every point: "
        f"`memlab show --example {run.experiment.name}`; the evidence: "
        f"`memlab claims -v --example {run.experiment.name}`."
    )
    sources = [f"[{source}](../studies.md#{source})" for source in run.experiment.sources]
    if sources:
        yield from ("", f"Claims of {', '.join(sources)}:")
    if found.judged:
        drawn = [run.experiment.figure, *run.experiment.more_figures.values()]
        listed = any(isinstance(figure, Checks) for figure in drawn)
        yield from _claims(verdicts(run, found.judged), listed=listed)


def _claims(made: Sequence[ClaimVerdicts], *, listed: bool) -> Iterator[str]:
    """A row per claim, without the exact checks that hold where a figure lists them."""
    exact = [c for c in made if c.overall == "holds" and c.verdicts[0].number.isdecimal()]
    if not listed:
        exact = []
    rows = []
    for claim in (claim for claim in made if claim not in exact):
        rows.append([claim.text, claim.published, "\n".join(_said(claim.verdicts))])
    if rows:
        yield from ("", *_table(["claim", "published", "here"], rows))
    if exact:
        yield from ("", f"{len(exact)} exact checks hold: the figure lists them.")


def _said(found: Sequence[Verdict]) -> Iterator[str]:
    """A line per verdict, or one where all settings have the same word and number."""
    # A count alone does not say what it should have been.
    lines = [(one, one.reason if one.number.isdecimal() else one.number) for one in found]
    if len({(one.word, said) for one, said in lines}) == 1 < len(found):
        yield f"**{found[0].word}** in all {len(found)} settings: {lines[0][1]}"
        return
    for one, said in lines:
        yield f"**{one.word}**{f' ({one.where})' if one.where else ''}: {said}"


def _section(title: str) -> Iterator[str]:
    yield from ("", f"## {title}", "")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    return markdown(Table("", [Column(head) for head in heads], rows))


def _inline(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")

"""An experiment's page in the documentation, in Markdown: what is declared, and what one recorded
run of it found."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module

from memlab import published
from memlab.experiment import PRESETS, Experiment, Factor
from memlab.judging import reproduce
from memlab.present import describe, words
from memlab.present.figures import caption, names
from memlab.present.table import Column, Table, markdown
from memlab.present.verdicts import ClaimVerdicts, Verdict, verdicts
from memlab.results import Run

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
    window, _, excluded = _inline(_window(experiment)).partition(" Excluded: ")
    yield from (window.replace("Window:", "**Window:**"), "", f"**Excluded:** {excluded}")
    if more := _more(experiment):
        yield from ("", more)
    yield ""
    yield (
        f"`memlab sweep {experiment.name}` measures it with `{experiment.probe_file}`; `memlab "
        f"describe {experiment.name}` has the method in full, every metric, and the combinations "
        "that are left out."
    )
    yield from _section("What is varied")
    varied = [one for one in experiment.factors if _is_varied(one)]
    rows = [[f"`{one.name}`", one.help, _levels(one)] for one in varied]
    yield from _table(["factor", "what it is", "levels"], rows)
    fixed = [one for one in experiment.factors if not _is_varied(one)]
    if fixed:
        yield from ("", f"One level unless you set more: {'; '.join(map(_fixed, fixed))}.")
    if experiment.controls:
        yield from _section("Controls: points that test an explanation")
        for control in experiment.controls:
            own = set(control.presets) != set(PRESETS)
            where = f" (in {', '.join(control.presets)})" if own else ""
            yield f"- **{control.name}**{where}: {_inline(control.description)}"


def _window(experiment: Experiment) -> str:
    """What is timed and what is not: the second paragraph of the probe's opening comment."""
    return describe.probe_comment(experiment).strip().split("\n\n")[1]


def _is_varied(factor: Factor) -> bool:
    return any(len(factor.levels(preset)) > 1 for preset in PRESETS)


def _fixed(factor: Factor) -> str:
    label, _, _ = factor.help.partition(";")
    levels = ", ".join(map(factor.kind.format, factor.levels(PRESETS[0])))
    return f"`{factor.name}`, {label}: {levels}"


def _more(experiment: Experiment) -> str:
    """What the experiment's module says beyond its first line: background and limits."""
    module = import_module(f"memlab.experiments.{experiment.name.replace('-', '_')}")
    return _inline((inspect.getdoc(module) or "").partition("\n\n")[2])


def _levels(factor: Factor) -> str:
    """The levels of `quick`, then of each preset that has others."""
    said: list[str] = []
    before: Sequence[object] = ()
    for preset in PRESETS:
        levels = factor.levels(preset)
        if levels != before:
            text = ", ".join(factor.kind.format(level) for level in levels)
            if len(levels) > _MANY:
                text = f"{len(levels)} levels; `memlab describe` lists them"
            said.append(f"{preset}: {text}" if before else text)
        before = levels
    return "\n".join(said)


def _found(run: Run) -> Iterator[str]:
    found = reproduce.of_run(run)
    if found.judged:
        headline, *wrong = words.headline([found])
        yield headline
        yield from ("", *(f"- {_inline(line)}" for line in wrong)) if wrong else ()
    for name in names(run):
        stem = f"{run.experiment.name}-{name}" if name else run.experiment.name
        yield from ("", f"![{caption(run, name)}]({stem}.svg)")
    cpu, count = run.environment.get("cpu_model"), run.environment.get("cpu_count")
    kernel = run.environment.get("kernel_release")
    yield ""
    yield (
        f"Recorded on {run.row.created_at[:10]}: {count} CPUs of {cpu}, Linux {kernel}, "
        f"{len(run.samples)} samples, {run.blocks} blocks. "
        f"`memlab show --example {run.experiment.name}` prints every point, "
        f"`memlab claims -v --example {run.experiment.name}` the evidence."
    )
    for source in run.experiment.sources:
        yield ""
        title = _inline(published.load(source).title)
        yield f"Claims of [{source}](../studies.md#{source}), {title}:"
    if found.judged:
        yield from _claims(verdicts(run, found.judged))


def _claims(made: Sequence[ClaimVerdicts]) -> Iterator[str]:
    """A row per claim; of many exact checks that hold, a row per published sentence."""
    exact = [c for c in made if c.overall == "holds" and c.verdicts[0].number.isdecimal()]
    if len(exact) <= _MANY:
        exact = []
    rows = []
    for claim in (claim for claim in made if claim not in exact):
        rows.append([claim.text, claim.published, "\n".join(_said(claim.verdicts))])
    if rows:
        yield from ("", *_table(["claim", "published", "here"], rows))
    if not exact:
        return
    checks: dict[str, list[str]] = {}
    for claim in exact:
        checks.setdefault(claim.published, []).append(f"{claim.text}: {claim.verdicts[0].number}")
    yield from ("", f"{len(exact)} exact checks hold, each with the count that was found:", "")
    yield from _table(["published", "checks"], [[p, "\n".join(c)] for p, c in checks.items()])


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

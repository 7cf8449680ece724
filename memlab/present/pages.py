"""An experiment's page in the documentation, in Markdown: what is declared, and what one recorded
run of it found."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module

from memlab import recorded
from memlab.experiment import Checks, Experiment
from memlab.judging import reproduce, summary
from memlab.judging.claims import Judged
from memlab.present import decisions, describe, words
from memlab.present.figures import caption, names
from memlab.present.figures.kinds.checks import LISTED_MAX
from memlab.present.table import Column, Table, markdown
from memlab.present.verdicts import REST, ClaimVerdicts, ShownVerdict, verdicts
from memlab.results import Run
from memlab.store import Store
from memlab.text import units

_SHOWN = "quick"  # the preset of the recorded runs


def page(experiment: Experiment, run: Run | None, shown: Collection[str] = ("",)) -> str:
    """The page as text: the finding first. Figures that are `shown` are NAME.svg, and
    NAME-FIGURE.svg of the further ones; of the others it says how to get them."""
    lines = [
        f"# {experiment.name}",
        "",
        f"**{experiment.question}**",
        "",
        *(_results(run, shown) if run else ["No run of it ships with memlab."]),
        *_declared(experiment),
    ]
    return "\n".join(lines) + "\n"


def _declared(experiment: Experiment) -> Iterator[str]:
    yield from _section("How it is measured")
    yield f"**Window:** {_inline(describe.first_sentence(describe.window(experiment)))}"
    if more := _more(experiment):
        yield from ("", more)
    varied = [factor for factor in experiment.factors if len(factor.levels(_SHOWN)) > 1]
    yield from ("", f"**Varied:** {', '.join(item.label for item in varied)}.")
    if shown := [control.name for control in experiment.controls if _SHOWN in control.presets]:
        yield from ("", f"**Controls**, which test explanations: {', '.join(shown)}.")


def _more(experiment: Experiment) -> str:
    """What the experiment's module says beyond its first line: background and limits."""
    module = import_module(f"memlab.experiments.{experiment.name.replace('-', '_')}")
    return _inline((inspect.getdoc(module) or "").partition("\n\n")[2])


def _answer(run: Run, judged: Sequence[Judged]) -> Iterator[str]:
    """How many claims hold, where that was measured, and what follows."""
    claims, study = summary.by_claim(judged), words.study([run.experiment])
    text = summary.sentence(claims, place="", study=study)[:1] if judged else []
    cpu, count = run.environment.get("cpu_model"), run.environment.get("cpu_count")
    kernel = run.environment.get("kernel_release")
    measured = (
        f"Recorded on {run.row.created_at[:10]}: {units.counted(count or 0, 'CPU')} of {cpu}, "
        f"Linux {kernel}, {len(run.samples)} samples, {run.blocks} blocks."
    )
    yield " ".join([*text, measured])
    yield from decisions.page(run, judged)


def _results(run: Run, shown: Collection[str]) -> Iterator[str]:
    result = reproduce.of_run(run)
    yield from _answer(run, result.judged)
    # What is contradicted stands first in the table.
    claims = summary.by_claim(result.judged)
    yield from _figures(run, shown)
    sources = [f"[{source}](../studies.md#{source})" for source in run.experiment.sources]
    if sources:
        more = any(not item.claim.of_study for item in claims)
        also = ", and further checks" if more else ""
        yield from ("", f"Claims of {', '.join(sources)}{also}:")
    if result.judged:
        drawn = [run.experiment.figure, *run.experiment.more_figures.values()]
        listed = any(isinstance(figure, Checks) for figure in drawn)
        of_v2 = _run_of_v2(run)
        beside = {shown_claim.id: shown_claim for shown_claim in of_v2[1]} if of_v2 else {}
        judged = verdicts(run, result.judged)
        only_v2 = [
            beside[shown_claim.id]
            for shown_claim in judged
            if _is_measured(beside.get(shown_claim.id)) and not _is_measured(shown_claim)
        ]
        ids = {shown_claim.id for shown_claim in only_v2}
        yield from _claims(
            [shown_claim for shown_claim in judged if shown_claim.id not in ids], listed=listed
        )
        if of_v2:
            yield from _of_v2(of_v2[0], only_v2)


def _is_measured(claim: ClaimVerdicts | None) -> bool:
    return claim is not None and any(verdict.samples for verdict in claim.verdicts)


def _run_of_v2(run: Run) -> tuple[Run, list[ClaimVerdicts]] | None:
    """The second run that ships beside a recorded one, and its verdicts."""
    name = f"{run.experiment.name}{recorded.OF_V2}"
    if not recorded.ships(run.store_path) or name not in recorded.all_names():
        return None
    path = recorded.store(name)
    with Store(path) as opened:
        other = Run(opened.find("last"), path)
    return other, verdicts(other, reproduce.of_run(other).judged)


def _of_v2(run: Run, claims: Sequence[ClaimVerdicts]) -> Iterator[str]:
    """What a guest with cgroup v2 shows, and the claims that only it can test."""
    yield from _section("Under cgroup v2")
    yield from _answer(run, reproduce.of_run(run).judged)
    name = f"example:{run.experiment.name}{recorded.OF_V2}"
    yield from (
        "",
        f"This is `{name}`, of an emulated guest: its counts are exact, its times are not "
        "judged. Claims that the run above cannot test:",
    )
    yield from _claims(claims, listed=False)


def _figures(run: Run, shown: Collection[str]) -> Iterator[str]:
    for name in names(run):
        stem = f"{run.experiment.name}-{name}" if name else run.experiment.name
        if name in shown:
            yield from ("", f"[![{caption(run, name)}]({stem}.svg)]({stem}.svg)")  # to enlarge it
    if rest := [caption(run, name) for name in names(run) if name not in shown]:
        draws = f"`memlab plot example:{run.experiment.name}`"
        yield from ("", f"Further figures, which {draws} draws and the built site shows:", "")
        yield from (f"- {_inline(item)}" for item in rest)


def _claims(claims: Sequence[ClaimVerdicts], *, listed: bool) -> Iterator[str]:
    """A row per claim that has a number, without the exact checks that hold where a figure lists
    them; these have a table of their own if the figure has no room for it. Of the others a line
    per reason."""
    exact = [c for c in claims if c.overall == "holds" and _is_count(c.verdicts[0].number)]
    if not listed:
        exact = []
    rows, above = [], ""
    undecided: dict[str, list[str]] = {}
    for claim in (claim for claim in claims if claim not in exact):
        reasons = {
            f"**{verdict.word}**: {REST.split(verdict.reason)[0]}" for verdict in claim.verdicts
        }
        if len(reasons) == 1 and not claim.verdicts[0].samples:
            undecided.setdefault(reasons.pop(), []).append(claim.text)
            continue
        message = f"*{claim.published if claim.published != above else 'as above'}*"
        claimed = f"{claim.text}\n{message}" if claim.published else claim.text
        rows.append([claimed, "\n".join(_sentences(claim.verdicts))])
        above = claim.published
    if rows:
        yield from ("", *_table(["claim, *and what it rests on*", "here"], rows))
    for reason, texts in undecided.items():
        first, *more = map(_inline, texts)
        yield from ("", f"{_inline(reason)}:{'' if more else f' {first}'}")
        if more:
            yield from ("", *(f"- {text}" for text in (first, *more)))
    if exact:
        message = "1 exact check holds" if len(exact) == 1 else f"{len(exact)} exact checks hold"
        if len(claims) <= LISTED_MAX:
            yield from ("", f"{message}: the figure lists them.")
            return
        heads = ["claim", "what it rests on", "here"]
        every = [[c.text, c.published, c.verdicts[0].number] for c in exact]
        yield from ("", f"{message}:", "", *_table(heads, every))


def _sentences(verdicts: Sequence[ShownVerdict]) -> Iterator[str]:
    """A line per verdict, or one where all settings have the same word and number."""
    # A count alone does not say what it should have been.
    numbers = [entry.reason if _is_count(entry.number) else entry.number for entry in verdicts]
    lines = [
        (entry, entry.shortened(message)) for entry, message in zip(verdicts, numbers, strict=True)
    ]
    if len({(item.word, text) for item, text in lines}) == 1 < len(verdicts):
        yield f"**{verdicts[0].word}** in all {len(verdicts)} settings: {lines[0][1]}"
        return
    for item, text in lines:
        where = item.where.partition("; the closest, ")[0]
        yield f"**{item.word}**{f' ({where})' if where else ''}: {text}"


def _is_count(number: str) -> bool:
    """`7`, `1,021`, `ENOMEM (12)`."""
    return bool(re.fullmatch(r"[0-9,]+|E[A-Z0-9]+ \([0-9]+\)", number))


def _section(title: str) -> Iterator[str]:
    yield from ("", f"## {title}", "")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    return markdown(Table("", [Column(head) for head in heads], rows))


def _inline(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")

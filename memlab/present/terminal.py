"""What commands print for people: a run, claims and comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.console import Console
from rich.text import Text as RichText

from memlab import published as studies
from memlab.experiment.command import CommandExperiment
from memlab.judging import costs, summary
from memlab.judging.claims import judge
from memlab.judging.compare import Compared
from memlab.judging.effects import effects
from memlab.judging.reproduce import Reproduced
from memlab.present import attribution, modes, table, tables, words
from memlab.present.table import STYLES, Text, write
from memlab.present.tables import by_experiment
from memlab.present.verdicts import ClaimVerdicts, verdicts
from memlab.results import Run
from memlab.results import beside as published
from memlab.results.crossing import crossings

_HOLDING = 12  # claims that hold, a line each at the end of a sweep
_PRINTED = 8  # lines of a command's output
_WORD = len("contradicted")  # a longer verdict has a line of its own


def show(run: Run, *, verbose: bool = False, judged: bool = False) -> None:
    """Print a run: its tables, crossings, controls, what was published, cost models, noise; with
    `verbose` every metric too, with `judged` first of all how many claims hold."""
    console = table.console()
    if not run.measured:
        console.print(Text(words.nothing_measured(run), style="bold"))
    question, *head = _head(run)
    console.print(Text(question))
    if judged and run.measured and run.experiment.claims:
        console.print(Text(words.headline([_judged(run)])[0], style="bold"))
    for line in head:
        console.print(Text(line))
    for line in _effects(run, verbose=verbose):
        console.print(Text(line, style="bold"))
    for line in _printed(run) if isinstance(run.experiment, CommandExperiment) else ():
        console.print(Text(line))
    for shown in tables.medians(run) if run.measured else ():
        write(console, shown)
    if run.measured and verbose:
        write(console, tables.every_metric(run))
    if run.measured:
        console.print(Text(tables.LEGEND, style="dim"))
    if run.measured and (taken := tables.names_of_levels(run)):
        console.print(Text(taken, style="dim"))
    for crossed in crossings(run):
        where = words.labels(run.experiment, crossed.panel, crossed.panel)
        place = f"{where}: " if where else ""
        console.print(Text(place + words.crossing(run.experiment, crossed), style="bold"))
    for shown in tables.controls(run) if run.measured else ():
        write(console, shown)
    _published(console, run)
    console.print()
    if explained := [*costs.lines_for_show(run), *attribution.lines(run)]:
        for line in [*explained, ""]:
            console.print(Text(line))
    flags = tables.noise(run)
    said = ", ".join(f"{row[0].text} {row[1].text}" for row in flags.cells) or "none"
    console.print(Text(f"noise: {said}, of {len(run.samples)} samples; flagged, none dropped"))
    for line in modes.lines(run):
        console.print(Text(line))
    # The sentence of each level has said how its trials ended.
    points = not (isinstance(run.experiment, CommandExperiment) and len(run.varied) == 1)
    for line in tables.ended(run, points=points):
        console.print(Text(line))
    console.print(Text(f"store: {run.store_path}"))


def _head(run: Run) -> Iterator[str]:
    name = f" ({run.row.name})" if run.row.name else ""
    yield f"run {run.id}{name}: {run.experiment.question}"
    counts = [found.outcomes.total() for found in run.summaries]
    each = " to ".join(str(n) for n in dict.fromkeys((min(counts), max(counts))))
    yield (
        f"{words.machine(run)}; {words.count(len(run.points), 'point')}, "
        f"{each} sample{'' if each == '1' else 's'} each, seed {run.row.seed}"
    )
    if run.note:
        yield f"note: {run.note}"
    if remark := words.machine_remark(run.environment):
        yield remark


def _effects(run: Run, *, verbose: bool) -> Iterator[str]:
    """What each policy changes for a user's command, a sentence per level."""
    if not isinstance(run.experiment, CommandExperiment) or not run.samples:
        return
    for found in effects(run, run.experiment.watched):
        yield words.effect(run.experiment, found)
    if any(summary.medians for summary in run.summaries):
        yield words.empty_program(run)
    if run.experiment.subject.keep:
        yield words.kept_service(run)
    yield from _not_measured(run, verbose=verbose)


def _not_measured(run: Run, *, verbose: bool) -> Iterator[str]:
    """A line per reason, of the metrics that no sample has; of those that are shown."""
    missing: dict[str, str] = next((s.raw.get("missing", {}) for s in run.samples if s.raw), {})
    labels: dict[str, list[str]] = {}
    for name, why in missing.items():
        shown = verbose or name in tables.of_command(run)
        if shown and not any(name in summary.medians for summary in run.summaries):
            labels.setdefault(why, []).append(run.metric(name).label)
    for why, several in labels.items():
        yield f"not measured here: {', '.join(several)}: {why}"


def _printed(run: Run) -> Iterator[str]:
    """The end of what a user's command, or its service, printed in the first trial of each outcome
    that is not `ok`."""
    first = {sample.outcome: sample for sample in reversed(run.samples) if sample.outcome != "ok"}
    for outcome, sample in first.items():
        for name, whose in (("service_output", "the service"), ("output", "the command")):
            lines = str((sample.raw or {}).get(name) or "").splitlines()[-_PRINTED:]
            if lines:
                yield f"the last that {whose} printed where it was {outcome}:"
            yield from (f"  {line}" for line in lines)


def _published(console: Console, run: Run) -> None:
    found = list(published.tables(run))
    for one in found:
        write(console, tables.published(run, one))
    if found:
        console.print(Text(tables.PUBLISHED_LEGEND, style="dim"))


def claims(
    found: Sequence[Reproduced], not_built: Sequence[str], *, tables: bool, verbose: bool
) -> None:
    """Print the answer first; then a line per claim, or with `verbose` all its grounds; of several
    experiments a row each last."""
    console = table.console()
    console.print(Text(words.headline(found)[0], style="bold"))
    for reproduced in found:
        _experiment(console, reproduced, tables=tables or verbose, verbose=verbose)
        stand = summary.standing(summary.verdicts(reproduced.judged))
        if stand and (verbose or not all(o.stands for o in reproduced.judged if o.verdict.p)):
            console.print(Text(stand))
    if len(found) > 1:
        if verbose:
            together = summary.verdicts(one for reproduced in found for one in reproduced.judged)
            console.print(Text(summary.standing(together, "all experiments")))
        write(console, by_experiment(found))
    if not_built:
        console.print()
    for line in not_built:
        console.print(Text(line))


def verdicts_of_sweep(run: Run) -> None:
    """Print what a finished sweep decided: a line per claim; of many that hold, the number."""
    if not run.experiment.claims:
        return
    console = table.console()
    found = _judged(run)
    made = verdicts(run, found.judged)
    holding = [claim for claim in made if claim.overall == "holds"]
    console.print()
    console.print(Text(words.headline([found])[0], style="bold"))
    _in_lines(console, made if len(holding) <= _HOLDING else made[: -len(holding)])


def _judged(run: Run) -> Reproduced:
    return Reproduced(run.experiment, run, (), judge(run))


def _experiment(console: Console, reproduced: Reproduced, *, tables: bool, verbose: bool) -> None:
    run, experiment = reproduced.run, reproduced.experiment
    measured = ""
    if run is not None:
        when = run.row.created_at[:16].replace("T", " ")
        measured = f", run {run.id} of {when}, {words.count(run.blocks, 'block')}"
    console.rule(Text(experiment.name + measured, style="bold"), align="left")
    console.print(Text(experiment.question))
    for source in map(studies.load, experiment.sources):
        said = source.reference if verbose else source.title
        console.print(Text(f"from {source.id}: {said}", style="dim"))
    if run is None:
        console.print(Text(f"not testable here: {reproduced.refused}"))
        return
    for claim in verdicts(run, reproduced.judged) if verbose else ():
        _in_full(console, claim)
    if not verbose:
        _in_lines(console, verdicts(run, reproduced.judged))
    if tables:
        _published(console, run)


def _in_lines(console: Console, found: Sequence[ClaimVerdicts]) -> None:
    """A line per claim, or per setting where these differ; a reason that several share, once."""
    lines = _without_repeats([line for claim in found for line in _lines(claim)])
    width = max((len(word) for word, _, _ in lines if len(word) <= _WORD), default=0) + 2
    shared: dict[tuple[str, str], list[str]] = {}
    for word, text, reason in lines:
        # A number of its own is no reason, even where two claims have the same.
        key = (word, reason) if word != "reproduced" else (word, f"{text}: {reason}")
        shared.setdefault(key, []).append(text)
    for (word, reason), texts in shared.items():
        if word == "reproduced" or len(texts) == 1:
            said = reason if word == "reproduced" else f"{texts[0]}: {reason}"
            _said(console, word, said, width)
            continue
        _said(console, word, f"{reason}:", width)
        for text in texts:
            _indented(console, Text(f"- {text}"), width)


def _without_repeats(lines: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Without a sentence that holds and that the next one, with the same number, begins with."""
    return [
        line
        for line, after in zip_longest(lines, lines[1:], fillvalue=("", "", ""))
        if not (line[::2] == after[::2] and after[1].startswith(f"{line[1]}, "))
        or line[0] != "reproduced"
    ]


def _lines(claim: ClaimVerdicts) -> Iterator[tuple[str, str, str]]:
    """The word, the claim with its setting, and the number or, where it does not hold, why."""
    alone = len(claim.verdicts) == 1
    for one in claim.verdicts:
        settings = f", in {one.settings} settings, the closest" if one.settings > 1 else ""
        place = settings if alone else f" ({one.where})"
        yield one.word, claim.text + place, one.reason


def _said(console: Console, word: str, text: str, width: int) -> None:
    """A verdict in a column of its own, and the text behind it."""
    style = STYLES.get(word, "")
    if len(word) > width - 2:
        console.print(Text(word, style))
        word = ""
    for line in Text(text).wrap(console, console.width - width):
        line.rstrip()
        first = Text(word, style)
        first.pad_right(width - len(first))
        console.print(first.append_text(line))
        word = ""


def _in_full(console: Console, claim: ClaimVerdicts) -> None:
    """The statement, what it rests on, then a verdict with its evidence for each setting."""
    console.print()
    basis = f"  [published: {claim.published}]" if claim.published else ""
    console.print(Text.assemble(f"claim {claim.id}: ", (claim.text, "bold"), (basis, "dim")))
    said: set[str] = set()  # a control that says the same of every setting is heard once
    for one in claim.verdicts:
        place = f" ({one.where})" if one.where else ""
        text = Text.assemble((one.word, STYLES.get(one.word, "")), f"{place}: {one.evidence}")
        _indented(console, text, 2)
        for line in one.lines:
            _indented(console, Text(line, style="dim"), 4)
        for line in one.controls:
            if line not in said:
                _indented(console, Text(line), 4)
            said.add(line)


def _indented(console: Console, text: RichText, columns: int) -> None:
    """Wrapped text behind blanks. rich's Padding would fill each line with blanks to its end."""
    for line in text.wrap(console, max(1, console.width - columns)):
        line.rstrip()
        console.print(Text(" " * columns).append_text(line))


def compare(found: Sequence[Compared]) -> None:
    """Print how many points got which word, a row per point of runs compared with one base, and
    what else differs."""
    console = table.console()
    for line in tables.compared_counts(found):
        console.print(Text(line, style="bold"))
    for line in tables.compared_heads(found):
        console.print(Text(line))
    write(console, tables.compared(found))
    for line in tables.compared_notes(found):
        console.print(Text(line))
    console.print(Text(tables.ratio_legend(found[0]), style="dim"))

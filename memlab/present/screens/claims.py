"""Judged claims on a screen: what `claims` and `reproduce` print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.console import Console
from rich.text import Text as RichText

from memlab import published as studies
from memlab.judging import summary
from memlab.judging.reproduce import Reproduced
from memlab.present import decisions, table, tables, words
from memlab.present.screens.lines import (
    FEW_OPEN,
    LEFT_OUT,
    Block,
    fit,
    in_column,
    in_columns,
    indented,
    lines_of,
    not_shown,
    of_most_rows,
    open_blocks,
    rows_taken,
    table_lines,
    unbroken,
)
from memlab.present.table import SCREEN, STYLES, Text, write
from memlab.present.table import console as table_console
from memlab.present.tables import by_experiment
from memlab.present.verdicts import ClaimVerdicts, ShownVerdict, verdicts
from memlab.results import Run
from memlab.results import beside as published
from memlab.text import units

_WORD = len("contradicted")  # a longer verdict has a line of its own
_SHORT = 80  # characters of a reason
_NOT_HERE = "why experiments cannot be measured here"
_IN_SHORT = ("contradicted", "inconclusive", "not testable here", "not in this run", "reproduced")


def claims(study: Reproduced) -> None:
    """Print on one screen how many claims hold, then each claim with its number or with why it does
    not hold. Where that has no room, settings with one verdict share a line, only short reasons are
    given, and the last line counts what is left out."""
    console, run = table.console(), study.run
    assert run is not None
    named = {decision.claim for decision in run.experiment.so}
    with console.capture() as head:
        console.print(Text(words.headline([study])[0], style="bold"))
        for message in decisions.lines(run, study.judged):
            console.print(Text(message, style="bold"))
        _head(console, study, verbose=False)
    first = Block(head.get().splitlines(keepends=True))
    standing = Block(lines_of(console, map(Text, _standing(study, verbose=False))))
    shown = verdicts(run, study.judged)
    entries = _entries(console, [line for claim in shown for line in _lines(claim)])
    lines, left = fit([first, *entries, standing], SCREEN)
    last = []
    if left:
        for longest in (_SHORT, 0):  # all that are contradicted, if they fit without reasons
            # First those that a recommendation rests on, then those that do not hold.
            short = sorted(
                (claim.id not in named, _IN_SHORT.index(line[0]), line)
                for claim in shown
                for line in _short_lines(claim, longest)
            )
            entries = _entries(console, [line for *_, line in short])
            lines, left = fit([first, *entries, standing], SCREEN - LEFT_OUT)
            if not left["contradicted"]:
                break
        counts = [f"{count} {word}" for word, count in left.items()]
        last = not_shown({}, run.command("claims -v"), *counts, "the evidence")
    console.file.write("".join(lines))
    unbroken(last)


def _entries(console: Console, entries: Sequence[tuple[str, str, str]]) -> Iterator[Block]:
    """A block per verdict: its word, the claim, the number or the reason. A reason that several
    share stands once, above them."""
    lines = _without_repeats(entries)
    width = max((len(word) for word, _, _ in lines if len(word) <= _WORD), default=0) + 2
    shared: dict[tuple[str, str], list[str]] = {}
    for word, text, reason in lines:
        # A number of its own is no reason, even where two claims have the same.
        is_whole = word == "reproduced" or not reason
        whole = f"{text}: {reason}" if reason else text
        shared.setdefault((word, whole if is_whole else reason), []).append(
            whole if is_whole else text
        )
    for (word, reason), texts in shared.items():
        if texts[0] == reason or len(texts) == 1:
            message = reason if texts[0] == reason else f"{texts[0]}: {reason}"
            results = [*in_column(console, word, message, width)]
        else:
            results = [*in_column(console, word, f"{reason}:", width)]
            results += [p for text in texts for p in indented(console, Text(f"- {text}"), width)]
        yield Block(lines_of(console, results), word, count=len(texts))


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
    for verdict in claim.verdicts:
        settings = f" (the closest of {verdict.settings} settings)" if verdict.settings > 1 else ""
        place = settings if alone else f" ({verdict.where})"
        yield verdict.word, claim.text + place, verdict.reason


def _short_lines(claim: ClaimVerdicts, longest: int) -> Iterator[tuple[str, str, str]]:
    """The same once for all settings with one verdict, with the number or reason of the one that is
    closest to its bound, of at most so many characters. A claim that does not stand with the
    others is open, as in `show`."""
    by_word: dict[str, list[ShownVerdict]] = {}
    for verdict in claim.verdicts:
        if verdict.word == "not in this run" or (
            verdict.word == "inconclusive" and not verdict.samples
        ):
            continue  # the first line has counted it
        by_word.setdefault(verdict.word, []).append(verdict)
    for word, several in by_word.items():
        where = ""
        if len(several) < len(claim.verdicts):
            where = (
                f" ({'; '.join(item.where.partition('; the closest, ')[0] for item in several)})"
            )
        elif len(several) > 1:
            number = "both" if len(several) == 2 else f"all {len(several)}"
            where = f" ({number} settings)"
        closest = min(several, key=lambda shown: shown.clearance)
        if len(several) > 1 and len(several) == len(claim.verdicts) and closest.where:
            where = f" ({number} settings; the closest: {closest.where})"
        reason, fallen, _ = closest.shortened(closest.reason).partition(f"; {summary.FALLEN}")
        reason += "; needs more blocks" if fallen else ""
        yield word, claim.text + where, reason if len(reason) <= longest else ""


def in_full(studies: Sequence[Reproduced], not_built: Sequence[str]) -> None:
    """Print the answer first; then each claim with all its grounds, and the tables that were
    printed; of several experiments a row each last."""
    console = table.console()
    console.print(Text(words.headline(studies)[0], style="bold"))
    for item in studies:
        _head(console, item, verbose=True)
        if item.run is None:
            continue
        for claim in verdicts(item.run, item.judged):
            for line in _in_full(console, claim):
                console.print(line)
        _published(console, item.run)
        for text in _standing(item, verbose=True):
            console.print(Text(text))
    if len(studies) > 1:
        together = summary.verdicts(item for reproduced in studies for item in reproduced.judged)
        console.print(Text(summary.standing(together, "all experiments")))
        write(console, by_experiment(studies))
    if not_built:
        console.print()
    for printed in not_built:
        console.print(Text(printed))


def _in_full(console: Console, claim: ClaimVerdicts) -> Iterator[RichText]:
    """The statement, what it rests on, then a verdict with its evidence for each setting."""
    basis = f"  [basis: {claim.published}]" if claim.published else ""
    yield Text()
    yield Text.assemble(f"claim {claim.id}: ", (claim.text, "bold"), (basis, "dim"))
    message: set[str] = set()  # a control that says the same of every setting is heard once
    for verdict in claim.verdicts:
        place = f" ({verdict.where})" if verdict.where else ""
        text = Text.assemble(
            (verdict.word, STYLES.get(verdict.word, "")), f"{place}: {verdict.evidence}"
        )
        yield from indented(console, text, 2)
        for line in verdict.lines:
            yield from indented(console, Text(line, style="dim"), 4)
        for line in verdict.controls:
            if line not in message:
                yield from indented(console, Text(line), 4)
            message.add(line)


def _head(console: Console, reproduced: Reproduced, *, verbose: bool) -> None:
    """The experiment and its run, its question, the studies; or why it was not measured."""
    run, experiment = reproduced.run, reproduced.experiment
    measured = ""
    if run is not None:
        when = run.row.created_at[:16].replace("T", " ")
        measured = f", run {run.id} of {when}, {units.counted(run.blocks, 'block')}"
    console.rule(Text(experiment.name + measured, style="bold"), align="left")
    console.print(Text(experiment.question))
    for source in map(studies.load, experiment.sources):
        text = source.reference if verbose else source.title
        console.print(Text(f"from {source.id}: {text}", style="dim"))
    if run is None:
        console.print(Text(f"not testable here: {reproduced.refused}"))


def _standing(study: Reproduced, *, verbose: bool) -> Iterator[str]:
    """Which verdicts stand once all are corrected, if any does not."""
    text = summary.standing(summary.verdicts(study.judged))
    if text and (verbose or not all(item.survives for item in study.judged if item.verdict.p)):
        yield text


def _published(console: Console, run: Run) -> None:
    result = list(published.tables(run))
    for item in result:
        write(console, tables.published(run, item))
    if result:
        console.print(Text(tables.PUBLISHED_LEGEND, style="dim"))


def reproduced(
    studies: Sequence[Reproduced], not_built: Sequence[str], last: Sequence[str], in_full: str
) -> None:
    """Print what of a study holds, on one screen: how many of its claims, those that do not, why an
    experiment does not run here, the `last` lines, and a row per experiment. What has no room is
    counted, with the command that prints all, `in_full`."""
    console = table.console()
    studied = any(item.experiment.sources for item in studies)
    first: list[RichText] = [Text(line, style="bold") for line in words.headline(studies)[:1]]
    first += [
        Text(f"{item.experiment.name}: {busy}")
        for item in studies
        if item.run and (busy := words.busy(item.run))
    ][:1]
    results = _unindented(console, *first)
    refused = (
        f"{item.experiment.name}, not testable here: {item.refused}"
        for item in studies
        if item.run is None
    )
    open_ones = in_columns(
        console,
        (
            (claim.overall, f"{claim.claim.text}{f' ({claim.counts})' if claim.counts else ''}")
            for item in studies
            for claim in summary.by_claim(item.judged)
            if claim.overall in ("contradicted", summary.DIFFERS, summary.PARTLY, "not decided")
            and not claim.absent
            and (claim.claim.of_study or not studied)
        ),
    )
    blocks = [
        Block(results),
        *open_blocks((lines_of(console, claim) for claim in open_ones), "claim"),
        *(Block(_unindented(console, Text(text)), _NOT_HERE, rank=3) for text in refused),
    ]
    tables_left = units.counted(len(not_built), "table")
    unbuilt = [f"{tables_left} that no experiment measures"] if not_built else []
    longest = not_shown({"claim": 99, _NOT_HERE: 99, "experiment": 99}, in_full, *unbuilt)
    room = SCREEN - rows_taken([*longest, *last], console.width)
    rows = of_most_rows(console, by_experiment(studies), room - len(results) - FEW_OPEN)
    of_table = table_lines(console, rows)
    lines, left = fit(blocks, room - len(of_table))
    if len(rows.rows) < len(studies):
        left["experiment"] = len(studies) - len(rows.rows)
    console.file.write("".join(lines))
    unbroken([*not_shown(left, in_full, *unbuilt), *last])
    console.file.write("".join(of_table))


def _unindented(console: Console, *texts: RichText) -> list[str]:
    return lines_of(console, (line for text in texts for line in indented(console, text, 0)))


def table_of(results: Sequence[Reproduced], study: str, table: str, last: Sequence[str]) -> None:
    """Print what holds, then one printed table of a study beside the numbers here, setting by
    setting; of one in words the claims that test it."""
    console = table_console()
    source = studies.load(study)
    console.print(Text(f"{study}, {source.tables[table].title} ({source.tables[table].place})"))
    for item in results:
        console.print(Text(words.headline([item])[0], style="bold"))
    for run in (entry.run for entry in results if entry.run):
        if busy := words.busy(run):
            console.print(Text(busy, style="bold yellow"))
        for beside in published.tables(run):
            if (beside.source.id, beside.table.id) == (study, table):
                write(console, tables.published(run, beside))
    unbroken(last)

"""Judged claims on a screen: what `claims` and `reproduce` print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from memlab import published as studies
from memlab.judging import summary
from memlab.judging.reproduce import Reproduced
from memlab.present import decisions, table, tables, words
from memlab.present.answer import (
    FEW_OPEN,
    LEFT_OUT,
    Block,
    Heading,
    Part,
    Sentence,
    Verbatim,
    fit,
    in_column,
    in_columns,
    lines,
    not_shown,
    of_most_rows,
    open_blocks,
    put,
    rows_taken,
    say,
)
from memlab.present.table import SCREEN, STYLES
from memlab.present.tables import by_experiment
from memlab.present.verdicts import ClaimVerdicts, ShownVerdict, verdicts
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
    answer = [words.headline([study])[0], *decisions.lines(run, study.judged)]
    first: list[Part] = [Sentence(text, "bold") for text in answer]
    first += _head(study, verbose=False)
    standing = [*_standing(study, verbose=False)]

    def fitted(
        entries: Sequence[tuple[str, str, str]], room: int
    ) -> tuple[list[str], Counter[str]]:
        return fit(console, [Block(first), *_entries(entries), Block(standing)], room)

    shown = verdicts(run, study.judged)
    text, left = fitted([line for claim in shown for line in _lines(claim)], SCREEN)
    last = []
    if left:
        for longest in (_SHORT, 0):  # all that are contradicted, if they fit without reasons
            # First those that a recommendation rests on, then those that do not hold.
            short = sorted(
                (claim.id not in named, _IN_SHORT.index(line[0]), line)
                for claim in shown
                for line in _short_lines(claim, longest)
            )
            text, left = fitted([line for *_, line in short], SCREEN - LEFT_OUT)
            if not left["contradicted"]:
                break
        counts = [f"{count} {word}" for word, count in left.items()]
        last = not_shown({}, run.command("claims -v"), *counts, "the evidence")
    put(console, text, last)


def _entries(entries: Sequence[tuple[str, str, str]]) -> Iterator[Block]:
    """A block per verdict: its word, the claim, the number or the reason. A reason that several
    share stands once, above them."""
    entries = _without_repeats(entries)
    width = max((len(word) for word, _, _ in entries if len(word) <= _WORD), default=0) + 2
    shared: dict[tuple[str, str], list[str]] = {}
    for word, text, reason in entries:
        # A number of its own is not a reason, even if two claims have the same.
        is_whole = word == "reproduced" or not reason
        whole = f"{text}: {reason}" if reason else text
        shared.setdefault((word, whole if is_whole else reason), []).append(
            whole if is_whole else text
        )
    for (word, reason), texts in shared.items():
        if texts[0] == reason or len(texts) == 1:
            message = reason if texts[0] == reason else f"{texts[0]}: {reason}"
            results = in_column(word, message, width)
        else:
            results = in_column(word, f"{reason}:", width)
            results += [Sentence(f"- {text}", lead=" " * width) for text in texts]
        yield Block(results, word, count=len(texts))


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
    say([Sentence(words.headline(studies)[0], "bold")])
    for item in studies:
        say(_head(item, verbose=True))
        if item.run is None:
            continue
        for claim in verdicts(item.run, item.judged):
            say(_in_full(claim))
        if item.tables:
            say(tables.published(item.run, entry) for entry in item.tables)
            say([Sentence(tables.PUBLISHED_LEGEND, "dim")])
        say(_standing(item, verbose=True))
    if len(studies) > 1:
        together = summary.verdicts(item for reproduced in studies for item in reproduced.judged)
        say([summary.standing(together, "all experiments"), by_experiment(studies)])
    say(["", *not_built] if not_built else [])


def _in_full(claim: ClaimVerdicts) -> Iterator[Part]:
    """The statement, what it rests on, then a verdict with its evidence for each setting."""
    basis = f"  [basis: {claim.published}]" if claim.published else ""
    yield ""
    yield Sentence([(f"claim {claim.id}: ", ""), (claim.text, "bold"), (basis, "dim")])
    message: set[str] = set()  # a control that says the same of every setting is heard once
    for verdict in claim.verdicts:
        place = f" ({verdict.where})" if verdict.where else ""
        word = verdict.word, STYLES.get(verdict.word, "")
        yield Sentence([word, (f"{place}: {verdict.evidence}", "")], lead="  ")
        for line in verdict.lines:
            yield Sentence(line, "dim", lead="    ")
        for line in verdict.controls:
            if line not in message:
                yield Sentence(line, lead="    ")
            message.add(line)


def _head(reproduced: Reproduced, *, verbose: bool) -> Iterator[Part]:
    """The experiment and its run, its question, the studies; or why it was not measured."""
    run, experiment = reproduced.run, reproduced.experiment
    measured = ""
    if run is not None:
        when = run.row.created_at[:16].replace("T", " ")
        measured = f", run {run.id} of {when}, {units.counted(run.blocks, 'block')}"
    yield Heading(experiment.name + measured)
    yield experiment.question
    for source in map(studies.load, experiment.sources):
        text = source.reference if verbose else source.title
        yield Sentence(f"from {source.id}: {text}", "dim")
    if run is None:
        yield f"not testable here: {reproduced.refused}"


def _standing(study: Reproduced, *, verbose: bool) -> Iterator[str]:
    """Which verdicts stand once all are corrected, if any does not."""
    text = summary.standing(summary.verdicts(study.judged))
    if text and (verbose or not all(item.survives for item in study.judged if item.verdict.p)):
        yield text


def reproduced(
    studies: Sequence[Reproduced], not_built: Sequence[str], last: Sequence[str], in_full: str
) -> None:
    """Print what of a study holds, on one screen: how many of its claims, those that do not, why an
    experiment does not run here, the `last` lines, and a row per experiment. What has no room is
    counted, with the command that prints all, `in_full`."""
    console = table.console()
    studied = any(item.experiment.sources for item in studies)
    first: list[Part] = [Sentence(line, "bold") for line in words.headline(studies)[:1]]
    first += [
        f"{item.experiment.name}: {busy}"
        for item in studies
        if item.run and (busy := words.busy(item.run))
    ][:1]
    refused = (
        f"{item.experiment.name}, not testable here: {item.refused}"
        for item in studies
        if item.run is None
    )
    open_ones = in_columns(
        (claim.overall, f"{claim.claim.text}{f' ({claim.counts})' if claim.counts else ''}")
        for item in studies
        for claim in summary.by_claim(item.judged)
        if claim.overall in ("contradicted", summary.DIFFERS, summary.PARTLY, "not decided")
        and not claim.absent
        and (claim.claim.of_study or not studied)
    )
    blocks = [
        Block(first),
        *open_blocks(console, open_ones, "claim"),
        *(Block([text], _NOT_HERE, rank=3) for text in refused),
    ]
    tables_left = units.counted(len(not_built), "table")
    unbuilt = [f"{tables_left} that no experiment measures"] if not_built else []
    longest = not_shown({"claim": 99, _NOT_HERE: 99, "experiment": 99}, in_full, *unbuilt)
    room = SCREEN - rows_taken([*longest, *last], console.width)
    rows = of_most_rows(
        console, by_experiment(studies), room - len(lines(console, first)) - FEW_OPEN
    )
    of_table = lines(console, [rows])
    text, left = fit(console, blocks, room - len(of_table))
    if len(rows.rows) < len(studies):
        left["experiment"] = len(studies) - len(rows.rows)
    put(console, text, [*not_shown(left, in_full, *unbuilt), *last])
    put(console, of_table)


def table_of(results: Sequence[Reproduced], study: str, table: str, last: Sequence[str]) -> None:
    """Print what holds, then one printed table of a study beside the numbers here, setting by
    setting; of one in words the claims that test it."""
    source = studies.load(study)
    say([f"{study}, {source.tables[table].title} ({source.tables[table].place})"])
    say(Sentence(words.headline([item])[0], "bold") for item in results)
    for item in results:
        if item.run is None:
            continue
        if busy := words.busy(item.run):
            say([Sentence(busy, "bold yellow")])
        for beside in item.tables:
            if (beside.source.id, beside.table.id) == (study, table):
                say([tables.published(item.run, beside)])
    say(map(Verbatim, last))

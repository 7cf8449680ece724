"""What commands print for people: a run, claims and comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as RichText

from memlab import published as studies
from memlab.experiment import Crossover
from memlab.judging import costs, summary
from memlab.judging.claims import judge
from memlab.judging.compare import Compared
from memlab.judging.effects import effects, extremes
from memlab.judging.reproduce import Reproduced
from memlab.present import attribution, decisions, modes, table, tables, words
from memlab.present.key_table import key_tables, shortened
from memlab.present.table import SCREEN, SCREEN_WITH_TABLE, STYLES, Cell, Table, Text, write
from memlab.present.table import console as table_console
from memlab.present.tables import by_experiment
from memlab.present.verdicts import ClaimVerdicts, ShownVerdict, verdicts
from memlab.results import Run
from memlab.results import beside as published
from memlab.results.crossing import Crossing, crossings
from memlab.store import SampleRow
from memlab.text.printable import printable

_REASONS = 2  # why points cannot be measured here, on the first screen
_LEFT_OUT = 2  # lines that name what is left out
_PRINTED = 8  # lines of a command's output
_WORD = len("contradicted")  # a longer verdict has a line of its own


def show(run: Run, *, verbose: bool = False) -> None:
    """Print a run: the answer, as its sweep ended with it; then its tables, controls, what was
    published, cost models, noise. Parts that do not fit into so many lines are named in the last
    one. With `verbose` all of them, with every metric, and each published table whole."""
    console = table.console()
    parts = [*_parts(console, run, verbose=verbose)]
    remaining: list[str] = []
    if verbose:
        opened = chain.from_iterable(_open_claims(console, run))
        results = [*_answer_lines(console, run, verbose=True), *opened]
        parts.insert(0, _Section("", _lines_of(console, results)))
    else:
        fixed = sum(len(part.lines) for part in parts if not part.name)
        first = _first_screen(console, run, SCREEN_WITH_TABLE - fixed - _LEFT_OUT)
        parts = [
            _Section("", first.lines),
            *(item for item in parts if item.of not in first.tables),
        ]
        parts, remaining = _that_fit(parts, console.width)
    for part in parts:
        console.file.write("".join(part.lines))
    if remaining:
        _unbroken([_left_out(remaining, run)])


@dataclass(frozen=True, slots=True)
class _Section:
    """Lines of `show`, with their ends, and the noun for them where they are left out; those
    without one always stand there."""

    name: str
    lines: Sequence[str]
    of: Table | None = None


def _parts(console: Console, run: Run, *, verbose: bool) -> Iterator[_Section]:
    """What follows the first lines, in the order in which it is printed."""

    def part(name: str, *shown: Table | str, dim: bool = False) -> _Section:
        with console.capture() as printed:
            for item in shown:
                if isinstance(item, str):
                    _say(console, Text(item, style="dim" if dim else ""))
                else:
                    write(console, item)
        of = next((entry for entry in shown if isinstance(entry, Table)), None)
        return _Section(name, printed.get().splitlines(keepends=True), of)

    if run.experiment.watched:
        yield part("", *_printed(run))
    if run.measured:
        measured = tables.medians(run) if verbose else key_tables(run, _judged(run).judged)
        for shown in measured:
            yield part("" if verbose else "table", shown)
        if verbose:
            measured.append(tables.every_metric(run))
            yield part("", measured[-1])
            yield part("", _legend(measured), dim=True)
        if taken := tables.names_of_levels(run):
            yield part("what -p takes", taken, dim=True)
        for shown in tables.controls(run):
            yield part("control", shown)
    if verbose:
        results = [tables.published(run, entry) for entry in published.tables(run)]
        yield part("", *results)
        yield part("", *([tables.PUBLISHED_LEGEND] if results else []), dim=True)
    else:
        for shown in tables.published_once(run):
            yield part("published table", shown)
    yield part("", "")
    if models := costs.lines_for_show(run, every=verbose):
        yield part("the cost models", *models, "")
    if traced := [*attribution.lines(run)]:
        yield part("what the slowest operations met", *traced, "")
    flags = tables.noise(run)
    message = ", ".join(f"{row[0].text} {row[1].text}" for row in flags.cells) or "none"
    yield part("", f"noise: {message}, of {len(run.samples)} samples; flagged, none dropped")
    if alike := words.blocks_alike(run):
        yield part("", alike)
    if two := [*modes.lines(run)]:
        yield part("the points with two modes", *two)
    how, *more = tables.ended(run, points=False)
    yield part("", how if verbose else tables.end(run), *more)
    # The sentence of each level has said how its trials ended.
    if not (run.experiment.watched and len(run.varied) == 1) and (ends := [*tables.ends(run)]):
        yield part("how trials ended that were not ok", *ends)
    yield _Section("", [f"store: {printable(str(run.store_path))}\n"])  # whole, however long


def _that_fit(parts: Sequence[_Section], width: int) -> tuple[list[_Section], list[str]]:
    """The parts that fit into SCREEN_WITH_TABLE, in their order, and the names of the others."""
    room = SCREEN_WITH_TABLE - sum(len(part.lines) for part in parts if not part.name) - _LEFT_OUT
    kept, rest = [], []
    for part in parts:
        lines = part.lines
        if not part.name or len(lines) <= room:
            room -= len(lines) if part.name else 0
            kept.append(part)
        else:
            rest.append(part.name)
    return kept, rest


def _left_out(names: Sequence[str], run: Run) -> str:
    """The last line of a `show` that has more: `not shown: 2 tables, the cost models: ...`."""
    parts = [
        name if name.startswith(("the ", "what ", "how ")) else words.count(number, name)
        for name, number in Counter(names).items()
    ]
    return f"not shown: {', '.join(parts)}: {run.command('show -v')}"


def _say(console: Console, text: RichText) -> None:
    """A path that is wider than the terminal is not broken: its command is to be pasted."""
    if all(cell_len(word) <= console.width for word in text.plain.split()):
        console.print(text)
        return
    for line in table.wrapped(text.plain, console.width, "", ""):
        console.print(Text(line, style=text.style), overflow="ignore", crop=False)


def _lines_of(console: Console, lines: Iterable[RichText]) -> list[str]:
    with console.capture() as printed:
        for line in lines:
            _say(console, line)
    return printed.get().splitlines(keepends=True)


def ended(run: Run, last: Sequence[str]) -> None:
    """Print what a finished sweep ends with, on one screen: the answer, the claims that do not
    hold, the table of its numbers, and the `last` lines. What does not fit is counted, and `memlab
    show` has it."""
    console = table.console()
    last = [tables.end(run), *last]
    printed = _printed(run) if run.experiment.watched else ()
    more = _lines_of(console, map(Text, printed))
    room = SCREEN_WITH_TABLE - _broken(last, console.width) - len(more)
    for line in [*_first_screen(console, run, room).lines, *more]:
        console.file.write(line)
    _unbroken(last)


@dataclass(frozen=True, slots=True)
class _FirstScreen:
    """The lines of the answer, with their ends, and the tables among them."""

    lines: Sequence[str]
    tables: Sequence[Table]


def _first_screen(console: Console, run: Run, room: int) -> _FirstScreen:
    """The answer, the claims that do not hold, and as many tables as have room: of the first one at
    least some rows."""
    answer = _lines_of(console, _answer_lines(console, run, verbose=False))
    open_ones = [_lines_of(console, open_claim) for open_claim in _open_claims(console, run)]
    open_lines = sum(map(len, open_ones))
    result = key_tables(run, _judged(run).judged) if run.measured else []
    rest = room - len(answer) - min(open_lines, _FEW_OPEN)
    shown: list[str] = []
    whole: list[Table] = []
    for item in result:
        lines = _of_table(console, item, rest - len(shown))
        if not lines and not whole:
            lines = _of_table(console, _of_height(console, run, item, rest), rest)
        if not lines:
            break
        shown += lines
        whole.append(item)
    opened = _cut(open_ones, room - len(answer) - len(shown), run)
    return _FirstScreen([*answer[: max(1, room)], *opened, *shown], whole)


def _of_table(console: Console, shown: Table, room: int) -> list[str]:
    """Its lines with what its signs mean; none if they have no room."""
    with console.capture() as printed:
        write(console, shown)
        if legend := _legend([shown]):
            _say(console, Text(legend, style="dim"))
    lines = printed.get().splitlines(keepends=True)
    return lines if len(lines) <= room else []


def _of_height(console: Console, run: Run, shown: Table, room: int) -> Table:
    """The table with as many rows as fit; with one if none do."""
    for rows in range(len(shown.rows), 1, -1):
        fewer = shortened(run, shown, rows)
        if _of_table(console, fewer, room):
            return fewer
    return shortened(run, shown, 1)


def _legend(shown: Sequence[Table]) -> str:
    cells = (cell.text for item in shown for row in item.cells for cell in row[item.names :])
    return tables.legend(cells)


def _cut(claims: Sequence[Sequence[str]], room: int, run: Run) -> list[str]:
    """The lines of as many claims as have room, with one that says how many more there are."""
    if sum(map(len, claims)) <= room:
        return [*chain.from_iterable(claims)]
    shown = table.fitting(map(len, claims), room - 1)
    text = f"{len(claims) - shown} more not shown to hold: {run.command('claims')}\n"
    return [*chain.from_iterable(claims[:shown]), text]


def _answer_lines(console: Console, run: Run, *, verbose: bool) -> list[RichText]:
    """The answer as wide as the terminal."""
    result = _answer(run, verbose=verbose)
    results = [part for line in result for part in line.wrap(console, console.width)]
    for line in results:
        line.rstrip()
    return results


def _unbroken(lines: Iterable[str]) -> None:
    """Print what may be pasted: a terminal breaks a line that is too long, and no line ends."""
    for line in lines:
        click.echo(printable(line))


def _answer(run: Run, *, verbose: bool) -> Iterator[RichText]:
    """The question, the answer with its interval per setting, what disturbed it in the third line,
    how many claims hold, and what was measured."""
    if not run.measured:
        yield Text(words.nothing_measured(run), style="bold")
    name = f" ({run.row.name})" if run.row.name else ""
    yield Text(f"run {run.id}{name}: {run.experiment.question}")
    results = [*_found(run, verbose=verbose)]
    if not results and run.measured and run.experiment.claims:
        results = [words.headline([_judged(run)])[0]]
        counted = True
    else:
        counted = not run.experiment.claims or not run.measured
    if not results and run.measured and not any(summary.medians for summary in run.summaries):
        results = [*tables.ends(run)]  # no number: how it ended is the answer
    for line in results[:1]:
        yield Text(line, style="bold")
    if busy := words.busy(run):
        yield Text(busy, style="bold yellow")
    for line in results[1:]:
        yield Text(line, style="bold")
    if run.measured and run.experiment.so:
        for text in decisions.lines(run, _judged(run).judged):
            yield Text(text, style="bold")
    if not counted:
        yield Text(words.headline([_judged(run)])[0], style="bold")
    for line in _measured(run):
        yield Text(line)
    if run.measured:
        for line in words.not_testable(run)[:_REASONS]:
            yield Text(line)


def _found(run: Run, *, verbose: bool) -> Iterator[str]:
    """A line per setting: where one side becomes the cheaper one, or what a policy changes."""
    result = crossings(run)
    for crossed in result:
        where = words.labels(run.named, crossed.panel, crossed.panel)
        if crossed.known:
            text = words.crossing(run.named, crossed)
            if _is_fallen(run, crossed):
                text += "; undecided with all of the run's verdicts counted"
            yield f"{where}: {text}" if where else text
    if unknown := [crossed for crossed in result if not crossed.known]:
        text = words.crossing(run.named, min(unknown, key=lambda one: one.found.n))
        yield text if len(result) == 1 else f"{text} (in {len(unknown)} of {len(result)} settings)"
    yield from _effects(run, verbose=verbose)


def _is_fallen(run: Run, crossed: Crossing) -> bool:
    """Whether the claim on it does not stand once all verdicts of the run are corrected."""
    return any(
        item.fallen
        and isinstance(claim := item.claim, Crossover)
        and crossed.of.items() <= {**(claim.where or {}), **claim.of}.items()
        and crossed.to.items() <= {**(claim.where or {}), **claim.to}.items()
        and crossed.panel.items() <= item.setting.items()
        for item in _judged(run).judged
    )


def _measured(run: Run) -> Iterator[str]:
    counts = [result.outcomes.total() for result in run.summaries]
    each = " to ".join(str(n) for n in dict.fromkeys((min(counts), max(counts))))
    yield (
        f"{words.count(len(run.points), 'point')}, "
        f"{each} sample{'' if each == '1' else 's'} each{', in turns' if run.turns else ''}, "
        f"seed {run.row.seed}; "
        f"{words.machine(run)}"
    )
    if run.note:
        yield f"note: {run.note}"
    yield from words.machine_remarks(run)


def _open_claims(console: Console, run: Run) -> list[list[RichText]]:
    """The lines of each claim and setting that is not shown to hold, though it was measured. Why is
    in `memlab claims`."""
    if not run.measured or not run.experiment.claims:
        return []
    parts = (
        (verdict.word, f"{claim.text}{f' ({verdict.where})' if verdict.where else ''}")
        for claim in verdicts(run, summary.deciding(_judged(run).judged))
        for verdict in claim.verdicts
        if verdict.samples and verdict.word in _OPEN
    )
    return [*_in_columns(console, parts)]


_OPEN = ("contradicted", "inconclusive")


def _in_columns(console: Console, said: Iterable[tuple[str, str]]) -> Iterator[list[RichText]]:
    """The lines of each. Those that are contradicted first."""
    result = sorted(said, key=lambda one: one[0] != "contradicted")
    width = max(map(len, [*_OPEN, *(word for word, _ in result)])) + 2
    for word, text in result:
        yield [*_in_column(console, word, text, width)]


def _effects(run: Run, *, verbose: bool) -> Iterator[str]:
    """What each policy changes for a user's command, a sentence per level."""
    if not run.experiment.watched or not run.samples:
        return
    for result in effects(run, run.experiment.watched):
        yield words.effect(run.experiment, result)
    for least, most in extremes(run, run.experiment.watched):
        yield words.extreme(run.experiment, least, most)
    yield from words.unfelt_limit(run)
    if any(summary.medians for summary in run.summaries):
        yield words.empty_program(run)
    yield from _not_measured(run, verbose=verbose)


def _not_measured(run: Run, *, verbose: bool) -> Iterator[str]:
    """A line per reason, of the metrics that no sample has; of those that are shown."""
    read = run.samples.read(_missing, "why metrics are missing")
    missing: Mapping[str, str] = next((m for m in read if m is not None), {})
    labels: dict[str, list[str]] = {}
    for name, why in missing.items():
        shown = verbose or name in tables.of_command(run)
        if shown and not any(name in summary.medians for summary in run.summaries):
            labels.setdefault(why, []).append(run.metric(name).label)
    for why, several in labels.items():
        yield f"not measured here: {', '.join(several)}: {why}"


def _missing(sample: SampleRow) -> Mapping[str, str] | None:
    if not sample.raw:
        return None
    result: Mapping[str, Any] = sample.raw.get("missing", {})
    return {name: str(why) for name, why in result.items()}


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
    result = list(published.tables(run))
    for item in result:
        write(console, tables.published(run, item))
    if result:
        console.print(Text(tables.PUBLISHED_LEGEND, style="dim"))


def reproduced(
    found: Sequence[Reproduced], not_built: Sequence[str], last: Sequence[str], in_full: str
) -> None:
    """Print what of a study holds, on one screen: how many of its claims, those that do not, why an
    experiment does not run here, the `last` lines, and a row per experiment. What has no room is
    counted, with the command that prints all, `in_full`."""
    console = table.console()
    studied = any(item.experiment.sources for item in found)
    first: list[RichText] = [Text(line, style="bold") for line in words.headline(found)[:1]]
    first += [
        Text(f"{item.experiment.name}: {busy}")
        for item in found
        if item.run and (busy := words.busy(item.run))
    ][:1]
    width = console.width
    results = [part for line in first for part in line.wrap(console, width)]
    open_ones = [
        *_in_columns(
            console,
            (
                (claim.overall, f"{claim.claim.text}{f' ({claim.counts})' if claim.counts else ''}")
                for item in found
                for claim in summary.by_claim(item.judged)
                if claim.overall in ("contradicted", summary.DIFFERS, summary.PARTLY, "not decided")
                and not claim.absent
                and (claim.claim.of_study or not studied)
            ),
        )
    ]
    refused = [
        [*Text(f"{item.experiment.name}, not testable here: {item.refused}").wrap(console, width)]
        for item in found
        if item.run is None
    ]
    room = SCREEN - len(results) - _broken([*last, _MOST_LEFT + in_full], width)
    rows = by_experiment(found)
    if _height(console, rows) > room - _FEW_OPEN:
        rows = _of_most_rows(console, rows, room - _FEW_OPEN)
    entries = [*open_ones, *refused]
    shown = table.fitting(map(len, entries), room - _height(console, rows))
    for line in [*results, *chain.from_iterable(entries[:shown])]:
        line.rstrip()
        console.print(line)
    claims_left = max(0, len(open_ones) - shown)
    unsaid = len(entries) - shown - claims_left
    rows_left = len(found) - len(rows.rows)
    remaining = [
        message
        for number, message in (
            (claims_left, words.count(claims_left, "claim")),
            (unsaid, f"why {words.count(unsaid, 'experiment')} cannot be measured here"),
            (rows_left, words.count(rows_left, "experiment")),
            (len(not_built), f"{words.count(len(not_built), 'table')} that no experiment measures"),
        )
        if number
    ]
    _unbroken([*([f"not shown: {', '.join(remaining)}: {in_full}"] if remaining else []), *last])
    write(console, rows)


# The longest line of what has no room, before its command.
_MOST_LEFT = (
    "not shown: 99 claims, why 99 experiments cannot be measured here, 99 experiments, "
    "9 tables that no experiment measures: "
)
_FEW_OPEN = 3  # lines of claims that are open, however many experiments there are


def _broken(lines: Iterable[str], width: int) -> int:
    """How many rows of a terminal they take, which breaks a line that is too long for it."""
    return sum(-(-max(1, cell_len(line)) // width) for line in lines)


def table_of(found: Sequence[Reproduced], study: str, table: str, last: Sequence[str]) -> None:
    """Print what holds, then one printed table of a study beside the numbers here, setting by
    setting; of one in words the claims that test it."""
    console = table_console()
    source = studies.load(study)
    console.print(Text(f"{study}, {source.tables[table].title} ({source.tables[table].place})"))
    for item in found:
        console.print(Text(words.headline([item])[0], style="bold"))
    for run in (entry.run for entry in found if entry.run):
        if busy := words.busy(run):
            console.print(Text(busy, style="bold yellow"))
        for beside in published.tables(run):
            if (beside.source.id, beside.table.id) == (study, table):
                write(console, tables.published(run, beside))
    _unbroken(last)


def claims(found: Reproduced) -> None:
    """Print on one screen how many claims hold, then each claim with its number or with why it does
    not hold. Where that has no room, settings with one verdict share a line, only short reasons are
    given, and the last line counts what is left out."""
    console, run = table.console(), found.run
    assert run is not None
    named = {decision.claim for decision in run.experiment.so}
    with console.capture() as head:
        console.print(Text(words.headline([found])[0], style="bold"))
        for message in decisions.lines(run, found.judged):
            console.print(Text(message, style="bold"))
        _head(console, found, verbose=False)
    standing = [*_standing(found, verbose=False)]
    room = SCREEN - len(head.get().splitlines()) - len(_lines_of(console, map(Text, standing)))
    shown = verdicts(run, found.judged)
    entries: Sequence[_Entry] = [
        *_entries(console, [line for claim in shown for line in _lines(claim)])
    ]
    last = []
    if sum(len(entry.lines) for entry in entries) > room:
        for longest in (_SHORT, 0):  # all that are contradicted, if they fit without reasons
            # First those that a recommendation rests on, then those that do not hold.
            short = sorted(
                (claim.id not in named, _IN_SHORT.index(line[0]), line)
                for claim in shown
                for line in _short_lines(claim, longest)
            )
            entries, remaining = _begin(
                [*_entries(console, [line for *_, line in short])], room - 2
            )
            if not remaining["contradicted"]:
                break
        counts = [f"{count} {word}" for word, count in remaining.items() if count]
        rest = ", ".join([*counts, "the evidence"])
        last = [f"not shown: {rest}: {run.command('claims -v')}"]
    console.file.write(head.get())
    for entry in entries:
        for line in entry.lines:
            console.print(line)
    for text in standing:
        console.print(Text(text))
    _unbroken(last)


def _begin(entries: Sequence[_Entry], room: int) -> tuple[Sequence[_Entry], Counter[str]]:
    """The first of them that fit into so many lines, and how many verdicts are in the others."""
    shown = table.fitting((len(entry.lines) for entry in entries), room)
    remaining = Counter[str]()
    for entry in entries[shown:]:
        remaining[entry.word] += entry.count
    return entries[:shown], remaining


def in_full(found: Sequence[Reproduced], not_built: Sequence[str]) -> None:
    """Print the answer first; then each claim with all its grounds, and the tables that were
    printed; of several experiments a row each last."""
    console = table.console()
    console.print(Text(words.headline(found)[0], style="bold"))
    for item in found:
        _head(console, item, verbose=True)
        if item.run is None:
            continue
        for claim in verdicts(item.run, item.judged):
            for line in _in_full(console, claim):
                console.print(line)
        _published(console, item.run)
        for text in _standing(item, verbose=True):
            console.print(Text(text))
    if len(found) > 1:
        together = summary.verdicts(item for reproduced in found for item in reproduced.judged)
        console.print(Text(summary.standing(together, "all experiments")))
        write(console, by_experiment(found))
    if not_built:
        console.print()
    for printed in not_built:
        console.print(Text(printed))


def _standing(found: Reproduced, *, verbose: bool) -> Iterator[str]:
    """Which verdicts stand once all are corrected, if any does not."""
    text = summary.standing(summary.verdicts(found.judged))
    if text and (verbose or not all(item.survives for item in found.judged if item.verdict.p)):
        yield text


def _judged(run: Run) -> Reproduced:
    return Reproduced(run.experiment, run, (), judge(run))


def _head(console: Console, reproduced: Reproduced, *, verbose: bool) -> None:
    """The experiment and its run, its question, the studies; or why it was not measured."""
    run, experiment = reproduced.run, reproduced.experiment
    measured = ""
    if run is not None:
        when = run.row.created_at[:16].replace("T", " ")
        measured = f", run {run.id} of {when}, {words.count(run.blocks, 'block')}"
    console.rule(Text(experiment.name + measured, style="bold"), align="left")
    console.print(Text(experiment.question))
    for source in map(studies.load, experiment.sources):
        text = source.reference if verbose else source.title
        console.print(Text(f"from {source.id}: {text}", style="dim"))
    if run is None:
        console.print(Text(f"not testable here: {reproduced.refused}"))


@dataclass(frozen=True, slots=True)
class _Entry:
    """The lines of a verdict on one claim, or of a reason that several share."""

    word: str
    count: int
    lines: Sequence[RichText]


def _entries(console: Console, found: Sequence[tuple[str, str, str]]) -> Iterator[_Entry]:
    """A line per verdict: its word, the claim, the number or the reason. A reason that several
    share stands once, above them."""
    lines = _without_repeats(found)
    width = max((len(word) for word, _, _ in lines if len(word) <= _WORD), default=0) + 2
    shared: dict[tuple[str, str], list[str]] = {}
    for word, text, reason in lines:
        # A number of its own is no reason, even where two claims have the same.
        own = word == "reproduced" or not reason
        whole = f"{text}: {reason}" if reason else text
        shared.setdefault((word, whole if own else reason), []).append(whole if own else text)
    for (word, reason), texts in shared.items():
        if texts[0] == reason or len(texts) == 1:
            message = reason if texts[0] == reason else f"{texts[0]}: {reason}"
            results = [*_in_column(console, word, message, width)]
        else:
            results = [*_in_column(console, word, f"{reason}:", width)]
            results += [p for text in texts for p in _indented(console, Text(f"- {text}"), width)]
        yield _Entry(word, len(texts), results)


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
        settings = f", in {verdict.settings} settings, the closest" if verdict.settings > 1 else ""
        place = settings if alone else f" ({verdict.where})"
        yield verdict.word, claim.text + place, verdict.reason


def _short_lines(claim: ClaimVerdicts, longest: int) -> Iterator[tuple[str, str, str]]:
    """The same once for all settings with one verdict, with the number or reason of the one that is
    closest to its bound, of at most so many characters. A claim that does not stand with the
    others is open, as in `show`."""
    by_word: dict[str, list[ShownVerdict]] = {}
    for verdict in claim.verdicts:
        if not verdict.samples and verdict.word == "inconclusive":
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
        closest = min(several, key=lambda one: one.clearance)
        reason = closest.shortened(closest.reason).partition(f"; {summary.FALLEN}")[0]
        yield word, claim.text + where, reason if len(reason) <= longest else ""


_SHORT = 80  # characters of a reason
_IN_SHORT = ("contradicted", "inconclusive", "not testable here", "reproduced")


def _in_column(console: Console, word: str, text: str, width: int) -> Iterator[RichText]:
    """A verdict in a column of its own, and the text behind it."""
    style = STYLES.get(word, "")
    if len(word) > width - 2:
        yield Text(word, style)
        word = ""
    for line in Text(text).wrap(console, console.width - width):
        line.rstrip()
        first = Text(word, style)
        first.pad_right(width - len(first))
        yield first.append_text(line)
        word = ""


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
        yield from _indented(console, text, 2)
        for line in verdict.lines:
            yield from _indented(console, Text(line, style="dim"), 4)
        for line in verdict.controls:
            if line not in message:
                yield from _indented(console, Text(line), 4)
            message.add(line)


def _indented(console: Console, text: RichText, columns: int) -> Iterator[RichText]:
    """Wrapped text behind blanks. rich's Padding would fill each line with blanks to its end."""
    for line in text.wrap(console, max(1, console.width - columns)):
        line.rstrip()
        yield Text(" " * columns).append_text(line)


def compare(found: Sequence[Compared], in_full: str = "") -> None:
    """Print how many points got which word, what else differs, and a row per point of runs compared
    with one base. Where these have no room on one screen, points that differ stand first, the
    medians go where they have no room beside, and a line says what is left out, with the command
    that prints all, `in_full`; without one nothing is."""
    console = table.console()
    with console.capture() as head:
        for line in tables.compared_counts(found):
            console.print(Text(line, style="bold"))
        for line in [*tables.compared_heads(found), *tables.compared_notes(found)]:
            console.print(Text(line))
    legend = Text(tables.ratio_legend(found[0]), style="dim")
    room = SCREEN - len(head.get().splitlines()) - len(_lines_of(console, [legend]))
    shown, remaining = tables.compared(found, p=False), []
    if in_full and _height(console, shown) > room:
        whole = len(shown.rows)
        room -= _broken([f"not shown: {whole} points, the medians: {in_full}"], console.width)
        few = tables.compared(found, p=False, medians=False)
        shown, few = (_of_most_rows(console, item, room) for item in (shown, few))
        if _height(console, shown) > room or len(shown.rows) + _ROWS < len(few.rows):
            shown, remaining = few, ["the medians"]
        remaining = [words.count(whole - len(shown.rows), "point"), *remaining]
    console.file.write(head.get())
    write(console, shown)
    if remaining:
        _unbroken([f"not shown: {', '.join(remaining)}: {in_full}"])
    console.print(legend)


_ROWS = 2  # that a comparison gives for its medians


def _of_most_rows(console: Console, whole: Table, room: int) -> Table:
    """So many rows as fit into so many lines, the most telling ones; one at least."""
    rows = sorted(whole.rows, key=_telling)
    for count in range(min(room, len(rows)), 1, -1):
        shown = replace(whole, rows=rows[:count])
        if _height(console, shown) <= room:
            return shown
    return replace(whole, rows=rows[:1])


def _height(console: Console, shown: Table) -> int:
    with console.capture() as printed:
        write(console, shown)
    return len(printed.get().splitlines())


def _telling(row: Sequence[Cell | str]) -> int:
    """The first of these words that any of its verdicts is."""
    message = {cell.text for cell in row if isinstance(cell, Cell)}
    order = ("slower", "faster", "inconclusive", "same")
    return next((at for at, word in enumerate(order) if word in message), len(order))

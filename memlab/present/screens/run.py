"""A run on a screen: what `show` prints, and what a finished sweep ends with."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from rich.console import Console

from memlab.judging import costs
from memlab.present import attribution, modes, table, tables, words
from memlab.present.key_table import key_tables, narrowed, shortened
from memlab.present.screens.answer import answer_lines, judged_run, last_output, open_claims
from memlab.present.screens.lines import FEW_OPEN, lines_of, rows_taken, say, unbroken
from memlab.present.table import SCREEN_WITH_TABLE, Table, Text, write
from memlab.results import Run
from memlab.results import beside as published
from memlab.text.printable import printable

_LEFT_OUT = 2  # lines that name what is left out


def show(run: Run, *, verbose: bool = False) -> None:
    """Print a run: the answer, as its sweep ended with it; then its tables, controls, what was
    published, cost models, noise. Parts that do not fit into so many lines are named in the last
    one. With `verbose` all of them, with every metric, and each published table whole."""
    console = table.console()
    parts = [*_parts(console, run, verbose=verbose)]
    remaining: list[str] = []
    if verbose:
        opened = chain.from_iterable(open_claims(console, run))
        results = [*answer_lines(console, run, verbose=True), *opened]
        parts.insert(0, _Section("", lines_of(console, results)))
    else:
        fixed = sum(len(part.lines) for part in parts if not part.name)
        first = _first_screen(console, run, SCREEN_WITH_TABLE - fixed - _LEFT_OUT)
        parts = [
            _Section("", first.lines),
            *(item for item in parts if item.of not in first.tables),
        ]
        parts, remaining = _that_fit(parts)
    for part in parts:
        console.file.write("".join(part.lines))
    if remaining:
        unbroken([_left_out(remaining, run)])


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
                    say(console, Text(item, style="dim" if dim else ""))
                else:
                    write(console, item)
        of = next((entry for entry in shown if isinstance(entry, Table)), None)
        return _Section(name, printed.get().splitlines(keepends=True), of)

    if run.experiment.watched:
        yield part("", *last_output(run))
    if run.measured:
        measured = tables.medians(run) if verbose else key_tables(run, judged_run(run).judged)
        for shown in measured:
            yield part("" if verbose else "table", shown)
        if verbose:
            measured.append(tables.every_metric(run))
            yield part("", measured[-1])
            yield part("", _legend(measured), dim=True)
        if levels := tables.names_of_levels(run):
            yield part("what -p takes", levels, dim=True)
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
    message = ", ".join(f"{row[0].text} {row[1].text}" for row in flags.cells)
    of = words.count(len(run.samples), "sample")
    message = f"{message}, of {of}: flagged, not dropped" if message else f"none in {of}"
    yield part("", f"noise: {message}")
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


def _that_fit(parts: Sequence[_Section]) -> tuple[list[_Section], list[str]]:
    """The parts that fit into SCREEN_WITH_TABLE, in their order, and the names of the others."""
    room = SCREEN_WITH_TABLE - sum(len(part.lines) for part in parts if not part.name) - _LEFT_OUT
    fitting, rest = [], []
    for part in parts:
        lines = part.lines
        if not part.name or len(lines) <= room:
            room -= len(lines) if part.name else 0
            fitting.append(part)
        else:
            rest.append(part.name)
    return fitting, rest


def _left_out(names: Sequence[str], run: Run) -> str:
    """The last line of a `show` that has more: `not shown: 2 tables, the cost models: ...`."""
    parts = [
        name if name.startswith(("the ", "what ", "how ")) else words.count(number, name)
        for name, number in Counter(names).items()
    ]
    return f"not shown: {', '.join(parts)}: {run.command('show -v')}"


def ended(run: Run, last: Sequence[str]) -> None:
    """Print what a finished sweep ends with, on one screen: the answer, the claims that do not
    hold, the table of its numbers, and the `last` lines. What does not fit is counted, and `memlab
    show` has it."""
    console = table.console()
    last = [tables.end(run), *last]
    printed = last_output(run) if run.experiment.watched else ()
    more = lines_of(console, map(Text, printed))
    room = SCREEN_WITH_TABLE - rows_taken(last, console.width) - len(more)
    for line in [*_first_screen(console, run, room).lines, *more]:
        console.file.write(line)
    unbroken(last)


@dataclass(frozen=True, slots=True)
class _FirstScreen:
    """The lines of the answer, with their ends, and the tables among them."""

    lines: Sequence[str]
    tables: Sequence[Table]


def _first_screen(console: Console, run: Run, room: int) -> _FirstScreen:
    """The answer, the claims that do not hold, and as many tables as have room: of the first one at
    least some rows."""
    answer = lines_of(console, answer_lines(console, run, verbose=False))
    open_ones = [lines_of(console, open_claim) for open_claim in open_claims(console, run)]
    open_lines = sum(map(len, open_ones))
    result = key_tables(run, judged_run(run).judged) if run.measured else []
    rest = room - len(answer) - min(open_lines, FEW_OPEN)
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
            say(console, Text(legend, style="dim"))
    lines = printed.get().splitlines(keepends=True)
    return lines if len(lines) <= room else []


def _of_height(console: Console, run: Run, shown: Table, room: int) -> Table:
    """The table with as many columns as leave room for a row, then with as many rows as fit; with
    one of each if none do."""
    least = shortened(run, narrowed(shown, shown.names + 1), 1)
    if room <= 0:
        return least
    for columns in range(len(shown.columns), shown.names, -1):
        narrow = narrowed(shown, columns)
        fitting = bisect_left(
            range(1, len(shown.rows) + 1),
            True,
            key=lambda rows: not _of_table(console, shortened(run, narrow, rows), room),
        )
        if fitting:
            return shortened(run, narrow, fitting)
    return least


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

"""Lines for a terminal: how many they are, and what of blocks or of a table fits."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as RichText

from memlab.present import table
from memlab.present.table import STYLES, Table, Text, write
from memlab.text import units
from memlab.text.printable import printable

OPEN = ("contradicted", "inconclusive")
FEW_OPEN = 3  # lines of claims that are open, however many experiments there are
LEFT_OUT = 2  # lines that name what is left out


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Lines that stand together on a screen. `name` is the noun for them where they are left out;
    a block without one always stands. Those of a lower rank are given room first. `shorter` makes
    less of one that has too many lines."""

    lines: Sequence[str]
    name: str = ""
    rank: int = 0
    count: int = 1
    shorter: Callable[[int], Sequence[str]] | None = None


def fit(blocks: Sequence[Block], room: int, reserved: int = 0) -> tuple[list[str], Counter[str]]:
    """The lines of the blocks that have room, in their order, and how many of each name do not. If
    any does not, so many lines are `reserved` for the one that names it."""
    named = sorted((block for block in blocks if block.name), key=lambda block: block.rank)
    fixed = sum(len(block.lines) for block in blocks if not block.name)
    for free in (room - fixed, room - fixed - reserved):
        rest, shown = free, {block: block.lines for block in blocks if not block.name}
        for block in named:
            lines = block.lines
            if block.shorter and len(lines) > rest:
                lines = block.shorter(rest)
            if len(lines) <= rest:
                shown[block] = lines
                rest -= len(lines)
        left = Counter[str]()
        for block in blocks:
            if block not in shown:
                left[block.name] += block.count
        if not left:
            break
    return [line for block in blocks for line in shown.get(block, ())], left


def open_blocks(entries: Iterable[Sequence[str]], name: str) -> Iterator[Block]:
    """Claims that do not hold: the first one and those that fill FEW_OPEN lines are given room
    before a table, the others after."""
    lines = 0
    for entry in entries:
        is_first = lines == 0 or lines + len(entry) <= FEW_OPEN
        lines += len(entry) if is_first else 0
        yield Block(entry, name, rank=0 if is_first else 2)


def not_shown(left: Mapping[str, int], in_full: str, *more: str) -> list[str]:
    """The line `not shown: 2 tables, the cost models: memlab show -v`; none if nothing is left."""
    parts = [
        name if name.startswith(("the ", "what ", "how ", "why ")) else units.counted(count, name)
        for name, count in left.items()
    ]
    return [f"not shown: {', '.join([*parts, *more])}: {in_full}"] if parts or more else []


def say(console: Console, text: RichText) -> None:
    """A path that is wider than the terminal is not broken: its command is to be pasted."""
    if all(cell_len(word) <= console.width for word in text.plain.split()):
        console.print(text)
        return
    for line in table.wrapped(text.plain, console.width, "", ""):
        console.print(Text(line, style=text.style), overflow="ignore", crop=False)


def lines_of(console: Console, lines: Iterable[RichText]) -> list[str]:
    with console.capture() as printed:
        for line in lines:
            say(console, line)
    return printed.get().splitlines(keepends=True)


def unbroken(lines: Iterable[str]) -> None:
    """Print what may be pasted: a terminal breaks a line that is too long, and no line ends."""
    for line in lines:
        click.echo(printable(line))


def rows_taken(lines: Iterable[str], width: int) -> int:
    """How many rows of a terminal they take, which breaks a line that is too long for it."""
    return sum(-(-max(1, cell_len(line)) // width) for line in lines)


def table_lines(console: Console, shown: Table) -> list[str]:
    with console.capture() as printed:
        write(console, shown)
    return printed.get().splitlines(keepends=True)


def first_rows(shown: Table, rows: int) -> Table:
    return replace(shown, rows=shown.rows[:rows])


def of_most_rows(
    console: Console,
    whole: Table,
    room: int,
    shortened: Callable[[Table, int], Table] = first_rows,
) -> Table:
    """The table with as many columns as leave room for a row, then with as many rows as fit; with
    one of each if none do."""
    counts = range(1, min(len(whole.rows), room) + 1)
    for columns in range(len(whole.columns), whole.names, -1):
        narrow = narrowed(whole, columns)
        fitting = bisect_left(
            counts,
            True,
            key=lambda rows: len(table_lines(console, shortened(narrow, rows))) > room,
        )
        if fitting:
            return shortened(narrow, fitting)
    return shortened(narrowed(whole, whole.names + 1), 1)


def narrowed(shown: Table, columns: int) -> Table:
    """The first so many columns, with a note of how many there are: the first metrics are those
    that matter most."""
    whole = len(shown.columns)
    if whole <= columns:
        return shown
    note = f"{columns - shown.names} of {whole - shown.names} columns"
    rows = [row[:columns] for row in shown.rows]
    return replace(shown, columns=shown.columns[:columns], rows=rows, notes=[note, *shown.notes])


def in_columns(console: Console, lines: Iterable[tuple[str, str]]) -> Iterator[list[RichText]]:
    """The lines of each. Those that are contradicted first."""
    result = sorted(lines, key=lambda line: line[0] != "contradicted")
    width = max(map(len, [*OPEN, *(word for word, _ in result)])) + 2
    for word, text in result:
        yield [*in_column(console, word, text, width)]


def in_column(console: Console, word: str, text: str, width: int) -> Iterator[RichText]:
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


def indented(console: Console, text: RichText, columns: int) -> Iterator[RichText]:
    """Wrapped text behind blanks. rich's Padding would fill each line with blanks to its end."""
    for line in text.wrap(console, max(1, console.width - columns)):
        line.rstrip()
        yield Text(" " * columns).append_text(line)

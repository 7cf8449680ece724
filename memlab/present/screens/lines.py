"""Lines for a terminal: how many they are, and what of a table or of columns fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as RichText

from memlab.present import table
from memlab.present.table import STYLES, Table, Text, write
from memlab.text.printable import printable

OPEN = ("contradicted", "inconclusive")
FEW_OPEN = 3  # lines of claims that are open, however many experiments there are


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


def height(console: Console, shown: Table) -> int:
    with console.capture() as printed:
        write(console, shown)
    return len(printed.get().splitlines())


def of_most_rows(console: Console, whole: Table, room: int) -> Table:
    """So many of the first rows as fit into so many lines; one at least."""
    for count in range(min(room, len(whole.rows)), 1, -1):
        shown = replace(whole, rows=whole.rows[:count])
        if height(console, shown) <= room:
            return shown
    return replace(whole, rows=whole.rows[:1])


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

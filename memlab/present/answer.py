"""What a command answers: sentences and tables in order, and the function that fits them into the
lines of a screen.

A command declares its blocks. `write` and `say` print them on a terminal, `markdown` makes a page
of them; report/answer.html.jinja writes HTML.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text as RichText

from memlab.present import table
from memlab.present.table import STYLES, Table, Text
from memlab.text import units
from memlab.text.printable import printable, unmentioned
from memlab.text.wrapping import cells, cut

OPEN = ("contradicted", "inconclusive")
FEW_OPEN = 3  # lines of claims that are open, however many experiments there are
LEFT_OUT = 2  # lines that name what is left out


@dataclass(frozen=True, slots=True)
class Sentence:
    """Text behind `lead`, in as many lines as it takes: all but the first behind `under` blanks,
    by default as many as the lead is wide. `style` is rich's; pairs are text with its style."""

    text: str | Sequence[tuple[str, str]]
    style: str = ""
    lead: str = ""
    under: int | None = None


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A line that may be pasted: a terminal breaks it if it is too long, and no line ends."""

    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


Part = str | Sentence | Verbatim | Heading | Table


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Parts that stand together on a screen. `name` is the noun for them where they are left out;
    a block without one always stands. Those of a lower rank are given room first. `shorter` makes
    less of one that has too many lines."""

    parts: Sequence[Part]
    name: str = ""
    rank: int = 0
    count: int = 1
    shorter: Callable[[int], Sequence[Part]] | None = None


def say(parts: Iterable[Part], most: int = 1_000_000) -> None:
    """Print all of an answer, in lines of at most so many cells."""
    console = table.console()
    console.width = min(console.width, most)
    for part in parts:
        _print(console, part)


def write(
    console: Console, blocks: Sequence[Block], rows: int, in_full: str, last: Sequence[str] = ()
) -> None:
    """Print what of an answer has room in so many rows, a line that names the rest with the
    command that prints all, and the `last` lines."""
    shown, left = fit(console, blocks, rows - rows_taken(last, console.width), reserved=LEFT_OUT)
    put(console, shown, [*not_shown(left, in_full), *last])


def put(console: Console, shown: Iterable[str], last: Iterable[str] = ()) -> None:
    """Print what has room, and `last` what may be pasted."""
    console.file.write("".join([*shown, *lines(console, map(Verbatim, last))]))


def lines(console: Console, parts: Iterable[Part]) -> list[str]:
    """The lines of a terminal that they take."""
    with console.capture() as printed:
        for part in parts:
            _print(console, part)
    return printed.get().splitlines(keepends=True)


def _print(console: Console, part: Part) -> None:
    if isinstance(part, Table):
        table.write(console, part)
    elif isinstance(part, Heading):
        console.rule(Text(part.text, style="bold"), align="left")
    elif isinstance(part, Verbatim):
        console.print(Text(part.text), soft_wrap=True)
    else:
        for line in _wrapped(console, Sentence(part) if isinstance(part, str) else part):
            console.print(line, soft_wrap=True)


def _wrapped(console: Console, sentence: Sentence) -> Iterator[RichText]:
    pairs = [(sentence.text, "")] if isinstance(sentence.text, str) else sentence.text
    text = Text.assemble(*pairs)
    lead = printable(sentence.lead)
    under = cells(lead) if sentence.under is None else sentence.under
    for part in cut(text.plain, console.width - cells(lead), console.width - under):
        yield Text(lead, style=sentence.style).append_text(text[part])
        lead = " " * under


def fit(
    console: Console, blocks: Sequence[Block], room: int, reserved: int = 0
) -> tuple[list[str], Counter[str]]:
    """The lines of the blocks that have room, in their order, and how many of each name do not. If
    any does not, so many lines are `reserved` for the one that names it."""
    whole = {block: lines(console, block.parts) for block in blocks}
    named = sorted((block for block in blocks if block.name), key=lambda block: block.rank)
    fixed = {block: whole[block] for block in blocks if not block.name}
    for free in (room, room - reserved):
        rest, shown = free - sum(map(len, fixed.values())), {**fixed}
        for block in named:
            text = whole[block]
            if block.shorter and len(text) > rest:
                text = lines(console, block.shorter(rest))
            if len(text) <= rest:
                shown[block] = text
                rest -= len(text)
        hidden = Counter[str]()
        for block in blocks:
            if block not in shown:
                hidden[block.name] += block.count
        if not hidden:
            break
    return [line for block in blocks for line in shown.get(block, ())], hidden


def open_blocks(console: Console, entries: Iterable[Sequence[Part]], name: str) -> Iterator[Block]:
    """Claims that do not hold: the first one and those that fill FEW_OPEN lines are given room
    before a table, the others after."""
    line_count = 0
    for entry in entries:
        count = len(lines(console, entry))
        is_first = line_count == 0 or line_count + count <= FEW_OPEN
        line_count += count if is_first else 0
        yield Block(entry, name, rank=0 if is_first else 2)


def not_shown(left: Mapping[str, int], in_full: str, *more: str) -> list[str]:
    """The line `not shown: 2 tables, the cost models: memlab show -v`; none if nothing is left."""
    parts = [
        name if name.startswith(("the ", "what ", "how ", "why ")) else units.counted(count, name)
        for name, count in left.items()
    ]
    return [f"not shown: {', '.join([*parts, *more])}: {in_full}"] if parts or more else []


def rows_taken(lines: Iterable[str], width: int) -> int:
    """How many rows of a terminal they take, which breaks a line that is too long for it."""
    return sum(-(-max(1, cells(line)) // width) for line in lines)


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
            key=lambda rows: len(lines(console, [shortened(narrow, rows)])) > room,
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


def in_columns(entries: Iterable[tuple[str, str]]) -> Iterator[list[Sentence]]:
    """Verdicts and what they are of, those that are contradicted first."""
    result = sorted(entries, key=lambda entry: entry[0] != "contradicted")
    width = max(map(len, [*OPEN, *(word for word, _ in result)])) + 2
    for word, text in result:
        yield in_column(word, text, width)


def in_column(word: str, text: str, width: int) -> list[Sentence]:
    """A verdict in a column of its own, and the text behind it; a longer one in a line above."""
    style = STYLES.get(word, "")
    if len(word) > width - 2:
        return [Sentence(word, style), Sentence(text, style, " " * width)]
    return [Sentence(text, style, f"{word:<{width}}")]


def markdown(blocks: Iterable[Iterable[Part]]) -> str:
    """Each block a paragraph."""
    paragraphs = ["\n".join(line for part in block for line in _markdown(part)) for block in blocks]
    return unmentioned("\n\n".join(filter(None, paragraphs)))


def _markdown(part: Part) -> Iterator[str]:
    if isinstance(part, Table):
        yield from table.markdown(part)
    elif isinstance(part, Heading):
        yield printable(f"### {part.text}")
    elif isinstance(part, Sentence):
        text = part.text if isinstance(part.text, str) else "".join(text for text, _ in part.text)
        mark = "**" if part.style == "bold" else ""
        yield printable(f"{part.lead}{mark}{text}{mark}")
    else:
        yield printable(part if isinstance(part, str) else part.text)

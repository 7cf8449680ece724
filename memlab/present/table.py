"""One table for the terminal, HTML and Markdown.

Here are the writers for the terminal and for Markdown; report/table.html.jinja writes HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rich import box
from rich import table as rich_table
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as RichText

from memlab.text.printable import printable

STYLES = {
    "quiet": "dim",
    "reproduced": "bold green",
    "contradicted": "bold red",
    "inconclusive": "bold yellow",
    "not testable here": "bold yellow",
    "not in this run": "dim",
    "faster": "green",
    "slower": "bold red",
}
SCREEN = 24  # lines
SCREEN_WITH_TABLE = 40  # of what ends with a table of numbers
_LEAST_WIDTH = 20  # characters; COLUMNS=0 is what some programs leave behind
_GAP = 2  # characters between two columns of a terminal
_NAME = 12  # characters that a name keeps where it has to be broken into lines


class Text(RichText):
    """Text for a terminal: one line that does nothing there, whoever wrote it."""

    def __init__(self, text: str = "", *args: Any, **settings: Any) -> None:
        super().__init__(printable(text), *args, **settings)

    def append(self, text: RichText | str, style: Any = None) -> RichText:
        return super().append(printable(text) if isinstance(text, str) else text, style)


def console(*, stderr: bool = False) -> Console:
    """Where memlab writes for people. It takes `Text`: rich reads markup into a str."""
    result = Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    if result.width < _LEAST_WIDTH:
        result.width = 80
    return result


@dataclass(frozen=True, slots=True)
class Cell:
    """`style` is a key of STYLES or nothing; `title` is what a browser shows above the cell."""

    text: str
    style: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """`head` may have two lines. Columns of one `group` stay side by side where they fit. Text
    of more than `wrap` characters may be broken between words."""

    head: str
    align: Literal["left", "right"] = "right"
    group: str = ""
    style: str = ""
    wrap: int = 1_000


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells. The first `names` cells name the row; `notes` stand below."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | str]]
    notes: Sequence[str] = ()
    names: int = 1

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows, each cell with its column's style where it has none."""
        rows = ([c if isinstance(c, Cell) else Cell(c) for c in row] for row in self.rows)
        return [
            [
                replace(cell, style=cell.style or column.style)
                for cell, column in zip(row, self.columns, strict=True)
            ]
            for row in rows
        ]


def write(console: Console, shown: Table) -> None:
    """Print a table. Columns that do not fit side by side are printed below, with the rows named
    again. No name, head or word is cut."""
    console.print()
    if shown.title:
        console.print(Text(shown.title, style="bold"))
    cells = shown.cells
    texts = [
        [column.head, *(row[i].text for row in cells)] for i, column in enumerate(shown.columns)
    ]
    whole = [max(map(_width, column)) for column in texts]
    least = [_least(shown, i, column) for i, column in enumerate(texts)]
    names, rest = whole[: shown.names], least[shown.names :]
    if sum(names) + max(rest, default=0) + _GAP * shown.names > console.width:
        names = least[: shown.names]
    elif sum(names) + sum(rest) + _GAP * (len(whole) - 1) > console.width:
        names = [min(w, shown.columns[i].wrap) for i, w in enumerate(names)]
    room = console.width - sum(width + _GAP for width in names)
    for number, part in enumerate(_parts(shown, least, room)):
        if number:
            console.print()
        columns = [*range(shown.names), *part]
        widths = _spread([least[i] for i in columns], [whole[i] for i in columns], console.width)
        grid = rich_table.Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
        )
        for i, width in zip(columns, widths, strict=True):
            column = shown.columns[i]
            head = RichText(printable(column.head, keep="\n"), overflow="fold")
            grid.add_column(head, justify=column.align, width=width)
        for row in cells:
            styled = ((row[i].text, STYLES.get(row[i].style, "")) for i in columns)
            grid.add_row(*(Text(text, style, overflow="fold") for text, style in styled))
        console.print(grid)
    for note in shown.notes:
        console.print(Text(note, style="dim"))


def _width(text: str) -> int:
    return max(map(cell_len, text.split("\n")))


def _least(shown: Table, number: int, texts: Sequence[str]) -> int:
    """The least width of a column: of a name its _NAME, of prose its longest word."""
    wrap = _NAME if number < shown.names else shown.columns[number].wrap
    words = (cell_len(word) for text in texts for word in text.split())
    longest = max(words, default=0) if number >= shown.names else 0
    return max(min(wrap, max(map(_width, texts))), longest)


def _spread(least: Sequence[int], whole: Sequence[int], width: int) -> list[int]:
    """The widths of columns side by side: what is left over goes to the first that need it."""
    spare = width - sum(width + _GAP for width in least) + _GAP
    widths = []
    for narrow, wide in zip(least, whole, strict=True):
        more = min(wide - narrow, max(0, spare))
        widths.append(narrow + more)
        spare -= more
    return widths


def _parts(shown: Table, widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """The columns that stand side by side, part by part, without those that name the rows."""
    groups: dict[object, list[int]] = {}
    for i in range(shown.names, len(widths)):
        groups.setdefault(shown.columns[i].group or i, []).append(i)
    part: list[int] = []
    for group in groups.values():
        for piece in [group] if _fits(group, widths, room) else [[i] for i in group]:
            if part and not _fits([*part, *piece], widths, room):
                yield part
                part = []
            part = [*part, *piece]
    yield part


def _fits(part: Sequence[int], widths: Sequence[int], room: int) -> bool:
    return sum(widths[i] + _GAP for i in part) - _GAP <= room


def markdown(shown: Table) -> Iterator[str]:
    """The lines of a table in Markdown; the texts of its cells may hold Markdown."""
    yield f"| {' | '.join(_inline(column.head) for column in shown.columns)} |"
    yield f"|{' --- |' * len(shown.columns)}"
    for row in shown.cells:
        yield f"| {' | '.join(_inline(cell.text) for cell in row)} |"


def _inline(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "<br>".join(printable(line).replace("|", "\\|").replace("<", "&lt;") for line in lines)

"""Text in lines of so many cells of a terminal, where a Chinese character takes two."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"\S+")


def cells(text: str) -> int:
    """How wide a text is on a terminal. To import rich takes longer than to print most answers."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, first: int, rest: int) -> Iterator[slice]:
    """The lines of a text: the first of at most `first` cells, the others of `rest`. A word that
    is longer is not broken: a path is to be copied whole."""
    start = end = taken = 0
    room = first
    for word in _WORD.finditer(text):
        taken += cells(text[end : word.end()])
        if end and taken > room:
            yield slice(start, end)
            start, room, taken = word.start(), rest, cells(word[0])
        end = word.end()
    yield slice(start, end)


def wrapped(text: str, width: int, begin: str, rest: str) -> Iterator[str]:
    """The lines behind `begin`, all but the first behind `rest`."""
    for part in cut(text, width - cells(begin), width - cells(rest)):
        yield begin + text[part]
        begin = rest

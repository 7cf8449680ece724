"""How figures look: colours, markers, sizes, and the settings that matplotlib is given."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from functools import cache

import matplotlib
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from memlab.text.printable import printable

FONT = "DejaVu Sans"
FINDING, TEXT, SMALL = 11.5, 10.0, 9.0  # points
LINE_HEIGHT = 1.3  # of the font's size
POINTS = 72.0  # an inch
PIXELS = 1600  # a PNG's width

INK, QUIET, PALE, FAINT = "#1a1a1a", "#595959", "#8c8c8c", "#e3e3e3"
CONTRADICTED = "#b2182b"  # red, which nothing else is

# Okabe and Ito's colours for all kinds of colour vision, less the yellow that white swallows.
# Each list has its own length, so that lines differ in more than one way, in grey too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B4C9A")
MARKERS = ("o", "s", "^", "D", "v", "p", "h", "<", ">")
DASHES = ("-", (0, (7, 1.5)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
DASHED, DOTTED = (0, (4, 2.5)), (0, (1, 1.6))  # published; the loop alone
CONTROL_MARKERS = ("*", "P", "X")
# Of a published value, and of one that is a bound: no series has these, so that it is never read as
# an open, extrapolated one of ours.
PUBLISHED, BOUNDS = "x", {">": "2", "<": "1"}

Dashes = str | tuple[int, tuple[float, ...]]


def settings() -> AbstractContextManager[None]:
    """matplotlib's settings while a figure is made or written; the caller's own come back."""
    return matplotlib.rc_context(
        {
            "font.family": FONT,
            "font.size": TEXT,
            "axes.unicode_minus": False,
            "svg.fonttype": "none",  # text stays text: searchable, in the reader's own font
            "svg.hashsalt": "memlab",  # the same run gives the same file
            "pdf.fonttype": 42,
            "figure.autolayout": False,  # either would place settled axes again
            "figure.constrained_layout.use": False,
        }
    )


def colour(rank: int) -> str:
    return COLOURS[rank % len(COLOURS)]


def marker(rank: int) -> str:
    return MARKERS[rank % len(MARKERS)]


def dashes(rank: int) -> Dashes:
    return DASHES[rank % len(DASHES)]


def control_marker(rank: int) -> str:
    return CONTROL_MARKERS[rank % len(CONTROL_MARKERS)]


def darker(hue: str) -> str:
    """The same hue for words: thin strokes need more contrast than lines."""
    parts = (round(int(hue[i : i + 2], 16) * 0.72) for i in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in parts)


def paler(hue: str, share: float = 0.55) -> str:
    """The same hue mixed with white, for areas that other marks stand on."""
    parts = (round(255 - (255 - int(hue[i : i + 2], 16)) * share) for i in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in parts)


@cache
def width(text: str, size: float, weight: str = "normal") -> float:
    """The width of one line of text in points; needs no canvas."""
    font = FontProperties(family=FONT, weight=weight, size=size)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


_UNBROKEN = r"(?:[^ \n]*\d (?=(?:[KMGT]i)?B\b|[mµn]?s\b|%))?[^ \n]+"


def wrap(text: str, size: float, limit: float, weight: str = "normal") -> list[str]:
    """The text in lines of at most `limit` points, broken at spaces, and not at those that do not
    break, nor between a number and its unit."""
    lines: list[str] = []
    for word in re.findall(_UNBROKEN, printable(text, keep="\n")):
        if lines and width(f"{lines[-1]} {word}", size, weight) <= limit:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines

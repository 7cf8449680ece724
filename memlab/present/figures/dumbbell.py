"""Published against here, claim by claim, on one axis of ratios, with the verdict in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from memlab.experiment import Claim
from memlab.judging.claims import Judged
from memlab.present.figures import layout, scales, style
from memlab.present.figures.against import Against, against, quantity, scale
from memlab.present.figures.layout import EDGE, NARROW, STEP, Page, sign
from memlab.results import Run

COLOURS = {"reproduced": style.COLOURS[0], "contradicted": style.CONTRADICTED}
MARKERS = {"reproduced": "o", "contradicted": "s"}
_PALE = "#d9e6ef"
_LABEL, _WORDS = 168.0, 216.0  # points for the setting on the left, the verdict on the right
_LEFT, _PLOT = EDGE + _LABEL, NARROW - 2 * EDGE - _LABEL - _WORDS
_GAP = 10.0  # between the plot and the words beside it
_AXIS = 46.0  # points below the last row: ticks and the axis's name
_OPEN = 16.0  # the length in points of an arrow that stands for an open end


@dataclass(frozen=True, slots=True)
class _Row:
    """One row: what it shows, its words, and its height in points."""

    shown: Against
    left: Sequence[str]
    right: Sequence[str]

    @property
    def height(self) -> float:
        return max(len(self.left), 1 + len(self.right)) * STEP + 10


@dataclass(frozen=True, slots=True)
class _Band:
    """One claim: its sentence, then its rows."""

    text: Sequence[str]
    scale: Sequence[str]  # what its numbers are
    rows: Sequence[_Row]

    @property
    def head(self) -> float:
        return len(self.text) * style.TEXT * style.LINE_HEIGHT + len(self.scale) * STEP + 4

    @property
    def height(self) -> float:
        return self.head + sum(row.height for row in self.rows) + 8


def draw(page: Page, judged: Sequence[Judged]) -> None:
    bands = [_band(page.run, claim, rows) for claim, rows in against(page.run, judged)]
    drawn = [row.shown for band in bands for row in band.rows if row.shown.drawn]
    page.said = "Left of 1 is less here than published, right of 1 is more." if drawn else ""
    page.width = NARROW
    body = sum(band.height for band in bands) + (_AXIS if drawn else 0)
    closest = "where settings agree, the one whose interval comes nearest to its bound is drawn"
    spans = any(row.shown.group.span for band in bands for row in band.rows)
    top = page.lay(body, list(_signs(drawn)), [closest] if spans else [])
    axes = _axes(page, page.bottom, body, drawn)
    for band in bands:
        _write_band(page, axes, band, top, page.bottom)
        top -= band.height


def _band(run: Run, claim: Claim, rows: Sequence[Against]) -> _Band:
    text = style.wrap(claim.text, style.TEXT, NARROW - 2 * EDGE, "bold")
    named = scale(run, claim) if any(row.drawn for row in rows) else ""
    lines = style.wrap(named, style.SMALL, NARROW - 2 * EDGE)
    return _Band(text, lines, [_row(run, claim, row) for row in rows])


def _row(run: Run, claim: Claim, shown: Against) -> _Row:
    numbers = _numbers(run, claim, shown) if shown.drawn else shown.group.closest.evidence
    return _Row(
        shown,
        left=style.wrap(shown.where or "the only setting", style.SMALL, _LABEL - _GAP),
        right=style.wrap(numbers, style.SMALL, _WORDS - _GAP),
    )


def _numbers(run: Run, claim: Claim, shown: Against) -> str:
    """`here 1,090 (1,050 to 1,120), published >13.6, 6 blocks`."""
    low, here, high = (
        quantity(run, claim, value) if _finite(value) else ""
        for value in (shown.low, shown.here, shown.high)
    )
    span = f"{low} to {high}" if low and high else ""
    span = span or (f"at least {low}" if low else f"at most {high}" if high else "")
    text = f"here {here} ({span})" if here and span else f"here {here or span}"
    if shown.printed:
        text += f", published {shown.printed.bound}{quantity(run, claim, shown.printed.value)}"
    return f"{text}, {shown.n} blocks"


def _finite(value: float | None) -> TypeGuard[float]:
    return value is not None and 0 < value < math.inf


def _signs(drawn: Sequence[Against]) -> Iterator[Artist]:
    """The legend, of what is drawn alone."""
    words = {row.word for row in drawn}
    for word in [*(w for w in COLOURS if w in words), *sorted(words - COLOURS.keys())]:
        hue = COLOURS.get(word, style.QUIET)
        fill = hue if word in COLOURS else "white"
        sure = any(row.low is not None for row in drawn if row.word == word)
        label = f"here{', 95 % interval' if sure else ''}: {word}"
        yield layout.line(label, hue, marker=MARKERS.get(word, "D"), markerfacecolor=fill)
    if any(row.printed for row in drawn):
        yield sign("published", style.INK, marker="o", markersize=8, markerfacecolor="white")
    if any(row.printed and row.printed.bound for row in drawn):
        yield sign("published as a bound", style.INK, marker=">")
    if any(row.claimed for row in drawn):
        yield Patch(facecolor=_PALE, edgecolor=style.PALE, label="where the claim holds")


def _ends(drawn: Sequence[Against]) -> list[float]:
    """What the axis holds: every finite number of every row over its anchor."""
    values = [0.5, 1.0, 2.0]
    for row in drawn:
        known = (row.low, row.here, row.high, *(row.claimed or ()))
        values += [value / row.anchor for value in known if row.anchor and _finite(value)]
    return values


def _axes(page: Page, bottom: float, height: float, drawn: Sequence[Against]) -> Axes:
    """Axes whose x is the ratio and whose y is points above the body's foot."""
    axes = page.axes(_LEFT, bottom, _PLOT, height)
    axes.set(ylim=(0, height), yticks=[])
    axes.patch.set_alpha(0)
    axes.spines[:].set_visible(False)
    if not drawn:
        axes.set_xticks([])
        return axes
    scales.ratios(axes.xaxis, _ends(drawn), _PLOT)
    axes.spines["bottom"].set(visible=True, position=("data", _AXIS - 8), color=style.PALE)
    axes.tick_params(axis="x", labelsize=style.SMALL, color=style.PALE, labelcolor=style.QUIET)
    page.write(
        "here / published; where nothing like it is printed, here / the claimed bound",
        _LEFT + _PLOT / 2,
        bottom + 16,
        style.SMALL,
        color=style.QUIET,
        ha="center",
    )
    return axes


def _write_band(page: Page, axes: Axes, band: _Band, top: float, bottom: float) -> None:
    """One claim's words and marks; `top` and `bottom` are points above the page's foot."""
    size = style.TEXT
    for i, line in enumerate(band.text):
        y = top - i * size * style.LINE_HEIGHT
        page.write(line, EDGE, y, size, weight="bold", color=style.INK)
    for i, line in enumerate(band.scale):
        y = top - len(band.text) * size * style.LINE_HEIGHT - i * STEP
        page.write(line, EDGE, y, style.SMALL, color=style.QUIET)
    top -= band.head
    if any(row.shown.drawn for row in band.rows):
        foot = top - sum(row.height for row in band.rows)
        axes.vlines(1.0, foot - bottom, top - bottom, color=style.PALE, linewidth=0.8, zorder=1)
    for row in band.rows:
        for i, line in enumerate(row.left):
            page.write(line, EDGE, top - 3 - i * STEP, style.SMALL, color=style.INK)
        x = _LEFT + _PLOT + _GAP
        hue = style.darker(COLOURS.get(row.shown.word, style.QUIET))
        page.write(row.shown.word, x, top - 3, style.SMALL, weight="bold", color=hue)
        for i, line in enumerate(row.right):
            page.write(line, x, top - 3 - (i + 1) * STEP, style.SMALL, color=style.QUIET)
        if row.shown.drawn:
            _draw(axes, row.shown, top - row.height / 2 - bottom)
        top -= row.height


def _draw(axes: Axes, row: Against, y: float) -> None:
    anchor = row.anchor or 1.0
    left, right = axes.get_xlim()
    if row.claimed:
        low, high = (min(max(end / anchor, left), right) for end in row.claimed)
        axes.fill_betweenx([y - 7, y + 7], low, high, facecolor=_PALE, edgecolor="none", zorder=0)
        for end in row.claimed:
            if left < end / anchor < right:
                axes.vlines(end / anchor, y - 7, y + 7, color=style.QUIET, linewidth=1, zorder=2)
    hue = COLOURS.get(row.word, style.QUIET)
    spot = _spot(row, anchor)
    if row.printed:
        axes.plot([1.0, spot], [y, y], color=style.PALE, linewidth=1.0, zorder=2)
        _published(axes, row.printed.bound, y)
    _interval(axes, row, anchor, y, hue)
    if _finite(row.here):
        fill = hue if row.word in COLOURS else "white"
        marker = MARKERS.get(row.word, "D")
        axes.plot(spot, y, marker=marker, color=hue, markerfacecolor=fill, markersize=6.5, zorder=5)


def _spot(row: Against, anchor: float) -> float:
    """Where a row's own mark lies: its estimate, else the one end that is known."""
    return next(v for v in (row.here, row.low, row.high) if _finite(v)) / anchor


def _published(axes: Axes, bound: str, y: float) -> None:
    axes.plot(1.0, y, marker="o", color=style.INK, markerfacecolor="white", markersize=8, zorder=4)
    if bound:
        _arrow(axes, 1.0, y, {">": 1, "<": -1}[bound], style.INK)


def _interval(axes: Axes, row: Against, anchor: float, y: float, hue: str) -> None:
    """The 95 % interval, an arrow at an end that is open; nothing where there is none."""
    if row.low is None or row.high is None:
        return
    spot = _spot(row, anchor)
    low = row.low / anchor if row.low > 0 else spot
    high = row.high / anchor if row.high < math.inf else spot
    axes.plot([low, high], [y, y], color=hue, linewidth=2.6, solid_capstyle="butt", zorder=3)
    axes.plot([low, high], [y, y], color=hue, linestyle="", marker="|", markersize=9, zorder=3)
    if row.low <= 0:
        _arrow(axes, low, y, -1, hue)
    if row.high == math.inf:
        _arrow(axes, high, y, 1, hue)


def _arrow(axes: Axes, x: float, y: float, way: int, hue: str) -> None:
    """An open end: a short arrow from x, of the same length on paper wherever it is."""
    axes.annotate(
        "",
        xy=(x, y),
        xytext=(way * _OPEN, 0),
        textcoords="offset points",
        arrowprops={
            "arrowstyle": "<|-",
            "color": hue,
            "linewidth": 1.4,
            "shrinkA": 0,
            "shrinkB": 0,
        },
        zorder=3,
    )

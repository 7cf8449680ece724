"""Published against here, claim by claim, on one axis of ratios, with the verdict in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from memlab.experiment import Claim
from memlab.judging.claims import Judged
from memlab.present.figures import paint, rows, style
from memlab.present.figures.against import JudgedRatio, against, quantity, scale
from memlab.present.figures.layout import STEP, Page
from memlab.present.figures.paint import sign
from memlab.present.figures.rows import DrawnRow
from memlab.results import Run

COLOURS = {"reproduced": style.COLOURS[0], "contradicted": style.CONTRADICTED}
_MARKERS = {"reproduced": "o", "contradicted": "s"}
_PALE = "#d9e6ef"
_LABEL, _WORDS = 158.0, 206.0  # points for the setting on the left, the verdict on the right
_OPEN = 16.0  # the length in points of an arrow that stands for an open end
_AXIS = "here / published; where nothing like it is printed, here / the claimed bound"


def look(word: str) -> dict[str, Any]:
    """The sign of a verdict."""
    hue = COLOURS.get(word, style.QUIET)
    fill = hue if word in COLOURS else "white"
    return {"hue": hue, "marker": _MARKERS.get(word, "D"), "markersize": 6, "markerfacecolor": fill}


def draw(page: Page, judged: Sequence[Judged]) -> None:
    run, lines, shown = page.run, list[DrawnRow](), list[JudgedRatio]()
    for claim, result in against(run, judged):
        lines.append(DrawnRow(across=claim.text, bold=True, above=8.0))
        if any(item.drawn for item in result) and (named := scale(run, claim)):
            lines.append(DrawnRow(across=named))
        for item in result:
            message = _numbers(run, claim, item) if item.drawn else item.group.closest.evidence
            hue = style.darker(COLOURS.get(item.word, style.QUIET))
            lines.append(DrawnRow(item.where or "the only setting", message, item.word, hue))
        shown += result
    drawn = [item for item in shown if item.drawn]
    page.said = "Left of 1 is less here than published, right of 1 is more." if drawn else ""
    if any(item.group.span for item in shown):
        page.notes.append(
            "where settings agree, the one whose interval comes nearest to its bound is drawn"
        )
    room = {"high": STEP + 10, "name_max": _LABEL, "numbers_max": _WORDS}
    axes, middles = rows.ratios(page, lines, _ends(drawn), _AXIS if drawn else "", **room)
    if not drawn:
        axes.set_axis_off()
    said_of = {entry.word for entry in drawn}
    for word in [*(w for w in COLOURS if w in said_of), *sorted(said_of - COLOURS.keys())]:
        sure = any(entry.low is not None for entry in drawn if entry.word == word)
        label = f"here{', 95 % interval' if sure else ''}: {word}"
        page.legend(paint.line(label, **look(word)))
    for item, middle in zip(shown, middles, strict=True):
        if item.drawn:
            _draw(page, axes, item, middle)


def _numbers(run: Run, claim: Claim, shown: JudgedRatio) -> str:
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


def _ends(drawn: Sequence[JudgedRatio]) -> list[float]:
    """What the axis holds: every finite number of every row over its anchor."""
    values = [0.5, 1.0, 2.0]
    for row in drawn:
        known = (row.low, row.here, row.high, *(row.claimed or ()))
        values += [value / row.anchor for value in known if row.anchor and _finite(value)]
    return values


def _draw(page: Page, axes: Axes, row: JudgedRatio, y: float) -> None:
    anchor = row.anchor or 1.0
    rest, right = axes.get_xlim()
    if row.claimed:
        low, high = (min(max(end / anchor, rest), right) for end in row.claimed)
        axes.fill_betweenx([y - 7, y + 7], low, high, facecolor=_PALE, edgecolor="none", zorder=1.1)
        for end in row.claimed:
            if rest < end / anchor < right:
                axes.vlines(end / anchor, y - 7, y + 7, color=style.QUIET, linewidth=1, zorder=2)
    # An estimate, else the one end that is known.
    spot = next(v for v in (row.here, row.low, row.high) if _finite(v)) / anchor
    if row.printed:
        axes.plot([1.0, spot], [y, y], color=style.PALE, linewidth=1.0, zorder=2)
        ring: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "markersize": 8}
        axes.plot(1.0, y, color=style.INK, zorder=4, **ring)
        page.legend(sign("published", style.INK, **ring))
        if row.printed.bound:
            _arrow(axes, 1.0, y, {">": 1, "<": -1}[row.printed.bound], style.INK)
            page.legend(sign("published as a bound", style.INK, marker=">"))
    interval, face = None, look(row.word)
    hue = face.pop("hue")
    if row.low is not None and row.high is not None:
        low = row.low / anchor if row.low > 0 else spot
        high = row.high / anchor if row.high < math.inf else spot
        interval = low, high
        if row.low <= 0:
            _arrow(axes, low, y, -1, hue)
        if row.high == math.inf:
            _arrow(axes, high, y, 1, hue)
    caps = {"marker": "|", "markersize": 9}
    bar: dict[str, Any] = {"wide": 2.6, "caps": caps, "zorder": 3, "marker": ""}
    paint.dot(axes, (spot, y), interval, hue, across=True, **bar)
    if _finite(row.here):
        paint.dot(axes, (spot, y), None, hue, zorder=4.5, **face | {"markersize": 6.5})
    if row.claimed:
        label = "where the claim holds"
        page.legend(Patch(facecolor=_PALE, edgecolor=style.PALE, label=label))


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

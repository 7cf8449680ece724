"""The figure of a fit: what each limit costs, and below it how often pages came back."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from memlab.fit.documents import FitAnswer, LimitRow
from memlab.fit.shown import sentences
from memlab.present import figures
from memlab.present.figures import paint, scales, style
from memlab.present.machine import machine_of
from memlab.results import Run
from memlab.text import units

_LOOKS = {
    "fits": ("fits", style.colour(2), "o"),
    "slow": ("too slow", style.colour(1), "s"),
    "open": ("shown neither way", style.PALE, "D"),
    "broken": ("killed or failed", style.CONTRADICTED, "X"),
}
_WIDE, _HIGH, _LOW = 9.0, 260.0, 80.0  # inches; points


def draw(run: Run, fit: FitAnswer, path: Path) -> Path:
    """Write the figure as PNG."""
    with style.settings():
        figure = figures.RunFigure(figsize=(_WIDE, 6.0), dpi=style.PIXELS / _WIDE)
        title = next(sentences(fit))
        figure.title, figure.description = title, run.experiment.question
        lines = style.wrap(title, style.FINDING, _WIDE * style.POINTS - 40, "bold")
        top = 0.97 - 0.035 * len(lines)
        grid: dict[str, Any] = {"height_ratios": [_HIGH, _LOW], "hspace": 0.1, "top": top - 0.05}
        grid |= {"left": 0.1, "right": 0.97, "bottom": 0.13}
        above, below = figure.subplots(2, 1, sharex=True, gridspec_kw=grid)
        look: dict[str, Any] = {"fontsize": style.FINDING, "weight": "bold", "va": "top"}
        figure.text(0.02, 0.985, "\n".join(lines), parse_math=False, **look)
        _limits(above, below, fit)
        _costs(above, fit)
        _refaults(below, fit)
        trials = sum(sum(row.outcomes.values()) for row in fit.limits) + fit.baseline.blocks
        foot = f"{machine_of(run.environment)}; swap {fit.swap}; {trials} runs; run {fit.run}"
        figure.text(0.02, 0.012, foot, fontsize=style.SMALL, color=style.QUIET, parse_math=False)
    return figures.write(figure, path)


def _limits(above: Axes, below: Axes, fit: FitAnswer) -> None:
    """The axis of limits, the unlimited peak, and where the answer lies."""
    sizes = [row.limit_bytes for row in fit.limits]
    named = [amount for amount in (fit.peak_bytes, fit.setting_bytes) if amount]
    scales.quantities(below.xaxis, "B", [float(s) for s in (*sizes, *named)], 560.0, log=True)
    ticks = _ticks([*sizes, *named])
    below.set_xticks(ticks)
    below.xaxis.set_minor_locator(NullLocator())
    below.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: units.format_quantity(value, "B"))
    )
    scales.x_label(below, "memory limit (log)")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        if fit.above_bytes and fit.fits_bytes and not fit.gate_bytes:
            span = (fit.above_bytes, fit.fits_bytes)
            axes.axvspan(*span, color=style.FAINT, linewidth=0, zorder=0)
            if axes is above:
                _within(above, "answer", *span)
        broken = [row.limit_bytes for row in fit.limits if row.word == "broken"]
        if broken:
            hue = style.paler(style.CONTRADICTED, 0.12)
            edge = axes.get_xlim()[0]
            axes.axvspan(edge, max(broken), color=hue, linewidth=0, zorder=0)
            if axes is above:
                _within(above, "killed or failed", edge, max(broken))
        if fit.peak_bytes:
            axes.axvline(fit.peak_bytes, color=style.QUIET, linestyle=style.DASHED, linewidth=1.0)
    if fit.peak_bytes:
        whose = "seen" if fit.is_peak_summed else "peak"
        paint.edge_text(above, f"{whose} without a limit", fit.peak_bytes, 3, 1.0)
    if fit.setting_bytes:
        above.axvline(fit.setting_bytes, color=style.INK, linewidth=1.2)
        size = units.format_quantity(fit.setting_bytes, "B")
        paint.edge_text(above, f"set {size}", fit.setting_bytes, 15, 1.0, color=style.INK)


def _within(axes: Axes, text: str, low: float, high: float) -> None:
    """Words up the middle of a region."""
    look: dict[str, Any] = {"rotation": 90, "va": "center"}
    paint.edge_text(axes, text, math.sqrt(low * high), 0, 0.75, **look)


def _ticks(sizes: list[int]) -> list[float]:
    """Some of the sizes, apart from one another."""
    chosen: list[float] = []
    for size in sorted(sizes):
        if not chosen or size >= 1.12 * chosen[-1]:
            chosen.append(float(size))
    return chosen


def _costs(axes: Axes, fit: FitAnswer) -> None:
    rows = [row for row in fit.limits if row.cost is not None]
    ends = [end for row in rows for end in (row.low, row.high, row.cost) if end]
    scales.ratios(axes.yaxis, [*ends, 1 + fit.within], _HIGH)
    axes.axhline(1 + fit.within, color=style.INK, linestyle=style.DOTTED, linewidth=1.2)
    share = units.format_percent(fit.within)
    axes.annotate(
        f"bound: {share} worse",
        (1.0, 1 + fit.within),
        (0, 3),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha="right",
        fontsize=style.SMALL,
        color=style.INK,
    )
    words = {"elapsed": "elapsed time"}.get(fit.metric, fit.metric)
    scales.y_label(axes, f"{words} over that without a limit", _HIGH)
    drawn = []
    for row in fit.limits:
        _, hue, marker = _LOOKS[row.word]
        drawn.append(row.word)
        if row.cost is not None:
            interval = None if row.low is None or row.high is None else (row.low, row.high)
            paint.dot(axes, (row.limit_bytes, row.cost), interval, hue, marker=marker)
        if row.word == "broken":
            _killed(axes, row, hue, marker)
    signs = [_LOOKS[word] for word in _LOOKS if word in drawn]
    handles = [paint.sign(label, hue, marker=marker) for label, hue, marker in signs]
    axes.figure.legend(handles=handles, frameon=False, fontsize=style.SMALL, loc="lower right",
                       bbox_to_anchor=(0.98, -0.005), ncols=len(handles))  # fmt: skip


def _killed(axes: Axes, row: LimitRow, hue: str, marker: str) -> None:
    """A limit that breaks has no cost: its sign stands at the foot."""
    axes.plot(
        row.limit_bytes, 0.04, marker=marker, color=hue, transform=axes.get_xaxis_transform(),
        markersize=7, clip_on=False,
    )  # fmt: skip


def _refaults(axes: Axes, fit: FitAnswer) -> None:
    """Those that were measured, and dashed those that were expected."""
    rates = {
        "o": [(row.limit_bytes, row.refaults_per_s) for row in fit.limits],
        "": [(row.limit_bytes, row.expected_refaults_per_s) for row in fit.limits],
    }
    known = {mark: sorted((x, y) for x, y in of if y is not None) for mark, of in rates.items()}
    highest = [float(rate) for of in known.values() for _, rate in of]
    scales.quantities(axes.yaxis, "1/s", highest, _LOW, log=False)
    scales.y_label(axes, "refaults/s", _LOW)
    for mark, of in known.items():
        if of:
            look: dict[str, Any] = {"color": style.colour(0) if mark else style.QUIET}
            line = "-" if mark else style.DASHED
            axes.plot(*zip(*of, strict=True), linestyle=line, marker=mark, markersize=4, **look)
    if known[""]:
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        words: dict[str, Any] = {"fontsize": style.SMALL, "color": style.QUIET, "bbox": behind}
        axes.text(0.99, 0.8, "dashed: expected", ha="right", transform=axes.transAxes, **words)

"""A published table as a chart: its bars beside ours with intervals, and the ratios below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from memlab.present import words
from memlab.present.figures import placing, style
from memlab.present.figures.sheet import EDGE, WIDTH, sheet
from memlab.published import Cell
from memlab.results import Run
from memlab.results.beside import Beside, Here

LOG_SPAN = 100.0  # largest over smallest number above which bars need a log axis
_LEFT = 74.0  # points for the names on the y axes
_BARS, _BETWEEN, _RATIOS, _AXIS = 190.0, 26.0, 96.0, 40.0  # heights in points
_TINY = 7.5  # points, of the columns' names under their bars
_HATCH = "////"


@dataclass(frozen=True, slots=True)
class _Bar:
    """One printed cell with ours: `slot` is the middle of the pair, in levels from the left."""

    slot: float
    printed: Cell
    here: Here
    rank: int  # of its column

    @property
    def hue(self) -> str:
        return style.colour(self.rank)


def compose(figure: Figure, run: Run, beside: Beside) -> None:
    """Draw a published table beside this run's numbers on an empty figure, and set its size."""
    unit = run.metric(beside.declared.metric).unit
    columns = list(beside.declared.columns)
    width = 0.8 / (2 * len(columns))
    bars = list(_bars(beside, columns, width))
    log = _span(bars) > LOG_SPAN
    varied = [name for name in beside.setting if name in run.varied]
    here = words.levels(run.experiment, beside.setting, varied)
    said = f"{beside.table.quantity} ({unit}{', log scale' if log else ''})"
    body = _BARS + _BETWEEN + _RATIOS + _AXIS
    made = sheet(
        f"{beside.source.id}: {beside.table.title}",
        said + (f"; here: {here}" if here else ""),
        run,
        _counts(bars),
        list(_signs(bars, columns)),
    )
    page, top = made.lay(figure, body)
    above = page.axes(_LEFT, top - _BARS, _across(), _BARS)
    below = page.axes(_LEFT, top - body + _AXIS, _across(), _RATIOS)
    for axes in (above, below):
        axes.set_xlim(-0.5, len(beside.rows) - 0.5)
        axes.set_xticks(range(len(beside.rows)), [])
    _draw_bars(above, bars, width, unit, log=log)
    _draw_ratios(below, bars)
    _name_columns(above, bars, columns, 2 * width * _across() / len(beside.rows))
    labels = [row.name for row in beside.rows]
    below.set_xticks(range(len(labels)), labels, fontsize=style.SMALL)
    below.set_xlabel(beside.table.rows_are, fontsize=style.SMALL, color=style.QUIET)


def _bars(beside: Beside, columns: Sequence[str], width: float) -> Iterator[_Bar]:
    for i, row in enumerate(beside.rows):
        for rank, column in enumerate(columns):
            slot = i + (rank - (len(columns) - 1) / 2) * 2 * width
            yield _Bar(slot, row.printed[column], row.here[column], rank)


def _values(bars: Sequence[_Bar]) -> list[float]:
    ours = [bar.here.median for bar in bars if bar.here.median]
    ends = [end for i in ours for end in (i.low, i.estimate, i.high) if end]
    return [bar.printed.value for bar in bars] + ends


def _span(bars: Sequence[_Bar]) -> float:
    values = _values(bars)
    return max(values) / min(values)


def _counts(bars: Sequence[_Bar]) -> str:
    """How many samples stand behind a bar, and what bars that are missing mean."""
    counts = sorted({bar.here.median.n for bar in bars if bar.here.median})
    each = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
    short = any(bar.here.median and bar.here.median.low is None for bar in bars)
    sure = "no interval below 6" if short else "95 % interval"
    text = f"median of {each} samples a bar, {sure}"
    beyond = any(bar.here.extrapolated for bar in bars)
    return text + ("; here extrapolated from a slice" if beyond else "")


def _signs(bars: Sequence[_Bar], columns: Sequence[str]) -> Iterator[Artist]:
    for rank, column in enumerate(columns):
        hue = style.colour(rank)
        yield Patch(facecolor="white", edgecolor=hue, hatch=_HATCH, label=f"{column}, published")
        yield Patch(facecolor=hue, edgecolor=hue, label=f"{column}, here")
    if any(bar.printed.bound for bar in bars):
        yield Line2D(
            [], [], marker="^", color=style.INK, linestyle="", label="published as a bound"
        )
    if any(bar.here.median is None for bar in bars):
        yield Line2D([], [], marker="x", color=style.QUIET, linestyle="", label="not measured here")


def _across() -> float:
    """The width of the axes in points."""
    return WIDTH - _LEFT - EDGE


def _draw_bars(axes: Axes, bars: Sequence[_Bar], width: float, unit: str, *, log: bool) -> None:
    low, high = placing.limits(_values(bars), log=log, margin=0.08)
    axes.set_yscale("log" if log else "linear")
    axes.set_ylim(low if log else 0.0, high)
    axes.minorticks_off()
    if log:
        axes.set_yticks(placing.log_ticks(low, high, 10))
    axes.set_yticks(ticks := axes.get_yticks(), [words.quantity(tick, unit) for tick in ticks])
    axes.set_ylim(low if log else 0.0, high)
    foot = low if log else 0.0
    for bar in bars:
        value, x = bar.printed.value, bar.slot - width / 2
        shape: dict[str, Any] = {"width": width * 0.92, "bottom": foot, "edgecolor": bar.hue}
        axes.bar(x, value - foot, facecolor="white", hatch=_HATCH, linewidth=0.8, **shape)
        if bar.printed.bound:
            up = bar.printed.bound == ">"
            axes.plot(x, value, marker="^" if up else "v", color=style.INK, markersize=6)
        _draw_ours(axes, bar, bar.slot + width / 2, shape, foot)


def _name_columns(axes: Axes, bars: Sequence[_Bar], columns: Sequence[str], limit: float) -> None:
    """Each pair's column under it, where all fit: colours alone are not told apart in grey."""
    if max(style.width(column, _TINY) for column in columns) > limit:
        return
    for bar in bars:
        axes.annotate(
            columns[bar.rank],
            (bar.slot, 0),
            (0, -5),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            fontsize=_TINY,
            color=style.darker(bar.hue),
            ha="center",
            va="top",
            parse_math=False,
        )


def _draw_ours(axes: Axes, bar: _Bar, x: float, shape: dict[str, Any], foot: float) -> None:
    median = bar.here.median
    if median is None:
        axes.plot(x, foot, marker="x", color=style.QUIET, markersize=5, clip_on=False, zorder=4)
        return
    axes.bar(x, median.estimate - foot, facecolor=bar.hue, linewidth=0.8, **shape)
    if median.low is not None and median.high is not None:
        axes.vlines(x, median.low, median.high, color=style.INK, linewidth=1.4, zorder=4)


def _draw_ratios(axes: Axes, bars: Sequence[_Bar]) -> None:
    """here / published: a bound, drawn with an arrow, where the printed cell is one."""
    spans = [(bar, *_ratio(bar)) for bar in bars if bar.here.median]
    ends = [end for _, low, _, high in spans for end in (low, high) if end > 0]
    low, high = placing.limits([*ends, 0.5, 2.0], log=True, margin=0.1)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.minorticks_off()
    ticks = placing.log_ticks(low, high, 10)
    axes.set_yticks(ticks, [f"{tick:,.10g}" for tick in ticks])
    axes.axhline(1.0, color=style.QUIET, linewidth=1.0, zorder=2)
    axes.set_ylabel("here / published", fontsize=style.SMALL, color=style.QUIET)
    for bar, low, middle, high in spans:
        axes.vlines(bar.slot, low, high, color=bar.hue, linewidth=2.0, zorder=3)
        marker = {"": style.marker(bar.rank), ">": "v", "<": "^"}[bar.printed.bound]
        axes.plot(bar.slot, middle, marker=marker, color=bar.hue, markersize=5.5, zorder=4)


def _ratio(bar: _Bar) -> tuple[float, float, float]:
    """Low, middle and high of here / published; all the middle where there is no interval."""
    median, value = bar.here.median, bar.printed.value
    assert median is not None
    low = median.estimate if median.low is None else median.low
    high = median.estimate if median.high is None else median.high
    return low / value, median.estimate / value, high / value

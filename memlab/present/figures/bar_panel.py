"""One panel of bars: the bars with printed values on them, and below their ratios to the base."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from memlab.experiment import Bars, Level
from memlab.present import words
from memlab.present.figures import page, placing, ratios, style
from memlab.present.figures.series import Mark, Panel, Series
from memlab.results import Run

FILLED = 0.84  # of a group's width; the rest divides it from the next
_WIDEST = 64.0  # points of a bar
_ASIDE, _ASIDE_MAX = 0.25, 9.0  # from a bar's middle to a printed value: of its width, points
_LOST = 8.0  # points: the font of a word in the place of a bar
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "oo", "||||", "++++")
_SLANT = 30.0  # degrees of names that are wider than their group
_LEFT_OF = 70.0  # points left of a panel that a slanted name may reach into
_ARROW = 1.5  # what the arrow of a bound needs above it

PRINTED: Mapping[str, Any] = {
    "color": style.INK,
    "markerfacecolor": "white",
    "markeredgewidth": 1.0,
    "linestyle": "",
}


@dataclass(frozen=True, slots=True)
class Slots:
    """Where bars stand: `count` a group, a group every 1 on the x axis."""

    groups: int
    count: int
    wide: float  # points of the panel
    printed: bool  # printed values take a part of each bar

    @property
    def width(self) -> float:
        """Of a bar, where a group is 1 wide."""
        return min(FILLED / self.count, _WIDEST * self.groups / self.wide)

    @property
    def points(self) -> float:
        """Of a bar."""
        return self.wide / self.groups * self.width

    @property
    def sign(self) -> float:
        """Points of a printed value's sign: two of them stand beside each other."""
        return min(6.0, max(4.2, 0.3 * self.points))

    @property
    def word_fits(self) -> bool:
        return self.points >= _LOST * 1.2

    def bar(self, mark_x: float, rank: int) -> float:
        """The middle of a bar."""
        return mark_x + (rank - (self.count - 1) / 2) * self.width

    def ours(self, mark_x: float, rank: int) -> float:
        """Our interval stands left of the middle where a printed value stands right of it."""
        return self.bar(mark_x, rank) - (self._aside if self.printed else 0.0)

    def theirs(self, mark_x: float, rank: int) -> float:
        return self.bar(mark_x, rank) + self._aside

    @property
    def _aside(self) -> float:
        return self.width * min(_ASIDE, _ASIDE_MAX / self.points)


@dataclass(frozen=True, slots=True)
class Space:
    """What the panels of a figure have in common."""

    run: Run
    figure: Bars
    panels: Sequence[Panel]
    slots: Slots
    leftmost: bool

    def of(self, *kinds: str) -> Iterator[Mark]:
        series = (s for panel in self.panels for s in panel.series if s.kind in kinds)
        return (mark for s in series for mark in s.marks)


@dataclass(frozen=True, slots=True)
class Names:
    """The groups' names and the axis's own, and the points that they need under the panel."""

    levels: Sequence[str]
    axis: str
    turned: float  # degrees
    height: float

    @classmethod
    def of(cls, run: Run, figure: Bars, groups: Sequence[Level], wide: float) -> Names:
        factor = run.experiment.factor(figure.over)
        texts = [run.experiment.describe_level(figure.over, level) for level in groups]
        wrapped = [_wrap(text, wide - 6) for text in texts]
        widest = max(style.width(line, style.SMALL) for lines in wrapped for line in lines)
        across = max(style.width(text, style.SMALL) for text in texts)
        turned = 0.0
        high = max(map(len, wrapped)) * style.SMALL * style.LINE_HEIGHT
        if widest > wide - 4:
            slanted = across * math.cos(math.radians(_SLANT)) <= wide / 2 + _LEFT_OF
            turned = _SLANT if slanted else 90.0
            high = across * math.sin(math.radians(turned)) + style.SMALL * 1.5
        else:
            texts = ["\n".join(lines) for lines in wrapped]
        full = f"{factor.help} ({factor.name})"
        fits = style.width(full, style.TEXT) <= wide * len(groups)
        return cls(texts, full if fits else factor.name, turned, high + 28)

    def write(self, axes: Axes) -> None:
        axes.tick_params(axis="x", length=0)
        axes.set_xticks(range(len(self.levels)), self.levels, parse_math=False)
        if self.turned:
            for name in axes.get_xticklabels():
                name.set(rotation=self.turned, ha="right", rotation_mode="anchor")
                name.set_verticalalignment("top" if self.turned < 90 else "center")
        axes.set_xlabel(self.axis, fontsize=style.TEXT, parse_math=False)


def _wrap(text: str, wide: float) -> list[str]:
    """Lines broken at blanks and behind underscores."""
    lines = style.wrap(text.replace("_", "_ "), style.SMALL, wide)
    return [line.replace("_ ", "_") for line in lines]


def look(rank: int) -> dict[str, Any]:
    """A bar's colours and hatch: pale inside, so that an interval and a hatch are seen on it."""
    hue = style.colour(rank)
    return {
        "facecolor": style.paler(hue),
        "edgecolor": style.darker(hue),
        "hatch": _HATCHES[rank % len(_HATCHES)],
        "linewidth": 0.9,
    }


def bars(axes: Axes, space: Space, panel: Panel, high: float) -> None:
    """Medians as bars with intervals, printed values beside, words where there is no value."""
    metric = space.run.metric(space.figure.metric)
    log = "y" in space.figure.log
    low, top = _limits(space, log=log)
    _x_axis(axes, space.slots)
    axes.set_yscale("log" if log else "linear")
    axes.set_ylim(low, top)
    axes.minorticks_off()
    binary = metric.unit.partition("/")[0] == "B"
    if log:
        axes.set_yticks(placing.log_ticks(low, top, 2 if binary else 10))
    elif binary and top > 0:
        axes.set_yticks(placing.linear_ticks(top, max(3, int(high / 32)), binary=True))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(max(3, int(high / 32)), steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: words.tick(v, metric.unit)))
    axes.set_ylim(low, top)
    axes.tick_params(labelleft=space.leftmost)
    if space.leftmost:
        said = f"{metric.help} ({metric.unit}{', log' if log else ''})"
        page.y_label(axes, said, metric.name, high)
    for series in panel.series:
        if series.kind == "bar":
            _bars(axes, space.slots, series, low)
        elif series.kind == "published":
            _printed(axes, space.slots, series)


def ratio_bars(axes: Axes, space: Space, panel: Panel, high: float) -> None:
    """Each other bar over the base bar, at the bar's own place."""
    _x_axis(axes, space.slots)
    ratios.axis(axes, ratios.limits([*space.of("ratio", "published ratio")]), high)
    axes.tick_params(labelleft=space.leftmost)
    if space.leftmost:
        base = words.levels(space.run.experiment, space.figure.base or {}, space.figure.base or {})
        page.y_label(axes, f"ratio to {base} (log)", f"/ {base}", high)
    for series in panel.series:
        if series.kind == "ratio":
            _ratios(axes, space.slots, series)
        elif series.kind == "published ratio":
            _printed(axes, space.slots, series)


def _limits(space: Space, *, log: bool) -> tuple[float, float]:
    """All panels share them. A linear axis starts at 0: bars are compared by their length."""
    marks = [*space.of("bar", "published")]
    ends = [end for m in marks for end in (m.low, m.y, m.high) if end is not None]
    ends += [m.y * _ARROW for m in marks if m.bound == ">"]
    ends = [end for end in ends if end > 0] or [1.0]
    if not log:
        return 0.0, max(ends) * 1.08
    _, top = placing.limits(ends, log=True, margin=0.06)
    return min(ends) / max(1.6, (max(ends) / min(ends)) ** 0.1), top


def _x_axis(axes: Axes, slots: Slots) -> None:
    axes.set_xlim(-0.5, slots.groups - 0.5)
    axes.set_xticks([])
    for edge in range(1, slots.groups):
        axes.axvline(edge - 0.5, color=style.FAINT, linewidth=0.7, zorder=0)


def _bars(axes: Axes, slots: Slots, series: Series, foot: float) -> None:
    shape = look(series.like)
    for mark in series.marks:
        axes.bar(
            slots.bar(mark.x, series.like),
            mark.y - foot,
            width=slots.width * 0.9,
            bottom=foot,
            linestyle="--" if mark.extrapolated else "-",
            zorder=2,
            **shape,
        )
        _interval(axes, mark, slots.ours(mark.x, series.like), style.INK)
    for lost in series.missing:
        x = slots.ours(lost.x, series.like)
        if not slots.word_fits:
            axes.plot(x, 0.03, "x", transform=axes.get_xaxis_transform(), color=style.QUIET)
            continue
        axes.annotate(
            lost.why,
            (x, 0.0),
            (0, 4),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=_LOST,
            color=style.darker(style.colour(series.like)),
        )


def _interval(axes: Axes, mark: Mark, x: float, hue: str) -> None:
    if mark.low is None or mark.high is None:
        return
    axes.vlines(x, mark.low, mark.high, color=hue, linewidth=1.4, zorder=4)
    ends = [mark.low, mark.high]
    axes.plot([x, x], ends, linestyle="", marker="_", markersize=5, color=hue, zorder=4)


def _printed(axes: Axes, slots: Slots, series: Series) -> None:
    for mark in series.marks:
        x = slots.theirs(mark.x, series.like)
        sign = {"": "D", ">": "^", "<": "v"}[mark.bound]
        axes.plot(x, mark.y, marker=sign, markersize=slots.sign, zorder=5, **PRINTED)


def _ratios(axes: Axes, slots: Slots, series: Series) -> None:
    hue = style.darker(style.colour(series.like))
    for mark in series.marks:
        x = slots.ours(mark.x, series.like)
        _interval(axes, mark, x, hue)
        axes.plot(x, mark.y, marker=style.marker(series.like), color=hue, markersize=5.5, zorder=5)

"""Many alike side by side: a strip of dots a point, a dot a member, beside it mean and spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from memlab.experiment import Level, Members
from memlab.present import words
from memlab.present.figures import page, strips, style
from memlab.present.figures.page import Page
from memlab.present.figures.series import varied
from memlab.present.figures.sheet import EDGE, STEP, sheet
from memlab.present.figures.strips import Pane, Strip, Untold
from memlab.results import Run

_WIDE, _LEFT, _HIGH, _HEAD = 921.6, 74.0, 270.0, 26.0  # points: page, margin, a panel, above it
_GAP = 0.5  # between the strips of two levels of `over`, where a strip is 1 wide
_DOTS, _MEAN = (0.06, 0.74), 0.87  # where in a strip the dots lie, and the mean
_PALE = 0.35  # of the hue, for the trials behind
_NAMED_MAX = 3  # reasons that the foot gives


def compose(figure: Figure, run: Run, shown: Members) -> None:
    """Draw the members of a run on an empty figure, and set its size."""
    panes = strips.panes(run, shown)
    made = sheet(
        run.experiment.question,
        finding(run, shown, panes),
        run,
        "; ".join([*_lost(run, shown, panes), page.fixed(run)]),
        list(_signs(shown, panes)),
        _WIDE,
    )
    names = [_names(run, shown, pane, _strip_width(pane)) for pane in panes]
    feet = [(max(map(len, under)) + 1) * STEP + 12 for under in names]
    on, top = made.lay(figure, sum(_HEAD + _HIGH + foot for foot in feet))
    high = _top(panes)
    for pane, under, foot in zip(panes, names, feet, strict=True):
        place = words.levels(run.experiment, pane.at, [n for n in pane.at if n in varied(run)])
        on.write(place, _LEFT, top - 4, style.TEXT + 1, weight="bold")
        bottom = top - _HEAD - _HIGH
        axes = on.axes(_LEFT, bottom, on.width - _LEFT - EDGE, _HIGH)
        _frame(axes, run, shown, pane, high)
        for i, strip in enumerate(pane.strips):
            _draw(axes, strip, _places(shown, pane)[i], _rank(shown, pane, i))
        _write_names(on, run, shown, pane, under, bottom)
        top = bottom - foot


def finding(run: Run, shown: Members, panes: Sequence[Pane]) -> str:
    """Where the members are most alike and where least, as spread over mean."""
    found = [s for p in panes for s in p.strips if isinstance(s, Strip) and s.mean > 0]
    if not found:
        return "no point has a value"
    ranked = sorted(found, key=lambda strip: strip.spread / strip.mean)
    said = [
        f"{100 * s.spread / s.mean:.0f} % of the mean at {strips.label(run, shown, s.at)}"
        for s in (ranked[0], ranked[-1])
    ]
    if len(ranked) == 1:
        return f"the spread is {said[0]}"
    return f"the spread is the least, {said[0]}, and the most, {said[1]}"


def _places(shown: Members, pane: Pane) -> list[float]:
    """The left end of every strip; those of one level of `over` stand together."""
    places, at = [], 0.0
    for _, group in groupby(pane.strips, key=lambda strip: strip.at[shown.over]):
        for _ in group:
            places.append(at)
            at += 1
        at += _GAP
    return places


def _wide(shown: Members, pane: Pane) -> float:
    return _places(shown, pane)[-1] + 1 + _GAP / 2


def _strip_width(pane: Pane) -> float:
    """Points, at the least: as if each strip were alone in its level."""
    return (_WIDE - _LEFT - EDGE) / (len(pane.strips) * (1 + _GAP))


def _rank(shown: Members, pane: Pane, index: int) -> int:
    """Of the levels of `by`: strips of the same ones look alike."""
    every = list(dict.fromkeys(_by(shown, strip) for strip in pane.strips))
    return every.index(_by(shown, pane.strips[index]))


def _by(shown: Members, strip: Strip | Untold) -> tuple[Level, ...]:
    return tuple(strip.at[name] for name in shown.by)


def _top(panes: Sequence[Pane]) -> float:
    values = [
        value
        for pane in panes
        for strip in pane.strips
        if isinstance(strip, Strip)
        for trial in (strip.drawn, *strip.behind)
        for value in (*trial, strip.mean + strip.spread)
    ]
    return max(values, default=0.0) * 1.08 or 1.0


def _frame(axes: Axes, run: Run, shown: Members, pane: Pane, high: float) -> None:
    metric = run.metric(shown.metric)
    axes.set_xlim(-_GAP / 2, _wide(shown, pane))
    axes.set_ylim(0, high)
    axes.set_xticks([])
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: words.tick(v, metric.unit)))
    page.y_label(axes, f"{shown.member_label}'s {metric.name} ({metric.unit})", metric.name, _HIGH)


def _draw(axes: Axes, strip: Strip | Untold, left: float, rank: int) -> None:
    if isinstance(strip, Untold):
        axes.annotate(
            strip.why,
            (left + 0.5, 0.0),
            (0, 6),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=style.SMALL,
            color=style.QUIET,
        )
        return
    hue = style.colour(rank)
    places = [left + place for place in _spaced(len(strip.drawn))]
    for trial in strip.behind:
        axes.plot(
            places,
            trial,
            "o",
            markersize=2.2,
            color=style.paler(hue, _PALE),
            zorder=2,
            clip_on=False,
        )
    for i, (x, value) in enumerate(zip(places, strip.drawn, strict=True)):
        apart = i == strip.apart
        axes.plot(
            [x],
            [value],
            marker="X" if apart else style.marker(rank),
            markersize=7.5 if apart else 4.6,
            color=style.INK if apart else hue,
            zorder=5 if apart else 3,
            clip_on=False,
        )
    axes.errorbar(
        [left + _MEAN],
        [strip.mean],
        yerr=[[min(strip.spread, strip.mean)], [strip.spread]],
        color=style.darker(hue),
        marker="_",
        markersize=15,
        markeredgewidth=2.4,
        capsize=3.5,
        linewidth=1.5,
        zorder=4,
        clip_on=False,
    )


def _spaced(count: int) -> list[float]:
    low, high = _DOTS
    return [low + (high - low) * (i + 0.5) / count for i in range(count)]


def _names(run: Run, shown: Members, pane: Pane, wide: float) -> list[list[str]]:
    """The words under every strip: what tells it from those beside it."""
    several = [name for name in shown.by if name in varied(run)]
    return [
        style.wrap(words.levels(run.experiment, strip.at, several), style.SMALL, wide)
        for strip in pane.strips
    ]


def _write_names(
    on: Page, run: Run, shown: Members, pane: Pane, under: Sequence[Sequence[str]], bottom: float
) -> None:
    """The level of each strip, and below, in bold, that of `over` for each group of strips."""
    wide = (on.width - _LEFT - EDGE) / (_wide(shown, pane) + _GAP / 2)
    middles = [_LEFT + (left + _GAP / 2 + 0.5) * wide for left in _places(shown, pane)]
    for middle, lines in zip(middles, under, strict=True):
        for k, line in enumerate(lines):
            on.write(line, middle, bottom - 5 - k * STEP, style.SMALL, ha="center")
    below = bottom - 7 - max(map(len, under)) * STEP
    numbered = enumerate(strip.at[shown.over] for strip in pane.strips)
    for level, group in groupby(numbered, key=lambda pair: pair[1]):
        inside = [middles[i] for i, _ in group]
        named = run.experiment.describe_level(shown.over, level)
        middle = (inside[0] + inside[-1]) / 2
        on.write(named, middle, below, style.TEXT, ha="center", weight="bold", color=style.INK)


def _lost(run: Run, shown: Members, panes: Sequence[Pane]) -> Iterator[str]:
    """Why points have no value, each reason once."""
    found: dict[str, str] = {}
    for strip in (s for pane in panes for s in pane.strips if isinstance(s, Untold)):
        for detail in strip.details[:1]:
            level = run.experiment.describe_level(shown.over, strip.at[shown.over])
            found.setdefault(detail, f"{level}: {detail}")
    yield from list(found.values())[:_NAMED_MAX]


def _signs(shown: Members, panes: Sequence[Pane]) -> Iterator[Artist]:
    """The legend, of what is drawn alone."""
    drawn = [s for pane in panes for s in pane.strips if isinstance(s, Strip)]
    if not drawn:
        return
    yield Line2D(
        [],
        [],
        marker="o",
        markersize=4.6,
        linestyle="",
        color=style.QUIET,
        label=f"{shown.member_label}, in the trial whose mean is the median",
    )
    if any(strip.behind for strip in drawn):
        pale = style.paler(style.QUIET, _PALE)
        yield Line2D(
            [], [], marker="o", markersize=2.6, linestyle="", color=pale, label="in other trials"
        )
    if any(strip.apart is not None for strip in drawn):
        yield Line2D(
            [],
            [],
            marker="X",
            markersize=7.5,
            linestyle="",
            color=style.INK,
            label=f"{shown.apart_label}, not in the mean",
        )
    yield Line2D(
        [],
        [],
        color=style.QUIET,
        linestyle="",
        marker="_",
        markersize=13,
        markeredgewidth=2.4,
        label="mean, and one standard deviation of the members: medians over the trials",
    )

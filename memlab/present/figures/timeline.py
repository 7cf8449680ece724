"""A quantity over the time of a trial: the median trial strong, the point's others pale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from memlab import units
from memlab.experiment import Timeline
from memlab.present import words
from memlab.present.figures import page, placing, style, timelines
from memlab.present.figures.placing import Axis
from memlab.present.figures.sheet import WIDTH, sheet
from memlab.present.figures.timelines import Course, Pane, Trial
from memlab.results import Run

_WIDE = 921.6  # of a page with panels side by side, in points
_LEFT, _BETWEEN, _FOOT = 66.0, 22.0, 42.0  # around a panel, in points
_HEAD, _HEADLESS = 34.0, 8.0  # above a panel that has a name, and above the only one
_HIGH, _LOW = 300.0, 190.0  # of one panel alone, and of each of several
_GAP = 12.0  # from the frame to the labels in the margin
_MANY = 40  # events on a line from which their signs become small


def compose(figure: Figure, run: Run, shown: Timeline) -> None:
    """Draw the courses of a run on an empty figure, and set its size."""
    every = timelines.panes(run, shown)
    panes = [pane for pane in every if pane.courses] or every[:1]
    courses = [course for pane in panes for course in pane.courses]
    several = len(panes) > 1
    columns = 1 if not several else 2 if len(panes) in (2, 4) else 3
    rows = math.ceil(len(panes) / columns)
    head, high = (_HEAD, _LOW) if several else (_HEADLESS, _HIGH)
    made = sheet(
        run.experiment.question,
        timelines.finding(run, shown),
        run,
        _foot(run, every),
        list(_signs(courses, shown)),
        _WIDE if several else WIDTH,
    )
    on, top = made.lay(figure, rows * (head + high + _FOOT))
    notes = [note.text for pane in panes for note in _notes(pane, shown, 0.0)]
    margin = _GAP + 4 + max((style.width(text, style.SMALL, "bold") for text in notes), default=0)
    wide = (on.width - _LEFT - 8 - _BETWEEN * (columns - 1)) / columns - margin
    x, y = _axes(courses, wide, high)
    for i, pane in enumerate(panes):
        row, column = divmod(i, columns)
        left = _LEFT + column * (wide + margin + _BETWEEN)
        bottom = top - (row + 1) * (head + high + _FOOT) + _FOOT
        axes = on.axes(left, bottom, wide, high)
        lowest = i + columns >= len(panes)
        _frame(axes, x, y, shown, leftmost=column == 0, lowest=lowest)
        for course in pane.courses:
            _draw(axes, course, alone=len(pane.courses) == 1)
        _write_margin(axes, _notes(pane, shown, x.high), x, y)
        if several:
            where = timelines.place(run, pane)
            on.write(where, left, bottom + high + 24, style.TEXT + 1, weight="bold")


def _axes(courses: Sequence[Course], wide: float, high: float) -> tuple[Axis, Axis]:
    """The axes that all panels share, so that panels compare by eye."""
    trials = [trial for course in courses for trial in (course.median, *course.others)]
    last = max((trial.at_s[-1] for trial in trials), default=0.0) or 1.0
    limits = (course.limit for course in courses if course.limit is not None)
    events = (value for trial in trials for _, value in trial.marks)
    most = max(chain((trial.most for trial in trials), limits, events), default=0.0) or 1.0
    return Axis(0.0, last * 1.03, False, wide), Axis(0.0, most * 1.08, False, high)


def _frame(axes: Axes, x: Axis, y: Axis, shown: Timeline, *, leftmost: bool, lowest: bool) -> None:
    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.low, y.high)
    times = placing.linear_ticks(x.high, max(2, int(x.length // 50)), binary=False)
    axes.set_xticks(times, [units.format_duration(at) for at in times])
    binary = shown.unit.startswith("B")
    levels = placing.linear_ticks(y.high, max(2, int(y.length // 30)), binary=binary)
    axes.set_yticks(levels, [words.tick(level, shown.unit) for level in levels])
    axes.tick_params(labelleft=leftmost)
    if lowest:
        axes.set_xlabel("time in the trial", fontsize=style.TEXT)
    if leftmost:
        text = shown.quantity if shown.unit.startswith("B") else f"{shown.quantity} ({shown.unit})"
        page.y_label(axes, text, shown.quantity, y.length)


def _draw(axes: Axes, course: Course, *, alone: bool) -> None:
    hue = style.colour(course.rank)
    for other in course.others:
        axes.plot(other.at_s, other.values, color=style.paler(hue, 0.4), linewidth=0.7, zorder=2)
    trial = course.median
    if alone:
        axes.fill_between(
            trial.at_s, trial.values, color=style.paler(hue, 0.22), linewidth=0, zorder=1
        )
    axes.plot(
        trial.at_s,
        trial.values,
        color=hue,
        linewidth=1.6,
        linestyle=style.dashes(course.rank),
        zorder=3,
    )
    _events(axes, course.rank, trial, hue)


def _events(axes: Axes, rank: int, trial: Trial, hue: str) -> None:
    many = len(trial.marks) > _MANY
    axes.plot(
        [at for at, _ in trial.marks],
        [value for _, value in trial.marks],
        color=style.darker(hue),
        linestyle="",
        marker=style.marker(rank),
        markersize=2.6 if many else 5.6,
        markerfacecolor="white",
        markeredgewidth=0.6 if many else 1.0,
        zorder=4,
    )
    if trial.ended:
        axes.plot(
            trial.at_s[-1:],
            trial.values[-1:],
            color=style.INK,
            linestyle="",
            marker="x",
            markersize=9,
            markeredgewidth=2.2,
            zorder=5,
        )


@dataclass(frozen=True, slots=True)
class _Note:
    """What stands beside a panel, and the spot of the panel's edge that it names."""

    text: str
    spot: tuple[float, float]
    hue: str
    limit: bool = False


def _notes(pane: Pane, shown: Timeline, right: float) -> list[_Note]:
    """The names of a panel's lines, and its limits."""
    lines = [
        _Note(c.label, (right, c.median.values[-1]), style.darker(style.colour(c.rank)))
        for c in pane.courses
        if c.label
    ]
    limits = dict.fromkeys(c.limit for c in pane.courses if c.limit is not None)
    return lines + [
        _Note(_limit(shown, value), (right, value), style.INK, limit=True) for value in limits
    ]


def _limit(shown: Timeline, value: float) -> str:
    return f"{shown.limit_label} {units.format_quantity(value, shown.unit)}".strip()


def _write_margin(axes: Axes, notes: Sequence[_Note], x: Axis, y: Axis) -> None:
    """Every line named in the height of its end; a thin line leads to a name that moved."""
    gap = style.SMALL * style.LINE_HEIGHT
    wanted = [y.place(note.spot[1]) for note in notes]
    places = placing.spread_out(wanted, gap, gap / 2, y.length)
    for note, place in zip(notes, places, strict=True):
        if note.limit:
            axes.axhline(note.spot[1], color=note.hue, linestyle=style.DOTTED, linewidth=1.0)
        axes.annotate(
            note.text,
            note.spot,
            (x.length + _GAP, place),
            textcoords="axes points",
            fontsize=style.SMALL,
            fontweight="normal" if note.limit else "bold",
            color=note.hue,
            va="center",
            annotation_clip=False,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": note.hue,
                "alpha": 0.45,
                "linewidth": 0.7,
                "shrinkA": 1,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            },
        )


def _signs(courses: Sequence[Course], shown: Timeline) -> Iterator[Artist]:
    """The legend, of what is drawn alone."""
    if not courses:
        return
    trials = [course.median for course in courses]
    yield Line2D([], [], color=style.QUIET, linewidth=1.6, label="the trial of the median")
    if any(course.others for course in courses):
        pale = style.paler(style.QUIET, 0.4)
        yield Line2D([], [], color=pale, linewidth=0.7, label="other trials of the point")
    if any(trial.marks for trial in trials):
        yield _sign("o", shown.mark_label, markerfacecolor="white", markersize=5.6)
    if any(trial.ended for trial in trials):
        yield _sign("x", shown.ended_label, markersize=9, markeredgewidth=2.2)


def _sign(marker: str, label: str, **look: Any) -> Artist:
    return Line2D([], [], color=style.INK, linestyle="", marker=marker, label=label, **look)


def _foot(run: Run, panes: Sequence[Pane]) -> str:
    """What holds for the whole figure, what has no line, and what no line shows."""
    untold = [
        f"no line: {', '.join(filter(None, (timelines.place(run, pane), label)))}: {why}"
        for pane in panes
        for label, why in pane.untold
    ]
    lost = sum(course.median.lost for pane in panes for course in pane.courses)
    full = f"{lost:,} values or events came when a series was full" if lost else ""
    return "; ".join(part for part in (page.fixed(run), full, *untold) if part)

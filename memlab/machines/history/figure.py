"""A history as a picture: every run, the level of each part, the changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from memlab.machines.history.judge import History
from memlab.machines.history.remarks import percent
from memlab.machines.history.show import answer

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def figure(found: History, path: Path) -> Path:
    """Every run with its interval over the days; the level of each part; the changes that stand
    with the span in which they lie; and the runs at which the machine was another than before.
    Written as PNG."""
    import matplotlib.dates as mdates

    from memlab.present import figures
    from memlab.present.figures import style

    number: Callable[[datetime], float] = mdates.date2num
    days = [number(night.date.replace(tzinfo=None)) for night in found.nights]
    with style.settings():
        drawn = figures.RunFigure(figsize=(8, 4.2), layout="constrained", dpi=200)
        axes = drawn.add_subplot()
        _draw_runs(axes, found, days)
        _draw_changes(axes, found, days)
        _draw_events(axes, found, days)
        locator = mdates.AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        shown = mdates.ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(shown)
        label = found.metric.name if found.typical else f"{found.metric.name} over all points"
        axes.set_ylabel(f"{label}, % of the typical run")
        axes.spines[["top", "right"]].set_visible(False)
        drawn.suptitle(next(answer(found)), x=0.01, ha="left", fontsize=10)
        drawn.source = source(found)
    return figures.write(drawn, path)


def _draw_runs(axes: Axes, found: History, days: list[float]) -> None:
    import numpy as np

    from memlab.present.figures import style

    levels = np.array([100 * (night.level.estimate - 1) for night in found.nights])
    for day, night, level in zip(days, found.nights, levels, strict=True):
        low, high = night.level.low, night.level.high
        if low is not None and high is not None:
            ends = [100 * (low - 1), 100 * (high - 1)]
            axes.plot([day, day], ends, color=style.PALE, linewidth=0.8, zorder=1)
        axes.plot([day], [level], "o", markersize=3, color=style.colour(0), zorder=2)
    standing = sorted({c.after + 1 for c in found.changes if c.withdrawn is None})
    for first, end in pairwise([0, *standing, len(days)]):
        middle = float(np.median(levels[first:end]))
        axes.plot([days[first], days[end - 1]], [middle] * 2, color=style.INK, linewidth=1.6)


def _draw_changes(axes: Axes, found: History, days: list[float]) -> None:
    from memlab.present.figures import style

    for change in found.changes:
        if change.withdrawn is not None:
            continue
        span = days[change.earliest], days[change.latest + 1]
        axes.axvspan(*span, color=style.colour(1), alpha=0.18, linewidth=0, zorder=0)
        axes.annotate(
            f"{found.word(change)}\n{percent(change.ratio.estimate)}",
            (span[1], 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, -3),
            textcoords="offset points",
            va="top",
            color=style.colour(1),
            fontsize=style.SMALL,
        )


def _draw_events(axes: Axes, found: History, days: list[float]) -> None:
    from memlab.present.figures import style

    for day, night in zip(days, found.nights, strict=True):
        if night.events:
            axes.axvline(day, color=style.QUIET, linewidth=0.8, linestyle=style.DOTTED)
            more = " ..." if night.events[1:] else ""
            axes.annotate(
                f"{night.events[0].partition(':')[0]}{more}",
                (day, 0.0),
                xycoords=("data", "axes fraction"),
                xytext=(2, 3),
                textcoords="offset points",
                rotation=90,
                fontsize=7,
                color=style.QUIET,
            )


def source(found: History) -> str:
    """What the file of the figure says that it is of."""
    from memlab.present.figures import sidecar

    nights = [[n.run, n.level.low, n.level.estimate, n.level.high] for n in found.nights]
    changes = [[c.after, c.earliest, c.latest, c.ratio.estimate] for c in found.changes]
    return f"{next(answer(found))}, numbers {sidecar.digest(nights, changes)}"

"""What kinds draw alike: a value with its interval, words at an edge, signs of the legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from memlab.present.figures import style
from memlab.present.figures.frame import Mark
from memlab.present.figures.placing import Spot


def ends(mark: Mark, over: float = 1.0) -> tuple[float, float] | None:
    """The interval of a mark, divided by `over`; None where it has none."""
    low, high = mark.get("low"), mark.get("high")
    return None if low is None or high is None else (low / over, high / over)


def dot(
    axes: Axes,
    spot: Spot | tuple[Sequence[float], Sequence[float]],
    interval: Sequence[float] | None,
    hue: str,
    *,
    across: bool = False,
    wide: float = 1.4,
    caps: dict[str, Any] | None = None,
    zorder: float = 4.0,
    **look: Any,
) -> None:
    """A sign at a spot, and a line over its interval, which lies up or `across`. Without one, signs
    at several spots too, which are one artist."""
    if interval is not None:
        x, y = spot
        path = (interval, (y, y)) if across else ((x, x), interval)
        line: dict[str, Any] = {
            "color": hue,
            "linewidth": wide,
            "solid_capstyle": "butt",
            "zorder": zorder,
        }
        axes.plot(*path, **line | (caps or {}))
    look = {"marker": "o", "markersize": 6.0, "linestyle": "", **look}
    if look["marker"]:
        axes.plot(*spot, color=hue, zorder=zorder + 0.5, **look)


def edge_text(axes: Axes, text: str, x: float, rise: float, y: float = 0.0, **look: Any) -> None:
    """Words at x, `rise` points above the foot of a panel, or above its head where y is 1."""
    place: dict[str, Any] = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
    look = {"ha": "center", "fontsize": style.SMALL, "color": style.QUIET, **look}
    axes.annotate(text, (x, y), (0, rise), **place, **look)


def sign(label: str, hue: str = style.QUIET, **look: Any) -> Line2D:
    """A sign for the legend: a marker without a line."""
    return Line2D([], [], **{"color": hue, "linestyle": "", "label": label} | look)


def line(label: str, hue: str = style.QUIET, **look: Any) -> Line2D:
    """A sign for the legend: a line."""
    return sign(label, hue, **{"linestyle": "-", "linewidth": 1.6} | look)

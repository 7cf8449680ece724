"""What a reader sees in a figure: its words, and whether any of them collide."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

COMMON = 2  # pixels that two lines of text may share: the edge between them


def texts(figure: Figure) -> list[Text]:
    """Every text that is drawn."""
    unseen = {id(text) for axes in figure.axes for text in _not_drawn(axes)}
    found: list[Artist] = figure.findobj(Text)
    return [
        text
        for text in found
        if isinstance(text, Text)
        if text.get_visible() and text.get_text().strip() and id(text) not in unseen
    ]


def _not_drawn(axes: Axes) -> list[Artist]:
    """What an axis that is off would say, and its ticks beyond its limits."""
    found: list[Artist] = []
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_ticklabels(which="both")  # brings the ticks up to date
        low, high = sorted(axis.get_view_interval())
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not axes.axison or not low <= tick.get_loc() <= high:
                found += [tick.label1, tick.label2]
        if not axes.axison:
            found += axis.findobj(Text)
    return found


def written(figure: Figure) -> str:
    return " ".join(" ".join(text.get_text() for text in texts(figure)).split())


def collisions(figure: Figure) -> list[tuple[str, ...]]:
    """Texts that leave the page, and pairs of texts that cover each other."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    # Of the text alone: an annotation's own extent has its arrow in it.
    boxes = [(text.get_text(), Text.get_window_extent(text, renderer)) for text in texts(figure)]
    shown = [(text, box) for text, box in boxes if math.isfinite(box.x0) and box.width > 0]
    page = figure.bbox.padded(1)
    found: list[tuple[str, ...]] = [
        (text,)
        for text, box in shown
        if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1
    ]
    extents = np.array([box.extents for _, box in shown]).reshape(-1, 4)
    low = np.maximum(extents[:, None, :2], extents[None, :, :2])
    high = np.minimum(extents[:, None, 2:], extents[None, :, 2:])
    for one, other in np.argwhere(np.triu((high - low).min(axis=2) >= COMMON, 1)):
        found.append((shown[one][0], shown[other][0]))
    return found

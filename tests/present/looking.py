"""What a reader sees in a figure: its words, and whether any of them collide."""

from __future__ import annotations

import math
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox


def texts(figure: Figure) -> list[Text]:
    drawn = [*figure.texts]
    for legend in figure.legends:
        drawn += legend.get_texts()
    for axes in figure.axes:
        drawn += axes.texts
        if axes.axison:
            drawn += [axes.xaxis.label, axes.yaxis.label]
            drawn += [*axes.get_xticklabels(), *axes.get_yticklabels()]
    return [text for text in drawn if text.get_text().strip() and text.get_visible()]


def written(figure: Figure) -> str:
    return " ".join(" ".join(text.get_text() for text in texts(figure)).split())


def collisions(figure: Figure) -> list[tuple[str, ...]]:
    """Texts that leave the page, and pairs of texts that cover each other."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    boxes = [(text.get_text(), Text.get_window_extent(text, renderer)) for text in texts(figure)]
    shown = [(text, box) for text, box in boxes if math.isfinite(box.x0) and box.width > 0]
    page = figure.bbox
    found: list[tuple[str, ...]] = [
        (text,)
        for text, box in shown
        if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1
    ]
    for (text, box), (other, other_box) in combinations(shown, 2):
        common = Bbox.intersection(box, other_box)
        if common is not None and min(common.width, common.height) >= 2:
            found.append((text, other))
    return found

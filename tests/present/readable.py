"""Whether the words of a figure can be read: all inside the sheet, none over another."""

from __future__ import annotations

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox


def words(figure: Figure) -> list[str]:
    """Every text that is drawn, on one line each."""
    return [" ".join(text.get_text().split()) for text in texts(figure)]


def texts(figure: Figure) -> list[Text]:
    """Texts in the figure; an axis's ticks beyond its limits are not drawn."""
    FigureCanvasAgg(figure).draw()
    hidden: set[int] = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low <= tick.get_loc() <= high:
                    hidden |= {id(tick.label1), id(tick.label2)}
    found = figure.findobj(Text)
    return [
        text
        for text in found
        if isinstance(text, Text)
        if text.get_visible() and text.get_text().strip() and id(text) not in hidden
    ]


def check(figure: Figure) -> None:
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts(figure)]
    sheet = figure.bbox.padded(1)
    outside = [name for name, box in boxes if not _inside(box, sheet)]
    assert outside == []
    covered = [(a, b) for (a, first), (b, second) in combinations(boxes, 2) if _meet(first, second)]
    assert covered == []


def _inside(box: Bbox, sheet: Bbox) -> bool:
    across = sheet.x0 <= box.x0 and box.x1 <= sheet.x1
    return bool(across and sheet.y0 <= box.y0 and box.y1 <= sheet.y1)


def _meet(first: Bbox, second: Bbox) -> bool:
    """Whether two boxes share more than the edge that lines of text have in common."""
    a, b = first.padded(-1.5), second.padded(-1.5)
    return bool(a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1)

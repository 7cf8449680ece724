"""Sizes of the machine itself on a figure's axis of sizes: its page, its caches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.lines import Line2D

from memlab import units
from memlab.experiment import Lines
from memlab.present.figures import style
from memlab.present.figures.panel import Canvas
from memlab.results import Run

_OF_DATA = ("Data", "Unified")  # /sys/devices/system/cpu/cpu*/cache/index*/type


@dataclass(frozen=True, slots=True)
class Landmark:
    """A place on the axis, its name there, and the size that it stands for."""

    x: float
    text: str
    size_bytes: int


def page(run: Run) -> Landmark | None:
    size, figure = run.environment.get("page_size_bytes"), run.experiment.figure
    if not (isinstance(figure, Lines) and figure.mark_page_size and size):
        return None
    return Landmark(size, f"page, {units.format_size(size)}", size)


def caches(run: Run) -> list[Landmark]:
    """Where what is worked on just fits each of the data caches that the run's CPU has."""
    figure = run.experiment.figure
    times = figure.mark_caches if isinstance(figure, Lines) else 0
    found = run.environment.get("caches") or []
    return [
        Landmark(cache["size_bytes"] / times, f"L{cache['level']}", cache["size_bytes"])
        for cache in found
        if times and cache.get("type") in _OF_DATA and cache.get("level") and cache["size_bytes"]
    ]


def draw(canvas: Canvas, run: Run) -> None:
    """A pale line up the panel and the name above it, where the axis reaches so far."""
    for mark in (page(run), *caches(run)):
        if mark is not None and canvas.x.low < mark.x < canvas.x.high:
            canvas.axes.axvline(mark.x, color=style.PALE, linewidth=0.8, zorder=1)
            half = style.width(mark.text, style.SMALL) / 2
            canvas.write(mark.text, (canvas.x.place(mark.x) - half, canvas.y.length + 2))


def signs(run: Run) -> Iterator[Line2D]:
    """The legend's sign for the caches, with their sizes."""
    if found := caches(run):
        sizes = ", ".join(f"{mark.text} {units.format_size(mark.size_bytes)}" for mark in found)
        times = round(found[0].size_bytes / found[0].x)
        where = f"1/{times} of each cache" if times > 1 else "each cache"
        yield Line2D([], [], color=style.PALE, linewidth=0.8, label=f"{where}: {sizes}")

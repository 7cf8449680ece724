"""The page that a run's figure stands on: title, finding, legend, panels, constants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memlab.experiment import At
from memlab.present import words
from memlab.present.figures import style
from memlab.present.figures.series import Panel, varied
from memlab.results import Run

WIDTH, EDGE = 921.6, 14.0  # points
_NAMED_MAX = 4  # points without a value that the page names; the sidecar has all


@dataclass(frozen=True, slots=True)
class Page:
    """A page in points, filled from its top and from its foot."""

    figure: Figure
    width: float
    height: float

    def write(self, text: str, x: float, y: float, size: float, **look: Any) -> None:
        """One line of text; y is its top."""
        self.figure.text(
            x / self.width, y / self.height, text, fontsize=size, va="top", parse_math=False, **look
        )

    def axes(self, left: float, bottom: float, wide: float, high: float) -> Axes:
        """Axes with a frame on two sides and pale lines across."""
        axes = self.figure.add_axes(
            (left / self.width, bottom / self.height, wide / self.width, high / self.height)
        )
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(style.PALE)
        axes.tick_params(labelsize=style.SMALL, color=style.PALE, labelcolor=style.INK, length=3)
        axes.grid(axis="y", color=style.FAINT, linewidth=0.7)
        axes.set_axisbelow(True)
        return axes


def start(figure: Figure, width: float, height: float) -> Page:
    """Size an empty figure, so that a PNG of it has its fixed width in pixels."""
    figure.set_size_inches(width / style.POINTS, height / style.POINTS)
    figure.set_dpi(style.PIXELS / (width / style.POINTS))
    return Page(figure, width, height)


def y_label(axes: Axes, text: str, short: str, high: float) -> None:
    """An axis's name beside its height in points: two lines at the most, else the short form."""
    lines = style.wrap(text, style.SMALL, high)
    said = "\n".join(lines) if len(lines) <= 2 else short
    axes.set_ylabel(said, fontsize=style.SMALL, parse_math=False)


def place(run: Run, panel: Panel) -> str:
    """A panel's levels in words, with the filesystem that really lies there."""
    names = [name for name in panel.at if name in varied(run)]
    text = words.levels(run.experiment, panel.at, names or run.experiment.figure.panels)
    file = run.experiment.file
    if file is None or file.filesystem not in panel.at:
        return text
    found = run.environment.get("filesystems", {}).get(panel.at[file.filesystem])
    return f"{text} ({found['type']} at {found['path']})" if found else text


def titles(page: Page, run: Run, finding: str) -> float:
    """Write the question and the finding; the height that is left below them."""
    top, limit = page.height - EDGE, page.width - 2 * EDGE
    for text, size, weight in (
        (run.experiment.question, style.TITLE, "bold"),
        (finding, style.FINDING, "normal"),
    ):
        for line in style.wrap(text, size, limit, weight):
            page.write(line, EDGE, top, size, weight=weight, color=style.INK)
            top -= size * style.LINE_HEIGHT
        top -= 2
    return top


def legend(page: Page, handles: Sequence[Artist], top: float) -> float:
    """What the signs mean, in as few rows as fit; the height that is left below."""
    if not handles:
        return top
    widths = [style.width(str(h.get_label()), style.SMALL) + 46 for h in handles]
    columns = len(handles)
    while columns > 1 and _widest(widths, columns) > page.width - 2 * EDGE:
        columns -= 1
    page.figure.legend(
        handles=list(handles),
        loc="upper left",
        bbox_to_anchor=((EDGE - 6) / page.width, (top + 2) / page.height),
        ncols=columns,
        frameon=False,
        fontsize=style.SMALL,
        handlelength=2.4,
        columnspacing=1.6,
        borderpad=0.2,
    )
    return top - math.ceil(len(handles) / columns) * style.SMALL * 1.6 - 8


def _widest(widths: Sequence[float], columns: int) -> float:
    """The width of a legend, which matplotlib fills column by column, the first ones longer."""
    rows, longer = divmod(len(widths), columns)
    starts = [i * rows + min(i, longer) for i in range(columns + 1)]
    return sum(max(widths[i:j]) for i, j in pairwise(starts))


def foot(page: Page, run: Run, panels: Sequence[Panel]) -> float:
    """Write what holds for the whole figure at its foot; the height that is left above."""
    texts = [*_lost(run, panels), fixed(run), machine(run), provenance(run, panels)]
    limit = page.width - 2 * EDGE
    lines = [line for text in texts for line in style.wrap(text, style.SMALL, limit)]
    step = style.SMALL * style.LINE_HEIGHT
    for i, line in enumerate(lines):
        page.write(line, EDGE, 8 + (len(lines) - i) * step, style.SMALL, color=style.QUIET)
    return 8 + len(lines) * step


def _lost(run: Run, panels: Sequence[Panel]) -> Iterator[str]:
    names = varied(run)
    lost = list(
        dict.fromkeys(
            f"{words.levels(run.experiment, missing.at, names)}: {missing.why}"
            for panel in panels
            for series in panel.series
            for missing in series.missing
        )
    )
    if lost:
        more = f"; and {len(lost) - _NAMED_MAX} more" if len(lost) > _NAMED_MAX else ""
        yield f"no value: {'; '.join(lost[:_NAMED_MAX])}{more}"


def fixed(run: Run, *, apart: str = "") -> str:
    """The levels that do not vary in the grid; `apart` names a factor that does in the figure."""
    grid = [point for point in run.points if point.control is None]
    at: At = grid[0].at if grid else {}
    names = {name: level for name, level in at.items() if name not in (*varied(run), apart)}
    scaled = "; ".join(
        f"{name} scaled {how}" for name, how in run.row.request.get("scaled", {}).items()
    )
    return words.named_levels(run.experiment, names) + (f"; {scaled}" if scaled else "")


def machine(run: Run) -> str:
    """The machine in a line."""
    seen, file = run.environment, run.experiment.file
    used = {p.at[file.filesystem] for p in run.points if p.control is None} if file else set()
    count = seen.get("cpu_count")
    parts = [
        f"{seen.get('cpu_model') or 'unknown CPU'}" + (f", {count} CPUs" if count else ""),
        f"{seen.get('hypervisor') or 'virtual'} guest" if seen.get("virtual_machine") else "",
        f"Linux {seen.get('kernel_release') or 'unknown'}",
        words.machine_remark(seen),
        *(
            f"{level}: {found['type']} at {found['path']}"
            for level, found in seen.get("filesystems", {}).items()
            if level in used
        ),
    ]
    return "; ".join(part for part in parts if part)


def provenance(run: Run, panels: Sequence[Panel]) -> str:
    """Which run this is, and how many samples stand behind a mark."""
    kinds = ("line", "control", "bar")
    drawn = [m for p in panels for s in p.series if s.kind in kinds for m in s.marks]
    counts = sorted({mark.n for mark in drawn}) or [0]
    each = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    short = "; no interval below 6" if any(mark.low is None for mark in drawn) else ""
    made = f"memlab {run.row.memlab}, run {run.id} of {run.row.created_at[:10]}"
    return f"{made}; {each} samples a mark{short}"

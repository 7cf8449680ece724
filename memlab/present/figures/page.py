"""The page that a run's panels stand on: title, finding, legend, panels, constants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from memlab.experiment import At
from memlab.present import words
from memlab.present.figures import callouts, marks, predictions, style
from memlab.present.figures import panel as panels_of
from memlab.present.figures.marks import Panel
from memlab.present.figures.panel import Canvas
from memlab.present.figures.placing import Axis
from memlab.results import Run
from memlab.results.crossing import Crossing

_LEFT, _RIGHT, _EDGE = 68.0, 8.0, 14.0  # margins in points; _LEFT holds the y axis's words
_HEAD, _FOOT, _BETWEEN = 36.0, 42.0, 22.0  # above a panel, below it, beside it
_HEIGHT, _ROW = 518.4, 270.0  # of the page, and of every row of panels after the first
_STEP = style.SMALL * style.LINE_HEIGHT
_SAID_MAX = 3  # crossings that the title says one by one
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


def compose(figure: Figure, run: Run) -> None:
    """Draw a run's whole figure on an empty one, and set its size."""
    panels = marks.panels(run)
    models = predictions.of_panels(run, panels)
    columns = 1 if len(panels) < 2 else 2 if len(panels) <= 4 else 3
    rows = math.ceil(len(panels) / columns)
    page = Page(figure, 921.6 if columns < 3 else 1152.0, _HEIGHT + _ROW * (rows - 1))
    figure.set_size_inches(page.width / style.POINTS, page.height / style.POINTS)
    figure.set_dpi(style.PIXELS / (page.width / style.POINTS))
    signs = [*_signs(run, panels), *predictions.signs(models)]
    top = _legend(page, signs, _titles(page, run, panels))
    bottom = _constants(page, run, panels)
    labels = callouts.label_width(panels)
    wide = (page.width - _LEFT - _RIGHT - _BETWEEN * (columns - 1)) / columns - labels
    notes = [predictions.notes(found, wide + labels) for found in models]
    head = _HEAD + max(map(len, notes), default=0) * _STEP
    high = (top - bottom) / rows - head - _FOOT
    (left, right), (low, high_y) = panels_of.limits(run, panels)
    log = run.experiment.figure.log
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        x = _LEFT + column * (wide + labels + _BETWEEN)
        y = top - (row + 1) * (high + head + _FOOT) + _FOOT
        axes = figure.add_axes(
            (x / page.width, y / page.height, wide / page.width, high / page.height)
        )
        canvas = Canvas(
            axes, Axis(left, right, "x" in log, wide), Axis(low, high_y, "y" in log, high)
        )
        panels_of.draw(canvas, run, panel, leftmost=column == 0)
        predictions.draw(canvas, models[i])
        callouts.draw(canvas, run, panel)
        page.write(place(run, panel), x, y + high + head - 4, style.TEXT + 1, weight="bold")
        for k, note in enumerate(notes[i]):
            page.write(note, x, y + high + head - 20 - k * _STEP, style.SMALL, color=style.INK)
        header = ", ".join(marks.shown_by(run))
        page.write(header, x + wide + callouts.GAP, y + high + 14, style.SMALL, color=style.QUIET)
        if not any(series.marks for panel in panels for series in panel.series):
            axes.set_yticks([])


def place(run: Run, panel: Panel) -> str:
    """A panel's levels in words, with the filesystem that really lies there."""
    names = [name for name in panel.at if name in marks.varied(run)]
    text = words.levels(run.experiment, panel.at, names or run.experiment.figure.panels)
    file = run.experiment.file
    if file is None or file.filesystem not in panel.at:
        return text
    found = run.environment.get("filesystems", {}).get(panel.at[file.filesystem])
    return f"{text} ({found['type']} at {found['path']})" if found else text


def finding(run: Run, panels: Sequence[Panel]) -> str:
    """Where the experiment's crossing lies; empty where there is none to say."""
    found = [
        (panel, crossed.crossing)
        for panel in panels
        for crossed in panel.crossed
        if crossed.control is None
    ]
    if len(found) > _SAID_MAX:
        return _range(run, [crossing for _, crossing in found])
    names = [name for name in marks.varied(run) if panels and name in panels[0].at]
    return "; ".join(
        words.crossing(run.experiment, crossing)
        + (f" on {words.levels(run.experiment, panel.at, names)}" if names else "")
        for panel, crossing in found
    )


def _range(run: Run, found: Sequence[Crossing]) -> str:
    """Many crossings in a sentence: how far apart they lie, and in how many panels."""
    name = words.level_words(run.experiment)
    inside = [c.found.estimate for c in found if math.isfinite(c.found.estimate)]
    others = Counter(
        words.crossing(run.experiment, c) for c in found if math.isinf(c.found.estimate)
    )
    said = [f"{text} in {count} of {len(found)} panels" for text, count in others.items()]
    if inside:
        of, _ = words.sides(run.experiment, found[0])
        where = f"between {name(min(inside))} and {name(max(inside))}"
        said.insert(0, f"{of} becomes cheaper {where} in {len(inside)} of {len(found)} panels")
    return "; ".join(said)


def _titles(page: Page, run: Run, panels: Sequence[Panel]) -> float:
    """Write the question and the finding; the height that is left below them."""
    top, limit = page.height - _EDGE, page.width - 2 * _EDGE
    for text, size, weight in (
        (run.experiment.question, style.TITLE, "bold"),
        (finding(run, panels), style.FINDING, "normal"),
    ):
        for line in style.wrap(text, size, limit, weight):
            page.write(line, _EDGE, top, size, weight=weight, color=style.INK)
            top -= size * style.LINE_HEIGHT
        top -= 2
    return top


def _legend(page: Page, handles: Sequence[Line2D], top: float) -> float:
    """What the signs mean, in as few rows as fit; the height that is left below."""
    if not handles:
        return top
    widths = [style.width(str(h.get_label()), style.SMALL) + 46 for h in handles]
    columns = len(handles)
    while columns > 1 and _widest(widths, columns) > page.width - 2 * _EDGE:
        columns -= 1
    page.figure.legend(
        handles=list(handles),
        loc="upper left",
        bbox_to_anchor=((_EDGE - 6) / page.width, (top + 2) / page.height),
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


def _signs(run: Run, panels: Sequence[Panel]) -> Iterator[Line2D]:
    _, (low, _) = panels_of.limits(run, panels)
    drawn = [series for panel in panels for series in panel.series]
    ours = [m for s in drawn if s.kind in ("line", "control") for m in s.marks]
    printed = [m for s in drawn if s.kind == "published" for m in s.marks]
    grey: dict[str, object] = {"color": style.QUIET, "linewidth": 1.6, "markersize": 6}
    if ours:
        yield Line2D([], [], marker="o", label="median, 95 % interval", **grey)  # type: ignore[arg-type]
    if any(m.extrapolated for m in ours):
        yield Line2D(
            [],
            [],
            marker="o",
            markerfacecolor="white",
            linestyle="",
            color=style.QUIET,
            label="open marker: extrapolated from a slice",
        )
    if printed:
        sources = dict.fromkeys(p.source for p in run.experiment.published)
        yield Line2D(
            [],
            [],
            color=style.PALE,
            linewidth=1.1,
            linestyle=style.DASHED,
            marker="o",
            markersize=3.6,
            label=f"published ({', '.join(sources)})",
        )
    if any(m.bound for m in printed):
        yield Line2D(
            [],
            [],
            color=style.QUIET,
            markerfacecolor=style.FAINT,
            marker="^",
            linestyle="",
            label="published as a bound",
        )
    if any(m.y >= low for s in drawn if s.kind == "floor" for m in s.marks):
        yield Line2D(
            [],
            [],
            color=style.PALE,
            linewidth=1.2,
            linestyle=style.DOTTED,
            label="loop alone, without the operation",
        )
    if any(math.isfinite(c.crossing.found.estimate) for p in panels for c in p.crossed):
        yield Line2D(
            [],
            [],
            color=style.INK,
            marker="o",
            markerfacecolor="none",
            markersize=10,
            linewidth=1.4,
            label="crossing, 95 % interval",
        )
    if any(s.missing for s in drawn):
        yield Line2D([], [], color=style.QUIET, marker="x", linestyle="", label="no value")


def _constants(page: Page, run: Run, panels: Sequence[Panel]) -> float:
    """Write what holds for the whole figure at its foot; the height that is left above."""
    texts = [*_lost(run, panels), fixed(run), machine(run), provenance(run, panels)]
    limit = page.width - 2 * _EDGE
    lines = [line for text in texts for line in style.wrap(text, style.SMALL, limit)]
    for i, line in enumerate(lines):
        page.write(line, _EDGE, 8 + (len(lines) - i) * _STEP, style.SMALL, color=style.QUIET)
    return 8 + len(lines) * _STEP


def _lost(run: Run, panels: Sequence[Panel]) -> Iterator[str]:
    names = marks.varied(run)
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


def fixed(run: Run) -> str:
    """The levels that do not vary in the grid."""
    grid = [point for point in run.points if point.control is None]
    at: At = grid[0].at if grid else {}
    names = {name: level for name, level in at.items() if name not in marks.varied(run)}
    scaled = "; ".join(
        f"{name} scaled {how}" for name, how in run.row.request.get("scaled", {}).items()
    )
    return callouts.levels_of(run.experiment, names) + (f"; {scaled}" if scaled else "")


def machine(run: Run) -> str:
    """The machine in a line."""
    seen, file = run.environment, run.experiment.file
    used = {p.at[file.filesystem] for p in run.points if p.control is None} if file else set()
    count = seen.get("cpu_count")
    parts = [
        f"{seen.get('cpu_model') or 'unknown CPU'}" + (f", {count} CPUs" if count else ""),
        f"{seen.get('hypervisor') or 'virtual'} guest" if seen.get("virtual_machine") else "",
        f"Linux {seen.get('kernel_release') or 'unknown'}",
        *(
            f"{level}: {found['type']} at {found['path']}"
            for level, found in seen.get("filesystems", {}).items()
            if level in used
        ),
    ]
    return "; ".join(part for part in parts if part)


def provenance(run: Run, panels: Sequence[Panel]) -> str:
    """Which run this is, and how many samples stand behind a mark."""
    drawn = [m for p in panels for s in p.series if s.kind in ("line", "control") for m in s.marks]
    counts = sorted({mark.n for mark in drawn}) or [0]
    each = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    short = "; no interval below 6" if any(mark.low is None for mark in drawn) else ""
    made = f"memlab {run.row.memlab}, run {run.id} of {run.row.created_at[:10]}"
    return f"{made}; {each} samples a mark{short}"

"""The page that every figure stands on: what it shows, the question, the answer, signs, panels, and
at its foot what holds for all of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.ticker import NullFormatter
from matplotlib.transforms import Affine2D, Bbox, ScaledTranslation, Transform
from matplotlib.transforms import blended_transform_factory as blended
from numpy.typing import NDArray

from memlab.experiment import At
from memlab.present import words
from memlab.present.figures import frame, placing, style
from memlab.present.figures.frame import Mark
from memlab.present.figures.placing import Spot
from memlab.results import Run
from memlab.text import units

WIDE, NARROW, EDGE = 921.6, 720.0, 14.0  # points; a narrow page shows the same text larger
STEP = style.SMALL * style.LINE_HEIGHT
_DIGITS = 10  # of a share of the page: far below a point, far above what a float leaves
GAP = 14.0  # from the frame to the names at the lines' ends
_HANDLE = 46.0  # of a legend's sign and the gap behind it
_REACH = 6.0  # from a mark to the words about it
_NO_ROOM = 1.0  # points high, which the layout engine still takes
_ROOM = 0.8  # of a mark's size: from its middle to words
_APART = 2.5  # points from one tick to the next, below which they would be one
_INK_STEP = 4.0  # points between the spots that stand for a line
_WORDS: dict[str, Any] = {"va": "top", "parse_math": False, "in_layout": False}


@dataclass(frozen=True, slots=True)
class Note:
    """Words and the spot in data coordinates that they belong to; without one, the middle of the
    panel. A thin line may lead from the spot to words that are not beside it."""

    text: str
    spot: Spot | None
    hue: str = style.INK
    bold: bool = False
    size: float = style.SMALL
    lead: bool = True

    @property
    def font(self) -> dict[str, Any]:
        weight = "bold" if self.bold else "normal"
        return {"fontsize": self.size, "fontweight": weight, "color": self.hue}


@dataclass
class Page:
    """A page in points. A kind draws in its panels or its body and names what it drew; `settle`
    then sizes the page, places everything, and writes the words."""

    figure: Figure
    run: Run
    title: str
    said: str = ""
    width: float = WIDE
    drawn: At = field(default_factory=dict)  # the levels that all drawn points share
    apart: Collection[str] = ()  # factors that the foot leaves out: the figure says their levels
    notes: list[str] = field(default_factory=list)  # at the foot, before what every page has
    _high: float = 0.0  # of what lies between head and foot
    _below: float | None = None  # the body's axis
    _signs: dict[str, Artist] = field(default_factory=dict)
    _levels: list[tuple[Axes, Sequence[float], Sequence[str]]] = field(default_factory=list)
    _margins: list[tuple[Axes, list[Annotation]]] = field(default_factory=list)
    _calls: dict[Axes, list[Note]] = field(default_factory=dict)

    # What a kind draws in

    def panels(
        self,
        marks: Sequence[Mark],
        columns: int,
        heights: Sequence[float],
        *,
        whole: bool = False,
        **how: Any,
    ) -> Iterator[tuple[list[Axes], list[Mark]]]:
        """The axes and the marks of each panel; its title is what its levels are."""
        parts = frame.split(marks, "panel") or [[]]
        titles = [frame.place(self.run, p[0]["panel"], whole=whole) if p else "" for p in parts]
        yield from zip(self.grid(titles, columns, heights, **how), parts, strict=True)

    def grid(
        self,
        titles: Sequence[str],
        columns: int,
        heights: Sequence[float],
        *,
        pad: float = 6.0,
        flat: Collection[int] = (),
    ) -> list[list[Axes]]:
        """For each title a panel: as many axes above each other as there are heights. matplotlib
        makes room for what stands around them, see `settle`. `pad` is below a title; in the rows of
        panels that are `flat` the last axes take no room."""
        rows = math.ceil(len(titles) / columns)
        each = [[*heights[:-1], _NO_ROOM if row in flat else heights[-1]] for row in range(rows)]
        limit = (self.width - 2 * EDGE) / columns - 90
        wrapped = [style.wrap(text, style.TEXT, limit, "bold") for text in titles]
        head = max(map(len, wrapped), default=0) * style.TEXT * style.LINE_HEIGHT
        self._high = sum(map(sum, each)) + rows * (head + pad + 38 + 8 * len(heights))
        axes = self.figure.subplots(
            rows * len(heights),
            columns,
            squeeze=False,
            gridspec_kw={"height_ratios": [height for row in each for height in row]},
        )
        results = []
        for i in range(rows * columns):
            row, column = divmod(i, columns)
            panel = list(axes[row * len(heights) : (row + 1) * len(heights), column])
            for item in panel:
                _plain(item) if i < len(titles) else item.remove()
            if i < len(titles):
                look: dict[str, Any] = {"fontsize": style.TEXT, "weight": "bold", "pad": pad}
                panel[0].set_title("\n".join(wrapped[i]), loc="left", parse_math=False, **look)
                results.append(panel)
        return results

    def body(self, high: float, left: float = 0.0, right: float = 0.0, below: float = 0.0) -> Axes:
        """Axes whose height is in points, where all words stand at places of their own; `below` is
        the room for the names at its x axis."""
        self._high, self._below = high + below, below
        place = left / self.width, 0, 1 - (left + right) / self.width, 1
        axes = self.figure.add_axes(place)
        axes.set(ylim=(0, high), yticks=[])
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(style.PALE)
        axes.tick_params(labelsize=style.SMALL, color=style.PALE, labelcolor=style.INK, length=3)
        return axes

    def across(self, axes: Axes) -> Transform:
        """Points from the page's left edge, and the heights of the body."""
        points = Affine2D().scale(1 / style.POINTS) + self.figure.dpi_scale_trans
        return blended(points, axes.transData)

    def write(self, axes: Axes, text: str, x: float, y: float, size: float, **look: Any) -> None:
        """A line of the body; y is its top."""
        axes.text(x, y, text, fontsize=size, transform=self.across(axes), **_WORDS, **look)

    # What a kind says of it

    def legend(self, *signs: Artist) -> None:
        """Signs of the legend, each once."""
        for item in signs:
            self._signs.setdefault(str(item.get_label()), item)

    def levels(self, axes: Axes, places: Sequence[float], names: Sequence[str]) -> None:
        """Ticks of the x axis at measured levels, named where there is room."""
        axes.set_xticks(list(places), list(names), parse_math=False)
        axes.set_xticks(list(places), minor=True)
        axes.xaxis.set_minor_formatter(NullFormatter())
        self._levels.append((axes, places, names))

    def name(self, axes: Axes, notes: Sequence[Note]) -> None:
        """Names in the margin right of a panel; `settle` puts them beside their spots, and a thin
        line leads to one that has to move."""
        margin = axes.transAxes + ScaledTranslation(
            GAP / style.POINTS, 0, self.figure.dpi_scale_trans
        )
        names = [
            axes.annotate(
                note.text,
                note.spot or (0, 0),
                (1, 0.5),
                textcoords=margin,
                va="center",
                annotation_clip=False,
                parse_math=False,
                arrowprops=_lead(note.hue) | {"shrinkB": 5, "relpos": (0, 0.5)},
                **note.font,
            )
            for note in notes
        ]
        self._margins.append((axes, names))

    def call(self, axes: Axes, *notes: Note) -> None:
        """Words inside a panel; `settle` puts them over little ink and off every mark."""
        self._calls.setdefault(axes, []).extend(notes)

    # How it all comes to its place

    def settle(self) -> None:
        """Size the page, fix the panels where matplotlib's layout puts them, write the words."""
        bottom, top = self._lay()
        if self._below is not None:
            (axes,) = self.figure.axes
            rest, _, wide, _ = axes.get_position().bounds
            foot = bottom + self._below
            axes.set_position((rest, foot / top, wide, (self._high - self._below) / top))
        elif self.figure.axes:
            self._solve((0.006, bottom / top, 0.988, self._high / top))
        for axes, places, labels in self._levels:
            _thin(axes, places, labels)
        for axes, names in self._margins:
            _spread(axes, names)
        for axes, calls in self._calls.items():
            _say(axes, calls)

    def _lay(self) -> tuple[float, float]:
        """Size the page, write its head, legend and foot; the heights of the foot and the page."""
        heads = (
            (self.title, style.FINDING + 1, "bold"),
            (self.run.experiment.question, style.TEXT, "normal"),
            (self.said, style.TEXT, "bold"),
        )
        limit = self.width - 2 * EDGE
        head = [(line, s, w) for text, s, w in heads for line in style.wrap(text, s, limit, w)]
        foot = [
            *self.notes,
            fixed(self.run, self.apart, self.drawn),
            machine(self.run),
            provenance(self.run),
        ]
        lines = [line for text in foot for line in style.wrap(text, style.SMALL, limit)]
        widths = [style.width(label, style.SMALL) + _HANDLE for label in self._signs]
        columns = max(1, min(len(widths), int(limit // max(widths, default=limit))))
        legend = math.ceil(len(widths) / columns) * style.SMALL * 1.6 + 8 if widths else 4
        bottom = len(lines) * STEP + 14
        top = EDGE + sum(size for _, size, _ in head) * style.LINE_HEIGHT + 4 + legend
        top += self._high + bottom
        dpi = style.PIXELS / (self.width / style.POINTS)
        height = round(top / style.POINTS * dpi) / dpi  # a PNG has whole pixels
        self.figure.set_size_inches(self.width / style.POINTS, height)
        self.figure.set_dpi(dpi)
        y, quiet = top - EDGE, style.QUIET
        written = []
        for line, size, weight in head:
            written.append((line, y, size, weight, style.INK))
            y -= size * style.LINE_HEIGHT
        ups = (bottom - 6 - i * STEP for i in range(len(lines)))
        written += [(t, up, style.SMALL, "normal", quiet) for t, up in zip(lines, ups, strict=True)]
        for line, up, size, weight, hue in written:
            look: dict[str, Any] = {"fontsize": size, "weight": weight, "color": hue}
            self.figure.text(EDGE / self.width, up / top, line, **_WORDS, **look)
        if widths:
            self.figure.legend(
                handles=list(self._signs.values()),
                loc="upper left",
                bbox_to_anchor=((EDGE - 6) / self.width, (y + 2) / top),
                ncols=columns,
                frameon=False,
                fontsize=style.SMALL,
                handlelength=2.4,
                borderpad=0.2,
            ).set_in_layout(False)
        return bottom, top

    def _solve(self, area: tuple[float, float, float, float]) -> None:
        """Panels in an area (left, bottom, width, height), as shares of the page: names of the y
        axis and its ticks stand only left of the first column."""
        for axes in self.figure.axes:
            place = axes.get_subplotspec()
            if place is not None and not place.is_first_col():
                axes.set_ylabel("")
                axes.tick_params(labelleft=False)
        self.figure.set_layout_engine(
            "constrained", rect=area, w_pad=0.08, h_pad=0.06, wspace=0.0, hspace=0.0
        )
        engine = self.figure.get_layout_engine()
        assert engine is not None
        engine.execute(self.figure)
        engine.execute(self.figure)  # tick labels that came or went change the room around
        self.figure.set_layout_engine(None)  # with one, each file is drawn twice
        for axes in self.figure.axes:  # the solver's last digits differ from draw to draw
            rest, bottom, wide, high = (
                round(float(end), _DIGITS) for end in axes.get_position().bounds
            )
            axes.set_position((rest, bottom, wide, high))


def _lead(hue: str) -> dict[str, Any]:
    return {"arrowstyle": "-", "color": hue, "alpha": 0.45, "linewidth": 0.7, "shrinkA": 1}


def _plain(axes: Axes) -> None:
    """A frame on two sides and pale lines across."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(style.PALE)
    axes.tick_params(labelsize=style.SMALL, color=style.PALE, labelcolor=style.INK, length=3)
    axes.grid(axis="y", color=style.FAINT, linewidth=0.7)
    axes.set_axisbelow(True)


# Words in settled axes, in points from their lower left corner


def _inside(axes: Axes) -> tuple[Transform, Spot]:
    """From pixels to points, and the size."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    scale = style.POINTS / figure.dpi
    box = axes.bbox
    to_points = Affine2D().translate(-box.x0, -box.y0).scale(scale)
    return to_points, (box.width * scale, box.height * scale)


def _thin(axes: Axes, places: Sequence[float], names: Sequence[str]) -> None:
    to_points, _ = _inside(axes)
    ends = np.column_stack([places, np.zeros(len(places))])
    spots = (axes.get_xaxis_transform() + to_points).transform(ends)
    every = range(len(names))
    apart = placing.fitting([float(x) for x, _ in spots], [0.0] * len(names), _APART, every)
    axes.set_xticks([places[i] for i in apart], minor=True)
    order = dict.fromkeys((*every[:1], *every[-1:], *every))
    widths = [style.width(name, style.SMALL) for name in names]
    fitting = placing.fitting([float(x) for x, _ in spots], widths, 5, order)
    axes.set_xticks([places[i] for i in fitting], [names[i] for i in fitting], parse_math=False)


def _spread(axes: Axes, names: Sequence[Annotation]) -> None:
    """Names in the margin, each as near to its spot as the others allow."""
    to_points, (_, high) = _inside(axes)
    wanted = [float((axes.transData + to_points).transform(name.xy)[1]) for name in names]
    for name, place in zip(names, placing.spread_out(wanted, STEP, 0.0, high), strict=True):
        name.set_position((1, place / high))


def _say(axes: Axes, notes: Sequence[Note]) -> None:
    """Words over little ink and off every mark, no wider than the panel."""
    to_points, (wide, high) = _inside(axes)
    ink, boxes = _obstacles(axes, to_points, (wide, high))
    frame = Bbox.from_extents(2, 2, wide - 2, high - 2)
    for note in notes:
        weight = note.font["fontweight"]
        most = wide - 8 if note.spot else wide / 2  # without a spot a narrow place may be free
        lines = [
            part
            for line in note.text.split("\n")
            for part in style.wrap(line, note.size, most, weight)
        ]
        room = (
            max(style.width(line, note.size, weight) for line in lines) + 4,
            note.size * style.LINE_HEIGHT * len(lines),
        )
        near = np.array([wide / 2, high / 2])
        if note.spot is not None:
            near = np.asarray((axes.transData + to_points).transform(note.spot))
        x, y = map(float, near)
        box = placing.free_box((x, y), room, frame, ink, boxes)
        boxes.append(box)
        nearest = np.clip((near - np.asarray(box.min)) / np.asarray(box.size), 0.0, 1.0)
        arrow = _lead(note.hue) | {"shrinkB": _REACH, "relpos": tuple(map(float, nearest))}
        axes.annotate(
            "\n".join(lines),
            (x, y),
            (box.x0 + 2, box.y0 + 2),
            xycoords="axes points",
            textcoords="axes points",
            va="bottom",
            linespacing=1.15,
            annotation_clip=False,
            parse_math=False,
            zorder=7,
            arrowprops=arrow if note.lead else None,
            **note.font,
        )


def _obstacles(axes: Axes, to_points: Transform, size: Spot) -> tuple[NDArray[Any], list[Bbox]]:
    """Spots along the lines of a panel, and boxes around its marks and its words."""
    ink, boxes = [np.empty((0, 2))], []
    for line in axes.lines:
        spots = (line.get_transform() + to_points).transform(line.get_xydata())
        spots = np.clip(spots, -_REACH, np.array(size) + _REACH)
        if line.get_linestyle() != "None" and len(spots):
            ink.append(placing.along(spots, _INK_STEP))
        if line.get_marker() not in ("", "None"):
            reach = _ROOM * line.get_markersize()
            boxes += [placing.around((float(x), float(y)), reach) for x, y in spots]
    for text in axes.texts:
        text.get_window_extent()  # brings its arrow up to date
        if text.get_text():
            boxes.append(Text.get_window_extent(text).transformed(to_points))
        elif isinstance(text, Annotation) and text.arrow_patch:  # only an arrow
            path = to_points.transform(text.arrow_patch.get_path().vertices)
            ink.append(placing.along(path, _INK_STEP))
    return np.concatenate(ink), boxes


# What holds for the whole figure
def fixed(run: Run, apart: Collection[str] = (), drawn: At | None = None) -> str:
    """The levels that do not vary in the grid; where all points `drawn` are of a control, its."""
    grid = [point for point in run.points if point.control is None]
    at = {**grid[0].at, **(drawn or {})} if grid else {}
    names = {name: level for name, level in at.items() if name not in (*run.varied, *apart)}
    scaled = run.row.request.get("scaled", {})
    return "; ".join(
        part
        for part in (
            words.named_levels(run.named, names),
            *(f"{name} scaled {how}" for name, how in scaled.items()),
            *words.long_levels(run.experiment, (point.at for point in grid)),
        )
        if part
    )


def machine(run: Run) -> str:
    """The machine in a line."""
    return "; ".join(part for part in _machine(run) if part)


def _machine(run: Run) -> Iterator[str]:
    environment, file = run.environment, run.experiment.file
    used = {p.at[file.filesystem] for p in run.points if p.control is None} if file else set()
    count = environment.get("cpu_count")
    cpus = f", {units.counted(count, 'CPU')}" if count else ""
    yield f"{environment.get('cpu_model') or 'unknown CPU'}{cpus}"
    yield (
        f"{environment.get('hypervisor') or 'virtual'} guest"
        if environment.get("virtual_machine")
        else ""
    )
    yield f"Linux {environment.get('kernel_release') or 'unknown'}"
    yield from words.machine_remarks(run)
    for level, result in environment.get("filesystems", {}).items():
        if used == {level}:  # where there are several they name the panels
            yield f"files on {result['type']} at {result['path']}"


def provenance(run: Run) -> str:
    """Which run this is, and how many samples it holds."""
    counts = [len(run.by_point[p.index]) for p in run.points] or [0]
    text = f"memlab {run.row.memlab}, run {run.id} of {run.row.created_at[:10]}"
    few = "; no interval below 6 samples" if min(counts) < 6 else ""
    return f"{text}: {len(run.samples)} samples, {units.from_to(counts)} per point{few}"

"""The page that every figure stands on: what it shows, the question, the answer, signs, panels, and
at its foot what holds for all of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation

from memlab.experiment import At
from memlab.present import words
from memlab.present.figures import placing, style
from memlab.present.figures.placing import Axis, Box, Spot
from memlab.results import Run

WIDE, NARROW, EDGE = 921.6, 720.0, 14.0  # points; a narrow page shows the same text larger
STEP = style.SMALL * style.LINE_HEIGHT
_DIGITS = 10  # of a share of the page: far below a point, far above what a float leaves
GAP = 14.0  # from the frame to the names at the lines' ends
_HANDLE = 46.0  # of a legend's sign and the gap behind it
_REACH = 6.0  # of a mark
_NO_ROOM = 1.0  # points high, which the layout engine still takes


@dataclass(frozen=True, slots=True)
class Note:
    """A name in the margin, and the spot in data coordinates that it belongs to."""

    text: str
    spot: Spot
    hue: str
    bold: bool = True


@dataclass
class Page:
    """A page in points. `lay` sizes it and writes everything but the panels."""

    figure: Figure
    run: Run
    title: str
    said: str = ""
    width: float = WIDE
    drawn: At = field(default_factory=dict)  # the levels that all drawn points share
    apart: str = ""  # a factor that the foot leaves out: the figure is of one of its levels
    height: float = 0.0
    bottom: float = 0.0
    _margins: list[tuple[Axes, Sequence[Note], list[Text]]] = field(default_factory=list)

    def lay(self, body: float, handles: Sequence[Artist] = (), notes: Sequence[str] = ()) -> float:
        """Make room for a body of that height; the height of its top."""
        heads = (
            (self.title, style.FINDING + 1, "bold"),
            (self.run.experiment.question, style.TEXT, "normal"),
            (self.said, style.TEXT, "bold"),
        )
        limit = self.width - 2 * EDGE
        head = [(line, s, w) for text, s, w in heads for line in style.wrap(text, s, limit, w)]
        foot = [
            *notes,
            fixed(self.run, self.apart, self.drawn),
            machine(self.run),
            provenance(self.run),
        ]
        lines = [line for text in foot for line in style.wrap(text, style.SMALL, limit)]
        widths = [style.width(str(h.get_label()), style.SMALL) + _HANDLE for h in handles]
        columns = max(1, min(len(handles), int(limit // max(widths, default=limit))))
        legend = math.ceil(len(handles) / columns) * style.SMALL * 1.6 + 8 if handles else 4
        top = EDGE + sum(size for _, size, _ in head) * style.LINE_HEIGHT + 4
        self.bottom = len(lines) * STEP + 14
        self.height = top + legend + body + self.bottom
        dpi = style.PIXELS / (self.width / style.POINTS)
        height = round(self.height / style.POINTS * dpi) / dpi  # a PNG has whole pixels
        self.figure.set_size_inches(self.width / style.POINTS, height)
        self.figure.set_dpi(dpi)
        y = self.height - EDGE
        for line, size, weight in head:
            self.write(line, EDGE, y, size, weight=weight, color=style.INK)
            y -= size * style.LINE_HEIGHT
        for i, line in enumerate(lines):
            self.write(line, EDGE, self.bottom - 6 - i * STEP, style.SMALL, color=style.QUIET)
        if handles:
            self.figure.legend(
                handles=list(handles),
                loc="upper left",
                bbox_to_anchor=((EDGE - 6) / self.width, (y + 2) / self.height),
                ncols=columns,
                frameon=False,
                fontsize=style.SMALL,
                handlelength=2.4,
                borderpad=0.2,
            ).set_in_layout(False)
        return self.bottom + body

    def write(self, text: str, x: float, y: float, size: float, **look: Any) -> None:
        """One line of text; y is its top."""
        place = x / self.width, y / self.height
        look = {"va": "top", "parse_math": False, "in_layout": False, **look}
        self.figure.text(place[0], place[1], text, fontsize=size, **look)

    def axes(self, left: float, bottom: float, wide: float, high: float) -> Axes:
        """Axes at a place of their own, in points, where what stands beside them is written."""
        place = left / self.width, bottom / self.height, wide / self.width, high / self.height
        return self.figure.add_axes(place)

    def grid(
        self,
        titles: Sequence[str],
        columns: int,
        heights: Sequence[float],
        handles: Sequence[Artist] = (),
        notes: Sequence[str] = (),
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
        body = sum(map(sum, each)) + rows * (head + pad + 38 + 8 * len(heights))
        self.lay(body, handles, notes)
        # The rectangle is (left, bottom, width, height), as shares of the page.
        area = (0.006, self.bottom / self.height, 0.988, body / self.height)
        self.figure.set_layout_engine(
            "constrained", rect=area, w_pad=0.08, h_pad=0.06, wspace=0.0, hspace=0.0
        )
        axes = self.figure.subplots(
            rows * len(heights),
            columns,
            squeeze=False,
            gridspec_kw={"height_ratios": [height for row in each for height in row]},
        )
        found = []
        for i, lines in enumerate(wrapped):
            row, column = divmod(i, columns)
            column_of = axes[row * len(heights) : (row + 1) * len(heights), column]
            found.append(list(column_of))
            look: dict[str, Any] = {"fontsize": style.TEXT, "weight": "bold", "pad": pad}
            column_of[0].set_title("\n".join(lines), loc="left", parse_math=False, **look)
        for one in axes.flat:
            _plain(one)
        for unused in range(len(titles), rows * columns):
            row, column = divmod(unused, columns)
            for one in axes[row * len(heights) : (row + 1) * len(heights), column]:
                one.remove()
        return found

    def name(self, axes: Axes, notes: Sequence[Note]) -> None:
        """Names in the margin right of a panel; `settle` puts them beside their spots."""
        shift = ScaledTranslation(GAP / style.POINTS, 0, self.figure.dpi_scale_trans)
        room = [
            axes.text(1, 0.5, n.text, transform=axes.transAxes + shift, **_font(n)) for n in notes
        ]
        self._margins.append((axes, notes, room))

    def settle(self) -> None:
        """Fix the panels where matplotlib's layout puts them, and place the names beside them."""
        engine = self.figure.get_layout_engine()
        assert engine is not None  # grid() sets it
        engine.execute(self.figure)
        engine.execute(self.figure)  # tick labels that came or went change the room around
        self.figure.set_layout_engine("none")
        for one in self.figure.axes:  # the solver's last digits differ from draw to draw
            ends = (round(float(end), _DIGITS) for end in one.get_position().bounds)
            left, bottom, wide, high = ends
            one.set_position((left, bottom, wide, high))
        for axes, notes, room in self._margins:
            for text in room:
                text.remove()
            self._place(axes, notes)

    def _place(self, axes: Axes, notes: Sequence[Note]) -> None:
        """Every name beside its spot; a thin line leads to one that had to move."""
        canvas = Canvas.of(axes)
        wanted = [canvas.y.place(note.spot[1]) for note in notes]
        gap = style.SMALL * style.LINE_HEIGHT
        places = placing.spread_out(wanted, gap, 0.0, canvas.y.length)
        for note, place in zip(notes, places, strict=True):
            axes.annotate(
                note.text,
                note.spot,
                (canvas.x.length + GAP, place),
                textcoords="axes points",
                va="center",
                annotation_clip=False,
                parse_math=False,
                arrowprops=_lead(note.hue) | {"shrinkB": 5, "relpos": (0, 0.5)},
                **_font(note),
            )


def _font(note: Note) -> dict[str, Any]:
    weight = "bold" if note.bold else "normal"
    return {"fontsize": style.SMALL, "fontweight": weight, "color": note.hue}


def _lead(hue: str) -> dict[str, Any]:
    return {"arrowstyle": "-", "color": hue, "alpha": 0.45, "linewidth": 0.7, "shrinkA": 1}


def _plain(axes: Axes) -> None:
    """A frame on two sides and pale lines across."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(style.PALE)
    axes.tick_params(labelsize=style.SMALL, color=style.PALE, labelcolor=style.INK, length=3)
    axes.grid(axis="y", color=style.FAINT, linewidth=0.7)
    axes.set_axisbelow(True)


@dataclass(frozen=True, slots=True)
class Canvas:
    """Settled axes in points, to write in; `taken` and `ink` grow with what is there."""

    axes: Axes
    x: Axis
    y: Axis
    taken: list[Box] = field(default_factory=list)
    ink: list[Spot] = field(default_factory=list)

    @classmethod
    def of(cls, axes: Axes) -> Canvas:
        figure = axes.get_figure(root=True)
        assert figure is not None
        box, page = axes.get_position(), figure.get_size_inches() * style.POINTS
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        return cls(
            axes,
            Axis(left, right, axes.get_xscale() == "log", box.width * page[0]),
            Axis(low, high, axes.get_yscale() == "log", box.height * page[1]),
        )

    def spot(self, x: float, y: float) -> Spot:
        return self.x.place(x), self.y.place(y)

    def mark(self, x: float, y: float, reach: float = _REACH) -> None:
        """Keep words off a mark."""
        self.taken.append(placing.around(self.spot(x, y), reach))

    def line(self, data: Sequence[Spot]) -> None:
        """Keep words off a line, where there is room elsewhere."""
        inside = [(max(x, self.x.low), max(y, self.y.low)) for x, y in data]
        self.ink.extend(placing.along([self.spot(x, y) for x, y in inside], 4.0))

    def call(self, text: str, near: Spot, hue: str = style.INK, *, lead: bool, **look: Any) -> None:
        """Words near a spot in points, over little ink; a thin line may lead from it to them."""
        lines = text.split("\n")
        size, weight = look.get("fontsize", style.SMALL), look.get("fontweight", "normal")
        wide = max(style.width(line, size, weight) for line in lines) + 4
        frame = Box(2, 2, self.x.length - 2, self.y.length - 2)
        high = size * style.LINE_HEIGHT * len(lines)
        box = placing.free_box(near, (wide, high), frame, self.ink, self.taken)
        self.taken.append(box)
        nearest = (
            min(max((near[0] - box.left) / (box.right - box.left), 0.0), 1.0),
            min(max((near[1] - box.bottom) / (box.top - box.bottom), 0.0), 1.0),
        )
        self.axes.annotate(
            text,
            near,
            (box.left + 2, box.bottom + 2),
            xycoords="axes points",
            textcoords="axes points",
            color=hue,
            va="bottom",
            linespacing=1.15,
            annotation_clip=False,
            parse_math=False,
            zorder=7,
            arrowprops=_lead(hue) | {"shrinkB": _REACH, "relpos": nearest} if lead else None,
            **{"fontsize": size} | look,
        )


def edge_text(axes: Axes, text: str, x: float, rise: float, y: float = 0.0, **look: Any) -> None:
    """Words at x, `rise` points above the foot of a panel, or above its head where y is 1."""
    place: dict[str, Any] = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
    look = {"ha": "center", "fontsize": style.SMALL, "color": style.QUIET, **look}
    axes.annotate(text, (x, y), (0, rise), **place, **look)


# Signs of the legend


def sign(label: str, hue: str = style.QUIET, **look: Any) -> Line2D:
    """A sign for the legend: a marker without a line, or a line."""
    return Line2D([], [], **{"color": hue, "linestyle": "", "label": label} | look)


def line(label: str, hue: str = style.QUIET, **look: Any) -> Line2D:
    return sign(label, hue, **{"linestyle": "-", "linewidth": 1.6} | look)


# What holds for the whole figure


def fixed(run: Run, apart: str = "", drawn: At | None = None) -> str:
    """The levels that do not vary in the grid; where all points `drawn` are of a control, its."""
    grid = [point for point in run.points if point.control is None]
    at = {**grid[0].at, **(drawn or {})} if grid else {}
    names = {name: level for name, level in at.items() if name not in (*run.varied, apart)}
    scaled = run.row.request.get("scaled", {})
    return "; ".join(
        part
        for part in (
            words.named_levels(run.experiment, names),
            *(f"{name} scaled {how}" for name, how in scaled.items()),
        )
        if part
    )


def machine(run: Run) -> str:
    """The machine in a line."""
    return "; ".join(part for part in _machine(run) if part)


def _machine(run: Run) -> Iterator[str]:
    seen, file = run.environment, run.experiment.file
    used = {p.at[file.filesystem] for p in run.points if p.control is None} if file else set()
    count = seen.get("cpu_count")
    yield f"{seen.get('cpu_model') or 'unknown CPU'}" + (f", {count} CPUs" if count else "")
    yield f"{seen.get('hypervisor') or 'virtual'} guest" if seen.get("virtual_machine") else ""
    yield f"Linux {seen.get('kernel_release') or 'unknown'}"
    yield words.machine_remark(seen)
    for level, found in seen.get("filesystems", {}).items():
        if level in used:
            yield f"{level}: {found['type']} at {found['path']}"


def provenance(run: Run) -> str:
    """Which run this is, and how many samples it holds."""
    counts = sorted({len(run.by_point[p.index]) for p in run.points}) or [0]
    each = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
    made = f"memlab {run.row.memlab}, run {run.id} of {run.row.created_at[:10]}"
    few = "; no interval below 6 samples" if counts[0] < 6 else ""
    return f"{made}: {len(run.samples)} samples, {each} per point{few}"

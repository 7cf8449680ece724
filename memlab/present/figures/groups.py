"""Groups of bars, or of dots, beside published values, and below them ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from memlab.experiment import Level
from memlab.present import words
from memlab.present.figures import frame, paint, scales, style
from memlab.present.figures.frame import Mark
from memlab.present.figures.layout import Page
from memlab.present.figures.paint import sign

RATIOS = ("ratio", "published ratio")  # kinds of marks that stand below; all others stand above
_FILLED = 0.84  # of a group's width; the rest divides it from the next
_WIDEST = 64.0  # points of a bar
_NARROWEST = 11.0  # points of a bar that still holds a word on its side
_ASIDE = 0.25  # from a bar's middle to a printed value: of its width
_LOST = style.SMALL  # points: the font of a word in the place of a bar
_RISE = 4.0  # points from an interval's end to the value above it
_LOW = 100.0  # points: the height of the ratios
_TURNED = 1.15  # of the font's size: the room that a turned number takes
_PRINTED_MAX = 9  # characters of a published value as it is printed; a longer one is rounded
_COUNTED = ("faults", "pages", "VMAs")  # units of what is counted, each digit of which is shown
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "oo", "||||", "++++")
_PRINTED: Mapping[str, Any] = {"color": style.INK, "markeredgewidth": 1.3, "linestyle": ""}
_VALUE: Mapping[str, Any] = {
    "textcoords": "offset points",
    "ha": "center",
    "va": "bottom",
    "fontsize": style.SMALL,
    "parse_math": False,
    "zorder": 3,
    # a line of the axes does not strike it through
    "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.4},
}


@dataclass(frozen=True, slots=True)
class Chart:
    """What a chart says beside its marks. A mark has its group's level in `_group`, and `_rank`,
    its number in the group."""

    groups: Mapping[Level, str]  # from the left, with their names
    over: str  # what they are
    unit: str
    up: str  # what the values are
    ratio: str  # and the ratios
    high: float  # points
    log: bool = False
    dots: bool = False


@dataclass(frozen=True, slots=True)
class _Slots:
    """Where bars stand: `ranks` per group, a group every 1 on the x axis."""

    groups: Sequence[Level]
    ranks: Sequence[int]
    wide: float  # points of the panel
    printed: bool  # printed values take a part of each bar

    @property
    def width(self) -> float:
        """Of a bar, where a group is 1 wide."""
        return min(_FILLED / len(self.ranks), _WIDEST * len(self.groups) / self.wide)

    @property
    def points(self) -> float:
        return self.wide / len(self.groups) * self.width

    def bar(self, mark: Mark) -> float:
        """The middle of a bar."""
        x, rank = self.groups.index(mark["_group"]), self.ranks.index(mark["_rank"])
        return x + (rank - (len(self.ranks) - 1) / 2) * self.width

    @property
    def aside(self) -> float:
        """From a bar's middle to a mark, as a share of the bar's width."""
        return min(_ASIDE, 9.0 / self.points) if self.printed else 0.0

    def at(self, mark: Mark) -> float:
        """Our interval stands left of the middle where a printed value stands right of it."""
        aside = self.width * self.aside
        return self.bar(mark) + (aside if "source" in mark else -aside)


def draw(page: Page, chart: Chart, marks: Sequence[Mark], lost: Sequence[Mark]) -> None:
    parts = frame.split(marks, "panel") or [[]]
    places = [part[0]["panel"] if part else {} for part in parts]
    ranks = sorted({mark["_rank"] for mark in marks}) or [0]
    room = (page.width - 90) * _FILLED / (len(chart.groups) * len(ranks)) / _NARROWEST
    columns = frame.columns(places, most=max(1, min(3, int(room))))
    wide = (page.width - 90) / columns - 20
    slots = _Slots([*chart.groups], ranks, wide, any("source" in mark for mark in marks))
    compared = [any(mark["kind"] in RATIOS for mark in part) for part in parts]
    heights = [chart.high, _LOW] if any(compared) else [chart.high]
    starts = range(0, len(parts), columns) if any(compared) else ()
    flat = [i // columns for i in starts if not any(compared[i : i + columns])]
    ends = ("low", "median", "high", "value")
    up = frame.values((mark for mark in marks if mark["kind"] not in RATIOS), *ends)
    up += [mark["value"] * 1.5 for mark in marks if mark.get("bound") == ">" and "value" in mark]
    sides = frame.values((mark for mark in marks if mark["kind"] in RATIOS), *ends)
    above, beneath = ([*filter(None, map(_value, part))] for part in _apart(marks))
    valued, turned = _writing(slots, [*above, *beneath])
    if valued:
        up = _with_room(up, chart.high, _tall(above, turned), log=chart.log)
        sides = _with_room(sides, _LOW, _tall(beneath, turned), log=True)
    _name_ranks(page, chart, marks)
    printed = sign(frame.sources(marks), marker=style.PUBLISHED, markersize=6, **_PRINTED)
    panels = page.panels(marks, columns, heights, flat=flat)
    for (panel, part), place, below in zip(panels, places, compared, strict=True):
        if len(panel) > 1 and not below:
            panel.pop().remove()
        for axes in panel:
            axes.set_xlim(-0.5, len(slots.groups) - 0.5)
            axes.set_xticks([])
            for edge in range(1, len(slots.groups)):
                axes.axvline(edge - 0.5, color=style.FAINT, linewidth=0.7, zorder=0)
        scales.quantities(panel[0].yaxis, chart.unit, up, chart.high, log=chart.log)
        scales.y_label(panel[0], chart.up, chart.high)
        if below:
            scales.ratios(panel[1].yaxis, sides, _LOW)
            scales.y_label(panel[1], chart.ratio, _LOW)
        _name_groups(panel[-1], chart, slots)
        for mark in part:
            axes = panel[-1 if mark["kind"] in RATIOS else 0]
            if "source" in mark:
                page.legend(printed)
            _draw(page, axes, chart, slots, mark)
            if valued and (text := _value(mark)):
                hue = style.QUIET if "source" in mark else style.INK
                look = {**_VALUE, "color": hue, "rotation": 90 if turned else 0}
                axes.annotate(text, (slots.at(mark), _top(mark)), (0, _RISE), **look)
        for mark in lost:
            if mark["panel"] == place and mark["_group"] in slots.groups and mark["_rank"] in ranks:
                _word(panel[0], slots, mark)


def _name_ranks(page: Page, chart: Chart, marks: Sequence[Mark]) -> None:
    """A sign per bar of a group; a single one is named by the axis."""
    ours = [mark for mark in marks if mark["kind"] == "bar" and mark["series"]]
    ours = ours or [mark for mark in marks if mark["kind"] == "published"]
    for rank, label in sorted({mark["_rank"]: mark["series"] for mark in ours}.items()):
        hue = style.darker(style.colour(rank))
        printed = ours[0]["kind"] == "published"
        shape = style.PUBLISHED if printed else style.marker(rank)
        dot = sign(label, hue, marker=shape, markersize=5.5)
        page.legend(dot if chart.dots or printed else Patch(label=label, **_look(rank)))


def _apart(marks: Sequence[Mark]) -> tuple[list[Mark], list[Mark]]:
    """The marks that stand above, and the ratios below them."""
    ratios = [mark for mark in marks if mark["kind"] in RATIOS]
    return [mark for mark in marks if mark["kind"] not in RATIOS], ratios


def _writing(slots: _Slots, texts: Sequence[str]) -> tuple[bool, bool]:
    """Whether numbers fit above the marks, and whether they are turned for that: only beside
    published ones, so that each of these can be read."""
    room = slots.points * (2 * slots.aside if slots.printed else 1)
    if _widest(texts) < room:
        return True, False
    return slots.printed and room >= style.SMALL * _TURNED, True


def _tall(texts: Sequence[str], turned: bool) -> float:
    return _widest(texts) if turned else style.SMALL * style.LINE_HEIGHT


def _widest(texts: Sequence[str]) -> float:
    return max((style.width(text, style.SMALL) for text in texts), default=0.0)


def _top(mark: Mark) -> float:
    """The upper end of a mark."""
    name = "value" if "source" in mark else "high" if "low" in mark else "median"
    return float(mark[name])


def _value(mark: Mark) -> str:
    """What is written above a mark, where there is room for it above each."""
    is_ratio, is_printed = mark["kind"] in RATIOS, "source" in mark
    if is_ratio:
        sign = mark["bound"] if is_printed else ""
        return f"{sign}{mark['value' if is_printed else 'median']:.3g}"
    if is_printed and len(mark["printed"]) <= _PRINTED_MAX:
        return str(mark["printed"])
    if not is_printed and "median" not in mark:
        return ""
    value, unit = mark["value" if is_printed else "median"], mark["unit"]
    return f"{value:,.0f}" if unit in _COUNTED and value >= 1 else words.tick(value, unit)


def _with_room(values: Sequence[float], length: float, tall: float, *, log: bool) -> list[float]:
    """The values, and one above them that leaves room for a text of `tall` points on an axis of
    `length` points."""
    shown = [value for value in values if value > 0 or not log]
    if not shown:
        return [*values]
    share = (_RISE + tall) / length
    more, low, high = share / (1 - share), min(shown), max(shown)
    return [*values, high * (high / low) ** more * (1 + more) if log else high * (1 + more)]


def _name_groups(axes: Axes, chart: Chart, slots: _Slots) -> None:
    """The groups' names, turned where they are wider than their group, and the axis's own."""
    wide, texts = slots.wide / len(slots.groups), [*chart.groups.values()]
    wrapped = [style.wrap(text, style.SMALL, wide - 6) for text in texts]
    widest = max(
        (style.width(line, style.SMALL) for lines in wrapped for line in lines), default=0.0
    )
    turned = widest > wide - 4
    axes.tick_params(axis="x", length=0)
    message = texts if turned else ["\n".join(lines) for lines in wrapped]
    axes.set_xticks(range(len(message)), message, parse_math=False)
    if turned:
        for name in axes.get_xticklabels():
            name.set(rotation=30, ha="right", rotation_mode="anchor", va="top")
    scales.x_label(axes, chart.over)


def _look(rank: int) -> dict[str, Any]:
    """A bar's colours and hatch: pale inside, so that an interval and a hatch are seen on it."""
    hue = style.colour(rank)
    return {
        "facecolor": style.paler(hue),
        "edgecolor": style.darker(hue),
        "hatch": _HATCHES[rank % len(_HATCHES)],
        "linewidth": 0.9,
    }


def _draw(page: Page, axes: Axes, chart: Chart, slots: _Slots, mark: Mark) -> None:
    x, rank = slots.at(mark), mark["_rank"]
    if "source" in mark:
        size = min(6.0, max(4.2, 0.3 * slots.points))
        hue = style.darker(style.colour(rank)) if chart.dots else style.INK
        look = {**_PRINTED, "color": hue, "markersize": size, "zorder": 5}
        axes.plot(x, mark["value"], marker=style.BOUNDS.get(mark["bound"], style.PUBLISHED), **look)
        if mark["bound"]:
            tip = style.BOUNDS[mark["bound"]]
            page.legend(sign("published as a bound", marker=tip, markersize=6, **_PRINTED))
        return
    dot = chart.dots or mark["kind"] == "ratio"
    hue = style.darker(style.colour(rank)) if dot else style.INK
    look = {"marker": "", "caps": {"marker": "_", "markersize": 5}}
    if dot:
        shape = style.BOUNDS.get(mark.get("bound", ""), style.marker(rank))
        look |= {"marker": shape, "markersize": 5.5}
        look["markerfacecolor"] = "white" if mark["extrapolated"] else hue
    else:
        outline = "--" if mark["extrapolated"] else "-"
        bar: dict[str, Any] = _look(rank) | {"width": slots.width * 0.9, "linestyle": outline}
        axes.bar(slots.bar(mark), mark["median"], zorder=2, **bar)
    paint.dot(axes, (x, mark["median"]), paint.ends(mark), hue, **look)
    if mark["kind"] == "bar":
        _name_signs(page, chart, mark)


def _name_signs(page: Page, chart: Chart, mark: Mark) -> None:
    """What stands on a bar."""
    if "low" in mark:
        bar: dict[str, Any] = {"marker": "|", "markersize": 11, "markeredgewidth": 1.4}
        page.legend(sign("95 % interval of the median", style.INK, **bar))
    if mark["extrapolated"]:
        label = f"{'open' if chart.dots else 'dashed'}: extrapolated from a slice"
        dot = sign(label, marker="o", markersize=5.5, markerfacecolor="white")
        box = Patch(facecolor="white", edgecolor=style.QUIET, linestyle="--", label=label)
        page.legend(dot if chart.dots else box)


def _word(axes: Axes, slots: _Slots, mark: Mark) -> None:
    """Why there is no bar, in its place, where a word fits."""
    if slots.points >= _LOST * 1.2:
        hue = style.darker(style.colour(mark["_rank"]))
        look: dict[str, Any] = {"rotation": 90, "va": "bottom", "fontsize": _LOST, "color": hue}
        paint.edge_text(axes, mark["why"], slots.at(mark), 4, **look)

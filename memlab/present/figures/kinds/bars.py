"""Groups of bars beside printed values, and below them their ratios to one bar.

On a log axis, and where times are those of an emulated guest, the values are dots: the length of a
bar would mean nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from memlab.experiment import At, Bars, Level
from memlab.experiment.command import CommandExperiment
from memlab.experiment.points import point_key
from memlab.judging.effects import effects
from memlab.present import words
from memlab.present.figures import frame, scales, style
from memlab.present.figures.against import quotient_of
from memlab.present.figures.frame import Mark
from memlab.present.figures.layout import NARROW, Page, edge_text, sign
from memlab.published import Cell
from memlab.results import PointSummary, Run
from memlab.results.beside import tables

_FILLED = 0.84  # of a group's width; the rest divides it from the next
_WIDEST = 64.0  # points of a bar
_NARROWEST = 11.0  # points of a bar that still holds a word on its side
_FEW = 6  # bars that a narrow page holds
_ASIDE = 0.25  # from a bar's middle to a printed value: of its width
_LOST = 8.0  # points: the font of a word in the place of a bar
_RISE = 4.0  # points from an interval's end to the value above it
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "oo", "||||", "++++")
_PRINTED: Mapping[str, Any] = {
    "color": style.INK,
    "markerfacecolor": "white",
    "markeredgewidth": 1.0,
    "linestyle": "",
}
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
_SAID_MAX = 2  # levels that the headline says in words
_RATIOS = ("ratio", "published ratio")


def title(run: Run, shown: Bars) -> str:
    metric = words.metric_label(run.metric(shown.metric))
    return f"{metric}, by {scales.factor(run.experiment, shown.over)}"


@dataclass(frozen=True, slots=True)
class _Printed:
    cell: Cell
    source: str


def rows(run: Run, shown: Bars) -> pd.DataFrame:
    """Bars, printed values, ratios of both to the base bar; x is a group's number from the left.
    Controls are no bars."""
    summaries = {
        point_key(s.point.at): s for s in run.summaries if s.point.control is None and s.outcomes
    }
    places = [point.at for point in frame.grid(run)]
    groups = list(dict.fromkeys(at[shown.over] for at in places))
    printed = _printed(run, shown)
    return frame.frame(
        {"panel": panel, "x": x, "_rank": rank, "_group": level} | mark
        for panel in frame.panels(run, shown.panels, [shown.over, *shown.by])
        for rank, line in enumerate(frame.combinations(places, shown.by))
        for x, level in enumerate(groups)
        for mark in _marks(run, shown, summaries, printed, {**panel, shown.over: level}, line)
    )


def _printed(run: Run, shown: Bars) -> dict[str, _Printed]:
    """The printed cells in the figure's metric, by the levels of the point they stand beside."""
    found = {}
    for beside in tables(run):
        if beside.declared.metric != shown.metric:
            continue
        source = f"{beside.source.id}, {beside.table.id}"
        for row in beside.rows:
            for column, at in beside.declared.columns.items():
                row_at = beside.declared.row(beside.table.rows_are, row.level)
                levels = {**beside.setting, **at, **row_at}
                found[point_key(levels)] = _Printed(row.printed[column], source)
    return found


def _marks(
    run: Run,
    shown: Bars,
    summaries: Mapping[str, PointSummary],
    printed: Mapping[str, _Printed],
    place: At,
    line: At,
) -> Iterator[Mark]:
    """What stands in one place of a group."""
    key = _key(summaries, {**place, **line})
    if key is None:
        return
    summary, there, metric = summaries[key], printed.get(key), run.metric(shown.metric)
    names = [name for name in shown.by if name in run.varied] or shown.by[:1]
    label = words.labels(run.experiment, line, names)
    at: Mark = {"levels": dict(summary.point.at), "metric": shown.metric, "unit": metric.unit}
    median = summary.medians.get(shown.metric)
    bar = {"kind": "bar", "series": label} | at
    if median is None or (median.estimate <= 0 and "y" in shown.log):
        why = "not above zero" if median else ""
        whole = words.labels(run.experiment, at["levels"], run.varied)
        yield bar | {"_name": whole} | frame.lost_cells(run, summary.point, why)
    else:
        yield bar | frame.median_cells(run, summary, shown.metric)
    if there:
        yield {"kind": "published", "series": f"{label}, published"} | at | _cell(there)
    base = {**line, **(shown.base or line)}
    under = _key(summaries, {**place, **base}) if base != line else None
    if under is None:
        return
    over = f"{label} / {words.labels(run.experiment, base, shown.base or {})}"
    if here := frame.ratio_cells(run, shown.metric, summary.point, summaries[under].point):
        yield {"kind": "ratio", "series": over} | at | here
    below = printed.get(under)
    found = quotient_of(there.cell, below.cell) if there and below else None
    if there and below and found and found.value > 0:
        said = f"{there.cell.printed} / {below.cell.printed}"
        to = dict(summaries[under].point.at)
        cells = {"value": found.value, "printed": said, "bound": found.bound, "to": to}
        yield (
            {"kind": "published ratio", "series": f"{over}, published"}
            | at
            | cells
            | {"unit": "1", "source": there.source}
        )


def _key(summaries: Mapping[str, PointSummary], wanted: At) -> str | None:
    """The key of the grid's point with these levels."""
    return next((k for k, s in summaries.items() if frame.has(wanted, s.point.at)), None)


def _cell(found: _Printed) -> Mark:
    cell = found.cell
    cells = {"value": cell.value, "printed": cell.printed, "bound": cell.bound}
    return cells | {"source": found.source}


def finding(run: Run, shown: Bars, rows: pd.DataFrame) -> str | None:
    """Of a user's command what each level changes; of all others the claims say it."""
    if not isinstance(run.experiment, CommandExperiment):
        return None
    said = [f"with {words.effect(run.experiment, one)}" for one in effects(run, [shown.metric])]
    more = [f"{len(said) - _SAID_MAX} more"] if len(said) > _SAID_MAX else []
    return "; ".join((*said[:_SAID_MAX], *more))


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

    def at(self, mark: Mark) -> float:
        """Our interval stands left of the middle where a printed value stands right of it."""
        aside = self.width * min(_ASIDE, 9.0 / self.points) if self.printed else 0.0
        return self.bar(mark) + (aside if "source" in mark else -aside)


def draw(page: Page, shown: Bars, rows: pd.DataFrame) -> None:
    run, found = page.run, frame.marks(rows)
    metric = run.metric(shown.metric)
    emulated = bool(run.environment.get("emulated_time")) and _timed(metric.unit)
    if emulated:  # its times are not the machine's: nothing to hold a printed time against
        found = [mark for mark in found if mark["kind"] != "published"]
    dots = "y" in shown.log or emulated
    parts = frame.split(found, "panel") or [[]]
    # What has no value anywhere takes no room: the foot says it.
    groups = list(dict.fromkeys(mark["_group"] for mark in found)) or [""]
    order = list(dict.fromkeys(point.at[shown.over] for point in run.points))
    groups.sort(key=lambda level: order.index(level) if level in order else 0)
    ranks = sorted({mark["_rank"] for mark in found}) or [0]
    lower = any(mark["kind"] in _RATIOS for mark in found)
    several = len(parts) > 1
    if not several and len(groups) * len(ranks) <= _FEW:
        page.width = NARROW
    places = [part[0]["panel"] if part else {} for part in parts]
    room = (page.width - 90) * _FILLED / (len(groups) * len(ranks)) / _NARROWEST
    columns = frame.columns(places, most=max(1, min(3, int(room))))
    slots = _Slots(
        groups,
        ranks,
        (page.width - 90) / columns - 20,
        any("source" in mark for mark in found),
    )
    named = [name for name in run.varied if parts[0] and name in parts[0][0]["panel"]]
    titles = [words.labels(run.experiment, at, named) for at in places]
    upper = 150.0 if page.width == NARROW else 190.0
    heights = [upper, 100.0] if lower else [upper]
    lost = frame.unavailable(rows)
    compared = [any(mark["kind"] in _RATIOS for mark in part) for part in parts]
    starts = range(0, len(parts), columns)
    grid = page.grid(
        titles,
        columns,
        heights,
        list(_signs(run, found, dots=dots)),
        frame.said_lost(rows),
        flat=[i // columns for i in starts if lower and not any(compared[i : i + columns])],
    )
    ratios = [mark for mark in found if mark["kind"] in _RATIOS]
    ends = ("low", "median", "high", "value")
    up = frame.values((mark for mark in found if mark["kind"] not in _RATIOS), *ends)
    up += [mark["value"] * 1.5 for mark in found if mark.get("bound") == ">"]
    sides = frame.values(ratios, *ends)
    valued = not slots.printed and all(
        style.width(text, style.SMALL) < slots.points for text in map(_value, found) if text
    )
    if valued:
        up = _with_room(up, upper, log="y" in shown.log)
        sides = _with_room(sides, 100.0, log=True)
    for i, (panel, part) in enumerate(zip(grid, parts, strict=True)):
        if lower and not compared[i]:
            panel.pop().remove()
        scales.quantities(panel[0].yaxis, metric.unit, up, upper, log="y" in shown.log)
        for axes in panel:
            axes.set_xlim(-0.5, len(groups) - 0.5)
            axes.set_xticks([])
            for edge in range(1, len(groups)):
                axes.axvline(edge - 0.5, color=style.FAINT, linewidth=0.7, zorder=0)
        if compared[i]:
            scales.ratios(panel[1].yaxis, sides, 100.0)
        if i % columns == 0:
            scales.y_label(panel[0], scales.metric(metric, log="y" in shown.log), upper)
            if compared[i]:
                base = words.labels(run.experiment, shown.base or {}, shown.base or {})
                scales.y_label(panel[1], f"ratio to {base} (log)", 100.0)
        else:
            for axes in panel:
                axes.tick_params(labelleft=False)
        _names(panel[-1], run, shown, slots)
        for mark in part:
            axes = panel[-1 if mark["kind"] in _RATIOS else 0]
            _draw(axes, slots, mark, dots=dots)
            if valued and (text := _value(mark)):
                top = mark["high"] if "low" in mark else mark["median"]
                axes.annotate(text, (slots.at(mark), top), (0, _RISE), **_VALUE)
        for mark in lost:
            if mark["panel"] == places[i] and mark["_group"] in groups and mark["_rank"] in ranks:
                _word(panel[0], slots, mark)
    page.settle()


def _value(mark: Mark) -> str:
    """What is written above a mark, where there is room for it above each."""
    if "median" not in mark:
        return ""
    if mark["kind"] == "ratio":
        return f"{mark['median']:.3g}"
    return words.tick(mark["median"], mark["unit"])


def _with_room(values: Sequence[float], length: float, *, log: bool) -> list[float]:
    """The values, and one above them that leaves room for a line of text on an axis of `length`
    points."""
    shown = [value for value in values if value > 0 or not log]
    if not shown:
        return [*values]
    share = (_RISE + style.SMALL * style.LINE_HEIGHT) / length
    low, high = min(shown), max(shown)
    return [*values, high * (high / low) ** share * (1 + share) if log else high * (1 + share)]


def _timed(unit: str) -> bool:
    return unit == "s" or unit.startswith("s/") or unit.endswith("/s")


def _names(axes: Axes, run: Run, shown: Bars, slots: _Slots) -> None:
    """The groups' names, turned where they are wider than their group, and the axis's own."""
    wide = slots.wide / len(slots.groups)
    levels = (level for level in slots.groups if level != "")
    texts = [words.label(run.experiment, shown.over, level) for level in levels]
    wrapped = [style.wrap(text, style.SMALL, wide - 6) for text in texts]
    widest = max((style.width(one, style.SMALL) for lines in wrapped for one in lines), default=0.0)
    turned = widest > wide - 4
    axes.tick_params(axis="x", length=0)
    said = texts if turned else ["\n".join(lines) for lines in wrapped]
    axes.set_xticks(range(len(said)), said, parse_math=False)
    if turned:
        for name in axes.get_xticklabels():
            name.set(rotation=30, ha="right", rotation_mode="anchor", va="top")
    scales.x_label(axes, scales.factor(run.experiment, shown.over))


def _look(rank: int) -> dict[str, Any]:
    """A bar's colours and hatch: pale inside, so that an interval and a hatch are seen on it."""
    hue = style.colour(rank)
    return {
        "facecolor": style.paler(hue),
        "edgecolor": style.darker(hue),
        "hatch": _HATCHES[rank % len(_HATCHES)],
        "linewidth": 0.9,
    }


def _draw(axes: Axes, slots: _Slots, mark: Mark, *, dots: bool) -> None:
    x, rank = slots.at(mark), mark["_rank"]
    if "source" in mark:
        marker = {"": "D", ">": "^", "<": "v"}[mark["bound"]]
        size = min(6.0, max(4.2, 0.3 * slots.points))
        axes.plot(x, mark["value"], marker=marker, markersize=size, zorder=5, **_PRINTED)
        return
    dot = dots or mark["kind"] == "ratio"
    hue = style.darker(style.colour(rank)) if dot else style.INK
    if dot:
        fill = "white" if mark["extrapolated"] else hue
        look: dict[str, Any] = {"marker": style.marker(rank), "markerfacecolor": fill}
        axes.plot(x, mark["median"], color=hue, markersize=5.5, zorder=5, **look)
    else:
        outline = "--" if mark["extrapolated"] else "-"
        shape: dict[str, Any] = _look(rank) | {"width": slots.width * 0.9, "linestyle": outline}
        axes.bar(slots.bar(mark), mark["median"], zorder=2, **shape)
    if "low" in mark:
        axes.vlines(x, mark["low"], mark["high"], color=hue, linewidth=1.4, zorder=4)
        ends = [mark["low"], mark["high"]]
        axes.plot([x, x], ends, linestyle="", marker="_", markersize=5, color=hue, zorder=4)


def _word(axes: Axes, slots: _Slots, mark: Mark) -> None:
    """Why there is no bar, in its place, where a word fits."""
    if slots.points >= _LOST * 1.2:
        hue = style.darker(style.colour(mark["_rank"]))
        look: dict[str, Any] = {"rotation": 90, "va": "bottom", "fontsize": _LOST, "color": hue}
        edge_text(axes, mark["why"], slots.bar(mark), 4, **look)


def _signs(run: Run, found: Sequence[Mark], *, dots: bool) -> Iterator[Artist]:
    """The legend: a sign per bar, then what stands on and beside the bars."""
    ours = [mark for mark in found if mark["kind"] == "bar"]
    for mark in (part[0] for part in frame.split(sorted(ours, key=_rank), "_rank")):
        if not mark["series"]:
            continue  # one bar per level: the axis names it
        rank = mark["_rank"]
        if dots:
            hue = style.darker(style.colour(rank))
            yield sign(mark["series"], hue, marker=style.marker(rank), markersize=5.5)
        else:
            yield Patch(label=mark["series"], **_look(rank))
    if any("low" in mark for mark in ours):
        look: dict[str, Any] = {"marker": "|", "markersize": 11, "markeredgewidth": 1.4}
        yield sign("95 % interval of the median", style.INK, **look)
    if any(mark["extrapolated"] for mark in ours):
        what = "open" if dots else "dashed"
        label = f"{what}: extrapolated from a slice"
        if dots:
            yield sign(label, marker="o", markersize=5.5, markerfacecolor="white")
        else:
            yield Patch(facecolor="white", edgecolor=style.QUIET, linestyle="--", label=label)
    printed = [mark for mark in found if "source" in mark]
    if printed:
        sources = ", ".join(dict.fromkeys(p.source for p in run.experiment.published))
        yield sign(f"published ({sources})", marker="D", markersize=6, **_PRINTED)
    if any(mark["bound"] for mark in printed):
        yield sign("published as a bound", marker="^", markersize=6, **_PRINTED)


def _rank(mark: Mark) -> int:
    return int(mark["_rank"])

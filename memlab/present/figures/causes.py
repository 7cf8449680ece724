"""What slow operations met: a bar for each tail of each traced point, divided by main cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from memlab.experiment import Attribution, Causes
from memlab.experiment.attribution import CAUSES, TRACE
from memlab.present import attribution, words
from memlab.present.attribution import percentile
from memlab.present.figures import page, style
from memlab.present.figures.page import Page
from memlab.present.figures.sheet import EDGE, STEP, sheet
from memlab.results import Run
from memlab.results.attribution import Tail, Traced, refused, traced

_COUNTED = (
    "an operation counts for the cause that took the longest of it, where that was a tenth at least"
)
BRIEF, NOTHING = "brief", "nothing"
_WIDTH, _RIGHT = 921.6, 150.0  # of the page, and of the counts beside the bars
_BAR, _GAP, _BELOW = 22.0, 5.0, 16.0  # points
_AXIS = 26.0
_SAID_MAX = 4  # points that the finding says one by one
_PAD = 7.0  # points around a word inside a part

# Hatches, and words in the parts: a bar can be read without its colours.
_LOOKS: Mapping[str, tuple[str, str]] = {
    "major_fault": (style.COLOURS[0], ""),
    "minor_fault": (style.paler(style.COLOURS[0]), "//"),
    "switch": (style.paler(style.COLOURS[2]), "\\\\"),
    "shootdown": (style.COLOURS[1], ""),
    "function_call": (style.paler(style.COLOURS[1]), "xx"),
    "reschedule": (style.paler(style.COLOURS[3]), ".."),
    "timer": (style.paler(style.COLOURS[4]), "--"),
    "device": (style.paler(style.COLOURS[5]), "||"),
    "softirq": (style.paler(style.COLOURS[6]), "++"),
    BRIEF: (style.FAINT, ""),
    NOTHING: ("white", ""),
}
_NAMES: Mapping[str, str] = {
    **{cause: cause.replace("_", " ") for cause in CAUSES},
    BRIEF: "met only what is too brief",
    NOTHING: "met nothing that is traced",
}


@dataclass(frozen=True, slots=True)
class Group:
    """A traced point: its bars, and the lines that are written below them."""

    found: Traced
    heading: str
    tails: Sequence[Tail]
    said: Sequence[str]

    @property
    def height(self) -> float:
        bars = len(self.tails) * (_BAR + _GAP)
        return STEP * 1.3 + bars + len(self.said) * STEP + _BELOW


def compose(figure: Figure, run: Run, _: Causes) -> None:
    """Draw the causes of a run's slow operations on an empty figure, and set its size."""
    groups = [_group(run, found) for found in traced(run)]
    lost = _refused(run)
    made = sheet(
        f"{run.experiment.question} What the slowest operations met",
        finding(run),
        run,
        "; ".join([page.fixed(run, apart=TRACE.name), _COUNTED, *lost]),
        list(_signs(groups)),
        _WIDTH,
    )
    labels = max((style.width(_label(t), style.SMALL) for g in groups for t in g.tails), default=0)
    left = EDGE + labels + 8
    body = sum(group.height for group in groups) + (_AXIS if groups else 0)
    on, top = made.lay(figure, body)
    if not groups:
        return
    wide = on.width - left - _RIGHT
    foot = top - body + _AXIS
    axes = _axes(on, left, foot, wide, top - foot)
    for group in groups:
        _draw(on, axes, group, (left, wide), top, foot)
        top -= group.height


def finding(run: Run) -> str:
    """What most of each point's slowest operations met, and how many are unexplained."""
    declared, found = run.experiment.attribution, traced(run)
    if declared is None or not found:
        return "no point was traced"
    over = percentile(attribution.tail_of(found[0]))
    said = "; ".join(f"{attribution.place(run, one)}: {_most(one)}" for one in found[:_SAID_MAX])
    more = len(found) - _SAID_MAX
    return f"of the {declared.operations} over {over}, {said}" + (
        f"; and {more} more points" if more > 0 else ""
    )


def _most(found: Traced) -> str:
    one = attribution.tail_of(found)
    if not one.judged:
        return "none was judged"
    rest = f"{attribution.share(one.unexplained, one.judged)} unexplained"
    cause = next(iter(one.causes), None)
    if cause is None:
        return rest
    return f"{attribution.share(one.causes[cause].met, one.judged)} met {CAUSES[cause]}, {rest}"


def _refused(run: Run) -> list[str]:
    return [
        f"not traced: {words.levels(run.experiment, at, run.varied) or 'the only point'}: {why}"
        for at, why in refused(run)
    ]


def _group(run: Run, found: Traced) -> Group:
    declared = run.experiment.attribution
    assert declared is not None  # only a declared attribution has a figure of causes
    return Group(
        found,
        attribution.place(run, found),
        [tail for tail in found.tails if tail.judged],
        [line for text in _said(declared, found) for line in _wrapped(text)],
    )


def _wrapped(text: str) -> list[str]:
    return style.wrap(text, style.SMALL, _WIDTH - 2 * EDGE)


def _said(declared: Attribution, found: Traced) -> Iterator[str]:
    yield f"{attribution.sentence(declared, found).capitalize()}."
    if found.overhead:
        yield f"{attribution.overhead(found)}."
    if remarks := "; ".join(attribution.remarks(found)):
        yield f"{remarks}."


def parts(tail: Tail) -> list[tuple[str, int]]:
    """Operations by main cause, in the fixed order of the causes; those unexplained last."""
    main = [(c, tail.causes[c].main) for c in CAUSES if c in tail.causes and tail.causes[c].main]
    rest = [(BRIEF, tail.brief), (NOTHING, tail.nothing)]
    return main + [(name, count) for name, count in rest if count]


def _label(tail: Tail) -> str:
    return f"over {percentile(tail)}, {words.quantity(tail.shortest_s, 's')} and longer"


def _axes(on: Page, left: float, bottom: float, wide: float, high: float) -> Axes:
    axes = on.axes(left, bottom, wide, high)
    axes.grid(visible=False)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, high)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    steps = [i / 4 for i in range(5)]
    axes.set_xticks(steps, [f"{step:.0%}".replace("%", " %") for step in steps])
    return axes


def _draw(
    on: Page, axes: Axes, group: Group, across: tuple[float, float], top: float, foot: float
) -> None:
    left, wide = across
    on.write(group.heading, EDGE, top, style.TEXT, weight="bold", color=style.INK)
    y = top - STEP * 1.3
    for tail in group.tails:
        _bar(axes, tail, y - _BAR - foot, wide)
        middle = y - (_BAR - style.SMALL) / 2
        on.write(_label(tail), EDGE, middle, style.SMALL, color=style.INK)
        count = f"{tail.judged:,} of {group.found.operations:,}"
        on.write(count, left + wide + 8, middle, style.SMALL, color=style.QUIET)
        y -= _BAR + _GAP
    for i, line in enumerate(group.said):
        on.write(line, EDGE, y - i * STEP, style.SMALL, color=style.QUIET)


def _bar(axes: Axes, tail: Tail, bottom: float, wide: float) -> None:
    start = 0.0
    for name, count in parts(tail):
        part = count / tail.judged
        axes.barh(
            bottom + _BAR / 2, part, height=_BAR, left=start, linewidth=0.8, zorder=3, **_look(name)
        )
        if word := _fitting(name, attribution.share(count, tail.judged), part * wide):
            axes.text(
                start + part / 2,
                bottom + _BAR / 2,
                word,
                fontsize=style.SMALL,
                ha="center",
                va="center",
                color=style.INK,
                zorder=4,
                bbox={"boxstyle": "round,pad=0.18", "facecolor": "white", "linewidth": 0},
            )
        start += part


def _look(name: str) -> dict[str, Any]:
    colour, hatch = _LOOKS[name]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": style.INK}


def _fitting(name: str, share: str, room: float) -> str:
    """A part's name and share, or its share alone, or nothing, as there is room."""
    for word in (f"{_NAMES[name]} {share}", share):
        if style.width(word, style.SMALL) + _PAD <= room:
            return word
    return ""


def _signs(groups: Sequence[Group]) -> Iterator[Artist]:
    """The legend: every part that any bar has."""
    drawn = {name for group in groups for tail in group.tails for name, _ in parts(tail)}
    for name in (name for name in _LOOKS if name in drawn):
        yield Patch(label=_NAMES[name], linewidth=0.8, **_look(name))


def as_data(run: Run, _: Causes) -> list[dict[str, Any]]:
    """The sidecar's rows: a part of a bar each, by main cause; `met` counts an operation for
    every cause that it met."""
    return [
        {
            "kind": "cause",
            "series": name,
            "levels": dict(found.at),
            "share": tail.share,
            "operations": tail.judged,
            "main": count,
            "met": tail.causes[name].met if name in tail.causes else count,
            "samples": list(found.samples),
            "probe": run.experiment.probe,
            "probe_hashes": list(found.probe_hashes),
            "c_file": f"probes/{run.experiment.probe}.c",
        }
        for found in traced(run)
        for tail in found.tails
        for name, count in parts(tail)
    ]

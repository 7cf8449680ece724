"""What slow operations met: a bar for each tail of each traced point, divided by main cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from memlab.experiment import Attribution, Causes
from memlab.experiment.attribution import CAUSES, TRACE
from memlab.present import attribution, words
from memlab.present.attribution import percentile
from memlab.present.figures import frame, style
from memlab.present.figures import rows as place
from memlab.present.figures.frame import Rows
from memlab.present.figures.layout import Page
from memlab.present.figures.rows import DrawnRow
from memlab.results import Run
from memlab.results.attribution import SlowestOperations, Traced, refused, traced
from memlab.text import units

_COUNTED = (
    "each operation is attributed to the longest event inside it, if that covers at least 10 %"
)
BRIEF, NOTHING = "brief", "nothing"
_BAR, _GAP, _ABOVE = 22.0, 5.0, 16.0  # points
_SAID_MAX = 4  # points that the finding says one by one
_PAD = 7.0  # points around a word inside a part

# Hatches, and words in the parts: a bar can be read without its colours.
LOOKS: Mapping[str, tuple[str, str]] = {
    "major_fault": (style.COLOURS[0], ""),
    "minor_fault": (style.paler(style.COLOURS[0]), "//"),
    "switch": (style.paler(style.COLOURS[2]), "\\\\"),
    "shootdown": (style.COLOURS[4], ""),
    "function_call": (style.paler(style.COLOURS[4]), "xx"),
    "reschedule": (style.paler(style.COLOURS[3]), ".."),
    "timer": ("#c9c9c9", "--"),
    "device": (style.paler(style.COLOURS[5]), "||"),
    "softirq": (style.paler(style.COLOURS[6]), "++"),
    BRIEF: (style.FAINT, ""),
    NOTHING: ("white", ""),
}
_NAMES: Mapping[str, str] = {
    **{cause: cause.replace("_", " ") for cause in CAUSES},
    BRIEF: "met only brief events",
    NOTHING: "met no traced event",
}


def title(run: Run, shown: Causes) -> str:
    return "what the slowest operations met"


def rows(run: Run, shown: Causes) -> Rows:
    """A row per part of a bar, by main cause; `met` counts an operation for every cause that it
    met."""
    return frame.rows(
        {
            "panel": {},
            "kind": "cause",
            "series": name,
            "levels": dict(result.at),
            "share": tail.share,
            "operations": tail.judged,
            "main": count,
            "met": tail.causes[name].met if name in tail.causes else count,
            "samples": list(result.samples),
            "_found": result,
            "_tail": tail,
        }
        for result in traced(run)
        for tail in result.tails
        for name, count in _parts(tail)
    )


def _parts(tail: SlowestOperations) -> list[tuple[str, int]]:
    """Operations by main cause, in the fixed order of the causes; those unexplained last."""
    main = [(c, tail.causes[c].main) for c in CAUSES if c in tail.causes and tail.causes[c].main]
    rest = [(BRIEF, tail.brief), (NOTHING, tail.nothing)]
    return main + [(name, count) for name, count in rest if count]


def finding(run: Run, shown: Causes, rows: Rows) -> str:
    """The main cause of most of each point's slowest operations, and how many are unexplained."""
    declared, result = run.experiment.attribution, traced(run)
    if declared is None or not result:
        return "no point was traced"
    over = percentile(attribution.tail_of(result[0]))
    text = "; ".join(
        f"{attribution.place(run, item)}: {_most(item)}" for item in result[:_SAID_MAX]
    )
    more = len(result) - _SAID_MAX
    return f"of the {declared.operations} over {over}, {text}" + (
        f"; and {units.counted(more, 'more point')}" if more > 0 else ""
    )


def _most(traced: Traced) -> str:
    item = attribution.tail_of(traced)
    if not item.judged:
        return "none was judged"
    rest = f"{attribution.share(item.unexplained, item.judged)} unexplained"
    main = {cause: counts.main for cause, counts in item.causes.items() if counts.main}
    if not main:
        return rest
    cause = max(main, key=main.__getitem__)
    return f"{CAUSES[cause]} caused {attribution.share(main[cause], item.judged)}, {rest}"


def draw(page: Page, shown: Causes, rows: Rows) -> None:
    run, declared, result = page.run, page.run.experiment.attribution, traced(page.run)
    assert declared is not None  # only a declared attribution has a figure of causes
    page.apart = [TRACE.name]
    page.notes.append(_COUNTED)
    for at, why in refused(run):
        where = words.labels(run.named, at, run.varied) or "the only point"
        page.notes.append(f"not traced: {where}: {why}")
    lines: list[DrawnRow] = []
    tails = [tail for item in result for tail in item.tails if tail.judged]
    for item in result:
        above = _ABOVE if lines else 0.0
        lines.append(DrawnRow(across=attribution.place(run, item), bold=True, above=above))
        for tail in item.tails:
            if tail.judged:
                name = f"over {percentile(tail)}"
                if not run.environment.get("emulated_time"):
                    name += f", {words.quantity(tail.shortest_s, 's')} and longer"
                lines.append(DrawnRow(name, f"{tail.judged:,} of {item.operations:,}"))
        message = enumerate(_sentences(run, declared, item))
        lines += [DrawnRow(across=text, above=0.0 if number else 3.0) for number, text in message]
    if lines:
        axes, middles = place.panel(page, lines, high=_BAR + _GAP)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
        wide = axes.get_position().width * page.width
        drawn = {name for tail in tails for name, _ in _parts(tail)}
        page.legend(*(_sign(name) for name in LOOKS if name in drawn))
        for tail, middle in zip(tails, middles, strict=True):
            _bar(axes, tail, middle, wide)


def _sentences(run: Run, declared: Attribution, traced: Traced) -> Iterator[str]:
    yield f"{attribution.sentence(declared, traced).capitalize()}."
    if traced.overhead:
        yield f"{attribution.overhead(run, traced)}."
    if remarks := "; ".join(attribution.remarks(traced)):
        yield f"{remarks}."


def _bar(axes: Axes, tail: SlowestOperations, middle: float, wide: float) -> None:
    start = 0.0
    for name, count in _parts(tail):
        part, share = count / tail.judged, attribution.share(count, tail.judged)
        axes.barh(middle, part, height=_BAR, left=start, linewidth=0.8, zorder=3, **_look(name))
        # A part's name and share, or only its share, or nothing, as there is room.
        texts = (text for text in (f"{_NAMES[name]} {share}", share))
        room = part * wide - _PAD
        fits = next((text for text in texts if style.width(text, style.SMALL) <= room), "")
        if fits:
            box = {"boxstyle": "round,pad=0.18", "facecolor": "white", "linewidth": 0}
            look: dict[str, Any] = {"ha": "center", "va": "center", "bbox": box, "zorder": 4}
            axes.text(start + part / 2, middle, fits, fontsize=style.SMALL, **look)
        start += part


def _look(name: str) -> dict[str, Any]:
    colour, hatch = LOOKS[name]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": style.INK}


def _sign(name: str) -> Patch:
    return Patch(label=_NAMES[name], linewidth=0.8, **_look(name))

"""The figure of `memlab show app.trace`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlab.trace import file, shown
from memlab.trace.account import KINDS, TraceAccount

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HATCHES = ("", "////", "....", "xxxx", "----")  # of KINDS, which differ without colour too
_LINES = 4  # processes
_HIGH, _MIDDLE, _LOW = 210.0, 140.0, 70.0  # of the panels


def place(trace: file.Trace, folder: Path) -> Path:
    """A name of its own: another folder's trace may be called the same."""
    return folder / f"{trace.path.stem}-{trace.sum & 0xFFFFFFFF:08x}.png"


def draw(trace: file.Trace, account: TraceAccount, path: Path) -> Path:
    """Memory over time by kind of mapping, stacked; by process, of several or of one whose live
    blocks are known; what was given back, if anything was, and what of that was touched again,
    summed. Written as PNG."""
    # A second of processor time, which `record` need not wait for.
    from memlab.present import figures
    from memlab.present.figures import scales, style

    at_s = [trace.elapsed_s * (i + 1) / len(account.moments) for i in range(len(account.moments))]
    parts = [(_kinds, _HIGH)]
    drawn = account.by_process[:_LINES]
    if shown.is_by_process(trace, account) and any(process.course for process in drawn):
        parts.append((_processes, _MIDDLE))
    if account.moments[-1][len(KINDS)]:
        parts.append((_given_back, _LOW))
    with style.settings():
        made = figures.RunFigure(figsize=(8, 5), dpi=style.PIXELS / 8)
        made.title = f"{trace.path.name}: memory over time"
        grid = {"height_ratios": [high for _, high in parts], "hspace": 0.12, "right": 0.76}
        panels = made.subplots(len(parts), 1, sharex=True, squeeze=False, gridspec_kw=grid)[:, 0]
        for axes, (draw_part, high) in zip(panels, parts, strict=True):
            most = draw_part(axes, at_s, trace, account)
            scales.quantities(axes.yaxis, "B", [0.0, float(most)], high, log=False)
            axes.spines[["top", "right"]].set_visible(False)
            axes.margins(x=0)
            legend = axes.legend(
                loc="upper left",
                bbox_to_anchor=(1.01, 1),
                frameon=False,
                fontsize=style.SMALL,
                reverse=draw_part is _kinds,
            )  # fmt: skip - beside what it names, in the order in which that is stacked
            for text in legend.get_texts():
                text.set_parse_math(False)  # a program's name is its own
        scales.quantities(panels[-1].xaxis, "s", [0.0, trace.elapsed_s], 400.0, log=False)
        scales.x_label(panels[-1], "time in the recording")
        finding = (
            f"{trace.path.name}: {shown.program(trace, account)} held at most "
            f"{shown.in_bytes(account.peak_pages)}"
        )
        panels[0].set_title(
            finding, loc="left", fontsize=style.FINDING, weight="bold", parse_math=False
        )
    return figures.write(made, path)


def _kinds(axes: Axes, at_s: list[float], trace: file.Trace, account: TraceAccount) -> int:
    """Draws a panel, as do the others; returns its largest value."""
    from memlab.present.figures import scales, style

    held = [[row[i] * shown.PAGE for row in account.moments] for i in range(len(KINDS))]
    some = [i for i in range(len(KINDS)) if any(held[i])] or [KINDS.index("anonymous")]
    axes.stackplot(
        at_s,
        [held[i] for i in some],
        labels=[shown.NAMES[KINDS[i]] for i in some],
        colors=[style.paler(style.colour(i), 0.75) for i in some],
        hatch=[_HATCHES[i] for i in some],
        edgecolor=style.INK,
        linewidth=0,
    )
    scales.y_label(axes, "pages that were there", _HIGH)
    return max(map(sum, zip(*held, strict=True)))


def _processes(axes: Axes, at_s: list[float], trace: file.Trace, account: TraceAccount) -> int:
    from memlab.present.figures import scales, style

    most = 0
    named = zip(shown.process_names(trace, account), account.by_process, strict=True)
    for number, (name, one) in enumerate([*named][:_LINES]):
        if not one.course:  # of next to no memory
            continue
        resident = [anonymous * shown.PAGE for anonymous, *_ in one.course]
        label = f" {name}" if name.startswith("_") else name  # or the legend would leave it out
        look: dict[str, Any] = {"color": style.colour(number), "linestyle": style.dashes(number)}
        axes.plot(at_s, resident, label=label, **look)
        live = [bytes_live for *_, bytes_live in one.course] if trace.allocations else []
        if live:
            axes.plot(at_s, live, label=f"{label}, live", marker="o", markevery=0.1, **look)
        most = max(most, *resident, *live)
    scales.y_label(axes, "anonymous", _MIDDLE)
    return most


def _given_back(axes: Axes, at_s: list[float], trace: file.Trace, account: TraceAccount) -> int:
    from memlab.present.figures import scales, style

    given, again = ([row[len(KINDS) + i] * shown.PAGE for row in account.moments] for i in range(2))
    axes.plot(at_s, given, color=style.INK, label="given back", linewidth=1.4)
    axes.plot(at_s, again, color=style.colour(1), linestyle=style.dashes(1),
              label="of it touched again", linewidth=1.4)  # fmt: skip
    scales.y_label(axes, "summed", _LOW)
    return max(given)

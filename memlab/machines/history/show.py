"""A history in print: the changes first, then the runs, and a figure of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from memlab.analysis.history import FIRST, YEAR, Change
from memlab.machines.history.judge import History, RunOfHistory
from memlab.present import table, words
from memlab.present.table import Cell, Column, Table, Text, write
from memlab.results import Run

_SHOWN, _EVENTS = 20, 5  # runs of the table and changes of the machine, unless asked for all


def show(found: History, in_full: str = "") -> None:
    """Print what changed, when and by how much, then a row per run: the newest alone where
    `in_full`, the command that prints all, is given."""
    console = table.console()
    for number, line in enumerate(_answer(found)):
        console.print(Text(line, style="" if number else "bold"))
    for change in found.changes:
        for line in _change(found, change):
            console.print(Text(line))
    shown = found.nights[-_SHOWN:] if in_full else found.nights
    heads = ["run", "measured", _head(found), "changed"]
    first_after = {change.after + 1 for change in found.changes}
    cells: list[list[Cell | str]] = [
        [
            night.run.id,
            _day(night.run),
            Cell(_level(found, night), "inconclusive" if number in first_after else ""),
            ", ".join(dict.fromkeys(event.partition(":")[0] for event in night.events)),
        ]
        for number, night in list(enumerate(found.nights))[-len(shown) :]
    ]
    write(console, Table("", [Column(head, "left", wrap=24) for head in heads], cells))
    if len(shown) < len(found.nights):
        older = words.count(len(found.nights) - len(shown), "older run")
        console.print(Text(f"not shown: {older}: {in_full}"), soft_wrap=True)
    near = {n for change in found.changes for n in _around(change)}
    others = [n for n, night in enumerate(found.nights) if night.events and n not in near]
    for number in others[-_EVENTS:] if in_full else others:
        for line in _events(found.nights[number]):
            console.print(Text(line))
    if found.left_out:
        runs = words.count(len(found.left_out), "run")
        console.print(Text(f"{runs} left out, without these points or values: {_few(found)}"))


def _answer(found: History) -> Iterator[str]:
    newest = found.nights[-1].run
    host = newest.row.origin or "this host"
    changes = words.count(len(found.changes), "change") if found.changes else "no change"
    yield (
        f"{newest.experiment.name}, {found.metric.name}: {changes} in "
        f"{words.count(len(found.nights), 'run')} of {host} since {_day(found.nights[0].run)}"
    )
    if found.newer:
        yield (
            f"{words.count(found.newer, 'newer run')} measured other points; these are the points "
            f"of run {found.followed}, and --run RUN takes another's"
        )
    if len(found.nights) < FIRST:
        yield f"below {FIRST} runs no change is looked for"
    elif not found.changes:
        yield _could_see(found)
    rate = f"{100 * found.rate:.0f} %"
    yield (
        f"of machines on which nothing changes, {rate} show a change in {YEAR} runs; each run "
        "counts once, whatever its blocks"
    )


def _could_see(found: History) -> str:
    """What no alarm means."""
    seen = [
        f"one over {100 * (ratio - 1):.2g} % in the newest {newest} runs"
        if ratio
        else f"none of any size in the newest {newest} runs"
        for newest, ratio in found.visible.items()
    ]
    return f"a change would have been seen: {', '.join(seen)}"


def _change(found: History, change: Change) -> Iterator[str]:
    nights, ratio = found.nights, change.ratio
    slower = (ratio.estimate > 1) == found.metric.lower_is_better
    interval = ""
    if ratio.low is not None and ratio.high is not None:
        interval = f" ({_percent(ratio.low)} to {_percent(ratio.high)})"
    alarm = ", now" if change.seen == len(nights) - 1 else ""
    yield (
        f"{'worse' if slower else 'better'}: {_percent(ratio.estimate)}{interval} after run "
        f"{nights[change.after].run.id} of {_day(nights[change.after].run)}, seen "
        f"{words.count(change.seen - change.after, 'run')} later{alarm}"
    )
    if change.earliest < change.latest:
        first, last = nights[change.earliest].run, nights[change.latest + 1].run
        yield f"  between {_day(first)} and {_day(last)} (95 %)"
    events = [line for number in _around(change) for line in _events(nights[number])]
    yield from (f"  {line}" for line in events)
    if not events:
        yield "  nothing that memlab reads of the machine changed there"


def _around(change: Change) -> range:
    """The runs that may be the first after a change."""
    return range(change.earliest + 1, change.latest + 2)


def _events(night: RunOfHistory) -> list[str]:
    return [f"with run {night.run.id} of {_day(night.run)}: {event}" for event in night.events]


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _day(run: Run) -> str:
    return run.row.created_at[:16].replace("T", " ")


def _few(found: History) -> str:
    more = f" and {len(found.left_out) - 5} more" if found.left_out[5:] else ""
    return ", ".join(found.left_out[:5]) + more


def _head(found: History) -> str:
    return found.metric.name if found.typical else f"{found.metric.name}, of the typical run"


def _level(found: History, night: RunOfHistory) -> str:
    level = night.level
    ends = [level.low, level.estimate, level.high]
    if found.typical is None:
        said = [None if end is None else _percent(end) for end in ends]
    else:
        unit, scale = found.metric.unit, found.typical
        said = [None if end is None else words.quantity(end * scale, unit) for end in ends]
    low, estimate, high = said
    return f"{estimate} ({low} to {high})" if low and high else f"{estimate}"


def figure(found: History, path: Path) -> Path:
    """Every run with its interval over the days; the level of each part; the changes with the span
    in which they lie, and where the machine was another than before. Written as PNG."""
    from datetime import datetime

    import matplotlib.dates as mdates
    import numpy as np

    from memlab.present import figures
    from memlab.present.figures import style

    measured = [datetime.fromisoformat(night.run.row.created_at) for night in found.nights]
    number: Callable[[datetime], float] = mdates.date2num
    days = [number(at.replace(tzinfo=None)) for at in measured]
    levels = np.array([100 * (night.level.estimate - 1) for night in found.nights])
    with style.settings():
        made = figures.RunFigure(figsize=(8, 4.2), layout="constrained", dpi=200)
        axes = made.add_subplot()
        for day, night, level in zip(days, found.nights, levels, strict=True):
            low, high = night.level.low, night.level.high
            if low is not None and high is not None:
                ends = [100 * (low - 1), 100 * (high - 1)]
                axes.plot([day, day], ends, color=style.PALE, linewidth=0.8, zorder=1)
            axes.plot([day], [level], "o", markersize=3, color=style.colour(0), zorder=2)
        edges = [0, *(change.after + 1 for change in found.changes), len(days)]
        for first, end in pairwise(edges):
            middle = float(np.median(levels[first:end]))
            axes.plot([days[first], days[end - 1]], [middle] * 2, color=style.INK, linewidth=1.6)
        for change in found.changes:
            span = days[change.earliest], days[change.latest + 1]
            axes.axvspan(*span, color=style.colour(1), alpha=0.18, linewidth=0, zorder=0)
            said = _percent(change.ratio.estimate)
            axes.annotate(
                said,
                (span[1], 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, -3),
                textcoords="offset points",
                va="top",
                color=style.colour(1),
                fontsize=style.SMALL,
            )
        for day, night in zip(days, found.nights, strict=True):
            if night.events:
                axes.axvline(day, color=style.QUIET, linewidth=0.8, linestyle=style.DOTTED)
                what = f"{night.events[0].partition(':')[0]}" + (" ..." if night.events[1:] else "")
                axes.annotate(
                    what,
                    (day, 0.0),
                    xycoords=("data", "axes fraction"),
                    xytext=(2, 3),
                    textcoords="offset points",
                    rotation=90,
                    fontsize=7,
                    color=style.QUIET,
                )
        locator = mdates.AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        shown = mdates.ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(shown)
        label = found.metric.name if found.typical else f"{found.metric.name} over all points"
        axes.set_ylabel(f"{label}, % of the typical run")
        axes.spines[["top", "right"]].set_visible(False)
        made.suptitle(next(_answer(found)), x=0.01, ha="left", fontsize=10)
        made.source = source(found)
    return figures.write(made, path)


def source(found: History) -> str:
    """What the file of the figure says that it is of."""
    from memlab.present.figures import sidecar

    nights = [[n.run.id, n.level.low, n.level.estimate, n.level.high] for n in found.nights]
    changes = [[c.after, c.earliest, c.latest, c.ratio.estimate] for c in found.changes]
    return f"{next(_answer(found))}, numbers {sidecar.digest(nights, changes)}"

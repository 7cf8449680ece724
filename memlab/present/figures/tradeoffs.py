"""What a figure of one metric against another shows, as data: each point's two medians."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memlab import units
from memlab.analysis.intervals import Interval
from memlab.experiment import At, Tradeoff
from memlab.present import words
from memlab.present.figures.series import varied
from memlab.results import PointSummary, Run
from memlab.run import plan


@dataclass(frozen=True, slots=True)
class Trade:
    """One point: what it has of the metric across and of the metric up."""

    label: str
    at: At
    control: str | None
    colour: int  # the rank of its level of `over`
    shape: int  # the rank of its levels of `by`
    across: Interval
    up: Interval
    samples: tuple[int, ...]
    probe_hashes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pane:
    """One pair of axes: the levels that hold there, its points, and those without a mark."""

    at: At
    trades: Sequence[Trade]
    arrows: Sequence[tuple[Trade, Trade]]
    untold: Sequence[tuple[str, str]]  # label, why


def panes(run: Run, shown: Tradeoff) -> list[Pane]:
    """Every panel; a factor that varies and is nowhere in the declaration gets panels too."""
    grid = [s for s in run.summaries if s.point.control is None]
    own = (shown.over, *shown.by)
    free = [n for n in varied(run) if n not in (*own, *shown.panels)]
    return [_pane(run, shown, at) for at in _combinations(grid, [*shown.panels, *free])]


def _pane(run: Run, shown: Tradeoff, panel: At) -> Pane:
    inside = [s for s in run.summaries if _has(s.point.at, panel) and _drawn(shown, s)]
    colours = _combinations(run.summaries, [shown.over])
    shapes = _combinations(run.summaries, list(shown.by))
    several = plan.varied([summary.point for summary in inside])
    told = [name for name in (shown.over, *shown.by) if name in several] or [shown.over]
    trades, untold = [], []
    for summary in inside:
        at = summary.point.at
        label = words.levels(run.experiment, at, told)
        across, up = (summary.medians.get(name) for name in (shown.against, shown.metric))
        if across is None or up is None or not _drawable(shown, across, up):
            untold += [(label, _why(shown, summary))] if summary.outcomes else []
            continue
        behind = [s for s in run.by_point[summary.point.index] if s.outcome == "ok"]
        trades.append(
            Trade(
                label=label,
                at=at,
                control=summary.point.control,
                colour=next(i for i, levels in enumerate(colours) if _has(at, levels)),
                shape=next(i for i, levels in enumerate(shapes) if _has(at, levels)),
                across=across,
                up=up,
                samples=tuple(s.id for s in behind if s.id is not None),
                probe_hashes=tuple(dict.fromkeys(s.probe_hash for s in behind)),
            )
        )
    return Pane(panel, trades, list(_arrows(shown, trades)), untold)


def _drawn(shown: Tradeoff, summary: PointSummary) -> bool:
    control = summary.point.control
    return control is None or shown.controls is None or control in shown.controls


def _arrows(shown: Tradeoff, trades: Sequence[Trade]) -> Iterator[tuple[Trade, Trade]]:
    """From each point at the base to those that differ from it in `by` alone."""
    for base in trades:
        if shown.base is None or not _has(base.at, shown.base):
            continue
        left = {name: level for name, level in base.at.items() if name not in shown.by}
        yield from ((base, t) for t in trades if t is not base and _has(t.at, left))


def _drawable(shown: Tradeoff, across: Interval, up: Interval) -> bool:
    """Zero has no place on a log axis."""
    return all(i.estimate > 0 for i, axis in ((across, "x"), (up, "y")) if axis in shown.log)


def _why(shown: Tradeoff, summary: PointSummary) -> str:
    failed = [outcome for outcome in summary.outcomes if outcome != "ok"]
    lacks = [name for name in (shown.metric, shown.against) if name not in summary.medians]
    if lacks and not summary.outcomes.get("ok"):
        return ", ".join(failed)
    return f"no {' and no '.join(lacks)}" if lacks else "not above zero"


def _combinations(points: Sequence[PointSummary], names: Sequence[str]) -> list[At]:
    found = (tuple((name, s.point.at[name]) for name in names) for s in points)
    return [dict(pairs) for pairs in dict.fromkeys(found)]


def _has(at: At, levels: At) -> bool:
    return all(at[name] == level for name, level in levels.items())


def finding(run: Run, shown: Tradeoff) -> str:
    """The arrow along which the metric changes most, if its ends are shown to differ."""
    arrows = [(pane, *arrow) for pane in panes(run, shown) for arrow in pane.arrows]
    sure = [found for found in arrows if _apart(found[1].up, found[2].up)]
    if not sure:
        return ""
    pane, base, to = max(sure, key=lambda found: _times(found[1].up, found[2].up))
    up, across = run.metric(shown.metric), run.metric(shown.against)

    def change(name: str, unit: str, of: Interval, to: Interval) -> str:
        first, last = (units.format_quantity(i.estimate, unit) for i in (of, to))
        return f"{name} {first} becomes {last}"

    where = words.levels(run.experiment, pane.at, [n for n in pane.at if n in varied(run)])
    return (
        f"{base.label} to {to.label}{f' ({where})' if where else ''}: "
        f"{change(up.name, up.unit, base.up, to.up)}, "
        f"{change(across.name, across.unit, base.across, to.across)}"
    )


def _apart(one: Interval, other: Interval) -> bool:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.high < other.low or other.high < one.low


def _times(one: Interval, other: Interval) -> float:
    small, large = sorted((one.estimate, other.estimate))
    return large / small if small > 0 else float("inf")


def as_data(run: Run, shown: Tradeoff) -> list[dict[str, Any]]:
    """The sidecar's rows: one a mark."""
    return [
        {
            "panel": dict(pane.at),
            "kind": "tradeoff" if trade.control is None else "control tradeoff",
            "series": trade.label,
            "levels": dict(trade.at),
            "x": _number(run, shown.against, trade.across),
            "y": _number(run, shown.metric, trade.up),
            "samples": list(trade.samples),
            "probe": run.experiment.probe,
            "probe_hashes": list(trade.probe_hashes),
            "c_file": f"probes/{run.experiment.probe}.c",
        }
        for pane in panes(run, shown)
        for trade in pane.trades
    ]


def _number(run: Run, name: str, found: Interval) -> dict[str, Any]:
    return {
        "metric": name,
        "unit": run.metric(name).unit,
        "median": found.estimate,
        "low": found.low,
        "high": found.high,
        "n": found.n,
    }

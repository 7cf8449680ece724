"""Two runs compared, on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memlab.analysis.compare import Comparison
from memlab.experiment import At
from memlab.judging import evidence
from memlab.judging.compare import Compared, PointComparison
from memlab.present import words

_STYLES = {"faster": "green", "slower": "bold red", "same": "", "inconclusive": "yellow"}


def show(compared: Compared) -> None:
    """Print a row a point, what else differs, and last how many points got which word."""
    console = Console(highlight=False)
    metric = compared.metric
    better = "lower" if metric.lower_is_better else "higher"
    console.print(Text(f"{compared.experiment.name}: {compared.new} against {compared.base}"))
    console.print(Text(f"{metric.help} ({metric.unit}); {better} is better"))
    console.print(_table(compared))
    for line in (*compared.remarks, *_alone(compared)):
        console.print(Text(line))
    console.print(
        Text(
            "ratio: new / base with its 95 % interval; p: of the test behind the word, of a "
            "difference where there is none, corrected for the number of points",
            style="dim",
        )
    )
    console.print(Text(last_line(compared), style="bold"))


def _table(compared: Compared) -> Table:
    names = _varied([point.at for point in compared.points])
    unit = compared.metric.unit
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("point")
    for title in ("base", "new"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("ratio", no_wrap=True)
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("here")
    for point in compared.points:
        comparison = point.comparison
        table.add_row(
            words.levels(compared.experiment, point.at, names) or "the only point",
            words.quantity(point.base, unit),
            words.quantity(point.new, unit),
            evidence.interval(comparison.ratio),
            f"{_p(comparison):.2g}",
            Text(comparison.text, style=_STYLES[comparison.word]),
        )
    return table


def _p(comparison: Comparison) -> float:
    return comparison.same_p if comparison.word == "same" else comparison.beyond_p


def last_line(compared: Compared) -> str:
    """`34 points: 30 same within 5 %, 4 inconclusive`."""
    total = len(compared.points)
    said = {
        "slower": "slower",
        "faster": "faster",
        "same": f"same within {100 * compared.threshold:.3g} %",
        "inconclusive": "inconclusive",
    }
    counts = [f"{compared.counts[w]} {text}" for w, text in said.items() if compared.counts[w]]
    return f"{total} point{'' if total == 1 else 's'}: {', '.join(counts)}"


def _alone(compared: Compared) -> list[str]:
    sides = ((compared.only_base, compared.base), (compared.only_new, compared.new))
    return [
        f"{len(at)} point{'' if len(at) == 1 else 's'} with samples in {name} alone: not compared"
        for at, name in sides
        if at
    ]


def _varied(points: Sequence[At]) -> list[str]:
    return [name for name in points[0] if len({at[name] for at in points}) > 1]


def as_data(compared: Compared) -> dict[str, Any]:
    """The comparison as plain data, for --json. Base units; ratio is new / base."""
    return {
        "experiment": compared.experiment.name,
        "metric": compared.metric.name,
        "unit": compared.metric.unit,
        "lower_is_better": compared.metric.lower_is_better,
        "base": compared.base,
        "new": compared.new,
        "threshold": compared.threshold,
        "counts": dict(compared.counts),
        "remarks": list(compared.remarks),
        "points": [_point(point) for point in compared.points],
        "only_base": [dict(at) for at in compared.only_base],
        "only_new": [dict(at) for at in compared.only_new],
    }


def _point(point: PointComparison) -> dict[str, Any]:
    comparison = point.comparison
    return {
        "levels": dict(point.at),
        "word": comparison.word,
        "text": comparison.text,
        "base": point.base,
        "new": point.new,
        "ratio": comparison.ratio.estimate,
        "ratio_low": comparison.ratio.low,
        "ratio_high": comparison.ratio.high,
        "beyond_p": comparison.beyond_p,
        "same_p": comparison.same_p,
        "blocks_missing": comparison.blocks_missing,
        "n": comparison.n,
    }

"""A run beside others: a row a point and base, the ratio of the two with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from memlab import units
from memlab.experiment import Ratios
from memlab.judging.compare import Compared, PointComparison, compare_runs
from memlab.present import words
from memlab.present.figures import frame, style
from memlab.present.figures import rows as place
from memlab.present.figures.frame import Mark
from memlab.present.figures.layout import Page, sign
from memlab.results import Run

_FILLS = {"slower": "full", "faster": "full", "same": "none", "inconclusive": "left"}
_SAID = {
    "full": "shown to differ",
    "none": "shown to be the same",
    "left": "not decided",
}


def title(run: Run, shown: Ratios) -> str:
    bases = ", ".join(map(_called, shown.bases))
    return f"{words.metric_label(run.metric(shown.metric))}: {_called(run)} against {bases}"


def rows(run: Run, shown: Ratios) -> pd.DataFrame:
    """A row per point and base that both have; `ratio` is the run's median over the base's."""
    compared = _compared(run, shown)
    names = [*map(_called, shown.bases)]
    varied = [n for n in run.varied if any(len({p.at[n] for p in c.points}) > 1 for c in compared)]
    of = {tuple(p.at.values()): p for p in frame.grid(run)}
    return frame.frame(
        _mark(run, shown, point, varied, names[rank] if len(names) > 1 else "")
        | {"base": names[rank], "_rank": rank, "_remarks": one.remarks}
        | {"samples": run.valued(shown.metric, of[tuple(point.at.values())]).ids}
        for rank, one in enumerate(compared)
        for point in one.points
        if tuple(point.at.values()) in of
    )


def _called(run: Run | Path) -> str:
    return run.name if isinstance(run, Path) else run.row.name or f"run {run.id}"


def _compared(run: Run, shown: Ratios) -> list[Compared]:
    """Unlike machines are compared, and the page says what is unlike."""
    return [
        compare_runs(base, run, metric=shown.metric, threshold=shown.threshold, force=True)
        for base in shown.bases
    ]


def _mark(
    run: Run, shown: Ratios, point: PointComparison, varied: Sequence[str], base: str
) -> Mark:
    name = words.labels(run.experiment, point.at, varied) or shown.metric
    found = point.comparison.ratio
    return {
        "panel": {},
        "kind": "ratio",
        "series": f"{name}; against {base}" if base else name,
        "levels": dict(point.at),
        "metric": shown.metric,
        "ratio": found.estimate,
        "low": found.low,
        "high": found.high,
        "n": point.comparison.n,
        "word": point.comparison.word,
    }


def finding(run: Run, shown: Ratios, rows: pd.DataFrame) -> str | None:
    """How many points differ, and by how much at most."""
    found = frame.marks(rows)
    if not found:
        return None
    counts = Counter(mark["word"] for mark in found)
    margin = units.format_percent(shown.threshold)
    said = []
    for word in ("slower", "faster"):
        some = [mark for mark in found if mark["word"] == word]
        if some:
            far = max(some, key=lambda mark: abs(log(mark["ratio"])))
            most = f", at most {far['ratio']:.3g} times ({far['series']})"
            said.append(f"{word} at {len(some)} of {len(found)} points{most}")
    if counts["same"]:
        said.append(f"the same within {margin} at {counts['same']} of {len(found)}")
    if counts["inconclusive"]:
        said.append(f"not decided at {counts['inconclusive']} of {len(found)}")
    return "; ".join(said)


def draw(page: Page, shown: Ratios, rows: pd.DataFrame) -> None:
    found = frame.marks(rows)
    notes = list(dict.fromkeys(line for mark in found for line in mark["_remarks"]))
    found = place.most(found, notes, lambda mark: abs(log(mark["ratio"])), "differ")
    bases = [*map(_called, shown.bases)]
    axes, middles = place.panel(
        page,
        [mark["series"] for mark in found],
        [f"{_numbers(mark)}, n={mark['n']}" for mark in found],
        frame.values(found, "ratio", "low", "high", above=0.0),
        f"{_called(page.run)} / {bases[0] if len(bases) == 1 else 'each'} (log)",
        list(_signs(found, shown.threshold)),
        notes,
    )
    axes.axvspan(1 / (1 + shown.threshold), 1 + shown.threshold, color=style.FAINT, zorder=0)
    for mark, middle in zip(found, middles, strict=True):
        _draw(axes, mark, middle)


def _numbers(mark: Mark) -> str:
    if mark.get("low") is None:
        return f"{mark['ratio']:.3g}"
    return f"{mark['ratio']:.3g} ({mark['low']:.3g} to {mark['high']:.3g})"


def _face(word: str, hue: str) -> dict[str, Any]:
    """Filled, half filled or white: a marker of the style `none` would show the line behind it."""
    if _FILLS[word] == "none":
        return {"markerfacecolor": "white"}
    return {
        "fillstyle": _FILLS[word],
        "markerfacecolor": hue,
        "markerfacecoloralt": "white",
    }


def _draw(axes: Axes, mark: Mark, middle: float) -> None:
    hue = style.colour(mark["_rank"])
    if mark.get("low") is not None:
        axes.plot([mark["low"], mark["high"]], [middle] * 2, color=hue, linewidth=1.6, zorder=2)
    axes.plot(
        [mark["ratio"]],
        [middle],
        color=hue,
        marker="o",
        markersize=6,
        **_face(mark["word"], hue),
        zorder=3,
    )


def _signs(found: Sequence[Mark], threshold: float) -> Iterator[Artist]:
    """The legend, of what is drawn alone."""
    for fill, said in _SAID.items():
        if any(_FILLS[mark["word"]] == fill for mark in found):
            word = next(word for word, its in _FILLS.items() if its == fill)
            yield sign(said, marker="o", markersize=6, **_face(word, style.QUIET))
    if any(mark.get("low") is not None for mark in found):
        yield sign("95 % interval of the ratio", linestyle="-", linewidth=1.6)
    margin = units.format_percent(threshold)
    yield Patch(label=f"within {margin}, too small to matter", color=style.FAINT)

"""A run beside others: a row a point and base, the ratio of the two with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log
from typing import Any

from matplotlib.patches import Patch

from memlab.experiment import Ratios
from memlab.judging.compare import Compared, PointComparison, compare_runs
from memlab.present import words
from memlab.present.figures import frame, paint, style
from memlab.present.figures import rows as place
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import Page
from memlab.present.figures.paint import line, sign
from memlab.present.figures.rows import DrawnRow
from memlab.results import Run
from memlab.text import units

_SAID = {
    "shown to differ": ("slower", "faster"),
    "shown to be the same": ("same",),
    "not decided": ("inconclusive",),
}


def title(run: Run, shown: Ratios) -> str:
    bases = ", ".join(map(_called, shown.bases))
    return f"{run.metric(shown.metric).label}: {_called(run)} against {bases}"


def rows(run: Run, shown: Ratios) -> Rows:
    """A row per point and base that both have; `ratio` is the run's median over the base's."""
    compared = _compared(run, shown)
    names = [*map(_called, shown.bases)]
    varied = [n for n in run.varied if any(len({p.at[n] for p in c.points}) > 1 for c in compared)]
    of = {tuple(p.at.values()): p for p in frame.grid(run)}
    return frame.rows(
        _mark(run, shown, point, varied, names[rank] if len(names) > 1 else "")
        | {"base": names[rank], "_rank": rank, "_remarks": item.notes}
        | {"samples": run.valued(shown.metric, of[tuple(point.at.values())]).ids}
        for rank, item in enumerate(compared)
        for point in item.points
        if tuple(point.at.values()) in of
    )


def _called(run: Run) -> str:
    return run.row.name or f"run {run.id}"


def _compared(run: Run, shown: Ratios) -> list[Compared]:
    """Unlike machines are compared, and the page says what is unlike."""
    return [
        compare_runs(base, run, metric=shown.metric, threshold=shown.threshold, force=True)
        for base in shown.bases
    ]


def _mark(
    run: Run, shown: Ratios, point: PointComparison, varied: Sequence[str], base: str
) -> Mark:
    name = words.labels(run.named, point.at, varied) or shown.metric
    result = point.comparison.ratio
    return {
        "panel": {},
        "kind": "ratio",
        "series": f"{name}; against {base}" if base else name,
        "levels": dict(point.at),
        "metric": shown.metric,
        "ratio": result.estimate,
        "low": result.low,
        "high": result.high,
        "n": point.comparison.n,
        "word": point.comparison.word,
    }


def finding(run: Run, shown: Ratios, rows: Rows) -> str | None:
    """How many points differ, and by how much at most."""
    result = frame.marks(rows)
    if not result:
        return None
    counts = Counter(mark["word"] for mark in result)
    margin = units.format_percent(shown.threshold)
    parts = []
    for word in ("slower", "faster"):
        some = [mark for mark in result if mark["word"] == word]
        if some:
            far = max(some, key=lambda mark: abs(log(mark["ratio"])))
            most = f", up to {_numbers(far)} times at {far['series']}"
            parts.append(f"{word} at {len(some)} of {len(result)} points{most}")
    if counts["same"]:
        parts.append(f"the same within {margin} at {counts['same']} of {len(result)}")
    if counts["inconclusive"]:
        parts.append(f"not decided at {counts['inconclusive']} of {len(result)}")
    return "; ".join(parts)


def draw(page: Page, shown: Ratios, rows: Rows) -> None:
    result = frame.marks(rows)
    page.notes += dict.fromkeys(message for mark in result for message in mark["_remarks"])
    result = place.most(page, result, lambda mark: abs(log(mark["ratio"])), "differ")
    bases = [*map(_called, shown.bases)]
    axes, middles = place.ratios(
        page,
        [DrawnRow(mark["series"], f"{_numbers(mark)}, n={mark['n']}") for mark in result],
        frame.values(result, "ratio", "low", "high", above=0.0),
        f"{_called(page.run)} / {bases[0] if len(bases) == 1 else 'each'} (log)",
    )
    axes.axvspan(1 / (1 + shown.threshold), 1 + shown.threshold, color=style.FAINT, zorder=0)
    for mark, middle in zip(result, middles, strict=True):
        look = _face(mark["word"], style.colour(mark["_rank"]))
        spot = mark["ratio"], middle
        paint.dot(axes, spot, paint.ends(mark), across=True, wide=1.6, zorder=2.5, **look)
    for text, words_of in _SAID.items():
        if any(mark["word"] in words_of for mark in result):
            page.legend(sign(text, **_face(words_of[0], style.QUIET)))
    if any("low" in mark for mark in result):
        page.legend(line("95 % interval of the ratio"))
    margin = units.format_percent(shown.threshold)
    page.legend(Patch(label=f"within {margin}, too small to matter", color=style.FAINT))


def _numbers(mark: Mark) -> str:
    if "low" not in mark:
        return f"{mark['ratio']:.3g}"
    return f"{mark['ratio']:.3g} ({mark['low']:.3g} to {mark['high']:.3g})"


def _face(word: str, hue: str) -> dict[str, Any]:
    """Filled, half filled or white: a marker of the style `none` would show the line behind it."""
    fill = {"same": "none", "inconclusive": "left"}.get(word, "full")
    face = {"fillstyle": fill, "markerfacecolor": hue, "markerfacecoloralt": "white"}
    return {"hue": hue, "marker": "o", "markersize": 6} | (
        {"markerfacecolor": "white"} if word == "same" else face
    )

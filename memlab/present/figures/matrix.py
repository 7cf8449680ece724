"""What happened at every point, in words, beside what was published of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from memlab import published, units
from memlab.experiment import At, Matrix, Printed
from memlab.present import words
from memlab.present.figures import cells
from memlab.present.figures.cells import Cell
from memlab.present.figures.sheet import sheet
from memlab.results import Run
from memlab.results.run import PointSummary


@dataclass(frozen=True, slots=True)
class Place:
    """A cell's point, the words that its samples had, and the published one."""

    at: At
    summary: PointSummary | None
    words: Counter[str]
    published: str
    samples: Sequence[int]


def compose(figure: Figure, run: Run, shown: Matrix) -> None:
    """Draw the matrix of a run on an empty figure, and set its size."""
    found = places(run, shown)
    rows = _rows(run, shown)
    columns = list(dict.fromkeys(point.at[shown.over] for point in run.points))
    by_place = {_key(run, shown, place.at): place for place in found}
    made = sheet(run.experiment.question, finding(found, shown), run, _fixed(run), [])
    cells.draw(
        figure,
        made,
        [_label(run, {shown.over: level}) for level in columns],
        [_label(run, row) for row in rows],
        [
            [_cell(run, shown, by_place.get((*row.values(), level))) for level in columns]
            for row in rows
        ],
    )


def _fixed(run: Run) -> str:
    """The levels that all points share, controls' too: those have rows of their own."""
    levels: At = run.points[0].at if run.points else {}
    same = {n: level for n, level in levels.items() if all(p.at[n] == level for p in run.points)}
    return words.named_levels(run.experiment, same)


def _label(run: Run, at: At) -> str:
    return ", ".join(f"{name} {words.levels(run.experiment, at, [name])}" for name in at)


def _downwards(run: Run, shown: Matrix) -> list[str]:
    """The factors of the rows: those that tell the run's points apart, controls' too."""
    named = [*shown.panels, *shown.by]
    told = [name for name in named if len({point.at[name] for point in run.points}) > 1]
    return told or named[-1:]


def _rows(run: Run, shown: Matrix) -> list[At]:
    names = _downwards(run, shown)
    found = (tuple((name, point.at[name]) for name in names) for point in run.points)
    return [dict(pairs) for pairs in dict.fromkeys(found)]


def _key(run: Run, shown: Matrix, at: At) -> tuple[Any, ...]:
    return (*(at[name] for name in _downwards(run, shown)), at[shown.over])


def places(run: Run, shown: Matrix) -> list[Place]:
    """Every point with the words of its samples; a trial that was not ok has its outcome."""
    return [
        Place(
            summary.point.at,
            summary,
            Counter(_words(run, shown, summary)),
            _published(shown.printed, summary.point.at) if shown.printed else "",
            [s.id for s in run.by_point[summary.point.index] if s.id is not None],
        )
        for summary in run.summaries
    ]


def _words(run: Run, shown: Matrix, summary: PointSummary) -> Iterator[str]:
    for sample in run.by_point[summary.point.index]:
        if sample.outcome == "ok" and sample.raw is not None:
            yield shown.word(sample.raw, summary.point.at)
        else:
            yield sample.outcome


def _published(printed: Printed, at: At) -> str:
    """The printed word for a point; "" where the table has none."""
    wanted = {name: word[at[name]] for name, word in printed.keys.items() if at[name] in word}
    if len(wanted) < len(printed.keys):
        return ""
    for row in published.load(printed.source).tables[printed.table].rows:
        if all(row[name] == word for name, word in wanted.items()):
            return str(row[printed.column])
    return ""


def _cell(run: Run, shown: Matrix, place: Place | None) -> Cell:
    if place is None or place.summary is None or not place.words:
        return Cell("empty", ["not measured"])
    many = place.words.total()
    strong = [
        word if count == many else f"{word}: {count} of {many}"
        for word, count in place.words.most_common()
    ]
    quiet = []
    if found := place.summary.medians.get(shown.metric):
        metric = run.metric(shown.metric)
        quiet.append(f"{metric.name} {units.format_quantity(found.estimate, metric.unit)}")
    if place.published:
        quiet.append(f"published: {place.published}")
    tone = "calm" if all(map(shown.calm, place.words)) else "marked"
    return Cell(tone, strong, quiet)


def finding(found: Sequence[Place], shown: Matrix) -> str:
    """How many points ended in each word, the most frequent first."""
    said = Counter(word for place in found for word in place.words)
    if not said:
        return "nothing was measured"
    apart = sum(len(place.words) > 1 for place in found)
    mixed = f"; at {apart} points not every time alike" if apart else ""
    many = ", ".join(f"{word} ({count})" for word, count in said.most_common())
    return f"points by what happened: {many}{mixed}"


def as_data(run: Run, shown: Matrix) -> list[dict[str, Any]]:
    """The matrix as the sidecar has it: a row a cell."""
    rows = []
    for place in places(run, shown):
        found = place.summary.medians.get(shown.metric) if place.summary else None
        rows.append(
            {
                "levels": dict(place.at),
                "words": dict(place.words),
                "published": place.published,
                "metric": shown.metric,
                "median": found.estimate if found else None,
                "samples": list(place.samples),
                "probe": run.experiment.probe,
                "c_file": f"probes/{run.experiment.probe}.c",
            }
        )
    return rows

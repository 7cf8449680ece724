"""What happened at every point, in words, beside what was published of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from memlab import published
from memlab.experiment import At, Matrix, Printed
from memlab.experiment.points import has
from memlab.present import words
from memlab.present.figures import frame, scales, tables
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import NARROW, Page
from memlab.present.figures.tables import FigureCell
from memlab.present.key_table import outcome_words
from memlab.results import Run
from memlab.text import units

_MANY = 8  # columns that a narrow page has no room for


def title(run: Run, shown: Matrix) -> str:
    return f"{shown.title}, by {scales.factor(run.experiment, shown.over)}"


def rows(run: Run, shown: Matrix) -> Rows:
    """A row per point, controls too, with the words of its samples; a trial that was not ok has
    its outcome."""
    names = _downwards(run, shown)
    usual = frame.shared(point.at for point in frame.grid(run))
    return frame.rows(
        {
            "panel": {},
            "kind": "outcome",
            "series": _row(run, shown, names, usual, summary.point.at),
            "levels": dict(summary.point.at),
            "words": dict(outcome_words(run, shown, summary.point).most_common()),
            "published": _published(shown.printed, summary.point.at) if shown.printed else "",
            "metric": shown.metric,
            "median": result.estimate if result and not emulated else None,
            "samples": run.by_point[summary.point.index].ids,
            "_column": summary.point.at[shown.over],
        }
        for summary in sorted(run.summaries, key=lambda s: not has(s.point.at, shown.first))
        for result in [summary.medians.get(shown.metric)]
        for emulated in [bool(result) and run.is_emulated_time(shown.metric)]
    )


def _downwards(run: Run, shown: Matrix) -> list[str]:
    """The factors of the rows: those in which the run's points differ, controls' too."""
    named = [*shown.by, *shown.panels]
    differ = [name for name in named if len({point.at[name] for point in run.points}) > 1]
    return differ or named[:1]


def _row(run: Run, shown: Matrix, names: Sequence[str], usual: At, at: At) -> str:
    """A row's name: of the further factors only what differs from the grid, which the foot has."""
    parts = [name for name in names if name in shown.by or at[name] != usual.get(name)]
    return _label(run, {name: at[name] for name in parts or names[:1]})


def _label(run: Run, at: At) -> str:
    """Every level with its factor: `swap file, scenario b`, or a label that says it all."""
    parts = []
    for name, level in at.items():
        text = words.label(run.named, name, level)
        labelled = level in run.experiment.factor(name).level_labels
        parts.append(text if labelled else f"{run.experiment.factor(name).label} {text}")
    return ", ".join(parts)


def _published(printed: Printed, at: At) -> str:
    """The printed word for a point, with the row that has it; "" where the table has none."""
    wanted = {name: word[at[name]] for name, word in printed.keys.items() if at[name] in word}
    if len(wanted) < len(printed.keys):
        return ""
    table = published.load(printed.source).tables[printed.table]
    for row in table.rows:
        if all(row[name] == word for name, word in wanted.items()):
            return f"{table.rows_are} {row[table.rows_are]}: {row[printed.column]}"
    return ""


def finding(run: Run, shown: Matrix, rows: Rows) -> str:
    """How many points ended in each word, the most frequent first."""
    results = [mark["words"] for mark in frame.marks(rows)]
    counts = Counter(word for each in results for word in each)
    if not counts:
        return "nothing was measured"
    apart = sum(len(each) > 1 for each in results)
    mixed = f"; different from trial to trial at {apart} points" if apart else ""
    many = ", ".join(f"{word} ({count})" for word, count in counts.most_common())
    return f"points by {shown.title}: {many}{mixed}"


def draw(page: Page, shown: Matrix, rows: Rows) -> None:
    run, result = page.run, frame.marks(rows)
    columns = list(dict.fromkeys(mark["_column"] for mark in result))
    page.width = NARROW if len(columns) < _MANY else page.width
    results = []
    for row in frame.split(result, "series"):
        by_column = {mark["_column"]: mark for mark in row}
        cells = [_cell(run, shown, by_column.get(column)) for column in columns]
        results.append([FigureCell([row[0]["series"]]), *cells])
    heads = ["", *(words.labels(run.named, {shown.over: c}, [shown.over]) for c in columns)]
    shares = tables.even(0.27, len(columns))
    page.notes += _notes(run, shown, results, result)
    page.notes += _of_most_rows(page, shown)
    tables.draw(page, heads, shares, results, middle=True)


def _notes(
    run: Run, shown: Matrix, cells: Sequence[Sequence[FigureCell]], marks: Sequence[Mark]
) -> list[str]:
    """What would otherwise stand in each cell."""
    notes = []
    if any("median" in mark for mark in marks):
        metric = run.metric(shown.metric)
        notes.append(f"number below a word: median {metric.label or metric.name}")
    if any(cell == _EMPTY for row in cells for cell in row):
        notes.append(f"{_NONE} not measured")
    return ["; ".join(notes)] if notes else []


def _of_most_rows(page: Page, shown: Matrix) -> list[str]:
    """The levels that rows have unless they name others; the foot does not say them again."""
    run = page.run
    page.apart = [n for n in _downwards(run, shown) if n not in (*shown.by, *run.varied)]
    usual = frame.shared(point.at for point in frame.grid(run))
    at = {name: usual[name] for name in page.apart if name in usual}
    return [f"rows that name no other: {words.named_levels(run.named, at)}"] if at else []


_NONE = "\N{EN DASH}"
_EMPTY = FigureCell(quiet=[_NONE])


def _cell(run: Run, shown: Matrix, mark: Mark | None) -> FigureCell:
    if mark is None or not mark["words"]:
        return _EMPTY
    many = sum(mark["words"].values())
    parts = [
        f"{word}: {n}\xa0of\xa0{many}" if n < many else f"{word} {n}" if shown.counted else word
        for word, n in mark["words"].items()
    ]
    quiet = []
    if "median" in mark:
        quiet.append(units.format_quantity(mark["median"], run.metric(shown.metric).unit))
    if mark["published"]:
        quiet.append(f"published: {mark['published']}")
    if mark["words"].keys() == {"unavailable"}:  # nothing happened: it has no colour of what does
        return FigureCell(quiet=[*parts, *quiet])
    calm = all(map(shown.calm, mark["words"]))
    return FigureCell(parts, quiet, tables.BLUE if calm else tables.GREY, bold=not calm)

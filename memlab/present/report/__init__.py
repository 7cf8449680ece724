"""Runs as one HTML file that needs no network: what was asked, what holds, and every number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from memlab._version import __version__
from memlab.errors import NotComparable
from memlab.files import output
from memlab.judging.compare import compare_runs
from memlab.present import figures, tables, words
from memlab.present.answer import Part, Sentence
from memlab.present.report import inline_svg
from memlab.present.report.section import Section, section
from memlab.results import Run
from memlab.text.printable import printable


def html(runs: Sequence[Run]) -> str:
    """The report of at least one run. The same runs give the same text."""
    sections = [section(run, f"r{number}") for number, run in enumerate(runs, 1)]
    sections[1:] = [_unlike_first(sections[0], other) for other in sections[1:]]
    return _template("report").render(
        sections=sections,
        place=words.place(runs),
        memlab=__version__,
        compared=_compared(runs),
    )


def _unlike_first(first: Section, other: Section) -> Section:
    """Of the same machine, only what differs from the first run's."""
    if first.machine != other.machine:
        return other
    text = set(first.environment)
    return replace(other, environment=[item for item in other.environment if item not in text])


def _compared(runs: Sequence[Run]) -> list[Part]:
    """Later runs beside the first one of their experiment."""
    result: list[Part] = []
    notes: list[str] = []
    for base in {run.experiment.name: run for run in reversed(runs)}.values():
        results = []
        for run in runs:
            if run.id != base.id and run.experiment.name == base.experiment.name:
                try:
                    results.append(compare_runs(base, run, force=True))
                except NotComparable as why:
                    notes.append(f"{why}.")
        if results:
            title = "; ".join(tables.compared_heads(results))
            result.append(replace(tables.compared(results), title=title))
            notes += [*tables.compared_counts(results), *tables.compared_notes(results)]
            notes.append(tables.ratio_legend(results[0]))
    return [*result, *(Sentence(line, "dim") for line in notes)]


def notebook(run: Run) -> str:
    """HTML of a run in a notebook: its first figure, then a row per point."""
    drawn = ""
    if any(summary.medians for summary in run.summaries):
        drawn = inline_svg.inline(figures.draw(run), run.experiment.question, f"run-{run.id}")
    points = tables.points(run, run.metrics[0])
    request = run.experiment.question
    return _template("run").render(run=run.id, question=request, svg=drawn, points=points)


def _template(name: str) -> Template:
    """NAME.html.jinja of this folder, which escapes every text that it is given."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["svg"] = Markup  # ours, with its texts escaped by the XML writer
    return environment.get_template(f"{name}.html.jinja")


def _finalize(value: object) -> object:
    return printable(value) if type(value) is str else value


def write(runs: Sequence[Run], path: Path) -> None:
    """Write the report; it appears whole or not at all."""
    text = html(runs)
    output.make_folder(path.parent)
    output.write({path: text.encode()})

"""A run in a notebook: its summary table with the figure above."""

from __future__ import annotations

from html import escape
from io import StringIO

from memlab.present import figures, words
from memlab.results import Run


def run(loaded: Run) -> str:
    """HTML of a run: the figure as SVG, then one row a point with the first metric."""
    metric = loaded.metrics[0]
    rows = []
    for summary in loaded.summaries:
        at = words.levels(loaded.experiment, summary.point.at, loaded.varied)
        value = words.median(
            summary.medians.get(metric.name),
            metric.unit,
            extrapolated=metric.name in summary.extrapolated,
        )
        cells = (at, summary.point.control or "", value, str(summary.outcomes.total()))
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{escape(h)}</th>" for h in ("point", "control", metric.name, "samples"))
    title = escape(f"memlab run {loaded.id}: {loaded.experiment.question}")
    return (
        f"<p><b>{title}</b></p>{_svg(loaded)}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _svg(loaded: Run) -> str:
    if not any(summary.medians for summary in loaded.summaries):
        return ""
    text = StringIO()
    figures.draw(loaded).savefig(text, format="svg")
    return text.getvalue().partition("<!DOCTYPE")[2].partition(">")[2]

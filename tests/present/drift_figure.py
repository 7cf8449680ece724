"""A metric block by block: does the machine change while it is measured?"""

from memlab.present import words
from memlab.present.figures import frame, scales, style
from memlab.present.figures.layout import Note

HIGH = 220.0  # points


def title(run, shown):
    return f"{run.metric(shown.metric).label}, block by block"


def rows(run, shown):
    return frame.rows(
        {
            "panel": {},
            "kind": "block",
            "series": words.labels(run.experiment, point.at, run.varied),
            "levels": dict(point.at),
            "x": block,
            "value": value,
            "samples": [id],
        }
        for point in frame.grid(run)
        for id, block, value in run.valued(shown.metric, point).values(shown.metric)
    )


def finding(run, shown, rows):
    return None


def draw(page, shown, rows):
    metric, marks = page.run.metric(shown.metric), frame.marks(rows)
    ((axes,),) = page.grid([""], 1, [HIGH])
    log = "y" in shown.log
    scales.quantities(axes.yaxis, metric.unit, frame.values(marks, "value"), HIGH, log=log)
    scales.y_label(axes, scales.metric(metric, log=log), HIGH)
    scales.x_label(axes, "block")
    lines = frame.split(marks, "series")
    for rank, line in enumerate(lines):
        hue = style.colour(rank)
        axes.plot([m["x"] for m in line], [m["value"] for m in line], "o-", color=hue)
    ends = [(line[-1], style.colour(rank)) for rank, line in enumerate(lines)]
    page.name(axes, [Note(m["series"], (m["x"], m["value"]), hue) for m, hue in ends])

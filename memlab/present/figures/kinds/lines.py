"""A metric over a numeric factor: lines with intervals, controls, printed curves, crossings, the
cost model, and the machine's own sizes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from memlab.analysis.intervals import median_interval
from memlab.experiment import At, Lines
from memlab.experiment.points import Point, combinations, has
from memlab.judging import costs
from memlab.judging.costs import Fitted
from memlab.present import words
from memlab.present.figures import frame, paint, placing, scales, style
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import Note, Page
from memlab.present.figures.paint import line, sign
from memlab.present.verdicts import crossing as crossing_words
from memlab.results import Run
from memlab.results.beside import tables
from memlab.results.crossing import Crossing, crossings
from memlab.results.samples import Samples, ids_of
from memlab.text import units

# How far below all other marks a log axis follows the baseline loop.
_BASELINE_LOOP_REACH = 10**0.75
_STEPS = 24  # of a model's curve from one level to the next
_SAID_MAX = 3  # crossings that the headline says one by one
_MANY = 100  # marks of a line, from which on they are drawn at once: each artist takes some ms
_NAMED = 2  # last marks of a control, each with its name
_RING = 15.0  # points
_OF_DATA = ("Data", "Unified")  # /sys/devices/system/cpu/cpu*/cache/index*/type
_HIGH, _LOW = 330.0, 200.0  # points of one panel alone, and of each of several rows
_PUBLISHED: dict[str, Any] = {"color": style.PALE, "linestyle": style.DASHED, "markersize": 3.6}


def rows(run: Run, shown: Lines) -> Rows:
    """Lines, controls, the loop alone, printed curves, crossings and models, panel by panel."""
    grid = [s for s in run.summaries if s.point.control is None]
    lines = combinations((s.point.at for s in grid), shown.by)
    marks: list[Mark] = []
    earlier: list[At] = []
    for panel in frame.panels(run, shown.panels, [shown.over, *shown.by]):
        inside = [s.point for s in grid if has(s.point.at, panel)]
        results = [
            *_lines(run, shown, inside, lines),
            *_controls(run, shown, panel),
            *_baseline_loop(run, shown, panel, inside),
            *_published(run, shown, panel, lines),
        ]
        crossed = list(_crossings(run, shown, panel, earlier))
        models = list(_models(run, shown, results))
        cells = {"panel": panel, "_place": frame.place(run, panel)}
        marks += [cells | mark for mark in (*results, *crossed, *models)]
        earlier.append(panel)
    return frame.rows(marks)


def _lines(run: Run, shown: Lines, inside: Sequence[Point], lines: Sequence[At]) -> Iterator[Mark]:
    names = frame.naming(run, shown.by)
    for rank, at in enumerate(lines):
        cells = {"kind": "line", "series": words.labels(run.named, at, names), "_rank": rank}
        points = [point for point in inside if has(point.at, at)]
        yield from (cells | mark for mark in _medians(run, shown, points))


def _medians(run: Run, shown: Lines, points: Sequence[Point]) -> Iterator[Mark]:
    """In rising x. Zero has no place on a log axis."""
    summaries = {summary.point.index: summary for summary in run.summaries}
    names = [shown.over, *(name for name in (*shown.by, *run.varied) if name in run.varied)]
    lost = False
    for point in sorted(points, key=lambda point: float(point.at[shown.over])):
        summary, x = summaries[point.index], float(point.at[shown.over])
        median = summary.medians.get(shown.metric)
        cells: Mark = {
            "levels": dict(point.at),
            "x": x,
            "_point": point,
            "_name": words.labels(run.named, point.at, dict.fromkeys(names)),
        }
        if median is not None and _drawable(shown, x, median.estimate):
            yield cells | {"_after_lost": lost} | frame.median_cells(run, summary, shown.metric)
            lost = False
        elif summary.outcomes:
            lost, why = True, "not above zero" if median else ""
            yield cells | frame.lost_cells(run, point, why)


def _drawable(shown: Lines, x: float, y: float) -> bool:
    return (x > 0 or "x" not in shown.log) and (y > 0 or "y" not in shown.log)


def _controls(run: Run, shown: Lines, panel: At) -> Iterator[Mark]:
    for number, inside in frame.controls(run, shown, panel):
        lines = combinations((point.at for point in inside), shown.by)
        several = [name for name in shown.by if len({at[name] for at in lines}) > 1]
        for at in lines:
            points = [point for point in inside if has(point.at, at)]
            label = frame.control_name(run, points[0], several)
            cells = {"kind": "control", "series": label, "_rank": number}
            yield from (cells | mark for mark in _medians(run, shown, points))


def _baseline_loop(run: Run, shown: Lines, panel: At, inside: Sequence[Point]) -> Iterator[Mark]:
    """The loop alone at each level: it is the same for every line, so their samples are pooled."""
    metric = run.metric(shown.metric)
    if metric.baseline_loop is None:
        return
    for level in sorted({point.at[shown.over] for point in inside}, key=float):
        points = [point for point in inside if point.at[shown.over] == level]
        baseline_loops = np.concatenate([run.baseline_loop(metric, point) for point in points])
        if baseline_loops.size and _drawable(shown, float(level), float(np.median(baseline_loops))):
            yield {
                "kind": "baseline loop",
                "series": "baseline loop",
                "levels": {**panel, shown.over: level},
                "x": float(level),
                "metric": shown.metric,
                "unit": metric.unit,
                **frame.numbers(median_interval(baseline_loops, sequential=run.sequential)),
                "samples": ids_of(run.with_baseline_loop(metric, point) for point in points),
            }


def _published(run: Run, shown: Lines, panel: At, lines: Sequence[At]) -> Iterator[Mark]:
    """The printed columns in the figure's metric, once a panel."""
    known = set()
    for beside in tables(run):
        # A printed row or column is a level of the axis, or stands for a point that has one.
        places = {
            (row.level, column): {**at, **beside.declared.row(beside.table.rows_are, row.level)}
            for row in beside.rows
            for column, at in beside.declared.columns.items()
        }
        fits = beside.declared.metric == shown.metric and all(
            shown.over in at for at in places.values()
        )
        setting = {name: level for name, level in beside.setting.items() if name in panel}
        source = f"{beside.source.id}, {beside.table.id}"
        if not fits or source in known or not has(panel, setting):
            continue
        known.add(source)
        for column, at in beside.declared.columns.items():
            levels = {name: level for name, level in at.items() if name in panel}
            if not has(panel, levels):
                continue
            like = next((rank for rank, item in enumerate(lines) if has(item, at)), len(lines))
            along = sorted(
                beside.rows, key=lambda row: float(places[row.level, column][shown.over])
            )
            for row in along:
                cell, x = row.cells[column], places[row.level, column][shown.over]
                if _drawable(shown, float(x), cell.value):
                    yield {
                        "kind": "published",
                        "series": f"{column}, published",
                        "levels": {**at, shown.over: x},
                        "x": float(x),
                        "metric": shown.metric,
                        "unit": run.metric(shown.metric).unit,
                        "_rank": like,
                    } | frame.printed_cells(cell, source)


# Crossings


def _crossings(run: Run, shown: Lines, panel: At, earlier: Sequence[At]) -> Iterator[Mark]:
    """The crossings of the panel's own lines and of the lines of its controls.

    If a factor that the figure does not name splits a panel, the crossing is of that
    factor's first level (see results.crossing), so it stands only in the first such panel.
    """
    places = [point.at for point in frame.grid(run)]
    grid = combinations(places, shown.panels)
    for crossing in crossings(run):
        controls = [
            control
            for control in run.experiment.controls
            if has(panel, frame.left_by(control, crossing.panel, places))
            and any(has(p.at, crossing.panel) for p in run.control(control.name))
        ]
        is_of_grid = dict(crossing.panel) in grid
        at = crossing.panel if is_of_grid else None
        if not is_of_grid and controls:
            at = frame.left_by(controls[0], crossing.panel, places)
        if at is None or not has(panel, at) or any(has(e, at) for e in earlier):
            continue
        result = crossing.found
        yield {
            "kind": "crossing",
            "control": None if is_of_grid else controls[0].name,
            "of": dict(crossing.of),
            "to": dict(crossing.to),
            "over": shown.over,
            "estimate": units.finite(result.estimate) if crossing.known else None,
            "low": units.finite(result.low),
            "high": units.finite(result.high),
            "n": result.n,
            "cost": units.finite(crossing.cost),
            "words": words.crossing(run.named, crossing),
            "samples": ids_of(
                samples
                for side in (crossing.of, crossing.to)
                for samples in _behind(run, crossing, side)
            ),
            "_crossing": crossing,
        }


def _behind(run: Run, crossing: Crossing, side: At) -> Iterator[Samples]:
    """The samples of one line of a crossing: the first point with a value at each level."""
    shown, numbers = run.experiment.figure, set()
    for point in run.matching({**crossing.panel, **side}):
        behind = run.valued(shown.metric, point)
        if behind and point.at[shown.over] not in numbers:
            numbers.add(point.at[shown.over])
            yield behind


def finding(run: Run, shown: Lines, rows: Rows) -> str | None:
    """Where the experiment's crossing lies; None where there is none to say."""
    results = [mark for mark in frame.marks(rows, kind="crossing") if "control" not in mark]
    if len(results) > _SAID_MAX:
        return _range(run, [mark["_crossing"] for mark in results])
    parts = []
    for mark in results:
        varied = any(name in run.varied for name in mark["panel"])
        parts.append(
            (f"{mark['_place']}: " if varied else "") + crossing_words(run, mark["_crossing"])
        )
    return "; ".join(parts) or None


def _range(run: Run, crossings: Sequence[Crossing]) -> str:
    """Many crossings in a sentence: how far apart they lie, and in how many panels."""
    name = words.level_words(run.experiment)
    known = [c for c in crossings if c.known]
    finite = [c for c in known if math.isfinite(c.found.estimate)]
    inside = [c.found.estimate for c in finite if c.decided]
    outside = (crossing_words(run, c) for c in known if math.isinf(c.found.estimate))
    parts = [
        f"{text} in {count} of {len(crossings)} panels" for text, count in Counter(outside).items()
    ]
    if rest := len(finite) - len(inside):
        parts.append(f"not decided in {rest} of {len(crossings)} panels")
    if len(known) < len(crossings):
        parts.append(f"not known yet in {len(crossings) - len(known)} of {len(crossings)} panels")
    if inside:
        of, _ = words.sides(run.experiment, crossings[0])
        where = f"between {name(min(inside))} and {name(max(inside))}"
        parts.insert(0, f"{of} becomes cheaper {where} in {len(inside)} of {len(crossings)} panels")
    return "; ".join(parts)


# Cost models


def _models(run: Run, shown: Lines, drawn: Sequence[Mark]) -> Iterator[Mark]:
    """A row per line that a cost model holds for: its constants, and what it predicts there."""
    declared, of_cost = run.experiment.costs, run.metric(shown.metric).of_cost
    if declared is None or of_cost is None:
        return
    for series in frame.split((m for m in drawn if m["kind"] == "line"), "series"):
        marks = [mark for mark in series if "why" not in mark]
        for fitted in costs.models(run):
            levels = {**declared.where, **fitted.at}
            if len(marks) < 2 or not all(levels.items() <= m["levels"].items() for m in marks):
                continue
            parts = [part for part in _stretches(marks) if len(part) > 1]
            curves = [_curve(run, shown, fitted, part) for part in parts]
            predicted = {x: y for curve in curves for x, y in zip(*curve, strict=True)}
            yield {
                "kind": "model",
                "series": series[0]["series"],
                **costs.fitted_as_data(fitted),
                "predicted": {
                    _level(run, m): predicted[m["x"]] for m in marks if m["x"] in predicted
                },
                "_curves": curves if _holds(fitted) else [],
                "_terms": _terms(fitted),
            }


def _holds(fitted: Fitted) -> bool:
    """Whether a model predicts every inner level well enough to be drawn."""
    errors = costs.inner(fitted.held_out).values()
    return costs.predicts(fitted) and max(map(abs, errors)) <= costs.PREDICTS


def _level(run: Run, mark: Mark) -> str:
    over = run.experiment.figure.over
    return run.experiment.describe_level(over, mark["levels"][over])


def _curve(
    run: Run, shown: Lines, fitted: Fitted, marks: Sequence[Mark]
) -> tuple[list[float], list[float]]:
    spaced = np.geomspace if "x" in shown.log else np.linspace
    parts = [spaced(a["x"], b["x"], _STEPS, endpoint=False) for a, b in pairwise(marks)]
    xs = [*np.concatenate(parts).tolist(), marks[-1]["x"]]
    points = [mark["_point"] for mark in marks]
    result = costs.prediction(run, fitted, points, shown.over, xs)
    ats = ({**marks[0]["levels"], shown.over: x} for x in xs)
    of_cost = run.metric(shown.metric).of_cost
    assert of_cost is not None  # _models asks
    return xs, [of_cost(float(cost), at) for cost, at in zip(result, ats, strict=True)]


def _terms(fitted: Fitted) -> str:
    """`648 ns per call + 0.2 ns per byte`, without what costs nothing."""
    return " + ".join(
        f"{units.format_quantity(constant.estimate, 's')} per {name}"
        for name, constant in fitted.model.constants.items()
        if constant.estimate > 0
    )


def _equations(drawn: Sequence[Mark]) -> Iterator[str]:
    """Each model that is drawn in words, once: where they differ from panel to panel, with it."""
    terms = {m["series"]: {n["_terms"] for n in drawn if n["series"] == m["series"]} for m in drawn}
    for same in frame.split(drawn, "_terms"):
        names = (
            m["series"] + (f" ({m['_place']})" if len(terms[m["series"]]) > 1 else "") for m in same
        )
        yield f"{'; '.join(dict.fromkeys(names))} = {same[0]['_terms']}"


# The machine's own sizes


def landmarks(run: Run, shown: Lines) -> dict[str, tuple[float, int]]:
    """The page and the data caches of the run's CPU: where on the axis, and the size in bytes.
    A cache is full where what is worked on just fits it."""
    results = {}
    if shown.mark_page_size and (size := run.environment.get("page_size_bytes")):
        results[f"page, {units.format_size(size)}"] = float(size), int(size)
    for cache in run.environment.get("caches") or []:
        known = cache.get("type") in _OF_DATA and cache.get("level") and cache["size_bytes"]
        if shown.mark_caches and known:
            x = cache["size_bytes"] / shown.mark_caches
            results[f"L{cache['level']}"] = x, cache["size_bytes"]
    return results


def _caches(run: Run, shown: Lines) -> str:
    results = {name: size for name, (_, size) in landmarks(run, shown).items() if name[0] == "L"}
    sizes = ", ".join(f"{name} {units.format_size(size)}" for name, size in results.items())
    times = shown.mark_caches
    return (
        f"{f'1/{times} of each cache' if times > 1 else 'each cache'}: {sizes}" if results else ""
    )


# Drawing


def draw(page: Page, shown: Lines, rows: Rows) -> None:
    run, result = page.run, frame.marks(rows)
    metric, parts = run.metric(shown.metric), frame.split(result, "panel") or [[]]
    columns = frame.columns([part[0]["panel"] for part in parts if part] or [{}], most=3)
    high = _HIGH if len(parts) <= columns else _LOW
    x_ends, y_ends = _ends(result, frame.unavailable(rows), shown)
    models = [mark for mark in result if mark.get("_curves")]
    page.notes += [f"cost model: {text}" for text in _equations(models)]
    if crowded := columns > 2:  # no room for names in every margin
        page.legend(*_names(result))
    ours = [mark for mark in result if mark["kind"] in ("line", "control")]
    if ours:
        sure = ", 95 % interval" if any("low" in mark for mark in ours) else ""
        page.legend(line(f"median{sure}", marker="o", markersize=6))
    if any(mark["extrapolated"] for mark in ours):
        label = "open marker: extrapolated from a slice"
        page.legend(sign(label, marker="o", markersize=6, markerfacecolor="white"))
    if any("source" in mark for mark in result):
        page.legend(line(frame.sources(result), marker="o", **_PUBLISHED))
    pad = 16.0 if landmarks(run, shown) else 6.0
    for (axes,), part in page.panels(result, columns, [high], whole=True, pad=pad):
        axes.set_xscale("log" if "x" in shown.log else "linear")
        axes.set_xlim(placing.limits(x_ends, log="x" in shown.log, margin=0.035))
        levels = sorted({mark["x"] for mark in part if "x" in mark})
        kind = run.experiment.factor(shown.over).kind
        page.levels(axes, levels, [kind.format(int(x) if x == int(x) else x) for x in levels])
        scales.x_label(axes, scales.factor(run.experiment, shown.over, log="x" in shown.log))
        scales.quantities(axes.yaxis, metric.unit, y_ends, high, log="y" in shown.log)
        scales.y_label(axes, scales.metric(metric, log="y" in shown.log), high)
        _landmarks(axes, run, shown)
        _draw(page, axes, part)
        if not crowded:
            page.name(axes, list(_notes(axes, part)))
        if not any(mark["kind"] != "crossing" for mark in part):
            axes.set_yticks([])
            message = "no sample has a value to draw"
            page.call(axes, Note(message, None, style.QUIET, size=style.TEXT, lead=False))
    if models:
        errors = [abs(e) for m in models for e in costs.inner(m["held_out_errors"]).values()]
        worst = math.ceil(100 * max(errors))
        label = f"cost model, leave-one-out error up to {worst} %"
        page.legend(line(label, style.INK, linewidth=0.9))
    if caches := _caches(run, shown):
        page.legend(line(caches, style.PALE, linewidth=0.8))


def _ends(
    marks: Sequence[Mark], lost: Sequence[Mark], shown: Lines
) -> tuple[list[float], list[float]]:
    """What the axes of all panels hold. The baseline loop does not stretch them far."""
    across = [mark["x"] for mark in (*marks, *lost) if "x" in mark]
    valued = [mark for mark in marks if mark["kind"] in ("line", "control", "published")]
    up = frame.values(valued, "low", "median", "high", "value")
    up += [mark["value"] * 1.8 for mark in valued if mark.get("bound") == ">"]  # its arrow
    up = [end for end in up if end > 0 or "y" not in shown.log] or [1.0]
    baseline_loops = frame.values(
        (mark for mark in marks if mark["kind"] == "baseline loop"), "median"
    )
    if baseline_loops and "y" in shown.log:
        up.append(min(*up, max(min(baseline_loops), min(up) / _BASELINE_LOOP_REACH)))
    return across or [1.0], up


def _landmarks(axes: Axes, run: Run, shown: Lines) -> None:
    low, high = axes.get_xlim()
    for text, (x, _) in landmarks(run, shown).items():
        if low < x < high:
            axes.axvline(x, color=style.PALE, linewidth=0.8, zorder=1)
            paint.edge_text(axes, text, x, 2, 1.0)


def _draw(page: Page, axes: Axes, part: Sequence[Mark]) -> None:
    for series in _of(part, "line"):
        _line(axes, series)
    for series in _of(part, "published"):
        _printed(page, axes, series)
    for series in _of(part, "baseline loop"):
        _alone(page, axes, series)
    for mark in (mark for mark in part if mark["kind"] == "crossing"):
        _crossing(page, axes, mark)
    for series in _of(part, "control"):
        for mark in series:
            _median(axes, mark, style.INK, style.control_marker(mark["_rank"]))
        for mark in series[-_NAMED:]:  # its points are not joined
            page.call(axes, Note(mark["series"], (mark["x"], mark["median"])))
    for mark in part:
        for xs, ys in mark.get("_curves", ()):  # thin and dark over the broad line
            axes.plot(xs, ys, color=style.INK, linewidth=0.9, zorder=3.5)


def _of(part: Sequence[Mark], kind: str) -> list[list[Mark]]:
    return frame.split((mark for mark in part if mark["kind"] == kind), "series")


def _xy(series: Sequence[Mark], name: str = "median") -> tuple[list[float], list[float]]:
    return [mark["x"] for mark in series], [mark[name] for mark in series]


def _line(axes: Axes, series: Sequence[Mark]) -> None:
    """Medians with bars and a band; a point without a value breaks them."""
    rank = series[0]["_rank"]
    hue, dashes = style.colour(rank), style.dashes(rank)
    for part in _stretches(series):
        axes.plot(*_xy(part), color=hue, linewidth=1.8, linestyle=dashes, zorder=3)
        if all("low" in mark for mark in part):
            xs, lows = _xy(part, "low")
            axes.fill_between(xs, lows, _xy(part, "high")[1], color=hue, alpha=0.16, linewidth=0)
    if len(series) > _MANY:
        sure = [mark for mark in series if "low" in mark]
        xs, lows = _xy(sure, "low")
        axes.vlines(xs, lows, _xy(sure, "high")[1], color=hue, linewidth=1.4, zorder=4)
        for extrapolated, fill in ((False, hue), (True, "white")):
            same = [mark for mark in series if bool(mark["extrapolated"]) == extrapolated]
            sign = style.marker(rank)
            paint.dot(axes, _xy(same), None, hue, marker=sign, markerfacecolor=fill)
        return
    for mark in series:
        _median(axes, mark, hue, style.marker(rank))


def _stretches(series: Sequence[Mark]) -> Iterator[list[Mark]]:
    """The line's marks as they are joined: no point without a value lies between."""
    together: list[Mark] = []
    for mark in series:
        if together and mark["_after_lost"]:
            yield together
            together = []
        together.append(mark)
    yield together


def _median(axes: Axes, mark: Mark, hue: str, marker: str) -> None:
    look: dict[str, Any] = {"marker": marker, "markersize": 9.5 if marker == "*" else 6.2}
    look |= {"markerfacecolor": "white" if mark["extrapolated"] else hue, "markeredgewidth": 1.2}
    paint.dot(axes, (mark["x"], mark["median"]), paint.ends(mark), hue, **look)


def _printed(page: Page, axes: Axes, series: Sequence[Mark]) -> None:
    """A printed curve. A cell that is only a bound has an arrow, and its words."""
    exact = [mark for mark in series if not mark["bound"]]
    marker = style.marker(series[0]["_rank"])
    axes.plot(*_xy(exact, "value"), linewidth=1.1, marker=marker, **_PUBLISHED)
    if len(series) == len(exact) == 1:  # no curve that could be named at its end
        (mark,) = exact
        text = f"{mark['printed']} published"
        page.call(axes, Note(text, (mark["x"], mark["value"]), style.QUIET))
    for mark in series:
        if not mark["bound"]:
            continue
        more, spot = mark["bound"] == ">", (mark["x"], mark["value"])
        arrow = {"arrowstyle": "<-", "color": style.QUIET, "shrinkA": 0, "shrinkB": 0}
        end = 0, 18 if more else -18
        axes.annotate("", spot, end, textcoords="offset points", arrowprops=arrow)
        look: dict[str, Any] = {"marker": style.BOUNDS[mark["bound"]], "markeredgewidth": 1.3}
        axes.plot(*spot, color=style.QUIET, markersize=8, zorder=3, **look)
        page.call(axes, Note(mark["printed"], spot, style.QUIET, lead=False))
        page.legend(sign("published as a bound", markersize=8, **look))


def _alone(page: Page, axes: Axes, series: Sequence[Mark]) -> None:
    """The loop alone."""
    look: dict[str, Any] = {"linestyle": style.DOTTED, "linewidth": 1.2}
    marker = "" if len(series) > 1 else "."
    axes.plot(*_xy(series), color=style.PALE, marker=marker, **look)
    if any(mark["median"] >= axes.get_ylim()[0] for mark in series):
        page.legend(line("baseline loop", style.PALE, **look))


def _notes(axes: Axes, part: Sequence[Mark]) -> Iterator[Note]:
    """Every line named at its right end; the baseline loop too, where it reaches it."""
    low, _ = axes.get_ylim()
    named = [mark for mark in part if mark["kind"] in ("line", "published", "baseline loop")]
    for series in frame.split(named, "series"):
        last, bold = series[-1], series[-1]["kind"] == "line"
        if last["kind"] == "published" and len(series) == 1:
            continue
        y = last["value"] if "value" in last else last["median"]
        hue = style.darker(style.colour(last["_rank"])) if bold else style.QUIET
        if y >= low:
            yield Note(last["series"], (last["x"], y), hue, bold=bold)


def _names(marks: Sequence[Mark]) -> Iterator[Artist]:
    """Every line's sign in the legend, with the line's name."""
    named = [mark for mark in marks if mark["kind"] == "line"]
    for mark in (part[0] for part in frame.split(named, "series")):
        rank, hue = mark["_rank"], style.colour(mark["_rank"])
        look: dict[str, Any] = {"linestyle": style.dashes(rank), "marker": style.marker(rank)}
        yield line(mark["series"], hue, markersize=6, **look)


def _crossing(page: Page, axes: Axes, mark: Mark) -> None:
    """A ring and an interval where the crossing lies inside the levels measured, and its words."""
    is_of_grid, result = "control" not in mark, mark["_crossing"].found
    text = mark["words"] if is_of_grid else f"control {mark['control']}: {mark['words']}"
    lines = text.replace(" (", "\n(", 1).replace("; ", ";\n").replace(", not", ",\nnot")
    if "estimate" not in mark:
        page.call(axes, Note(lines, None, size=style.TEXT, lead=False))
        return
    spot, interval = (mark["estimate"], mark["cost"]), None
    if result.low is not None and result.high is not None:
        interval = [min(max(v, result.smallest), result.largest) for v in (result.low, result.high)]
    size, edge = (_RING, 1.4) if is_of_grid else (_RING * 0.7, 0.9)
    look: dict[str, Any] = {"markersize": size, "markeredgewidth": edge, "markerfacecolor": "none"}
    caps = {"marker": "|", "markersize": 7}
    paint.dot(axes, spot, interval, style.INK, across=True, wide=1.6, caps=caps, zorder=6, **look)
    page.call(axes, Note(lines, spot, size=style.TEXT))
    look = {"marker": "o", "markerfacecolor": "none", "markersize": 10}
    page.legend(line("crossing, 95 % interval", style.INK, **look))

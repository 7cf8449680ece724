"""A run's tables, for the terminal, the report, notebooks and the documentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from math import log

from memlab import recorded
from memlab.analysis.budget import advised_s
from memlab.analysis.compare import MOST_BLOCKS, Comparison
from memlab.analysis.intervals import Interval
from memlab.analysis.least import least_samples
from memlab.experiment import At, Experiment, Metric
from memlab.experiment.points import combinations, has, point_key
from memlab.experiment.reach import Reach
from memlab.experiment.window import WINDOW_METRICS
from memlab.judging import evidence
from memlab.judging.claims import judge
from memlab.judging.compare import Compared, PointComparison
from memlab.judging.questions import deciding_s
from memlab.judging.reproduce import Reproduced
from memlab.judging.summary import DIFFERS, PARTLY, by_claim
from memlab.present import words
from memlab.present.table import Cell, Column, Table
from memlab.published import PrintedCell as Printed
from memlab.results import PointSummary, Run
from memlab.results.beside import Beside, PrintedRow
from memlab.results.run import BASELINE_LOOP_SHARE
from memlab.text import units

NOT_YET = "not yet"  # of a cell
_SIDE_BY_SIDE = 4  # more lines than this, and than levels, are rows
_SIGNS = {  # of a cell: what it means
    "±": "± half of the 95 % interval",
    " to ": "(its ends) if it is wide or skewed",
    "n=": "n the samples, if under the 6 of an interval",
    "~": "~ extrapolated",
    "*": "* over 20 % baseline loop",
}
PUBLISHED_LEGEND = (
    "ratio: here / published; < and > where the published number is itself a bound; published "
    "numbers are converted to the metric's unit"
)


def legend(cells: Iterable[str]) -> str:
    """What the signs mean that these medians have; empty if they have none."""
    cells = [*cells]
    parts = [text for sign, text in _SIGNS.items() if any(sign in cell for cell in cells)]
    return f"medians: {'; '.join(parts)}" if parts else ""


def medians(run: Run, *, settled: bool = False) -> list[Table]:
    """One table per panel of the experiment's figure: its axis against its lines. Of a user's
    command one table, a row per point, each median with its n until it has an interval. `settled`:
    only numbers that have one."""
    if run.experiment.watched:
        return [_command(run, of_command(run))]
    return [shown for _, shown in panels(run, settled=settled)]


def panels(run: Run, *, settled: bool = False) -> list[tuple[At, Table]]:
    """The same with the levels of each panel; `settled`: only numbers that have an interval."""
    figure, metric = run.experiment.figure, run.metric(run.experiment.figure.metric)
    grid = [s for s in run.summaries if s.point.control is None]
    by = [name for name in figure.by if name in run.varied] or list(figure.by[:1])
    free = [name for name in run.varied if name not in {figure.over, *by}]
    panel_names = list(dict.fromkeys([*figure.panels, *free]))
    panels = combinations((s.point.at for s in grid), panel_names)
    inside = [[s for s in grid if has(s.point.at, panel)] for panel in panels]
    places = [[s.point.at for s in part] for part in inside]
    lines = max((len(combinations(part, by)) for part in places), default=0)
    levels = max((len(combinations(part, [figure.over])) for part in places), default=0)
    turned = lines > max(_SIDE_BY_SIDE, levels)
    results = []
    for panel, part in zip(panels, inside, strict=True):
        flags = [metric.name in s.extrapolated for s in part if s.medians]
        every = bool(flags) and all(flags)
        place = _levels(run.named, panel, panel_names)
        title = f"{metric.label} ({metric.unit})" + (f": {place}" if place else "")
        title += "; all extrapolated" if every else ""
        shown = _panel(run, title, part, by, turned=turned, mark=not every, settled=settled)
        results.append((panel, shown))
    return results


def of_command(run: Run) -> list[str]:
    """The metrics of a user's command that the table has."""
    return [*run.experiment.watched, "cpu_time", "peak_group"]


def _command(run: Run, names: Sequence[str]) -> Table:
    requests = [run.metric(name) for name in dict.fromkeys(names)]
    # What this host cannot measure is said once, above; a command that never ended well has a row.
    metrics = [m for m in requests if any(m.name in s.medians for s in run.summaries)] or requests[
        :1
    ]
    varied = run.varied or list(run.points[0].at)
    heads = [m.label.rsplit(" ", 1) for m in metrics]
    columns = [Column("policy", "left"), *(Column("\n".join(head)) for head in heads)]
    rows: list[list[Cell | str]] = [
        [
            words.levels(run.named, summary.point.at, varied),
            *(median(summary, metric, words.cell_unit(metric.unit)) for metric in metrics),
        ]
        for summary in run.summaries
    ]
    return Table("medians of each policy", columns, rows)


def every_metric(run: Run) -> Table:
    """A row per metric and point, without controls and without what no sample has."""
    grid = [s for s in run.summaries if s.point.control is None]
    varied = run.varied or list(run.points[0].at)
    metrics = {m.name: m for m in (*run.experiment.metrics, *WINDOW_METRICS)}
    rows: list[list[Cell | str]] = [
        [
            metric.label,
            words.levels(run.named, summary.point.at, varied),
            median(summary, metric, metric.unit),
        ]
        for name, metric in metrics.items()
        for summary in grid
        if any(name in other.medians for other in grid)
    ]
    columns = [Column("metric", "left"), Column("point", "left"), Column("median")]
    return Table("every metric", columns, rows, names=2)


def _panel(
    run: Run,
    title: str,
    inside: Sequence[PointSummary],
    by: Sequence[str],
    *,
    turned: bool,
    mark: bool,
    settled: bool,
) -> Table:
    over, metric = run.experiment.figure.over, run.metric(run.experiment.figure.metric)
    unit = words.cell_unit(metric.unit)
    places = [s.point.at for s in inside]
    lines, levels = combinations(places, by), combinations(places, [over])
    across, down = (levels, lines) if turned else (lines, levels)
    columns = [Column("" if turned else over)]
    columns += [_column(run, at) for at in across]
    loops = metric.baseline_loop is not None and not settled
    if loops:
        columns.append(Column("baseline\nloop", style="quiet"))
    rows: list[list[Cell | str]] = []
    by_level: dict[tuple[object, ...], list[PointSummary]] = {}
    for summary in inside:
        levels_of = tuple(summary.point.at[name] for name in down[0])
        by_level.setdefault(levels_of, []).append(summary)
    for at in down:
        row = by_level[tuple(at.values())]
        result = (next((s for s in row if has(s.point.at, other)), None) for other in across)
        cells: list[Cell | str] = [_label(run, at)]
        cells += [median(s, metric, unit, mark=mark, settled=settled) if s else "" for s in result]
        if loops:
            baseline_loop = run.pooled_baseline_loop(metric, [s.point for s in row])
            cells.append("-" if baseline_loop is None else words.quantity(baseline_loop, unit))
        rows.append(cells)
    return Table(title, columns, rows)


def _column(run: Run, at: At) -> Column:
    """`touch` above `readers 0`: the first level of several has a line of its own."""
    if not at:
        return Column(run.experiment.figure.metric)
    first, *rest = (_label(run, {name: level}) for name, level in at.items())
    return Column(f"{first}\n{', '.join(rest)}", group=first) if rest else Column(first)


def _label(run: Run, at: At) -> str:
    """A level of the axis alone, others with their names where they need them."""
    if list(at) == [run.experiment.figure.over]:
        return words.label(run.named, *next(iter(at.items())))
    return _levels(run.named, at, at)


def _levels(experiment: Experiment, at: At, names: Iterable[str]) -> str:
    """As figures call them; those of a user's command are the user's own words."""
    text = words.levels if experiment.watched else words.labels
    return text(experiment, at, names)


def names_of_levels(run: Run) -> str:
    """What `-p` takes for the levels that the tables call otherwise: `method=write for write(2)`;
    empty where there are none."""
    if run.experiment.watched:
        return "; ".join(words.long_levels(run.experiment, (point.at for point in run.points)))
    factors = [run.named.factor(name) for name in run.varied]
    text = {
        f"{factor.name}={factor.kind.format(level)} for {label}": None
        for factor in factors
        for level in dict.fromkeys(point.at[factor.name] for point in run.points)
        if (label := factor.level_labels.get(level)) and label != factor.kind.format(level)
    }
    return f"-p takes {', '.join(text)}" if text else ""


def median(
    summary: PointSummary, metric: Metric, unit: str, *, mark: bool = True, settled: bool = False
) -> str:
    """A median, or how its samples ended; `mark` is whether an extrapolated one gets its sign. If
    `settled`, a median without an interval is not there yet."""
    if metric.name not in summary.medians:
        bad = [word for word in summary.outcomes if word != "ok"]
        return "-" if summary.medians else next(iter(bad or summary.outcomes), NOT_YET)
    result = summary.medians[metric.name]
    if settled and result.halfwidth_relative is None:
        return NOT_YET
    text = words.median(
        result,
        unit,
        extrapolated=mark and metric.name in summary.extrapolated,
    )
    share = summary.baseline_loop_share(metric.name)
    return text + ("*" if share is not None and share > BASELINE_LOOP_SHARE else "")


def controls(run: Run) -> Iterator[Table]:
    """One table per control that has points."""
    metric = run.metric(run.experiment.figure.metric)
    for control in run.experiment.controls:
        results = [s for s in run.summaries if s.point.control == control.name]
        if not results:
            continue
        columns = [Column("point", "left"), Column(metric.label)]
        rows = [[_point_name(run, s), median(s, metric, metric.unit)] for s in results]
        yield Table(f"control {control.name}: {control.why}", columns, rows)


def _point_name(run: Run, summary: PointSummary) -> str:
    """A point by the factors that the run varies, and those that its control replaces."""
    control = next((c for c in run.experiment.controls if c.name == summary.point.control), None)
    names = [
        f.name
        for f in run.experiment.factors
        if f.name in run.varied or (control and f.name in control.levels)
    ]
    return _levels(run.named, summary.point.at, names) or "the only point"


_VERDICTS = {  # heads of a terminal's width
    "holds": "hold",
    PARTLY: "in\npart",
    "contradicted": "contra-\ndicted",
    DIFFERS: "de-\npend",
    "not decided": "unde-\ncided",
    "not testable here": "not\ntested",
}


def by_experiment(studies: Sequence[Reproduced]) -> Table:
    """A row per experiment: how many of the study's claims have which verdict, of verdicts that any
    has; and how many of the further checks hold."""
    requests = [[c for c in by_claim(entry.judged) if not c.absent] for entry in studies]
    studied = any(entry.experiment.sources for entry in studies)
    studied_claims = [[c for c in of if c.claim.of_study or not studied] for of in requests]
    others = [[c for c in of if studied and not c.claim.of_study] for of in requests]
    counts = [Counter(c.overall for c in of) for of in studied_claims]
    words_used = [word for word in _VERDICTS if any(count[word] for count in counts)]
    columns = [Column("experiment", "left"), *(Column(_VERDICTS[word]) for word in words_used)]
    columns += [Column("checks\nhold")] if any(others) else []
    rows: list[list[Cell | str]] = []
    for item, count, more in zip(studies, counts, others, strict=True):
        parts = [str(count[word] or "") for word in words_used]
        if any(others):
            parts.append(
                f"{sum(c.overall == 'holds' for c in more)} of {len(more)}" if more else ""
            )
        rows.append(
            [item.experiment.name, *parts, item.run.id if item.run else "does not run here"]
        )
    return Table("", [*columns, Column("run", "left")], rows)


def setting(run: Run, beside: Beside) -> str:
    varied = [name for name in beside.setting if name in run.varied]
    return _levels(run.named, beside.setting, varied)


def published(run: Run, beside: Beside) -> Table:
    """A published table beside the run: printed, here and their ratio. Where three columns or more
    would stand side by side, a printed cell has a row of its own."""
    declared, unit = beside.declared, run.metric(beside.declared.metric).unit
    rows = [row for row in beside.rows if any(row.here.values())]
    every = all(c in row.extrapolated for row in rows for c, median in row.here.items() if median)
    where = setting(run, beside)
    title = f"published {beside.source.id}, {beside.table.title} ({beside.table.place})"
    title += f"; here {where}" if where else ""
    title += "; all extrapolated" if every else ""
    title += f" ({unit})" if words.cell_unit(unit) != unit else ""
    notes = list(_notes(run, beside, len(rows)))
    wide = len([*declared.columns, *declared.ratios]) <= 2
    names = Column(beside.table.rows_are)
    if wide:
        columns = [
            Column(f"{column}\n{part}", group=column, style="quiet" if part == "published" else "")
            for column in declared.columns
            for part in ("published", "here", "ratio")
        ]
        results: list[list[Cell | str]] = [[row.name] for row in rows]
        for line, row in zip(results, rows, strict=True):
            for column in row.printed:
                line += _cells(row, column, unit, mark=not every)
        return Table(title, [names, *columns], results, notes)
    columns = [Column("column", "left"), Column("published", style="quiet")]
    columns += [Column("here"), Column("ratio")]
    result = [line for row in rows for line in _lines(row, unit, mark=not every)]
    return Table(title, [names, *columns], result, notes, names=2)


def published_once(run: Run, every: Sequence[Beside]) -> Iterator[Table]:
    """Each published table once: the printed numbers, and what those here are of them at each
    setting. The numbers here stand in the tables of medians."""
    results: dict[tuple[str, str], list[Beside]] = {}
    for item in every:
        results.setdefault((item.source.id, item.table.id), []).append(item)
    for of in results.values():
        first = of[0]
        unit = run.metric(first.declared.metric).unit
        places = [setting(run, item) or "here" for item in of]
        rows: list[list[Cell | str]] = []
        for several in zip(*(item.rows for item in of), strict=True):
            for column, cell in several[0].cells.items():
                if any(row.here[column] for row in several):
                    ratios = [_ratio(row, column) for row in several]
                    printed = _printed(cell, words.cell_unit(unit))
                    rows.append([several[0].name, column, printed, *ratios])
        heads = [Column("column", "left"), Column("published", style="quiet")]
        heads += [Column(f"{place}\n/ published") for place in places]
        notes = [line for entry in of for line in _notes(run, entry, _measured_cells(entry))]
        yield Table(
            f"published {first.source.id}, {first.table.title} ({first.table.place})",
            [Column(first.table.rows_are), *heads],
            rows,
            list(dict.fromkeys(notes)),
            names=2,
        )


def _measured_cells(table: Beside) -> int:
    return sum(any(row.here.values()) for row in table.rows)


def _lines(row: PrintedRow, unit: str, *, mark: bool) -> Iterator[list[Cell | str]]:
    """A printed row, a line per cell with a number here, its printed ratios last."""
    for column in row.printed:
        if row.here[column]:
            yield [row.name, column, *_cells(row, column, unit, mark=mark)]
    for column, ratio in row.ratios.items():
        if ratio.here:
            label = f"{ratio.of} / {ratio.to} ({column})"
            yield [row.name, label, ratio.printed, evidence.interval(ratio.here), ""]


def _cells(row: PrintedRow, column: str, unit: str, *, mark: bool) -> tuple[Cell, Cell, Cell]:
    here, unit = row.here[column], words.cell_unit(unit)
    median = words.median(here, unit, extrapolated=mark and column in row.extrapolated)
    samples = f"{here.n} samples" if here else ""
    ratio = Cell(_ratio(row, column))
    return _printed(row.cells[column], unit), Cell(median, title=samples), ratio


def _ratio(row: PrintedRow, column: str) -> str:
    """Here / printed; a bound where the printed cell is one."""
    ratio = row.ratio[column]
    bound = row.cells[column].ratio_bound
    return "-" if ratio is None else f"{bound}{evidence.number(ratio)}"


def _printed(cell: Printed, unit: str) -> Cell:
    """A printed number in the metric's unit; as printed above it."""
    text = f"{cell.bound}{words.quantity(cell.value, unit)}"
    return Cell(text, title=f"printed: {cell.printed}")


def _notes(run: Run, beside: Beside, shown: int) -> Iterator[str]:
    """What a reader of the table has to know."""
    if rest := len(beside.rows) - shown:
        yield f"{rest} of {len(beside.rows)} published rows have no point in this run"
    yield from words.machine_remarks(run)
    limit = beside.declared.limit
    past = {row.name: row.beyond_limit for row in beside.rows if row.beyond_limit}
    if limit and beside.limit and past:
        unit = run.metric(limit.metric).unit
        name, implied = max(past.items(), key=lambda item: max(item[1].values()))
        column, value = max(implied.items(), key=lambda item: item[1])
        yield (
            f"As reading, {column} at {name} would be a {limit.what} of "
            f"{words.quantity(value, unit)}; the limit of the machine here, measured by the "
            f"control {limit.control!r}, is {words.median(beside.limit, unit)}. "
            f"{len(past)} of {len(beside.rows)} published rows lie beyond it."
        )
    if beside.declared.note:
        yield beside.declared.note


def metrics_shown(run: Run) -> list[Metric]:
    """The metrics that the figures, the tables and the claims are about."""
    declared = run.experiment
    drawn = [declared.figure, *declared.more_figures.values()]
    names = [figure.metric for figure in drawn]
    names += [p.metric for p in declared.published]
    return [
        run.metric(name) for name in dict.fromkeys([*names, *(c.metric for c in declared.claims)])
    ]


def points(run: Run, metric: Metric) -> Table:
    """Every point with the median of one metric, its interval, baseline and noise."""
    better = "lower is better" if metric.lower_is_better else "higher is better"
    heads = ["control", "median", "95 % interval", "n", "baseline loop", "ended", "flags"]
    return Table(
        f"{metric.name}: {metric.label} ({metric.unit}); {better}; run {run.id}",
        [Column("point", "left"), *(Column(head) for head in heads)],
        [_point(run, metric, summary) for summary in run.summaries],
    )


def _point(run: Run, metric: Metric, summary: PointSummary) -> list[str]:
    median = summary.medians.get(metric.name)
    flags = [f"{flag} {count}" for flag, count in summary.noise.most_common()]
    return [
        _point_name(run, summary),
        summary.point.control or "",
        words.median(median, metric.unit, extrapolated=metric.name in summary.extrapolated),
        _interval(median, metric.unit),
        str(median.n) if median else "0",
        _baseline_loop(summary, metric),
        outcomes([summary]) or "not measured",
        ", ".join(flags),
    ]


def _interval(median: Interval | None, unit: str) -> str:
    if median is None or median.low is None or median.high is None:
        return "-"
    return f"{words.quantity(median.low, unit)} to {words.quantity(median.high, unit)}"


def _baseline_loop(summary: PointSummary, metric: Metric) -> str:
    """The loop without the operation: its own time, and its share where that is large."""
    share = summary.baseline_loop_share(metric.name)
    if share is None:
        return "-"
    mark = "*" if share > BASELINE_LOOP_SHARE else ""
    baseline_loop = words.quantity(summary.baseline_loops[metric.name], metric.unit)
    return f"{baseline_loop} ({units.format_percent(share)}){mark}"


def noise(run: Run) -> Table:
    """What disturbed the samples."""
    flags = sum((s.noise for s in run.summaries), Counter[str]())
    total = len(run.samples)
    rows = [[flag, str(n), units.format_percent(n / total)] for flag, n in flags.most_common()]
    title = f"What disturbed the {total} samples of run {run.id}; flagged, none dropped"
    return Table(title, [Column("flag", "left"), Column("samples"), Column("share")], rows)


def _spent(run: Run) -> str:
    """`, 64 % of it inside timed windows, 12 % beside them in trials, ...`."""
    inside, trials = run.window_share, run.trials_share
    if not run.samples or inside is None or trials is None:
        return ""
    beside, between = (
        units.format_percent(max(0.0, share)) for share in (trials - inside, 1 - trials)
    )
    return (
        f", {units.format_percent(inside)} of it inside timed windows, {beside} beside them in "
        f"trials (making ready, releasing), {between} between trials (new files, storing, looking)"
    )


def ended(run: Run, *, points: bool = True) -> Iterator[str]:
    """How the sweep ended, and with `points` the samples that are not ok; a reason that several
    share, once."""
    yield end(run, _spent(run))
    how = run.sessions[-1].ended if run.sessions else None
    if how in ("budget", "interrupted") and (short := _short_of_samples(run)):
        yield short
    for name, scaled in run.row.request.get("scaled", {}).items():
        yield f"scaled to fit this host: {name} {scaled}"
    if run.clustered:
        parts = units.counted(run.unit_count, run.unit)
        how = {"recording": f"of {parts}"}.get(
            run.unit, f"spread over {parts}, each in fresh processes"
        )
        yield (
            f"{how}: ± is half of where the next {run.unit}'s median lies at 95 %; ratios and "
            f"verdicts count a {run.unit} once"
        )
    if libc := run.row.request.get("libc"):
        version = run.environment.get("libc_version", "a libc")
        yield f"the probes ran under {version}, of {libc}"
    if points:
        yield from ends(run)


def ends(run: Run) -> Iterator[str]:
    """How the trials ended that were not `ok`, and why, a line for each reason."""
    reasons: dict[tuple[str, ...], list[PointSummary]] = {}
    for summary in run.summaries:
        if set(summary.outcomes) - {"ok"}:
            reasons.setdefault(summary.details, []).append(summary)
    for details, same in reasons.items():
        where = units.counted(len(same), "point") if len(same) > 1 else _point_name(run, same[0])
        why = f": {'; '.join(details)}" if details else ""
        yield f"{where}: {outcomes(same)}{why}"


def end(run: Run, spent: str = "") -> str:
    """`423 samples in 60.3 s; the sweep ended: budget`, with what the time was `spent` on."""
    wall_s = words.quantity(run.wall_s, "s")
    how = run.sessions[-1].ended if run.sessions else None
    samples = units.counted(len(run.samples), "sample")
    return f"{samples} in {wall_s}{spent}; the sweep ended: {_ended(run, how)}"


def _ended(run: Run, how: str | None) -> str:
    """`decided`, if every verdict is; else how many are left."""
    if how != "decided":
        return how or "not yet, or killed"
    measured = [item for item in judge(run) if item.verdict.n]
    rest = sum(item.word == "inconclusive" for item in measured)
    of = units.counted(len(measured), "verdict")
    return f"{rest} of {of} left undecided" if rest else "decided"


def _short_of_samples(run: Run) -> str:
    """How many points have an interval, and what would give the others one; empty where all do."""
    if run.clustered:  # what an interval takes are sessions or recordings
        return ""
    least, counts = least_samples(0.95), _sample_counts(run)
    if min(counts, default=least) >= least:
        return ""
    enough = sum(count >= least for count in counts)
    text = (
        f"{enough} of {units.counted(len(counts), 'point')} have the {least} samples of an interval"
    )
    if recorded.ships(run.store_path) or not run.samples or not (command := _going_on(run)):
        return text
    return f"{text}; the others get them by: {command}"


def going_on(run: Run) -> str:
    """`memlab sweep --resume RUN --budget 9s` for a run whose budget ended before each point had
    the samples of an interval, or before claims were decided whose blocks say how many more that
    takes; else empty."""
    short = bool(run.sessions) and run.sessions[-1].ended == "budget" and not run.clustered
    if not short or not run.samples:
        return ""
    if min(_sample_counts(run), default=0) < least_samples(0.95):
        return _going_on(run)
    beside = max(1.0, _elapsed_s(run) / float(run.samples.taken("trial_s").sum()))
    return _resume(run, advised_s(deciding_s(run) * beside))


def _sample_counts(run: Run) -> list[int]:
    """The samples of each point that can have one here."""
    return [s.outcomes.total() for s in run.summaries if not _is_failed(run, s)]


def _is_failed(run: Run, summary: PointSummary) -> bool:
    """Whether no trial of a point measured anything: a further sweep does not try it again."""
    return bool(summary.outcomes) and not any(map(run.experiment.measures, summary.outcomes))


def _going_on(run: Run) -> str:
    """The command; empty if no point that lacks samples can have them here, or one level of a
    user's command is left."""
    refused = sum({*summary.outcomes} == {"unavailable"} for summary in run.summaries)
    if run.experiment.watched and 1 < len(run.points) <= refused + 1:
        return ""
    declared_s = {point.index: run.experiment.cost.time(point.at) for point in run.points}
    reach = Reach(run.experiment, run.points, least_samples(0.95), declared_s)
    lacking = {s.point.index for s in run.summaries if _is_failed(run, s)}
    columns = (run.samples.taken(name).tolist() for name in ("point", "block", "trial_s"))
    for point, block, trial_s in zip(*columns, strict=True):
        reach.add(point, block, trial_s, available=point not in lacking)
    return _resume(run, reach.budget_s(_elapsed_s(run)))


def _elapsed_s(run: Run) -> float:
    """What the trials took, with all that lay between them."""
    first_s = float(run.samples.taken("started_at").min())
    made_ready_s = max(0.0, first_s - run.sessions[0].started_at)
    return run.wall_s - made_ready_s


def _resume(run: Run, budget_s: int) -> str:
    return f"{run.command('sweep --resume')} --budget {budget_s}s" if budget_s else ""


def outcomes(summaries: Sequence[PointSummary]) -> str:
    total = sum((s.outcomes for s in summaries), Counter[str]())
    return ", ".join(f"{count} {word}" for word, count in total.most_common())


def compared(
    results: Sequence[Compared],
    *,
    p: bool = True,
    medians: bool = True,
    largest_first: bool = False,
) -> Table:
    """A row per point of runs compared with one base: verdicts, ratios; with `medians` these and
    how many more blocks decide it; `p` of the test too, where there is one run. In the order of
    the grid, else the largest effects first, the slower and the faster ones in turn."""
    experiment, unit = results[0].experiment, results[0].metric.unit
    by_point = [{point_key(p.at): p for p in entry.points} for entry in results]
    points = {key: point for of in reversed(by_point) for key, point in of.items()}
    keys = [key for of in by_point for key in of]
    keys = _largest_first(by_point, keys) if largest_first else keys
    at = {key: points[key].at for key in dict.fromkeys(keys)}
    first = next(iter(at.values()))
    varied = [n for n, level in first.items() if any(other[n] != level for other in at.values())]
    several = len(results) > 1
    more = any(point.comparison.word == "inconclusive" for of in results for point in of.points)
    more = more and medians
    # The line above the table has the names.
    heads = ["base" if len(head) > _HEAD else head for head in results[0].heads[:1]]
    heads += ["new" if len(head) > _HEAD else head for head in results[0].heads[1:]]
    base = [Column(heads[0])] if medians else []
    columns = [Column("point", "left", wrap=_POINT)]
    for item in results:
        head, group = (f"{item.new}\n", item.new) if several else ("", "")
        columns.append(Column(f"{head}verdict", "left", group=group))
        columns.append(Column(f"{head}ratio", group=group))
        columns += [] if several else base
        if medians:
            columns.append(Column(f"{head}{'median' if several else heads[1]}", group=group))
        if more:
            unit_s = f"more {item.unit}s" if several else f"more\n{item.unit}s"
            columns.append(Column(f"{head}{unit_s}", group=group))
        columns += [Column("p")] if p and not several else []
    columns += base if several else []
    rows = []
    for key, levels in at.items():
        row: list[Cell | str] = [_levels(experiment, levels, varied) or "the only point"]
        median = words.quantity(points[key].base, unit)
        for of in by_point:
            if key not in of:
                row += ["-"] * (2 + medians + more)
                continue
            point, text = of[key], of[key].comparison
            row += [Cell(_verdict(text), text.word), evidence.interval(text.ratio)]
            row += [] if several or not medians else [median]
            row += [words.quantity(point.new, unit)] if medians else []
            row += [words.blocks_missing(text)] if more else []
            row += [words.p_value(text)] if p and not several else []
        rows.append([*row, *([median] if several and medians else [])])
    return Table("", columns, rows)


def _verdict(comparison: Comparison) -> str:
    """The word, or `at most 0.171`, or that there are too few blocks for either."""
    if comparison.bound:
        return comparison.bound.removesuffix(" times")
    return f"too few {comparison.unit}s" if comparison.too_few else comparison.word


def _largest_first(
    by_point: Sequence[Mapping[str, PointComparison]], keys: Iterable[str]
) -> list[str]:
    """Those that any run shows to differ, by a verdict or only by an interval, then the undecided
    ones and the same; of each the largest, of the two directions in turn."""
    groups: dict[int, dict[bool, list[tuple[float, str]]]] = {}
    for key in dict.fromkeys(keys):
        effects = (_effect(of[key].comparison) for of in by_point if key in of)
        rank, size, is_more = min(effects, key=lambda effect: (effect[0], -effect[1]))
        groups.setdefault(rank, {True: [], False: []})[is_more].append((size, key))
    result = []
    for _, sides in sorted(groups.items()):
        more, less = (sorted(sides[side], reverse=True) for side in (True, False))
        turns = chain.from_iterable(zip_longest(more, less))
        result += [item[1] for item in turns if item is not None]
    return result


def _effect(comparison: Comparison) -> tuple[int, float, bool]:
    rank = {"slower": 0, "faster": 0, "inconclusive": 0 if comparison.bound else 1}
    ratio = comparison.ratio.estimate
    return rank.get(comparison.word, 2), abs(log(ratio)), ratio > 1


_HEAD = 8  # characters of a head that has room
_POINT = 38  # of a point's name, where verdict and ratio have to stand beside it on 80


def compared_heads(results: Sequence[Compared]) -> list[str]:
    metric = results[0].metric
    better = "lower" if metric.lower_is_better else "higher"
    sides = ", ".join(item.new for item in results)
    return [
        f"{results[0].experiment.name}: {sides} against {results[0].base}",
        f"{metric.label} ({metric.unit}); {better} is better",
    ]


def compared_notes(results: Sequence[Compared], *, in_full: bool = False) -> list[str]:
    """What else differs, each thing once, and how many points one side lacks; `in_full`, in what
    unlike machines differ, a line each."""
    alone = [
        f"{units.counted(len(at), 'point')} with samples only in {name}: not compared"
        for item in results
        for at, name in ((item.only_base, item.base), (item.only_new, item.new))
        if at
    ]
    notes = (item.remarks if in_full else item.notes for item in results)
    return list(dict.fromkeys([*(line for lines in notes for line in lines), *alone]))


def compared_counts(results: Sequence[Compared]) -> list[str]:
    if len(results) == 1:
        return [words.counts(results[0])]
    return [f"{item.new}: {words.counts(item)}" for item in results]


def ratio_legend(result: Compared, *, medians: bool = True) -> str:
    """What the columns say; with `medians` also that of how many blocks are missing."""
    unit = result.unit
    text = (
        f"ratio: the median over the {unit}s of {' / '.join(reversed(result.heads))}, with its "
        "95 % interval, and not the quotient of the two medians"
    )
    bounds = [p.comparison.blocks_missing for p in result.points if p.comparison.bound]
    if bounds:
        text += (
            "; at least, at most: shown by its end, a verdict takes about "
            f"{units.counted(max(bounds), f'more {unit}')}"
        )
    if medians and result.counts["inconclusive"] > len(bounds):
        text += (
            f"; more {unit}s: about how many would decide an inconclusive point (over "
            f"{MOST_BLOCKS:,}: take a larger threshold)"
        )
    return text

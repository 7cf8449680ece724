"""`memlab history`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli import _completing
from memlab.cli._fields import argument, global_option, option, shared, takes
from memlab.cli._options import (
    echo,
    echo_json,
    factor_option,
    figure_option,
    in_full,
    json_option,
    output_folder,
    verbose_option,
)

if TYPE_CHECKING:
    from memlab.machines.history.judge import History


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """What `memlab history` is given."""

    series: str = argument(
        metavar="[HOST:]EXPERIMENT|FILE.csv", shell_complete=_completing.experiment
    )
    metric: str | None = option(
        "--metric", help="Metric to follow (default: the experiment's first)."
    )
    levels: tuple[str, ...] = shared(
        factor_option("Follow only the points at these levels (default: all points together).")
    )
    run: str | None = option(
        "--run",
        metavar="RUN",
        shell_complete=_completing.run,
        help="Follow the points of this run (default: the newest run that shares its points with "
        "another run).",
    )
    limit: int = option(
        "-n",
        "--limit",
        type=click.IntRange(min=2),
        default=400,
        show_default=True,
        help="Read only the newest N runs.",
    )
    rate: str = option(
        "--rate",
        type=click.Choice(["1%", "5%", "10%", "50%"]),
        default="50%",
        show_default=True,
        help="Share of unchanged machines that may raise a false alarm within 365 runs.",
    )
    gate: bool = option(
        "--gate", is_flag=True, help="Exit with 1 if the newest run raises an alarm."
    )
    verbose: bool = shared(verbose_option("Print every run, not only the newest 20."))
    store: Path | None = global_option("store")
    output: Path | None = shared(figure_option)
    as_json: bool = shared(json_option)


@click.command()
@takes(HistoryOptions)
def command(options: HistoryOptions) -> None:
    """Follow the runs of EXPERIMENT on one host over time: print when the results changed and by
    how much, with intervals, and what changed on the machine then; draw a figure. The noise is the
    variation between runs, not between the blocks of a run. HOST: follows the runs that came from
    that host; FILE.csv has values of your own: a header such as `date,time[s]`, then a date and a
    value per row.

    \b
    memlab history page-fault
    memlab history mmap-write -p method=mmap --metric bandwidth --gate
    memlab history b:page-fault
    memlab history nights.csv --gate
    """
    from memlab import experiments
    from memlab.cli import GATE
    from memlab.machines.history import figure, values
    from memlab.machines.history import show as present

    rate = float(options.rate.rstrip("%")) / 100
    csv = Path(options.series) if options.series.endswith(".csv") else None
    if csv:
        if options.levels or options.run:
            raise click.UsageError("-p and --run select stored runs: leave them out for a file")
        result = values.of_csv(csv, options.metric, options.limit, rate)
    else:
        result = _of_runs(options, rate)
    folder = output_folder(options.output, options.store)
    name = csv.stem if csv else experiments.short(result.of)
    place = folder / f"history-{name}-{result.metric.name}.png"
    figure.figure(result, place)
    if options.as_json:
        from memlab.machines.history.documents import RunHistory

        echo_json(RunHistory.made_of(result, place))
    else:
        present.show(result, "" if options.verbose else in_full())
        echo(f"figure: {place}")
    if options.gate and result.alarm:
        click.get_current_context().exit(GATE)


def _of_runs(options: HistoryOptions, rate: float) -> History:
    from memlab import experiments
    from memlab.api import Run
    from memlab.errors import UnknownRun
    from memlab.experiment.levels import read_levels
    from memlab.judging.compare import metric_of
    from memlab.machines.history import judge
    from memlab.store import Store, default_path

    path = options.store or default_path()
    host, _, experiment = options.series.rpartition(":")
    name = experiments.named(experiment)
    declared = experiments.load(name)
    metric = metric_of(declared, options.metric)
    levels = read_levels(declared, options.levels)
    with Store(path) as opened:
        rows = [r for r in opened.runs() if r.experiment == name and r.origin == (host or None)]
    if not rows:
        where, on = (f" of {host}", f" --on ssh:{host}") if host else ("", "")
        raise UnknownRun(
            f"no run of {name}{where} in {path}; `memlab sweep {name}{on}` measures one"
        )
    guest = rows[-1].request.get("guest")
    rows = [row for row in rows if row.request.get("guest") == guest][-options.limit :]
    runs = [Run(row, path) for row in rows]
    followed = None
    if options.run:
        with Store(path) as opened:
            id = opened.find(options.run).id
        followed = next((item for item in runs if item.id == id), None)
        if followed is None:
            raise UnknownRun(
                f"run {options.run} is not among the {len(runs)} runs of {name} "
                f"{f'of {host}' if host else 'on this host'}; `memlab runs` lists them"
            )
    return judge.of_runs(runs, metric, levels, rate, followed)

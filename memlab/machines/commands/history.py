"""Say when an experiment's runs changed."""

from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._options import (
    echo,
    echo_json,
    factor_option,
    figure_option,
    in_full,
    json_option,
    output_folder,
    store_option,
)


@click.command()
@click.argument("experiment", shell_complete=_completing.experiment)
@click.option("--metric", help="Whose history; else the experiment's first metric.")
@factor_option("Of those points the ones at these levels; else all of them together.")
@click.option(
    "--run",
    "like",
    metavar="RUN",
    shell_complete=_completing.run,
    help="At the points of this run; else of the newest whose points another run has too.",
)
@click.option("--host", help="Of the runs that came from this host; else of this one's own.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=2),
    default=400,
    show_default=True,
    help="The newest so many runs.",
)
@click.option(
    "--rate",
    type=click.Choice(["1%", "5%", "10%", "50%"]),
    default="50%",
    show_default=True,
    help="Of machines on which nothing changes, how many may show a change in 365 runs.",
)
@click.option("--gate", is_flag=True, help="Exit 1 if the newest run raises an alarm.")
@click.option("-v", "--verbose", is_flag=True, help="Every run, not the newest 20 alone.")
@store_option
@figure_option
@json_option
def command(
    experiment: str,
    metric: str | None,
    levels: tuple[str, ...],
    like: str | None,
    host: str | None,
    limit: int,
    rate: str,
    gate: bool,
    verbose: bool,
    store: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """The runs of EXPERIMENT on one host over time: when the level changed, with an interval for
    when and for how much, and what of the machine changed there; a figure. A run counts once: what
    varies from run to run is the noise, not the blocks within a run.

    \b
    memlab history page-fault
    memlab history mmap-write -p method=mmap --metric bandwidth --gate
    """
    from memlab import experiments
    from memlab.api import Run
    from memlab.cli import GATE
    from memlab.errors import UnknownRun
    from memlab.experiment.levels import read_levels
    from memlab.judging.compare import metric_of
    from memlab.machines.history import data
    from memlab.machines.history import judge as history
    from memlab.machines.history import show as present
    from memlab.store import Store, default_path

    path = store or default_path()
    name = experiments.named(experiment)
    declared = experiments.load(name)
    chosen = metric_of(declared, metric)
    wanted = read_levels(declared, levels)
    with Store(path) as opened:
        rows = [r for r in opened.runs() if r.experiment == name and r.origin == host]
    if not rows:
        where = f" of {host}" if host else ""
        raise UnknownRun(f"no run of {name}{where} in {path}; `memlab sweep {name}` measures one")
    guest = rows[-1].request.get("guest")
    rows = [row for row in rows if row.request.get("guest") == guest][-limit:]
    runs = [Run(row, path) for row in rows]
    followed = None
    if like:
        with Store(path) as opened:
            id = opened.find(like).id
        followed = next((one for one in runs if one.id == id), None)
        if followed is None:
            raise UnknownRun(f"run {like} is none of the {len(runs)} runs of {name} of this host")
    found = history.of_runs(runs, chosen, wanted, float(rate.rstrip("%")) / 100, followed)
    place = output_folder(output, store) / f"history-{experiments.short(name)}-{chosen.name}.png"
    present.figure(found, place)
    if as_json:
        echo_json(data.history(found, place))
    else:
        present.show(found, "" if verbose else in_full())
        echo(f"figure: {place}")
    if gate and found.alarm:
        click.get_current_context().exit(GATE)

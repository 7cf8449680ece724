"""What other hosts measured: a command passed on to them, and what came back, in print."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from math import inf
from pathlib import Path

import click

from memlab import experiments, measure
from memlab.api import Run
from memlab.cli._group import TYPED
from memlab.cli._options import echo, echo_json
from memlab.errors import CannotRun, NotComparable, UnknownRun
from memlab.judging.reproduce import Study
from memlab.machines.fleet import links
from memlab.machines.fleet.links import Hints, Result, Wanted
from memlab.store import RunRow, Store, default_path
from memlab.store.travel import Taken
from memlab.text import units
from memlab.text.printable import printable

_SHOWN = 10  # runs of a host
_AS_ROWS = ("--jsonl", "--quiet", "--stop-on-input")  # how a host sweeps for another
_CLOCK_S = 5.0  # more than the way takes


def by_host(store: Store, arrived: Taken) -> list[Result]:
    """What was taken in, by the host that measured it."""
    results: dict[str, Result] = {}
    for run, new in arrived.runs.items():
        row = store.run(run)
        host = (row and row.origin) or "this host"
        item = results.setdefault(host, Result(host))
        item.runs[run] = new
        item.clock_s = max(item.clock_s, arrived.ahead_s.get(run, 0.0))
    return list(results.values())


def print_results(results: Sequence[Result], path: Path, *, as_json: bool) -> None:
    """Print what came from each host. CannotRun if one failed; of several, `failed` has said why
    already."""
    with Store(path) as opened:
        rows = {row.id: row for row in opened.runs()}
    if as_json:
        from memlab.machines.fleet.documents import FromHost

        echo_json([FromHost.made_of(result, rows) for result in results])
    else:
        for result in results:
            _host(result, rows)
    names = [result.host for result in results if result.is_failed]
    if len(names) == len(results) == 1:
        raise CannotRun(f"{names[0]}: {printable(results[0].wrong)}")
    if names:
        raise CannotRun(f"{len(names)} of {len(results)} hosts failed: {', '.join(names)}")


def failed(result: Result) -> None:
    """Say why a host failed, while the others go on."""
    click.echo(f"memlab: {result.host}: {printable(result.wrong)}", err=True)


def pull(on: str, store: Path | None, *, as_json: bool) -> None:
    """Fetch what hosts hold, and print what came. CannotRun if one failed."""
    path, chosen = store or default_path(), links.hosts(on)
    results = links.pull(chosen, path, _say, failed if len(chosen) > 1 else _unsaid)
    if on.startswith("dask:"):
        _without_a_worker(path, chosen)
    print_results(results, path, as_json=as_json)


def _without_a_worker(path: Path, hosts: Collection[str]) -> None:
    """Name what is missing of hosts that a scheduler does not list, as after a worker's end; by
    which scheduler a run came, no store tells."""
    if not path.exists():
        return
    with Store(path) as opened:
        cut = [
            f"{listed.row.origin} (run {listed.row.id})"
            for listed in reversed(opened.listed()[0])
            if listed.ended in (None, "interrupted")
            and listed.row.origin
            and listed.row.origin not in hosts
        ]
    if cut:
        more = f" and {units.counted(len(cut) - _SHOWN, 'more run')}" if len(cut) > _SHOWN else ""
        _say(
            "memlab: unfinished here, of hosts that are not workers of this scheduler: "
            f"{', '.join(cut[:_SHOWN])}{more}"
        )


def _say(line: str) -> None:
    click.echo(line, err=True)


def _unsaid(_: object) -> None:
    """Of one host the error at the end says it."""


def _host(result: Result, rows: dict[str, RunRow]) -> None:
    new = {id: count for id, count in result.runs.items() if count}
    if not new:
        if not result.is_failed:
            echo(f"{result.host}: nothing new")
        return
    samples = units.counted(sum(new.values()), "new sample")
    echo(f"{result.host}: {samples} in {units.counted(len(new), 'run')}")
    for id, count in list(new.items())[:_SHOWN]:
        name = experiments.short(rows[id].experiment)
        echo(f"  run {id}, {name}: {units.counted(count, 'sample')}")
    if (more := len(new) - _SHOWN) > 0:
        echo(f"  and {units.counted(more, 'more run')}")
    if abs(result.clock_s) > _CLOCK_S:
        way = "ahead of" if result.clock_s > 0 else "behind"
        echo(f"  its clock is {units.format_long(abs(result.clock_s))} {way} this host's")


# What only this side uses: where rows go, and how the result is printed.
_LOCAL = frozenset({"on", "output", "quiet", "as_json"})


def arguments(local: Collection[str] = _LOCAL) -> list[str]:
    """What this command was given, as words for the same command elsewhere, without its `local`
    parameters. A value is passed on as it was written."""
    context = click.get_current_context()
    command = context.command
    typed = context.meta[TYPED]
    options, _, _ = command.make_parser(context).parse_args(list(typed))
    words: list[str] = []
    positional: list[str] = []
    for parameter in command.params:
        if parameter.name in local or parameter.name not in options:
            continue
        value = options[parameter.name]
        several = value if isinstance(value, list | tuple) else [value]
        written = [
            item for item in several if isinstance(item, str)
        ]  # click marks what is not there
        if isinstance(parameter, click.Argument):
            positional += written
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            words.append(parameter.opts[-1])
        else:
            words += [f"{max(parameter.opts, key=len)}={item}" for item in written]
    return [*words, "--", *positional] if positional else words


def _waiting() -> list[str]:
    """`--wait`: each host waits for its own measurements."""
    wait_s = click.get_current_context().find_root().params["wait_s"]
    if wait_s == inf:
        return ["--wait"]
    return [f"--wait={wait_s:f}s"] if wait_s else []


def wanted_run(experiment: str | None, resumed: str | None) -> Wanted:
    """What the hosts are asked for, as far as it is known here: a file of the user's own is another
    path there, and `last` is a run of each."""
    known = experiment if experiment in (*experiments.names(), "try") else None
    is_id = resumed is not None and re.fullmatch("[0-9a-f]{8}", resumed) is not None
    return Wanted(known, resumed if is_id else None, goes_on=resumed is not None)


def sweep(
    on: str,
    command: str,
    wanted: Wanted,
    store: Path | None,
    *,
    quiet: bool,
    words: Sequence[str] | None = None,
) -> tuple[list[Result], list[Run]]:
    """Run `sweep` or `try` on every host, with the words of this command unless others are given;
    each host's result, and the runs that have samples. A run that is resumed is resumed only on its
    own host, if it is known here."""
    path, chosen = store or default_path(), links.hosts(on)
    if wanted.run and path.exists():
        with Store(path) as opened:
            row = opened.run(wanted.run)
        if row and row.origin in chosen:
            chosen = {row.origin: chosen[row.origin]}
    results = links.sweep(
        chosen,
        [*_waiting(), command, *_AS_ROWS, *(arguments() if words is None else words)],
        wanted,
        path,
        Hints(on, store),
        _unsaid if quiet else _say,
        failed if len(chosen) > 1 else _unsaid,
    )
    with Store(path) as opened:
        rows = [opened.run(run) for result in results for run, new in result.runs.items() if new]
    return results, [Run(row, path) for row in rows if row]


def newest(experiment: str, store: Path | None) -> list[Run]:
    """The newest run with samples of an experiment on each host, and in each guest; `last` is that
    of the newest run. UnknownRun if there is none."""
    path = store or default_path()
    with Store(path) as opened:
        if experiment == "last" and (rows := opened.runs()):
            experiment = rows[-1].experiment
        name = experiments.named(experiment)
        experiments.load(name)
        rows = [row for row in opened.runs() if row.experiment == name]
        by_place = {
            (row.origin, str((row.request.get("guest") or {}).get("kernel"))): row
            for row in rows
            if opened.sample_count(row.id)
        }
    if not by_place:
        raise UnknownRun(f"no run of {name} in {path}; memlab sweep {name} --on ssh:HOST,...")
    return [Run(row, path) for row in by_place.values()]


def claims(runs: Sequence[Run], *, as_json: bool = False) -> bool:
    """Print what several hosts show of one experiment's claims; whether any is contradicted on a
    host, also on one that was lost."""
    from memlab.machines.fleet import judge as judging
    from memlab.machines.fleet import show as present

    if len({run.row.experiment for run in runs}) > 1:
        raise NotComparable("the runs are of several experiments: name runs of one")
    fleet = judging.host_runs(runs)
    rows = judging.rows(fleet.runs)
    splits = judging.splits(fleet.runs, rows)
    levels = judging.levels(fleet.runs)
    if as_json:
        from memlab.machines.fleet.documents import HostsClaims

        echo_json(HostsClaims.made_of(fleet, rows, splits, levels))
    else:
        present.show(fleet, rows, splits, levels)
    rows += judging.rows(fleet.lost)
    return any(cell.word == "contradicted" for row in rows for cell in row.cells.values())


def reproduce(
    on: str,
    study: Study,
    how: Sequence[str],
    store: Path | None,
) -> bool:
    """Measure each experiment of a study on every host and print its table; whether a claim is
    contradicted anywhere. CannotRun at the end where a host failed."""
    contradicted, failed = False, []
    for declared in study.experiments:
        words = [*how, f"--blocks={measure.BLOCKS}", declared.name]
        wanted = Wanted(declared.name)
        results, runs = sweep(on, "sweep", wanted, store, quiet=False, words=words)
        if runs:
            contradicted |= claims(runs)
        try:
            print_results(results, store or default_path(), as_json=False)
        except CannotRun as error:
            failed.append(f"{declared.name}: {error}")
    if failed:
        raise CannotRun("; ".join(failed))
    return contradicted

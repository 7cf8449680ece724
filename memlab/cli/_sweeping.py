"""What `memlab sweep` does, once its options are read."""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlab import experiments, measure
from memlab.analysis.least import least_samples
from memlab.api import Run
from memlab.cli import GATE
from memlab.cli._options import echo, echo_json
from memlab.cli._streams import ReaderGone
from memlab.errors import CannotRun, Interrupted
from memlab.experiment import Factor, Level
from memlab.experiment.fit import FIT
from memlab.experiment.levels import read_levels
from memlab.measure.progress import Live
from memlab.observe import capabilities
from memlab.request import Request
from memlab.run.target import Place
from memlab.run.watch import Silent, Watch
from memlab.store import Store, default_path, lines
from memlab.text import units

if TYPE_CHECKING:
    from memlab.fit.documents import FitAnswer

BEAT_S = 10.0  # between two lines that say that a sweep lives


def levels(experiment: str, assignments: tuple[str, ...]) -> dict[str, list[Level]]:
    return read_levels(experiments.load(experiment), assignments)


def check(options: Mapping[str, Any]) -> None:
    """That the options of a sweep go together."""
    if options["blocks"] is not None and options["precision"] is not None:
        raise click.UsageError("--blocks says how often, --precision how exactly; choose one")


class Rows:
    """Prints each committed row as a line, at once. A reader that has gone ends no sweep: the rows
    are in the store, for `memlab hosts pull`."""

    def __init__(self) -> None:
        self.count = 0
        self._turn, self._ended = threading.Lock(), threading.Event()

    def __call__(self, line: str) -> None:
        self.count += line.startswith('{"row":"sample"')
        with self._turn:
            try:
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()
            except ReaderGone:
                message = "memlab: nobody reads the rows any more: they are in the store"
                click.echo(message, err=True)

    def beat(self) -> None:
        """Print an empty line now and then, so that whoever reads the rows knows that they may
        still come."""
        self("")
        while not self._ended.wait(BEAT_S):
            self("")

    def end(self) -> None:
        """Nothing is printed from here on: Python ends with a fatal error if a thread is in a write
        when it ends."""
        self._turn.acquire()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self(lines.of_end(self.count))


def on_a_link(rows: Rows | None) -> None:
    """What a sweep does at the end of a link: the line `stop` on standard input is its Ctrl-C, and
    its rows say that it lives. The end of the input is nothing: a link that breaks ends no
    sweep."""

    def listen() -> None:
        while line := os.read(0, 100):  # sys.stdin's lock would be in the way of the exit
            if b"stop" in line:
                os.kill(os.getpid(), signal.SIGINT)

    if rows:
        atexit.register(rows.end)
    for work in (listen, *([rows.beat] if rows else [])):
        threading.Thread(target=work, daemon=True).start()


def sweep(
    request: Request,
    guest: Place | None,
    store: Path | None,
    quiet: bool,
    wait_s: float,
    tell: Rows | None = None,
) -> Run:
    """Measure a new run."""
    path = store or default_path()
    if request.name and (before := _of_name(request.name, path)):
        echo(
            f"memlab: run {before} has the name {request.name} too, which from now on means the "
            "new run",
            err=True,
        )
    with _naming_the_way_on(store), tell or nullcontext():
        return Run(measure.sweep(request, path, _watch(quiet), guest, wait_s, tell), path)


def _of_name(name: str, path: Path) -> str | None:
    """The newest run of that name."""
    if not path.exists():
        return None
    with Store(path) as opened:
        return next((run.id for run in reversed(opened.runs()) if run.name == name), None)


def resume(
    wanted: str,
    store: Path | None,
    budget_s: float | None,
    quiet: bool,
    wait_s: float,
    tell: Rows | None = None,
) -> Run:
    """Measure what a run still lacks."""
    from memlab.machines.guest.handle import Guest

    path = store or default_path()
    with _naming_the_way_on(store), tell or nullcontext():
        row = measure.resume(wanted, path, _watch(quiet), budget_s, wait_s, tell, guest_of=Guest.of)
        return Run(row, path)


def check_resumed(wanted: str, experiment: str, store: Path | None) -> None:
    """That a run to go on with is of the experiment that is named beside it."""
    with Store(store or default_path()) as opened:
        row = opened.find(wanted)
    if row.experiment != experiments.named(experiment):
        raise click.UsageError(
            f"run {row.id} is of {experiments.short(row.experiment)}, not of {experiment}"
        )


def _watch(quiet: bool) -> Watch:
    return Silent() if quiet else Live()


@contextmanager
def _naming_the_way_on(store: Path | None) -> Iterator[None]:
    """An interrupted sweep ends with the command that goes on with it."""
    try:
        yield
    except Interrupted as interrupted:
        where = f" --store {shlex.quote(str(store))}" if store else ""
        line = f"{interrupted}; go on with: memlab{where} sweep --resume {interrupted.run}"
        interrupted.args = (line,)
        raise


def report(run: Run, folder: Path, *, quiet: bool, as_json: bool) -> None:
    """What a finished sweep leaves: the table (or JSON) on stdout, the figure on disk."""
    from memlab.judging import summary
    from memlab.judging.claims import judge
    from memlab.present import figures, words
    from memlab.present.screens import run as screen

    if run.experiment.name == FIT and not quiet:
        end_fit(run, folder, as_json=as_json)
        return
    files = figures.save(run, folder) if any(s.medians for s in run.summaries) else []
    unavailable = run.samples and not run.measured  # without a sample the budget was too short
    if unavailable and not as_json:
        if quiet:
            echo(run.id)
        reason = words.nothing_measured(run, str if quiet else words.cause)
        place = "" if run.id in reason else f"; the samples are in run {run.id}"
        raise CannotRun(f"{reason}{place}")
    if as_json:
        from memlab.present.documents.run import Show

        echo_json(Show.made_of(run, [str(path) for path in files]))
        if unavailable:
            raise CannotRun(words.nothing_measured(run))
    elif quiet:
        echo(run.id)
    else:
        figure = [f"figure: {path}" for path in files[:1]]
        screen.ended(run, [*figure, f"next: {_next(run)}"])
    if why := _nothing_compared(run):
        raise CannotRun(f"nothing is left to compare: {why}")
    if why := summary.nothing_decided(judge(run)):
        reason = words.cause(words.shared_reason(why).removeprefix("unavailable: "))
        remedies = "" if quiet else _remedy(run, why)
        raise CannotRun(f"nothing can be decided here: {reason}{remedies}")


def _remedy(run: Run, why: str) -> str:
    """What to do where no claim can be decided. `doctor` knows only memlab's own experiments."""
    if run.experiment.watched or run.experiment.name in experiments.names():
        return "; `memlab doctor -v` says what runs here"
    limit = capabilities.lockable_bytes()
    if "ENOMEM" not in why or limit is None:
        return ""
    return (
        f"; RLIMIT_MEMLOCK is {units.format_quantity(limit, 'B')} here: a probe that locks memory "
        "declares how much, host=Host(locks=...)"
    )


def _nothing_compared(run: Run) -> str:
    """Why a user's command has one level that could be measured, of several; empty if it has
    others."""
    from memlab.present import words

    refused = [s for s in run.summaries if {*s.outcomes} == {"unavailable"}]
    if not run.experiment.watched or not refused or len(refused) < len(run.points) - 1:
        return ""
    return next((words.reason(detail) for s in refused for detail in s.details[:1]), "")


def _next(run: Run) -> str:
    """What to ask of a finished sweep: more samples where no point has an interval, its claims, the
    same with more blocks if it has too few to compare, or how its first two levels differ."""
    from memlab.present import measured_again, tables

    if more := tables.going_on(run):
        return more
    if run.experiment.claims or not run.varied:
        return run.command("claims" if run.experiment.claims else "show")
    factor = run.experiment.factor(run.varied[0])
    watched = [name for name in run.experiment.watched if _compares(run, factor, name)]
    if not watched:
        return run.command("show")
    if run.blocks < least_samples(0.95) and (line := measured_again.with_blocks(run)):
        return line
    base = factor.kind.format(factor.quick[0])
    if not isinstance(factor.quick[0], str):
        base = base.replace(" ", "")  # 4 KiB
    baseline = shlex.quote(f"{factor.name}={base}")
    return f"{run.command('compare')} --baseline {baseline} --metric {watched[0]}"


def _compares(run: Run, factor: Factor, metric: str) -> bool:
    """Whether the points at a factor's first level and others have values above 0 of a metric."""
    medians = {
        summary.point.at[factor.name] == factor.quick[0]
        for summary in run.summaries
        if (median := summary.medians.get(metric)) and median.estimate > 0
    }
    return len(medians) == 2


def end_fit(run: Run, folder: Path, *, as_json: bool) -> None:
    """What a fit that was just measured leaves; it exits with 1 if its gate does not hold."""
    answer = report_fit(run, folder, as_json=as_json)
    if answer.gate_bytes and answer.state != "answered":
        click.get_current_context().exit(GATE)


def report_fit(run: Run, folder: Path, *, as_json: bool) -> FitAnswer:
    """What a fit leaves: the answer, the limits and the next command, or JSON; the figure."""
    from memlab.fit import answer, figure, shown
    from memlab.present.answer import Verbatim, say

    result = answer.answer(run)
    if result.state in ("fails without a limit", "not measured"):
        raise CannotRun(next(shown.sentences(result)).rstrip("."))
    path = figure.draw(run, result, folder / f"fit-{run.id}.png") if result.limits else None
    if as_json:
        echo_json(result)
        return result
    say(shown.sentences(result))
    if path:
        say([shown.table(result), *shown.remarks(run), Verbatim(f"figure: {path}")])
    say([Verbatim(f"next: {shown.next_step(result, run)}")])
    return result

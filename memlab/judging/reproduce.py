"""What a study needs here: its experiments, the stored runs that answer, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from memlab import experiments, published
from memlab.experiment import Experiment
from memlab.experiments import UnknownExperiment
from memlab.judging.claims import Judged, judge
from memlab.observe import environment
from memlab.results import Run
from memlab.results.beside import Beside, tables
from memlab.run import driver, plan
from memlab.run.admission import Refused
from memlab.run.driver import Prepared
from memlab.run.request import CannotRun, Interrupted, Request, Watch
from memlab.store import RunRow, Store

# A sign test along a curve of eight levels refutes nothing below nine blocks, and shows little
# below twenty (docs/statistics.md, Power); the preset's budget may end it sooner.
BLOCKS = 20


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be reproduced: experiments, and the tables of its sources that none declares."""

    experiments: Sequence[Experiment]
    not_built: Sequence[str]


@dataclass(frozen=True, slots=True)
class Reproduced:
    """One experiment's answer: its run with tables and judged claims, or why there is none."""

    experiment: Experiment
    run: Run | None
    tables: Sequence[Beside]
    judged: Sequence[Judged]
    refused: str = ""


def resolve(wanted: str) -> Target:
    """A source's id, an experiment's name, the unique start of either, or `all`.

    Raises UnknownExperiment with the nearest name.
    """
    declared = [experiments.load(name) for name in experiments.names()]
    if wanted == "all":
        return Target(declared, _not_built(declared, published.ids()))
    name = _unique([*published.ids(), *experiments.names()], wanted)
    if name in published.ids():
        about = [e for e in declared if any(source == name for source, _ in e.tables)]
        return Target(about, _not_built(declared, [name]))
    return Target([experiments.load(name)], [])


def requests(
    target: Target, preset: str, budget_s: float | None, directory: Path | None
) -> list[Request]:
    """A sweep for each experiment: blocks enough for its claims, within the preset's budget."""
    return [
        Request(
            experiment=experiment.name,
            preset=preset,
            blocks=BLOCKS,
            budget_s=experiment.budget_s[preset] if budget_s is None else budget_s,
            directory=None if directory is None else str(directory),
        )
        for experiment in target.experiments
    ]


def reproduce(request: Request, store: Store, watch: Watch, *, fresh: bool) -> Reproduced:
    """Judge the newest stored run that answers the request, measuring what it lacks.

    A run answers when it was taken on this machine, in the same directory, and holds every
    point of the request; one that was cut short goes on. `fresh` measures anew. A host that
    cannot carry the request is an answer too. Raises Interrupted.
    """
    try:
        prepared = driver.prepare(request)
        row = None if fresh else _newest(store, prepared)
        if row is None:
            row = driver.sweep(prepared, store, watch)
        elif _cut_short(store, row):
            driver.resume(row, store, watch, request.budget_s)
    except Interrupted as interrupted:
        interrupted.args = (f"{interrupted}; the same command goes on with run {interrupted.run}",)
        raise
    except (Refused, CannotRun) as error:
        return Reproduced(experiments.load(request.experiment), None, (), (), str(error))
    return of_run(Run(row, store.path))


def of_run(run: Run) -> Reproduced:
    """A stored run's tables and judged claims. Nothing is measured."""
    return Reproduced(run.experiment, run, tuple(tables(run)), judge(run))


def _unique(names: Sequence[str], wanted: str) -> str:
    matches = [name for name in names if name == wanted] or [
        name for name in names if name.startswith(wanted)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UnknownExperiment(f"{wanted!r} fits {', '.join(matches)}; write one of them")
    near = get_close_matches(wanted, [*names, "all"], n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join([*names, 'all'])}"
    raise UnknownExperiment(f"no study or experiment {wanted!r}; {hint}")


def _not_built(declared: Sequence[Experiment], sources: Sequence[str]) -> list[str]:
    """Printed tables that no experiment declares, a line each."""
    built = {table for e in declared for table in e.tables}
    return [
        f"{source}, table {table.id!r} ({table.title}): not built: no experiment declares it"
        for source in sources
        for table in published.load(source).tables.values()
        if (source, table.id) not in built
    ]


def _newest(store: Store, prepared: Prepared) -> RunRow | None:
    """The newest run of this experiment, machine and directory that holds every point."""
    here = environment.read()
    needed = {plan.key(point.at) for point in prepared.plan.points}
    for row in reversed(store.runs()):
        if (
            row.experiment == prepared.experiment.name
            and row.request.get("directory") == prepared.request.directory
            and needed <= {plan.key(point.levels) for point in store.points(row.id)}
            and not environment.unlike(row.environment, here)
        ):
            return row
    return None


def _cut_short(store: Store, row: RunRow) -> bool:
    """Whether the run's last session ended before its own stop rule or budget did."""
    sessions = store.sessions(row.id)
    return not sessions or sessions[-1].ended in (None, "interrupted", "failed")

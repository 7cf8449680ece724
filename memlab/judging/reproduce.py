"""A published study: the experiments that it takes, and their runs judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memlab import experiments, published
from memlab.errors import UnknownExperiment, nearest, there_are
from memlab.experiment import Experiment
from memlab.judging.claims import Judged, judge
from memlab.results import Run
from memlab.results.beside import Beside, tables


@dataclass(frozen=True, slots=True)
class Study:
    """What is to be reproduced: experiments, and the tables of its sources that none declares."""

    name: str
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


def resolve(wanted: str) -> Study:
    """A source's id, an experiment's name, the unique start of either, or `all`.

    Raises UnknownExperiment with the nearest name.
    """
    declared = [experiments.load(name) for name in experiments.names()]
    if wanted == "all":
        return Study(wanted, declared, _not_built(declared, published.ids()))
    name = _unique([*published.ids(), *experiments.names()], wanted)
    if name in published.ids():
        about = [e for e in declared if any(source == name for source, _ in e.tables)]
        return Study(name, about, _not_built(declared, [name]))
    return Study(name, [experiments.load(name)], [])


def only(study: Study, table: str) -> Study:
    """The same of one printed table, by its id: `5`. Raises UnknownExperiment."""
    sources = [item for item in published.ids() if item == study.name]
    if not sources:
        raise UnknownExperiment(f"--table {table}: {study.name} is not a study; it has no tables")
    known = published.load(study.name).tables
    if table not in known:
        raise UnknownExperiment(f"{study.name} has no table {table!r}; {there_are(known)}")
    about = [e for e in study.experiments if (study.name, table) in e.tables]
    if not about:
        raise UnknownExperiment(
            f"{study.name}, table {table!r} ({known[table].title}): no experiment measures it"
        )
    return Study(study.name, about, [])


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
    hint = nearest(wanted, [*names, "all"], "`memlab list` lists them")
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

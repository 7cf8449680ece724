"""The Python face: measure, and read what was measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memlab import experiments, recorded, results
from memlab.experiment import Level
from memlab.run import driver, plan
from memlab.run.request import Progress, Request
from memlab.store import RunRow, Store, default_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Run", "load", "sweep"]


class Run(results.Run):
    """A stored run that can be looked at: `frame`, `summary()`, `plot()`, or itself in Jupyter."""

    def plot(self) -> Figure:
        """The experiment's figure of this run."""
        from memlab.present import figures

        return figures.draw(self)

    def _repr_html_(self) -> str:
        from memlab.present import html

        return html.run(self)


def sweep(
    experiment: str,
    *,
    preset: str = "quick",
    controls: bool = True,
    blocks: int | None = None,
    precision: float = 0.02,
    budget: float | None = None,
    seed: int | None = None,
    cpus: Sequence[int] = (),
    directory: str | Path | None = None,
    store: str | Path | None = None,
    name: str | None = None,
    **levels: Level | Sequence[Level],
) -> Run:
    """Measure an experiment and return the stored run.

    `levels` are factors of the experiment: one level or a list, as values or as text
    ("4k"). Budget in seconds; precision is the relative half-width of each median's
    interval at which a point is done. Raises what a bad name, level or host raises, with a
    one-line message; Ctrl-C raises run.request.Interrupted, with the run's id.
    """
    declared = experiments.load(experiment)
    request = Request(
        experiment=experiment,
        preset=preset,
        levels=plan.check_levels(declared, levels),
        controls=controls,
        blocks=blocks,
        precision=precision,
        budget_s=budget,
        seed=seed,
        cpus=list(cpus),
        directory=None if directory is None else str(directory),
        name=name,
    )
    prepared = driver.prepare(request)
    path = Path(store) if store else default_path()
    with Store(path, create=True) as opened:
        row = driver.sweep(prepared, opened, Silent())
    return Run(row, path)


def load(run: str = "last", *, store: str | Path | None = None, example: bool = False) -> Run:
    """A stored run by its id, the start of it, its name, or `last`; with `example`, the recorded
    run of the experiment that `run` names, which ships with memlab."""
    if example:
        store, run = recorded.store(run), "last"
    path = Path(store) if store else default_path()
    with Store(path) as opened:
        return Run(opened.find(run), path)


class Silent:
    """A watch that says nothing but what the user has to know."""

    def warned(self, line: str) -> None:
        sys.stderr.write(f"memlab: {line}\n")

    def started(self, run: RunRow, points: Sequence[plan.Point], taken: int) -> None:
        pass

    def sampled(self, progress: Progress) -> None:
        pass

    def ended(self, reason: str) -> None:
        pass

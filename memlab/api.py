"""The Python face: measure, and read what was measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from memlab import experiments, recorded, results
from memlab.experiment import Level
from memlab.run import driver, plan
from memlab.run.prepare import check_plan
from memlab.run.request import BadRequest, Progress, Request
from memlab.run.target import Target
from memlab.store import RunRow, Store, default_path
from memlab.targets.guest.handle import Guest

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Guest", "Run", "load", "sweep"]


class Run(results.Run):
    """A stored run that can be looked at: `frame`, `summary()`, `claims()`, `compare()`, `plot()`,
    or itself in Jupyter."""

    @property
    def figures(self) -> list[str]:
        """The names of its figures; "" is the experiment's first one."""
        from memlab.present import figures

        return figures.names(self)

    def plot(self, name: str = "") -> Figure:
        """A figure of this run, by its name among `figures`; KeyError where there is none."""
        from memlab.present import figures

        return figures.draw(self, name)

    def claims(self) -> pd.DataFrame:
        """One row a claim and setting: the verdict, the estimate with its 95 % interval (in the
        claim's own unit), the samples a point, and the evidence in words."""
        import pandas as pd

        from memlab.judging import claims

        judged = [claims.as_data(one) for one in claims.judge(self)]
        kept = ["claim", "verdict", "low", "estimate", "high", "n", "evidence", "published"]
        rows = [{name: one[name] for name in kept} | one["setting"] for one in judged]
        return pd.DataFrame.from_records(rows)

    def compare(
        self,
        base: results.Run | Path | Mapping[str, Level],
        *,
        threshold: float = 0.05,
        force: bool = False,
    ) -> pd.DataFrame:
        """One row a point that both sides hold: the base, this run, the ratio this / base with its
        95 % interval, and the word: slower, faster, same or inconclusive.

        `base` is a run, a file that `memlab export` wrote, or levels of this run's factors, such
        as {"library": "old.so"}: its other points are then compared with those, block by block.
        Raises CannotRun where the machines are unlike, unless forced.
        """
        import pandas as pd

        from memlab.judging.compare import compare_runs
        from memlab.judging.compare_levels import compare_levels
        from memlab.present import comparison

        if isinstance(base, Mapping):
            compared = compare_levels(self, base, threshold=threshold)
        else:
            compared = compare_runs(base, self, threshold=threshold, force=force)
        points = comparison.as_data(compared)["points"]
        kept = ["word", "base", "new", "ratio", "ratio_low", "ratio_high", "n"]
        rows = [point["levels"] | {name: point[name] for name in kept} for point in points]
        return pd.DataFrame.from_records(rows)

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
    guest: Guest | None = None,
    **levels: Level | Sequence[Level],
) -> Run:
    """Measure an experiment and return the stored run.

    `levels` are factors of the experiment: one level or a list, as values or as text
    ("4k"). Budget in seconds; precision is the relative half-width of each median's
    interval at which a point is done; `guest` is where trials run, else this host. Raises
    what a bad name, level or host raises, with a one-line message; Ctrl-C raises
    run.request.Interrupted, with the run's id.
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
    path = Path(store) if store else default_path()
    with _target(request, guest) as target:
        prepared = target.prepare(request)
        with Store(path, create=True) as opened:
            row = driver.sweep(prepared, opened, Silent(), target)
    return Run(row, path)


@contextmanager
def _target(request: Request, guest: Guest | None) -> Iterator[Target]:
    if guest is None:
        yield driver.HERE
        return
    if request.directory is not None:
        raise BadRequest("a guest has a disk of its own: Guest(directory=) says where it lies")
    check_plan(request)
    with guest.open() as opened:
        yield opened


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

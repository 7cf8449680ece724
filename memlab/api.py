"""The Python face: measure, and read what was measured."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, TypeVar

from memlab import experiments, recorded, results
from memlab.errors import BadRequest, Busy, UnknownRun, nearest
from memlab.experiment import Level
from memlab.experiment.figures import Choice
from memlab.experiment.levels import check_levels
from memlab.request import OPTIONS, Request
from memlab.request.table import SECONDS
from memlab.results import rows_file
from memlab.store import Store, default_path

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from memlab.present.documents.describe import Describe
    from memlab.run.target import Place

__all__ = [
    "Run",
    "describe",
    "doctor",
    "list_experiments",
    "list_runs",
    "load",
    "sweep",
]


Face = TypeVar("Face", bound=Callable[..., Any])


def parameters_of(declared: type) -> list[inspect.Parameter]:
    """A dataclass's fields as parameters by keyword."""
    return [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(declared).parameters.values()
    ]


def taking(
    parameters: Sequence[inspect.Parameter], *, keeping: bool = False
) -> Callable[[Face], Face]:
    """Give a function a signature with these in the place of its `**`, or before it, `keeping`."""

    def decorated(function: Face) -> Face:
        signature = inspect.signature(function)
        names = list(signature.parameters.values())
        last = [name for name in names if name.kind is inspect.Parameter.VAR_KEYWORD]
        first = [name for name in names if name not in last]
        result = signature.replace(parameters=[*first, *parameters, *(last if keeping else ())])
        function.__signature__ = result  # type: ignore[attr-defined]
        return function

    return decorated


class Run(results.Run):
    """A stored run that can be looked at: `frame`, `summary()`, `claims()`, `compare()`, `plot()`,
    or itself in Jupyter."""

    @property
    def figures(self) -> list[str]:
        """The names of its figures; "" is the experiment's first one."""
        from memlab.present import figures

        return figures.names(self)

    @taking(parameters_of(Choice))
    def plot(self, name: str = "", **chosen: Any) -> Figure:
        """A figure of this run, by its name among `figures`; BadRequest where there is none. With
        any of the others a figure of your choice: a metric over the factor `x`, a line or bar
        for each level of `series`, a panel for each of `panels`, the points with levels `where`;
        with `samples` every sample beside its point's median, a row per point; with `against`
        the ratio to another run or to several, or to runs in files of rows."""
        from memlab.present import figures

        choice = Choice(**chosen)
        if not choice.given:
            if name not in self.figures:
                known = list(filter(None, self.figures)) or ["none but the first"]
                hint = nearest(str(name), known)
                raise BadRequest(f"{self.experiment.name} has no figure {name!r}; {hint}")
            return figures.draw(self, name)
        bases = choice.against
        bases = (bases,) if isinstance(bases, results.Run | Path) else bases
        with ExitStack() as closing:
            request = replace(
                choice,
                where=check_levels(self.experiment, choice.where or {}),
                against=[closing.enter_context(self._base(base)) for base in bases],
            )
            return figures.draw(figures.chosen(self, request))

    def claims(self) -> pd.DataFrame:
        """One row a claim and setting: the verdict, the estimate with its 95 % interval (in the
        claim's own unit), the samples a point, and the evidence in words."""
        import pandas as pd

        from memlab.judging import claims
        from memlab.present.documents import plain
        from memlab.present.documents.claims import JudgedClaim

        judged = plain([JudgedClaim.made_of(item) for item in claims.judge(self)])
        columns = [
            "id",
            "text",
            "verdict",
            "low",
            "estimate",
            "high",
            "n",
            "evidence",
            "published",
        ]
        rows = [{name: item[name] for name in columns} | item["levels"] for item in judged]
        return pd.DataFrame.from_records(rows)

    def compare(
        self,
        base: results.Run | Path | Mapping[str, Level],
        *,
        threshold: float = 0.05,
        force: bool = False,
    ) -> pd.DataFrame:
        """One row a point that both sides hold: the base, this run, the ratio this / base with its
        95 % interval, and the verdict: slower, faster, same or inconclusive.

        `base` is a run, a file of rows (`memlab export --format rows`), or levels of this run's
        factors, such as {"library": "old.so"}: its other points are then compared with those,
        block by block. Raises CannotRun where the machines are unlike, unless forced.
        """
        import pandas as pd

        from memlab.judging.compare import compare_runs
        from memlab.judging.compare_levels import compare_levels
        from memlab.present.documents import plain
        from memlab.present.documents.compare import Compare

        if isinstance(base, Mapping):
            compared = compare_levels(self, base, threshold=threshold)
        else:
            with self._base(base) as before:
                compared = compare_runs(before, self, threshold=threshold, force=force)
        points = plain(Compare.made_of(compared))["points"]
        rows = [
            point["levels"]
            | {name: point[name] for name in ("verdict", "base", "new")}
            | {
                f"ratio_{end}".removesuffix("_estimate"): point["ratio"][end]
                for end in ("estimate", "low", "high")
            }
            | {"n": point["ratio"]["n"]}
            for point in points
        ]
        return pd.DataFrame.from_records(rows)

    @contextmanager
    def _base(self, base: results.Run | Path) -> Iterator[results.Run]:
        if not isinstance(base, Path):
            yield base
            return
        with rows_file.opened(base, self) as stored:
            yield stored

    def _repr_html_(self) -> str:
        from memlab.present import report

        return report.notebook(self)


def asking(command: str, *more: inspect.Parameter) -> Callable[[Face], Face]:
    """Give a function the signature and the documentation of the options that a command takes,
    after parameters of its own beside those that it names."""
    options = [option for option in OPTIONS if command in option.on]
    among = [
        inspect.Parameter(
            option.python,
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=option.kind.python + (" | None" if option.default is None else ""),
        )
        for option in options
    ]

    def decorated(function: Face) -> Face:
        function = taking([*more, *among], keeping=True)(function)
        wrapped = TextWrapper(96, subsequent_indent=" " * 4)
        text = "\n".join(wrapped.fill(f"{option.python}: {option.doc}") for option in options)
        written = inspect.cleandoc(function.__doc__ or "")  # Python 3.13 has taken the indent off
        function.__doc__ = written.replace("{asked}", text)
        return function

    return decorated


def read(command: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is asked by the options that a command takes, by Request's fields; and all else."""
    options = {option.python: option for option in OPTIONS if command in option.on}
    requests = {
        options[name].field: options[name].read(value)
        for name, value in given.items()
        if name in options
    }
    return requests, {name: value for name, value in given.items() if name not in options}


@asking("sweep")
def sweep(
    experiment: str,
    *,
    store: str | Path | None = None,
    guest: Place | None = None,
    progress: bool | None = None,
    wait_for_others: float | str = 0,
    **levels: Any,
) -> Run:
    """Measure an experiment and return the stored run.

        run = memlab.sweep("mmap-write", size=[1, "4k"], method="mmap", budget="10s")

    experiment: a name of `list_experiments()`, or the path of a declaration: "./mlock_cost.py".
    store: the store's file; else memlab's own.
    guest: a virtual machine in which trials run; else this host.
    progress: a line per block on standard error; by default only in a notebook.
    wait_for_others: how long to wait until another memlab here is done, such as "10min".
    {asked}
    levels: factors of the experiment, one level or a list each, as values or as text: "4k".

    Raises UsageError for a wrong name, level or request, HostError where this host cannot, and
    Interrupted with the run's id on Ctrl-C; all are MemlabError, with a message of one line.
    """
    experiment = experiments.named(experiment)
    wanted, of_factors = read("sweep", levels)
    declared = experiments.load(experiment)
    request = Request(experiment, levels=check_levels(declared, of_factors), **wanted)
    return measured(request, store, guest, progress, wait_for_others)


def measured(
    request: Request,
    store: str | Path | None,
    guest: Place | None,
    progress: bool | None,
    wait_for_others: float | str | None = None,
) -> Run:
    """`wait_for_others`: None where the caller takes no such parameter."""
    from memlab import measure  # what measures: reading a run has no use for it
    from memlab.measure.progress import Live
    from memlab.run.watch import Silent

    path = _store(store)
    live = "ipykernel" in sys.modules if progress is None else progress
    watch = Live() if live else Silent()
    wait_s = of_seconds("wait_for_others", wait_for_others) or 0.0
    try:
        return Run(measure.sweep(request, path, watch, guest, wait_s), path)
    except Busy as busy:
        if wait_s or wait_for_others is None:
            raise
        raise Busy(busy.who, 'wait_for_others="10min"') from None


def of_seconds(name: str, value: float | str | None) -> float | None:
    """From 10, "10" or "10s"; `name` is the parameter's."""
    try:
        return None if value is None else SECONDS.read(value)
    except ValueError as error:
        raise BadRequest(f"{name}: {error}") from None


def _store(path: str | Path | None) -> Path:
    """The file of a store: the user's own where none is given."""
    if not isinstance(path, str | Path | None):
        raise BadRequest(f"store is a path, not {path!r}")
    return Path(path) if path else default_path()


def load(run: str = "last", *, store: str | Path | None = None) -> Run:
    """A stored run by its id, the start of it, its name, or `last`; `example:EXPERIMENT` is the
    recorded run of an experiment, which ships with memlab."""
    if not isinstance(run, str):
        raise UnknownRun(f"a run is its id, its name or 'last', as text, not {run!r}")
    if run.startswith(recorded.PREFIX):
        store, run = recorded.store(run), "last"
    path = _store(store)
    with Store(path) as opened:
        return Run(opened.find(run), path)


def list_experiments() -> pd.DataFrame:
    """One row per experiment: its name, question, and the studies whose claims it tests."""
    import pandas as pd

    names = [*experiments.names(), *experiments.packaged()]
    result = [experiments.load(name) for name in names]
    rows = [{"name": e.name, "question": e.question, "studies": e.sources} for e in result]
    return pd.DataFrame.from_records(rows)


def list_runs(*, store: str | Path | None = None) -> pd.DataFrame:
    """One row per stored run, newest last: run, experiment, name, created_at, samples, ended,
    machine. StoreError where there is no store."""
    import pandas as pd

    from memlab.present.documents import plain
    from memlab.present.documents.lists import ListedRun

    with Store(_store(store)) as opened:
        rows = plain([ListedRun.made_of(item) for item in opened.listed()[0]])
    return pd.DataFrame.from_records(rows)


def describe(experiment: str) -> Describe:
    """What an experiment varies, times, needs and claims, as `memlab describe --json` has it.
    UnknownExperiment names the nearest name."""
    from memlab.present.documents.describe import Describe

    return Describe.made_of(experiments.load(experiments.named(experiment)))


def doctor() -> pd.DataFrame:
    """What this machine lets memlab measure, see and do: name, available, detail, remedy. The
    first rows are the experiments."""
    import pandas as pd

    from memlab import measure

    rows = [*measure.runs_here(), *measure.capabilities_here()]
    return pd.DataFrame.from_records(
        [{f: getattr(item, f) for f in ("name", "available", "detail", "remedy")} for item in rows]
    )

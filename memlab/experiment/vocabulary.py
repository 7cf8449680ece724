"""The words an experiment is declared in: factors, metrics, published rows, costs.

An experiment is data. What reads it: list and describe (all of it), the plan
(factors, excludes, controls, cost), the worker (probe, file), show (metrics),
plot (figure), reproduce and claims (published, claims, controls).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memlab.experiment.claims import Claim, Explanation
from memlab.experiment.factor import Factor
from memlab.experiment.figures import Against, Figure
from memlab.experiment.host import Host
from memlab.experiment.kinds import At, Level
from memlab.printable import printable

Raw = Mapping[str, Any]  # what the probe returned, its window included
Levels = Mapping[str, Any]  # `At`, or the levels of many samples at once, as arrays

PRESETS = ("quick", "paper", "full")


@dataclass(frozen=True, slots=True)
class Metric:
    """A number derived from a sample when it is read. Base units: s, B, 1/s, or a count.

    `help` begins with what an axis says of it; what else there is to say follows a semicolon.
    """

    name: str
    unit: str
    help: str
    of: Callable[[Raw, Levels], float | None]
    lower_is_better: bool = True
    floor: Callable[[Raw, Levels], float | None] | None = (
        None  # the same loop without the operation
    )
    extrapolated: Callable[[Raw, Levels], bool] | None = (
        None  # is this value more than was measured?
    )
    evidence: Callable[[Raw, At], str] | None = None  # the lines of /proc that it was read from
    # What a cost by the model (CostTerms) is in this metric; a level of the point may lie between
    # those measured.
    of_cost: Callable[[float, At], float] | None = None
    # Why no machine of this environment has the metric; "" where that is not known.
    lacks: Callable[[Mapping[str, Any]], str] = lambda _: ""

    @property
    def label(self) -> str:
        """On an axis."""
        return self.help.partition(";")[0]


@dataclass(frozen=True, slots=True)
class Exclude:
    """Points that make no sense, and why."""

    when: Callable[[At], bool]
    why: str


@dataclass(frozen=True, slots=True)
class Control:
    """Points beside the grid that separate the published explanation from its rivals.

    `levels` replaces those factors' levels; the others keep the sweep's own.
    """

    name: str
    why: str
    levels: Mapping[str, Sequence[Level]]
    presets: Sequence[str] = PRESETS
    explanations: Sequence[Explanation] = ()  # that its points confirm or refute

    @property
    def description(self) -> str:
        """What is measured, and what it is to show."""
        clauses = dict.fromkeys(one.confirmed for one in self.explanations)
        tested = ", and whether ".join(clauses)
        return f"{self.why} Tests whether {tested}." if tested else self.why


def control(
    name: str,
    why: str,
    levels: Mapping[str, Level | Sequence[Level]],
    *explanations: Explanation,
    presets: Sequence[str] = PRESETS,
) -> Control:
    """A control with its explanations. A factor that is given one level instead of a list is held
    at it, by the predictions too unless they name that factor themselves."""
    held: dict[str, Level] = {}
    every: dict[str, Sequence[Level]] = {}
    for factor, given in levels.items():
        if isinstance(given, str | int | float):
            held[factor], every[factor] = given, [given]
        else:
            every[factor] = given
    return Control(name, why, every, presets, [one.held(held) for one in explanations])


@dataclass(frozen=True, slots=True)
class File:
    """The file a trial works on; the probe's `path`. The names are the factors that shape it. Where
    it is not `timed`, no metric is a time, and what a first touch of memory costs is no matter."""

    filesystem: str = "filesystem"
    state: str = "file_state"
    size: str = "file_size"
    timed: bool = True

    @property
    def factors(self) -> tuple[str, ...]:
        return (self.filesystem, self.state, self.size)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a point needs beside its file, so that it can be refused first. Bytes, seconds."""

    memory: Callable[[At], int] = lambda _: 0
    time: Callable[[At], float] = lambda _: 0.05
    limit_s: float | None = None  # a trial is killed then; None: by ten times its time


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of this machine that a control measures, to hold printed numbers against."""

    control: str
    metric: str  # the metric that the control measures, higher is faster
    implied: Callable[[float], float]  # a published value as that metric
    what: str


@dataclass(frozen=True, slots=True)
class Published:
    """Where a published table lies in this experiment: its columns as points.

    A printed row is a level of the factor that the table's rows are; `rows` says which point it
    is where they are something else ("20GB"), and then holds every printed row. `ratios` are the
    printed columns that divide one of `columns` by another: (of, to).
    """

    source: str
    table: str
    metric: str
    columns: Mapping[str, At]
    note: str = ""
    limit: Limit | None = None
    rows: Mapping[Level, At] = field(default_factory=dict)
    ratios: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def row(self, rows_are: str, level: Level) -> At:
        """The levels that a printed row stands for."""
        return self.rows[level] if self.rows else {rows_are: level}


@dataclass(frozen=True, slots=True)
class CostTerm:
    """One term of a cost: how often it is paid in a sample; its constant is what is fitted."""

    name: str  # what one is: a call, a byte, a fault
    count: Callable[[Raw, Levels], float]


@dataclass(frozen=True, slots=True)
class CostTerms:
    """A metric as a sum of terms, fitted for each combination of the `by` factors.

    A term that the points cannot tell from those before it is left out, and that is said.
    A figure of lines draws the model where its metric says what a cost is in it (`of_cost`).
    """

    metric: str
    by: Sequence[str]
    over: str  # the factor whose levels are held out of the fit in turn, to check it
    terms: Sequence[CostTerm]
    where: At = field(default_factory=dict)  # the points it is about


@dataclass(frozen=True, slots=True)
class Attribution:
    """That an experiment's control traces: what its operations are, and what tracing may cost.

    `overhead` names the metrics whose ratio, traced to not, is the price; a traced point is
    compared with the point that differs in `trace` alone.
    """

    operations: str  # in the plural: "touches"
    overhead: Sequence[str]
    control: str = "traced"


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment. The module's name in memlab/experiments is its registration."""

    name: str
    question: str
    probe: str
    factors: Sequence[Factor]
    metrics: Sequence[Metric]  # the first one is the one that the stop rule watches
    cost: Cost
    figure: Figure
    more_figures: Mapping[str, Figure | Against] = field(default_factory=dict)
    tiny: Mapping[str, Sequence[Level]] = field(
        default_factory=dict
    )  # take milliseconds, for tests
    file: File | None = None
    excludes: Sequence[Exclude] = ()
    controls: Sequence[Control] = ()
    published: Sequence[Published] = ()
    judges: Mapping[str, Sequence[str]] = field(default_factory=dict)  # tables in words, by source
    claims: Sequence[Claim] = ()
    costs: CostTerms | None = None
    attribution: Attribution | None = None
    shrinks: str | None = None  # the factor that is halved where the host is too small
    host: Host = field(default_factory=Host)
    budget_s: Mapping[str, float] = field(
        default_factory=lambda: {"quick": 60.0, "paper": 600.0, "full": 1800.0}
    )
    home: str = ""  # the folder of its compiled probe, where that is not memlab's; never declared
    layouts: bool = True  # whether blocks take turns with the probe's layouts; never declared

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", [factor.of(self.probe) for factor in self.factors])

    @property
    def tables(self) -> set[tuple[str, str]]:
        """The printed tables, by source and id, that this experiment answers."""
        in_words = {(source, table) for source, ids in self.judges.items() for table in ids}
        return in_words | {(p.source, p.table) for p in self.published}

    @property
    def probe_file(self) -> str:
        """Where the probe is written, from the top of the source tree or as a path."""
        if self.home:
            return f"{self.home}/probe_sources/{self.probe}.c"
        module = f"python_probes/{self.probe}.py"
        written_in_python = (Path(__file__).parents[1] / module).exists()
        return f"memlab/{module}" if written_in_python else f"probes/{self.probe}.c"

    @property
    def sources(self) -> list[str]:
        """The studies, by id, whose tables this experiment answers."""
        return sorted({source for source, _ in self.tables})

    @property
    def declared_from(self) -> Mapping[str, Any] | None:
        """What its declaration is made of, where no module has it: a user's command."""
        return None

    def factor(self, name: str) -> Factor:
        return next(f for f in self.factors if f.name == name)

    def metric(self, name: str) -> Metric:
        return next(m for m in self.metrics if m.name == name)

    @property
    def probe_factors(self) -> list[Factor]:
        """The factors that the probe itself takes; the rest shape the file or the host."""
        shaping = self.file.factors if self.file else ()
        own = {self.file.size} if self.file else set()
        return [f for f in self.factors if not f.host and (f.name not in shaping or f.name in own)]

    @property
    def host_params(self) -> list[str]:
        """The probe's params that no factor is, but that name what the host made for the trial:
        the file, a folder on tmpfs and the cgroup's folder ("" where the point has none), QEMU's
        command line with the sign of a guest that has booted; memory kept back from the kernel."""
        given = {
            "path": self.file is not None,
            "folder": self.host.tmpfs is not None,
            "group": self.host.containment is not None and self.host.containment.pass_group,
            "command": self.host.virtual_machine is not None,
            "booted_sign": self.host.virtual_machine is not None,
            "reserved_fd": self.host.reserved is not None,
            "range_start_bytes": self.host.reserved is not None,
            "range_bytes": self.host.reserved is not None,
        }
        return [name for name, is_given in given.items() if is_given]

    def params(self, at: At, host: Mapping[str, Any]) -> dict[str, Any]:
        """The probe's params for a point; `host` holds at least its `host_params`."""
        own = {f.param: f.kind.to_field(at[f.name]) for f in self.probe_factors}
        return own | {name: host[name] for name in self.host_params}

    def describe_level(self, name: str, level: Level) -> str:
        return printable(self.factor(name).kind.format(level))

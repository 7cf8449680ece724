"""The words an experiment is declared in: factors, metrics, published rows, costs.

An experiment is data. What reads it: list and describe (all of it), the plan
(factors, excludes, controls, cost), the worker (probe, file), show (metrics),
plot (figure), reproduce and claims (published, claims, controls).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from memlab.errors import BadDeclaration
from memlab.experiment import rules
from memlab.experiment.claims import Claim, Decision, Explanation
from memlab.experiment.factor import Factor
from memlab.experiment.figures import Figure
from memlab.experiment.host import Host
from memlab.experiment.kinds import BYTES, COUNT, At, Level, params, result_fields
from memlab.experiment.metric import Metric, Reads
from memlab.experiment.window import WINDOW_METRICS
from memlab.files import python_probes
from memlab.text.printable import printable

PRESETS = ("quick", "paper", "full")


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
        clauses = dict.fromkeys(explanation.confirmed for explanation in self.explanations)
        tested = ", and whether ".join(clauses)
        return f"{self.why} Tests whether {tested}." if tested else self.why

    def with_defaults(self, plain: Mapping[str, Level]) -> Control:
        """Its predictions at plain levels, but for factors whose levels it replaces."""
        rest = {name: level for name, level in plain.items() if name not in self.levels}
        return replace(
            self,
            explanations=[explanation.with_defaults(rest) for explanation in self.explanations],
        )


def control(
    name: str,
    why: str,
    levels: Mapping[str, Level | Sequence[Level]],
    *explanations: Explanation,
    presets: Sequence[str] = PRESETS,
) -> Control:
    """A control with its explanations. A factor that is given one level instead of a list is held
    at it, by the predictions too unless they name that factor themselves."""
    fixed: dict[str, Level] = {}
    every: dict[str, Sequence[Level]] = {}
    for factor, value in levels.items():
        if isinstance(value, str | int | float):
            fixed[factor], every[factor] = value, [value]
        else:
            every[factor] = value
    return Control(
        name,
        why,
        every,
        presets,
        [explanation.with_defaults(fixed) for explanation in explanations],
    )


@dataclass(frozen=True, slots=True)
class File:
    """The file a trial works on; the probe's `path`. The names are the factors that shape it. If it
    is not `timed`, no metric is a time, and what a first touch of memory costs does not matter."""

    filesystem: str = "filesystem"
    state: str = "file_state"
    size: str = "file_size"
    timed: bool = True

    @property
    def factors(self) -> tuple[str, ...]:
        return (self.filesystem, self.state, self.size)


def _short_s(_: At) -> float:
    """A trial of which no time is declared."""
    return 0.05


@dataclass(frozen=True, slots=True)
class Cost:
    """What a point needs beside its file, so that it can be refused first. Bytes, seconds."""

    memory: Callable[[At], int] = lambda _: 0
    time: Callable[[At], float] = _short_s
    limit_s: float | None = None  # a trial is killed then; None: by ten times its time
    reference: Callable[[At], bool] = lambda _: False
    """Whether trials of a point take as long as others should; `params` is given the longest."""

    @property
    def declares_time(self) -> bool:
        return self.time is not _short_s


@dataclass(frozen=True, slots=True)
class MachineLimit:
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
    printed columns that divide one of `columns` by another: (of, to). `share_of` is the printed
    quantity that the cells are a share of, where the metric is one.
    """

    source: str
    table: str
    metric: str
    columns: Mapping[str, At]
    note: str = ""
    limit: MachineLimit | None = None
    rows: Mapping[Level, At] = field(default_factory=dict)
    ratios: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    share_of: str = ""

    def row(self, rows_are: str, level: Level) -> At:
        """The levels that a printed row stands for."""
        return self.rows[level] if self.rows else {rows_are: level}


@dataclass(frozen=True, slots=True)
class CostTerm:
    """One term of a cost: how often it is paid in a sample; its constant is what is fitted."""

    name: str  # what one is: a call, a byte, a fault
    count: Reads | float


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

    def with_defaults(self, levels: Mapping[str, Level]) -> CostTerms:
        """The same where these levels are held, but for factors that it names itself."""
        names = {self.over, *self.by}
        rest = {name: level for name, level in levels.items() if name not in names}
        return replace(self, where={**rest, **self.where})


@dataclass(frozen=True, slots=True)
class Attribution:
    """That an experiment's control traces: what its operations are, and what tracing may cost.

    `overhead` names the metrics whose ratio, traced to not, is the price; a traced point is
    compared with the point that differs only in `trace`.
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
    more_figures: Mapping[str, Figure] = field(default_factory=dict)
    tiny: Mapping[str, Sequence[Level]] = field(
        default_factory=dict
    )  # take milliseconds, for tests
    file: File | None = None
    excludes: Sequence[Exclude] = ()
    controls: Sequence[Control] = ()
    published: Sequence[Published] = ()
    judges: Mapping[str, Sequence[str]] = field(default_factory=dict)  # tables in words, by source
    claims: Sequence[Claim] = ()
    changes: Sequence[Claim] = ()  # what changelogs claim, each `since` a version: for `ladder`
    so: Sequence[Decision] = ()  # what a reader may decide by its claims
    costs: CostTerms | None = None
    attribution: Attribution | None = None
    shrinks: str | None = None  # the factor that is halved where the host is too small
    host: Host = field(default_factory=Host)
    # Whether a point's window may be taken in turns: its probe has `turns` in its result.
    turns: Callable[[At], bool] | None = None
    budget_s: Mapping[str, float] = field(
        default_factory=lambda: {"quick": 60.0, "paper": 600.0, "full": 1800.0}
    )
    home: str = ""  # the folder of its compiled probe, where that is not memlab's; never declared
    # The module whose `open_points` chooses what is measured next, where no claim does.
    search: str = ""
    layouts: bool = True  # whether blocks take turns with the probe's layouts; never declared

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", [factor.of(self.probe) for factor in self.factors])
        self._hold_plain()

    def _hold_plain(self) -> None:
        """Claims, predictions, answers and costs are of plain levels where they name no other."""
        plain = {f.name: f.plain for f in self.factors if f.plain is not None}
        if not plain:
            return
        fixed: dict[str, Any] = {
            "claims": [claim.with_defaults(plain) for claim in self.claims],
            "changes": [claim.with_defaults(plain) for claim in self.changes],
            "costs": self.costs and self.costs.with_defaults(plain),
            "controls": [part.with_defaults(plain) for part in self.controls],
            "figure": self.figure.with_defaults(plain),
            "more_figures": {
                name: part.with_defaults(plain) if isinstance(part, Figure) else part
                for name, part in self.more_figures.items()
            },
        }
        for name, value in fixed.items():
            object.__setattr__(self, name, value)

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
        return python_probes.paths().get(self.probe, f"probes/{self.probe}.c")

    @property
    def sources(self) -> list[str]:
        """The studies, by id, whose tables this experiment answers."""
        return sorted({source for source, _ in self.tables})

    @property
    def watched(self) -> list[str]:
        """The metrics that an answer begins with, where it is what each level changes; empty where
        claims are the answer."""
        return []

    def measures(self, outcome: str) -> bool:
        """Whether a trial that ended so measured something. How a probe was killed is measured."""
        return outcome not in ("unavailable", "error", "timeout")

    def only_outcome(self, at: At) -> str:
        """The reason why only the outcomes of a point are reported and its numbers are not; empty
        if they are."""
        return ""

    def least_judged(self, metric: Metric) -> float:
        """Below this a metric's values are too coarse to compare."""
        return 0.0

    @property
    def declared_from(self) -> Mapping[str, Any] | None:
        """What its declaration is made of, where no module has it: a user's command."""
        return None

    @property
    def starts_programs(self) -> bool:
        """Whether its probe starts programs of the user's."""
        return False

    @property
    def programs(self) -> Sequence[Path]:
        """Files of the user's that a run is about: once one is another, the run ends."""
        return []

    @property
    def copied(self) -> Sequence[Path]:
        """Files of the user's: the trials of a block read a copy of one of them, by `host["copy"]`,
        and blocks take turns with them."""
        return []

    def check_copy(self, source: Path, copy: Path, beside: int) -> None:
        """Whether the copy is what was asked for. Raises what says that it is not. `beside` is an
        open file of its own, empty at first, which trials read by `host["beside"]`."""

    def factor(self, name: str) -> Factor:
        """BadDeclaration where there is none of that name."""
        return rules.find("factor", name, self.factors)

    def metric(self, name: str) -> Metric:
        """BadDeclaration where there is none of that name; the window's are not among them."""
        return rules.find("metric", name, self.metrics)

    def combinations(
        self, levels: Mapping[str, Sequence[Level]]
    ) -> Iterator[tuple[At, str | None]]:
        """Every combination of these levels, and why it is excluded."""
        for combination in product(*levels.values()):
            at = dict(zip(levels, combination, strict=True))
            yield at, next((e.why for e in self.excludes if e.when(at)), None)

    def check(self) -> None:
        """Whether the declaration holds together, before anything is measured: every name that it
        gives is there, every level is one, every claim is about points that a preset measures.

        Raises BadDeclaration, one line that begins with the part that is wrong.
        """
        self._check_parts()
        points: list[At] = []
        for preset in PRESETS:
            with _part(f"preset {preset}"):
                points += self._check_preset(preset)
        scope = rules.DeclaredNames(self.factors, self.metrics, self.controls, points)
        self._check_claims(scope)
        self._check_figures(scope)
        self._check_printed(scope)

    def _check_parts(self) -> None:
        factors, metrics = [f.name for f in self.factors], [m.name for m in self.metrics]
        controls = [control.name for control in self.controls]
        if not factors or not metrics:
            raise BadDeclaration(f"no {'metric' if factors else 'factor'} is declared")
        window = [metric.name for metric in WINDOW_METRICS if metric.name not in metrics]
        # A factor, a metric and one of the window are columns of the same table.
        for names in ([*factors, *metrics, *window], controls):
            if twice := rules.repeated(names):
                raise BadDeclaration(f"the name {twice!r} is given twice")
        self._check_params()
        self._check_expressions()
        if self.file:
            for name in self.file.factors:
                with _part("file"):
                    self.factor(name)
            timed = [m.name for m in self.metrics if "s" in m.unit.split("/")]
            if timed and not self.file.timed:
                raise BadDeclaration(f"metric {timed[0]}: a time, of a file that is not timed")
        if self.shrinks:
            with _part("shrinks"):
                if self.factor(self.shrinks).kind not in (BYTES, COUNT):
                    raise BadDeclaration(f"{self.shrinks} is not a size or a count")

    def _check_params(self) -> None:
        """The factors and the host fill the probe's params, where the probe is written in C."""
        if (fields := params(self.probe)) is None:
            return
        by_param = {factor.param: factor for factor in self.probe_factors}
        for factor in by_param.values():
            with _part(f"factor {factor.name}"):
                rules.check_param(self.probe, factor, fields)
        for name in fields:
            if name not in by_param and name not in self.host_params:
                raise BadDeclaration(f"the param {name!r} of probe {self.probe} is not a factor's")

    def _check_expressions(self) -> None:
        """What metrics and terms of a cost read is there."""
        fields, factors = result_fields(self.probe), [factor.name for factor in self.factors]
        for metric in self.metrics:
            with _part(f"metric {metric.name}"):
                for of in (metric.of, metric.baseline_loop, metric.extrapolated):
                    rules.check_expression(of, factors, fields)
        for term in self.costs.terms if self.costs else ():
            with _part(f"cost of a {term.name}"):
                rules.check_expression(term.count, factors, fields)

    def _check_preset(self, preset: str) -> list[At]:
        """The preset's points."""
        levels = {factor.name: factor.levels(preset) for factor in self.factors}
        for name in self.tiny:
            with _part("tiny"):
                self.factor(name)
        for factor in self.factors:
            if not levels[factor.name]:
                raise BadDeclaration(f"factor {factor.name} has no level")
            plain = () if factor.plain is None else (factor.plain,)
            for level in (*levels[factor.name], *self.tiny.get(factor.name, ()), *plain):
                rules.check_level(factor, level)
        if self.budget_s.get(preset, 0) <= 0:
            raise BadDeclaration("it has no budget")
        points = {tuple(at.values()): at for at, why in self.combinations(levels) if why is None}
        if not points:
            raise BadDeclaration("every point is excluded")
        for control in self.controls:
            with _part(f"control {control.name}"):
                for name, replaced in control.levels.items():
                    for level in replaced:
                        rules.check_level(self.factor(name), level)
                if unknown := set(control.presets) - set(PRESETS):
                    raise rules.unknown("preset", min(unknown), PRESETS)
                if preset in control.presets:
                    beside = self.combinations({**levels, **control.levels})
                    more = {tuple(at.values()): at for at, why in beside if why is None}
                    if more.keys() <= points.keys() and preset != "full":
                        raise BadDeclaration("it adds no point to the grid")
                    points |= more
        for at in points.values():
            if self.cost.memory(at) < 0 or self.cost.time(at) <= 0:
                raise BadDeclaration(f"the cost of {dict(at)} is not positive")
        return list(points.values())

    def _check_claims(self, scope: rules.DeclaredNames) -> None:
        rules.check_ids([*self.claims, *self.changes])
        for decision in self.so:
            with _part("so"):
                rules.check_decision(decision, {claim.id: claim for claim in self.claims})
        for claim in [*self.claims, *self.changes]:
            with _part(f"claim {claim.id or repr(claim.text)}"):
                rules.check_claim(claim, scope)
        for control in self.controls:
            with _part(f"control {control.name}"):
                for explanation in control.explanations:
                    rules.check_claim(explanation.predicts, scope)
        if self.costs:
            with _part("costs"):
                self.metric(self.costs.metric)
                for name in (self.costs.over, *self.costs.by):
                    self.factor(name)
        if self.attribution:
            with _part("attribution"):
                scope.control(self.attribution.control)
                for name in self.attribution.overhead:
                    scope.metric(name)

    def _check_figures(self, scope: rules.DeclaredNames) -> None:
        ids = [claim.id for claim in self.claims]
        for name, figure in {"": self.figure, **self.more_figures}.items():
            with _part(f"figure {name}".strip()):
                rules.check_figure(figure, ids, scope)

    def _check_printed(self, scope: rules.DeclaredNames) -> None:
        """The printed tables are there, and their cells are points of this experiment."""
        for source, table in self.tables:
            with _part("published"):
                rules.printed_table(source, table)
        for declared in self.published:
            with _part(f"published {declared.source}, {declared.table}"):
                printed = rules.printed_table(declared.source, declared.table)
                self.metric(declared.metric)
                for row in printed.rows:
                    scope.levels(declared.row(printed.rows_are, row[printed.rows_are]))
                    for column, at in declared.columns.items():
                        scope.levels(at)
                        if column not in row:
                            raise rules.unknown("column", column, row)
                        printed.cell(row, column)
                if declared.limit:
                    scope.control(declared.limit.control)
                    self.metric(declared.limit.metric)

    @property
    def probe_factors(self) -> list[Factor]:
        """The factors that the probe itself takes; the rest shape the file or the host."""
        shaping = self.file.factors if self.file else ()
        names = {self.file.size} if self.file else set()
        return [
            f for f in self.factors if not f.host and (f.name not in shaping or f.name in names)
        ]

    @property
    def host_params(self) -> list[str]:
        """The probe's params that no factor is, but that name what the host made for the trial:
        the file, a folder on tmpfs and the cgroup's folder ("" where the point has none), QEMU's
        command line with the sign of a guest that has booted; memory reserved from the kernel."""
        values = {
            "path": self.file is not None,
            "folder": self.host.tmpfs is not None,
            "group": self.host.containment is not None and self.host.containment.pass_group,
            "command": self.host.virtual_machine is not None,
            "booted_sign": self.host.virtual_machine is not None,
            "reserved_fd": self.host.reserved is not None,
            "range_start_bytes": self.host.reserved is not None,
            "range_bytes": self.host.reserved is not None,
        }
        return [name for name, is_given in values.items() if is_given]

    def params(self, at: At, host: Mapping[str, Any]) -> dict[str, Any]:
        """The probe's params for a point; `host` holds at least its `host_params`."""
        params_of_factors = {f.param: f.kind.to_field(at[f.name]) for f in self.probe_factors}
        return params_of_factors | {name: host[name] for name in self.host_params}

    def describe_level(self, name: str, level: Level) -> str:
        return printable(self.factor(name).kind.format(level))


@contextmanager
def _part(name: str) -> Iterator[None]:
    """The part of a declaration that an error is in."""
    try:
        yield
    except BadDeclaration as error:
        raise BadDeclaration(f"{name}: {error}") from None

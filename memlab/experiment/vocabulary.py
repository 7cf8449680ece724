"""The words an experiment is declared in: factors, metrics, published rows, costs.

An experiment is data. What reads it: list and describe (all of it), the plan
(factors, excludes, controls, cost), the worker (probe, file), show (metrics),
plot (figure), reproduce and claims (published, claims, controls).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from memlab.experiment.claims import Claim, Explanation
from memlab.experiment.factor import Factor
from memlab.experiment.figures import Against, Figure
from memlab.experiment.kinds import Level

At = Mapping[str, Level]  # one point: the level of every factor
Raw = Mapping[str, Any]  # what the probe returned, its window included

PRESETS = ("quick", "paper", "full")


@dataclass(frozen=True, slots=True)
class Metric:
    """A number derived from a sample when it is read. Base units: s, B, 1/s, or a count."""

    name: str
    unit: str
    help: str
    of: Callable[[Raw, At], float | None]
    lower_is_better: bool = True
    floor: Callable[[Raw, At], float | None] | None = None  # the same loop without the operation
    extrapolated: Callable[[Raw, At], bool] | None = None  # is this value more than was measured?
    evidence: Callable[[Raw, At], str] | None = None  # the lines of /proc that it was read from
    # What a cost by the model (CostTerms) is in this metric; a level of the point may lie between
    # those measured.
    of_cost: Callable[[float, At], float] | None = None


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


@dataclass(frozen=True, slots=True)
class File:
    """The file a trial works on; the probe's `path`. The names are the factors that shape it."""

    filesystem: str = "filesystem"
    state: str = "file_state"
    size: str = "file_size"

    @property
    def factors(self) -> tuple[str, ...]:
        return (self.filesystem, self.state, self.size)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a point needs beside its file, so that it can be refused first. Bytes, seconds."""

    memory: Callable[[At], int] = lambda _: 0
    time: Callable[[At], float] = lambda _: 0.05


@dataclass(frozen=True, slots=True)
class Containment:
    """The memory cgroup that a trial runs in, and the swap it may use.

    `limit` is in bytes; None runs the trial outside of any group. Where the host offers no
    group, a trial that requires one is `unavailable`; others run without, since admission has
    seen that the host has room for them. Swap belongs to the run: made for it, journaled,
    removed when it ends.

    `depth` groups lie one inside the other, each with the limit, and the worker is in the
    innermost. `members` groups, named 0, 1, ..., lie beside one another in it, each with
    `member_limit`: then the worker stays outside, and the probe's processes enter them. A probe
    that is `told` finds the innermost group's folder in its param `group`, "" outside of any.

    `fresh` groups are made anew for each trial: what one arms in its group, such as a threshold,
    the kernel takes back long after the trial has ended.
    """

    limit: Callable[[At], int | None]
    swap: Callable[[At], str] = lambda _: "none"  # none, file, zram
    swap_bytes: int = 0  # the size of the swap area
    required: bool = True
    depth: Callable[[At], int] = lambda _: 1
    members: Callable[[At], int] = lambda _: 0
    member_limit: Callable[[At], int] = lambda _: 0
    told: bool = False
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Malloc:
    """Whose malloc the worker runs under, from its start on, and how it is set.

    `setting` is one of those that observe/allocators.py translates for the library's version.
    The probe must see for itself that malloc is that library's.
    """

    allocator: str  # glibc, jemalloc, tcmalloc, mimalloc, or other, which is named by its path
    setting: str = "default"
    library: str = ""  # its path; "" for the one that the dynamic linker finds


@dataclass(frozen=True, slots=True)
class VirtualMachine:
    """The virtual machine that a trial starts under QEMU. The probe finds QEMU's command line, a
    word a line, in its param `command`, and in `booted_sign` what the console says then.

    The guest of a kernel is an init that says one line and sleeps; without a kernel the firmware
    boots alone. A device is passed through where vfio-pci has one already.
    """

    memory_bytes: int
    mem_lock: bool = False  # QEMU's -overcommit mem-lock
    nic: str = "none"  # none, virtio, passed_through
    kernel: str | None = None  # a path, or FOUND: the newest in /boot


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
    count: Callable[[Raw, At], float]


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
    containment: Containment | None = None
    # That a trial may use, where the user names none: one, all, or how many.
    cpus: Literal["one", "all"] | Callable[[At], int] = "one"
    environ: Callable[[At], Mapping[str, str]] = lambda _: {}  # of the worker, from its start
    malloc: Callable[[At], Malloc] | None = None  # the worker's, where not the system's
    virtual_machine: Callable[[At], VirtualMachine] | None = None
    # Host file to its value; "+8" is 8 more than it was, for what others may use as well.
    settings: Callable[[At], Mapping[str, str]] = lambda _: {}
    # Bytes that a trial's own files take on tmpfs. The probe is told a folder of the run's for
    # them in its param `folder`, "" where the point needs none.
    tmpfs: Callable[[At], int] | None = None
    budget_s: Mapping[str, float] = field(
        default_factory=lambda: {"quick": 60.0, "paper": 600.0, "full": 1800.0}
    )

    @property
    def tables(self) -> set[tuple[str, str]]:
        """The printed tables, by source and id, that this experiment answers."""
        in_words = {(source, table) for source, ids in self.judges.items() for table in ids}
        return in_words | {(p.source, p.table) for p in self.published}

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

    def params(self, at: At) -> dict[str, Level]:
        """The probe's params for a point, without the file's path."""
        return {f.field: f.kind.to_field(at[f.name]) for f in self.probe_factors}

    def describe_level(self, name: str, level: Level) -> str:
        return self.factor(name).kind.format(level)

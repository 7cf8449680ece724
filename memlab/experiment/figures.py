"""What a figure shows, as data. What draws it is in present/figures, a module a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from memlab.experiment.claims import Explanation
from memlab.experiment.kinds import Level

Levels = Mapping[str, Level]


@dataclass(frozen=True, slots=True)
class Figure:
    """What every figure of a sweep has: a metric over a factor, its series, its panels.

    The tables of `show` read it as well: rows are the levels of `over`, columns those of `by`,
    one table a panel. `controls` names those whose points are drawn beside; None: all of them.

    The headline says what is found of `answers`, each at the points that its prediction names; else
    of the claims that `claims` names by their ids; else what its kind finds, or the claims of its
    metric.
    """

    metric: str
    over: str
    by: Sequence[str]
    panels: Sequence[str] = ()
    log: str = ""  # the axes that are logarithmic: "", "x", "y", "xy"
    controls: Sequence[str] | None = None
    claims: Sequence[str] = field(default=(), kw_only=True)
    answers: Sequence[Explanation] = field(default=(), kw_only=True)

    def with_defaults(self, levels: Levels) -> Self:
        """The same, its answers where these levels are held, but for those they name themselves."""
        return replace(self, answers=[answer.with_defaults(levels) for answer in self.answers])


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A figure of one's own: a metric over the factor `x`, a line or bar for each level of the
    factors `series`, a panel for each of `panels`, the points that have the levels `where`.
    With `samples` every sample beside its point's median instead, a row per point in that order.
    With `against` the ratio to each of these runs, a row per point that both have.

    What is not given is as in the run's first figure, as far as those factors are varied.
    """

    metric: str | None = None
    x: str | None = None
    series: Sequence[str] | None = None
    panels: Sequence[str] | None = None
    where: Mapping[str, Any] | None = None  # a list of levels a factor; in Python one level too
    samples: bool = False
    against: Any = ()  # runs; in Python one run too, and files of rows

    @property
    def given(self) -> bool:
        """Whether anything is."""
        choices = (self.metric, self.x, self.where, self.samples, self.against)
        return any(choices) or self.series is not None or self.panels is not None


@dataclass(frozen=True, slots=True)
class Lines(Figure):
    """A metric over a numeric factor: one line for each level of `by`, one panel for each
    combination of the `panels` factors; medians with intervals; published curves beside.

    `crossing` names two lines; the point where the first becomes the cheaper is ringed.
    `mark_caches` is how many times a level of `over` what is worked on takes in memory: marked
    is up to where that fits each of the machine's data caches. 0 marks none.
    """

    crossing: tuple[Levels, Levels] | None = None
    mark_page_size: bool = False
    mark_caches: int = 0


@dataclass(frozen=True, slots=True)
class Bars(Figure):
    """Grouped bars: a group for each level of `over`, a bar for each level of `by`; published
    values beside as crosses. Below, the log ratio of every other bar to the bar `base`,
    paired by block, with intervals, and the published ratio. `where` holds levels: grid points at
    others have no bar."""

    base: Levels | None = None
    where: Levels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Percentiles(Figure):
    """Percentile curves: latency over 50, 90, 99, 99.9 % ..., one curve for each level of
    `over` and `by`. `histogram` is the field of the raw sample that holds the histogram;
    histograms of a point's samples are merged. `where` holds levels: grid points at
    others have no curve."""

    histogram: str = ""
    where: Levels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Printed:
    """The column of a printed table in words that holds what was published of a point: the row
    whose cells are the words that `keys` has for the point's levels."""

    source: str
    table: str
    column: str
    keys: Mapping[str, Mapping[Level, str]]


@dataclass(frozen=True, slots=True)
class Matrix(Figure):
    """What happened, in words: a column a level of `over`, a row a combination of `by` and
    `panels`, controls too. In each cell the word for a sample, how many samples had it, the median
    of the metric, and what was published. `title` says what the words tell; with `counted` the one
    word of a cell has the number of its samples too. Rows with the levels `first` stand first."""

    title: str = "what happened"
    word: Callable[[Mapping[str, Any], Levels], str] = lambda raw, at: "ok"
    calm: Callable[[str], bool] = lambda word: True  # whether a word is nothing to mark
    printed: Printed | None = None
    counted: bool = False
    first: Levels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checks(Figure):
    """Exact checks: a row a level of `over`, what was expected and what was seen, and whether
    they agree, from the claims made there; the evidence in small print."""


@dataclass(frozen=True, slots=True)
class Timeline(Figure):
    """A quantity over the time of a trial: one panel for each level of `over` and combination of
    the `panels` factors, a line for each level of `by`. Both axes are linear and start at 0.

    `series` is the field of the raw sample that holds it, as support/series.h makes it; `quantity`
    is what it is, in words, and `unit` its unit as a metric's. `marks` is a field that holds events
    on it; with `moments` only their times count, and they are drawn where the line is then.
    `ended` is a flag that the quantity ended with its bearer. The trial drawn is the one whose
    metric is its point's median, the lower of two; the point's other trials lie behind it, pale.
    `limit` is a level of the quantity, and `limit_label` what it is, in the margin. Where a factor
    that is not named has several levels, the figure shows the one in `where`; a run that lacks it
    shows its own first one. The points of `controls` are drawn as the grid's are.
    """

    series: str = ""
    quantity: str = ""
    unit: str = "B"
    scale: float = 1.0  # a value of the series, times this, is in the unit
    marks: str = ""
    mark_label: str = ""
    moments: bool = False
    ended: str = ""
    ended_label: str = ""
    limit: Callable[[Levels], float | None] = lambda _: None
    limit_label: str = ""
    where: Levels = field(default_factory=dict)
    controls: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StripPlot(Figure):
    """Every sample of the metric as a share of its point's median: a row of dots a point, those of
    `panels` together, then of `over`, then of `by`, in the order in which they were taken."""


@dataclass(frozen=True, slots=True)
class Ratios(Figure):
    """The metric over that of other runs, the `bases`: a row a point and base, with its interval.
    `threshold` is the relative change that is too small to matter."""

    bases: Sequence[Any] = ()  # runs, or files that `memlab export` wrote
    threshold: float = 0.05


@dataclass(frozen=True, slots=True)
class Causes(Figure):
    """What slow operations met (Experiment.attribution): a bar a traced point, of its operations
    over p99 and over p99.9, divided by the main cause of each; what nothing explains is last."""

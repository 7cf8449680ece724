"""What a figure shows, as data. What draws it is in present/figures, a module a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from memlab.experiment.kinds import Level

Levels = Mapping[str, Level]


@dataclass(frozen=True, slots=True)
class Figure:
    """What every figure of a sweep has: a metric over a factor, its series, its panels.

    The tables of `show` read it as well: rows are the levels of `over`, columns those of `by`,
    one table a panel. `controls` names those whose points are drawn beside; None: all of them.
    """

    metric: str
    over: str
    by: Sequence[str]
    panels: Sequence[str] = ()
    log: str = ""  # the axes that are logarithmic: "", "x", "y", "xy"
    controls: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Lines(Figure):
    """A metric over a numeric factor: one line for each level of `by`, one panel for each
    combination of the `panels` factors; medians with intervals; published curves beside.

    `crossing` names two lines; the point where the first becomes the cheaper is ringed.
    """

    crossing: tuple[Levels, Levels] | None = None
    mark_page_size: bool = False


@dataclass(frozen=True, slots=True)
class Bars(Figure):
    """Grouped bars: a group for each level of `over`, a bar for each level of `by`; published
    values beside as open marks. Below, the log ratio of every other bar to the bar `base`,
    paired by block, with intervals, and the published ratio."""

    base: Levels | None = None


@dataclass(frozen=True, slots=True)
class Against:
    """A mechanism: what a ratio and a second metric do along a quantity derived from the point.

    Above, metric(of) / metric(to), paired by block, over `x` of every pair of points that differ
    in no other factor; below, `beside` of the points `of`. `mark` is a value of x with its name:
    where a mechanism predicts the turn. Points of a level of `by` share a sign.
    """

    metric: str
    of: Levels
    to: Levels
    x: Callable[[Mapping[str, Level]], float]
    x_label: str
    x_unit: str  # as of a metric: "B", "s", "1"
    beside: str
    by: str
    mark: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True)
class Nines(Figure):
    """Percentile curves: latency over 50, 90, 99, 99.9 % ..., one curve for each level of
    `over` and `by`. `histogram` is the field of the raw sample that holds the histogram;
    histograms of a point's samples are merged. `where` holds levels: grid points at
    others have no curve."""

    histogram: str = ""
    where: Levels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checks(Figure):
    """Exact checks: a row a level of `over`, what was expected and what was seen, and whether
    they agree, from the claims made there; the evidence in small print."""


@dataclass(frozen=True, slots=True)
class Causes(Figure):
    """What slow operations met (Experiment.attribution): a bar a traced point, of its operations
    over p99 and over p99.9, divided by the main cause of each; what nothing explains is last."""

"""What the commands of machines print with `--json`, as types."""

from __future__ import annotations

from typing import Any

from memlab.present.documents import (
    DateTime,
    Document,
    Levels,
    NonEmpty,
    Number,
    RunId,
    Share,
    ShownInterval,
    Word,
)


class FoundKernel(Document):
    """A kernel at hand."""

    version: str
    """Of its sources, as in 6.1.192; 6.12.117-16k where its pages are of 16 KiB."""
    machine: str
    """As uname says it: x86_64 or aarch64."""
    release: str | None
    """As the kernel names itself; null: the file is not a kernel that boots here."""
    released: str | None
    """The day; null: it does not say."""
    path: str
    why_not: str
    """Why it cannot boot as a guest; empty where it can."""
    without: str
    """What it boots without; empty where nothing is missing."""
    options: dict[str, str]
    """y, m or n for each option that matters here and that its configuration has."""


class KernelRuns(Document):
    """One kernel of a ladder."""

    kernel: FoundKernel
    runs: dict[str, str]
    """The id of its run, by experiment."""
    failed: list[str]
    """A line for each thing that could not be measured under it."""
    seconds: float
    """Of wall time, now; a run that the store had takes none."""
    boots: list[float]
    """Of wall time for each of its boots, in seconds."""


class LadderCell(Document):
    """What one kernel shows."""

    word: Word | None
    """null: the row is a metric."""
    value: float | None
    """The count or the median; null where the claim has none."""
    low: float | None
    """Of its 95 % interval, of a count the range seen."""
    high: float | None
    """The same."""


class Step(Document):
    """Two neighbouring kernels between which a row changes."""

    before: str
    since: str


class LadderRow(Document):
    """A claim at one setting, or a metric at one point, under each kernel."""

    experiment: str
    id: str
    """Of the claim, or the metric's name."""
    text: str
    at: Levels
    unit: str
    """Of the values: the base unit."""
    cells: dict[str, LadderCell]
    """By kernel version, the oldest first."""
    steps: list[Step]
    since: str | None
    """Of a changelog's claim the version that it names; it is to be contradicted before."""
    as_claimed: Word | None
    """The verdict on that step, by the kernels at hand; null without `since`."""


class Ladder(Document):
    """Claims on counts and outcomes under one kernel after another."""

    kernels: NonEmpty[KernelRuns]
    rows: NonEmpty[LadderRow]
    figure: str
    """The file's path."""
    seconds: float
    """Of wall time, now, for all of it."""
    guests: int
    """So many ran at once."""


class NewRun(Document):
    """A run that came from another host."""

    run: RunId
    experiment: str
    new_samples: Number
    """0: all of it was there already."""


class FromHost(Document):
    """What came from one host."""

    host: str
    runs: list[NewRun]
    wrong: str | None
    """Why not all of it came."""
    clock_ahead_s: float
    """How far its clock is ahead of this host's, as far as that shows."""


class HostsRun(Document):
    """A host's run, of several that are judged together."""

    host: str
    run: RunId
    machine: str
    """The processor and the kernel."""
    level: float | None
    """Of the first metric, to the median host's over the points that all have; null without one."""
    outlier: bool
    """Whether that level is an outlier among the hosts."""


class HostsClaim(Document):
    """A claim at one setting, on every host."""

    id: str
    text: str
    at: Levels
    verdicts: dict[str, Word]
    """By host."""


class TellingPart(Document):
    """A part of the environment that differs between hosts."""

    name: str
    values: dict[str, str]
    """By host."""
    explained: float
    """The share of the verdicts' entropy that it tells: 1 tells all."""
    p: Share
    """The share of shuffles that tell as much: a large one is chance."""


class Disagreement(Document):
    """A claim at one setting that some hosts reproduce and others contradict."""

    id: str
    at: Levels
    hosts: dict[str, list[str]]
    """By verdict, the larger group first."""
    outlier: str | None
    """The one host against three or more."""
    differences: list[TellingPart]
    """What tells the groups apart, the best first."""


class HostsClaims(Document):
    """The claims of one experiment on several hosts."""

    experiment: str
    hosts: NonEmpty[HostsRun]
    claims: list[HostsClaim]
    disagreements: list[Disagreement]


class HistoryRun(Document):
    """One run of a history."""

    run: RunId
    created_at: DateTime
    level: ShownInterval
    """To the typical run's: 1 is as the median run."""
    events: list[str]
    """What of the machine, of memlab or of the probe is another than at the run before."""


class Changed(Document):
    """A change between two runs of a history."""

    after: RunId
    """The last run before it, most likely."""
    earliest: RunId
    """The same, at 95 %."""
    latest: RunId
    """The same, at 95 %."""
    seen: RunId
    """The run that raised the alarm."""
    ratio: ShownInterval
    """Of the runs after it to those before it."""
    worse: bool


class RunHistory(Document):
    """The runs of one host over time, and when they changed."""

    experiment: str
    metric: str
    unit: str
    host: str | None
    """null: this one."""
    typical: float | None
    """The median run's value; null where several points are taken together."""
    rate: Share
    """Of machines on which nothing changes, so many show a change in 365 runs."""
    alarm: bool
    """Whether the newest run shows a change that the one before did not."""
    runs: NonEmpty[HistoryRun]
    """The oldest first."""
    changes: list[Changed]
    left_out: list[RunId]
    """Runs that lack a point or a value."""
    figure: str
    """The file's path."""


COMMANDS: dict[str, Any] = {
    "claims-hosts": HostsClaims,
    "history": RunHistory,
    "import": list[FromHost],
    "kernels": list[FoundKernel],
    "ladder": Ladder,
    "pull": list[FromHost],
    "sweep-on": list[FromHost],
    "try-on": list[FromHost],
}
"""By what `schema` takes."""

"""What comes from other hosts, and what several show of a claim, as `--json` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from msgspec import field

from memlab.present.documents import Document, Levels, NonEmpty, Number, RunId, Share, Word
from memlab.present.machine import machine_of

if TYPE_CHECKING:
    from memlab.machines.fleet.judge import HostRuns, Level, Split
    from memlab.machines.fleet.links import Result
    from memlab.machines.ladder.judge import KernelRow
    from memlab.store import RunRow


class NewRun(Document):
    """A run that came from another host."""

    run: RunId
    experiment: str
    samples: Number
    """That are new; 0 if all were there already."""


class FromHost(Document):
    """What came from one host."""

    host: str
    runs: list[NewRun]
    wrong: str | None = field(name="reason")
    """Why not all of it came."""
    clock_s: float = field(name="clock_ahead_s")
    """How far its clock is ahead of this host's, as far as that shows."""

    @classmethod
    def made_of(cls, found: Result, rows: Mapping[str, RunRow]) -> Self:
        runs = [NewRun(id, rows[id].experiment, new) for id, new in found.runs.items()]
        return cls.from_attributes(found, runs=runs, wrong=found.wrong or None)


class HostsRun(Document):
    """A host's run, of several that are judged together."""

    host: str
    run: RunId
    machine: str
    """The processor and the kernel."""
    level: float | None = field(name="ratio")
    """Of the first metric, to the median host's over the points that all have; null without one."""
    outlier: bool
    """Whether that ratio is an outlier among the hosts."""


class HostsClaim(Document):
    """A claim at one setting, on every host."""

    id: str
    text: str
    at: Levels = field(name="levels")
    verdicts: dict[str, Word]
    """By host."""

    @classmethod
    def made_of(cls, row: KernelRow) -> Self:
        verdicts = {host: cell.word for host, cell in row.cells.items()}
        return cls.from_attributes(row, verdicts=verdicts)


class TellingPart(Document):
    """A part of the environment that differs between hosts."""

    name: str
    values: dict[str, str]
    """By host."""
    explained: float = field(name="share")
    """The share of the verdicts' entropy that it tells: 1 tells all."""
    p: Share
    """The share of shuffles that tell as much: a large one is chance."""


class Disagreement(Document):
    """A claim at one setting that some hosts reproduce and others contradict."""

    id: str
    at: Levels = field(name="levels")
    groups: dict[str, list[str]] = field(name="hosts")
    """By verdict, the larger group first."""
    outlier: str | None
    """The one host against three or more."""
    differences: list[TellingPart]
    """What tells the groups apart, the best first."""

    @classmethod
    def made_of(cls, found: Split) -> Self:
        return cls.from_attributes(
            found,
            found.row,
            differences=[
                TellingPart.from_attributes(difference, difference.separation)
                for difference in found.differences
            ],
        )


class ApartRun(Document):
    """A run that is not held beside those of the other hosts."""

    host: str
    run: RunId
    reason: str
    """`lost` if its run was cut off, `guest` if it was measured in a virtual machine."""
    samples: Number


class HostsClaims(Document):
    """The claims of one experiment on several hosts."""

    experiment: str
    hosts: NonEmpty[HostsRun]
    claims: list[HostsClaim]
    disagreements: list[Disagreement]
    apart: list[ApartRun]

    @classmethod
    def made_of(
        cls,
        fleet: HostRuns,
        rows: Sequence[KernelRow],
        splits: Sequence[Split],
        levels: Sequence[Level],
    ) -> Self:
        by_host, runs = {level.host: level for level in levels}, fleet.runs
        apart = [("lost", fleet.lost), ("guest", fleet.guests)]
        return cls(
            experiment=next(iter(runs.values())).experiment.name,
            hosts=[
                HostsRun(
                    host=host,
                    run=run.id,
                    machine=machine_of(run.environment),
                    level=by_host[host].ratio if host in by_host else None,
                    outlier=host in by_host and by_host[host].apart,
                )
                for host, run in runs.items()
            ],
            claims=[HostsClaim.made_of(row) for row in rows],
            disagreements=[Disagreement.made_of(split) for split in splits],
            apart=[
                ApartRun(host=host, run=run.id, reason=reason, samples=len(run.samples))
                for reason, result in apart
                for host, run in result.items()
            ],
        )

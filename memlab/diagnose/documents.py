"""What `memlab diagnose --json` prints, as types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from msgspec import Meta

from memlab.diagnose.account import Account
from memlab.diagnose.diagnosis import Diagnosis, LookCost
from memlab.diagnose.finding import Fact, Finding
from memlab.diagnose.held import GroupLook
from memlab.diagnose.kernel_log import answer
from memlab.diagnose.kernel_log.answer import Kill
from memlab.diagnose.kernel_log.killers import Hint
from memlab.diagnose.kernel_log.reports import Log
from memlab.diagnose.look import Look
from memlab.diagnose.machine import MachineLook
from memlab.diagnose.unlooked import Unlooked
from memlab.diagnose.used import Used
from memlab.present.documents import Document


class ShownFinding(Document):
    """A sentence about a line of an account, with what shows it and what to try."""

    name: str
    severity: Literal["note", "costly", "critical"]
    title: str
    account: Literal["stock", "flow", "limits", "time"]
    """The account that it rests on."""
    line: str
    """The line of it."""
    measured: float
    """What the line says, in `unit`."""
    unit: str
    evidence: Sequence[Fact]
    setting: str
    """What to try; empty where nothing helps."""
    proof: str | None
    """The `memlab try` line that tests it on this program; null where none can."""
    experiments: Sequence[str]
    """`memlab sweep NAME` measures here what it costs."""

    @classmethod
    def made_of(cls, found: Diagnosis, one: Finding) -> Self:
        return cls.from_attributes(
            one,
            severity=one.severity.name.lower(),
            measured=one.measured,  # a whole number stays one
            proof=found.proof(one),
        )


class Diagnose(Document):
    """A look at a live process, a memory cgroup or the machine. null is not seen, unless said
    otherwise."""

    seconds: Annotated[float, Meta(gt=0)]
    """How long the look was."""
    findings: list[ShownFinding]
    """The worst first."""
    accounts: Sequence[Account]
    """Who holds the memory, where page faults come from, limits, and what threads wait for."""
    whole: bool
    """Whether each account was whole and its rest small: then no finding means none."""
    not_looked_at: Sequence[Unlooked]
    """What was left out, why, and what it would cost."""
    process: Look | None
    """null: the subject is a group or the machine."""
    group: GroupLook | None
    """null: the subject is a process or the machine."""
    machine: MachineLook | None
    """null: the subject is a process or a group."""
    cost: LookCost
    used: Used | None
    """What it used in the look; null without --used."""

    @classmethod
    def made_of(cls, found: Diagnosis) -> Self:
        findings = [ShownFinding.made_of(found, one) for one in found.findings]
        return cls.from_attributes(found, findings=findings, process=found.look)


class LastKill(Document):
    """What a log says about kills for want of memory."""

    kills: int
    """How many the log has; a kill of a whole group is one."""
    last: Kill | None
    """null: the log has none."""
    lines: int
    """How many lines were read."""
    first: str
    """The stamp of the first line that has one."""
    until: str
    """The stamp of the last line that has one."""
    refused: list[str]
    """Allocations that failed, which kills nobody."""
    hints: list[Hint]
    """Lines by which programs tell of a kill by the kernel."""

    @classmethod
    def made_of(cls, log: Log) -> Self:
        kill, _, earlier = answer.last(log)
        kills = 0 if kill is None or kill.ended == "cut" else earlier + 1
        return cls(
            kills=kills, last=kill, lines=log.lines, first=log.first, until=log.last,
            refused=log.refused, hints=log.hints,
        )  # fmt: skip

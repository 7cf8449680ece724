"""What `memlab diagnose --json` prints, as types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from msgspec import Meta, field

from memlab.diagnose import machine_account
from memlab.diagnose.account import Account, Part
from memlab.diagnose.allocator import Allocator
from memlab.diagnose.diagnosis import Diagnosis, LookCost
from memlab.diagnose.family import Member
from memlab.diagnose.finding import Fact, Finding
from memlab.diagnose.held import GroupLook
from memlab.diagnose.look import Look, Rates, Thread
from memlab.diagnose.machine import MachineLook, MachineProcess
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
    measured: float = field(name="value")
    """What the line says, in `unit`."""
    unit: str
    evidence: Sequence[Fact]
    setting: str = field(name="remedy")
    """What to try; empty where nothing helps."""
    proof: str | None
    """The `memlab try` line that tests it on this program; null where none can."""
    experiments: Sequence[str]
    """`memlab sweep NAME` measures here what it costs."""

    @classmethod
    def made_of(cls, diagnosis: Diagnosis, one: Finding) -> Self:
        return cls.from_attributes(
            one,
            severity=one.severity.name.lower(),
            measured=one.measured,  # a whole number stays one
            proof=diagnosis.proof(one),
        )


class ShownLimit(Document):
    """The limit of a memory cgroup that is met first."""

    path: str
    """The group that has it."""
    limit_name: str = field(name="name")
    limit_bytes: int
    growth_bytes_per_s: float
    """Of what cannot be dropped; negative where it falls."""
    seconds_left: float | None
    """Until what is needed reaches the limit at the present rate; null where it does not grow."""
    reached_per_s: float
    kills: int
    """That the kernel counted in this group during the look."""


class ShownProcess(Document):
    """A process that was looked at. What else was read of it is in the accounts and findings."""

    pid: int
    command: str
    command_line: str
    user: str
    cpu_share: float
    """Of one CPU, used by the process."""
    thread_count: int
    virtual_bytes: int
    resident_bytes: int
    peak_resident_bytes: int = field(name="peak_bytes")
    """The most that was resident."""
    anonymous_bytes: int
    swapped_bytes: int
    growth_bytes_per_s: float
    """Of what cannot be dropped; negative where it falls."""
    per_s: Rates
    """Events of all its threads together; null is not seen."""
    threads: Sequence[Thread]
    """Those that did anything that was counted, the busiest first."""
    allocator: Allocator | None
    group: ShownLimit | None = field(name="limit")
    """Of its memory cgroup."""

    @classmethod
    def made_of(cls, look: Look) -> Self:
        return cls.from_attributes(look, look.subject, look.memory)


class ShownGroup(Document):
    """A memory cgroup that was looked at. What it is charged for is in the accounts."""

    path: str
    version: str
    growth_bytes_per_s: float
    """Of what cannot be dropped."""
    pressure_share: float | None
    """Of the time, in which some of its threads waited for memory (memory.pressure, v2)."""
    room: ShownLimit | None = field(name="limit")
    """The limit with the least room, of it or of a group above; null without one."""
    process_count: int
    members: Sequence[Member] = field(name="processes")
    """At most 64 of them, those that hold most first."""

    @classmethod
    def made_of(cls, look: GroupLook) -> Self:
        return cls.from_attributes(look, process_count=look.processes)


class ShownMachine(Document):
    """The machine that was looked at. What its memory is, is in the account."""

    total_bytes: int
    available_bytes: int
    growth_bytes: Mapping[str, int]
    """Of the counters of /proc/meminfo over the look, those of at least 1 MiB."""
    holdings: dict[str, Sequence[Part]]
    """The largest named parts of a line of the account: mounts, caches, callers."""
    process_count: int
    members: Sequence[MachineProcess] = field(name="processes")
    """At most 64: those that hold most first."""

    @classmethod
    def made_of(cls, look: MachineLook) -> Self:
        return cls.from_attributes(
            look, process_count=look.processes, holdings=machine_account.holdings(look)
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
    process: ShownProcess | None
    """null: the subject is a group or the machine."""
    group: ShownGroup | None
    """null: the subject is a process or the machine."""
    machine: ShownMachine | None
    """null: the subject is a process or a group."""
    cost: LookCost
    used: Used | None
    """What it used in the look; null without --used."""

    @classmethod
    def made_of(cls, diagnosis: Diagnosis) -> Self:
        return cls.from_attributes(
            diagnosis,
            findings=[ShownFinding.made_of(diagnosis, one) for one in diagnosis.findings],
            process=ShownProcess.made_of(diagnosis.look) if diagnosis.look else None,
            group=ShownGroup.made_of(diagnosis.group) if diagnosis.group else None,
            machine=ShownMachine.made_of(diagnosis.machine) if diagnosis.machine else None,
        )

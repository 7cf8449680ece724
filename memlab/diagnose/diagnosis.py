"""A look, its accounts and findings, and what the look itself cost."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from memlab.diagnose import (
    counters,
    family,
    finding,
    flow,
    group,
    held,
    limits,
    look,
    machine,
    machine_account,
    shared,
    started,
    stock,
    subject,
    timing,
)
from memlab.diagnose.account import Account
from memlab.diagnose.finding import Finding
from memlab.diagnose.held import GroupLook
from memlab.diagnose.kernel_held import PipeData
from memlab.diagnose.look import Look
from memlab.diagnose.machine import MachineLook
from memlab.diagnose.unlooked import Unlooked
from memlab.diagnose.used import Tracker, Used
from memlab.text import units

# What one count costs the thread that is counted (docs/diagnose.md).
_TRACEPOINT_S, _SOFTWARE_S = 300e-9, 50e-9
_IDLE = 0.05  # of a CPU, below which a process waits for something and does not come to its end


@dataclass(frozen=True, slots=True)
class LookCost:
    """CPU time of this program itself."""

    cpu_s: float
    """For the look: to read /proc, to count, to find."""
    starting_cpu_s: float
    """Before it, to start Python and to import what the look needs."""
    share: float
    """Of one CPU over the look."""
    counted_share: float
    """Of one CPU, that the process paid for being counted: an estimate."""
    page_tables_s: float
    """For which page tables were read, in pieces of at most 8 MiB."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is shown: of a process, of a memory cgroup, or of the machine."""

    look: Look | None
    group: GroupLook | None
    accounts: tuple[Account, ...]
    findings: tuple[Finding, ...]
    not_looked_at: tuple[Unlooked, ...]
    cost: LookCost
    used: Used | None = None
    machine: MachineLook | None = None

    @property
    def seconds(self) -> float:
        seen = self.look or self.group or self.machine
        return seen.seconds if seen else 0.0

    @property
    def whole(self) -> bool:
        """Whether "nothing was found" may be said: each account was whole, its rest small."""
        return not self.not_looked_at and all(one.whole and one.small_rest for one in self.accounts)

    def proof(self, one: Finding) -> str | None:
        """The `memlab try` line that tests a finding's setting; None where none can."""
        if self.look is None or not one.policies:
            return None
        return started.line(
            self.look.started,
            one.policies,
            port=self.look.port,
            age_s=self.look.age_s,
            idles=self.look.cpu_share < _IDLE,
        )


def of(pid: int, seconds: float, *, thorough: bool = False, tracks_use: bool = False) -> Diagnosis:
    """Look at a process; `thorough` reads what takes longer, `tracks_use` clears the accessed bits
    of its pages and reads what it uses. Raises `BadSubject` and `CannotLook`."""
    starting_cpu_s = time.process_time()
    tracker = Tracker(subject.number(pid), seconds) if tracks_use else None
    tracking = tracker.running() if tracker else nullcontext()
    with subject.held(pid) as (found, pidfd), tracking:
        seen, recorded = look.at(found, pidfd, seconds, thorough=thorough)
        used = tracker.read() if tracker else None
        subject.wait(found, pidfd, 0)  # of one that has ended /proc tells less and says no error
        seen = look.explained(seen, pidfd, recorded)
    accounts = tuple(one.of(seen) for one in (stock, flow, limits, timing))
    if seen.group:
        of_group = held.stock(
            seen.group.charge,
            above=seen.group.above,
            elsewhere_bytes=shared.mapped_once(seen.subject.number) - seen.group.charge.shmem_bytes,
            pipes=seen.kernel_held.pipes if seen.kernel_held else PipeData(),
        )
        accounts = (accounts[0], of_group, *accounts[1:])
    findings = tuple(finding.ranked(_findings(seen)))
    cost = _cost(starting_cpu_s, seen.seconds, _counted_share(seen), seen.memory.walked_s)
    not_looked_at = (*seen.prices, *_unseen(seen))
    return Diagnosis(seen, None, accounts, findings, not_looked_at, cost, used)


def of_group(text: str, seconds: float) -> Diagnosis:
    """Look at a memory cgroup: ``self``, ``of:PID`` or a path. Raises `BadSubject` and
    `CannotLook`."""
    starting_cpu_s = time.process_time()
    directory, version = group.named(text)
    seen = held.at(directory, version, seconds)
    findings = tuple(finding.ranked(_causes(held.findings(seen))))
    cost = _cost(starting_cpu_s, seen.seconds, 0.0, 0.0)
    left_out = seen.calls.unlooked
    if len(seen.members) < seen.processes:
        what = f"{seen.processes - len(seen.members)} of {seen.processes} processes"
        left_out = (Unlooked(what, _unseen_members(seen), None, None), *left_out)
    if count := seen.new_processes:
        what = units.counted(count, "process")
        left_out = (*left_out, Unlooked(what, "in the group only since the look began", None, None))
    unread = (*held.unread_pipes(seen), *held.unread_sockets(seen), *held.unread_shared(seen))
    left_out = (*left_out, *(Unlooked(*one, None, None) for one in unread))
    return Diagnosis(None, seen, tuple(held.accounts(seen)), findings, left_out, cost)


def _unseen_members(seen: GroupLook) -> str:
    if len(seen.members) >= family.MEMBERS_MAX:
        return f"smaller than the {family.MEMBERS_MAX} largest, ended, or not to be read"
    return "ended, of another PID namespace, or not to be read (hidepid)"


def of_machine(seconds: float) -> Diagnosis:
    """Look at the whole machine. Raises `CannotLook`."""
    starting_cpu_s = time.process_time()
    seen = machine.at(seconds)
    findings = tuple(finding.ranked(machine_account.findings(seen)))
    cost = _cost(starting_cpu_s, seen.seconds, 0.0, 0.0)
    accounts = (machine_account.of(seen),)
    unlooked = seen.not_looked_at
    return Diagnosis(None, None, accounts, findings, unlooked, cost, machine=seen)


# One cause, one advice: a finding leaves out those that only follow of it.
_EXPLAINS = {
    "reads-ahead-unused": ("waits-for-files", "group-limit-met", "group-reads-again"),
    "group-reads-again": ("waits-for-files", "group-limit-met"),
}


def _findings(seen: Look) -> Iterator[Finding]:
    every = (it for module in (limits, timing, flow, stock) for it in module.findings(seen))
    reread = seen.group.reread_bytes_per_s if seen.group else 0.0
    explains: Mapping[str, Sequence[str]] = _EXPLAINS
    if reread < (seen.read_bytes_per_s or 0.0) / 2:  # another of the group may be who reads again
        explains = {**_EXPLAINS, "group-reads-again": ("group-limit-met",)}
    yield from _causes(every, explains)


def _causes(
    findings: Iterable[Finding], explains: Mapping[str, Sequence[str]] = _EXPLAINS
) -> Iterator[Finding]:
    candidates = list(findings)
    effects = {name for cause in candidates for name in explains.get(cause.name, ())}
    yield from (candidate for candidate in candidates if candidate.name not in effects)


def _unseen(seen: Look) -> Iterator[Unlooked]:
    for line in seen.unseen:
        what, _, why = line.partition(": ")
        yield Unlooked(what, why, None, None)
    if seen.state in "Tt" or seen.frozen:
        yield Unlooked("what it does", "it is stopped", None, None)


def _cost(starting_cpu_s: float, seconds: float, counted: float, tables_s: float) -> LookCost:
    cpu_s = time.process_time() - starting_cpu_s
    return LookCost(cpu_s, starting_cpu_s, cpu_s / seconds, counted, tables_s)


def _counted_share(seen: Look) -> float:
    counted = {
        event: sum(thread.per_s.get(event.name, 0.0) for thread in seen.threads)
        for event in counters.EVENTS
    }
    return sum(
        rate * (_TRACEPOINT_S if event.tracepoint else _SOFTWARE_S)
        for event, rate in counted.items()
    )

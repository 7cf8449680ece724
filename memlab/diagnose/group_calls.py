"""Calls of a group's processes that fail. Their arguments are not recorded: a look at the process
says why they fail."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from memlab.diagnose import call_rings, group, refusals
from memlab.diagnose.call_rings import CallEvents, CpuRing, Share, Tables
from memlab.diagnose.call_table import row
from memlab.diagnose.finding import COSTLY, CRITICAL, NOTE, Fact, Finding, Severity
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.refused import (
    CERTAIN_PER_S,
    LEAST_PER_S,
    UNKNOWN_PER_S,
    listed,
    often,
    words_of,
)
from memlab.diagnose.unlooked import Unlooked
from memlab.observe import files, perf_event, system_calls
from memlab.observe.proc import ROOT
from memlab.text import units

_LARGEST = 32  # processes, of which it is read whether their calls have other numbers
_NAMED, _FACTS_MAX = 3, 30
_WHICH = "which calls fail"
_NARROW = "of a 32-bit program no errno is recorded that is ordinary of some calls, as EPERM is"
# They fail so only of addresses that are not mapped: a program asks for that.
_QUESTIONS = {("mincore", "ENOMEM"), ("msync", "ENOMEM")}


@dataclass(frozen=True, slots=True)
class GroupCalls:
    """What failed in a look."""

    by_process: Mapping[int, Sequence[Refusal]]
    unlooked: tuple[Unlooked, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    """Of those processes, as far as they are there at the end."""


class GroupRefusals:
    """Two rings for each CPU, into which the kernel writes the calls that fail there: for want of
    something, and otherwise than calls ordinarily do. They are of this group only under cgroup v2,
    else of every process. Under v1 the processes that are in the group when the look begins or ends
    are picked out; one that began and ended meanwhile is not known."""

    def __init__(self, directory: Path, version: str) -> None:
        self._rings: list[CpuRing] = []
        self._of_group_only = False
        self._why = ""
        if not system_calls.NUMBERS:
            self._why = "the numbers of system calls are not known on this architecture"
            return
        try:
            self._events = call_rings.events()
        except OSError:
            self._why = "tracepoints may not be read: run as root"
            return
        try:
            self._open(self._events, directory, version)
        except PermissionError:
            self._why = (
                "the failing calls of all processes may not be recorded: run as root, with "
                "CAP_PERFMON"
            )
        except OSError as error:
            self._why = perf_event.why(error)

    def _open(self, events: CallEvents, directory: Path, version: str) -> None:
        online = files.text(ROOT / "sys/devices/system/cpu/online")
        cpus = units.parse_cpus(online) if online else sorted(os.sched_getaffinity(0))
        if version == "2":
            with ExitStack() as opened, suppress(OSError):  # a kernel without CONFIG_CGROUP_PERF
                folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                opened.callback(os.close, folder)
                self._record(events, cpus, folder)
                self._of_group_only = True
                return
        self._record(events, cpus)

    def _record(self, events: CallEvents, cpus: Sequence[int], group: int | None = None) -> None:
        try:
            for filtered in refusals.of_groups():
                self._rings += call_rings.record_all(cpus, events.exit, filtered, group)
        except OSError:
            self.close()
            raise

    def result(self, seconds: float, pids: Collection[int]) -> GroupCalls:
        """Each call of these processes that failed in so many seconds, the largest processes first;
        and what was not recorded."""
        for ring in self._rings:
            ring.stop()  # all of them before any is read, which takes time
        per_s: dict[int, dict[tuple[int, int, bool | None], float]] = {}
        estimates: set[tuple[int, tuple[int, int, bool | None]]] = set()
        least: set[tuple[int, tuple[int, int, bool | None]]] = set()
        count, recorded_count, until_s, tables = 0, 0, seconds, Tables()
        known = None if self._of_group_only else {*pids}
        for ring in self._rings:
            recorded = ring.stopped()
            share = Share(len(recorded), ring.count(), ring.recorded_s(), seconds)
            kinds = Counter(
                (call.pid, (number + tables.of(call.pid, call.way), code, call.way.is_narrow))
                for call in recorded
                if call.pid and (known is None or call.pid in known)
                for number, code in (self._events.ended(call.raw),)
            )
            for (pid, kind), times in kinds.items():
                rate, is_certain = share.per_s(times)
                per_s.setdefault(pid, defaultdict(float))[kind] += rate
                if not share.is_whole:
                    (estimates if is_certain else least).add((pid, kind))
            if not share.is_whole:
                until_s = min(until_s, share.recorded_s)
            count += max(share.recorded, share.in_all)
            recorded_count += share.recorded
        asked = dict.fromkeys((*list(pids)[:_LARGEST], *per_s)) if self._rings else {}
        narrow = [
            pid for pid in asked
            if any(kind[2] for kind in per_s.get(pid, ())) or refusals.is_narrow(pid)
        ]  # fmt: skip
        by_process: dict[int, list[Refusal]] = {}
        for pid, calls in per_s.items():
            pairs: dict[tuple[str, str], Refusal] = {}
            for kind, rate in calls.items():
                number, code, abi = kind
                is_narrow = pid in narrow if abi is None else abi
                call, errno = refusals.named(number, code, is_narrow=is_narrow)
                of_other = is_narrow or number >= system_calls.OF_NARROW
                if refusals.is_recorded(call, errno, by_errno=of_other):
                    refusal = pairs.get((call, errno), Refusal(call, errno, 0.0))
                    pairs[call, errno] = replace(
                        refusal,
                        per_s=refusal.per_s + rate,
                        is_estimate=refusal.is_estimate or (pid, kind) in estimates,
                        is_least=refusal.is_least or (pid, kind) in least,
                    )
            by_process[pid] = [*pairs.values()]
        names = {pid: name for pid in (*by_process, *narrow) if (name := _name(pid))}
        unlooked = [*_of_narrow(narrow, names)]
        if self._why:
            unlooked.append(Unlooked(_WHICH, self._why, None, None))
        elif known is not None and len(known) >= group.PROCESSES_MAX:
            why = f"at most {group.PROCESSES_MAX:,} processes of a group are known"
            unlooked.append(Unlooked("which calls of its other processes fail", why, None, None))
        if count > recorded_count:
            whose = "" if known is None else " of all processes"
            why = f"{recorded_count:,} of {count:,} that failed{whose} were recorded"
            what = refusals.after(until_s)
            unlooked.append(Unlooked(what, why, None, None))
        return GroupCalls(by_process, tuple(unlooked), names)

    def close(self) -> None:
        for ring in self._rings:
            ring.close()
        self._rings.clear()


def _name(pid: int) -> str:
    return (files.text(ROOT / f"proc/{pid}/comm") or "").strip()


def _of_narrow(pids: Sequence[int], names: Mapping[int, str]) -> Iterator[Unlooked]:
    for pid in pids[:_NAMED]:
        what = f"which other calls of process {pid} ({names.get(pid, '?')}) fail"
        yield Unlooked(what, _NARROW, None, None)
    if len(pids) > _NAMED:
        what = f"which other calls of {units.counted(len(pids) - _NAMED, 'more process')} fail"
        yield Unlooked(what, _NARROW, None, None)


def findings(calls: GroupCalls) -> Iterator[Finding]:
    """Of the processes whose calls fail most for want of something; and a note for all other
    calls."""
    wanting = {
        pid: [refusal for refusal in refused if refusals.is_want(refusal.call, refusal.errno)]
        for pid, refused in calls.by_process.items()
    }
    most = sorted(wanting.items(), key=lambda item: -_per_s(item[1]))
    for pid, refused in most[:_NAMED]:
        per_s = _per_s(refused)
        known = (refusal for refusal in refused if row(refusal.call, refusal.errno))
        if _per_s(known) < LEAST_PER_S and per_s < UNKNOWN_PER_S:
            continue
        ranked = sorted(refused, key=lambda refusal: -refusal.per_s)
        pairs = listed([(words_of(refusal), refusal) for refusal in ranked])
        rates = tuple(Fact(f"{call.call} ({call.errno})", call.per_s, "1/s") for call in ranked)
        yield Finding(
            "calls-fail", _severity(refused),
            f"{often(refused)} of process {pid} ({calls.names.get(pid, '?')}) fail: {pairs}",
            "limits", ranked[0].call, per_s, "1/s",
            rates,
            f"memlab diagnose {pid}", kind=str(pid),
        )  # fmt: skip
    yield from _others(calls)


def _others(calls: GroupCalls) -> Iterator[Finding]:
    """What fails, and means no want."""
    refused = [
        (pid, refusal) for pid, each in calls.by_process.items() for refusal in each
        if not refusals.is_want(refusal.call, refusal.errno)
    ]  # fmt: skip
    per_s = _per_s([refusal for _, refusal in refused])
    if per_s < UNKNOWN_PER_S:
        return
    refused.sort(key=lambda item: -item[1].per_s)
    named = [
        (f"{words_of(refusal)} of process {pid} ({calls.names.get(pid, '?')})", refusal)
        for pid, refusal in refused
    ]
    yield Finding(
        "calls-fail", NOTE,
        f"{often([refusal for _, refusal in refused])} fail: {listed(named)}; the cause was not "
        "read",
        "limits", refused[0][1].call, per_s, "1/s",
        tuple(Fact(words, one.per_s, "1/s") for words, one in named[:_FACTS_MAX]),
        f"memlab diagnose {refused[0][0]}", kind="no want",
    )  # fmt: skip


def _severity(refused: Sequence[Refusal]) -> Severity:
    """Of one process: questions cost nothing, and a row knows which call is certainly for want."""
    if all((refusal.call, refusal.errno) in _QUESTIONS for refusal in refused):
        return NOTE
    often = (refusal for refusal in refused if refusal.per_s >= CERTAIN_PER_S)
    causes = (row(refusal.call, refusal.errno) for refusal in often)
    return CRITICAL if any(cause and cause.certain for cause in causes) else COSTLY


def _per_s(refused: Iterable[Refusal]) -> float:
    return sum(refusal.per_s for refusal in refused)

"""Calls of a group's processes that fail. Their arguments are not recorded: a look at the process
says why they fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from memlab.diagnose import call_rings, counters
from memlab.diagnose.call_table import row
from memlab.diagnose.finding import COSTLY, CRITICAL, NOTE, Fact, Finding, Severity
from memlab.diagnose.refusals import IF_EXPLAINED, NO_LIMIT, Refusal, Refusals
from memlab.diagnose.refused import often
from memlab.diagnose.unlooked import Unlooked
from memlab.text import units

_PROCESSES_MAX, _THREADS_MAX = 32, 64
_LEAST_PER_S = 1.0
_NAMED = 3
_WHICH = "which calls fail"
# They fail so only of addresses that are not mapped: a program asks for that.
_QUESTIONS = {("mincore", "ENOMEM"), ("msync", "ENOMEM")}


@dataclass(frozen=True, slots=True)
class GroupCalls:
    """What failed in a look."""

    by_process: Mapping[int, Sequence[Refusal]]
    unlooked: tuple[Unlooked, ...]


class GroupRefusals:
    """Rings of the busiest threads of the largest processes."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._of_each: list[tuple[int, Refusals]] = []
        self._left_out = max(0, len(pids) - _PROCESSES_MAX)
        self._threads_left_out = 0
        events: call_rings.CallEvents | None = None
        with suppress(OSError):  # each of them says why
            events = call_rings.events()
        room = _THREADS_MAX
        for place, pid in enumerate(pids[:_PROCESSES_MAX]):
            tasks: list[int] = []
            with suppress(OSError):  # it has ended
                tasks = counters.busiest_first(pid)
            others = min(len(pids), _PROCESSES_MAX) - place - 1  # each has a thread at least
            recorded = tasks[: room - others]
            room -= len(recorded)
            self._threads_left_out += len(tasks) - len(recorded)
            self._of_each.append((pid, Refusals(pid, recorded, sizes=False, events=events)))

    def result(self, seconds: float) -> GroupCalls:
        """Each call that failed in so many seconds, and what was not recorded."""
        by_process = {
            pid: [
                refusal
                for refusal in refusals.result(seconds)
                if refusal.call not in IF_EXPLAINED.get(refusal.errno, ())
                and (refusal.call, refusal.errno) not in NO_LIMIT
            ]
            for pid, refusals in self._of_each
        }
        return GroupCalls(by_process, tuple(self._unlooked()))

    def _unlooked(self) -> Iterator[Unlooked]:
        for why in dict.fromkeys(refusals.why for _, refusals in self._of_each if refusals.why):
            yield Unlooked(_WHICH, why, None, None)
        for count, kind in ((self._left_out, "process"), (self._threads_left_out, "thread")):
            if count:
                why = (
                    f"smaller than the {_PROCESSES_MAX} largest"
                    if kind == "process"
                    else f"not of the {_THREADS_MAX} busiest of the largest processes"
                )
                what = f"which calls of {units.counted(count, kind)} fail"
                yield Unlooked(what, why, None, None)

    def close(self) -> None:
        for _, refusals in self._of_each:
            refusals.close()


def findings(calls: GroupCalls, names: Mapping[int, str]) -> Iterator[Finding]:
    """Of the processes whose calls fail most."""
    most = sorted(calls.by_process.items(), key=lambda item: -_per_s(item[1]))
    for pid, refused in most[:_NAMED]:
        per_s = _per_s(refused)
        if per_s < _LEAST_PER_S:
            continue
        ranked = sorted(refused, key=lambda refusal: -refusal.per_s)
        pairs = ", ".join(f"{refusal.call} with {refusal.errno}" for refusal in ranked[:_NAMED])
        more = f" and {len(ranked) - _NAMED} more" if len(ranked) > _NAMED else ""
        rates = tuple(Fact(f"{call.call} ({call.errno})", call.per_s, "1/s") for call in ranked)
        yield Finding(
            "calls-fail", _severity(refused),
            f"{often(refused)} of process {pid} ({names.get(pid, '?')}) fail: {pairs}"
            f"{more}",
            "limits", ranked[0].call, per_s, "1/s",
            rates,
            f"memlab diagnose {pid}", kind=str(pid),
        )  # fmt: skip


def _severity(refused: Sequence[Refusal]) -> Severity:
    """Of one process: questions cost nothing, and a row knows which call is certainly for want."""
    if all((refusal.call, refusal.errno) in _QUESTIONS for refusal in refused):
        return NOTE
    often = (refusal for refusal in refused if refusal.per_s >= _LEAST_PER_S)
    causes = (row(refusal.call, refusal.errno) for refusal in often)
    return CRITICAL if any(cause and cause.certain for cause in causes) else COSTLY


def _per_s(refused: Sequence[Refusal]) -> float:
    return sum(refusal.per_s for refusal in refused)

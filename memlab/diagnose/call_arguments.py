"""What failing calls were called with: recorded for a moment after the look, only if calls failed
in it whose arguments tell the cause."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from memlab.diagnose import call_rings
from memlab.diagnose.call_ordinary import is_ordinary
from memlab.diagnose.call_rings import CallEvents, Ring
from memlab.diagnose.refusals import IS_CALL, IS_ERRNO, RESTARTS, is_want, named
from memlab.observe import system_calls, tracefs

_WAIT_S, _BRIEF_S = 1.0, 0.2
_NAMED = 3
_CALLS = 4  # that are waited for
_PAGES = 16  # of a ring of begins
TASKS_MAX, _PAIRS_MAX, _KEPT = 4, 40, 8

_CURRENT = 0xFFFF_FF9C  # AT_FDCWD
_OPENS = [call for call in ("open", "creat", "openat", "openat2") if call in system_calls.NUMBERS]
_CLOSES = [call for call in ("close", "dup2", "dup3") if call in system_calls.NUMBERS]
_FROM_FOLDER = {system_calls.NUMBERS.get(call) for call in ("openat", "openat2")}
_Opened = tuple[int, tuple[int, int] | None]
"""When, and by which path; None of a descriptor that was closed, or made another one's copy."""

Pair = tuple[str, str]
"""A call and its errno."""


@dataclass(slots=True)
class Called:
    """Calls that failed with one errno."""

    arguments: list[tuple[int, ...]] = field(default_factory=list)
    """Of the last few of them."""
    ends: int = 0
    """How many ended so."""
    opened: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of a descriptor that it is about the folder and the path, by its address, with which the
    thread had opened it last."""
    by_task: dict[int, list[int]] = field(default_factory=dict)
    """By thread how many ended so, and how many calls of that number began, however they ended."""

    @property
    def unbegun(self) -> Collection[int]:
        """Threads whose calls end without a begin, because a filter of system calls (seccomp(2)) or
        a tracer comes before its tracepoint; empty if one of them begins."""
        ended = {task: counts for task, counts in self.by_task.items() if counts[0]}
        is_filtered = all(ends > 1 and not begins for ends, begins in ended.values())
        return ended if is_filtered else ()


def read(
    events: CallEvents,
    failing: Mapping[int, Mapping[tuple[int, int], float]],
    wanted: Callable[[str, str], bool],
    wait: Callable[[float], object],
) -> dict[Pair, Called]:
    """Of the calls that failed in the look, by thread, those that are wanted."""
    by_task = {
        task: dict(
            sorted(
                (
                    (pair, per_s)
                    for pair, per_s in pairs.items()
                    if pair[0] < system_calls.OF_NARROW and wanted(*named(*pair))
                ),
                key=lambda item: -item[1],
            )[:_PAIRS_MAX]
        )
        for task, pairs in failing.items()
    }
    rings: list[Ring] = []
    result: dict[Pair, Called] = defaultdict(Called)
    try:
        for task in _of_each(by_task):
            with suppress(OSError):
                rings += _opened(events, task, [*by_task[task]])
        if rings:
            slowest = min(min(by_task[ring.task].values()) for ring in rings)
            wait(min(_WAIT_S, max(_BRIEF_S, _CALLS / slowest)))
        until: dict[tuple[int, bool], int] = {}
        opened: dict[tuple[int, int], list[_Opened]] = defaultdict(list)
        for ring in rings:
            _pair(events, ring, by_task[ring.task], result, until, opened)
    finally:
        for ring in rings:
            ring.close()
    return result


def _of_each(by_task: Mapping[int, Mapping[tuple[int, int], float]]) -> list[int]:
    """Of each call the thread that fails so most often, those that mean a want first; and then
    those whose calls fail most."""
    most: dict[tuple[int, int], tuple[float, int]] = {}
    for task, pairs in by_task.items():
        for pair, per_s in pairs.items():
            most[pair] = max(most.get(pair, (0.0, 0)), (per_s, task))
    first = sorted(most, key=lambda pair: (not is_want(*named(*pair)), -most[pair][0]))
    busiest = sorted(by_task, key=lambda task: -sum(by_task[task].values()))
    tasks = dict.fromkeys([*(most[pair][1] for pair in first), *busiest])
    return [task for task in tasks if by_task[task]][:TASKS_MAX]


def ordinary(
    events: CallEvents,
    tasks: Sequence[int],
    wait: Callable[[float], object],
    *,
    is_narrow: bool,
) -> dict[int, dict[tuple[int, int], float]]:
    """How often per second each pair fails as calls ordinarily do, now, by thread."""
    rings: list[Ring] = []
    counts: dict[int, dict[tuple[int, int], float]] = {}
    try:
        for task in tasks[:TASKS_MAX]:
            with suppress(OSError):
                ends = [(events.exit, f"{IS_CALL} && {IS_ERRNO}")]
                rings.append(call_rings.record(task, ends, with_way=not is_narrow))
        began = time.monotonic()
        if rings:
            wait(_BRIEF_S)
        seconds, tables = time.monotonic() - began, call_rings.Tables()
        for ring in rings:
            of_task, recorded = defaultdict[tuple[int, int], float](float), ring.stopped()
            each = max(1.0, sum(ring.counts()) / max(1, len(recorded))) / seconds
            for end in recorded:
                number, code = events.ended(end.raw)
                of_task[number + tables.of(ring.task, end.way), code] += each
            counts[ring.task] = of_task
    finally:
        for ring in rings:
            ring.close()
    return counts


def is_only_ordinary(call: str, errno: str) -> bool:
    """Whether it is ordinary and means no want."""
    return is_ordinary(call, errno) and not is_want(call, errno)


def most_ordinary(
    counts: Iterable[Mapping[tuple[int, int], float]], *, is_narrow: bool
) -> tuple[str, ...]:
    """`openat (ENOENT)`: the most frequent."""
    sums: dict[str, float] = defaultdict(float)
    for of_task in counts:
        for (number, code), per_s in of_task.items():
            call, errno = named(number, code, is_narrow=is_narrow)
            if -code in RESTARTS:
                sums[f"{call} (interrupted)"] += per_s
            elif is_only_ordinary(call, errno):
                sums[f"{call} ({errno})"] += per_s
    return tuple(sorted(sums, key=lambda name: -sums[name])[:_NAMED])


def earlier(recorded: Mapping[tuple[int, int], Sequence[tuple[int, ...]]]) -> dict[Pair, Called]:
    """Of calls that failed in the look itself."""
    return {
        named(*pair): Called(list(arguments), len(arguments))
        for pair, arguments in recorded.items()
    }


_COUNT_BELOW = 1 << 20  # what is larger may be an address or flags; AT_FDCWD is -100


def described(
    call: str, arguments: Sequence[int], meaning: Callable[[str, int], str] = lambda *_: ""
) -> str:
    """`epfd 5, op 1, fd 7 (/var/log/x)`, by the names that the call's tracepoint has, with what
    each means; empty where it cannot be read."""
    with suppress(OSError, ValueError), tracefs.opened() as known:
        fields = known.fields(f"syscalls:sys_enter_{call}")
        names = [one for one in fields if not one.startswith(("common_", "__syscall_nr"))]
        pairs = zip(names, arguments, strict=False)
        return ", ".join(f"{name} {_shown(value)}{meaning(name, value)}" for name, value in pairs)
    return ""


def _shown(value: int) -> str:
    for bits in (32, 64):
        if 0 < (1 << bits) - value <= _COUNT_BELOW:
            return f"{value - (1 << bits)}"
    return f"{value}" if value < _COUNT_BELOW else f"{value:#x}"


def _opened(events: CallEvents, task: int, pairs: Sequence[tuple[int, int]]) -> Iterator[Ring]:
    """Begins first: each end that is recorded has its begin then. Where ends have the arguments,
    begins have a ring of their own, which may be full: a call that succeeds begins too."""
    calls = " || ".join(f"id == {call}" for call in {call for call, _ in pairs})
    brk = system_calls.NUMBERS.get("brk")
    ends = " || ".join(
        f"id == {call}" if call == brk else f"(id == {call} && ret == {code})"
        for call, code in pairs
    )
    begin, end = (events.enter, calls), (events.exit, ends)
    if call_rings.HAVE_ARGUMENTS:
        files = " || ".join(f"id == {system_calls.NUMBERS[call]}" for call in (*_OPENS, *_CLOSES))
        yield call_rings.record(task, [begin], page_count=_PAGES)
        yield call_rings.record(
            task,
            [(events.exit, f"ret >= 0 && ({files})")],
            with_arguments=True,
            page_count=_PAGES,
        )
        yield call_rings.record(task, [end], with_arguments=True)
    else:
        yield call_rings.record(task, [begin, end])


def _pair(
    events: CallEvents,
    ring: Ring,
    pairs: Mapping[tuple[int, int], float],
    result: dict[Pair, Called],
    until: dict[tuple[int, bool], int],
    opened: dict[tuple[int, int], list[_Opened]],
) -> None:
    """`until`: of a thread whose begins (or else opens) filled their ring, when the last of them
    was."""
    begun: dict[int, tuple[int, ...]] = {}
    brk = system_calls.NUMBERS.get("brk")
    tables, recorded = call_rings.Tables(), ring.stopped()
    if recorded and sum(ring.counts()) > len(recorded):
        until.setdefault((ring.task, events.is_enter(recorded[0].raw)), recorded[-1].at_ns)
    for end in recorded:
        if events.is_enter(end.raw):
            call = events.call(end.raw)
            begun[call] = events.arguments(end.raw)
            for pair in pairs:
                if pair[0] == call:
                    result[named(*pair)].by_task.setdefault(ring.task, [0, 0])[1] += 1
            continue
        call, code = events.ended(end.raw)
        arguments = end.arguments or begun.pop(call, ())
        if tables.of(ring.task, end.way):
            continue
        if code >= 0 and call != brk:
            folder, path = ((_CURRENT, 0), arguments)[bool(arguments)][:2]
            place = (folder, path) if call in _FROM_FOLDER else (_CURRENT, folder)
            number = folder & 0xFFFF_FFFF if call == system_calls.NUMBERS["close"] else code
            is_open = system_calls.name(call) in _OPENS
            opened[ring.task, number].append((end.at_ns, place if is_open else None))
            continue
        if call == brk:
            if not arguments or not 0 < code < arguments[0]:
                continue
            code = next((known for number, known in pairs if number == call), code)
        called = result[named(call, code)]
        called.ends += 1
        if end.at_ns <= until.get((ring.task, True), end.at_ns):
            called.by_task.setdefault(ring.task, [0, 0])[0] += 1
        if arguments:
            called.arguments = [*called.arguments, arguments][-_KEPT:]
            number = arguments[0] & 0xFFFF_FFFF
            called.opened.pop(number, None)
            if end.at_ns <= until.get((ring.task, False), end.at_ns):
                before = (one for at_ns, one in opened[ring.task, number] if at_ns < end.at_ns)
                if last := next(reversed([*before]), None):
                    called.opened[number] = last

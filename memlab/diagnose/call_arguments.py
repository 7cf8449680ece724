"""What failing calls were called with: recorded for a moment after the look, only if calls failed
in it whose arguments tell the cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from memlab.diagnose import call_rings
from memlab.diagnose.call_ordinary import is_ordinary
from memlab.diagnose.call_rings import CallEvents, Ring
from memlab.diagnose.refusals import ERRNOS, IS_CALL, IS_ERRNO, RESTARTS, is_want
from memlab.observe import system_calls, tracefs

_WAIT_S, _BRIEF_S = 1.0, 0.2
_NAMED = 3
_CALLS = 4  # that are waited for
TASKS_MAX, _PAIRS_MAX, _KEPT = 4, 40, 8

Pair = tuple[str, str]
"""A call and its errno."""


@dataclass(slots=True)
class Called:
    """Calls that failed with one errno."""

    arguments: list[tuple[int, ...]] = field(default_factory=list)
    """Of the last few of them."""
    ends: int = 0
    """How many ended so."""
    begins: int = 0
    """How many calls of that number began, however they ended."""

    @property
    def is_filtered(self) -> bool:
        """A call that a filter of system calls refuses (seccomp(2)) ends without a begin: the
        filter comes before the tracepoint."""
        return self.ends > 1 and not self.begins


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
                ((pair, per_s) for pair, per_s in pairs.items() if wanted(*_names(pair))),
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
        for ring in rings:
            _pair(events, ring, by_task[ring.task], result)
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
    first = sorted(most, key=lambda pair: (not is_want(*_names(pair)), -most[pair][0]))
    busiest = sorted(by_task, key=lambda task: -sum(by_task[task].values()))
    tasks = dict.fromkeys([*(most[pair][1] for pair in first), *busiest])
    return [task for task in tasks if by_task[task]][:TASKS_MAX]


def ordinary(
    events: CallEvents,
    tasks: Sequence[int],
    wait: Callable[[float], object],
    *,
    is_narrow: bool,
) -> tuple[str, ...]:
    """`openat (ENOENT)`: the most frequent of those that fail as calls ordinarily do, now."""
    rings: list[Ring] = []
    counts: Counter[str] = Counter()
    try:
        for task in tasks[:TASKS_MAX]:
            with suppress(OSError):
                rings.append(call_rings.record(task, [(events.exit, f"{IS_CALL} && {IS_ERRNO}")]))
        if rings:
            wait(_BRIEF_S)
        for ring in rings:
            for raw, _ in ring.stopped():
                number, code = events.ended(raw)
                call, errno = system_calls.name(number, is_narrow=is_narrow), ERRNOS.get(-code, "")
                if -code in RESTARTS:
                    counts[f"{call} (interrupted)"] += 1
                elif is_ordinary(call, errno) and not is_want(call, errno):
                    counts[f"{call} ({errno})"] += 1
    finally:
        for ring in rings:
            ring.close()
    return tuple(name for name, _ in counts.most_common(_NAMED))


def earlier(recorded: Mapping[tuple[int, int], Sequence[tuple[int, ...]]]) -> dict[Pair, Called]:
    """Of calls that failed in the look itself."""
    return {
        _names(pair): Called(list(arguments), len(arguments), len(arguments))
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


def _names(pair: tuple[int, int]) -> Pair:
    return system_calls.name(pair[0]), ERRNOS.get(-pair[1], f"errno {-pair[1]}")


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
        yield call_rings.record(task, [begin])
        yield call_rings.record(task, [end], with_arguments=True)
    else:
        yield call_rings.record(task, [begin, end])


def _pair(
    events: CallEvents,
    ring: Ring,
    pairs: Mapping[tuple[int, int], float],
    result: dict[Pair, Called],
) -> None:
    begun: dict[int, tuple[int, ...]] = {}
    brk = system_calls.NUMBERS.get("brk")
    for raw, of_end in ring.stopped():
        if events.is_enter(raw):
            call = events.call(raw)
            begun[call] = events.arguments(raw)
            for pair in pairs:
                if pair[0] == call:
                    result[_names(pair)].begins += 1
            continue
        call, code = events.ended(raw)
        arguments = of_end or begun.pop(call, ())
        if call == brk:
            if not arguments or not 0 < code < arguments[0]:
                continue
            code = next((known for number, known in pairs if number == call), code)
        called = result[_names((call, code))]
        called.ends += 1
        if arguments:
            called.arguments = [*called.arguments, arguments][-_KEPT:]

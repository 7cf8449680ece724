"""A trace as a subject of `memlab try`: which policies a replay can have, and what it counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from memlab.errors import BadLevels, BadRequest
from memlab.text import units
from memlab.trace import account, file
from memlab.trace.account import LEAST_SHARE

# What the replayer prints (replay.c, finish).
_REFUSED = r"refused[calls]=refused (\d+)"
_PASSED = r"passed_over[touches]=passed over (\d+)"
_NAMED = 3  # traces that a question names one by one
# Words of the replayer's that are levels.
WORDS = {"pace": ("none", "recorded"), "order": ("recorded", "free")}
_POLICIES = (
    "lock", "malloc", "thp", "memory_max", "memory_high", "swap", "overcommit", "cpus", "nice",
)  # fmt: skip
_NO_PRELOAD = (
    "no lock can be preloaded into the program: its replay is locked as if it called mlockall(2)"
)
_HUGE_SETTINGS = ("madvise", "always")  # what a level may set of the host; `never` is the process's
_TIME_LACKS = "the kernel's time for files and sockets is not in"
_GUESSED_WORTH_SAYING = 0.05
_UNTOUCHED_WORTH_SAYING = 0.05
_LOOKED_WELL = 0.95
_LIMITS = ("memory_max", "memory_high")
_WHY_NOT = {
    "aslr": "a replay has the recorded addresses",
    "stack": "a replay has the recorded stack",
    "nofile": "a replay opens no file of the program's",
}


def checked(
    paths: Sequence[Path],
    policies: Mapping[str, Sequence[object]],
    *,
    serve: Sequence[str],
    metrics: Sequence[str],
) -> str:
    """What is tried, in words. BadTrace, BadLevels and BadRequest say what cannot be."""
    traces = [file.read(path) for path in paths]
    if serve or metrics:
        raise BadRequest(f"{paths[0].name} is a trace: it has no service, and prints no metric")
    check_one_program(traces)
    _check_levels(traces, policies)
    names = [trace.path.name for trace in traces]
    if len(names) > _NAMED:
        names = [names[0], f"{len(names) - 1} more"]
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"{listed} ({'; '.join(dict.fromkeys(_notes(traces, policies)))})"


def check_one_program(traces: Sequence[file.Trace]) -> None:
    """Several traces are recordings of one program, each of another run."""
    ids: dict[tuple[int, int, float], Path] = {}
    names = {file.name(trace): trace.path.name for trace in reversed(traces)}
    names.pop("", None)  # redacted
    if len(names) > 1:
        (other, second), *_, (name, first) = names.items()
        raise BadRequest(
            f"{first} is of {name}, {second} of {other}: name recordings of one program, as "
            "`memlab record --runs` makes them"
        )
    for trace in traces:
        same = ids.setdefault((trace.sum, trace.recorded_s, trace.elapsed_s), trace.path)
        if same is not trace.path:
            raise BadRequest(
                f"{trace.path.name} and {same.name} are one recording: name each recording once"
            )


def _check_levels(traces: Sequence[file.Trace], policies: Mapping[str, Sequence[object]]) -> None:
    silent = next((trace.path.name for trace in traces if not trace.allocations), "")
    for name, levels in policies.items():
        if name in WORDS:
            if wrong := [level for level in levels if level not in WORDS[name]]:
                known = ", ".join(WORDS[name])
                raise BadLevels(f"{name}: invalid value {wrong[0]!r} (choose from {known})")
        elif name == "malloc" and silent:
            raise BadLevels(f"malloc: {silent} has no allocations: memlab record --allocations ...")
        elif name not in _POLICIES:
            why = _WHY_NOT.get(name, "a replay has no arguments and environment")
            known = ", ".join([*_POLICIES, *WORDS])
            raise BadLevels(f"{name} is not a policy of a trace: {why}; policies: {known}")
    if "malloc" in policies and "pace" in policies:
        raise BadLevels("pace: allocations are replayed without their times")


def _notes(traces: Sequence[file.Trace], policies: Mapping[str, Sequence[object]]) -> Iterator[str]:
    for trace in traces:
        if trace.incomplete:
            which = f"{trace.path.name} is " if len(traces) > 1 else ""
            yield f"{which}incomplete: {trace.incomplete}"
    yield from _inside(traces, policies)
    yield from _coverage(traces, policies)
    yield from (f"not replayed: {what}" for trace in traces for what in trace.left_out)
    if has_limits(policies):
        yield from _reuse(traces)
    yield from _settings_read(traces, policies)
    yield from dict.fromkeys(doubt for trace in traces for doubt in trace.doubts)
    if len(traces) > 1:
        yield f"{len(traces)} recorded runs; {_TIME_LACKS} them"
    else:
        yield f"one recorded run; how runs differ is not in it; {_TIME_LACKS} it"
    if any(trace.small_pages for trace in traces):
        yield "recorded without huge pages"
    is_huge = any(trace.huge for trace in traces)
    if is_huge and any(level == "never" for level in policies.get("thp", ())):
        yield "recorded with huge pages allowed: without them it may have more touches"


def _populated(counts: Sequence[account.TraceAccount]) -> Iterator[str]:
    """Pages without a fault are in no share of what was touched."""
    if populated := max(counted.populated_bytes for counted in counts):
        size = units.format_quantity(populated, "B")
        yield f"up to {size} that its own calls brought in (MAP_POPULATE, mlock) is in no share"


def _reuse(traces: Sequence[file.Trace]) -> Iterator[str]:
    """What a memory limit acts on and a recording does not show, in the one that shows least."""
    yield "files that it read or wrote without mapping them are not in it"
    counts = [account.of(trace) for trace in traces]
    if all(trace.used_again for trace in traces):
        looked = min(counted.looked_share for counted in counts)
        why = "" if looked >= _LOOKED_WELL else ": other processes ended before two looks"
        share = units.format_percent(looked)
        yield f"pages used again are known for {share} of what it touched{why}"
        guessed = max(counted.guessed_share for counted in counts)
        if guessed >= _GUESSED_WORTH_SAYING:
            share = units.format_percent(guessed)
            yield f"of {share} of the pages used again the mapping is known, and not the place"
    yield from _populated(counts)
    if offered := max(counted.offered_pages for counted in counts):
        yield (
            f"it offered {offered:,} pages by MADV_FREE; whether it wrote to them again is not in "
            "a trace"
        )


def _settings_read(
    traces: Sequence[file.Trace], policies: Mapping[str, Sequence[object]]
) -> Iterator[str]:
    """What it may have made dependent on a setting that is another at a level: redis-server turns
    huge pages off for itself if it reads `always`, and a JVM sizes its heap by its limit."""
    for level in _HUGE_SETTINGS:
        if all(str(one) != level for one in policies.get("thp", ())):
            continue
        if other := [t for t in traces if t.looked_at_huge and t.huge_setting != level]:
            yield (
                f"it read the host's setting of huge pages ({other[0].huge_setting}), and may act "
                f"otherwise under {level}"
            )
        elif any(trace.looked_at_huge is None for trace in traces):
            yield f"it is not known whether it acts otherwise if it reads thp={level}"
    if any(trace.looked_at_limit for trace in traces):
        yield (
            "it read the memory limit of its cgroup, and may act otherwise under that of a trial"
        )
    elif has_limits(policies) and any(trace.looked_at_limit is None for trace in traces):
        yield "it is not known whether it acts otherwise if it reads its memory limit"


def repeated(count: int, how: Mapping[str, Any]) -> dict[str, Any]:
    """How a request of so many traces is to be run: each is replayed as often as the others.
    BadRequest if that cannot be."""
    blocks = how.get("blocks")
    if count == 1:
        return {**how}
    if how.get("sessions", 1) > 1 or how.get("precision") is not None:
        raise BadRequest(f"{count} recordings: each counts once, without sessions and --precision")
    if blocks is not None and blocks % count:
        raise BadRequest(
            f"--blocks {blocks}: each of {count} recordings is replayed as often as the others; "
            f"name a multiple of {count}"
        )
    return {**how, "blocks": blocks or count}


def _coverage(
    traces: Sequence[file.Trace], policies: Mapping[str, Sequence[object]]
) -> Iterator[str]:
    """How much of the program's memory a policy acts on, in the recording with the least;
    BadLevels if that is under half."""
    if not _locks(policies) and "malloc" not in policies:
        return
    counts = [(trace.path.name, account.of(trace)) for trace in traces]
    if "malloc" in policies:
        name, counted = min(counts, key=lambda item: item[1].allocated_share)
        share = counted.allocated_share
        said = f"allocations are {units.format_percent(share)} of the memory that it touched"
        if share < LEAST_SHARE:
            raise BadLevels(
                f"malloc: {name}: {said}, under half: it says nothing about another "
                "allocator; a static program, or one with its own allocator, calls no malloc"
            )
        yield said
        yield from _populated([counted for _, counted in counts])
        name, counted = max(counts, key=lambda item: item[1].untouched_share)
        if counted.untouched_share >= _UNTOUCHED_WORTH_SAYING:
            yield (
                f"a replay writes {counted.untouched_pages:,} pages of blocks that the program "
                f"did not write, beside {counted.block_pages:,} that it wrote"
            )
        return
    if not all(counted.has_start for _, counted in counts):
        yield _NO_PRELOAD
    name, counted = min(counts, key=lambda item: item[1].lockable_share)
    if (share := counted.lockable_share) < 1:
        said = f"a lock is in force for {units.format_percent(share)} of what it touched"
        if share < LEAST_SHARE:
            raise BadLevels(
                f"lock: {name}: {said}, under half: it says nothing about a lock; static "
                "programs that it starts and its forked children are not locked"
            )
        yield said
        yield from _populated([counted for _, counted in counts])


def _inside(
    traces: Sequence[file.Trace], policies: Mapping[str, Sequence[object]]
) -> Iterator[str]:
    """How much of a program is in the trace if the kernel ended its events; BadLevels if that is
    under half."""
    needs = [
        *(["malloc"] if "malloc" in policies else []),
        *(["lock"] if _locks(policies) else []),
        *(name for name in _LIMITS if has_limits({name: policies.get(name, ())})),
    ]
    for trace in traces if needs else ():
        if not trace.unfollowed:
            continue
        counted = account.of(trace)
        share, clause = account.inside_most(trace, counted), account.inside(trace, counted)
        if share is not None and share < LEAST_SHARE:
            raise BadLevels(
                f"{needs[0]}: {trace.path.name}: {clause}, under half: it says nothing about "
                f"{needs[0]}"
            )
        yield clause


def _locks(policies: Mapping[str, Sequence[object]]) -> bool:
    """Whether what is mapped later is locked at a level."""
    return any(str(level).startswith("future") for level in policies.get("lock", ()))


def has_limits(policies: Mapping[str, Sequence[object]]) -> bool:
    """Whether memory is reclaimed at a level."""
    levels = chain.from_iterable(policies.get(name, ()) for name in _LIMITS)
    return any(str(level) != "none" for level in levels)


def knows_reuse(paths: Sequence[Path]) -> bool:
    """Whether a replay of each of them uses again what the program did."""
    traces = [file.read(path) for path in paths]
    return all(trace.used_again and account.of(trace).shows_reuse for trace in traces)


def words(policies: Mapping[str, Sequence[object]]) -> list[str]:
    """The replayer's words before the trace."""
    return [f"{name}={{{name}}}" for name in WORDS if name in policies]


def metrics(policies: Mapping[str, Sequence[object]]) -> list[str]:
    """What is read of the replayer's line, as --metric takes it."""
    passes = "order" in policies and "malloc" not in policies
    return [_REFUSED, *([_PASSED] if passes else [])]

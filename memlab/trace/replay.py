"""A trace as a subject of `memlab try`: which policies a replay can have, and what it counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

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
_SMALL_PAGES = ("never", "inherit")  # levels of thp
_HUGE_BYTES, _HUGE_WORTH_SAYING = 2 << 20, 0.05  # on x86-64 and arm64, of pages of 4 KiB
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
    counts = _counted(traces)
    yield from _inside(traces, counts, policies)
    yield from _coverage(counts, policies)
    if len(traces) == 1:  # several show it
        yield from account.series(traces[0], counts[0].account)
        yield from _placed(counts[0].account, policies)
    yield from (f"not replayed: {what}" for what in _of_some(traces, lambda one: one.left_out))
    if has_limits(policies):
        yield from _reuse(traces, counts)
    yield from _settings_read(traces, policies)
    yield from _of_some(traces, lambda one: one.doubts)
    if len(traces) > 1:
        yield f"{len(traces)} recorded runs; {_TIME_LACKS} them"
    else:
        yield f"one recorded run; how runs differ is not in it; {_TIME_LACKS} it"
    if any(trace.small_pages for trace in traces):
        yield "recorded without huge pages"
    is_huge = any(trace.huge for trace in traces)
    if is_huge and any(level == "never" for level in policies.get("thp", ())):
        yield "recorded with huge pages allowed: without them it may have more touches"


def _placed(
    counted: account.TraceAccount, policies: Mapping[str, Sequence[object]]
) -> Iterator[str]:
    """A clause if the effect of huge pages on a small program is due to chance."""
    has_huge_pages = any(str(level) not in _SMALL_PAGES for level in policies.get("thp", ()))
    peak_bytes = counted.peak_pages * os.sysconf("SC_PAGESIZE")
    if has_huge_pages and peak_bytes and _HUGE_WORTH_SAYING * peak_bytes <= _HUGE_BYTES:
        share = units.format_percent(_HUGE_BYTES / peak_bytes)
        yield (
            "where a huge page fits depends on addresses, which differ from run to run, and one is "
            f"{share} of its peak"
        )


def _of_some(
    traces: Sequence[file.Trace], said_of: Callable[[file.Trace], Iterator[str]]
) -> Iterator[str]:
    """What is said of traces, each thing once, with their names if it is not said of all."""
    names: dict[str, list[str]] = {}
    for trace in traces:
        for clause in said_of(trace):
            names.setdefault(clause, []).append(trace.path.name)
    for clause, those in names.items():
        yield clause if len(those) == len(traces) else f"{clause} in {', '.join(those)}"


class _Counted(NamedTuple):
    """A trace of those that are tried. `which` names it in a clause if there are others."""

    name: str
    account: account.TraceAccount
    which: str


def _counted(traces: Sequence[file.Trace]) -> list[_Counted]:
    names = (trace.path.name for trace in traces)
    return [
        _Counted(name, account.of(trace), f" in {name}" if len(traces) > 1 else "")
        for name, trace in zip(names, traces, strict=True)
    ]


def _populated(counts: Sequence[_Counted]) -> Iterator[str]:
    """Pages without a fault are in no share of what was touched."""
    most = max(counts, key=lambda one: one.account.populated_bytes)
    if populated := most.account.populated_bytes:
        size = units.format_quantity(populated, "B")
        yield (
            f"up to {size} that its own calls brought in (MAP_POPULATE, mlock){most.which} is in "
            "no share"
        )


def _reuse(traces: Sequence[file.Trace], counts: Sequence[_Counted]) -> Iterator[str]:
    """What a memory limit acts on and a recording does not show, in the one that shows least."""
    yield "files that it read or wrote without mapping them are not in it"
    if all(trace.used_again for trace in traces):
        least = min(counts, key=lambda one: one.account.looked_share)
        share_known = least.account.looked_share
        why = "" if share_known >= _LOOKED_WELL else ": other processes ended before two looks"
        share = units.format_percent(share_known)
        yield f"pages used again are known for {share} of what it touched{least.which}{why}"
        most = max(counts, key=lambda one: one.account.guessed_share)
        if most.account.guessed_share >= _GUESSED_WORTH_SAYING:
            share = units.format_percent(most.account.guessed_share)
            yield (
                f"of {share} of the pages used again{most.which} the mapping is known, and not the "
                "place"
            )
    yield from _populated(counts)
    most = max(counts, key=lambda one: one.account.offered_pages)
    if offered := most.account.offered_pages:
        yield (
            f"it offered {offered:,} pages by MADV_FREE{most.which}; whether it wrote to them "
            "again is not in a trace"
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
    counts: Sequence[_Counted], policies: Mapping[str, Sequence[object]]
) -> Iterator[str]:
    """How much of the program's memory a policy acts on, in the recording with the least;
    BadLevels if that is under half."""
    if not _locks(policies) and "malloc" not in policies:
        return
    if "malloc" in policies:
        least = min(counts, key=lambda one: one.account.allocated_share)
        share = least.account.allocated_share
        said = f"allocations are {units.format_percent(share)} of the memory that it touched"
        if share < LEAST_SHARE:
            raise BadLevels(
                f"malloc: {least.name}: {said}, under half: it says nothing about another "
                "allocator; a static program, or one with its own allocator, calls no malloc"
            )
        yield said + least.which
        yield from _populated(counts)
        most = max(counts, key=lambda one: one.account.huge_asked_bytes)
        if asked := most.account.huge_asked_bytes:
            size = units.format_quantity(asked, "B")
            yield (
                f"it asks for huge pages (MADV_HUGEPAGE, {size} in all){most.which}, and a replay "
                "of allocations does not"
            )
        most = max(counts, key=lambda one: one.account.untouched_share)
        if most.account.untouched_share >= _UNTOUCHED_WORTH_SAYING:
            yield (
                f"a replay writes {most.account.untouched_pages:,} pages of blocks that the "
                f"program did not write{most.which}, beside {most.account.block_pages:,} that it "
                "wrote"
            )
        return
    if not all(one.account.has_start for one in counts):
        yield _NO_PRELOAD
    least = min(counts, key=lambda one: one.account.lockable_share)
    if (share := least.account.lockable_share) < 1:
        said = f"a lock is in force for {units.format_percent(share)} of what it touched"
        if share < LEAST_SHARE:
            raise BadLevels(
                f"lock: {least.name}: {said}, under half: it says nothing about a lock; static "
                "programs that it starts and its forked children are not locked"
            )
        yield said + least.which
        yield from _populated(counts)


def _inside(
    traces: Sequence[file.Trace],
    counts: Sequence[_Counted],
    policies: Mapping[str, Sequence[object]],
) -> Iterator[str]:
    """How much of a program is in the trace if the kernel ended its events; BadLevels if that is
    under half."""
    needs = [
        *(["malloc"] if "malloc" in policies else []),
        *(["lock"] if _locks(policies) else []),
        *(name for name in _LIMITS if has_limits({name: policies.get(name, ())})),
    ]
    for trace, (name, counted, which) in zip(traces, counts, strict=True) if needs else ():
        if not trace.unfollowed:
            continue
        share, clause = account.inside_most(trace, counted), account.inside(trace, counted)
        if share is not None and share < LEAST_SHARE:
            raise BadLevels(
                f"{needs[0]}: {name}: {clause}, under half: it says nothing about {needs[0]}"
            )
        yield f"{clause}{which and f', {name}'}"


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

"""A trace as a subject of `memlab try`: which policies a replay can have, and what it counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from memlab.errors import BadLevels, BadRequest
from memlab.text import units
from memlab.trace import account, file

# What the replayer prints (replay.c, finish).
_REFUSED = r"refused[calls]=refused (\d+)"
_PASSED = r"passed_over[touches]=passed over (\d+)"
LEAST_SHARE = 0.5  # of a program's memory in its allocations, or another allocator says nothing
# Words of the replayer's that are levels.
WORDS = {"pace": ("none", "recorded"), "order": ("recorded", "free")}
_POLICIES = (
    "lock", "malloc", "thp", "memory_max", "memory_high", "swap", "overcommit", "cpus", "nice",
)  # fmt: skip
_WHY_NOT = {
    "aslr": "a replay has the recorded addresses",
    "stack": "a replay has the recorded stack",
    "nofile": "a replay opens no file of the program's",
}


def checked(
    path: Path,
    policies: Mapping[str, Sequence[object]],
    *,
    serve: Sequence[str],
    metrics: Sequence[str],
) -> str:
    """What is tried, in words. BadTrace, BadLevels and BadRequest say what cannot be."""
    trace = file.read(path)
    if serve or metrics:
        raise BadRequest(f"{path.name} is a trace: it has no service, and prints no metric")
    for name, levels in policies.items():
        if name in WORDS:
            if wrong := [level for level in levels if level not in WORDS[name]]:
                known = ", ".join(WORDS[name])
                raise BadLevels(f"{name}: invalid value {wrong[0]!r} (choose from {known})")
        elif name == "malloc" and not trace.allocations:
            raise BadLevels("malloc: the trace has no allocations: memlab record --allocations ...")
        elif name not in _POLICIES:
            why = _WHY_NOT.get(name, "a replay has no arguments and environment")
            known = ", ".join([*_POLICIES, *WORDS])
            raise BadLevels(f"{name} is not a policy of a trace: {why}; policies: {known}")
    if "malloc" in policies and "pace" in policies:
        raise BadLevels("pace: allocations are replayed without their times")
    if "malloc" in policies and "order" in policies:
        raise BadLevels("order: allocations are replayed in their order")
    notes = [f"incomplete: {trace.incomplete}"] if trace.incomplete else []
    notes += _coverage(trace, policies)
    notes.append("one recorded run; how runs differ is not in it")
    if trace.small_pages:
        notes.append("recorded without huge pages")
    if trace.huge and any(level == "never" for level in policies.get("thp", ())):
        notes.append("recorded with huge pages: without them it has touches that are not in it")
    return f"{path.name} ({'; '.join(notes)})"


def _coverage(trace: file.Trace, policies: Mapping[str, Sequence[object]]) -> Iterator[str]:
    """How much of the program's memory a policy acts on; BadLevels if that is under half."""
    locks = any(str(level).startswith("future") for level in policies.get("lock", ()))
    if not locks and "malloc" not in policies:
        return
    counted = account.of(trace)
    if "malloc" in policies:
        share = counted.allocated_share
        said = f"allocations are {units.format_percent(share)} of the memory that it touched"
        if share < LEAST_SHARE:
            raise BadLevels(
                f"malloc: {trace.path.name}: {said}, under half: it says nothing of another "
                "allocator; a static program, or one with its own allocator, calls no malloc"
            )
        yield said
    elif locks and (share := counted.lockable_share) < 1:
        said = f"a lock is in force for {units.format_percent(share)} of what it touched"
        if share < LEAST_SHARE:
            raise BadLevels(
                f"lock: {trace.path.name}: {said}, under half: it says nothing of a lock; static "
                "programs that it starts and its forked children are not locked"
            )
        yield said


def words(policies: Mapping[str, Sequence[object]]) -> list[str]:
    """The replayer's words before the trace."""
    return [f"{name}={{{name}}}" for name in WORDS if name in policies]


def metrics(policies: Mapping[str, Sequence[object]]) -> list[str]:
    """What is read of the replayer's line, as --metric takes it."""
    return [_REFUSED, *([_PASSED] if "order" in policies else [])]

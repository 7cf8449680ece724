"""Why the slowest operations of a traced window were slow: operations held against intervals.

What is judged is what a traced probe returns (probes/support/attribution.h), as it is stored:

- `operations`: how many there were; `events`: per cause, how many its threads met in all
- `slow`: columns of the slowest operations, slowest first: `thread`, `cpu`, `latency_ns`, and
  `from_ns` and `held_ns`, since when the thread was held up and for how long
- `met`: per cause, columns of the intervals in which a thread was inside it: `thread`, `from_ns`,
  `length_ns`; those of one thread are in order and do not overlap
- `cpus`: columns of the traced CPUs: `cpu`, and `full_ns`, when its trace was full, 0 for never

Times are nanoseconds since the window's start. The rules are parameters: a stored sample can be
judged again by others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

EXPLAINS_ONE_IN = 10
"""A cause explains an operation if it took at least one in so many parts of the time for which its
thread was held up. Less, such as a timer's microsecond in a millisecond that the hypervisor took,
was met, but is not why."""

Found = Mapping[str, Any]
Columns = Mapping[str, npt.NDArray[np.int64]]


def tail(trace: Found, one_in: int, explains_one_in: int = EXPLAINS_ONE_IN) -> dict[str, Any]:
    """The slowest one in so many of the operations, counted by what they met.

    `operation_count` were judged of `wanted_count`, and `untraced_count` ended after the trace was
    full. `nothing_count` met nothing, and `brief_count` nothing that explains them. A cause has
    `met_count` operations, of which it was the main one of `main_count`; where two took as long,
    the first of `events` is the main one.
    """
    wanted = trace["operations"] // one_in
    slow = _columns(trace["slow"], wanted)
    met, inside_ns = _met(trace, slow)
    latency_ns, judged = slow["latency_ns"], _traced(trace, slow)
    longest_ns = inside_ns.max(axis=1)
    explained = (longest_ns > 0) & (longest_ns >= slow["held_ns"] // explains_one_in)
    main = np.where(explained, inside_ns.argmax(axis=1), -1)
    causes = {
        cause: {
            "met_count": int((met[:, i] & judged).sum()),
            "main_count": int(((main == i) & judged).sum()),
            "main_ns": int(latency_ns[(main == i) & judged].sum()),
            "inside_ns": int(inside_ns[judged, i].sum()),
        }
        for i, cause in enumerate(trace["events"])
    }
    return {
        "one_in": one_in,
        "operation_count": int(judged.sum()),
        "wanted_count": wanted,
        "untraced_count": int((~judged).sum()),
        "shortest_ns": int(latency_ns[-1]) if latency_ns.size else 0,
        "latency_ns": int(latency_ns[judged].sum()),
        "nothing_count": int((~met.any(axis=1) & judged).sum()),
        "brief_count": int((met.any(axis=1) & ~explained & judged).sum()),
        "causes": {cause: counts for cause, counts in causes.items() if counts["met_count"]},
    }


def examples(trace: Found, most: int = 5) -> list[dict[str, Any]]:
    """The slowest operations and how long they were inside what they met. Of several that were
    held up by the same, the slowest one."""
    since = trace["slow"]["from_ns"]
    rows = sorted({from_ns: i for i, from_ns in reversed([*enumerate(since)])}.values())[:most]
    slow = {name: column[rows] for name, column in _columns(trace["slow"]).items()}
    _, inside_ns = _met(trace, slow)
    return [
        {
            "held_ns": int(slow["from_ns"][i]),
            "latency_ns": int(slow["latency_ns"][i]),
            "cpu": int(slow["cpu"][i]),
            "inside_ns": {
                cause: int(time_ns)
                for cause, time_ns in zip(trace["events"], inside_ns[i], strict=True)
                if time_ns
            },
        }
        for i in range(len(rows))
    ]


def _columns(table: Mapping[str, list[int]], most: int | None = None) -> Columns:
    return {name: np.array(column[:most], np.int64) for name, column in table.items()}


def _traced(trace: Found, slow: Columns) -> npt.NDArray[np.bool_]:
    """Which operations ended on a CPU whose trace was not yet full."""
    ended_ns = slow["from_ns"] + slow["held_ns"]
    cpus = zip(trace["cpus"]["cpu"], trace["cpus"]["full_ns"], strict=True)
    until_ns = {cpu: full_ns or np.iinfo(np.int64).max for cpu, full_ns in cpus}
    return ended_ns <= np.array([until_ns.get(cpu, -1) for cpu in slow["cpu"].tolist()], np.int64)


def _met(trace: Found, slow: Columns) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Whether each operation met each cause, also for no time, and for how long; shape
    (operations, causes)."""
    shape = len(slow["from_ns"]), len(trace["events"])
    met, inside_ns = np.zeros(shape, np.bool_), np.zeros(shape, np.int64)
    for cause, name in enumerate(trace["events"]):
        table = _columns(trace["met"].get(name, {"thread": []}))
        for thread in np.unique(table["thread"]):
            of_thread, of = slow["thread"] == thread, table["thread"] == thread
            from_ns, held_from_ns = table["from_ns"][of], slow["from_ns"][of_thread]
            to_ns, held_to_ns = (
                from_ns + table["length_ns"][of],
                held_from_ns + slow["held_ns"][of_thread],
            )
            first = np.searchsorted(to_ns, held_from_ns, "left")
            end = np.searchsorted(from_ns, held_to_ns, "right")
            any_met = end > first
            before_ns = np.concatenate([[0], np.cumsum(to_ns - from_ns)])
            early_ns = np.maximum(0, held_from_ns - from_ns[np.minimum(first, of.sum() - 1)])
            late_ns = np.maximum(0, to_ns[end - 1] - held_to_ns)
            overlap_ns = before_ns[end] - before_ns[first] - early_ns - late_ns
            met[of_thread, cause], inside_ns[of_thread, cause] = (
                any_met,
                np.where(any_met, overlap_ns, 0),
            )
    return met, inside_ns

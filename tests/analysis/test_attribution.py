"""Slow operations held against intervals: the same as by looking at each pair of both."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memlab.analysis.attribution import examples, tail

CAUSES = ("fault", "switch", "timer")
GAPS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), max_size=8)


def intervals(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Gaps and lengths as (from, to), which do not overlap."""
    found, now = [], 0
    for gap, length in gaps:
        found.append((now + gap, now + gap + length))
        now += gap + length
    return found


@st.composite
def traces(draw: st.DrawFn) -> dict[str, Any]:
    """Two threads' operations and what they met, on CPUs 0 and 1, of which CPU 1 may be full."""
    operation = st.tuples(
        st.integers(0, 1), st.integers(0, 2), st.integers(0, 300), st.integers(1, 100)
    )
    slow = sorted(draw(st.lists(operation, max_size=12)), key=lambda one: -one[3])
    met = {}
    for cause in CAUSES:
        rows = [(t, *at) for t in (0, 1) for at in intervals(draw(GAPS))]
        if rows:
            met[cause] = {
                "thread": [thread for thread, _, _ in rows],
                "from_ns": [from_ns for _, from_ns, _ in rows],
                "length_ns": [to_ns - from_ns for _, from_ns, to_ns in rows],
            }
    return {
        "operations": 10 * len(slow),
        "events": {cause: {"count": 0, "error": None} for cause in CAUSES},
        "cpus": {"cpu": [0, 1], "full_ns": [0, draw(st.integers(0, 300))]},
        "slow": {
            "thread": [one[0] for one in slow],
            "cpu": [one[1] for one in slow],
            "from_ns": [one[2] for one in slow],
            "held_ns": [one[3] for one in slow],
            "latency_ns": [one[3] for one in slow],
        },
        "met": met,
    }


def inside(found: dict[str, Any], i: int, cause: str) -> tuple[bool, int]:
    """Pair by pair."""
    slow, rows = found["slow"], found["met"].get(cause, {"thread": []})
    begin, end = slow["from_ns"][i], slow["from_ns"][i] + slow["held_ns"][i]
    met, time_ns = False, 0
    for j, thread in enumerate(rows["thread"]):
        from_ns, to_ns = rows["from_ns"][j], rows["from_ns"][j] + rows["length_ns"][j]
        if thread == slow["thread"][i] and from_ns <= end and to_ns >= begin:
            met, time_ns = True, time_ns + min(to_ns, end) - max(from_ns, begin)
    return met, time_ns


@given(traces(), st.sampled_from([10, 20]), st.sampled_from([2, 10]))
def test_a_tail_is_what_looking_at_each_pair_finds(
    found: dict[str, Any], one_in: int, explains_one_in: int
) -> None:
    slow, wanted = found["slow"], found["operations"] // one_in
    full_ns = found["cpus"]["full_ns"][1] or 10**9
    counted = dict.fromkeys(["nothing_count", "brief_count", "operation_count", "latency_ns"], 0)
    causes = {cause: {"met_count": 0, "main_count": 0, "inside_ns": 0} for cause in CAUSES}
    for i in range(wanted):
        if slow["from_ns"][i] + slow["held_ns"][i] > {0: 10**9, 1: full_ns}.get(slow["cpu"][i], -1):
            continue
        pairs = {cause: inside(found, i, cause) for cause in CAUSES}
        longest = max(CAUSES, key=lambda cause: pairs[cause][1])
        longest_ns = pairs[longest][1]
        counted["operation_count"] += 1
        counted["latency_ns"] += slow["latency_ns"][i]
        for cause, (met, time_ns) in pairs.items():
            causes[cause]["met_count"] += met
            causes[cause]["inside_ns"] += time_ns
        if not any(met for met, _ in pairs.values()):
            counted["nothing_count"] += 1
        elif longest_ns and longest_ns >= slow["held_ns"][i] // explains_one_in:
            causes[longest]["main_count"] += 1
        else:
            counted["brief_count"] += 1
    judged = tail(found, one_in, explains_one_in)
    assert {name: judged[name] for name in counted} == counted
    assert judged["operation_count"] + judged["untraced_count"] == judged["wanted_count"] == wanted
    for cause, expected in causes.items():
        counts = judged["causes"].get(cause, dict.fromkeys(expected, 0))
        assert {name: counts[name] for name in expected} == expected


@given(traces())
def test_examples_are_the_slowest_that_were_held_up_by_something_else(
    found: dict[str, Any],
) -> None:
    shown = examples(found, most=3)
    since = list(dict.fromkeys(found["slow"]["from_ns"]))
    assert [one["held_ns"] for one in shown] == since[:3]
    for one in shown:
        i = found["slow"]["from_ns"].index(one["held_ns"])
        assert one["latency_ns"] == found["slow"]["latency_ns"][i]
        expected = {cause: inside(found, i, cause)[1] for cause in CAUSES}
        assert one["inside_ns"] == {cause: t for cause, t in expected.items() if t}

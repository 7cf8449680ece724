"""group_isolation: exact counts of work, and who is refused or killed beside a hog."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from held import GROUPS, SWAPS, held_or_skipped, is_unavailable
from quick import mostly_slow

from memlab import probe
from memlab.experiment.points import Point
from memlab.experiments import group_isolation as of
from memlab.experiments.group_isolation import EXPERIMENT
from memlab.observe import cgroup
from memlab.run.executor import LocalExecutor
from memlab.run.journal import Journal

pytestmark = pytest.mark.changes_host

MIB = 2**20
PRIME = 23
SHARE = 8 * MIB
COUNT = 4
CPUS = sorted(os.sched_getaffinity(0))
VERSION = f"v{cgroup.locate().memory_version or 1}"
OTHER = {"v1": "v2", "v2": "v1"}

PARAMS = {
    "group": "",
    "groups_count": COUNT,
    "share_bytes": SHARE,
    "controller": "none",
    "antagonist": "no_hog",
    "operations_count": PRIME,
    "slice_ns": 20_000_000_000,
}


def at(**levels: Any) -> Point:
    own = {"controller": VERSION, "antagonist": "no_hog", "groups": COUNT, "share": SHARE}
    own["swap"] = "none"
    return Point(0, own | {"operations": PRIME, "slice": 20.0} | levels, None)


def run(bench: LocalExecutor, **levels: Any) -> dict[str, Any]:
    """The trial's result; a host that holds no group skips the test."""
    reply = held_or_skipped(bench.trial(at(**levels)))
    assert reply["outcome"] == "ok", reply
    result: dict[str, Any] = reply["result"]
    return result | {"kills": reply["context"]["host"]["group_oom_kill"]}


def killed(result: dict[str, Any]) -> list[int]:
    """The numbers of the groups whose process was killed."""
    groups = result["groups"][: result["group_count"]]
    return [i for i, group in enumerate(groups) if group["killed"]]


def done(result: dict[str, Any]) -> list[list[int]]:
    return [group["done_count"] for group in result["groups"][: result["group_count"]]]


@pytest.mark.parametrize("controller", mostly_slow(["none", "rlimit"], "rlimit"))
def test_every_load_is_done_as_often_as_asked(controller: str) -> None:
    """Of what the window counts, each switch puts a process to sleep, and each spawn its parent."""
    result = probe.call("group_isolation", PARAMS | {"controller": controller})
    assert done(result) == [[PRIME] * len(of.LOADS)] * COUNT
    assert killed(result) == []
    assert result["hog_process_count"] == result["hog_asked_bytes"] == 0
    assert result["window"]["voluntary_switch_count"] >= COUNT * 2 * PRIME


@pytest.mark.slow
def test_twice_the_operations_are_twice_the_count() -> None:
    result = probe.call("group_isolation", PARAMS | {"operations_count": 2 * PRIME})
    assert done(result) == [[2 * PRIME] * len(of.LOADS)] * COUNT


def test_the_slice_ends_what_no_count_does() -> None:
    result = probe.call("group_isolation", PARAMS | {"operations_count": 0, "slice_ns": 50_000_000})
    assert result["window"]["elapsed_ns"] >= len(of.LOADS) * 50_000_000
    assert all(sum(counts) > 0 for counts in done(result))


def test_a_group_each_holds_the_same_work(bench: LocalExecutor) -> None:
    result = run(bench)
    assert done(result) == [[PRIME] * len(of.LOADS)] * COUNT
    assert (killed(result), result["kills"]) == ([], 0)


def test_many_small_processes_have_others_killed_where_no_group_is_limited(
    bench: LocalExecutor,
) -> None:
    """Also where each process is: 48 that want an eighth of a share are each within it."""
    for controller in ("none", "rlimit"):
        result = run(bench, controller=controller, antagonist="hogs")
        assert result["hog_process_count"] == 48
        assert result["hog_refused_count"] == 0
        assert set(killed(result)) - {of.HOG_GROUP}


def test_where_there_is_swap_for_all_nobody_is_killed(bench: LocalExecutor) -> None:
    reply = bench.trial(at(controller="none", antagonist="hogs", swap="file"))
    held_or_skipped(reply, SWAPS, "swap" if GROUPS else "a memory cgroup")
    assert reply["outcome"] == "ok", reply
    result = reply["result"]
    assert (killed(result), result["hog_killed_count"]) == ([], 0)
    assert result["hog_held_bytes"] == result["hog_asked_bytes"]


def test_in_a_group_of_their_own_they_have_none_killed(bench: LocalExecutor) -> None:
    result = run(bench, antagonist="hogs")
    assert set(killed(result)) <= {of.HOG_GROUP}
    assert result["hog_killed_count"] > 0
    assert result["hog_held_bytes"] < SHARE
    assert result["kills"] == result["hog_killed_count"] + len(killed(result))


def test_a_large_process_is_refused_by_rlimit_and_killed_by_a_cgroup(bench: LocalExecutor) -> None:
    wide = {"groups": 8, "share": 16 * MIB}  # the loads leave room for a share more
    refused = run(bench, controller="rlimit", antagonist="hog", **wide)
    assert (refused["hog_refused_count"], refused["hog_killed_count"]) == (1, 0)
    assert 0 < refused["hog_held_bytes"] <= 16 * MIB
    assert (killed(refused), refused["kills"]) == ([], 0)
    for controller in ("none", VERSION):
        result = run(bench, controller=controller, antagonist="hog", **wide)
        assert (result["hog_refused_count"], result["hog_killed_count"]) == (0, 1)
        assert set(killed(result)) <= {of.HOG_GROUP}


def test_a_host_has_one_of_the_two_versions(bench: LocalExecutor) -> None:
    reply = held_or_skipped(bench.trial(at(controller=OTHER.get(VERSION, "v1"))))
    assert reply["outcome"] == "unavailable"
    assert f"memory is accounted by {VERSION} here" in reply["detail"]


def test_beancounters_are_looked_for_without_any_group(bench: LocalExecutor) -> None:
    reply = bench.trial(at(controller="beancounters"))
    assert reply["outcome"] == "unavailable"
    assert "/proc/user_beancounters" in reply["detail"]
    assert ("ENOENT" in reply["detail"]) != Path("/proc/user_beancounters").exists()


def test_without_groups_the_rows_without_a_hog_are_measured(
    bench: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an ordinary user finds it: nothing that is not contained may want more than there is."""

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Journal, "make_group", refuse)
    monkeypatch.setattr(Journal, "enable_memory", refuse)
    for controller in ("none", "rlimit"):
        assert bench.trial(at(controller=controller))["outcome"] == "ok"
        reply = bench.trial(at(controller=controller, antagonist="hogs"))
        assert is_unavailable(reply, "a memory cgroup")
    assert is_unavailable(bench.trial(at()), "a memory cgroup")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups_count": 0}, "groups_count must be 1 to 64: EINVAL"),
        ({"groups_count": 65}, "groups_count must be 1 to 64: EINVAL"),
        ({"share_bytes": 4096}, "a group's process, before the start: EINVAL"),
    ],
)
def test_params_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        probe.call("group_isolation", PARAMS | change)


def raw(*groups: int) -> dict[str, Any]:
    """What the probe returns where a group did each load so often; 0: it was killed."""
    made = [{"done_count": [n] * len(of.LOADS), "killed": n == 0} for n in groups]
    return {"groups": [*made, {"done_count": [7], "killed": True}], "group_count": len(groups)}


def test_scores_leave_the_hogs_group_out() -> None:
    quiet = {"antagonist": "no_hog", "slice": 0.5}
    hogs = quiet | {"antagonist": "hogs"}
    seen = raw(50, 100, 0, 200)
    assert of.scores(seen, quiet) == pytest.approx([100, 200, 0, 400])
    values = {name: EXPERIMENT.metric(name).of for name in ("score", "fairness", "killed_groups")}
    assert values["score"](seen, quiet) == pytest.approx(175)
    assert values["score"](seen, hogs) == pytest.approx(200)
    assert values["fairness"](seen, hogs) == pytest.approx(600**2 / (3 * 200_000))
    assert values["killed_groups"](seen, hogs) == 1
    assert values["killed_groups"](raw(0, 5, 5), hogs) == 0


def test_spread_of_known_scores() -> None:
    assert of.variation([1, 1, 1]) == 0
    assert of.variation([1, 3]) == 0.5
    assert of.fairness([4, 4, 4, 4]) == 1
    assert of.fairness([4, 0, 0, 0]) == 0.25
    assert of.lowest([1, 3]) == 0.5
    assert of.variation([0, 0]) is of.fairness([0, 0]) is of.lowest([0, 0]) is None

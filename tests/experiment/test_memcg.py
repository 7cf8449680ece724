"""The memory cgroup experiments in a sweep's own groups: what is a row, and what it says."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from held import GROUPS, RUN, held_or_skipped, is_unavailable

from memlab import experiments
from memlab.observe import cgroup
from memlab.run import plan
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus

VERSION = cgroup.locate().memory_version if GROUPS else None
TINY = {"crossings": [23], "swing": [4 * 2**20], "direction": ["up"], "waiter": ["same_cpu"]}


def replies(
    name: str, folder: Path, levels: Mapping[str, Any]
) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    declared = experiments.load(name)
    with LocalExecutor(RUN, declared, Directories(folder), default_cpus(declared)) as bench:
        for point in plan.build(declared, "quick", levels, controls=False).points:
            yield point.at, bench.trial(point)


def value(name: str, metric: str, at: Mapping[str, Any], reply: Mapping[str, Any]) -> float | None:
    raw = reply["result"] | reply["context"]  # as a sample is read
    return experiments.load(name).metric(metric).of(raw, at)


@pytest.mark.parametrize(("version", "mechanism"), [("1", "threshold"), ("2", "max_poll")])
def test_a_mechanism_is_measured_where_its_cgroups_are(
    version: str, mechanism: str, tmp_path: Path
) -> None:
    levels = TINY | {"mechanism": [mechanism], "thresholds": [1]}
    ((at, reply),) = replies("memcg-notify", tmp_path, levels)
    held_or_skipped(reply)
    if version == VERSION:
        assert reply["outcome"] == "ok", reply
        assert reply["context"]["contained"]["version"] == version
        assert value("memcg-notify", "missed", at, reply) == 0
        assert (value("memcg-notify", "latency", at, reply) or 0) > 0
    else:
        theirs = "memory.events is of cgroup v2, and the group is of v1: "
        if mechanism == "threshold":
            theirs = "cgroup.event_control is of cgroup v1, and the group is of v2: "
        assert reply["outcome"] == "unavailable"
        assert theirs in reply["detail"]


def test_thresholds_of_one_trial_are_gone_in_the_next(tmp_path: Path) -> None:
    """Arming waits for whoever is still taking thresholds of the same group back: a second trial
    that armed among the first one's would find notifications of the others."""
    levels = TINY | {"mechanism": ["threshold"], "thresholds": [16, 2]}
    for at, reply in replies("memcg-notify", tmp_path, levels):
        if VERSION != "1":
            assert reply["outcome"] == "unavailable"
            pytest.skip(reply["detail"])
        assert reply["outcome"] == "ok", reply
        ways = [f"{way}_notifications" for way in ("up", "down", "other")]
        assert [value("memcg-notify", way, at, reply) for way in ways] == [1, 1, 1]


def test_depth_is_that_of_the_point_and_outside_needs_no_group(tmp_path: Path) -> None:
    levels = {"size": [4 * 2**20], "passes": [2], "thresholds": [0], "work": ["fault"]}
    depths = {}
    for at, reply in replies("memcg-overhead", tmp_path, levels):
        if at["cgroup"] == "inside" and not GROUPS:
            assert is_unavailable(reply, "a memory cgroup")
            continue
        assert reply["outcome"] == "ok", reply
        assert value("memcg-overhead", "notifications", at, reply) == 0
        found = value("memcg-overhead", "cgroup_depth", at, reply)
        depths[at["cgroup"], at["depth"]] = found
    assert ("outside", 1) in depths
    if GROUPS:
        assert depths["inside", 4] == (depths["inside", 1] or 0) + 3

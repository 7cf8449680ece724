"""Names that were others before 0.2, for stores, exported files and command lines of that time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memlab.errors import BadLevels

# By experiment, the old name and the new one: of a factor, a metric or a field of the probe's
# result; as `factor=level` of a level, as `control=name` of a control.
RENAMED: Mapping[str, Mapping[str, str]] = {
    "allocator": {"rss_most": "rss_max", "rss_last": "rss_end"},
    "coop-reclaim": {
        "manager": "eviction",
        "manager=told": "eviction=notified",
        "manager=random": "eviction=notified_random",
        "manager=counted": "eviction=self_counted",
        "control=counted": "control=self_counted",
        "charged_most": "charged_max",
        "dropped": "evicted",
        "dropped_count": "evicted_count",
        "notice_count": "notification_count",
        "notices": "notifications",
        "wrong": "corrupt",
        "wrong_count": "corrupt_count",
    },
    "group-isolation": {"neighbour": "antagonist", "neighbour=quiet": "antagonist=no_hog"},
    "locked-latency": {"neighbour": "antagonist", "neighbour_killed": "antagonist_killed"},
    "memcg-notify": {
        "up_told": "up_notifications",
        "down_told": "down_notifications",
        "others_told": "other_notifications",
        "overshoot_most": "overshoot_max",
        "late": "overshoot_at_signal",
        "plain": "eventfd_delivery",
        "delivery_over_plain": "delivery_over_eventfd",
    },
    "memcg-overhead": {
        "told": "notifications",
        "told_count": "notification_count",
        "groups_around": "cgroup_depth",
    },
    "mmap-overcommit": {
        "asked": "requested",
        "asked_bytes": "requested_bytes",
        "witness_killed": "outside_killed",
    },
    "stack-map": {
        "faults_a_thread": "faults_per_thread",
        "locked_a_thread": "locked_per_thread",
        "resident_a_thread": "resident_per_thread",
    },
    "thread-create": {
        "bystander": "mmap_lock_probe",
        "control=bystander": "control=mmap_lock_probe",
        "bystander_latency": "mmap_lock_latency",
        "bystander_p99": "mmap_lock_p99",
        "bystander_worst": "mmap_lock_worst",
        "bystander_mean": "mmap_lock_mean",
        "faults_a_thread": "faults_per_thread",
        "unfairness": "imbalance",
    },
}


def current(experiment: str, stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was stored or exported of an experiment, by today's names."""
    names = RENAMED.get(experiment)
    return _renamed(names, "", stored) if names else stored


def name(experiment: str, old: str) -> str:
    """Today's name of a factor or metric."""
    return RENAMED.get(experiment, {}).get(old, old)


def refuse(experiment: str, factor: str, levels: Iterable[object]) -> None:
    """BadLevels for a factor or levels under an old name, with the new ones."""
    given = [str(level).strip() for level in levels]
    new = current(experiment, {factor: given})
    if new != {factor: given}:
        old, ((to, said),) = f"{factor}={','.join(given)}", new.items()
        raise BadLevels(f"{experiment}: {old} is renamed to {to}={','.join(said)}")


def _renamed(names: Mapping[str, str], key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {names.get(k, k): _renamed(names, k, v) for k, v in value.items()}
    if isinstance(value, list):
        return [_renamed(names, key, part) for part in value]
    if isinstance(value, str) and (new := names.get(f"{key}={value}")):
        return new.partition("=")[2]
    return value

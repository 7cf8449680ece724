"""A fleet's answer: what each host shows, which one stands apart, and what about it differs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from memlab.analysis.noise import outliers
from memlab.analysis.separation import Separation, separation
from memlab.experiment.points import point_key
from memlab.judging.claims import judge
from memlab.judging.summary import ClaimSummary, by_claim
from memlab.machines.ladder import judge as ladder
from memlab.machines.ladder.judge import KernelRow
from memlab.observe import environment
from memlab.results import Run
from memlab.text import units

HERE = "this host"
_LEVEL = 0.05  # a host that differs by less is not an outlier
_MOST = 5  # differences of environment that are named of a claim


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of the environment, its values by host, and how well they tell the groups apart."""

    name: str
    values: Mapping[str, str]
    separation: Separation


@dataclass(frozen=True, slots=True)
class Split:
    """A claim at one setting on which the hosts disagree. `groups`: the hosts by verdict, the
    largest group first; `outlier`: the one host that stands alone against three or more;
    `differences`: what separates the groups, the best first."""

    row: KernelRow
    groups: Mapping[str, Sequence[str]]
    outlier: str | None
    differences: Sequence[Difference]


@dataclass(frozen=True)
class HostRuns:
    """Runs by the name of their host: `runs` are those that are held beside each other; apart from
    them stand hosts that were `lost` before their run had ended, and `guests`, whose kernel and
    machine are not their host's. Without a whole run of a host the others are all there is."""

    runs: Mapping[str, Run]
    lost: Mapping[str, Run] = field(default_factory=dict)
    guests: Mapping[str, Run] = field(default_factory=dict)

    @cached_property
    def claims(self) -> Mapping[str, Mapping[str, ClaimSummary]]:
        """By the id of a claim, what becomes of it on each host."""
        results: dict[str, dict[str, ClaimSummary]] = {}
        for host, run in self.runs.items():
            for item in by_claim(judge(run)):
                results.setdefault(item.claim.id, {})[host] = item
        return results

    @property
    def differing(self) -> dict[str, dict[str, list[str]]]:
        """By claim, the hosts by what becomes of it there, if that is not the same on all."""
        words = {id: self._hosts_by_word(item) for id, item in self.claims.items()}
        return {id: hosts for id, hosts in words.items() if len(hosts) > 1}

    def is_of_study(self, id: str) -> bool:
        """Whether a claim is one of a study's, and no further check."""
        return next(iter(self.claims[id].values())).claim.of_study

    def _hosts_by_word(self, claim: Mapping[str, ClaimSummary]) -> dict[str, list[str]]:
        words: dict[str, list[str]] = {}
        for host, item in claim.items():
            words.setdefault(item.overall, []).append(host)
        return words


def host_runs(runs: Sequence[Run]) -> HostRuns:
    """Runs of one experiment, parted. A run without a sample says nothing, and is lost."""
    guests = [run for run in runs if is_guest(run)]
    lost = [run for run in runs if run not in guests and cut_off(run)]
    whole = [run for run in runs if run not in guests and run not in lost]
    if whole:
        return HostRuns(named(whole), named(lost), named(guests))
    with_samples = [run for run in lost if run.samples]
    if with_samples:
        without = [run for run in lost if not run.samples]
        return HostRuns(named(with_samples), named(without), named(guests))
    return HostRuns(named(guests or lost), named(lost if guests else []))


def named(runs: Sequence[Run]) -> dict[str, Run]:
    """Each run under its host's name; the newest of a host's, where it has several, keeps it and
    the others add their id."""
    results: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: run.row.created_at, reverse=True):
        host = run.row.origin or HERE
        if is_guest(run):
            host = (
                f"guest {run.environment.get('kernel_release', 'of an unknown kernel')} on {host}"
            )
        results[f"{host} ({run.id})" if host in results else host] = run
    return dict(sorted(results.items()))


def is_guest(run: Run) -> bool:
    """Whether it was measured in a virtual machine that its host booted for it."""
    return bool(run.row.request.get("guest"))


def alike(runs: Mapping[str, Run]) -> list[list[str]]:
    """Names that mean one machine: each list is of runs under one boot of one kernel. A machine-id
    would not do, which images share."""
    results: dict[str, list[str]] = {}
    for host, run in runs.items():
        if boot := run.environment.get("boot_id"):
            results.setdefault(str(boot), []).append(host)
    return [names for names in results.values() if len(names) > 1]


def cut_off(run: Run) -> bool:
    """Whether its last session has not ended, as far as its rows came; so has one without rows."""
    return not run.samples or not run.sessions or run.sessions[-1].ended in (None, "interrupted")


def rows(runs: Mapping[str, Run]) -> list[KernelRow]:
    """A row per claim and setting with a cell per host."""
    return ladder.rows(list(runs.items()), (), (), timed=True)


def splits(runs: Mapping[str, Run], found: Sequence[KernelRow]) -> list[Split]:
    """The rows on which hosts disagree: one reproduced it, another contradicted it."""
    environments = {host: run.environment for host, run in runs.items()}
    split = []
    for row in found:
        decided = {
            host: cell.word
            for host, cell in row.cells.items()
            if cell.word in ("reproduced", "contradicted")
        }
        if len(set(decided.values())) < 2:
            continue
        sizes = Counter(decided.values()).most_common()
        groups = {word: [h for h, w in decided.items() if w == word] for word, _ in sizes}
        (*_, least) = groups.values()
        alone = least[0] if len(least) == 1 and len(decided) > 3 else None
        split.append(Split(row, groups, alone, differences(environments, decided)))
    return split


def differences(
    environments: Mapping[str, Mapping[str, Any]], groups: Mapping[str, str]
) -> list[Difference]:
    """What of the environment differs between hosts, by how well it tells these groups apart."""
    hosts = list(groups)
    results = []
    machines = {host: _parts(environments[host]) for host in hosts}
    for name in dict.fromkeys(name for parts in machines.values() for name in parts):
        values = {host: machines[host].get(name, "unknown") for host in hosts}
        if len(set(values.values())) > 1:
            apart = separation([groups[h] for h in hosts], [values[h] for h in hosts])
            results.append(Difference(name, values, apart))
    results = [item for item in results if item.separation.beyond_chance > 0]
    results.sort(key=_rank)
    return results[:_MOST]


def _rank(one: Difference) -> tuple[float, float, bool, str]:
    """The best first; of those that do it equally well the kernel, which is the likeliest cause."""
    apart = one.separation
    return apart.p, -apart.beyond_chance, not one.name.startswith("kernel"), one.name


def _parts(seen: Mapping[str, Any]) -> dict[str, str]:
    """The environment that makes machines unlike, in words; of a table each entry apart."""
    parts: dict[str, str] = {}
    for name, value in environment.compared(seen).items():
        inside = value if isinstance(value, dict) else {}
        parts |= {f"{name} {key}": _word(part) for key, part in inside.items()}
        if not isinstance(value, dict):
            parts[name] = _word(value)
    return parts


def _word(value: object) -> str:
    """A value on one line; of caches only their sizes."""
    if isinstance(value, list) and all(
        isinstance(item, dict) and "level" in item for item in value
    ):
        sizes = [f"L{item.get('level')} {item.get('type')} {_size(item)}" for item in value]
        return ", ".join(sizes)
    return value if isinstance(value, str) else json.dumps(value)


def _size(cache: Mapping[str, Any]) -> str:
    result = cache.get("size_bytes")
    return units.format_quantity(result, "B") if type(result) is int else "of unknown size"


@dataclass(frozen=True, slots=True)
class Level:
    """How a host's first metric lies to the median host's, over the points that all have: the
    median of the ratios, and whether it is an outlier among the hosts."""

    host: str
    ratio: float
    apart: bool


def levels(runs: Mapping[str, Run]) -> list[Level]:
    """Empty where the hosts share no point with a positive value of the first metric."""
    metric = next(iter(runs.values())).experiment.metrics[0].name
    by_host = {
        host: {
            point_key(s.point.at): s.medians[metric].estimate
            for s in run.summaries
            if metric in s.medians and s.medians[metric].estimate > 0
        }
        for host, run in runs.items()
    }
    shared = set.intersection(*(set(values) for values in by_host.values()))
    if not shared:
        return []
    logs = np.log([[values[key] for key in shared] for values in by_host.values()])
    typical = np.median(logs - np.median(logs, axis=0), axis=1)
    apart = outliers(np.exp(typical)) & (np.abs(typical) > _LEVEL)
    return [
        Level(host, float(np.exp(item)), bool(far))
        for host, item, far in zip(by_host, typical, apart, strict=True)
    ]

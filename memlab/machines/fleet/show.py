"""A fleet's answer in print: what holds on all hosts, where they differ, what tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from memlab.judging.claims import judge
from memlab.judging.summary import HERE, ORDER, ClaimSummary, by_claim, counted, sentence, standing
from memlab.machines.fleet import judge as judging
from memlab.machines.fleet.judge import HostRuns, Level, Split
from memlab.machines.ladder.judge import KernelRow, verdicts
from memlab.machines.ladder.show import SHORT
from memlab.present import words
from memlab.present.answer import Part, Sentence, say
from memlab.present.table import Cell, Column, Table
from memlab.results import Run
from memlab.text import units

_SAME = 0.01  # levels that differ by less are not named
_ENOUGH = 0.05  # a p-value above it is chance
_ROWS = 12  # claims of the table
_NAMED = 6  # hosts, or claims, that a line names


def show(
    hosts: HostRuns, rows: Sequence[KernelRow], splits: Sequence[Split], levels: Sequence[Level]
) -> None:
    """Print the answer, then a row per claim on which the hosts differ, and what separates them."""
    first, *more = answer(hosts, splits)
    parts: list[Part] = [Sentence(first, "bold"), *more]
    if differing := hosts.differing:
        parts.append(_differing(differing, {split.row.id for split in splits}))
    parts += [*_reasons(hosts.runs, splits), *_machines(hosts, levels)]
    if together := standing(verdicts(rows), "all hosts"):
        parts.append(Sentence(together, "dim"))
    say(parts)


def answer(hosts: HostRuns, splits: Sequence[Split]) -> list[str]:
    """What holds on all hosts, which ones are not among them, where the others disagree, and which
    stands apart."""
    lines = [_holding(hosts), *_apart(hosts)]
    if ids := list(dict.fromkeys(split.row.id for split in splits)):
        lines.append(f"the hosts disagree on {_list(ids, 'claim')}")
    alone = Counter(split.outlier for split in splits if split.outlier)
    for host, times in alone.items():
        lines.append(f"{host} stands apart: alone against all others in {times} of them")
    for names in judging.alike(hosts.runs):
        lines.append(
            f"{' and '.join(names)} are one machine: what one shows, the other does not confirm, "
            "and measured at the same time they disturb each other"
        )
    return lines


def _holding(hosts: HostRuns) -> str:
    """`vma-lock: 19 of 24 claims of miao-2021 and 60 of 60 further checks hold on all 2 hosts; on
    all of them 2 are contradicted: a, b; 3 are not testable`."""
    run = next(iter(hosts.runs.values()))
    name, where = run.experiment.name, _where(hosts.runs)
    study = words.study([run.experiment])
    if len(hosts.runs) == 1:
        summaries = [item for by_host in hosts.claims.values() for item in by_host.values()]
        counts, *wrong = sentence(summaries, where, study)
        return " ".join([f"{name}: {counts}", *(wrong if len(wrong) <= _NAMED else [])])
    words_by_id = {
        id: _same(by_host)
        for id, by_host in hosts.claims.items()
        if not all(item.absent for item in by_host.values())
    }
    own = {id for id in words_by_id if hosts.is_of_study(id) or not study}
    kinds = [(own, f"claims of {study}"), (words_by_id.keys() - own, "further checks")]
    if not own or not kinds[1][0]:
        kinds = [(set(words_by_id), "claims")]
    parts = [f"{_held(ids, words_by_id)} of {len(ids)} {noun}" for ids, noun in kinds]
    verb = "holds" if [part[:2] for part in parts] == ["1 "] else "hold"
    lines = [f"{name}: {' and '.join(parts)} {verb} {where}"]
    for word in (item for item in ORDER if item != "holds"):
        if same := [id for id, overall in words_by_id.items() if overall == word]:
            ids = f" ({', '.join(same)})" if word == "contradicted" and len(same) <= _NAMED else ""
            lines.append(f"{counted(len(same), word)}{ids}")
    if differing := sum(not overall for overall in words_by_id.values()):
        lines.append(f"{differing} not the same on all")
    return "; ".join(lines)


def _held(ids: Set[str], words_by_id: Mapping[str, str]) -> int:
    return sum(words_by_id[id] == "holds" for id in ids)


def _same(by_host: Mapping[str, ClaimSummary]) -> str:
    """What becomes of a claim on all hosts; empty if they differ."""
    overall = {item.overall for item in by_host.values()}
    return overall.pop() if len(overall) == 1 else ""


def _list(ids: Sequence[str], noun: str) -> str:
    named = f": {', '.join(ids)}" if len(ids) <= _NAMED else ""
    return f"{units.counted(len(ids), noun)}{named}"


def _apart(hosts: HostRuns) -> list[str]:
    """A line for each run that is not held beside the others, with what it shows."""
    lines = []
    for host, run in hosts.runs.items():
        if judging.cut_off(run):
            samples = units.counted(len(run.samples), "sample")
            lines.append(f"{host}: its run was cut off after {samples}, on which this rests")
    for host, run in hosts.lost.items():
        samples = units.counted(len(run.samples), "sample")
        lines.append(f"lost: {host}, after {samples}{_shows(run)}")
    for host, run in hosts.guests.items():
        lines.append(f"apart: {host}, run {run.id}{_shows(run)}")
    return lines


def _shows(run: Run) -> str:
    counts = Counter(item.overall for item in by_claim(judge(run)))
    shown = [counted(counts[word], word) for word in reversed(ORDER) if counts[word]]
    return f": {', '.join(shown)}" if run.samples and shown else ""


def _where(runs: Mapping[str, Run]) -> str:
    """`on all 3 hosts`, `on all 3 hosts (2 machines)`, `on b`."""
    if len(runs) == 1:
        (host,) = runs
        return HERE if host == judging.HERE else f"on {host}"
    machines = len(runs) - sum(len(names) - 1 for names in judging.alike(runs))
    few = f" ({units.counted(machines, 'machine')})" if machines < len(runs) else ""
    return f"on all {units.counted(len(runs), 'host')}{few}"


def _differing(claims: Mapping[str, Mapping[str, Sequence[str]]], split: Set[str]) -> Table:
    """A row per claim, those first on which hosts disagree."""
    order = sorted(claims.items(), key=lambda one: one[0] not in split)
    rows: list[list[Cell | str]] = [
        [id, "; ".join(f"{word} on {_hosts(hosts[word])}" for word in hosts)]
        for id, hosts in order[:_ROWS]
    ]
    note = []
    if (more := len(order) - _ROWS) > 0:
        note = [f"{units.counted(more, 'more claim')} on which hosts differ: --json"]
    columns = [Column("claim", "left", wrap=30), Column("on which hosts", "left", wrap=46)]
    return Table("", columns, rows, note)


def _hosts(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _machines(hosts: HostRuns, levels: Sequence[Level]) -> Iterator[str]:
    """The hosts by machine, if they are not alike; and levels of the first metric that differ."""
    machines: dict[str, list[str]] = {}
    for host, run in hosts.runs.items():
        machines.setdefault(words.machine(run), []).append(host)
    if len(machines) > 1:
        yield from (f"{_hosts(names)}: {machine}" for machine, names in machines.items())
    differ = [level for level in levels if abs(level.ratio - 1) > _SAME]
    differ.sort(key=lambda level: (not level.apart, -abs(level.ratio - 1)))
    if differ:
        metric = next(iter(hosts.runs.values())).experiment.metrics[0].name
        named = [
            f"{level.host} {level.ratio:.2f}x{', an outlier' if level.apart else ''}"
            for level in differ
        ]
        yield f"{metric}, of the median host: {_hosts(named)}"


def _reasons(runs: Mapping[str, Run], splits: Sequence[Split]) -> Iterator[str]:
    """What separates the hosts, once for all claims that part them in the same way."""
    alike: dict[str, list[Split]] = {}
    for split in splits:
        sides = "; ".join(
            f"{SHORT[word]} on {_hosts(hosts)}" for word, hosts in split.groups.items()
        )
        alike.setdefault(sides, []).append(split)
    for sides, parted in alike.items():
        yield ""
        yield f"{_list([_name(runs, split) for split in parted], 'verdict')}: {sides}"
        for difference in parted[0].differences:
            values: dict[str, list[str]] = {}
            for host, value in difference.values.items():
                values.setdefault(value, []).append(host)
            text = "; ".join(f"{value} on {_hosts(hosts)}" for value, hosts in values.items())
            how = (
                "tells them apart"
                if difference.separation.explained > 0.999
                else "goes with it in part"
            )
            chance = "" if difference.separation.p <= _ENOUGH else ", which may be chance"
            yield f"  {difference.name} {how}{chance} (p = {difference.separation.p:.2g}): {text}"
        if not parted[0].differences:
            yield "  nothing that memlab reads of these machines tells them apart"


def _name(runs: Mapping[str, Run], split: Split) -> str:
    declared = next(iter(runs.values())).experiment
    varied = {name for run in runs.values() for name in run.varied}
    at = [name for name in split.row.at if name in varied]
    place = words.levels(declared, split.row.at, at) if at else ""
    return split.row.id + (f" ({place})" if place else "")

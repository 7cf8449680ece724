"""A fleet's answer in print: hosts as rows, the claims they disagree on, what tells them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memlab.judging.summary import standing
from memlab.machines.fleet import judge as judging
from memlab.machines.fleet.judge import Level, Split
from memlab.machines.ladder.judge import KernelRow, verdicts
from memlab.present import table, words
from memlab.present.table import Cell, Column, Table, Text, write
from memlab.results import Run

SHORT = {
    "reproduced": "holds",
    "contradicted": "contradicted",
    "inconclusive": "not decided",
    "not testable here": "not testable",
}
_SAME = 0.01  # levels that differ by less are no column
_ENOUGH = 0.05  # a p-value above it is chance


def show(
    runs: Mapping[str, Run],
    rows: Sequence[KernelRow],
    splits: Sequence[Split],
    levels: Sequence[Level],
) -> None:
    """Print the answer, a row per host, then each disagreement with what separates its sides."""
    console = table.console()
    for number, line in enumerate(answer(runs, rows, splits)):
        console.print(Text(line, style="" if number else "bold"))
    ids = [id for id, said in _by_claim(runs, rows).items() if len(said) > 1]
    metric = next(iter(runs.values())).experiment.metrics[0]
    differ = [level for level in levels if abs(level.ratio - 1) > _SAME]
    heads = ["host", "machine", *([f"{metric.name}, of the median host"] if differ else []), *ids]
    by_host = {level.host: level for level in differ and levels}
    cells: list[list[Cell | str]] = [
        [
            f"{host}, cut off" if judging.cut_off(run) else host,
            words.machine(run),
            *([_level(by_host[host])] if differ else []),
            *(_verdict([row for row in rows if row.id == id], host) for id in ids),
        ]
        for host, run in runs.items()
    ]
    write(console, Table("", [Column(head, "left", wrap=24) for head in heads], cells))
    for split in splits:
        console.print()
        for line in _split(runs, split):
            console.print(Text(line))
    if together := standing(verdicts(rows), "all hosts"):
        console.print(Text(together, style="dim"))


def _by_claim(runs: Mapping[str, Run], rows: Sequence[KernelRow]) -> dict[str, set[str]]:
    """By claim, the words that its hosts come to."""
    return {
        id: {_verdict([row for row in rows if row.id == id], host).text for host in runs}
        for id in dict.fromkeys(row.id for row in rows)
    }


def answer(
    runs: Mapping[str, Run], rows: Sequence[KernelRow], splits: Sequence[Split]
) -> list[str]:
    """How many claims hold on all hosts, where they disagree, and which host stands apart."""
    name = next(iter(runs.values())).experiment.name
    found, where = _by_claim(runs, rows), _where(runs)
    alike: dict[str, list[str]] = {}
    for id, seen in found.items():
        if len(seen) == 1:
            alike.setdefault(next(iter(seen)), []).append(id)
    hold = len(alike.pop("holds", []))
    verb = "holds" if hold == 1 else "hold"
    said = [f"{name}: {hold} of {words.count(len(found), 'claim')} {verb} {where}"]
    if differ := list(dict.fromkeys(split.row.id for split in splits)):
        said.append(f"the hosts disagree on {', '.join(differ)}")
    alone = [split.outlier for split in splits if split.outlier]
    for host in dict.fromkeys(alone):
        said.append(f"{host} stands apart: alone against all others in {alone.count(host)} of them")
    said += [f"{word} {where}: {', '.join(ids)}" for word, ids in alike.items()]
    for names in judging.alike(runs):
        said.append(
            f"{' and '.join(names)} are one machine: what one shows, the other does not confirm, "
            "and measured at the same time they disturb each other"
        )
    for host, run in runs.items():
        if judging.cut_off(run):
            samples = words.count(len(run.samples), "sample")
            said.append(f"{host}: its run was cut off after {samples}, on which its verdicts rest")
    return said


def _where(runs: Mapping[str, Run]) -> str:
    """`on all 3 hosts`, `on all 3 hosts (2 machines)`, `on b`."""
    if len(runs) == 1:
        return f"on {next(iter(runs))}"
    machines = len(runs) - sum(len(names) - 1 for names in judging.alike(runs))
    few = f" ({words.count(machines, 'machine')})" if machines < len(runs) else ""
    return f"on all {words.count(len(runs), 'host')}{few}"


def _level(level: Level) -> Cell | str:
    text = f"{level.ratio:.2f}x"
    return Cell(f"{text}, an outlier", "inconclusive") if level.apart else text


def _verdict(rows: Sequence[KernelRow], host: str) -> Cell:
    seen = {row.cells[host].word for row in rows if host in row.cells}
    if not seen:
        return Cell("-", "quiet")
    if len(seen) > 1:
        return Cell("depends on the setting", "inconclusive")
    (word,) = seen
    return Cell(SHORT.get(word, word), word)


def _split(runs: Mapping[str, Run], split: Split) -> list[str]:
    declared = next(iter(runs.values())).experiment
    place = words.levels(declared, split.row.at, split.row.at) if split.row.at else ""
    name = split.row.id + (f", {place}" if place else "")
    sides = "; ".join(
        f"{SHORT[word]} on {', '.join(hosts)}" for word, hosts in split.groups.items()
    )
    lines = [f"{name}: {sides}"]
    for one in split.differences:
        values: dict[str, list[str]] = {}
        for host, value in one.values.items():
            values.setdefault(value, []).append(host)
        said = "; ".join(f"{value} on {', '.join(hosts)}" for value, hosts in values.items())
        how = "tells them apart" if one.separation.explained > 0.999 else "goes with it in part"
        chance = "" if one.separation.p <= _ENOUGH else ", which may be chance"
        lines.append(f"  {one.name} {how}{chance} (p = {one.separation.p:.2g}): {said}")
    if not split.differences:
        lines.append("  nothing that memlab reads of these machines tells them apart")
    return lines

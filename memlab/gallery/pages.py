"""The pages of a gallery, made of its records alone: a page per experiment, claim and machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from memlab._version import __version__
from memlab.gallery.record import Claimed, Record
from memlab.machines.fleet import judge as fleet
from memlab.present import words
from memlab.present.report import template
from memlab.present.table import Cell, Column, Table
from memlab.present.tables import legend
from memlab.text.units import version_order

_STYLES = {"holds": "reproduced", "contradicted": "contradicted"}
_MACHINES = 6  # side by side in a table of points; each has a page with all of its own
_POINTS = 200  # of a table
_SURE = (
    "Each verdict is wrong in at most 5 % of cases; nothing is corrected for the number of "
    "machines. A number leads to the samples that it comes from, a run to its machine, plan and "
    "verdicts."
)


def site(records: Sequence[Record]) -> dict[str, str]:
    """The text of each page by its path in the gallery. The same records give the same text."""
    made = {"index.html": _page("memlab gallery", [_count(records)], _index(records))}
    for name, runs in _by(records, "experiment").items():
        path = f"experiments/{name}.html"
        made[path] = _page(name, [runs[-1].question, _count(runs)], _experiment(runs), _top("../"))
        for claim in _claims(runs):
            crumbs = [*_top("../../"), _to_experiment("../../", name)]
            made[f"claims/{name}/{claim.id}.html"] = _page(
                claim.text, [_answer(claim.id, runs)], _claim(claim.id, runs), crumbs
            )
    for host, runs in _by(records, "host").items():
        lead = [runs[-1].machine, _count(runs)]
        made[f"machines/{host}.html"] = _page(host, lead, _machine(runs), _top("../"))
    return made


def _page(
    title: str, lead: Sequence[str], tables: Iterable[Table], crumbs: Sequence[Cell] = ()
) -> str:
    return template("gallery", Path(__file__).parent).render(
        title=title,
        lead=lead,
        tables=list(tables),
        crumbs=crumbs,
        sure=_SURE,
        memlab=__version__,
    )


def _top(root: str) -> list[Cell]:
    return [Cell("Gallery", link=f"{root}index.html")]


def _by(records: Iterable[Record], name: str) -> dict[str, list[Record]]:
    """The records of each experiment or host, the oldest first."""
    found: dict[str, list[Record]] = {}
    for one in sorted(records, key=lambda one: (one.created_at, one.run)):
        found.setdefault(getattr(one, name), []).append(one)
    return dict(sorted(found.items()))


def _newest(runs: Iterable[Record]) -> list[Record]:
    """The newest run of each host."""
    return [of_host[-1] for of_host in _by(runs, "host").values()]


def _count(records: Sequence[Record]) -> str:
    parts = (("run", len(records)), *((n, len(_by(records, n))) for n in ("experiment", "host")))
    runs, experiments, hosts = (words.count(n, name) for name, n in parts)
    said = f"{runs} of {experiments} on {hosts.replace('host', 'machine')}"
    return f"{said}, {sum(one.samples for one in records):,} samples."


# Links; the names in them are a record's, which are none that lead elsewhere


def _to_experiment(root: str, name: str) -> Cell:
    return Cell(name, link=f"{root}experiments/{quote(name)}.html")


def _to_claim(root: str, experiment: str, claim: Claimed) -> Cell:
    return Cell(claim.text, link=f"{root}claims/{quote(experiment)}/{quote(claim.id)}.html")


def _to_machine(root: str, host: str) -> Cell:
    return Cell(host, link=f"{root}machines/{quote(host)}.html")


def _to_run(root: str, one: Record) -> Cell:
    return Cell(one.run, link=f"{root}{quote(one.file)}")


def _to_samples(root: str, one: Record, text: str, style: str = "") -> Cell:
    return Cell(text, style, link=f"{root}{quote(one.samples_file)}")


def _table(title: str, heads: str, rows: Iterable[Sequence[Cell | str]], *notes: str) -> Table:
    columns = [Column(head, "left") for head in heads.split("|")]
    return Table(title, columns, list(rows), notes)


# The pages' tables


def _index(records: Sequence[Record]) -> Iterator[Table]:
    by_experiment = _by(records, "experiment")
    yield _table(
        "Experiments",
        "experiment|question|machines|runs|claims that hold on all of them|contradicted somewhere",
        (
            [
                _to_experiment("", name),
                runs[-1].question,
                str(len(_newest(runs))),
                str(len(runs)),
                f"{len(_held(runs))} of {len(_claims(runs))}",
                str(len(_contradicted(runs))),
            ]
            for name, runs in by_experiment.items()
        ),
    )
    yield _table(
        "Claims that a machine contradicts",
        "claim|experiment|what machines say",
        (
            [_to_claim("", name, claim), _to_experiment("", name), _answer(claim.id, runs)]
            for name, runs in by_experiment.items()
            for claim in _contradicted(runs)
        ),
    )
    yield _table(
        "Machines",
        "machine|what it is|runs|experiments",
        (
            [
                _to_machine("", host),
                runs[-1].machine,
                str(len(runs)),
                str(len(_by(runs, "experiment"))),
            ]
            for host, runs in _by(records, "host").items()
        ),
    )


def _experiment(runs: Sequence[Record]) -> Iterator[Table]:
    root, name = "../", runs[0].experiment
    newest = _newest(runs)
    yield _table(
        "Claims",
        "claim|published|what machines say",
        (
            [_to_claim(root, name, claim), claim.published, _answer(claim.id, runs)]
            for claim in _claims(runs)
        ),
    )
    shown = newest[:_MACHINES]
    measured = [{point.point: point for point in one.points} for one in shown]
    points = list(dict.fromkeys(point for of in measured for point in of))
    if points:
        left = [legend(one.median for of in measured for one in of.values())]
        if len(points) > _POINTS:
            left.append(f"{_POINTS} of {len(points)} points; the files have all.")
        if len(newest) > _MACHINES:
            left.append(f"{_MACHINES} of {len(newest)} machines; each has a page of its own.")
        yield _table(
            f"Medians: {newest[-1].metric}",
            "|".join(["point", *(one.host for one in shown)]),
            (
                [
                    point,
                    *(
                        _to_samples(root, one, of[point].median) if point in of else "-"
                        for one, of in zip(shown, measured, strict=True)
                    ),
                ]
                for point in points[:_POINTS]
            ),
            *left,
        )
    yield _runs(root, runs, with_machine=True)


def _runs(root: str, runs: Sequence[Record], *, with_machine: bool) -> Table:
    """Every run, the newest first."""
    heads = f"run|begun|{'machine' if with_machine else 'experiment'}|kernel|samples|claims hold"
    return _table(
        "Runs",
        heads,
        (
            [
                _to_run(root, one),
                one.created_at[:16].replace("T", " "),
                _to_machine(root, one.host)
                if with_machine
                else _to_experiment(root, one.experiment),
                one.kernel,
                _to_samples(root, one, f"{one.samples:,}"),
                f"{sum(c.overall == 'holds' for c in one.claims)} of {len(one.claims)}",
            ]
            for one in reversed(runs)
        ),
    )


def _claim(id: str, runs: Sequence[Record]) -> Iterator[Table]:
    root = "../../"
    newest = _newest(runs)
    heads = "machine|kernel|run|where|verdict|here|evidence"
    yield _table("The newest run of each machine", heads, _verdicts(root, id, newest))
    if older := [one for one in runs if one not in newest]:
        yield _table("Older runs", heads, _verdicts(root, id, reversed(older)))
    groups = {
        one.host: claim.overall
        for one in newest
        for claim in one.claims
        if claim.id == id and claim.overall in _STYLES
    }
    if len(set(groups.values())) > 1:
        machines = {one.host: one.environment for one in newest}
        yield _table(
            "What tells the machines apart on which it holds and does not, the best first",
            "part of the machine|p by shuffling|values",
            (
                [one.name.replace("_", " "), f"{one.separation.p:.2g}", _values(one.values)]
                for one in fleet.differences(machines, groups)
            ),
        )


def _verdicts(root: str, id: str, runs: Iterable[Record]) -> Iterator[Sequence[Cell | str]]:
    for one in runs:
        for claim in one.claims:
            for said in claim.verdicts if claim.id == id else ():
                yield [
                    _to_machine(root, one.host),
                    one.kernel,
                    _to_run(root, one),
                    said.where or "the only setting",
                    Cell(said.word, said.word),
                    _to_samples(root, one, said.number) if said.samples else "-",
                    f"{said.evidence}; {words.count(said.samples, 'sample')}",
                ]


def _machine(runs: Sequence[Record]) -> Iterator[Table]:
    root, newest = "../", {one.experiment: one for one in runs}
    yield _table(
        "Claims, those that do not hold first",
        "claim|experiment|run|verdict|here",
        (
            [
                _to_claim(root, one.experiment, claim),
                _to_experiment(root, one.experiment),
                _to_run(root, one),
                Cell(claim.overall, _STYLES.get(claim.overall, "inconclusive")),
                _to_samples(root, one, claim.verdicts[0].number if claim.verdicts else "-"),
            ]
            for one, claim in sorted(
                ((one, claim) for one in newest.values() for claim in one.claims),
                key=lambda pair: pair[1].overall == "holds",
            )
        ),
    )
    yield _runs(root, runs, with_machine=False)
    seen = runs[-1].environment
    yield _table("The machine", "part|what it is", ([k, _text(v)] for k, v in seen.items()))


def _values(values: Mapping[str, str]) -> str:
    hosts: dict[str, list[str]] = {}
    for host, value in values.items():
        hosts.setdefault(value, []).append(host)
    return "; ".join(f"{value} on {', '.join(of)}" for value, of in hosts.items())


def _text(value: object) -> str:
    """A value of the environment on one line."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_text(part)}" for key, part in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    known = {None: "unknown", True: "yes", False: "no"}
    return known[value] if value is None or isinstance(value, bool) else str(value)


# What machines say of a claim


def _claims(runs: Iterable[Record]) -> list[Claimed]:
    """Each claim once, as its newest run has it."""
    return list({claim.id: claim for one in runs for claim in one.claims}.values())


def _overall(id: str, runs: Iterable[Record]) -> list[tuple[Record, str]]:
    return [(one, claim.overall) for one in runs for claim in one.claims if claim.id == id]


def _held(runs: Sequence[Record]) -> list[Claimed]:
    return [
        claim
        for claim in _claims(runs)
        if {word for _, word in _overall(claim.id, _newest(runs))} == {"holds"}
    ]


def _contradicted(runs: Sequence[Record]) -> list[Claimed]:
    return [
        claim
        for claim in _claims(runs)
        if any(word == "contradicted" for _, word in _overall(claim.id, _newest(runs)))
    ]


def _answer(id: str, runs: Sequence[Record]) -> str:
    """`reproduced on 41 of 57 machines, not since 6.16`; the other verdicts."""
    counts = Counter(word for _, word in _overall(id, _newest(runs)))
    holds, total = counts.pop("holds", 0), counts.total()
    said = f"reproduced on {holds} of {words.count(holds + total, 'machine')}"
    rest = ", ".join(f"{word} on {count}" for word, count in counts.most_common())
    since = _since(_overall(id, runs))
    return ", ".join(filter(None, (said, since))) + (f"; {rest}" if rest else "")


def _since(found: Sequence[tuple[Record, str]]) -> str:
    """The kernel from which on a claim is contradicted, or holds, over all runs; nothing where
    kernels do not part them."""
    kernels = {
        word: sorted({one.kernel for one, said in found if said == word}, key=version_order)
        for word in _STYLES
    }
    holds, wrong = kernels["holds"], kernels["contradicted"]
    if not (holds and wrong):
        return ""
    if version_order(holds[-1]) < version_order(wrong[0]):
        return f"not since {wrong[0]}"
    if version_order(wrong[-1]) < version_order(holds[0]):
        return f"only since {holds[0]}"
    return ""

"""Hosts beside each other: of each claim a row per host, its verdict and its number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from statistics import median
from typing import ClassVar

from memlab.errors import BadRequest
from memlab.experiment.figures import Figure
from memlab.judging.claims import Judged, judge
from memlab.machines.fleet import judge as judging
from memlab.machines.fleet import show
from memlab.machines.ladder.show import SHORT
from memlab.present import words
from memlab.present.figures import dumbbell, frame, paint
from memlab.present.figures import rows as place
from memlab.present.figures.frame import Mark, Rows
from memlab.present.figures.layout import Page
from memlab.present.figures.paint import line, sign
from memlab.present.figures.rows import DrawnRow
from memlab.results import Run
from memlab.text import units


@dataclass(frozen=True, slots=True)
class Fleet(Figure):
    """Hosts beside each other, the `hosts` with a run each: of every claim at every setting a row a
    host, with its verdict and its number over the median host's, those first on which hosts
    disagree."""

    hosts: Mapping[str, Run] = field(default_factory=dict)
    drawn_by: ClassVar[str] = __name__


def of_hosts(runs: Mapping[str, Run]) -> Run:
    """The first of these runs, a host's each and all of one experiment, with the figure of them
    all. BadRequest where there is no claim to judge."""
    run = next(iter(runs.values()))
    if not run.experiment.claims:
        raise BadRequest(f"{run.experiment.name} has no claim to judge")
    first = run.experiment.figure
    return run.drawn(Fleet(first.metric, first.over, first.by, hosts=runs))


def title(run: Run, shown: Fleet) -> str:
    return f"the claims of {run.experiment.name} on {units.counted(len(shown.hosts), 'host')}"


def rows(run: Run, shown: Fleet) -> Rows:
    """A row per claim, setting and host; `ratio` is the host's number over the median host's, where
    the hosts' numbers are above zero."""
    results: dict[tuple[str, str], dict[str, Judged]] = {}
    for host, own in shown.hosts.items():
        for judged in judge(own):
            where = words.labels(own.experiment, judged.setting, _several(own, judged.setting))
            results.setdefault((judged.claim.id, where), {})[host] = judged
    return frame.rows(
        _mark(shown.hosts[host], host, f"{id}, {where}" if where else id, judged, typical)
        for (id, where), by_host in sorted(results.items(), key=lambda one: _agreement(one[1]))
        for typical in [_typical(by_host.values())]
        for host, judged in by_host.items()
    )


def _several(run: Run, setting: Mapping[str, object]) -> list[str]:
    return [name for name in run.varied if name in setting]


def _agreement(by_host: Mapping[str, Judged]) -> tuple[bool, bool]:
    """Those come first on which hosts disagree, then those that do not hold."""
    text = {item.word for item in by_host.values()}
    return not {"reproduced", "contradicted"} <= text, text == {"reproduced"}


def _typical(found: Iterable[Judged]) -> float | None:
    """The median host's number; None where there is none above zero."""
    numbers = [item.verdict.estimate for item in found if item.verdict.estimate is not None]
    return median(numbers) if numbers and min(numbers) > 0 and max(numbers) < inf else None


def _mark(run: Run, host: str, name: str, judged: Judged, typical: float | None) -> Mark:
    verdict = judged.verdict
    mark: Mark = {
        "panel": {},
        "kind": "verdict",
        "series": host,
        "claim": judged.claim.id,
        "levels": dict(judged.setting),
        "run": run.id,
        "word": verdict.word,
        "n": verdict.n,
        "_name": name,
    }
    if typical and verdict.estimate is not None:
        ends = {"low": verdict.low, "high": verdict.high}
        mark |= {"ratio": verdict.estimate / typical}
        mark |= {
            end: value / typical
            for end, value in ends.items()
            if value is not None and isfinite(value) and value > 0
        }
    return mark


def finding(run: Run, shown: Fleet, rows: Rows) -> str | None:
    """How many claims hold on all hosts, and which host stands apart."""
    result = judging.rows(shown.hosts)
    apart = [level.host for level in judging.levels(shown.hosts) if level.apart]
    fleet = judging.HostRuns(shown.hosts)
    text = show.answer(fleet, judging.splits(shown.hosts, result))[:3]
    text += [f"{host} is an outlier in {shown.metric}" for host in apart]
    return "; ".join(text).removeprefix(f"{run.experiment.name}: ")


def draw(page: Page, shown: Fleet, rows: Rows) -> None:
    result = frame.marks(rows)
    page.notes += [
        f"{host}: {words.machine(run)}, run {run.id}" for host, run in shown.hosts.items()
    ]
    if len(result) > place.ROWS_MAX:
        claims, kept = frame.split(result, "_name"), list[Mark]()
        for some in claims:
            if kept and len(kept) + len(some) > place.ROWS_MAX:
                break
            kept += some
        drawn, result = len({mark["_name"] for mark in kept}), kept
        page.notes.insert(
            0, f"drawn: the first {drawn} of {len(claims)}, those that differ before others"
        )
    axes, middles = place.ratios(
        page,
        [DrawnRow(f"{mark['_name']}: {mark['series']}", _numbers(mark)) for mark in result],
        [1.0, *frame.values(result, "ratio", "low", "high", above=0.0)],
        "the host's number / the median host's (log)",
    )
    for mark, middle in zip(result, middles, strict=True):
        if "ratio" in mark:
            look = dumbbell.look(mark["word"])
            spot = mark["ratio"], middle
            paint.dot(axes, spot, paint.ends(mark), across=True, wide=1.6, zorder=2.5, **look)
            page.legend(sign(mark["word"], **look))
    if any("ratio" in mark and paint.ends(mark) for mark in result):
        page.legend(line("95 % interval"))


def _numbers(mark: Mark) -> str:
    word = str(SHORT.get(mark["word"], mark["word"]))
    return f"{word}, {mark['ratio']:.3g}" if "ratio" in mark else word

"""The main causes of the slowest operations, in sentences, and what tracing them cost."""

from __future__ import annotations

from collections.abc import Iterator

from memlab.analysis.intervals import Interval
from memlab.experiment import Attribution
from memlab.experiment.attribution import CAUSES, ONE_IN, TRACE
from memlab.judging import evidence
from memlab.present import words
from memlab.results import Run
from memlab.results.attribution import SlowestOperations, Traced, refused, traced


def lines(run: Run) -> Iterator[str]:
    """Per traced point: the main causes of its slowest operations, and what tracing cost."""
    declared = run.experiment.attribution
    if declared is None:
        return
    for result in traced(run):
        yield f"{place(run, result)}: {sentence(declared, result)}"
        yield f"  {beyond_chance(declared, result)}"
        if result.overhead:
            yield f"  {overhead(run, result)}"
        if remark := "; ".join(remarks(result)):
            yield f"  {remark}"
    for at, why in refused(run):
        yield f"{words.labels(run.named, at, _names(run))}: not traced: {why}"


def _names(run: Run) -> list[str]:
    names = [name for name in run.varied if name != TRACE.name]
    return names or list(run.experiment.figure.by[:1])


def place(run: Run, found: Traced) -> str:
    return words.labels(run.named, found.at, _names(run))


def tail_of(found: Traced, one_in: int = ONE_IN) -> SlowestOperations:
    return next(tail for tail in found.tails if tail.one_in == one_in)


def percentile(one: SlowestOperations) -> str:
    """`p99.9`."""
    return f"p{100 * one.share:.10g}"


def share(count: int, of: int) -> str:
    """`71 %`. A small share is not rounded to 0 %, nor a large one to 100 %."""
    if 0 < count < 0.005 * of:
        return "under 1 %"
    if 0.995 * of < count < of:
        return "over 99 %"
    return f"{100 * count / of:.0f} %"


def sentence(declared: Attribution, found: Traced) -> str:
    """`main causes of the touches over p99.9: a major fault 71 %, a softirq 3 %; unexplained 26 %,
    of which ...`. The shares add up to all of them."""
    item = tail_of(found)
    if not item.judged:
        return f"none of the {declared.operations} over {percentile(item)} could be judged"
    main = sorted(item.causes.items(), key=lambda pair: -pair[1].main)
    causes = [f"{CAUSES[c]} {share(met.main, item.judged)}" for c, met in main if met.main]
    text = ", ".join(causes) or "no cause that is traced"
    return f"main causes of the {declared.operations} over {percentile(item)}: {text}{_rest(item)}"


def _rest(one: SlowestOperations) -> str:
    """The unexplained operations, and how many of them met something nonetheless."""
    if not one.unexplained:
        return "; none is unexplained"
    text = f"; unexplained {share(one.unexplained, one.judged)}"
    if not one.brief:
        return f"{text}, which met no traced event"
    brief = f"{share(one.brief, one.judged)} met only what took under a tenth of them"
    if not one.nothing:
        return f"{text}: {brief}"
    return f"{text}: {share(one.nothing, one.judged)} met no traced event, {brief}"


def beyond_chance(declared: Attribution, found: Traced) -> str:
    """How many operations the tail has, and how rare its causes are among all operations."""
    item = tail_of(found)
    rare = [
        f"{cause.replace('_', ' ')} {_per_million(found.events[cause], found.operations)}"
        for cause in item.causes
    ]
    shortest = words.quantity(item.shortest_s, "s")
    text = f"{item.judged:,} of {found.operations:,} {declared.operations}, {shortest} and longer"
    return text + (f"; events per million of all: {', '.join(rare)}" if rare else "")


def _per_million(events: int, operations: int) -> str:
    """`23`, `0.4`, `310,000`: never an exponent."""
    return evidence.number(1e6 * events / operations) if operations else "-"


def overhead(run: Run, found: Traced) -> str:
    """`traced / not traced: p50 latency x1.02 (1.00 to 1.05), ...`"""
    text = (
        f"{run.metric(metric).label} {_times(ratio)}" for metric, ratio in found.overhead.items()
    )
    return f"traced / not traced: {', '.join(text)}"


def _times(ratio: Interval) -> str:
    if ratio.low is None or ratio.high is None:
        return f"x{ratio.estimate:.3g} (n={ratio.n})"
    return f"x{ratio.estimate:.3g} ({ratio.low:.3g} to {ratio.high:.3g})"


def remarks(found: Traced) -> Iterator[str]:
    """What limits the answer."""
    item = tail_of(found)
    for cause, why in found.unseen.items():
        yield f"{CAUSES[cause]} could not be traced here: {why}"
    if found.lost or item.untraced:
        yield (
            f"the trace was full: {found.lost:,} records are lost, and {item.untraced:,} slow "
            "operations after that are not judged"
        )
    if item.judged + item.untraced < item.wanted:
        yield f"the samples hold {item.judged + item.untraced:,} of the {item.wanted:,} slowest"
    if found.stolen_s and item.unexplained:
        yield (
            f"the hypervisor took {words.quantity(found.stolen_s, 's')} of these windows; "
            "no event shows that"
        )

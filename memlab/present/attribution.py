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


def place(run: Run, traced: Traced) -> str:
    return words.labels(run.named, traced.at, _names(run))


def tail_of(traced: Traced) -> SlowestOperations:
    return next(tail for tail in traced.tails if tail.one_in == ONE_IN)


def percentile(tail: SlowestOperations) -> str:
    """`p99.9`."""
    return f"p{100 * tail.share:.10g}"


def share(count: int, of: int) -> str:
    """`71 %`. A small share is not rounded to 0 %, nor a large one to 100 %."""
    if 0 < count < 0.005 * of:
        return "under 1 %"
    if 0.995 * of < count < of:
        return "over 99 %"
    return f"{100 * count / of:.0f} %"


def sentence(declared: Attribution, traced: Traced) -> str:
    """`main causes of the touches over p99.9: a major fault 71 %, a softirq 3 %; unexplained 26 %,
    of which ...`. The shares add up to all of them."""
    item = tail_of(traced)
    if not item.judged:
        return f"none of the {declared.operations} over {percentile(item)} could be judged"
    main = sorted(item.causes.items(), key=lambda pair: -pair[1].main)
    causes = [f"{CAUSES[c]} {share(met.main, item.judged)}" for c, met in main if met.main]
    text = ", ".join(causes) or "no cause that is traced"
    return f"main causes of the {declared.operations} over {percentile(item)}: {text}{_rest(item)}"


def _rest(tail: SlowestOperations) -> str:
    """The unexplained operations, and how many of them met something nonetheless."""
    if not tail.unexplained:
        return "; none is unexplained"
    text = f"; unexplained {share(tail.unexplained, tail.judged)}"
    if not tail.brief:
        return f"{text}, which met no traced event"
    brief = f"{share(tail.brief, tail.judged)} met only what took under a tenth of them"
    if not tail.nothing:
        return f"{text}: {brief}"
    return f"{text}: {share(tail.nothing, tail.judged)} met no traced event, {brief}"


def beyond_chance(declared: Attribution, traced: Traced) -> str:
    """How many operations the tail has, and how rare its causes are among all operations."""
    item = tail_of(traced)
    rare = [
        f"{cause.replace('_', ' ')} {_per_million(traced.events[cause], traced.operations)}"
        for cause in item.causes
    ]
    shortest = words.quantity(item.shortest_s, "s")
    text = f"{item.judged:,} of {traced.operations:,} {declared.operations}, {shortest} and longer"
    return text + (f"; events per million of all: {', '.join(rare)}" if rare else "")


def _per_million(events: int, operations: int) -> str:
    """`23`, `0.4`, `310,000`: never an exponent."""
    return evidence.number(1e6 * events / operations) if operations else "-"


def overhead(run: Run, traced: Traced) -> str:
    """`traced / not traced: p50 latency x1.02 (1.00 to 1.05), ...`"""
    text = (
        f"{run.metric(metric).label} {_times(ratio)}" for metric, ratio in traced.overhead.items()
    )
    return f"traced / not traced: {', '.join(text)}"


def _times(ratio: Interval) -> str:
    if ratio.low is None or ratio.high is None:
        return f"x{ratio.estimate:.3g} (n={ratio.n})"
    return f"x{ratio.estimate:.3g} ({ratio.low:.3g} to {ratio.high:.3g})"


def remarks(traced: Traced) -> Iterator[str]:
    """What limits the answer."""
    item = tail_of(traced)
    for cause, why in traced.unseen.items():
        yield f"{CAUSES[cause]} could not be traced here: {why}"
    if traced.lost or item.untraced:
        yield (
            f"the trace was full: {traced.lost:,} records are lost, and {item.untraced:,} slow "
            "operations after that are not judged"
        )
    if item.judged + item.untraced < item.wanted:
        yield f"the samples hold {item.judged + item.untraced:,} of the {item.wanted:,} slowest"
    if traced.stolen_s and item.unexplained:
        yield (
            f"the hypervisor took {words.quantity(traced.stolen_s, 's')} of these windows; "
            "no event shows that"
        )

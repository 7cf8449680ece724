"""Why slow operations were slow: the words, and the metrics, of a traced probe's attribution.

A sample holds the slowest operations of its window and what their threads met meanwhile;
memlab.analysis.attribution judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memlab.experiment.claims import Explanation
from memlab.experiment.expressions import Expression, F, each
from memlab.experiment.factor import Factor
from memlab.experiment.kinds import FLAG, At, Level, Raw
from memlab.experiment.metric import Metric
from memlab.experiment.vocabulary import Control, control
from memlab.text import units

# Every cause (enum trace_cause of the probes), in words.
CAUSES: Mapping[str, str] = {
    "major_fault": "a major fault",
    "minor_fault": "a minor fault",
    "switch": "a switch to another thread",
    "shootdown": "a shootdown",
    "function_call": "another CPU's function call",
    "reschedule": "a reschedule interrupt",
    "timer": "a timer interrupt",
    "device": "a device interrupt",
    "softirq": "a softirq",
}

FIELD = "attribution"  # of the probe's result
TAILS = (100, 1000)  # the slowest one in so many operations
ONE_IN = 1000  # the tail that metrics and sentences are about: over p99.9

TRACE = Factor(
    "trace",
    FLAG,
    quick=[False],
    help="trace; of what happened on the CPU during the slowest operations. It costs time, so that "
    "timed points leave it off",
)


def tail(raw: Raw, one_in: int = ONE_IN, **rules: int) -> Mapping[str, Any]:
    """The slowest one in so many operations, judged; empty where the sample was not traced."""
    result = raw.get(FIELD)
    if not result:
        return {}
    if "tails" in result:  # an older sample, which the probe itself judged
        return next((item for item in result["tails"] if item["one_in"] == one_in), {})
    from memlab.analysis import attribution  # numpy, which a declaration does without

    return attribution.tail(result, one_in, **rules)


def _share(name: str, count: Callable[[Mapping[str, Any]], int | None]) -> Expression:
    """Of the operations of the tail; None where the sample was not traced."""

    def share(counts: Mapping[str, Any] | None) -> float | None:
        judged = tail({FIELD: counts})
        counted = count(judged) if judged.get("operation_count") else None
        return None if counted is None else counted / judged["operation_count"]

    return each(name, share, F[FIELD].optional)


def _by(cause: str) -> Expression:
    """The share of operations whose main cause it was; none if it could not be traced here."""

    def time_per_event(events: Mapping[str, Any] | None, share: float | None) -> float | None:
        return None if (events or {}).get(cause, {}).get("error") else share

    share = _share(f"by_{cause}", lambda tail: tail["causes"].get(cause, {}).get("main_count", 0))
    return each("traced", time_per_event, F[FIELD].events.optional, share)


def slowest(raw: Raw, _: At) -> str:
    """The slowest operations and what they met, one per line."""
    from memlab.analysis import attribution

    result = raw.get(FIELD) or {"examples": []}
    examples = result["examples"] if "examples" in result else attribution.examples(result)
    return "\n".join(
        f"{_time(example['latency_ns'])} on CPU {example['cpu']}, {_time(example['held_ns'])} into "
        f"the window: {_inside(example['inside_ns'])}"
        for example in examples
    )


def _inside(inside_ns: Mapping[str, int]) -> str:
    longest_first = sorted(inside_ns.items(), key=lambda pair: -pair[1])
    parts = (f"{_time(time_ns)} inside {CAUSES[cause]}" for cause, time_ns in longest_first)
    return ", ".join(parts) or "no traced event"


def _time(time_ns: int) -> str:
    return units.format_quantity(time_ns * 1e-9, "s")


def metrics(operations: str) -> list[Metric]:
    """Shares of the operations over p99.9 by their main cause, which add up to 1, in samples that
    were traced; others have none."""
    return [
        Metric(
            "p999_unexplained",
            "1",
            f"share of the {operations} over p99.9 that met nothing that explains them",
            of=_share(
                "unexplained", lambda counts: counts["nothing_count"] + counts["brief_count"]
            ),
            evidence=slowest,
        ),
        *(
            Metric(
                f"p999_by_{cause}",
                "1",
                f"share of the {operations} over p99.9 whose main cause was {words}",
                of=_by(cause),
                evidence=slowest,
            )
            for cause, words in CAUSES.items()
        ),
    ]


def traced(levels: Mapping[str, Level | Sequence[Level]], *explanations: Explanation) -> Control:
    """The control whose points are traced; `levels` narrows what it repeats."""
    return control(
        "traced",
        "The same once more with the CPU traced: what the slowest operations met, and what "
        "tracing costs. Its times are not the timed points'.",
        {TRACE.name: True, **levels},
        *explanations,
    )

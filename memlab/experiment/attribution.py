"""Why slow operations were slow: the words, and the metrics, of a traced probe's attribution.

What is raw is in probes/support/attribution.h: the slowest operations of a window, held against
what happened on their CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memlab import units
from memlab.experiment.claims import Explanation
from memlab.experiment.factor import Factor
from memlab.experiment.kinds import FLAG, Level
from memlab.experiment.vocabulary import At, Control, Metric, Raw

# Every cause that the probes know (enum probe_cause), as what an operation meets.
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
ONE_IN = 1000  # the tail that metrics and sentences are about: over p99.9

TRACE = Factor(
    "trace",
    FLAG,
    quick=[False],
    help="hold the slowest operations against what happened on their CPU; costs time, so that "
    "timed points leave it off",
)


def tail(raw: Raw, one_in: int = ONE_IN) -> Mapping[str, Any]:
    """The slowest one in so many, where the sample was traced; else nothing."""
    found = (raw.get(FIELD) or {"tails": []})["tails"]
    return next((one for one in found if one["one_in"] == one_in), {})


def _share(count: Callable[[Mapping[str, Any]], int]) -> Callable[[Raw, At], float | None]:
    def read(raw: Raw, _: At) -> float | None:
        found = tail(raw)
        judged = found.get("operation_count")
        return count(found) / judged if judged else None

    return read


def _met(cause: str) -> Callable[[Raw, At], float | None]:
    """None where this machine did not let the cause be seen."""
    read = _share(lambda found: found["causes"].get(cause, {}).get("met_count", 0))

    def seen(raw: Raw, at: At) -> float | None:
        events = (raw.get(FIELD) or {"events": {}})["events"]
        return None if events.get(cause, {}).get("error") else read(raw, at)

    return seen


def slowest(raw: Raw, _: At) -> str:
    """The slowest operations with what they met, a line each."""
    examples = (raw.get(FIELD) or {"examples": []})["examples"]
    return "\n".join(
        f"{_time(one['latency_ns'])} on CPU {one['cpu']}, {_time(one['held_ns'])} into the "
        f"window: {_inside(one['inside_ns'])}"
        for one in examples
    )


def _inside(inside_ns: Mapping[str, int]) -> str:
    longest_first = sorted(inside_ns.items(), key=lambda pair: -pair[1])
    said = (f"{_time(time_ns)} inside {CAUSES[cause]}" for cause, time_ns in longest_first)
    return ", ".join(said) or "nothing that is traced"


def _time(time_ns: int) -> str:
    return units.format_quantity(time_ns * 1e-9, "s")


def metrics(operations: str) -> list[Metric]:
    """Shares of the operations over p99.9, in samples that were traced; others have none."""
    return [
        Metric(
            "p999_unexplained",
            "1",
            f"share of the {operations} over p99.9 that met nothing that explains them",
            of=_share(lambda found: found["nothing_count"] + found["brief_count"]),
            evidence=slowest,
        ),
        *(
            Metric(
                f"p999_met_{cause}",
                "1",
                f"share of the {operations} over p99.9 that met {words}",
                of=_met(cause),
                evidence=slowest,
            )
            for cause, words in CAUSES.items()
        ),
    ]


def traced(
    levels: Mapping[str, Sequence[Level]], explanations: Sequence[Explanation] = ()
) -> Control:
    """The control whose points are traced; `levels` narrows what it repeats."""
    return Control(
        "traced",
        "The same once more with the CPU traced: what the slowest operations met, and what "
        "tracing costs. Its times are not the timed points'.",
        levels={TRACE.name: [True], **levels},
        explanations=explanations,
    )

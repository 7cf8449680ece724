"""A look, its findings, and what the look itself cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from memlab.diagnose import counters, finding, look, prediction, rules, subject
from memlab.diagnose.finding import Finding
from memlab.diagnose.look import Look
from memlab.diagnose.prediction import Prediction

# What one count costs the thread that is counted (docs/diagnose.md).
_TRACEPOINT_S, _SOFTWARE_S = 300e-9, 50e-9


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU time of this program itself."""

    cpu_s: float
    """For the look: to read /proc, to count, to find."""
    starting_cpu_s: float
    """Before it, to start Python and to import what the look needs."""
    share: float
    """Of one CPU over the look."""
    counted_share: float
    """Of one CPU, that the process paid for being counted: an estimate."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is shown."""

    look: Look
    findings: tuple[Finding, ...]
    predictions: tuple[Prediction, ...]
    cost: Cost


def of(pid: int, seconds: float, *, walk: bool = False, policies: Sequence[str] = ()) -> Diagnosis:
    """Look at a process; `walk` reads its page tables, however many; `policies` such as
    ``lock=future`` are what to predict. Raises `BadSubject`, `CannotLook` and `BadRequest`."""
    asked = prediction.read(policies)
    starting_cpu_s = time.process_time()
    with subject.held(pid) as (found, pidfd):
        seen = look.at(found, pidfd, seconds, walk=walk)
    findings = tuple(finding.find(rules.RULES, seen))
    predictions = prediction.of(seen, asked)
    cpu_s = time.process_time() - starting_cpu_s
    cost = Cost(cpu_s, starting_cpu_s, cpu_s / seen.seconds, _counted_share(seen))
    return Diagnosis(seen, findings, predictions, cost)


def _counted_share(seen: Look) -> float:
    counted = {
        event: sum(thread.per_s.get(event.name, 0.0) for thread in seen.threads)
        for event in counters.EVENTS
    }
    return sum(
        rate * (_TRACEPOINT_S if event.tracepoint else _SOFTWARE_S)
        for event, rate in counted.items()
    )

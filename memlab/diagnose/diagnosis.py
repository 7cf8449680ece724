"""A look, its findings, and what the look itself cost."""

from __future__ import annotations

import time
from dataclasses import dataclass

from memlab.diagnose import finding, look, rules, subject
from memlab.diagnose.finding import Finding
from memlab.diagnose.look import Look


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU time of this program itself."""

    cpu_s: float
    """For the look: to read /proc, to count, to find."""
    starting_cpu_s: float
    """Before it, to start Python and to import what the look needs."""
    share: float
    """Of one CPU over the look."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is shown."""

    look: Look
    findings: tuple[Finding, ...]
    cost: Cost


def of(pid: int, seconds: float) -> Diagnosis:
    """Look at a process. Raises `BadSubject` and `CannotLook`."""
    starting_cpu_s = time.process_time()
    with subject.held(pid) as (found, pidfd):
        seen = look.at(found, pidfd, seconds)
    findings = tuple(finding.find(rules.RULES, seen))
    cpu_s = time.process_time() - starting_cpu_s
    return Diagnosis(seen, findings, Cost(cpu_s, starting_cpu_s, cpu_s / seen.seconds))

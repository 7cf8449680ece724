"""The request of a fit: a command, a metric with its bound, and the limits that may be tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from memlab.command import request as of_command
from memlab.command.request import Trying
from memlab.errors import CannotRun
from memlab.experiment.fit import Fit
from memlab.fit import search
from memlab.observe import available
from memlab.request import Request
from memlab.run import containment
from memlab.text import units

_SHARE = 0.6  # of the free memory, which the largest limit may take


def request(
    words: Sequence[str], trying: Trying, fit: Fit, swap: str = "none", **how: Any
) -> Request:
    """`how` is what any sweep may be asked. Raises BadRequest, and CannotRun if this host has no
    memory cgroup or too little memory."""
    free = available.memory().left
    gate = fit.gate_bytes
    if gate > free:
        gate_text, most = (units.format_quantity(size, "B") for size in (gate, free))
        raise CannotRun(f"a limit of {gate_text}: this machine has {most} of free memory")
    limits = [gate] if gate else search.grid(int(free * _SHARE))
    policies: dict[str, Sequence[object]] = {
        "memory_max": ["none", *limits],
        "swap": [swap],
        "page_cache": ["dropped"],
    }
    fit = structs.replace(fit, reads_used=not gate)
    tried = of_command.command(words, policies, trying, fit=fit, **how)
    if why := containment.lack():
        raise CannotRun(f"fit {why}")
    return tried

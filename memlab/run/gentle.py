"""`sweep --gentle`: measuring on a host where something else has to go on working.

A trial itself takes what it takes: held back, it would measure the holding back. What is bounded is
how often trials run, how long one is, and how much memory all of them need. They run at the lowest
priority (sched(7)), so that whoever wants their CPU meanwhile has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from memlab import units
from memlab.experiment import At, Experiment
from memlab.experiment.vocabulary import Exclude
from memlab.observe import available
from memlab.request import Request
from memlab.run import admission
from memlab.run.admission import Need
from memlab.run.executor import default_cpus

CPU_SHARE = 0.25  # of one CPU, over a trial and the pause after it
MEMORY_SHARE = 0.05  # of the available memory; files count, which stay in the page cache
_TRIAL_S = 1.0
_NICE = 19


def stretch(experiment: Experiment, request: Request, at: At) -> float:
    """How many times as long as its trial a point takes with the pause after it, so that all its
    CPUs together were used for no more than the share of one CPU's time."""
    if request.gentle is None:
        return 1.0
    asked = experiment.host.cpus
    cpus = asked(at) if callable(asked) else len(request.cpus or default_cpus(experiment))
    return max(1.0, cpus / request.gentle)


def spared(experiment: Experiment) -> Experiment:
    """The experiment without the points whose trials would change the host for everybody, or hold
    a CPU for long."""
    host, longest = experiment.host, units.format_duration(_TRIAL_S)

    def swaps(at: At) -> bool:
        return bool(host.containment and host.containment.swap(at) != "none")

    added = (
        Exclude(lambda at: bool(host.settings(at)), "--gentle changes no setting of the host"),
        Exclude(swaps, "--gentle makes no swap, which others' memory could go to"),
        Exclude(
            lambda at: experiment.cost.time(at) > _TRIAL_S,
            f"--gentle takes no trial of over {longest}",
        ),
    )
    return replace(experiment, excludes=(*experiment.excludes, *added))


def shortage(wanted: Need) -> str | None:
    """As admission's, and what is above this share of the memory."""
    room = available.memory()
    if wanted.memory_bytes > MEMORY_SHARE * room.left:
        needed, left = (units.format_quantity(n, "B") for n in (wanted.memory_bytes, room.left))
        share = units.format_percent(MEMORY_SHARE)
        free = f"{left} free{room.where}"
        return f"the plan needs {needed} of memory, and --gentle takes {share} of the {free}"
    return admission.shortage(wanted)


@contextmanager
def priority(request: Request) -> Iterator[None]:
    """The lowest one for this process, and for all that it starts, where it is to be gentle; an
    ordinary user's process keeps it."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if request.gentle is not None:
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, before)

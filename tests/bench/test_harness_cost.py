"""What memlab takes beside the measuring: a trial round nothing, and the commands that only answer.

The limits are times, since it is waiting that they bound; each stands beside the part of it that
is not memlab's.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from memlab import probe

from .interleaved import Comparison, interleave, table
from .lab import Lab

pytestmark = pytest.mark.bench

TRIALS = 101
TRIAL_LIMIT_MS = 2.0
STARTS = 20
MEMLAB = Path(sys.executable).with_name("memlab")
ANSWERS = {"--help": 100.0, "list": 200.0}  # limits in ms


def elapsed_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def start_ms(command: list[str]) -> float:
    """From starting a process to its end."""
    return elapsed_ms(lambda: subprocess.run(command, check=True, capture_output=True))


def test_a_trial_costs_under_two_milliseconds_beside_the_probe(lab: Lab) -> None:
    probe.prewarm_perf()  # as the fork server does
    measured = interleave(
        {
            "trial": lambda: elapsed_ms(lab.noop),
            "probe": lambda: elapsed_ms(lambda: probe.call("noop", {})),
        },
        pairs=TRIALS,
    )
    beside = float(np.median(measured["trial"] - measured["probe"]))
    row = Comparison("no-op", measured["trial"], measured["probe"])
    print("\n" + table("ms", "trial", "probe", [row]))
    print(f"a trial beside its probe: {beside:.2f} ms")
    assert beside < TRIAL_LIMIT_MS


@pytest.mark.parametrize("argument", ANSWERS)
def test_a_command_that_only_answers_is_quick(argument: str, cpu: int) -> None:
    measured = interleave(
        {
            "memlab": lambda: start_ms([str(MEMLAB), argument]),
            "python": lambda: start_ms([sys.executable, "-c", "pass"]),
        },
        pairs=STARTS,
    )
    row = Comparison(f"memlab {argument}", measured["memlab"], measured["python"])
    print("\n" + table("ms", "memlab", "python -c pass", [row]))
    assert np.median(row.over) < ANSWERS[argument]

"""What memlab takes beside the measuring: a trial round nothing, and the commands that only answer.

A trial's limit is a time, since it is waiting that it bounds, and stands beside the part of it that
is not memlab's. A command's is a ratio of processor time, which a busy machine does not change.
"""

from __future__ import annotations

import os
import resource
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
STARTS = 21
START_LIMIT = 1.8  # times a Python that imports click
MEMLAB = str(Path(sys.executable).with_name("memlab"))
COMPLETING = {
    "_MEMLAB_COMPLETE": "bash_complete",
    "COMP_WORDS": "memlab sweep mm",
    "COMP_CWORD": "2",
}
ANSWERS: dict[str, tuple[list[str], dict[str, str]]] = {
    "--help": (["--help"], {}),
    "list": (["list"], {}),
    "completion": ([], COMPLETING),
}


def elapsed_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def start_ms(command: list[str], environ: dict[str, str]) -> float:
    """Processor time of a process, from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=os.environ | environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


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


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_command_that_only_answers_starts_like_click(answer: str, cpu: int) -> None:
    arguments, environ = ANSWERS[answer]
    measured = interleave(
        {
            "memlab": lambda: start_ms([MEMLAB, *arguments], environ),
            "click": lambda: start_ms([sys.executable, "-c", "import click"], {}),
        },
        pairs=STARTS,
    )
    row = Comparison(f"memlab {answer}", measured["memlab"], measured["click"])
    print("\n" + table("ms of CPU", "memlab", "import click", [row]))
    assert row.ratio.estimate < START_LIMIT

"""The rows of an experiment's checks: played by its probe in a fresh process, and judged."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

import unprivileged

from memlab.experiment import Check, Claim, Count, Experiment, Within
from memlab.experiment.window import WINDOW_METRICS

_EACH = """
import json, resource, sys
from memlab import probe
name, limit, params = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
if limit >= 0:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
answers = {}
for check in params:
    try:
        answers[check] = probe.call(name, params[check])
    except probe.ProbeError as error:
        answers[check] = str(error)
print(json.dumps(answers))
"""


def command(experiment: Experiment, checks: Iterable[str], limit_bytes: int = -1) -> list[str]:
    """A Python that plays the checks and prints their results, or why there is none, as JSON."""
    params = {check: experiment.params({"check": check}, {}) for check in checks}
    asked = [experiment.probe, str(limit_bytes), json.dumps(params)]
    return [sys.executable, "-c", _EACH, *asked]


def answers(experiment: Experiment, *checks: str) -> dict[str, Any]:
    """With every right that the tests have."""
    return _said(command(experiment, checks))


def ordinary(experiment: Experiment, *checks: str, limit_bytes: int = -1) -> dict[str, Any]:
    """As a user without any capability finds them, and with that RLIMIT_MEMLOCK."""
    drop = unprivileged.without_capabilities()
    return _said([*drop, *command(experiment, checks, limit_bytes)])


def _said(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def answered(
    experiment: Experiment, check: Check, raw: Mapping[str, Any]
) -> Iterator[tuple[Claim, float]]:
    """The claims of a row that a sample has a value for, with it."""
    metrics = {metric.name: metric for metric in (*WINDOW_METRICS, *experiment.metrics)}
    for claim in check.expected:
        value = metrics[claim.metric].of(raw, {"check": check.name})
        if value is not None:
            yield claim, value


def wrong(experiment: Experiment, check: Check, raw: Mapping[str, Any]) -> list[Claim]:
    """The claims of a row that a sample does not bear out. What the machine does not count, such
    as /proc/kpageflags for an ordinary user, is passed over."""
    found: list[Claim] = []
    for claim, value in answered(experiment, check, raw):
        if isinstance(claim, Count) and value != claim.equals:
            found.append(claim)
        if isinstance(claim, Within):
            least, most = claim.above or 0.0, inf if claim.below is None else claim.below
            found += [] if least <= value <= most else [claim]
    return found

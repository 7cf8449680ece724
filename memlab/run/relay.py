"""Whether a run's points take turns of a few milliseconds, or have a window each.

In turns a block is a relay (probes/support/relay.h): all of its points are prepared and parked, and
then each has a turn in every round. So points that are compared meet the same machine. Of a run
all points do, or none: what takes turns has the median of its turns for a value, without the
machine's stalls, and is not to be held against a window that has them in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from memlab.experiment import Experiment
from memlab.experiment.host import Host
from memlab.experiment.points import Point
from memlab.experiment.turns import LEAD_S, MOST, TURN_S
from memlab.request import Request
from memlab.run import admission
from memlab.run.admission import Directories

PARKING_S = 0.02  # for estimates alone: to fork, map, park and end a worker


def why_not(
    experiment: Experiment, points: Sequence[Point], request: Request, directories: Directories
) -> str | None:
    """What keeps the points of a run from taking turns, in words; None where nothing does."""
    declared = experiment.turns
    if declared is None:
        return "its window is not a repeated call that can be interrupted"
    if not all(declared(point.at) for point in points):
        return "some of its windows use up their file, sync it or have no end but the file's"
    if experiment.host != Host() or experiment.attribution:
        return "its trials change something around them"
    if request.guest:
        return "in a guest trials come one at a time"
    if len(request.cpus) > 1:
        return "turns are taken on one CPU"
    if not 1 < len(points) <= MOST:
        return f"a relay is of 2 to {MOST} points, and there are {len(points)}"
    return shortage(experiment, points, directories)


def shortage(
    experiment: Experiment, points: Sequence[Point], directories: Directories
) -> str | None:
    """What the host lacks for all workers at the same time."""
    wanted = admission.need(experiment, points, directories, together=True)
    return admission.shortage(wanted, "all of its points at the same time")


def seconds(window_s: float) -> float:
    """What a point's turns of so much time take in a block, about."""
    return window_s * (1 + LEAD_S / TURN_S) + PARKING_S

"""Whether a run's points take turns of a few milliseconds, or have a window each.

In turns the points of a block that work on one kind of file are a relay (probes/support/relay.h):
all are prepared and parked, and then each has a turn in every round. So points that are compared
meet the same machine. Of a run all points do, or none: what takes turns has the middle half of them
for a value, without the machine's stalls, and is not to be held against a window that has them.

They share a file, and have their turns at the same places of it: where a page lies decides more of
what a call costs than what is compared. Of two identical points on two files of 64 MiB one was 10
to 25 % slower than the other, by another amount in each block, and within one file a call took 700
ns at some places and 1,200 ns at others. A file that a window uses up (sparse, preallocated) each
has for itself.

A point has few turns in a block, and there are more blocks: what else differs from block to block,
as where stacks and buffers lie, is drawn as often. How few is decided while the run is measured,
see TurnCount.
"""

from __future__ import annotations

import math
import resource
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, variance
from typing import Any

from memlab.experiment import At, Experiment, Level
from memlab.experiment.host import Host
from memlab.experiment.points import Point
from memlab.experiment.turns import FEWEST, LEAD_S, MOST, TURN_S, TURNS
from memlab.observe import files, proc
from memlab.request import Request
from memlab.run import admission
from memlab.run.admission import Directories
from memlab.store import SampleRow
from memlab.store.rows import interquartile_mean
from memlab.text import units

# The variance of n normal values' interquartile mean over that of their mean, as of a mean trimmed
# by a quarter at each end (Stigler, "The asymptotic distribution of the trimmed mean", 1973).
OF_MIDDLE_HALF = 1.195
# Only for estimates: to fork, map, park and end a worker, and to make its file.
PARKING_S, MAKING_S_PER_BYTE = 0.02, 1e-9


def why_not(
    experiment: Experiment, points: Sequence[Point], request: Request, directories: Directories
) -> str | None:
    """What keeps the points of a run from taking turns, in words; None where nothing does."""
    declared = experiment.turns
    if declared is None:
        return "its window is not a repeated call that can be interrupted"
    if not all(declared(point.at) for point in points):
        return (
            "some of its windows read a disk, map new pages of a file on it (not with "
            "-p file_state=cached_4k or -p filesystem=tmpfs), sync their file or have no end but "
            "the file's"
        )
    if experiment.host != Host() or experiment.attribution:
        return "its trials change something around them"
    if request.guest:
        return "in a guest trials come one at a time"
    if len(request.cpus) > 1:
        return "turns are taken on one CPU"
    if not 1 < len(points) <= MOST:
        return f"a relay is of 2 to {MOST} points, and there are {len(points)}"
    return shortage(experiment, points, directories)


def together(experiment: Experiment, points: Sequence[Point]) -> list[list[Point]]:
    """A block's points by relay: those whose files are of one kind, in which they are compared. So
    not all of a block's files have to be there at the same time."""
    relays: dict[tuple[Level, ...], list[Point]] = {}
    for point in points:
        file = experiment.file
        kind = tuple(point.at[name] for name in file.factors) if file else ()
        relays.setdefault(kind, []).append(point)
    return list(relays.values())


def shortage(
    experiment: Experiment, points: Sequence[Point], directories: Directories
) -> str | None:
    """What the host lacks for all workers of a relay, and their files, at the same time."""
    wanted = need(experiment, points, directories)
    return admission.shortage(wanted, "what takes turns") or _written_back(wanted)


def need(
    experiment: Experiment, points: Sequence[Point], directories: Directories
) -> admission.Resources:
    """The most that a relay takes, and the seconds of a block."""
    needs = [
        admission.need(experiment, item, directories, together=True)
        for item in together(experiment, points)
    ]
    made_bytes = sum(sum(item.disk_bytes.values()) for item in needs)
    turns_s = len(points) * TURNS * (TURN_S + LEAD_S)
    return admission.Resources(
        memory_bytes=max(item.memory_bytes for item in needs),
        disk_bytes={
            place: max(item.disk_bytes.get(place, 0) for item in needs)
            for place in {place for item in needs for place in item.disk_bytes}
        },
        block_s=turns_s + PARKING_S * len(points) + MAKING_S_PER_BYTE * made_bytes,
    )


def trial_s(experiment: Experiment, at: At) -> float:
    """About how long a point's turns of a block take, in seconds, its file included."""
    size_bytes = int(at[experiment.file.size]) if experiment.file else 0
    return TURNS * (TURN_S + LEAD_S) + PARKING_S + MAKING_S_PER_BYTE * size_bytes


class TurnCount:
    """How many turns a point has in the next block, from what the blocks before took and showed.

    A point's value varies by B from block to block, and by W / n where it is of n turns. A block
    takes S per point beside its turns, and T for each turn. In the same time the values of many
    blocks vary least with n = sqrt(S W / (T B)), the optimum allocation of two-stage sampling
    (Cochran, "Sampling Techniques", 1977, section 10.6). All are of times relative to those of the
    other points of a relay, since it is ratios that are judged. W is robust, and the quotient of B
    and W is the points' median. The newest blocks decide: those of a long run are not all kept.
    """

    BLOCKS = 3  # before the first decision
    NEWEST = 100  # that are kept

    def __init__(self) -> None:
        # By point, of each block: its value beside the other points', and W with the turns.
        self._values: dict[int, deque[float]] = defaultdict(self._newest)
        self._within: dict[int, deque[tuple[float, int]]] = defaultdict(self._newest)
        self._beside_s = deque[float](maxlen=self.NEWEST * MOST)  # of each sample
        self._turn_s = deque[float](maxlen=self.NEWEST * MOST)

    @classmethod
    def _newest(cls) -> deque[Any]:
        return deque(maxlen=cls.NEWEST)

    def add(self, samples: Sequence[SampleRow]) -> None:
        """Of one relay. One whose file was used up in a few turns says nothing."""
        logs: dict[int, list[float]] = {}
        for sample in samples:
            if (turns := (sample.raw or {}).get("turns")) and len(turns["elapsed_ns"]) >= FEWEST:
                pairs = zip(turns["elapsed_ns"], turns["call_count"], strict=True)
                logs[sample.point] = [math.log(max(1, ns) / max(1, calls)) for ns, calls in pairs]
                inside_s = (sum(turns["elapsed_ns"]) + turns["lead_ns"]) / 1e9
                self._beside_s.append(max(0.0, sample.trial_s - inside_s))
                self._turn_s.append(inside_s / len(turns["elapsed_ns"]))
        if len(logs) < 2:
            return
        count = min(map(len, logs.values()))
        rounds = [fmean(item[i] for item in logs.values()) for i in range(count)]
        for point, item in logs.items():
            apart = [item[i] - rounds[i] for i in range(count)]
            middle = interquartile_mean(sorted(apart))
            self._values[point].append(middle)
            deviation = 1.4826 * median(abs(each - middle) for each in apart)
            self._within[point].append((OF_MIDDLE_HALF * deviation**2, count))

    def next(self) -> int:
        """At least FEWEST, of which the middle half are three; at most TURNS."""
        quotients = []
        for point, values in self._values.items():
            within = self._within[point]
            if len(values) < self.BLOCKS or not (turn := fmean(item for item, _ in within)):
                continue
            of_turns = fmean(item / count for item, count in within)
            quotients.append((variance(values) - of_turns) / turn)
        if not quotients or (quotient := median(quotients)) <= 0:
            return TURNS
        wanted = math.sqrt(fmean(self._beside_s) / (median(self._turn_s) * quotient))
        return min(TURNS, max(FEWEST, round(wanted)))


def _written_back(wanted: admission.Resources) -> str | None:
    """Whether the kernel would begin to write these files to the disk while they are measured
    (nr_dirty_background_threshold of /proc/vmstat, in pages)."""
    counters = files.known(proc.vmstat) or {}
    pages = counters.get("nr_dirty_background_threshold")
    dirty = sum(size for place, size in wanted.disk_bytes.items() if _is_disk(place))
    if pages is None or dirty <= (limit := pages * resource.getpagesize()):
        return None
    sizes = [units.format_quantity(size, "B") for size in (dirty, limit)]
    return f"files of {sizes[0]} on a disk are written back meanwhile, from {sizes[1]} on"


def _is_disk(place: Path) -> bool:
    return files.known(lambda: proc.filesystem_of(place)) != "tmpfs"

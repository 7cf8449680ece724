"""A stored fit as the search reads it: the trials of each limit beside the unlimited ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from memlab.experiment.fit import Fit
from memlab.experiment.points import Point
from memlab.fit.search import LimitTrials, Search
from memlab.results import Run

BASELINE_BLOCKS = 2  # before the first limit: the peak says where the search begins
_ERRORS_MAX = 5  # of the harness
NOT_COUNTED = ("ok", "unavailable", "error")  # say nothing of a limit


@dataclass(frozen=True)
class FitRun:
    """A run of `memlab fit`, read."""

    run: Run

    @cached_property
    def asked(self) -> Fit:
        subject: Any = getattr(self.run.experiment, "subject")  # noqa: B009
        found: Fit = subject.fit
        return found

    @cached_property
    def baseline(self) -> Point:
        """The point without a limit."""
        return next(p for p in self.run.points if p.at["memory_max"] == "none")

    @cached_property
    def limited(self) -> list[Point]:
        """The points with a limit, smallest first."""
        limited = [p for p in self.run.points if p.at["memory_max"] != "none"]
        return sorted(limited, key=lambda point: int(point.at["memory_max"]))

    def limit_bytes(self, place: int) -> int:
        return int(self.limited[place].at["memory_max"])

    @cached_property
    def baseline_trials(self) -> int:
        """How many trials without a limit have a value of the metric."""
        return len(self.run.valued(self.asked.metric, self.baseline))

    @cached_property
    def fails(self) -> bool:
        """Whether the first trials without a limit do not end well. An error of the harness, as of
        a worker that was killed, is tried again."""
        if self.baseline_trials >= BASELINE_BLOCKS:
            return False
        outcomes = self.run.by_point[self.baseline.index].outcomes
        errors = outcomes.get("error", 0)
        return errors >= _ERRORS_MAX or sum(outcomes.values()) - self.baseline_trials > errors

    @cached_property
    def has_ratio(self) -> bool:
        """Whether the metric is above 0 without a limit in any trial."""
        values = self.run.valued(self.asked.metric, self.baseline).column(self.asked.metric)
        return bool((values > 0).any())

    @cached_property
    def peak_bytes(self) -> float:
        """The largest peak of the unlimited trials: of the cgroup, else of the processes."""
        for metric in ("peak_group", "peak_rss"):
            values = self.run.valued(metric, self.baseline).column(metric)
            if values.size:
                return float(values.max())
        return 0.0

    @cached_property
    def expected_bytes(self) -> int | None:
        """The least that a limit is expected to take: the anonymous memory of the unlimited trials,
        as none of it can be reclaimed without swap; None with swap, or if it was not read."""
        subject: Any = getattr(self.run.experiment, "subject")  # noqa: B009
        if subject.levels["swap"] != ["none"]:
            return None

        def largest(sample: Any) -> int:
            series = (sample.readings or {}).get("anonymous_bytes") or {"values": []}
            return max(series["values"], default=0)

        found = self.run.good(self.baseline).read(largest, "anonymous_bytes")
        return int(max(found, default=0)) or None

    @cached_property
    def search(self) -> Search:
        """The state of the search."""
        limits = [self.limit_bytes(place) for place in range(len(self.limited))]
        top = int(np.searchsorted(limits, self.peak_bytes))
        expected = -1
        if self.expected_bytes:
            expected = min(top, int(np.searchsorted(limits, self.expected_bytes)))
        return Search(len(limits), top, self.asked.within, self._tried(), expected)

    def broken(self, point: Point) -> Mapping[str, int]:
        """How many trials of a point ended otherwise than well, by outcome."""
        outcomes = self.run.by_point[point.index].outcomes
        return {word: count for word, count in outcomes.items() if word not in NOT_COUNTED}

    def _tried(self) -> Mapping[int, LimitTrials]:
        run, metric = self.run, self.run.metric(self.asked.metric)
        unlimited = run.by_block(metric.name, self.baseline)
        correlation = run.sampling(metric.name)["correlation"]
        found = {}
        for place, point in enumerate(self.limited):
            if not len(run.by_point[point.index]):
                continue
            values = run.by_block(metric.name, point)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = values / unlimited if metric.lower_is_better else unlimited / values
            good = ratios[np.isfinite(ratios) & (ratios > 0)]
            broken = sum(self.broken(point).values())
            trials = LimitTrials(tuple(good.tolist()), broken, correlation)
            if trials.trials:
                found[place] = trials
        return found

    @property
    def gate(self) -> Point | None:
        """The only limit in question, if there is one."""
        limit = self.asked.gate_bytes
        return next((p for p in self.limited if p.at["memory_max"] == limit), None)


def open_points(run: Run) -> frozenset[int]:
    """The points of the next block, without a limit and with each limit that the search tries;
    empty once it has ended, or if the program does not run without a limit either."""
    fit = FitRun(run)
    base = {fit.baseline.index}
    if fit.fails or (fit.baseline_trials and not fit.has_ratio):
        return frozenset()
    if fit.baseline_trials < BASELINE_BLOCKS:
        return frozenset(base)
    if gate := fit.gate:
        place = fit.limited.index(gate)
        is_open = fit.search.tried.get(place, LimitTrials()).word(fit.asked.within) == "open"
        return frozenset({gate.index, *base}) if is_open else frozenset()
    places = fit.search.next()
    return frozenset({*(fit.limited[place].index for place in places), *base} if places else ())

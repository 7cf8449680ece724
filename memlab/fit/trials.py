"""A stored fit as the search reads it: the trials of each limit beside the unlimited ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from memlab.experiment.fit import USED_PAGES, Fit
from memlab.experiment.points import Point
from memlab.fit.expected import Episode, Expected, episodes
from memlab.fit.search import LimitTrials, Search
from memlab.results import Run

BASELINE_BLOCKS = 2  # before the first limit: the peak says where the search begins
_ERRORS_MAX = 5  # of the harness
NOT_COUNTED = ("ok", "unavailable", "error")  # say nothing of a limit
CHARGED_SHARE = 0.1  # by which memory may exceed the peak that was charged for it


@dataclass(frozen=True)
class FitRun:
    """A run of `memlab fit`, read."""

    run: Run

    @cached_property
    def asked(self) -> Fit:
        subject: Any = getattr(self.run.experiment, "subject")  # noqa: B009
        fit: Fit = subject.fit
        return fit

    @cached_property
    def baseline(self) -> Point:
        """The point without a limit."""
        return next(p for p in self.run.points if p.at["memory_max"] == "none" and not p.control)

    @cached_property
    def used_run(self) -> Point | None:
        """The point whose only run is not measured; None in a gate, and of earlier versions."""
        return next((p for p in self.run.points if p.control == USED_PAGES), None)

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
        """The largest peak of the unlimited trials: of the cgroup, else of what the processes were
        seen with at one time, or the largest of them had."""
        if not self.is_peak_summed:
            return self._most("peak_group")
        return max(self._most("peak_rss"), float(self._largest("rss_bytes")))

    @property
    def is_peak_summed(self) -> bool:
        """Whether no peak of the cgroup is known, as of v2 before Linux 5.19."""
        return not self._most("peak_group")

    def _most(self, metric: str) -> float:
        values = self.run.valued(metric, self.baseline).column(metric)
        return float(values.max()) if values.size else 0.0

    @cached_property
    def expected(self) -> Expected:
        """What is expected of limits: no anonymous memory can be reclaimed without swap, and memory
        that was used again in the run that is not measured is brought back."""
        subject: Any = getattr(self.run.experiment, "subject")  # noqa: B009
        swaps = subject.levels["swap"] != ["none"]
        anonymous_bytes = 0 if swaps else self._largest("anonymous_bytes")
        return Expected(anonymous_bytes, self._episodes(swaps=swaps))

    @cached_property
    def expected_bytes(self) -> int | None:
        """The smallest limit that is expected to fit; None if nothing is known."""
        reused = self.expected.reused_bytes(self.asked.within)
        return (self.expected.floor_bytes + (reused or 0)) or None

    @cached_property
    def unmapped_cache_bytes(self) -> int | None:
        """Page cache at the end beyond what was mapped when the memory in use was read: whether it
        is used again is not known. None if either was not read."""
        caches = self.readings(self.baseline, "group_cache_bytes")
        files = self._episodes(swaps=False)
        if not caches or not files:
            return None
        return max(0, max(caches) - round(max(episode.resident_bytes for episode in files)))

    @property
    def expects_refaults(self) -> bool:
        """Whether refaults of a limit can be expected: of what it uses again all is charged to it,
        and little was read from files that it does not map."""
        unmapped = self.unmapped_cache_bytes or 0
        return self.is_charged and unmapped <= CHARGED_SHARE * self.peak_bytes

    def readings(self, point: Point, name: str) -> list[int]:
        """A reading of the cgroup in each run that ended well and has it."""
        values = self.run.good(point).read(lambda sample: (sample.readings or {}).get(name), name)
        return [int(value) for value in values if isinstance(value, int)]

    @property
    def is_charged(self) -> bool:
        """Whether its group can have been charged for all that it used again. Pages of a file are
        charged to whoever brought them into the page cache."""
        return (self.expected_bytes or 0) <= (1 + CHARGED_SHARE) * self.peak_bytes

    def _episodes(self, *, swaps: bool) -> list[Episode]:
        if self.used_run is None:
            return []

        def read(sample: Any) -> list[Episode]:
            used = (sample.readings or {}).get("used_pages") or {}
            return episodes(used, with_anonymous=swaps)

        values = self.run.good(self.used_run).read(read, "used_pages")
        return next(iter(values), [])

    def _largest(self, name: str) -> int:
        """What all processes of an unlimited trial had at one time, at most; 0 if it was not
        read."""

        def largest(sample: Any) -> int:
            series = (sample.readings or {}).get(name) or {"values": []}
            return max(series["values"], default=0)

        values = self.run.good(self.baseline).read(largest, name)
        return int(max(values, default=0))

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
        results = {}
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
                results[place] = trials
        return results

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
    if fit.used_run and fit.baseline_trials and not len(run.by_point[fit.used_run.index]):
        base.add(fit.used_run.index)  # of a program that runs
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

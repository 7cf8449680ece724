"""Which memory limits to try next, and what the trials so far show. Numbers in, numbers out.

The cost of a program falls as its limit rises, so the limits are searched: down from the peak in
growing steps, the first of them no further than to the limit that is expected, then by bisection,
then with more blocks at the two limits that enclose the answer.
Two words end the search: a limit is `fits` if the cost is shown to stay within the bound, and
`slow` if it is shown not to. A limit at which one trial was killed or failed is `broken`. Each word
rests on signs of the block ratios at every look, with an error of ALPHA shared among LOOKED_MAX
limits, and on fewer signs than blocks if a block resembles the block before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, inf, log, log1p, log2

import numpy as np
import numpy.typing as npt

from memlab.analysis.exact import most_of_looks, sign_test
from memlab.experiment.fit import LEAST_BYTES
from memlab.fit.documents import Word

ALPHA = 0.05
LOOKED_MAX = 16  # limits that share the error
STEP = 1.05  # from one limit of the grid to the next
SINGLE = 0.05  # of single runs that may exceed the bound: it is to hold in 19 of 20
_AGREEING_BLOCKS, _DIFFERING_BLOCKS = 2, 5  # that say where to go next
_STUCK_BLOCKS = 20  # after which the neighbours of an undecided limit are tried too
_FIRST_STEPS = 7  # of the grid: 0.71 times the peak


@dataclass(frozen=True, slots=True)
class LimitTrials:
    """The trials at one limit.

    ratios: the cost over that of the unlimited trial of the same block, of trials that ended well.
    broken: how many were killed or failed.
    correlation: of a block's ratio with the block before, which leaves fewer independent ratios.
    """

    ratios: Sequence[float] = ()
    broken: int = 0
    correlation: float = 0.0

    @property
    def trials(self) -> int:
        return len(self.ratios) + self.broken

    def word(self, within: float) -> Word:
        """What is shown. `within`: the cost that is allowed, as a share above the unlimited one."""
        if self.broken:
            return "broken"
        if not self.ratios:
            return "open"
        above = np.log(np.asarray(self.ratios, dtype=float)) - log1p(within)
        if self._is_shown(-above):
            return "fits"
        return "slow" if self._is_shown(above) else "open"

    def _is_shown(self, above: npt.NDArray[np.float64]) -> bool:
        """Whether the median is shown to be above 0, at this limit's share of the error."""
        p = sign_test(above, sequential=True, correlation=self.correlation)
        return p <= ALPHA / LOOKED_MAX

    def leans(self, within: float) -> bool | None:
        """Whether the limit seems to fit; None before there are enough trials to say."""
        if self.broken:
            return False
        sides = {ratio <= 1 + within for ratio in self.ratios}
        least = _AGREEING_BLOCKS if len(sides) < 2 else _DIFFERING_BLOCKS
        return None if len(self.ratios) < least else self.middle <= 1 + within

    @property
    def middle(self) -> float:
        """The median ratio; inf where no trial ended well."""
        return float(np.median(self.ratios)) if self.ratios else inf


@dataclass(frozen=True, slots=True)
class Search:
    """The state of a search. `tried` has the trials by the limit's place in the grid, smallest
    first; `top` is the place of the first limit that the unlimited program stays under, and
    `expected` that of the smallest limit that is expected to fit; -1: none is expected."""

    size: int
    top: int
    within: float
    tried: Mapping[int, LimitTrials] = field(default_factory=dict)
    expected: int = -1

    @property
    def too_small(self) -> int | None:
        """The largest limit that is shown not to fit."""
        words = ((place, trials.word(self.within)) for place, trials in self.tried.items())
        return max((place for place, word in words if word in ("slow", "broken")), default=None)

    @property
    def fits(self) -> int | None:
        """The smallest limit that is shown to fit, above every limit that is shown not to."""
        least = -1 if self.too_small is None else self.too_small
        shown = (p for p, trials in self.tried.items() if trials.word(self.within) == "fits")
        return min((place for place in shown if place > least), default=None)

    def seems_to_fit(self, fits: int | None) -> int | None:
        """The smallest limit that seems to fit, above all that do not; at most `fits`, which is
        shown to. Above the peak no limit matters: what seems to fit only there is noise."""
        leans = {place: trials.leans(self.within) for place, trials in self.tried.items()}
        low = max((place for place, fitting in leans.items() if fitting is False), default=-1)
        seem = [place for place, fitting in leans.items() if fitting and low < place <= self.top]
        return min([*seem, *([] if fits is None else [fits])], default=None)

    def next(self) -> frozenset[int]:
        """The limits of the next block; empty once the answer is known as exactly as it will be."""
        begun = {p for p, trials in self.tried.items() if trials.leans(self.within) is None}
        if begun:
            return frozenset(begun)
        low, high = self._enclosed()
        following = self._bracket(low, high)
        if following is not None and (following in self.tried or len(self.tried) < LOOKED_MAX):
            return frozenset({following})
        return frozenset(self._confirming(low, high))

    def _enclosed(self) -> tuple[int, int]:
        """The largest limit that seems too small, or -1, and the smallest above it that seems to
        fit, or `size`."""
        lean = {place: trials.leans(self.within) for place, trials in self.tried.items()}
        low = max((place for place, fits in lean.items() if fits is False), default=-1)
        fitting = (place for place, fits in lean.items() if fits and place > low)
        return low, min(fitting, default=self.size)

    def _bracket(self, low: int, high: int) -> int | None:
        """The limit to try next, until two neighbours enclose the answer."""
        if high == self.size:
            if low < 0:
                first = min(self.size - 1, self.top) - _FIRST_STEPS
                return max(0, first, self.expected)
            if low < self.top:
                return max(low + 1, (low + self.top + 1) // 2)
            return low + 1 if low + 1 < self.size else None
        if low < 0:
            return self._lower(high) if high else None
        return (low + high) // 2 if high - low > 1 else None

    def _lower(self, high: int) -> int:
        """Below limits that all seem to fit: in growing steps to the one that is expected to be the
        smallest, and again from there. Far below its need a program is slow to try."""
        down = len([place for place in self.tried if place >= high])
        if high > self.expected:
            return max(0, self.expected, high - _FIRST_STEPS * min(4, down))
        below = len([place for place in self.tried if high <= place <= self.expected])
        return max(0, high - (1 << min(5, below - 1)))

    def _confirming(self, low: int, high: int) -> set[int]:
        """The limits next to the answer that are not shown either way yet. One that many blocks
        left open lies at the bound, so that the next limit outwards is tried in its place; one of
        which some runs fit and others do not stays open, and its neighbour is tried beside it."""
        wanted = set()
        for place, step, shown in ((high, 1, self.fits), (low, -1, self.too_small)):
            if not 0 <= place < self.size:
                continue
            at, stride = place, 1
            while self._is_stuck(at):
                at, stride = at + step * stride, stride * 2
            is_long_open = at in self.tried and self.tried[at].trials >= _STUCK_BLOCKS
            is_known = shown is not None and (shown - at) * step <= is_long_open
            if is_known or not 0 <= at < self.size or not self._is_open(at):
                continue
            both = (at, at + step) if is_long_open else (at,)
            wanted |= {candidate for candidate in both if self._may_try(candidate)}
        return wanted

    def _may_try(self, place: int) -> bool:
        is_new = place not in self.tried
        in_reach = 0 <= place < self.size and (not is_new or len(self.tried) < LOOKED_MAX)
        return in_reach and self._is_open(place)

    def _is_open(self, place: int) -> bool:
        return self.tried.get(place, LimitTrials()).word(self.within) == "open"

    def _is_stuck(self, place: int) -> bool:
        """Whether a limit's cost lies so near to the bound that many blocks left it open."""
        trials = self.tried.get(place, LimitTrials())
        near = abs(log(trials.middle / (1 + self.within))) < log1p(self.within) / 2
        return near and trials.trials >= _STUCK_BLOCKS and self._is_open(place)


def grid(most_bytes: int) -> list[int]:
    """The limits that may be tried, smallest first: from 1 MiB on in steps of 5 %, each rounded to
    a 64th of its power of two so that it can be written."""
    limits: list[int] = []
    for step in range(
        1 + max(0, floor(log(max(most_bytes, LEAST_BYTES) / LEAST_BYTES) / log(STEP)))
    ):
        exact = LEAST_BYTES * STEP**step
        unit = 1 << (floor(log2(exact)) - 6)
        limits.append(round(exact / unit) * unit)
    return limits


def apart(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """By how much two runs differ: of each two successive values, as a share of the lower one."""
    positive = values[np.isfinite(values) & (values > 0)]
    pairs = positive[: positive.size // 2 * 2].reshape(-1, 2)
    shares: npt.NDArray[np.float64] = pairs.max(axis=1) / pairs.min(axis=1) - 1
    return shares


def exceed_shown(over: int, trials: int, share: float) -> bool:
    """Whether more than this share of trials is shown to be over the bound, with an error of ALPHA
    at every look together."""
    return trials > 0 and trials - over <= most_of_looks(trials, ALPHA, 1 - share)


def most_broken_share(trials: int) -> float:
    """The upper 95 % bound of the share of trials that break, after so many of which none did."""
    return float(1 - 0.05 ** (1 / trials)) if trials else 1.0

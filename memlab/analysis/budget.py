"""The budget that measures so many levels: known without a declared experiment."""

from __future__ import annotations

from math import ceil

from memlab.analysis.least import least_pairs, least_samples

QUESTIONS_SHARE = 0.9  # of what is left, given to questions that have not begun
TRIAL_OVERHEAD_S = 0.01  # for estimates: forking, mapping and unmapping a file
LEAST_BLOCKS = least_samples(0.95)  # with fewer, a median has no 95 % interval
_LEAST_BLOCKS_OF_LEVELS = 8  # a sign test of two levels beside others finds nothing in fewer


def least_blocks_of(levels: int) -> int:
    """Of a user's command."""
    return LEAST_BLOCKS if levels == 1 else max(_LEAST_BLOCKS_OF_LEVELS, least_pairs(levels - 1))


def budget_of_levels(levels: int, run_s: float) -> int:
    """The budget that measures so many levels of a user's command, each run of which takes
    `run_s`."""
    trials = levels * least_blocks_of(levels)
    return advised_s(trials * (run_s + TRIAL_OVERHEAD_S))


def advised_s(trials_s: float, spent_s: float = 0.0) -> int:
    """The budget in which trials that take so long are measured."""
    return _rounded(spent_s + trials_s / QUESTIONS_SHARE)


def _rounded(seconds: float) -> int:
    """Up to two digits: 130 for 121.3."""
    step = int(f"1{'0' * (len(str(ceil(seconds))) - 2)}") if seconds > 99 else 1
    return ceil(seconds / step) * step

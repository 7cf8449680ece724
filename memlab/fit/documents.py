"""What a fit answers, and what `memlab fit --json` prints, as types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

Word = Literal["fits", "slow", "broken", "open"]
State = Literal["answered", "grows", "open", "too small", "fails without a limit", "not measured"]


class LimitRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One limit beside the unlimited trials. `low` and `high`: the 95 % interval of `cost` at every
    look; null before there are enough blocks. `reached`: in how many runs that ended well the
    limit was reached, so that the kernel reclaimed."""

    limit_bytes: int
    word: Word
    cost: float | None
    low: float | None
    high: float | None
    blocks: int
    outcomes: Mapping[str, int]
    refaults_per_s: float | None
    reached: int


class FitAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The smallest limit at which a command does its work.

    limit_bytes: the smallest limit that seems to fit. above_bytes: the largest that is shown too
    small. fits_bytes: the smallest that is shown to fit; the answer lies between these two.
    setting_bytes: the limit to set, with room of one step; null if none can be advised.
    expected_bytes: the anonymous memory of the unlimited runs, none of which can be reclaimed
    without swap: where the search began, beside what was measured; null with swap.
    page_cache_bytes: the page cache of files that was charged when the unlimited program ended.
    broken_share_most: the upper 95 % bound of how often a run breaks at fits_bytes.
    grows_bytes_per_s: how fast the unlimited program grew to the end of its runs; null if it did
    not, or ended within 0.5 s. The state is then "grows", and limits are those of runs so long.
    """

    run: str
    command: str
    metric: str
    within: float
    swap: str
    state: State
    limit_bytes: int | None
    above_bytes: int | None
    fits_bytes: int | None
    setting_bytes: int | None
    gate_bytes: int | None
    peak_bytes: int | None
    page_cache_bytes: int | None
    expected_bytes: int | None
    baseline: float | None
    baseline_blocks: int
    baseline_outcomes: Mapping[str, int]
    baseline_detail: str | None
    broken_share_most: float | None
    grows_bytes_per_s: float | None
    limits: Sequence[LimitRow]

"""What a fit answers, and what `memlab fit --json` prints, as types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import field

Word = Literal["fits", "slow", "broken", "open"]
SingleRuns = Literal["differ", "exceed", "not shown to exceed"]
State = Literal["answered", "grows", "open", "too small", "fails without a limit", "not measured"]


class LimitRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One limit beside the unlimited trials. `low` and `high`: the 95 % interval of `cost` at every
    look; null before there are enough blocks. `over`: blocks of which the cost exceeds the bound.
    `reached`: in how many runs that ended well the
    limit was reached, so that the kernel reclaimed. `expected_refaults_per_s`: by the memory that a
    run without a limit used again; null if that was not read, or without swap below the anonymous
    memory."""

    limit_bytes: int
    word: Word = field(name="verdict")
    cost: float | None
    low: float | None
    high: float | None
    blocks: int
    over: int
    outcomes: Mapping[str, int]
    refaults_per_s: float | None
    expected_refaults_per_s: float | None
    reached: int


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The trials without a limit. value: the median of the metric; null if no trial has one.
    detail: what one that did not end well said."""

    value: float | None
    blocks: int
    outcomes: Mapping[str, int]
    detail: str | None


class FitAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The smallest limit at which a command does its work.

    limit_bytes: the smallest limit that seems to fit; null if it exceeds the peak and is not shown
    to. above_bytes: the largest that is shown too small. fits_bytes: the smallest that is shown to
    fit; the answer lies between these two.
    setting_bytes: the limit to set, with room of one step; null if none can be advised.
    expected_bytes: the smallest limit that was expected to fit, where the search began: the
    anonymous memory of the unlimited runs, none of which can be reclaimed without swap, and
    expected_reused_bytes. null if neither is known.
    expected_reused_bytes: memory that an unlimited run, which is not measured, used again so often
    that its refaults would exceed the bound: of mapped files, and with swap of all. null if it was
    not read, as of a run within 0.1 s. If expected_bytes exceeds peak_bytes by a tenth, most of
    it is not charged to the program, and no refaults are expected of a limit.
    peak_bytes: of the unlimited program's cgroup. is_peak_summed: none is known, as of v2 before
    Linux 5.19, and it is what its processes were seen with at one time, without page cache, or the
    largest of them had.
    page_cache_bytes: the page cache of files that was charged when the unlimited program ended.
    unmapped_cache_bytes: of it what nothing had mapped when it was read which memory is used again;
    if it exceeds a tenth of peak_bytes, no refaults are expected of a limit. null if nothing was
    read.
    pairs: of successive runs without a limit, each run in one pair. pairs_apart: of these, the
    pairs that differ by more than `within`. apart: the median difference of a pair, as a share.
    single_runs: whether each run keeps the bound. "differ": over one pair in ten is shown to be
    apart without a limit, so over one run in twenty exceeds the bound under any limit. "exceed": so
    many do at fits_bytes. The limits are then those of the median run.
    broken_share_most: the upper 95 % bound of how often a run breaks at fits_bytes.
    growth_bytes_per_s: how fast the unlimited program grew to the end of its runs; null if it did
    not, or ended within 0.5 s. The state is then "grows", and limits are those of runs so long.
    """

    run: str
    command: str = field(name="command_line")
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
    is_peak_summed: bool
    page_cache_bytes: int | None
    unmapped_cache_bytes: int | None
    expected_bytes: int | None
    expected_reused_bytes: int | None
    baseline: Baseline
    pairs: int
    pairs_apart: int
    apart: float | None
    single_runs: SingleRuns
    broken_share_most: float | None
    growth_bytes_per_s: float | None
    limits: Sequence[LimitRow]


class PredictedLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit, and what would be read again under it."""

    limit_bytes: int
    read_again_bytes: int


class FitPrediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The smallest limit that recordings let expect; nothing was measured.

    within: the cost that is allowed, as a share of the recorded time. least_bytes: the peak of
    anonymous and shared memory, below which the program is killed. read_limit: whether the program
    read its cgroup's limit, and may need another amount under one; null if not known.
    looked_share: of what it touched, how much is of processes whose use of pages again is known.
    guessed_share: of the pages used again, those of which the mapping is known, and not the place.
    remarks: what each answer from the recordings says. limits: of the recording that needs most,
    with steps of at least 5 % between them.
    """

    traces: Sequence[str]
    command: str
    within: float
    limit_bytes: int
    setting_bytes: int
    least_bytes: int
    read_limit: bool | None
    looked_share: float
    guessed_share: float
    remarks: Sequence[str]
    limits: Sequence[PredictedLimit]

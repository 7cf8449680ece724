"""What a kernel's changelog claims, judged by the two kernels around its version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memlab.analysis.verdicts import VerdictWord
from memlab.machines.ladder.judge import Cell
from memlab.published import Change
from memlab.units import version_order


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two kernels: what it shows of the metric, or why there is no number."""

    version: str
    cell: Cell | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class JudgedChange:
    """The word, why, and what it rests on; a side is None where nothing was measured."""

    change: Change
    word: VerdictWord
    reason: str
    before: Side | None = None
    since: Side | None = None


def around(change: Change, since: str, versions: Sequence[str]) -> tuple[str, str] | str:
    """Of the kernels at hand the newest before a version and the oldest since; or why not both."""
    order = version_order(since)
    least = version_order(change.least or "0")
    old = [v for v in versions if least <= version_order(v) < order]
    new = [v for v in versions if version_order(v) >= order]
    if not old:
        span = f"from {change.least} to before {since}" if change.least else f"before {since}"
        return (
            f"no kernel {span} is at hand: memlab kernels suggest {change.least or '6.1'} {since}"
        )
    if not new:
        later = int(since.split(".")[0]) + 1
        return f"no kernel since {since} is at hand: memlab kernels suggest {since} {later}"
    return max(old, key=version_order), min(new, key=version_order)


def judge(change: Change, before: Side, since: Side) -> JudgedChange:
    """Counts by each kernel alone, a time or fewer counts by the ratio of the two."""
    judged = JudgedChange(change, "not testable here", "", before, since)
    missing = next((side for side in (before, since) if side.cell is None), None)
    if missing is not None:
        return replace(judged, reason=f"{missing.version}: {missing.why}")
    rule = _counts if change.below is None else _ratio
    word, reason = rule(change, before, since)
    return replace(judged, word=word, reason=reason)


def _counts(change: Change, before: Side, since: Side) -> tuple[VerdictWord, str]:
    """Contradicted where one side is another number than claimed, whatever the other one is."""
    found = {}
    for side, claimed in ((before, change.before), (since, change.since)):
        found[side.version] = _is(side.cell, claimed or 0.0, change.within), claimed
    for version, (fits, claimed) in found.items():
        if fits is False:
            return "contradicted", f"{version} should show {claimed:g}"
    if all(fits for fits, _ in found.values()):
        return "reproduced", "each kernel shows the number that is claimed"
    return "inconclusive", "the interval of a number reaches beyond the one that is claimed"


def _is(cell: Cell | None, claimed: float, within: float) -> bool | None:
    """Whether all that was seen is the number; None where only a part of it is."""
    if cell is None or cell.low is None or cell.high is None:
        return None
    low, high = sorted((claimed * (1 - within), claimed * (1 + within)))
    if low <= cell.low and cell.high <= high:
        return True
    return False if cell.high < low or high < cell.low else None


def _ratio(change: Change, before: Side, since: Side) -> tuple[VerdictWord, str]:
    """By the ends of two 95 % intervals, which are wider apart than a 95 % interval of the ratio:
    the two guests were not measured block by block."""
    old, new, below = before.cell, since.cell, change.below
    if old is None or new is None or below is None:
        return "inconclusive", "no number"
    if not (old.low and old.high and new.low and new.high):
        return "inconclusive", "too few blocks for an interval"
    low, high = new.low / old.high, new.high / old.low
    said = f"since / before is {low:.3g} to {high:.3g}, claimed below {below:g}"
    if high < below:
        return "reproduced", said
    return ("contradicted" if low > below else "inconclusive"), said

"""`memlab reproduce linux-6.18`: a changelog's claims, each under the two kernels around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from memlab.machines.guest.kernels import Found
from memlab.machines.ladder import climb
from memlab.machines.ladder.changes import JudgedChange, Side, around, judge
from memlab.observe import kvm
from memlab.published import Change, Changelog
from memlab.watch import Watch


def reproduce(
    log: Changelog,
    kernels: Sequence[Found],
    store: Path,
    watch: Watch,
    done: Callable[[climb.Rung], None],
    *,
    fresh: bool = False,
    wait_s: float = 0.0,
) -> Iterator[JudgedChange]:
    """Judge each change. What the store has of a kernel is not measured again."""
    at_hand = {kernel.version: kernel for kernel in kernels if not kernel.why}
    timed = kvm.accelerator() == "kvm"
    for change in log.changes:
        pair = around(change, log.version, list(at_hand))
        if why := _why_not(change, pair, timed):
            yield JudgedChange(change, "not testable here", why)
            continue
        asked = climb.Asked(
            [change.experiment],
            (),
            [change.metric],
            change.levels,
            append=change.append,
            timed=False,
        )
        rungs = climb.climb(
            asked,
            [at_hand[version] for version in pair],
            store,
            watch,
            done,
            fresh=fresh,
            wait_s=wait_s,
            guests=1 if change.timed else climb.guests_at_once(asked),
        )
        yield judge(change, *(_side(asked, rung) for rung in rungs))


def _why_not(change: Change, pair: tuple[str, str] | str, timed: bool) -> str:
    if change.lacks:
        return change.lacks
    if isinstance(pair, str):
        return pair
    if change.timed and not timed:
        return "times are judged under KVM alone, and guests are emulated here"
    return ""


def _side(asked: climb.Asked, rung: climb.Rung) -> Side:
    version = rung.kernel.version
    cells = [row.cells[version] for row in climb.rows(asked, [rung])]
    if len(cells) == 1:
        return Side(version, cells[0])
    why = "; ".join(rung.failed) or _outcomes(rung) or "no number"
    return Side(version, why=why)


def _outcomes(rung: climb.Rung) -> str:
    """What its trials ended in, where none gave a number."""
    points = [point for run in rung.runs.values() for point in run.summaries]
    return "; ".join(dict.fromkeys(line for point in points for line in point.details))

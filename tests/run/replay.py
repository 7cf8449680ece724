"""The recorded runs once more, as sweeps until their claims are decided: what they would not have
measured, and what they would still have decided.

`python tests/run/replay.py` prints a row for each (a minute). A recorded run cannot be replayed
beyond its last block, so what the time saved could have decided elsewhere is not counted.
`python tests/run/replay.py 60` prints how many claims are decided in a budget of 60 s,
`python tests/run/replay.py quick` in that of the quick preset, and
`python tests/run/replay.py standing` what the blocks cost there that are taken for verdicts that
would not stand.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import numpy as np

from memlab import api, recorded
from memlab.analysis.budget import LEAST_BLOCKS
from memlab.judging import questions
from memlab.judging.claims import judge
from memlab.request import Request
from memlab.results import Run
from memlab.run.stop_rule import StopRule


@dataclass(frozen=True, slots=True)
class Replayed:
    """decided, open: claims by setting in the whole run; still: of these decided without the
    samples that no open claim needed; saved: those samples' share of the time of all trials."""

    name: str
    decided: int
    undecided: int
    still: int
    saved: float


def _of(run: Run, kept: np.ndarray) -> Run:
    other = run.only(run.points)
    other.samples = run.samples[kept]
    return other


def _decided(run: Run) -> Counter[bool]:
    return Counter(one.word != "inconclusive" for one in judge(run) if one.points)


def replay(name: str) -> Replayed:
    run = api.load(f"example:{name}")
    blocks, points = run.samples.taken("block"), run.samples.taken("point")
    kept = np.ones(len(run.samples), dtype=bool)
    needed, ask_at = [point.index for point in run.points], LEAST_BLOCKS
    for block in range(LEAST_BLOCKS, run.blocks):
        if block >= ask_at:
            needed = list(questions.open_points(_of(run, kept & (blocks < block)), None))
            ask_at = block + max(1, block // 5)
        kept &= (blocks != block) | np.isin(points, needed)
    trial_s = run.samples.taken("trial_s")
    whole = _decided(run)
    saved = float(trial_s[~kept].sum() / trial_s.sum())
    return Replayed(name, whole[True], whole[False], _decided(_of(run, kept))[True], saved)


def decided_in(name: str, budget_s: float | None = None) -> Counter[bool]:
    """Claims by whether they are decided when the budget is spent."""
    return _decided(swept_in(name, budget_s)[0])


def swept_in(name: str, budget_s: float | None = None) -> tuple[Run, float]:
    """What is measured until the budget is spent, by the stop rule as it is, and in which time,
    each trial taking what it took. A sweep that would go on beyond the recorded blocks ends there.
    """
    run = api.load(f"example:{name}")
    blocks, points = run.samples.taken("block"), run.samples.taken("point")
    trial_s, rows = run.samples.taken("trial_s"), [*run.samples]
    overhead = sum(session.wall_s for session in run.sessions) / float(trial_s.sum())
    kept, spent_s = np.zeros(len(run.samples), dtype=bool), 0.0
    if budget_s is None:
        budget_s = run.experiment.budget_s["quick"]
    request = Request(run.experiment.name, budget_s=budget_s)
    rule = StopRule(
        run.experiment,
        run.points,
        request,
        lambda left_s: questions.open_points(_of(run, kept), left_s),
        turns=run.turns,
    )
    for block in range(run.blocks):
        rule.look(block, partial(float, spent_s))
        for row in np.flatnonzero(blocks == block):
            if rule.done(int(points[row])):
                continue
            if spent_s >= budget_s:
                break
            spent_s += float(trial_s[row]) * overhead
            kept[row] = True
            rule.add(rows[row])
    return _of(run, kept), spent_s


def standing() -> None:
    """What is measured without and with blocks for verdicts that would not stand."""
    print(
        "| recorded run | samples, without | with | time, without | with | stand, without | with |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in recorded.names():
        with patch.object(questions, "_may_stand", lambda _: False):
            before, before_s = swept_in(name)
        now, now_s = swept_in(name)
        cells = [name, str(len(before.samples)), str(len(now.samples))]
        cells += [f"{spent_s:.1f} s" for spent_s in (before_s, now_s)]
        for run in (before, now):
            words = [one for one in judge(run) if one.points and one.word != "inconclusive"]
            cells.append(f"{sum(one.survives for one in words)} of {len(words)}")
        print(f"| {' | '.join(cells)} |", flush=True)


def main(budget_s: float | None) -> None:
    print("| recorded run | decided | of |")
    total: Counter[bool] = Counter()
    for name in recorded.names():
        found = decided_in(name, budget_s)
        total += found
        print(f"| {name} | {found[True]} | {found.total()} |", flush=True)
    print(f"| in all | {total[True]} | {total.total()} |")


if __name__ == "__main__":
    if sys.argv[1:] == ["standing"]:
        standing()
        sys.exit()
    if len(sys.argv) > 1:
        main(None if sys.argv[1] == "quick" else float(sys.argv[1]))
        sys.exit()
    print("| recorded run | decided | undecided | decided until decided | time saved |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for one in map(replay, recorded.names()):
        cells = [one.name, one.decided, one.undecided, one.still, f"{100 * one.saved:.0f} %"]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)

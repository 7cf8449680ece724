"""The recorded runs once more, as sweeps until their claims are decided: what they would not have
measured, and what they would still have decided.

`python tests/run/replay.py` prints a row for each (a minute). A recorded run cannot be replayed
beyond its last block, so what the time saved could have decided elsewhere is not counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from memlab import api, recorded
from memlab.judging import questions
from memlab.judging.claims import judge
from memlab.results import Run
from memlab.run.stop_rule import LEAST_BLOCKS


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
    run = api.load(name, example=True)
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


if __name__ == "__main__":
    print("| recorded run | decided | undecided | decided until decided | time saved |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for one in map(replay, recorded.names()):
        cells = [one.name, one.decided, one.undecided, one.still, f"{100 * one.saved:.0f} %"]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)

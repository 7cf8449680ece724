"""Sweeps in which claims are decided one after another, so that points rest: whether the intervals
that are printed in the end still hold the truth, and how often a word is false.

`PYTHONPATH=tests python tests/run/resting.py 100` prints a row for each noise (minutes).
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from analysis.tables import NOISES
from known_truth import KNOWN, KnownProbe, known

from memlab.experiment import Ratio, Within
from memlab.judging import questions
from memlab.judging.claims import judge
from memlab.request import Request
from memlab.results import Run
from memlab.run import driver
from memlab.run.admission import Directories
from memlab.run.plan import build
from memlab.run.prepare import Prepared
from memlab.run.watch import Silent
from memlab.store import Store

A, B = {"method": "a"}, {"method": "b"}
TRUE = {1: 2.0, 2: 1.1, 4: 1.0, 8: 0.9}  # a / b by size
# Easy, harder, at the edge (either word is false), easy the other way; the last at its edge too.
CLAIMS = (
    Ratio(id="easy", metric="time", where={"size": 1}, of=A, to=B, above=1.0),
    Ratio(id="harder", metric="time", where={"size": 2}, of=A, to=B, above=0.95),
    Ratio(id="edge", metric="time", where={"size": 4}, of=A, to=B, above=1.0),
    Ratio(id="false", metric="time", where={"size": 8}, of=A, to=B, above=1.3),
    Within(id="median", metric="time", where={"size": 8, **B}, below=1.0),
)
EXPERIMENT = replace(KNOWN, claims=CLAIMS)
FALSE = {"easy": ["contradicted"], "harder": ["contradicted"], "false": ["reproduced"]}


class Scaled(KnownProbe):
    """A fifth of the noise, so that claims are decided at unlike times."""

    def __init__(self, noise: str, rng: np.random.Generator, *, drifts: bool) -> None:
        super().__init__(noise, rng, drifts=drifts)
        whole = self._noise
        self._noise = lambda rng, shape: whole(rng, shape) / 5


def rates(noise: str, sweeps: int, budget_s: float = 200.0) -> dict[str, float]:
    """Shares: intervals of ratios that hold the truth, of claims decided and rested among them, and
    sweeps with a false word of each claim. Every other sweep drifts. A trial takes 1 s."""
    held, rested, false, early = Counter[bool](), Counter[bool](), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(sweeps):
            drifts = seed % 2 == 1
            path = Path(folder) / f"{seed}.db"
            probe = Scaled(noise, np.random.default_rng(seed), drifts=drifts)
            with known(probe, EXPERIMENT):
                plan = build(EXPERIMENT, "quick", {})
                asked = Request("known", seed=seed, budget_s=budget_s)
                prepared = Prepared(EXPERIMENT, plan, Directories(Path("/")), asked)
                with Store(path, create=True) as store:
                    row = driver.sweep(
                        prepared,
                        store,
                        Silent(),
                        probe,
                        lambda row, left_s, path=path: questions.open_points(
                            Run(row, path), left_s
                        ),
                    )
                run = Run(row, path)
                for one in judge(run):
                    id = one.claim.id
                    if id == "median" and drifts:
                        continue
                    false[id] += one.word in FALSE.get(id, ["reproduced", "contradicted"])
                    verdict = one.verdict
                    if id == "median" or verdict.low is None or verdict.high is None:
                        continue
                    ok = verdict.low <= TRUE[one.claim.where["size"]] <= verdict.high
                    held[ok] += 1
                    if verdict.n < run.blocks - 2:
                        rested[ok] += 1
                early += len(set(map(len, run.by_point.values()))) > 1
            path.unlink()
    share = {"held": held[True] / held.total(), "rested": rested.total() / held.total()}
    share["rested held"] = rested[True] / max(1, rested.total())
    share["sweeps with rests"] = early / sweeps
    of = {claim.id: sweeps if claim.id != "median" else (sweeps + 1) // 2 for claim in CLAIMS}
    return share | {f"{id} false": false[id] / count for id, count in of.items()}


if __name__ == "__main__":
    for name in NOISES:
        found = rates(name, int(sys.argv[1]))
        print(name, {what: f"{100 * one:.1f}" for what, one in found.items()}, flush=True)

"""Sweeps of a machine whose truth is known, from the driver to the verdict that is printed.

`PYTHONPATH=tests python tests/run/known_truth.py` runs 2,000 and prints the table of
tests/analysis/README.md (minutes). The driver, the store, the judging and the command line are
memlab's own; the probe is a draw from a distribution, and its clock is counted, not waited for.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from analysis.tables import NOISES
from click.testing import CliRunner
from fake_executor import FakeExecutor
from synthetic import experiment, ok

from memlab import experiments
from memlab.cli import cli
from memlab.experiment import (
    COUNT,
    Claim,
    Count,
    Crossover,
    Equivalent,
    Experiment,
    Factor,
    Metric,
    Monotone,
    Ratio,
    Saturates,
    Within,
    choice,
)
from memlab.experiment.points import Point
from memlab.judging import questions
from memlab.request import Request
from memlab.results import Run
from memlab.run import driver
from memlab.run.admission import Directories
from memlab.run.plan import build
from memlab.run.prepare import Prepared
from memlab.run.watch import Silent
from memlab.store import RunRow, Store

SIZES = (1, 2, 4, 8)
A, B = {"method": "a"}, {"method": "b"}
EDGE_S = {"a": (2.2, 1.1, 1.0, 0.9), "b": (1.1, 1.0, 1.0, 1.0)}  # medians by size
HITS = 0.9  # how often the count is what the claim says: as often as a claim needs it to be
# With EDGE_S every claim is at its very edge: either word is wrong, but of the count one.
CLAIMS: tuple[Claim, ...] = (
    Ratio(id="ratio", metric="time", where={"size": 1}, of=A, to=B, above=2.0),
    Equivalent(id="equivalent", metric="time", where={"size": 2}, of=A, to=B, within=0.1),
    Within(id="median", metric="time", where={"size": 8, **B}, below=1.0),
    Monotone(id="monotone", metric="time", of=B, over="size", rising=False),
    Saturates(id="saturates", metric="time", where=B, over="size", at=2, within=0.1),
    Crossover(id="crossover", metric="time", over="size", of=A, to=B, low=1, high=4),
    Count(id="count", metric="hit", where={"size": 1, **A}, equals=1),
)
KNOWN: Experiment = experiment(
    name="known",
    factors=[
        Factor("size", COUNT, quick=list(SIZES), help="bytes per call"),
        Factor("method", choice("a", "b"), quick=["a", "b"], help="how"),
    ],
    excludes=[],
    controls=[],
    metrics=[
        Metric("time", "s", "time", of=lambda raw, at: raw["window"]["elapsed_ns"] * 1e-9),
        Metric("hit", "1", "hit", of=lambda raw, at: raw["hit_count"]),
    ],
    figure=replace(experiment().figure, metric="time", crossing=(A, B)),
    claims=CLAIMS,
)


RATIOS = {"ratio": 2.0, "equivalent": 1.1}  # the truth of the claims' own ratios


def _median_s(at: Mapping[str, Any]) -> float:
    return EDGE_S[at["method"]][SIZES.index(at["size"])]


class KnownProbe(FakeExecutor):
    """Draws each sample: a median, noise of its own, and a slowdown that its block shares."""

    def __init__(self, noise: str, rng: np.random.Generator, *, drifts: bool) -> None:
        super().__init__(self._draw)
        self._noise, self._rng, self._drifts = NOISES[noise], rng, drifts
        self._slowdown = 0.0

    def renew(self, points: Sequence[Point], block: int) -> None:
        if self._drifts:  # 1 % per block, and a random walk
            self._slowdown += 0.01 + 0.05 * self._rng.standard_normal()

    def _draw(self, point: Point, _: int) -> dict[str, Any]:
        slower = float(self._noise(self._rng, (1,))[0]) + self._slowdown
        elapsed_ns = round(_median_s(point.at) * 1e9 * np.exp(slower))
        return ok(elapsed_ns, hit_count=int(self._rng.random() < HITS))

    # As a target: the same machine for all.
    role = "decides"

    def lock(self) -> nullcontext[None]:
        return nullcontext()

    def environment(self, *_: object) -> Mapping[str, Any]:
        return {"kernel_release": "6.1.0", "cpu_model": "known"}

    def shortage(self, *_: object) -> None:
        return None

    def executor(self, *_: object) -> KnownProbe:
        return self


@dataclass
class Tally:
    """What many sweeps came to: words by claim, and whether intervals held the truth."""

    sweeps: int = 0
    blocks: int = 0
    words: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    held: dict[str, Counter[bool]] = field(default_factory=lambda: defaultdict(Counter))
    standing: int = 0  # sweeps in which a wrong word stands once all are corrected

    def false(self, claim: str) -> float:
        """The share of sweeps that ended in a wrong word, the more frequent one."""
        words = self.words[claim]
        wrong = ["contradicted"] if claim == "count" else ["reproduced", "contradicted"]
        return max(words[word] for word in wrong) / words.total()

    def coverage(self, of: str) -> float:
        return self.held[of][True] / self.held[of].total()

    def count(self, printed: Mapping[str, Any], *, drifts: bool) -> None:
        """Under drift nobody knows a lone median's truth; what is paired by block keeps its."""
        points = printed["show"]["points"]
        self.sweeps += 1
        self.blocks += sum(point["outcomes"].get("ok", 0) for point in points)
        claims = printed["claims"]["experiments"][0]["claims"]
        self.standing += any(_stands(claim, drifts=drifts) for claim in claims)
        for claim in claims:
            if claim["id"] != "median" or not drifts:
                self.words[claim["id"]][claim["verdict"]] += 1
            if claim["id"] in RATIOS:
                self._hold("ratio", claim, RATIOS[claim["id"]])
        for point in points if not drifts else ():
            if found := point["metrics"].get("time"):  # none of a point that the budget left out
                self._hold("median", found, _median_s(point["levels"]))

    def _hold(self, what: str, found: Mapping[str, Any], truth: float) -> None:
        if found["low"] is not None:
            # The probe's clock counts whole nanoseconds.
            held = found["low"] <= truth * (1 + 1e-8) and truth * (1 - 1e-8) <= found["high"]
            self.held[what][held] += 1


def _stands(claim: Mapping[str, Any], *, drifts: bool) -> bool:
    """Either word is wrong at the edge, but of the count one; under drift nobody knows a median."""
    right = (claim["id"], claim["verdict"]) == ("count", "reproduced")
    tested = not right and (claim["id"] != "median" or not drifts)
    return tested and claim["adjusted_p"] is not None and claim["adjusted_p"] <= 0.05


@contextmanager
def known(probe: KnownProbe, declared: Experiment = KNOWN) -> Iterator[None]:
    """The driver's clock, host and experiment are these."""
    with (
        patch.object(experiments, "load", lambda *_: declared),
        patch.object(driver, "time", probe),
        patch.object(driver.journal, "undo_stale", list),
        patch.object(driver.journal, "left_alone", list),
    ):
        yield


def sweep(noise: str, seed: int, folder: Path, *, drifts: bool, **asked: Any) -> Mapping[str, Any]:
    """One sweep, and what `memlab claims --json` and `memlab show --json` print of it."""
    request = Request("known", seed=seed, **asked)
    plan = build(KNOWN, "quick", {})
    probe = KnownProbe(noise, np.random.default_rng(seed), drifts=drifts)
    path = folder / "known.db"
    path.unlink(missing_ok=True)
    with known(probe):
        with Store(path, create=True) as store:
            prepared = Prepared(KNOWN, plan, Directories(Path("/")), request)
            run = driver.sweep(prepared, store, Silent(), probe, partial(_open_points, path))
        printed = {}
        for command in ("claims", "show"):
            done = CliRunner().invoke(cli, ["--store", str(path), command, run.id, "--json"])
            assert done.exit_code == 0, done.output
            printed[command] = json.loads(done.output)
    return printed


def _open_points(path: Path, row: RunRow, left_s: float | None) -> frozenset[int]:
    return questions.open_points(Run(row, path), left_s)


def many(noise: str, seeds: range, **asked: Any) -> Tally:
    """Every other sweep drifts."""
    tally = Tally()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for seed in seeds:
            drifts = seed % 2 == 1
            found = sweep(noise, seed, Path(folder), drifts=drifts, **asked)
            tally.count(found, drifts=drifts)
    return tally


BUDGET_S = 50.0 * 2 * len(SIZES)  # 50 blocks: a trial takes 1 s
# How a sweep may end: after so many blocks, or where a look at it says so.
WAYS: dict[str, dict[str, Any]] = {
    "20 blocks": {"blocks": 20},
    "stopped at 10%": {"precision": 0.1, "budget_s": BUDGET_S},
    "until decided": {"precision": None, "budget_s": BUDGET_S},
    # Less than six blocks of all points, so that those of claims come first.
    "until decided, short": {"precision": None, "budget_s": 5.0 * 2 * len(SIZES)},
}


def table(sweeps: int) -> str:
    """Markdown, in percent: a row for each noise and way to end."""
    heads = ["noise, end", "blocks", "median", "ratio", *(f"{c.id} false" for c in CLAIMS)]
    heads.append("a false one stands")
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    rows = [(way, noise) for way in WAYS for noise in NOISES]
    each = range(sweeps // len(rows))
    with ProcessPoolExecutor() as pool:
        tallies = [pool.submit(many, noise, each, **WAYS[way]) for way, noise in rows]
        for (way, noise), tally in zip(rows, tallies, strict=True):
            found = tally.result()
            blocks = found.blocks / found.sweeps / (2 * len(SIZES))
            shares = [found.coverage(of) for of in ("median", "ratio")]
            shares += [found.false(claim.id) for claim in CLAIMS]
            shares.append(found.standing / found.sweeps)
            cells = [f"{noise}, {way}", f"{blocks:.0f}", *(f"{100 * one:.1f}" for one in shares)]
            lines.append(cells)
            print(" ".join(cells), file=sys.stderr)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(table(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))

"""Whole bisections of simulated kernels: how often the step that is named is not the true one.

`python -m tests.analysis.bisections` prints the table of tests/analysis/README.md. memlab's
own `ladder.bisect` asks, looks again with four times the blocks, and halves; the verdict's rule is
its own too. Only the runs are drawn: a paired ratio, claimed above 2, that is beyond it before the
step and short of it since, by so much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np

from memlab.analysis.verdicts import ratio_verdict
from memlab.errors import CannotRun
from memlab.machines.ladder import measure as ladder
from memlab.machines.ladder.judge import KernelCell, KernelRow
from memlab.run.watch import Silent
from tests.analysis.tables import NOISES, Generator, drift

KERNELS = 32
BOUND = 2.0
# How far the ratio lies from its bound, before the step and since. At 0 % every word is wrong.
AWAYS = {"0 and 0 %": (0.0, 0.0), "10 and 0 %": (0.1, 0.0), "5 and 5 %": (0.05, 0.05)}
AWAYS |= {"10 and 10 %": (0.1, 0.1), "30 and 30 %": (0.3, 0.3)}
SCALE = {"lognormal": 0.1, "t, 2 df on logs": 0.5}  # of NOISES: about 5 % of noise


@dataclass(frozen=True)
class Kernel:
    version: str


@dataclass(frozen=True)
class Answer:
    """`wrong`: the true step is not among those that the answer leaves. `exact`: it is named alone.
    `looks` with their bound; None and False where the ends did not differ, and nothing was said."""

    answered: bool
    wrong: bool = False
    exact: bool = False
    looks: int = 0
    bound: int = 0


def bisection(rng: Generator, noise: str, aways: Sequence[float]) -> Answer:
    step = int(rng.integers(1, KERNELS))  # the first kernel that is short of the bound
    runs: dict[tuple[int, int], KernelCell] = {}

    def drawn(kernel: int, blocks: int) -> KernelCell:
        """As the store has it: the same run when it is asked for again."""
        if (kernel, blocks) not in runs:
            ratio = BOUND * (1 + aways[0] if kernel < step else 1 / (1 + aways[1]))
            shared = drift(rng, (blocks,))
            a, b = (np.exp(SCALE[noise] * NOISES[noise](rng, (blocks,)) + shared) for _ in "ab")
            found = ratio_verdict(a * ratio, b, above=BOUND)
            runs[kernel, blocks] = KernelCell(found.word, p=found.p)
        return runs[kernel, blocks]

    def rows(asked: ladder.LadderRequest, measured: Sequence[Kernel]) -> list[KernelRow]:
        cells = {one.version: drawn(int(one.version), asked.blocks) for one in measured}
        return [KernelRow("simulated", "claim", "", {}, "1", cells)]

    kernels = cast("list[Any]", [Kernel(str(number)) for number in range(KERNELS)])
    with (
        patch.object(ladder, "measure", lambda _, kernels, *__, **___: kernels),
        patch.object(ladder, "rows", rows),
    ):
        try:
            asked = ladder.LadderRequest(["simulated"], timed=True)  # which asks no emulator
            _, found = ladder.bisect(asked, "claim", kernels, Path(), Silent(), lambda _: None)
        except CannotRun:
            return Answer(False)
    before, since = int(found.before), int(found.since)
    words = found.measured[found.before].word, found.measured[found.since].word
    right = before < step <= since and words == ("reproduced", "contradicted")
    exact = right and since - before == 1
    return Answer(True, not right, exact, found.looks, found.error_percent)


@dataclass(frozen=True)
class Rates:
    """In per cent: bisections with an answer, those with a wrong one of all, and with the exact
    step; the mean bound that they printed, and the mean looks."""

    answered: float
    wrong: float
    exact: float
    bound: float
    looks: float


def rates(noise: str, away: str, sets: int) -> Rates:
    rng = np.random.default_rng(9000)
    found = [bisection(rng, noise, AWAYS[away]) for _ in range(sets)]
    said = [one for one in found if one.answered]
    share = 100 / sets
    return Rates(
        answered=share * len(said),
        wrong=share * sum(one.wrong for one in said),
        exact=share * sum(one.exact for one in said),
        bound=float(np.mean([one.bound for one in said])) if said else 0.0,
        looks=float(np.mean([one.looks for one in said])) if said else 0.0,
    )


def table(sets: int = 2000) -> str:
    heads = ["noise, from the bound", "an answer", "wrong", "exact", "bound printed", "looks"]
    lines = [heads, ["---", *["---:"] * 5]]
    for noise in SCALE:
        for away in AWAYS:
            r = rates(noise, away, sets)
            cells = (r.answered, r.wrong, r.exact, r.bound, r.looks)
            lines.append([f"{noise}, {away}", *(f"{cell:.1f}" for cell in cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(table())

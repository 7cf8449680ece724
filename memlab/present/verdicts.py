"""What was found of each claim: the same words for the terminal, the report and the pages."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from memlab.experiment import Count, Crossover, Equivalent, Monotone, Ratio, Within
from memlab.judging import evidence, summary
from memlab.judging.claims import Judged, judge
from memlab.present import words
from memlab.results import Run
from memlab.results.crossing import Crossing

# Where a verdict's reason ends: what gets more, and where it failed, `memlab claims -v` says; and
# where its number does, which says by itself why a claim is decided.
REST = re.compile(r": not in this run; to get it: |: E[A-Z]+ at probes/")
_HOW_SURE = re.compile(rf"{REST.pattern}|[,;] \d+ blocks\b")


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """One verdict, of settings that agree on it: `number` is the estimate with its interval of the
    setting closest to the bound, or all the evidence where that has no number."""

    where: str
    word: str
    number: str
    evidence: str
    lines: Sequence[str]
    controls: Sequence[str]
    settings: int
    samples: int
    clearance: float  # see Finding; 0 where there is none

    @property
    def reason(self) -> str:
        """The number where the claim holds, else the evidence, as claims can share it."""
        return self.number if self.word == "reproduced" else words.shared_reason(self.evidence)

    def shortened(self, text: str) -> str:
        """Its number or reason without how sure it is, which the interval shows; why it is open,
        whole."""
        if self.word == "inconclusive":
            return REST.split(words.shared_reason(self.evidence))[0]
        text, stands, _ = words.shared_reason(text).partition(f"; {summary.FALLEN}")
        return _HOW_SURE.split(text)[0] + (f"; {summary.FALLEN}" if stands else "")


@dataclass(frozen=True, slots=True)
class ClaimVerdicts:
    """One claim with its verdicts; `overall` is one word where they agree."""

    id: str
    text: str
    published: str
    overall: str
    verdicts: Sequence[ShownVerdict]


def verdicts(run: Run, judged: Sequence[Judged]) -> list[ClaimVerdicts]:
    """Every claim, those that do not hold first."""
    results = [
        ClaimVerdicts(
            claim.claim.id,
            claim.claim.text,
            claim.claim.published,
            claim.overall,
            [_verdict(run, g) for g in summary.groups(claim, run.experiment.figure.over)],
        )
        for claim in summary.by_claim(judged)
    ]
    return sorted(results, key=lambda claim: summary.ORDER.index(claim.overall))


def _verdict(run: Run, group: summary.SettingGroup) -> ShownVerdict:
    closest = group.closest
    fallen = f"; {summary.FALLEN}" if closest.fallen else ""
    return ShownVerdict(
        where=words.where(run.named, group),
        word=closest.shown,
        number=_of_what(run, closest) + fallen,
        evidence=closest.evidence + fallen,
        lines=closest.lines,
        controls=closest.control_says.splitlines(),
        settings=len(group.members),
        samples=sum(
            len(run.by_point[index])
            for index in {index for judged in group.members for index in judged.points}
        ),
        clearance=closest.clearance or 0.0,
    )


def _of_what(run: Run, judged: Judged) -> str:
    """The number, a ratio with what it is a ratio of: `time per page x0.67 (0.6 to 0.74)`."""
    text = number(run, judged)
    label = run.metric(judged.claim.metric).label
    return f"{label} {text}" if text.startswith("x") and label else text


def number(run: Run, judged: Judged) -> str:
    """`7`, `x138 (105 to 144)`, `1.59 KiB (1.56 KiB to 1.63 KiB)`; else the evidence, also where
    the baseline loop makes the number a bound."""
    result, claim = judged.verdict, judged.claim
    if result.estimate is None or evidence.LOOP in judged.evidence:
        return judged.evidence
    ends = [end for end in (result.low, result.high) if end is not None]
    if isinstance(claim, Count | Within):
        unit = words.cell_unit(run.metric(claim.metric).unit)
        parts = [words.quantity(value, unit) for value in (result.estimate, *ends)]
    elif isinstance(claim, Ratio | Equivalent | Monotone):
        parts = [f"x{evidence.number(result.estimate)}", *map(evidence.number, ends)]
    elif isinstance(claim, Crossover) and all(map(math.isfinite, [result.estimate, *ends])):
        over = run.experiment.factor(claim.over)
        parts = [evidence.size(over, value) for value in (result.estimate, *ends)]
    else:
        return judged.evidence
    if len(ends) < 2 or set(ends) == {result.estimate}:
        return parts[0]
    return f"{parts[0]} ({parts[1]} to {parts[2]})"


def crossing(run: Run, crossed: Crossing) -> str:
    """Where one side becomes the cheaper one; and that it is undecided, if the claim on it is."""
    undecided = " (undecided with all of the run's verdicts counted)"
    is_undecided = crossed.decided and _is_fallen(run, crossed)
    return words.crossing(run.named, crossed) + (undecided if is_undecided else "")


def _is_fallen(run: Run, crossed: Crossing) -> bool:
    """Whether the claim on it does not stand once all verdicts of the run are corrected."""
    return any(
        item.fallen
        and isinstance(claim := item.claim, Crossover)
        and crossed.of.items() <= {**(claim.where or {}), **claim.of}.items()
        and crossed.to.items() <= {**(claim.where or {}), **claim.to}.items()
        and crossed.panel.items() <= item.setting.items()
        for item in judge(run)
    )

"""What a reader may decide by a run's claims: `so: ...`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlab.experiment import Decision
from memlab.judging import summary
from memlab.judging.claims import Judged
from memlab.judging.summary import ClaimSummary
from memlab.present.verdicts import number
from memlab.results import Run


def lines(run: Run, judged: Sequence[Judged]) -> list[str]:
    """A line per decision that the experiment declares and the run has samples for."""
    claims = {one.claim.id: one for one in summary.by_claim(judged)}
    decided, open_ones = [], []
    for decision in run.experiment.so:
        found = claims.get(decision.claim)
        if found is None or found.overall == "not testable here" or found.no_sample:
            continue
        if found.overall == "not decided":
            open_ones.append(found.claim.text)
        else:
            decided.append(_said(run, decision, found))
    if decided:
        return [f"so: {'; '.join(decided)}"]
    return [f"so: not decided here yet: {'; '.join(open_ones)}"] if open_ones else []


def _said(run: Run, decision: Decision, found: ClaimSummary) -> str:
    held, failed = (
        f"{said.format(number=_number(run, found, word))}{_where(found, word)}"
        for said, word in ((decision.holds, "reproduced"), (decision.fails, "contradicted"))
    )
    if found.overall == summary.DIFFERS:
        return f"it depends ({found.counts}): {held}; or {failed}"
    return failed if found.overall == "contradicted" else held


def _where(found: ClaimSummary, word: str) -> str:
    """Where some settings are open, in how many it was seen."""
    of, seen = len(found.deciding), _seen(found, word)
    return f" (in {len(seen)} of {of} settings)" if found.counts and len(seen) < of else ""


def _number(run: Run, found: ClaimSummary, word: str) -> str:
    """Of the setting that is closest to the bound."""
    seen = _seen(found, word) or found.deciding
    return number(run, min(seen, key=lambda one: one.clearance or 0.0)).removeprefix("x")


def _seen(found: ClaimSummary, word: str) -> list[Judged]:
    return [one for one in found.deciding if one.word == word]


def page(run: Run, judged: Sequence[Judged]) -> Iterator[str]:
    """The same for a page."""
    for line in lines(run, judged):
        yield from ("", line.replace("so: ", "**So:** ", 1) + ".")

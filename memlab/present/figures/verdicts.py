"""What the run's own claims say of what a figure shows, for its headline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from memlab.experiment import Figure, Timeline
from memlab.judging import mechanism, summary
from memlab.judging.claims import judge
from memlab.judging.summary import ClaimSummary
from memlab.results import Run

_SAID_MAX = 2  # claims that the headline says in words
_WORDS = {"contradicted": "contradicted", "holds": "holds"}


def declared(run: Run, shown: Figure) -> str:
    """What is found of the answers, or of the claims, that a figure names; nothing of one that
    names none."""
    if not isinstance(shown, Figure):
        return ""
    return "; ".join(mechanism.answers(run, shown.answers)) or _of_claims(
        [item for item in summary.by_claim(judge(run)) if item.claim.id in shown.claims]
    )


def headline(run: Run, shown: Figure) -> str:
    """`holds: CLAIM; contradicted: CLAIM; 3 undecided`, or nothing where no claim is of the
    figure's metric."""
    metrics = [shown.metric]
    if isinstance(shown, Timeline):
        return ""
    return _of_claims([s for s in summary.by_claim(judge(run)) if s.claim.metric in metrics])


def _of_claims(about: Sequence[ClaimSummary]) -> str:
    parts = [
        f"{word}: {item.claim.text}" for word in _WORDS for item in about if item.overall == word
    ]
    rest = Counter(item.standing for item in about)
    for word in _WORDS:
        rest[word] -= sum(text.startswith(f"{word}: ") for text in parts[:_SAID_MAX])
    remaining = [
        summary.counted(count, word, "more claim" if parts else "claim")
        for word, count in rest.items()
        if count > 0
    ]
    return "; ".join((*parts[:_SAID_MAX], *remaining))

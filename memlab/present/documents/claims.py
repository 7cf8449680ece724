"""`memlab claims` and `reproduce`: claims judged on runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from msgspec import field

from memlab.present.documents import Document, Levels, Number, Positive, RunId, Word, open_ends
from memlab.present.documents.published import PublishedTable

if TYPE_CHECKING:
    from memlab.judging.claims import Judged
    from memlab.judging.reproduce import Reproduced


class JudgedClaim(Document):
    """A claim judged at one setting of the factors that it leaves free."""

    id: str
    """Its name among the experiment's claims, which outlives a rewording."""
    text: str
    """The statement."""
    kind: str
    """As `memlab describe` has it: ratio, within, monotone, ..."""
    metric: str
    published: str
    """The printed numbers that it rests on; may be empty."""
    setting: Levels = field(name="levels")
    word: Word = field(name="verdict")
    low: float | None
    """The lower end of the estimate's 95 % interval; of a count, the smallest seen; null where it
    is open or unknown, as evidence says."""
    estimate: float | None
    """What the claim is about, in its own unit: a ratio, a median in base units, a level, a share;
    null without one."""
    high: float | None
    """The upper end; null as the lower."""
    n: Number
    """Samples per point; where points differ, the fewest."""
    p: float | None
    """How often chance alone gives this verdict at the claim's edge, at most; 0 of a count that
    cannot vary; null where it is undecided."""
    adjusted_p: float | None
    """The same after Benjamini and Hochberg over all verdicts of the run: of those with 0.05 or
    less, at most 5 % are expected to be false."""
    reason: str
    """Why the verdict is this one."""
    evidence: str
    """What was compared, the estimate, its interval and the samples, in a line."""
    lines: list[str]
    """What the values were read from, as the machine says it."""
    control_says: str = field(name="controls")
    """What the claim's controls say of its explanation; may be empty."""
    points: list[Number]
    """The run's points that it rests on, by their place in its plan."""
    samples: list[Positive]
    """The samples that it rests on, by their number in the store."""

    @classmethod
    def made_of(cls, judged: Judged) -> Self:
        result = judged.verdict
        return cls.from_attributes(
            judged, result, judged.claim, samples=judged.samples.tolist(), **open_ends(result)
        )


class JudgedExperiment(Document):
    """One experiment's run with its published tables and judged claims."""

    experiment: str
    run: RunId | None
    """null where the host cannot carry the experiment."""
    refused: str | None = field(name="reason")
    """Why the run is missing; null if it exists."""
    published: list[PublishedTable]
    claims: list[JudgedClaim]
    """A claim once for every setting of the factors that it leaves free."""

    @classmethod
    def made_of(cls, study: Reproduced) -> Self:
        return cls(
            experiment=study.experiment.name,
            run=study.run.id if study.run else None,
            refused=study.refused or None,
            published=[PublishedTable.made_of(table) for table in study.tables],
            claims=[JudgedClaim.made_of(judged) for judged in study.judged],
        )


class Claims(Document):
    """Claims of published studies judged on runs, and the published tables beside them."""

    summary: list[str]
    """The answer in plain words, a sentence each."""
    experiments: list[JudgedExperiment]
    missing: list[str]
    """Printed tables of the study that no experiment answers."""

    @classmethod
    def made_of(cls, studies: Sequence[Reproduced], missing: Sequence[str] = ()) -> Self:
        from memlab.present import words

        judged = [JudgedExperiment.made_of(item) for item in studies]
        return cls(words.headline(studies), judged, list(missing))

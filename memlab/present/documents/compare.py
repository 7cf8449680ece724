"""`memlab compare`: two runs, point by point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from msgspec import Meta, field

from memlab.present.documents import Document, Levels, NonEmpty, Number, Share, ShownInterval

if TYPE_CHECKING:
    from memlab.judging.compare import Compared, PointComparison


class ComparedPoint(Document):
    """A point with samples on both sides."""

    at: Levels = field(name="levels")
    word: Literal["slower", "faster", "same", "inconclusive"] = field(name="verdict")
    text: str
    """The verdict, with what it takes to read it."""
    base: float
    """The median, in the metric's unit."""
    new: float
    """The median, in the metric's unit."""
    ratio: ShownInterval
    """new / base; n is of the side that has fewer samples."""
    beyond_p: Share
    """Of the test that the ratio lies beyond the threshold, corrected for the number of points."""
    same_p: Share
    """Of the test that it lies within."""
    blocks_missing: Number
    """About how many more blocks, of runs of several sessions or recordings how many more of these,
    would decide it; 0 where it is decided."""
    detectable: float | None
    """The minimum detectable effect: the relative change (0.03 is 3 %) that so many samples show as
    faster or slower with probability 0.9; null where there are too few for an interval."""

    @classmethod
    def made_of(cls, point: PointComparison) -> Self:
        return cls.from_attributes(point, point.comparison)


class Compare(Document):
    """Two runs compared, point by point."""

    experiment: str
    metric: str
    """What is compared."""
    unit: str
    """The metric's base unit."""
    lower_is_better: bool
    base: str
    """The run."""
    new: str
    """The run."""
    threshold: Annotated[float, Meta(gt=0)]
    """The relative change that is too small to matter, as a share of 1."""
    remarks: list[str]
    """What else differs between the two."""
    points: NonEmpty[ComparedPoint]
    only_base: list[Levels]
    """Points with samples only in base."""
    only_new: list[Levels]
    """Points with samples only in new."""

    @classmethod
    def made_of(cls, compared: Compared) -> Self:
        return cls.from_attributes(
            compared.metric,  # whose unit it is: the other's is what counts once
            compared,
            experiment=compared.experiment.name,
            metric=compared.metric.name,
            points=[ComparedPoint.made_of(point) for point in compared.points],
        )

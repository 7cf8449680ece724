"""What a figure shows, as data. What draws it is in present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memlab.experiment.kinds import Level


@dataclass(frozen=True, slots=True)
class Lines:
    """A metric over a numeric factor: one line for each level of `by`, one panel for each
    combination of the `panels` factors; medians with intervals; published curves beside.

    `crossing` names two lines; the point where the first becomes the cheaper is ringed.
    """

    metric: str
    over: str
    by: Sequence[str]
    panels: Sequence[str] = ()
    log: str = ""
    crossing: tuple[Mapping[str, Level], Mapping[str, Level]] | None = None
    mark_page_size: bool = False

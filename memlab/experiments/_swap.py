"""What experiments share whose cgroup may swap."""

from collections.abc import Sequence

from memlab.experiment import *


def swap(
    *kinds: str, quick: Sequence[Level], help: str, full: Sequence[Level] | None = None
) -> Factor:
    """What the cgroup of a trial may swap to."""
    labels: dict[Level, str] = {"none": "no swap", "file": "swap file", "zram": "zram"}
    return Factor(
        "swap", choice(*kinds), help, quick=quick, full=full, host=True, level_labels=labels
    )

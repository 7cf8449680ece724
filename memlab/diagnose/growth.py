"""What is worth a sentence, and which growth a look resolves."""

from __future__ import annotations

from memlab.diagnose.finding import Fact
from memlab.diagnose.look import Look

WORTH_BYTES = 16 << 20
"""Less is not worth a sentence."""
_WORTH_SHARE = 0.1
LEAST_GROWTH_BYTES = 16 * 4096  # in the whole look: less is a program that warms up
LASTS_LOOKS = 100
"""A growth is costly if its room lasts no longer than so many looks, 17 min for one of 10 s; of a
shorter look it is a note."""


def worth(part: float, whole: float) -> bool:
    """Enough, and a tenth of the whole or more."""
    return part >= WORTH_BYTES and part >= _WORTH_SHARE * whole


def is_growing(look: Look) -> bool:
    """Growth that the look resolves: in each part of it."""
    return (
        look.grows_steadily
        and look.growth_bytes_per_s * look.seconds >= LEAST_GROWTH_BYTES
        and look.fell_bytes <= look.growth_bytes_per_s * look.seconds / 4
    )


def rate_fact(look: Look, name: str, words: str) -> Fact | None:
    """Of events that were counted; None if there were none."""
    value = look.rate(name)
    return Fact(words, value, "1/s") if value else None

"""What a fit is asked: which metric is to stay within which bound, or which limit is to be held."""

from __future__ import annotations

import msgspec

from memlab.errors import BadRequest
from memlab.experiment.kinds import At
from memlab.text import units

FIT = "fit"  # the name of its experiment
USED_PAGES = "used-pages"  # the control of it that is not measured
_SLOWEST, _LEAST_S = 10.0, 10.0  # times as long as without a limit; beside them


class Fit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The question of a fit.

    metric: a metric of the command. within: by how much it may be worse than without a limit, as a
    share. gate_bytes: the only limit in question; 0 searches for the smallest one. reads_used: a
    run that is not measured shows which memory is used again.
    """

    metric: str = "elapsed"
    within: float = 0.05
    gate_bytes: int = 0
    reads_used: bool = False

    def slowest_s(self, unlimited_s: float) -> float:
        """How long a trial under a limit may take beside one without: longer is too slow."""
        return _LEAST_S + max(_SLOWEST, 2 * (1 + self.within)) * unlimited_s


def is_unlimited(at: At) -> bool:
    """Whether a point of a fit has no limit, and is measured."""
    return at["memory_max"] == "none" and at.get("used_pages") != "read"


LEAST_BYTES = 1 << 20  # the smallest limit that is tried


def read_limit(text: str) -> int:
    """Bytes of a limit that a program may be held to. Raises ValueError."""
    if (size := units.parse_size(text)) < LEAST_BYTES:
        raise ValueError(f"{text!r} is under 1 MiB: write a size such as 512M")
    return size


def read_bound(text: str) -> tuple[str, float]:
    """The metric and the share of `elapsed: 5%`. Raises BadRequest."""
    metric, colon, share = (part.strip() for part in text.partition(":"))
    try:
        within = units.parse_percent(share) if colon and metric and share else 0.0
    except ValueError as error:
        raise BadRequest(f"--keep-within {text!r}: {error}") from None
    if not 0 < within <= 10:
        raise BadRequest(
            f"--keep-within {text!r}: write METRIC: PERCENT, such as 'elapsed: 5%', up to 1000%"
        )
    return metric, within

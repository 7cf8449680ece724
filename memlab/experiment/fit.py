"""What a fit is asked: which metric is to stay within which bound, or which limit is to be held."""

from __future__ import annotations

import msgspec

from memlab.errors import BadRequest
from memlab.text import units

FIT = "fit"  # the name of its experiment


class Fit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The question of a fit.

    metric: a metric of the command. within: by how much it may be worse than without a limit, as a
    share. gate_bytes: the only limit in question; 0 searches for the smallest one.
    """

    metric: str = "elapsed"
    within: float = 0.05
    gate_bytes: int = 0


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

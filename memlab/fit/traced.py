"""The smallest limit that a recording lets expect: predicted, not measured.

Without swap, reclaim takes pages of files only. One that is used again is then read again, unless
the limit leaves room for what was used since. How often that is under which limit is counted from
the recording (memlab/trace/reuse.c). A read of a unit is taken to last READ_S.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlab.fit.documents import FitPrediction, PredictedLimit
from memlab.present.table import Column, Table
from memlab.text import units

READ_S = 1e-4  # of a unit, as an SSD takes for it
UNIT_BYTES = 64 << 10
_ROWS_MAX = 8


def predict(
    elapsed_s: float, least_bytes: int, reuse: Sequence[tuple[int, int]], within: float
) -> tuple[int, Sequence[PredictedLimit]]:
    """The smallest limit that fits, and the limits from `least_bytes` on. `reuse` has pairs of a
    limit in bytes and the number of units that are read again under it, in ascending order. No
    unit is read again under a larger limit."""
    below = [count for limit, count in reuse if limit <= least_bytes]
    first = (below or [count for _, count in reuse[:1]] or [0])[-1]
    counts = [(least_bytes, first), *(pair for pair in reuse if pair[0] > least_bytes)]
    limits = [
        PredictedLimit(limit_bytes=limit, read_again_bytes=count * UNIT_BYTES)
        for limit, count in counts
    ]
    most = within * elapsed_s / READ_S
    fits = next((limit for limit, count in counts if count <= most), counts[-1][0])
    return fits, limits


def sentences(prediction: FitPrediction) -> Iterator[str]:
    """The answer, marked as a prediction."""
    limit, least, to_set = (
        units.format_quantity(size, "B")
        for size in (prediction.limit_bytes, prediction.least_bytes, prediction.setting_bytes)
    )
    of = f"{len(prediction.traces)} recordings" if len(prediction.traces) > 1 else "the recording"
    yield (
        f"Predicted from {of}, not measured: {prediction.command or 'the program'} keeps its speed "
        f"(within {100 * prediction.within:g} %) down to {limit}."
    )
    yield (
        f"{least} of that are anonymous and shared memory: below this it would be killed. Reading "
        f"64 KiB of a file again is assumed to take {units.format_quantity(READ_S, 's')}."
    )
    if prediction.read_limit is not False:
        whether = "It read" if prediction.read_limit else "It is not known whether it read"
        yield f"{whether} its cgroup's limit: a program that does may size itself by it."
    looked, guessed = map(units.format_percent, (prediction.looked_share, prediction.guessed_share))
    yield (
        f"Pages used again are known for {looked} of what it touched; the place of {guessed} of "
        "them is a guess."
    )
    yield from (f"Doubt: {doubt}." for doubt in prediction.remarks)
    yield f"To set: {to_set}. To measure it: memlab fit -- COMMAND"


def table(prediction: FitPrediction) -> Table:
    """What would be read again under some of the limits, the answer among them."""
    wanted = [limit for limit in prediction.limits if limit.limit_bytes >= prediction.least_bytes]
    at = next(i for i, limit in enumerate(wanted) if limit.limit_bytes >= prediction.limit_bytes)
    step = max(1, -(-len(wanted) // _ROWS_MAX))
    rows = [
        [units.format_quantity(size, "B") for size in (limit.limit_bytes, limit.read_again_bytes)]
        for i, limit in enumerate(wanted)
        if i in (0, at, len(wanted) - 1) or (i - at) % step == 0
    ]
    return Table("predicted", [Column("limit"), Column("read again")], rows)

"""A store with a run in it."""

from typing import Any

from synthetic import failed, ok, run_row, sample

from memlab.store import PointRow, SampleRow, Store

POINTS = [PointRow(0, {"size": 1}, None), PointRow(1, {"size": 4096}, "large")]


def fill(opened: Store, id: str = "0123abcd", **changes: Any) -> list[SampleRow]:
    """A run with three samples in one session."""
    opened.add_run(run_row(id, **changes), POINTS)
    session = opened.begin_session(id)
    samples = [sample(1, 0, ok(5)), sample(0, 0, failed("error", "why"), 1), sample(0, 1, ok(7))]
    for number, row in enumerate(samples):
        opened.add_sample(id, session, number + 1.0, row)
    opened.end_session(id, session, 3.5, "precise")
    return samples

"""The made-up series of docs/fleet.md: sixty nights of one host, and docs/history.png of them."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memlab import recorded
from memlab.store import PointRow, Store

NIGHTS, STEP_AT = 60, 40


def write(store: Path) -> None:
    """A run a night into a new store; from one on, with another kernel, all takes 5 % longer."""
    with Store(recorded.store("mmap-write")) as opened:
        base = opened.find("mmap-write")
        levels = opened.points(base.id)[0].levels
        model = next(sample for sample in opened.samples(base.id) if sample.outcome == "ok")
    points = [
        PointRow(number, {**levels, "method": method, "size": 64}, None)
        for number, method in enumerate(("mmap", "write"))
    ]
    rng = random.Random(3)
    assert model.raw is not None
    with Store(store, create=True) as opened:
        for number in range(NIGHTS):
            at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
            slower = 1 + rng.gauss(0, 0.01) + 0.05 * (number >= STEP_AT)
            kernel = "6.12.41" if number < STEP_AT else "6.17.8"
            row = replace(
                base,
                id=f"a{number:07x}",
                created_at=at.isoformat(timespec="milliseconds"),
                environment={**base.environment, "kernel_release": kernel},
            )
            opened.add_run(row, points)
            samples = []
            for block in range(10):
                for point in points:
                    window = dict(model.raw["window"])
                    window["elapsed_ns"] *= slower * (1 + rng.gauss(0, 0.02))
                    raw = {**model.raw, "window": window}
                    samples.append(replace(model, point=point.point, block=block, raw=raw))
            opened.add_sample(row.id, opened.begin_session(row.id), 0.0, *samples)
            opened.end_session(row.id, 1, 1.0, "blocks")

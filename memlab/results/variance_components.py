"""What a point's samples vary by: the session, the layout of the probe's code, the block."""

from __future__ import annotations

import numpy as np

from memlab.analysis.variance_components import Spread, variance_components
from memlab.experiment.points import Point
from memlab.results.columns import measurement
from memlab.results.run import Run


def of_point(run: Run, point: Point, metric: str) -> dict[str, Spread]:
    """The relative standard deviation of a sample by component, with 95 % limits: `session`,
    `layout`, and `block` for what differs between blocks of one layout; one that was not
    sampled is left out. Empty where there are too few samples, or where one is not positive."""
    samples = run.valued(metric, point)
    values = samples.column(metric)
    if not len(values) or values.min() <= 0:
        return {}
    found = variance_components(
        values,
        {
            "session": run.session_index(samples),
            "layout": [
                *samples.read(
                    lambda one: measurement((one.context or {}).get("layout", 0)),
                    "the variance components",
                )
            ],
        },
    )
    if "rest" in found:
        found["block"] = found.pop("rest")
    return {
        name: Spread(*(float(np.expm1(end)) for end in (one.deviation, one.low, one.high)))
        for name, one in found.items()
    }

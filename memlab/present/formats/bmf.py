"""Bencher Metric Format: numbers with their intervals, for a service that keeps their history.

https://bencher.dev/docs/reference/bencher-metric-format has the schema. Values are in base units.
"""

from __future__ import annotations

import json

from memlab.present.cases import Cases, Measure
from memlab.text.printable import json_text

_NAME = 1024  # characters; Bencher refuses longer names


def text(cases: Cases) -> str:
    message = json.dumps(
        {
            f"{cases.suite}: {case.name}"[:_NAME]: {
                name: _value(measure) for name, measure in case.measures.items()
            }
            for case in cases.cases
            if case.measures
        },
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )
    return json_text(message)


def _value(measure: Measure) -> dict[str, float]:
    ends = {"lower_value": measure.low, "upper_value": measure.high}
    return {"value": measure.value} | {key: end for key, end in ends.items() if end is not None}

"""Twice the copies of memory take twice as long, whatever copies: no method's work is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from memlab import experiments, probe

from .interleaved import Comparison, interleave, table

pytestmark = pytest.mark.bench

SIZE_BYTES = 1 << 20
PASSES = 40
DOUBLE = (1.9, 2.1)
PRECISION = 0.02


def steady_ms(method: str, passes: int) -> float:
    declared = experiments.load("memcpy")
    at: dict[str, Any] = {factor.name: factor.quick[0] for factor in declared.factors}
    at |= {"method": method, "size": SIZE_BYTES, "passes": passes, "slice": 0.0}
    result = probe.call(declared.probe, declared.params(at, {"folder": ""}))
    assert result["steady_count"] == passes
    return float(result["steady"]["elapsed_ns"] * 1e-6)


def compare(method: str) -> Comparison:
    measured = interleave(
        {
            "single": lambda: steady_ms(method, PASSES),
            "double": lambda: steady_ms(method, 2 * PASSES),
        },
        precision=PRECISION,
    )
    return Comparison(method, measured["double"], measured["single"])


def test_twice_the_copies_take_twice_as_long() -> None:
    methods = experiments.load("memcpy").factor("method").kind.levels or ()
    rows = []
    for method in methods:
        try:
            rows.append(compare(method))
        except probe.ProbeError as refused:
            if refused.status != "unavailable":  # another architecture's instruction
                raise
    print("\n" + table("ms", f"{2 * PASSES} copies", f"{PASSES} copies", rows))
    low, high = DOUBLE
    assert [row.label for row in rows if not low <= row.ratio.estimate <= high] == []

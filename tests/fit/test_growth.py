"""Growth to the end of a run, in series of known shapes."""

from __future__ import annotations

import math

import pytest

from memlab.fit.growth import _steady

MIB, READINGS, SECONDS = 1 << 20, 200, 10.0
SHAPES = {  # MiB at a share of the run; the MiB/s that it grows by
    "steadily": (lambda at: 10 + 30 * at, 3),
    "after a start": (lambda at: 200 * min(1, 10 * at) + 40 * at, 4),
    "while it swings": (lambda at: 30 * at + 20 * (1 + math.sin(200 * at)), 3),
    "swinging only": (lambda at: 20 * (1 + math.sin(200 * at)), None),
    "to a plateau": (lambda at: 40 * min(1, 2 * at), None),
    "in one step": (lambda at: 10 + 30 * (at > 0.6), None),
    "within a phase": (lambda at: 40 * at if at < 0.7 else 5, None),
    "by too little": (lambda at: 100 + 5 * at, None),
    "not at all": (lambda at: 40, None),
}


@pytest.mark.parametrize(("shape", "mib_per_s"), SHAPES.values(), ids=SHAPES.keys())
def test_growth_to_the_end_is_told_from_other_shapes(shape, mib_per_s) -> None:
    shares = [number / READINGS for number in range(READINGS + 1)]
    series = {
        "at_ns": [round(share * SECONDS * 1e9) for share in shares],
        "values": [round(shape(share) * MIB) for share in shares],
    }
    rate = _steady({"anonymous_bytes": series})
    if mib_per_s is None:
        assert rate is None
    else:
        assert rate == pytest.approx(mib_per_s * MIB, rel=0.15)


def test_a_run_with_few_readings_or_gaps_tells_nothing() -> None:
    for times in ([*range(10)], [*range(20), *range(900, 1000)]):
        series = {"at_ns": times, "values": [number * MIB for number in range(len(times))]}
        assert _steady({"anonymous_bytes": series}) is None
    assert _steady({}) is None

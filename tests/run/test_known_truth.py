"""Whole sweeps of a machine whose truth is known: few here, 2,000 by known_truth.py itself."""

import pytest
from known_truth import CLAIMS, WAYS, Tally, many

NOISE = "t, 2 df on logs"  # the one that a precision of 10 % stops soonest
SWEEPS = 100  # a rate of 5 % has a standard error of 2 points, of 3 where half of them count


@pytest.fixture(scope="module", params=WAYS)
def tally(request: pytest.FixtureRequest) -> Tally:
    return many(NOISE, range(SWEEPS), **WAYS[request.param])


@pytest.mark.slow
def test_every_sweep_is_counted(tally: Tally) -> None:
    assert tally.sweeps == SWEEPS
    assert tally.blocks >= SWEEPS * 6
    assert set(tally.words) == {claim.id for claim in CLAIMS}


@pytest.mark.slow
@pytest.mark.parametrize("claim", [claim.id for claim in CLAIMS])
def test_a_claim_at_its_edge_is_rarely_judged_wrongly(tally: Tally, claim: str) -> None:
    assert tally.false(claim) <= 0.05 + 3 * 0.03


@pytest.mark.slow
def test_a_false_verdict_rarely_stands(tally: Tally) -> None:
    assert tally.standing / tally.sweeps <= 0.05 + 2 * 0.02


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["median", "ratio"])
def test_a_printed_interval_holds_the_truth(tally: Tally, interval: str) -> None:
    assert tally.coverage(interval) >= 0.95 - 3 * 0.02

"""A machine that slows by 20 % during the sweep: what pairing by block is for."""

import numpy as np
import pytest

from memlab.analysis.compare import compare
from memlab.analysis.intervals import ratio_interval, unpaired_ratio_interval
from memlab.analysis.verdicts import ratio_verdict

BLOCKS = 20
SLOWDOWN = np.linspace(1, 1.2, BLOCKS)


def steady(ratio, seed=1):
    rng = np.random.default_rng(seed)
    noise = np.exp(0.01 * rng.standard_normal((2, BLOCKS)))
    return ratio * noise[0], noise[1]


def test_the_paired_ratio_does_not_see_it():
    a, b = steady(0.9)
    calm, drifting = ratio_interval(a, b), ratio_interval(a * SLOWDOWN, b * SLOWDOWN)
    assert [drifting.low, drifting.estimate, drifting.high] == pytest.approx(
        [calm.low, calm.estimate, calm.high]
    )


def test_the_paired_verdict_stands_where_the_unpaired_one_falls():
    a, b = steady(0.9)
    assert ratio_verdict(a, b, below=0.92).word == "reproduced"
    assert ratio_verdict(a * SLOWDOWN, b * SLOWDOWN, below=0.92).word == "reproduced"
    assert unpaired_ratio_interval(a, b).high < 0.92
    assert unpaired_ratio_interval(a * SLOWDOWN, b * SLOWDOWN).high > 0.92


def test_equal_costs_measured_one_after_the_other_seem_unequal():
    """Without interleaving a is measured in the first half of the sweep and b in the second."""
    a, b = steady(1.0)
    half = BLOCKS // 2
    early, late = a[:half] * SLOWDOWN[:half], b[half:] * SLOWDOWN[half:]
    assert compare([(a[:half], b[half:])])[0].word == "same"
    assert compare([(early, late)])[0].word == "slower"
    within = ratio_verdict(a * SLOWDOWN, b * SLOWDOWN, above=1 / 1.05, below=1.05)
    assert within.word == "reproduced"

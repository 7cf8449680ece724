"""What so many blocks can show, against simulated experiments."""

from pathlib import Path

import numpy as np
import pytest

from memlab.analysis.compare import compare_paired
from memlab.analysis.intervals import order_interval
from memlab.analysis.power import (
    MOST_BLOCKS,
    blocks_for,
    deviations,
    power_of,
    smallest_change,
)

from .alike import autoregressive
from .planned import (
    SAMPLES,
    SIZES,
    WAYS,
    detectable_kept,
    detectable_rows,
    kept,
    log_ratios,
    low_ends,
    named,
    pilot,
    rows,
    shown,
)
from .tables import NOISES

DOC = Path(__file__).with_name("README.md")


def test_a_ratio_deviates_from_the_median_of_the_others_mostly():
    for n, share in ((6, 0.75), (8, 0.75), (14, 1), (20, 1.25), (21, 1.25)):
        logs = np.random.default_rng(n).standard_normal(n)
        others = [np.median(np.delete(logs, i)) for i in range(n)]
        middle = share * np.array(others) + (1 - share) * np.median(logs)
        assert deviations(logs) == pytest.approx(logs - middle)


@pytest.mark.seconds(but="Pareto 1.1")
@pytest.mark.parametrize("noise", NOISES)
def test_a_pilot_promises_what_is_kept(noise):
    """By draws with replacement 20 ratios kept 76 of 90 for eight blocks that stop by a look."""
    assert kept(noise, (1, 20), 8, 0.9, sequential=True, pilots=40) == pytest.approx(0.9, abs=0.07)
    assert kept(noise, (5, 20), 20, 0.8, pilots=40) == pytest.approx(0.8, abs=0.07)


def test_a_promise_is_kept_if_blocks_resemble_the_one_before():
    """Taken for independent, they keep two thirds of 90 %."""
    rng, n, alike = np.random.default_rng(5), 40, 0.5
    truth = (autoregressive(rng, n, 4000, alike) - autoregressive(rng, n, 4000, alike)).T
    low = order_interval(0.03 * truth, 0.95, True, alike)[0]
    for taken, least, most in ((0.0, 0.4, 0.75), (alike, 0.83, 0.97)):
        found = []
        for _ in range(12):
            over, under = autoregressive(rng, n, 1, alike), autoregressive(rng, n, 1, alike)
            seen = deviations(0.03 * (over - under)[:, 0])
            change = smallest_change(seen, n, 0.9, sequential=True, correlation=taken)
            found.append(np.mean(low > -np.log1p(change)))
        assert least < np.mean(found) < most


def test_a_change_either_way_is_promised():
    """Of skewed ratios, one direction alone would show sooner."""
    logs = np.random.default_rng(1).exponential(size=40)
    up, down = (smallest_change(deviations(way * logs), 20, 0.8) for way in (1, -1))
    assert up == pytest.approx(down)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_blocks_that_are_promised_show_the_change(noise):
    """The other way round: of a change that 30 blocks show with 80 %."""
    change = float(np.expm1(-np.quantile(low_ends(noise, 30, sequential=False), 0.2)))
    pilots = [pilot(noise, seed, 6, 20) for seed in range(60)]
    found = [shown(noise, change, blocks_for(seen, change, 0.8)) for seen in pilots]
    assert np.mean(found) == pytest.approx(0.8, abs=0.07)


def documented():
    found = {}
    for line in DOC.read_text().splitlines():
        label, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        if label.split(", ")[0] in [named(*size) for size in SIZES]:
            found[label] = [float(cell) for cell in cells]
    return found


def test_every_row_is_documented():
    assert list(documented()) == list(rows())


@pytest.mark.slow
@pytest.mark.parametrize(
    "label", [label for label in rows() if label.startswith("1 pair of 20, s")]
)
def test_documented_row(label):
    assert documented()[label] == pytest.approx(rows()[label](), abs=0.1)


def test_blocks_for_a_change_are_the_least():
    seen = deviations(log_ratios("lognormal", np.random.default_rng(1), 600))
    blocks = blocks_for(seen, 0.5, 0.9)
    assert power_of(seen, 0.5, blocks) >= 0.9 > power_of(seen, 0.5, blocks - 1)
    assert shown("lognormal", 0.5, blocks) == pytest.approx(0.9, abs=0.07)  # of this one pilot


def test_what_a_thousand_blocks_do_not_show():
    seen = deviations(log_ratios("lognormal", np.random.default_rng(1), 600))
    assert power_of(seen, 1e-4, MOST_BLOCKS) < 0.5
    assert blocks_for(seen, 1e-4, 0.9) is None


def test_equal_samples_show_any_change_at_once():
    assert blocks_for(deviations([1.0] * 8), 0.001, 0.9) == 6
    assert smallest_change(deviations([1.0] * 8), 6, 0.9) == 0


def test_a_spread_needs_samples():
    with pytest.raises(ValueError, match="6 ratios: 5"):
        deviations([0.0] * 5)


def could_documented():
    found = {}
    for line in DOC.read_text().splitlines():
        label, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        if label.startswith(WAYS):
            found[label] = [float(cell) for cell in cells[1:]]
    return found


def test_what_could_have_shown_is_documented_and_within_five_points_from_twelve_samples_on():
    found = could_documented()
    assert list(found) == list(detectable_rows())
    for label, cells in found.items():
        assert cells[SAMPLES.index(12) :] == pytest.approx([90] * 3, abs=5.2), label


@pytest.mark.seconds(but="pairs, --blocks")
@pytest.mark.parametrize("way", WAYS)
def test_a_detectable_change_is_detected(way):
    """A half-width times a normal's factor promised 90 % of two modes and kept 55 to 65."""
    assert detectable_kept("bimodal 50/50", 20, way, runs=80) == pytest.approx(0.9, abs=0.07)


def test_nothing_is_detectable_without_an_interval():
    (few,) = compare_paired([([1.0] * 5, [1.0] * 5)])
    assert few.detectable is None
    (same,) = compare_paired([([1.0] * 6, [1.0] * 6)], 0.05)
    assert same.detectable == pytest.approx(0.05)


def test_beside_other_points_a_change_has_to_be_larger():
    """Benjamini and Hochberg leave the only find of ten a tenth of the error."""
    rng = np.random.default_rng(6)
    pairs = [tuple(np.exp(0.05 * rng.standard_normal((2, 30)))) for _ in range(10)]
    (alone,), (beside, *_) = compare_paired(pairs[:1]), compare_paired(pairs)
    assert beside.detectable > alone.detectable

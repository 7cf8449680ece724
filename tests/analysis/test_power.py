"""What so many blocks can show, against simulated experiments."""

from pathlib import Path

import numpy as np
import pytest

from memlab.analysis.compare import compare_paired
from memlab.analysis.power import (
    MOST_BLOCKS,
    blocks_for,
    power_of,
    smallest_change,
)

from .planned import (
    BLOCKS,
    POWERS,
    SAMPLES,
    SIZES,
    WAYS,
    could_kept,
    could_rows,
    kept,
    log_ratios,
    low_ends,
    rows,
    shown,
)
from .tables import NOISES

DOC = Path(__file__).parents[2] / "docs" / "reference" / "error-rates.md"


@pytest.mark.parametrize("noise", NOISES)
def test_sixty_ratios_promise_what_they_keep(noise):
    """Smoothed by a kernel, two equal modes kept 71 of 80: it fills the gaps between modes."""
    assert kept(noise, 60, 20, 0.8, pilots=150) == pytest.approx(0.8, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_blocks_that_are_promised_show_the_change(noise):
    """The other way round: of a change that 30 blocks show with 80 %."""
    change = float(np.expm1(-np.quantile(low_ends(noise, 30, looked=False), 0.2)))
    pilots = [log_ratios(noise, np.random.default_rng(seed), 120) for seed in range(60)]
    found = [shown(noise, change, blocks_for(pilot, change, 0.8)) for pilot in pilots]
    assert np.mean(found) == pytest.approx(0.8, abs=0.05)


def documented():
    found = {}
    for line in DOC.read_text().splitlines():
        label, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        if label.split(" ratios, ")[0] in map(str, SIZES):
            found[label] = [float(cell) for cell in cells]
    return found


def test_every_row_is_documented():
    assert list(documented()) == list(rows())


@pytest.mark.parametrize("label", [label for label in rows() if not label.startswith("20 ")])
def test_from_sixty_ratios_on_a_documented_row_is_within_five_points(label):
    promised = [100 * power for _ in BLOCKS for power in POWERS]
    assert documented()[label] == pytest.approx(promised, abs=5)


@pytest.mark.slow
@pytest.mark.parametrize("label", [label for label in rows() if label.startswith("60 ")])
def test_documented_row(label):
    assert documented()[label] == pytest.approx(rows()[label](), abs=0.1)


def test_blocks_for_a_change_are_the_least():
    pilot = log_ratios("lognormal", np.random.default_rng(1), 600)
    blocks = blocks_for(pilot, 0.5, 0.9)
    assert power_of(pilot, 0.5, blocks) >= 0.9 > power_of(pilot, 0.5, blocks - 1)
    assert shown("lognormal", 0.5, blocks) == pytest.approx(0.9, abs=0.07)  # of this one pilot


def test_what_a_thousand_blocks_do_not_show():
    pilot = log_ratios("lognormal", np.random.default_rng(1), 600)
    assert power_of(pilot, 1e-4, MOST_BLOCKS) < 0.5
    assert blocks_for(pilot, 1e-4, 0.9) is None


def test_equal_samples_show_any_change_at_once():
    assert blocks_for([0.0] * 8, 0.001, 0.9) == 6
    assert smallest_change([0.0] * 8, 6, 0.9) == 0


def test_a_spread_needs_samples():
    with pytest.raises(ValueError, match="6 ratios: 5"):
        smallest_change([0.0] * 5, 20, 0.9)


def could_documented():
    found = {}
    for line in DOC.read_text().splitlines():
        label, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        if label.startswith(WAYS):
            found[label] = [float(cell) for cell in cells[1:]]
    return found


def test_what_could_have_shown_is_documented_and_within_five_points_from_twelve_samples_on():
    found = could_documented()
    assert list(found) == list(could_rows())
    for label, cells in found.items():
        assert cells[SAMPLES.index(12) :] == pytest.approx([90] * 3, abs=5.2), label


@pytest.mark.parametrize("way", WAYS)
def test_what_could_have_shown_would_have(way):
    """A half-width times a normal's factor promised 90 % of two modes and kept 55 to 65."""
    assert could_kept("bimodal 50/50", 20, way, runs=80) == pytest.approx(0.9, abs=0.07)


def test_nothing_could_have_shown_without_an_interval():
    (few,) = compare_paired([([1.0] * 5, [1.0] * 5)])
    assert few.could_show is None
    (same,) = compare_paired([([1.0] * 6, [1.0] * 6)], 0.05)
    assert same.could_show == pytest.approx(0.05)


def test_beside_other_points_a_change_has_to_be_larger():
    """Benjamini and Hochberg leave the only find of ten a tenth of the error."""
    rng = np.random.default_rng(6)
    pairs = [tuple(np.exp(0.05 * rng.standard_normal((2, 30)))) for _ in range(10)]
    (alone,), (beside, *_) = compare_paired(pairs[:1]), compare_paired(pairs)
    assert beside.could_show > alone.could_show

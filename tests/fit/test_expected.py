"""What is expected of limits, by memory that was used in windows of known programs."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from memlab.fit.expected import PAGE_BYTES, Episode, Expected, episodes

MIB = 1 << 20
RESIDENT = 80 * MIB
WINDOWS = [0.05 * 2**n for n in range(8)]


def _of(footprint, windows=WINDOWS) -> Episode:
    return Episode([(seconds, footprint(seconds)) for seconds in windows], RESIDENT)


def test_a_loop_needs_what_it_loops_over() -> None:
    """10 MiB in a loop of 1.6 s: each pass brings all of it back, if there is room for less."""
    loop = Expected(3 * MIB, [_of(lambda seconds: 10 * MIB * min(1.0, seconds / 1.6))])
    assert loop.reused_bytes(0.05) == 10 * MIB  # of the 80 that are resident
    for mib in (3, 5, 9, 12.9):
        rate = loop.refaults_per_s(round(mib * MIB))
        assert rate == pytest.approx(10 * MIB / PAGE_BYTES / 1.6, rel=0.45)
    assert loop.refaults_per_s(13 * MIB) == 0
    assert loop.refaults_per_s(2 * MIB) is None


def test_rarely_used_memory_is_worth_its_refaults_only_if_they_are_many() -> None:
    """Pages that are used once in a while, longer than any window: the longest says how many."""

    def rare(per_s: float) -> Expected:
        return Expected(0, [_of(lambda seconds: 4 * MIB + per_s * PAGE_BYTES * seconds)])

    assert rare(300).reused_bytes(0.05) == 4 * MIB + 300 * PAGE_BYTES * WINDOWS[0]
    for per_s in (600, 1000):
        footprint_bytes = 4 * MIB + per_s * PAGE_BYTES * WINDOWS[-1]
        reused_bytes = rare(per_s).reused_bytes(0.05) or 0
        assert 0.6 * footprint_bytes < reused_bytes < 2 * footprint_bytes
    assert rare(600).refaults_per_s(5 * MIB) == pytest.approx(600, rel=0.45)


def test_refaults_fall_with_the_limit_by_the_shape_of_use() -> None:
    """A footprint that rises by the logarithm of the window, as of a Zipf reader."""
    reader = Expected(0, [_of(lambda s: 10 * MIB * math.log2(1 + s / 0.05))])
    rates = [reader.refaults_per_s(mib * MIB) for mib in (20, 30, 40, 50, 60, 70)]
    assert reader.refaults_per_s(75 * MIB) == pytest.approx(rates[-1] / 2, rel=0.1)
    assert reader.refaults_per_s(RESIDENT) == 0
    assert all(0.35 < after / before < 0.6 for before, after in pairwise(rates))


def test_episodes_count_by_their_length_and_an_idle_one_adds_nothing() -> None:
    busy, idle = _of(lambda seconds: 8 * MIB * seconds), _of(lambda _: 0.0)
    alone, both = Expected(0, [busy]), Expected(0, [busy, idle])
    assert both.refaults_per_s(MIB) == pytest.approx(alone.refaults_per_s(MIB) / 2)


def test_files_can_be_read_again_without_swap_and_all_memory_with_it() -> None:
    rows = [[0.1, 7, 90, 4, 10], [0.2, 47, 60, 3, 30]]
    (all_of,) = episodes({"episodes": [rows]}, with_anonymous=True)
    assert all_of == Episode([(0.1, 11), (0.2, 50)], 100)
    (of_files,) = episodes({"episodes": [rows]}, with_anonymous=False)
    assert of_files == Episode([(0.1, 4), (0.2, 4)], 30)  # no less is used in a longer window
    for nothing in ([], [[]], [[[0.0, 7, 90, 4, 10]]]):  # no window, and one of no time
        assert episodes({"episodes": nothing}, with_anonymous=True) == []
    assert episodes({}, with_anonymous=True) == []


def test_without_windows_the_floor_is_all_that_is_known() -> None:
    unknown = Expected(7 * MIB)
    assert unknown.reused_bytes(0.05) is None
    assert unknown.refaults_per_s(9 * MIB) is None
